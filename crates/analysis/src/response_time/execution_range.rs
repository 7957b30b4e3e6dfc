//! Periodic tasks whose execution times vary, on a CPU that is their own whenever they need it.
//!
//! For releases at fixed times and a fixed order of jobs, no response gets shorter if an execution
//! time gets longer: a job is done when the work of all jobs before it in that order has run out,
//! and that work only grows. So the schedule with the longest execution times bounds every
//! response from above and the one with the shortest from below; and where the longest ones leave
//! a release without anything to wait for, no execution times make it wait. From such a release to
//! the same one a hyperperiod later, Lindley's recursion gives the law of every response to jobs
//! served first come, first served. docs/concepts/response-time.md has the proofs.

use num_integer::gcd;
use tailbound_distribution::StepCdf;
use tailbound_model::{Scheduling, Service};
use tailbound_time::Duration;

use super::lattice::{BracketSide, Enclosure, Lattice, Law};
use super::schedule;
use crate::batches::sum_of;
use crate::{AnalysisError, PeriodicLoad};

/// What the results are rounded outward by, for what floating point does.
const GUARD: f64 = 1e-9;
/// The most elementary operations for one end of the bracket.
const MOST_OPERATIONS: f64 = 2e8;
/// The most lattice points on the longest response time.
const MOST_POINTS: f64 = 4_000.0;
/// The fewest that are worth it; below, the bracket of the extremes has to do.
const FEWEST_POINTS: f64 = 100.0;

/// The response times of all jobs and of each task's, and how they were found.
pub(super) struct Varying {
    pub overall: Enclosure,
    pub per_task: Vec<Enclosure>,
    pub method: &'static str,
    pub assumptions: Vec<String>,
}

/// The response times under `worst`, the load with the longest execution times, which never
/// uses up the reservation.
pub(super) fn response_times(
    service: &Service,
    laws: &[Law],
    worst: &PeriodicLoad,
    overhead: Duration,
) -> Result<Varying, AnalysisError> {
    let cycle = match service.scheduling {
        Scheduling::Fifo => Cycle::of(service, worst)?,
        Scheduling::RateMonotonic
        | Scheduling::DeadlineMonotonic
        | Scheduling::FixedPriority
        | Scheduling::EarliestDeadlineFirst
        | Scheduling::RoundRobin => None,
    };
    let recursion = cycle.and_then(|cycle| {
        let lattice = cycle.lattice()?;
        Some(Recursion {
            cycle,
            lattice,
            laws,
            overhead,
        })
    });
    match recursion {
        Some(recursion) => recursion.solve(),
        None => between_extremes(service, laws, worst, overhead),
    }
}

/// The schedules with the shortest and with the longest execution times.
fn between_extremes(
    service: &Service,
    laws: &[Law],
    worst: &PeriodicLoad,
    overhead: Duration,
) -> Result<Varying, AnalysisError> {
    let mut best = worst.clone();
    for (task, owner) in best.tasks.iter_mut().zip(schedule::owners(service)) {
        task.execution = Duration::from_nanos(laws[owner].shortest_ns());
    }
    let shortest = schedule::steady_state(service, &best)?;
    let longest = schedule::steady_state(service, worst)?;
    let enclosure = |task: Option<usize>| {
        Ok(Enclosure {
            optimistic: schedule::curve(shortest.of(task, overhead))?,
            pessimistic: schedule::curve(longest.of(task, overhead))?,
        })
    };
    Ok(Varying {
        overall: enclosure(None)?,
        per_task: (0..laws.len())
            .map(|task| enclosure(Some(task)))
            .collect::<Result<_, AnalysisError>>()?,
        method: "the schedules of one hyperperiod with the shortest and with the longest execution \
                 times, between which every other lies",
        assumptions: vec![
            "execution times lie between the shortest and the longest of the given distribution"
                .into(),
        ],
    })
}

/// The jobs of one hyperperiod, from a release at which nothing is left to do even if all jobs
/// take their longest.
struct Cycle {
    /// Releases in nanoseconds since the first, and whose.
    releases: Vec<(u64, usize)>,
    hyperperiod_ns: u64,
    /// The longest response time there is.
    longest_ns: u64,
    /// How many tasks there are.
    tasks: usize,
}

