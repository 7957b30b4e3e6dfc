//! One calibration, from connecting to distributions.

use std::sync::atomic::AtomicBool;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_linux::clock::{Monotonic, cpu_time_of_process, sleep_until};
use tailbound_model::{Arrivals, ExecutionTime, Protocol, Service, Task};
use tailbound_time::{Clock, ClockId, Duration};

use super::{BusyRate, Calibration, CalibrationPlan, ServiceTimeSource};
use crate::MeasurementError;
use crate::client_thread::enter_client_thread;
use crate::exchange::{Exchange, RoundTrip};
use crate::request::{Busy, Filling, RequestTemplate};

/// How long one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// From a reply to reading the service's CPU time: by then it sleeps, and only the CPU time of
/// sleeping threads is exact when read from another CPU.
const SETTLE: Duration = Duration::from_micros(200);
/// The longest pause between requests: it is there to let the CPU go idle as it does under load,
/// for the deeper it sleeps, the longer a request takes to wake the service.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);
/// Trivial requests that are counted.
const TRIVIAL_REQUESTS: u32 = 100;
/// The execution time at which the count of busy iterations is large enough to be measured.
const BUSY_TARGET: Duration = Duration::from_millis(2);
/// Requests per count of busy iterations. The shortest counts: a loop always takes as long, and
/// whatever else there is on the machine can only prolong it.
const BUSY_REQUESTS: usize = 15;
/// The largest count of busy iterations tried.
const BUSY_MOST_ITERATIONS: u64 = 1 << 32;

/// One request's time, seen from both ends.
#[derive(Clone, Copy, Debug)]
struct Sample {
    round_trip: Duration,
    /// CPU time of the service's process across the request.
    process: Option<Duration>,
}

/// A calibration under way.
pub(super) struct Session<'a> {
    plan: &'a CalibrationPlan,
    exchange: Exchange<'a>,
    random: ChaCha8Rng,
    index: u64,
    /// Idle time before each request.
    pause: Duration,
    /// The process to ask, as long as it tells something.
    process: Option<u32>,
    remarks: Vec<String>,
}

impl<'a> Session<'a> {
    /// Enters the planned CPU and priority and connects.
    pub(super) fn open(
        plan: &'a CalibrationPlan,
        stop: &'a AtomicBool,
    ) -> Result<Self, MeasurementError> {
        let mut remarks = Vec::new();
        enter_client_thread(plan.cpu, plan.fifo_priority, &mut remarks)?;
        Ok(Self {
            plan,
            exchange: Exchange::open(&plan.endpoint, plan.service.protocol, stop)?,
            random: ChaCha8Rng::seed_from_u64(plan.seed),
            index: 0,
            pause: usual_gap(&plan.service).clamp(SETTLE, LONGEST_PAUSE),
            process: plan.process,
            remarks,
        })
    }

    /// Measures everything.
    pub(super) fn carry_out(mut self) -> Result<Calibration, MeasurementError> {
        let trivial = self.trivial()?;
        self.check_process(&trivial)?;
        let busy = self.busy_rate()?;
        let mut samples = Vec::new();
        for name in self.plan.service.tasks.keys() {
            if let Some(measured) = self.task(name, busy)? {
                samples.push((name.clone(), measured));
            }
        }
        Ok(self.summarize(&trivial, samples, busy))
    }

    fn trivial(&mut self) -> Result<Vec<Sample>, MeasurementError> {
        let Some(template) = RequestTemplate::trivial(self.plan.service.protocol) else {
            return Ok(Vec::new());
        };
        let mut samples = Vec::new();
        for round in 0..TRIVIAL_REQUESTS + 10 {
            let sample = self.sample(
                &template,
                Busy::Unknown,
                Duration::ZERO,
                "a trivial request",
            )?;
            if round >= 10 {
                samples.push(sample);
            }
        }
        Ok(samples)
    }

    /// Drops a process that shows no CPU time: a wrapper around the one that does the work.
    fn check_process(&mut self, trivial: &[Sample]) -> Result<(), MeasurementError> {
        let Some(process) = self.process else {
            return Ok(());
        };
        let told = |sample: &Sample| sample.process.is_some_and(|time| !time.is_zero());
        let silent = !trivial.is_empty() && !trivial.iter().any(told);
        if let Err(cause) = cpu_time_of_process(process) {
            self.remarks.push(format!(
                "the CPU time of process {process} cannot be read ({cause}); execution times are \
                 round trips"
            ));
            self.process = None;
        } else if silent {
            self.remarks.push(format!(
                "process {process} used no CPU time while the service answered: it is not the one \
                 that serves; execution times are round trips"
            ));
            self.process = None;
        }
        Ok(())
    }

