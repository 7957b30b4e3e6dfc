//! From the rounds of a calibration to distributions.

use std::collections::BTreeMap;

use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_time::{ClockId, Duration, Instant};

use super::{BusyRate, Calibration, CalibrationPlan, ServiceTimeSource};
use crate::SupplyTrace;

/// A round counts if its times are at most this many per cent longer than those of the round in
/// the middle.
const LONGER_PER_CENT: u64 = 50;
/// Rounds whose times differ by at most this many per cent are alike.
const ALIKE_PER_CENT: u64 = 15;

/// One request's time, seen from both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundRequest {
    /// When it was sent, on CLOCK_MONOTONIC.
    pub sent: Instant,
    /// From just before the write to just after the read.
    pub round_trip: Duration,
    /// CPU time of the service's process across the request, if it can be told.
    pub process: Option<Duration>,
    /// The execution time that it asked the synthetic service for; else zero.
    pub asked: Duration,
    /// Whether the service's CPU was taken away meanwhile, as the sampler of its supply has seen. Such a
    /// request does not count: what the host takes is not execution, and stands in the record of the supply.
    pub stalled: bool,
}

/// What one round measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CalibrationRound {
    /// Requests that ask for no work; none for HTTP, which has no such request.
    pub trivial: Vec<RoundRequest>,
    /// Each task's requests.
    pub tasks: BTreeMap<String, Vec<RoundRequest>>,
    /// Whether the named process is the one that serves.
    pub process_told: bool,
    /// The rate of `{busy:...}`, if a request uses it.
    pub busy: Option<BusyRate>,
    /// What should be known when reading the result.
    pub remarks: Vec<String>,
}

impl CalibrationRound {
    /// Marks the requests during which the service's CPU was taken away.
    pub fn mark_stalled(&mut self, supply: &[&SupplyTrace]) {
        let requests = self.tasks.values_mut().flatten().chain(&mut self.trivial);
        for request in requests {
            let replied = request.sent.saturating_add(request.round_trip);
            let mut traces = supply.iter();
            request.stalled = traces.any(|trace| trace.is_interrupted(request.sent, replied));
        }
    }

    /// The median round trip of each task.
    pub fn median_round_trips(&self) -> BTreeMap<String, Duration> {
        let of_task = |(name, requests): (&String, &Vec<RoundRequest>)| {
            let trips = requests.iter().map(|request| request.round_trip);
            (name.clone(), median(trips))
        };
        self.tasks.iter().map(of_task).collect()
    }

    /// The sum of the median round trips of all tasks: long in a round that was disturbed.
    fn weight(&self) -> Duration {
        self.median_round_trips().into_values().sum()
    }
}

/// Which of `rounds` count: those whose median round trips are, in sum, at most 50% longer than in
/// the round in the middle. Longer ones were disturbed by something that is not always there;
/// smaller differences are the machine's own, which a run will see as well.
pub fn counting(rounds: &[CalibrationRound]) -> Vec<&CalibrationRound> {
    let middle = median(rounds.iter().map(CalibrationRound::weight));
    let most = middle.scaled_down(100 + LONGER_PER_CENT, 100);
    rounds
        .iter()
        .filter(|round| round.weight() <= most)
        .collect()
}

/// By how many per cent the slowest of the rounds that count is slower than the quickest.
pub fn spread_per_cent(rounds: &[CalibrationRound]) -> u64 {
    let weights = || counting(rounds).into_iter().map(CalibrationRound::weight);
    match (weights().min(), weights().max()) {
        (Some(least), Some(most)) if !least.is_zero() => {
            let hundredths = u128::from(most.as_nanos()) * 100 / u128::from(least.as_nanos());
            u64::try_from(hundredths).unwrap_or(u64::MAX) - 100
        }
        _ => 0,
    }
}

/// Whether the rounds say the same, so that more of them would hardly say more.
pub fn alike(rounds: &[CalibrationRound]) -> bool {
    spread_per_cent(rounds) <= ALIKE_PER_CENT
}