impl Cycle {
    /// `None` where no release finds nothing left to do.
    fn of(service: &Service, worst: &PeriodicLoad) -> Result<Option<Self>, AnalysisError> {
        let (_, hyperperiod) = worst.work_per_hyperperiod()?;
        let hyperperiod_ns = hyperperiod.as_nanos();
        let steady_ns = worst.last_offset().as_nanos();
        let until = steady_ns.saturating_add(hyperperiod_ns.saturating_mul(3));
        let releases = worst.releases(Duration::from_nanos(until), false)?;
        let mut free_ns = 0;
        let mut ends = Vec::with_capacity(releases.len());
        // Of each release, when the CPU has done all that came before it.
        let mut free_before = Vec::with_capacity(releases.len());
        for (at, _, execution) in &releases {
            free_before.push(free_ns);
            free_ns = free_ns.max(*at) + execution;
            ends.push(free_ns);
        }
        let idle = |index: usize| free_before[index] <= releases[index].0;
        let again = |index: usize| {
            let at = releases[index].0 + hyperperiod_ns;
            let same = releases.partition_point(|(other, _, _)| *other < at);
            same < releases.len() && releases[same].0 == at && idle(same)
        };
        // From a release that waits for nothing now and a hyperperiod later, all repeats.
        let first =
            (0..releases.len()).find(|i| releases[*i].0 >= steady_ns && idle(*i) && again(*i));
        let Some(first) = first else { return Ok(None) };
        let owners: Vec<usize> = schedule::owners(service).collect();
        let origin = releases[first].0;
        let jobs = (first..releases.len()).take_while(|i| releases[*i].0 < origin + hyperperiod_ns);
        Ok(Some(Self {
            longest_ns: jobs
                .clone()
                .map(|i| ends[i] - releases[i].0)
                .max()
                .unwrap_or(0),
            releases: jobs
                .map(|i| (releases[i].0 - origin, owners[releases[i].1]))
                .collect(),
            hyperperiod_ns,
            tasks: service.tasks.len(),
        }))
    }

    /// The finest lattice within the computing time, on which all releases lie if that costs at
    /// most a factor of two; `None` where it would be too coarse.
    fn lattice(&self) -> Option<Lattice> {
        let points = (MOST_OPERATIONS / self.releases.len() as f64).sqrt();
        if points < FEWEST_POINTS {
            return None;
        }
        let finest = (self.longest_ns as f64 / points.min(MOST_POINTS)).ceil() as u64;
        let finest = finest.max(1);
        let common = self
            .releases
            .iter()
            .fold(self.hyperperiod_ns, |divisor, (at, _)| gcd(divisor, *at));
        Some(Lattice {
            period_ns: divisor_from(common, finest).unwrap_or(finest),
            points: 1,
        })
    }
}

/// The least divisor of `number` from `least` to twice that. Whichever is quicker, steps or parts
/// are tried: never more than the root of `number`.
fn divisor_from(number: u64, least: u64) -> Option<u64> {
    let most = least.saturating_mul(2);
    if least <= number / least {
        return (least..=most).find(|step| number.is_multiple_of(*step));
    }
    let parts = (number.div_ceil(most)..=number / least).rev();
    parts
        .filter(|parts| *parts > 0 && number.is_multiple_of(*parts))
        .map(|parts| number / parts)
        .find(|step| (least..=most).contains(step))
}

/// Lindley's recursion over a cycle.
struct Recursion<'a> {
    cycle: Cycle,
    lattice: Lattice,
    laws: &'a [Law],
    overhead: Duration,
}