    fn task(
        &mut self,
        name: &str,
        busy: Option<BusyRate>,
    ) -> Result<Option<Vec<Sample>>, MeasurementError> {
        let template = RequestTemplate::of_task(&self.plan.service, name)?;
        let busy = busy.map_or(Busy::Unknown, Busy::Rate);
        let step = format!("a request of task {name}");
        let begin = Monotonic.now();
        let mut samples = Vec::new();
        for round in 0..self.plan.warm_up.saturating_add(self.plan.requests) {
            let Some(execution) = self.execution(name)? else {
                return Ok(None);
            };
            let sample = self.sample(&template, busy, execution, &step)?;
            let late = Monotonic.now().saturating_since(begin) > self.plan.limit;
            // Where requests are so long that the warm-up alone takes all the time, what there is
            // has to do.
            if round >= self.plan.warm_up || late {
                samples.push(sample);
            }
            if late {
                break;
            }
        }
        Ok(Some(samples))
    }

    /// The work to ask the synthetic service for; nothing where the description leaves it open.
    fn execution(&mut self, name: &str) -> Result<Option<Duration>, MeasurementError> {
        if self.plan.service.protocol != Protocol::Synthetic {
            return Ok(Some(Duration::ZERO));
        }
        let task = self.plan.service.tasks.get(name);
        Ok(match task.map(|task| &task.execution_time) {
            Some(ExecutionTime::Constant { value }) => Some(*value),
            Some(ExecutionTime::Uniform { min, max }) => {
                let drawn = self.random.random_range(min.as_nanos()..=max.as_nanos());
                Some(Duration::from_nanos(drawn))
            }
            Some(ExecutionTime::Calibrated {
                expected: Some(expected),
            }) => Some(*expected),
            _ => {
                self.remarks.push(format!(
                    "task {name} was not calibrated: the synthetic service is not told how long \
                     to work for it"
                ));
                None
            }
        })
    }

    fn sample(
        &mut self,
        template: &RequestTemplate,
        busy: Busy,
        execution: Duration,
        step: &str,
    ) -> Result<Sample, MeasurementError> {
        let before = self.process_time();
        self.index += 1;
        let mut filling = Filling {
            index: self.index,
            random: &mut self.random,
            busy,
            execution,
        };
        let give_up = Monotonic.now().saturating_add(REQUEST_LIMIT);
        let trip: RoundTrip = self
            .exchange
            .request(template, &mut filling, step, give_up)?;
        let _early_at_worst = sleep_until(trip.replied + self.pause);
        let process = match (before, self.process_time()) {
            (Some(before), Some(after)) => Some(after.saturating_sub(before)),
            _ => None,
        };
        Ok(Sample {
            round_trip: trip.length(),
            process,
        })
    }

    fn process_time(&self) -> Option<Duration> {
        cpu_time_of_process(self.process?).ok()
    }

    /// Finds the rate of busy iterations: doubles the count until it takes long enough, then takes
    /// the slope between that and twice as many, which leaves out what every request costs.
    fn busy_rate(&mut self) -> Result<Option<BusyRate>, MeasurementError> {
        let service = &self.plan.service;
        let mut found = None;
        for name in service.tasks.keys() {
            let template = RequestTemplate::of_task(service, name)?;
            if template.needs_busy_rate() {
                found = Some((name.clone(), template));
                break;
            }
        }
        let Some((name, template)) = found else {
            return Ok(None);
        };
        let mut iterations = 1_000;
        let mut time = self.busy_time(&template, iterations)?;
        while time < BUSY_TARGET {
            iterations *= 2;
            if iterations > BUSY_MOST_ITERATIONS {
                return Err(busy_without_effect(&name));
            }
            time = self.busy_time(&template, iterations)?;
        }
        let twice = self.busy_time(&template, iterations * 2)?;
        let slope = twice.saturating_sub(time);
        // Twice the iterations should take about twice as long.
        if slope < time / 4 {
            return Err(busy_without_effect(&name));
        }
        Ok(Some(BusyRate {
            iterations_per_millisecond: iterations as f64 / slope.as_millis_f64(),
        }))
    }

    fn busy_time(
        &mut self,
        template: &RequestTemplate,
        iterations: u64,
    ) -> Result<Duration, MeasurementError> {
        let mut shortest = Duration::MAX;
        for _ in 0..BUSY_REQUESTS {
            let busy = Busy::Iterations(iterations);
            let sample = self.sample(template, busy, Duration::ZERO, "finding the busy rate")?;
            shortest = shortest.min(sample.process.unwrap_or(sample.round_trip));
        }
        Ok(shortest)
    }