impl Calibration {
    /// What the rounds that count say together; `plan` is what they have in common.
    pub fn of_rounds(plan: &CalibrationPlan, rounds: &[CalibrationRound]) -> Self {
        let kept = counting(rounds);
        // One round that cannot tell leaves the sources mixed, so all go by round trips then.
        let by_process = !kept.is_empty() && kept.iter().all(|round| round.process_told);
        let trivial: Vec<RoundRequest> = kept.iter().flat_map(|r| r.trivial.clone()).collect();
        let trivial = undisturbed(&trivial);
        let pool = RequestPool {
            plan,
            source: if by_process {
                ServiceTimeSource::ProcessCpuTime
            } else {
                ServiceTimeSource::RoundTrip
            },
            empty_trip: median(trivial.iter().map(|request| request.round_trip)),
        };
        let mut remarks = remarks(rounds, kept.len());
        if !by_process && trivial.is_empty() {
            remarks.push(
                "execution times are whole round trips, dispatching included: name the service's \
                 process to tell them apart"
                    .into(),
            );
        }
        let mut calibration = Self {
            execution_times: BTreeMap::new(),
            round_trips: BTreeMap::new(),
            trivial_round_trip: (!trivial.is_empty()).then(|| pool.trivial(&trivial)),
            empty_trip: pool.empty_trip,
            dispatch_overhead: pool.dispatch_overhead(Vec::new()),
            source: pool.source,
            busy: kept.iter().find_map(|round| round.busy),
            remarks,
        };
        let mut overheads = Vec::new();
        for task in plan.service.tasks.keys() {
            let own = kept.iter().filter_map(|round| round.tasks.get(task));
            let requests = undisturbed(&own.flatten().copied().collect::<Vec<_>>());
            if requests.is_empty() {
                continue;
            }
            let (times, trips) = (
                pool.execution_times(task, &requests),
                pool.trips(task, &requests),
            );
            calibration.execution_times.insert(task.clone(), times);
            calibration.round_trips.insert(task.clone(), trips);
            let rest =
                |request: &RoundRequest| request.round_trip.saturating_sub(pool.execution(request));
            overheads.extend(requests.iter().map(rest));
        }
        calibration.dispatch_overhead = pool.dispatch_overhead(overheads);
        calibration
    }
}

/// The requests without those during which the CPU was taken away; all, if it was in each.
fn undisturbed(requests: &[RoundRequest]) -> Vec<RoundRequest> {
    let calm = requests.iter().filter(|request| !request.stalled);
    let calm: Vec<RoundRequest> = calm.copied().collect();
    match calm.is_empty() {
        true => requests.to_vec(),
        false => calm,
    }
}

/// What all rounds say that is worth knowing, each thing once.
fn remarks(rounds: &[CalibrationRound], kept: usize) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    for remark in rounds.iter().flat_map(|round| &round.remarks) {
        if !remarks.contains(remark) {
            remarks.push(remark.clone());
        }
    }
    if kept < rounds.len() {
        remarks.push(format!(
            "{} of {} rounds of the calibration were more than {LONGER_PER_CENT}% slower than the \
             one in the middle and do not count: the machine was disturbed",
            rounds.len() - kept,
            rounds.len()
        ));
    }
    if !alike(rounds) {
        remarks.push(format!(
            "in the slowest of {kept} rounds of the calibration requests took {}% longer than in \
             the quickest: the machine's speed changes, and a run may see more of one or the other",
            spread_per_cent(rounds)
        ));
    }
    let requests = rounds
        .iter()
        .flat_map(|round| round.tasks.values().flatten());
    let stalled = requests.clone().filter(|request| request.stalled).count();
    let requests = requests.count();
    if stalled > 0 {
        remarks.push(format!(
            "the host took the CPU away during {stalled} of {requests} requests of the calibration; they \
             do not count as execution times"
        ));
    }
    remarks
}