impl Recursion<'_> {
    fn solve(&self) -> Result<Varying, AnalysisError> {
        let optimistic = self.one_side(BracketSide::Optimistic)?;
        let pessimistic = self.one_side(BracketSide::Pessimistic)?;
        let (overall, per_task) = Enclosure::pairs(optimistic, pessimistic)?;
        let step = Duration::from_nanos(self.lattice.period_ns);
        Ok(Varying {
            overall,
            per_task,
            method: "Lindley's recursion on a lattice over one hyperperiod, from a release that \
                     never waits",
            assumptions: vec![
                "execution times are independent draws from the given distribution, and no longer \
                 than its longest"
                    .into(),
                "jobs are served first come, first served by one thread; of those released \
                 together, in the order of the tasks"
                    .into(),
                format!("times are rounded outward to steps of {step}"),
            ],
        })
    }

    /// The functions of all jobs together and of each task's, rounded towards `side`.
    ///
    /// Releases and execution times are rounded to the lattice once each; what is done when never
    /// falls with either, so that completions are bounds however many jobs are queued.
    fn one_side(&self, side: BracketSide) -> Result<Vec<StepCdf>, AnalysisError> {
        let up = side == BracketSide::Pessimistic;
        let executions: Vec<Vec<f64>> = self
            .laws
            .iter()
            .map(|law| law.on(self.lattice, side))
            .collect();
        let steps: Vec<usize> = self
            .cycle
            .releases
            .iter()
            .map(|(at, _)| self.lattice.steps(*at, up))
            .collect();
        let mut sums = vec![Vec::new(); self.cycle.tasks];
        let mut jobs = vec![0_usize; self.cycle.tasks];
        let mut wait = vec![1.0];
        for (index, (at, task)) in self.cycle.releases.iter().enumerate() {
            let response = sum_of(&wait, &executions[*task]);
            // A release off the lattice was moved by less than a step.
            let off = usize::from(at % self.lattice.period_ns != 0);
            jobs[*task] += 1;
            add(&mut sums[*task], &response, off, side);
            if let Some(next) = steps.get(index + 1) {
                wait = later(&response, next - steps[index]);
            }
        }
        let longest = sums.iter().map(Vec::len).max().unwrap_or(0);
        let mut all = vec![0.0; longest];
        for of_task in &sums {
            all.iter_mut().zip(of_task).for_each(|(sum, p)| *sum += p);
        }
        let overall = (&all, self.cycle.releases.len());
        std::iter::once(overall)
            .chain(sums.iter().zip(jobs))
            .map(|(weights, count)| self.function(weights, count, side))
            .collect()
    }

    /// The distribution function of `count` jobs' responses.
    fn function(
        &self,
        weights: &[f64],
        count: usize,
        side: BracketSide,
    ) -> Result<StepCdf, AnalysisError> {
        let mut steps: Vec<(Duration, f64)> = Vec::new();
        let longest = Duration::from_nanos(self.cycle.longest_ns);
        let mut sum = 0.0;
        for (step, weight) in weights.iter().enumerate() {
            sum += weight / count.max(1) as f64;
            let value = match side {
                BracketSide::Pessimistic => (sum - GUARD).clamp(0.0, 1.0),
                BracketSide::Optimistic => (sum + GUARD).min(1.0),
            };
            let at = self.lattice.time(step, side);
            // No response is longer than the longest, whatever the lattice says.
            if at >= longest {
                break;
            }
            if *weight > 0.0 && steps.last().is_none_or(|(_, before)| value > *before) {
                steps.push((at.saturating_add(self.overhead), value));
            }
        }
        if steps.last().is_none_or(|(_, value)| *value < 1.0) {
            steps.push((longest.saturating_add(self.overhead), 1.0));
        }
        StepCdf::new(steps).map_err(AnalysisError::no_distribution)
    }
}

/// The law of what is left of a response after `gap_steps`.
fn later(response: &[f64], gap_steps: usize) -> Vec<f64> {
    let done = (gap_steps + 1).min(response.len());
    let mut wait = vec![response[..done].iter().sum()];
    wait.extend(&response[done..]);
    while wait.len() > 1 && wait.last() == Some(&0.0) {
        wait.pop();
    }
    wait
}

/// Adds a law to a sum, moved outward by `off` steps.
fn add(sum: &mut Vec<f64>, response: &[f64], off: usize, side: BracketSide) {
    for (step, weight) in response.iter().enumerate() {
        let at = match side {
            BracketSide::Pessimistic => step + off,
            BracketSide::Optimistic => step.saturating_sub(off),
        };
        if at >= sum.len() {
            sum.resize(at + 1, 0.0);
        }
        sum[at] += weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_divisor_is_found_from_either_side() {
        for (number, least) in [
            (1_000_000, 113),
            (1_000, 113),
            (997, 10),
            (12, 5),
            (7, 7),
            (8, 9),
        ] {
            let tried = (least..=2 * least).find(|step| number % step == 0);
            assert_eq!(divisor_from(number, least), tried, "{number} from {least}");
        }
        assert_eq!(
            divisor_from(3_600_000_000_000, 900_000_000),
            Some(900_000_000)
        );
    }

    #[test]
    fn what_is_left_after_a_gap_keeps_its_weight() {
        assert_eq!(later(&[0.0, 0.25, 0.25, 0.5], 2), [0.5, 0.5]);
        assert_eq!(later(&[0.5, 0.5], 7), [1.0]);
    }
}