    fn summarize(
        mut self,
        trivial: &[Sample],
        samples: Vec<(String, Vec<Sample>)>,
        busy: Option<BusyRate>,
    ) -> Calibration {
        let round_trips = |samples: &[Sample]| -> Vec<Duration> {
            samples.iter().map(|sample| sample.round_trip).collect()
        };
        let empty_trip = match trivial.is_empty() {
            true => Duration::ZERO,
            false => median(round_trips(trivial)),
        };
        let source = match self.process {
            Some(_) => ServiceTimeSource::ProcessCpuTime,
            None => ServiceTimeSource::RoundTrip,
        };
        if source == ServiceTimeSource::RoundTrip && trivial.is_empty() {
            self.remarks.push(
                "execution times are whole round trips, dispatching included: name the service's \
                 process to tell them apart"
                    .into(),
            );
        }
        let execution = |sample: &Sample| match source {
            ServiceTimeSource::ProcessCpuTime => sample.process.unwrap_or(sample.round_trip),
            ServiceTimeSource::RoundTrip => sample.round_trip.saturating_sub(empty_trip),
        };
        let method = match source {
            ServiceTimeSource::ProcessCpuTime => "CPU time of the service's process per request",
            ServiceTimeSource::RoundTrip => "round trip less the median trivial round trip",
        };
        let name = &self.plan.name;
        let mut overheads = Vec::new();
        let mut calibration = Calibration {
            execution_times: [].into(),
            round_trips: [].into(),
            trivial_round_trip: (!trivial.is_empty()).then(|| {
                let subject = format!("round trip of a trivial request to {name}");
                self.distribution(subject, "one request at a time", round_trips(trivial))
            }),
            dispatch_overhead: self.distribution(
                format!("dispatch overhead of {name}"),
                "round trip less execution time, one request at a time",
                Vec::new(),
            ),
            source,
            busy,
            remarks: self.remarks.clone(),
        };
        for (task, samples) in &samples {
            let times: Vec<Duration> = samples.iter().map(execution).collect();
            let trips = round_trips(samples);
            overheads.extend(trips.iter().zip(&times).map(|(a, b)| a.saturating_sub(*b)));
            let subject = format!("execution time of {name}.{task}");
            let times = self.distribution(subject, method, times);
            calibration.execution_times.insert(task.clone(), times);
            let subject = format!("round trip of {name}.{task}");
            let trips = self.distribution(subject, "one request at a time", trips);
            calibration.round_trips.insert(task.clone(), trips);
        }
        calibration.dispatch_overhead =
            Distribution::from_samples(calibration.dispatch_overhead.provenance, overheads);
        calibration
    }

    fn distribution(&self, subject: String, method: &str, values: Vec<Duration>) -> Distribution {
        let provenance = Provenance {
            seed: Some(self.plan.seed),
            clock: Some(ClockId::Monotonic),
            host: self.plan.host.clone(),
            assumptions: vec![
                "the service is idle before each request, on a CPU of its own".into(),
                format!("the first {} requests are left out", self.plan.warm_up),
            ],
            ..Provenance::new(Evidence::Sample, subject, method)
        };
        Distribution::from_samples(provenance, values)
    }
}

/// The mean time between two requests of the service under its load.
fn usual_gap(service: &Service) -> Duration {
    let per_second = |task: &Task| {
        let one = match &task.arrivals {
            Arrivals::Periodic { period, .. } => 1.0 / period.as_secs_f64(),
            Arrivals::Sporadic {
                min_gap, max_gap, ..
            } => 2.0 / (*min_gap + *max_gap).as_secs_f64(),
            Arrivals::Poisson { rate } => rate.as_per_second(),
            // Known only when the file is read; the other tasks say enough.
            Arrivals::Trace { .. } => 0.0,
        };
        one * f64::from(task.clients)
    };
    let together: f64 = service.tasks.values().map(per_second).sum();
    // No rate at all makes the longest gap.
    Duration::from_secs_f64_nearest(1.0 / together)
}

fn busy_without_effect(task: &str) -> MeasurementError {
    MeasurementError::BadPlan {
        what: format!("the {{busy:...}} of task {task} does not change how long its request takes"),
        remedy: "let the request loop so many times, such as EVAL \"for i = 1, ARGV[1] do end\" 0 \
                 {busy:2ms}"
            .into(),
    }
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
