//! One round of a calibration, from connecting to samples.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_linux::clock::{Monotonic, cpu_time_of_process, sleep_until};
use tailbound_linux::process::with_descendants;
use tailbound_model::{ContinuousLaw, ExecutionTime, Protocol, Service, Task};
use tailbound_time::{Clock, Duration, Rate};

use super::{BusyRate, CalibrationPlan, CalibrationRound, RoundRequest};
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
/// Trivial requests that are counted, after a few that are not.
const TRIVIAL_REQUESTS: u32 = 20;

/// A round under way.
pub(super) struct CalibrationSession<'a> {
    plan: &'a CalibrationPlan,
    exchange: Exchange<'a>,
    random: ChaCha8Rng,
    index: u64,
    /// Idle time before each request.
    pause: Duration,
    /// The processes to ask, as long as they tell something.
    processes: Option<BTreeSet<u32>>,
    remarks: Vec<String>,
}

impl<'a> CalibrationSession<'a> {
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
            processes: plan.process.map(|process| [process].into()),
            remarks,
        })
    }

    /// Measures everything.
    pub(super) fn carry_out(mut self) -> Result<CalibrationRound, MeasurementError> {
        let trivial = self.trivial()?;
        self.add_workers();
        if !trivial.is_empty() {
            self.check_processes(&trivial);
        }
        let busy = match self.plan.busy {
            Some(rate) => Some(rate),
            None => self.busy_rate()?,
        };
        let mut tasks = BTreeMap::new();
        for name in self.plan.service.tasks.keys() {
            if let Some(measured) = self.task(name, busy)? {
                tasks.insert(name.clone(), measured);
            }
        }
        let requests: Vec<RoundRequest> = tasks.values().flatten().copied().collect();
        if !requests.is_empty() {
            self.check_processes(&requests);
        }
        Ok(CalibrationRound {
            trivial,
            tasks,
            process_told: self.processes.is_some(),
            busy,
            remarks: self.remarks,
        })
    }

    fn trivial(&mut self) -> Result<Vec<RoundRequest>, MeasurementError> {
        let Some(template) = RequestTemplate::trivial(self.plan.service.protocol) else {
            return Ok(Vec::new());
        };
        let mut samples = Vec::new();
        for round in 0..TRIVIAL_REQUESTS + 3 {
            let sample = self.sample(
                &template,
                Busy::Unknown,
                Duration::ZERO,
                "a trivial request",
            )?;
            if round >= 3 {
                samples.push(sample);
            }
        }
        Ok(samples)
    }

    /// Adds the processes that the service has made: workers, and those of single connections.
    fn add_workers(&mut self) {
        if let Some(process) = self.plan.process.filter(|_| self.processes.is_some())
            && let Ok(all) = with_descendants(&[process].into())
        {
            self.processes = Some(all);
        }
    }

    /// Drops processes that cannot be asked, or that showed no CPU time during these requests: a wrapper around the one
    /// that does the work, or workers that end with their request.
    fn check_processes(&mut self, requests: &[RoundRequest]) {
        let Some(process) = self.plan.process.filter(|_| self.processes.is_some()) else {
            return;
        };
        let has_time = |sample: &RoundRequest| sample.process.is_some_and(|time| !time.is_zero());
        if let Err(cause) = cpu_time_of_process(process) {
            self.remarks.push(format!(
                "the CPU time of process {process} cannot be read ({cause}); execution times are \
                 round trips"
            ));
            self.processes = None;
        } else if !requests.iter().any(has_time) {
            self.remarks.push(format!(
                "process {process} used no CPU time while the service answered: it is not the one \
                 that serves; execution times are round trips"
            ));
            self.processes = None;
        }
    }

    fn task(
        &mut self,
        name: &str,
        busy: Option<BusyRate>,
    ) -> Result<Option<Vec<RoundRequest>>, MeasurementError> {
        let template =
            RequestTemplate::of_task(&self.plan.service, name, self.plan.parameters.as_ref())?;
        let busy = busy.map_or(Busy::Unknown, Busy::Rate);
        let step = format!("a request of task {name}");
        let limit = self.plan.limit / self.plan.service.tasks.len().max(1) as u64;
        let begin = Monotonic.now();
        let mut samples = Vec::new();
        for round in 0..self.plan.warm_up.saturating_add(self.plan.requests) {
            let Some(execution) = self.execution(name)? else {
                return Ok(None);
            };
            let sample = self.sample(&template, busy, execution, &step)?;
            let late = Monotonic.now().saturating_since(begin) > limit;
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
            Some(time @ (ExecutionTime::Exponential { .. } | ExecutionTime::Lognormal { .. })) => {
                let law = ContinuousLaw::of(time);
                law.map(|law| law.exceeded_by(self.random.random()))
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
    ) -> Result<RoundRequest, MeasurementError> {
        let before = self.process_time();
        self.index += 1;
        let row = self.plan.parameters.as_ref().map(|table| {
            let index = self.index as usize;
            table.row(index % table.sessions().max(1), index)
        });
        let mut filling = Filling {
            index: self.index,
            random: &mut self.random,
            busy,
            execution,
            parameters: row.unwrap_or_default(),
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
        Ok(RoundRequest {
            sent: trip.sent,
            round_trip: trip.length(),
            process,
            asked: execution,
            stalled: false,
        })
    }

    /// The CPU time of the processes that are there; one that ends takes its time with it.
    fn process_time(&self) -> Option<Duration> {
        let processes = self.processes.as_ref()?.iter();
        let times = processes.filter_map(|process| cpu_time_of_process(*process).ok());
        Some(times.fold(Duration::ZERO, Duration::saturating_add))
    }

    /// The rate of the first task that asks for one, if any does.
    fn busy_rate(&mut self) -> Result<Option<BusyRate>, MeasurementError> {
        let service = &self.plan.service;
        for name in service.tasks.keys() {
            let template = RequestTemplate::of_task(service, name, self.plan.parameters.as_ref())?;
            if template.needs_busy_rate() {
                return BusyRate::find(name, |iterations| self.busy_time(&template, iterations))
                    .map(Some);
            }
        }
        Ok(None)
    }

    fn busy_time(
        &mut self,
        template: &RequestTemplate,
        iterations: u64,
    ) -> Result<Duration, MeasurementError> {
        let busy = Busy::Iterations(iterations);
        let sample = self.sample(template, busy, Duration::ZERO, "finding the busy rate")?;
        Ok(sample.process.unwrap_or(sample.round_trip))
    }
}

/// The mean time between two requests of the service under its load.
fn usual_gap(service: &Service) -> Duration {
    let rates = service.tasks.values().filter_map(Task::mean_rate);
    let together: f64 = rates.map(Rate::as_per_second).sum();
    // No rate at all makes the longest gap.
    Duration::from_secs_f64_nearest(1.0 / together)
}