/// What is needed to make distributions of the requests that count.
struct RequestPool<'a> {
    plan: &'a CalibrationPlan,
    source: ServiceTimeSource,
    /// The median round trip of a request that asks for nothing.
    empty_trip: Duration,
}

impl RequestPool<'_> {
    fn execution(&self, request: &RoundRequest) -> Duration {
        self.source.execution(request, self.empty_trip)
    }

    fn execution_times(&self, task: &str, requests: &[RoundRequest]) -> Distribution {
        let method = match self.source {
            ServiceTimeSource::ProcessCpuTime => "CPU time of the service's process per request",
            ServiceTimeSource::RoundTrip => "round trip less the median trivial round trip",
        };
        let values = requests.iter().map(|request| self.execution(request));
        let subject = format!("execution time of {}.{task}", self.plan.name);
        self.distribution(subject, method, values.collect())
    }

    fn trips(&self, task: &str, requests: &[RoundRequest]) -> Distribution {
        let subject = format!("round trip of {}.{task}", self.plan.name);
        let values = requests.iter().map(|request| request.round_trip);
        self.distribution(subject, "one request at a time", values.collect())
    }

    fn trivial(&self, requests: &[RoundRequest]) -> Distribution {
        let subject = format!("round trip of a trivial request to {}", self.plan.name);
        let values = requests.iter().map(|request| request.round_trip);
        self.distribution(subject, "one request at a time", values.collect())
    }

    fn dispatch_overhead(&self, values: Vec<Duration>) -> Distribution {
        let subject = format!("dispatch overhead of {}", self.plan.name);
        let method = "round trip less execution time, one request at a time";
        self.distribution(subject, method, values)
    }

    fn distribution(&self, subject: String, method: &str, values: Vec<Duration>) -> Distribution {
        let plan = self.plan;
        let provenance = Provenance {
            seed: Some(plan.seed),
            clock: Some(ClockId::Monotonic),
            host: plan.host.clone(),
            assumptions: vec![
                format!("nothing waits before a request; {}", plan.surroundings),
                format!(
                    "the first {} requests of a round are left out",
                    plan.warm_up
                ),
                "requests during which the host took the CPU away, as far as its supply was sampled, \
                 are left out"
                    .into(),
            ],
            ..Provenance::new(Evidence::Sample, subject, method)
        };
        Distribution::from_samples(provenance, values)
    }
}

/// The median, the upper one of an even number; zero of none.
pub(super) fn median(values: impl Iterator<Item = Duration>) -> Duration {
    let mut values: Vec<Duration> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_model::Service;

    use super::*;
    use crate::{Endpoint, SupplyGap};

    /// A round of one task whose requests take `trips_us`, of which all but 20 us is CPU time.
    fn round(trips_us: &[u64]) -> CalibrationRound {
        let requests = trips_us.iter().map(|us| RoundRequest {
            sent: Instant::ORIGIN,
            asked: Duration::ZERO,
            stalled: false,
            round_trip: Duration::from_micros(*us),
            process: Some(Duration::from_micros(us - 20)),
        });
        CalibrationRound {
            tasks: [("work".to_owned(), requests.collect())].into(),
            process_told: true,
            ..CalibrationRound::default()
        }
    }

    fn plan() -> CalibrationPlan {
        let text = r#"
            domain = "d"
            protocol = "synthetic"
            endpoint = "unix:/nowhere"
            [tasks.work]
            arrivals = { kind = "poisson", rate = "100/s" }
            execution_time = { kind = "constant", value = "1ms" }
        "#;
        let service: Service = toml::from_str(text).unwrap();
        CalibrationPlan::new("s", service, Endpoint::Unix("/nowhere".into()))
    }

    #[test]
    fn disturbed_rounds_do_not_count() {
        let rounds = [
            round(&[1_700, 1_690, 1_710]),
            round(&[1_000, 1_010, 1_020]),
            round(&[1_100, 1_110, 1_120]),
            round(&[1_080, 1_090, 1_100]),
        ];
        assert_eq!(counting(&rounds), [&rounds[1], &rounds[2], &rounds[3]]);
        let calibration = Calibration::of_rounds(&plan(), &rounds);
        let times = &calibration.execution_times["work"];
        assert_eq!(times.count(), Some(9));
        let longest = times.max().unwrap().high;
        assert_eq!(longest, Some(Duration::from_micros(1_100)));
        let remarks = calibration.remarks.join("\n");
        assert!(remarks.contains("1 of 4 rounds"), "{remarks}");
        let overhead = calibration.dispatch_overhead.max().unwrap();
        assert_eq!(overhead.high, Some(Duration::from_micros(20)));
    }

    #[test]
    fn rounds_that_differ_all_count_and_are_told_of() {
        let rounds = [round(&[1_000; 3]), round(&[1_160; 3]), round(&[1_400; 3])];
        assert_eq!(counting(&rounds).len(), 3);
        assert_eq!(spread_per_cent(&rounds), 40);
        assert!(!alike(&rounds) && alike(&rounds[..1]));
        let remarks = Calibration::of_rounds(&plan(), &rounds).remarks.join("\n");
        assert!(remarks.contains("40% longer"), "{remarks}");
    }

    #[test]
    fn one_disturbed_request_spoils_no_round() {
        let rounds = [
            round(&[1_000, 1_010, 31_000]),
            round(&[1_000, 1_010, 1_020]),
        ];
        assert_eq!(counting(&rounds).len(), 2);
        assert!(alike(&rounds));
    }

    #[test]
    fn without_cpu_time_in_one_round_all_go_by_round_trips() {
        let mut silent = round(&[1_000; 3]);
        silent.process_told = false;
        silent.trivial = vec![RoundRequest {
            sent: Instant::ORIGIN,
            asked: Duration::ZERO,
            stalled: false,
            round_trip: Duration::from_micros(100),
            process: None,
        }];
        let calibration = Calibration::of_rounds(&plan(), &[round(&[1_000; 3]), silent]);
        assert_eq!(calibration.source, ServiceTimeSource::RoundTrip);
        let longest = calibration.execution_times["work"].max().unwrap();
        assert_eq!(longest.high, Some(Duration::from_micros(900)));
    }

    #[test]
    fn requests_during_a_stall_do_not_count_and_stay_in_the_round() {
        let mut stalled = round(&[1_000, 9_000, 1_010]);
        let requests = stalled.tasks.get_mut("work").unwrap();
        for (index, request) in requests.iter_mut().enumerate() {
            request.sent = Instant::from_nanos(index as u64 * 100_000_000);
        }
        let supply = SupplyTrace {
            cpu: tailbound_model::Cpu(0),
            begin: Instant::ORIGIN,
            end: Instant::from_nanos(1_000_000_000),
            gaps: vec![SupplyGap {
                due: Instant::from_nanos(104_000_000),
                late: Duration::from_millis(4),
            }],
        };
        stalled.mark_stalled(&[&supply]);
        let rounds = [stalled];
        let calibration = Calibration::of_rounds(&plan(), &rounds);
        let times = &calibration.execution_times["work"];
        assert_eq!(times.count(), Some(2));
        assert!(times.max().unwrap().low < Duration::from_millis(1));
        let remarks = calibration.remarks.join("\n");
        assert!(remarks.contains("during 1 of 3 requests"), "{remarks}");
        assert_eq!(rounds[0].tasks["work"].len(), 3);
    }

    #[test]
    fn no_rounds_say_nothing() {
        assert!(counting(&[]).is_empty() && alike(&[]));
        let calibration = Calibration::of_rounds(&plan(), &[]);
        assert!(calibration.execution_times.is_empty() && calibration.trivial_round_trip.is_none());
    }
}
