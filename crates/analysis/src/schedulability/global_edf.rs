//! Global earliest deadline first on identical CPUs, preemptive: sufficient tests.
//!
//! Goossens, Funk & Baruah, *Priority-driven scheduling of periodic task systems on
//! multiprocessors*, Real-Time Systems 25, 2003 (density); Bertogna, Cirinei & Lipari, *Improved
//! schedulability analysis of EDF on multiprocessor platforms*, ECRTS 2005 (BCL); Bertogna &
//! Cirinei, *Response-time analysis for globally scheduled symmetric multiprocessor platforms*,
//! RTSS 2007 (response times and slack).
//!
//! The density test and the others accept different sets; [`sufficient_response_times`] accepts all
//! that [`sufficient_bcl`] does.

use num_bigint::BigUint;
use tailbound_time::Duration;

use super::global_workload::{
    GlobalBound, GlobalTask, MOST_STEPS, Ramp, any_hopeless, global_bound, global_tasks,
};
use crate::AnalysisError;
use crate::rational::sum;
use crate::sporadic_task::SporadicTask;

/// The verdict of a sufficient test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SufficientVerdict {
    /// The method by name, with its source.
    pub method: &'static str,
    /// Assumptions under which the method holds.
    pub assumptions: &'static [&'static str],
    /// Whether the test proves that every job meets its deadline. `false` proves nothing.
    pub accepted: bool,
}

/// What all tests here take for granted.
pub const ASSUMPTIONS: &[&str] = &[
    "identical CPUs that are always available",
    "global earliest deadline first; preemption and migration at no cost",
    "deadlines up to the periods; releases and execution times in whole nanoseconds",
    "tasks are independent, use one CPU at a time, and do not suspend themselves",
    "sufficient: a set that is not accepted may be schedulable",
];

/// The density test: the densities C / D sum up to at most m - (m - 1) times the largest. Decided
/// exactly. Goossens, Funk & Baruah prove it for utilisations, with D = T; Bertogna, Cirinei &
/// Lipari 2005 carry it over to densities.
///
/// # Errors
/// [`AnalysisError::Invalid`] for no CPU, a task with jitter, or a deadline beyond the period;
/// [`AnalysisError::OutOfRange`] where the execution times sum up to too much.
pub fn sufficient_density(
    tasks: &[SporadicTask],
    cpus: u32,
) -> Result<SufficientVerdict, AnalysisError> {
    global_tasks(tasks, cpus)?;
    let parts = |task: &SporadicTask| (task.execution().as_nanos(), task.deadline().as_nanos());
    let verdict = |accepted| SufficientVerdict {
        method: "density test for global EDF (Goossens, Funk & Baruah 2003)",
        assumptions: ASSUMPTIONS,
        accepted,
    };
    if tasks
        .iter()
        .map(parts)
        .any(|(execution, deadline)| execution > deadline)
    {
        return Ok(verdict(false));
    }
    let cross = |(a, b): (u64, u64), (c, d): (u64, u64)| {
        (u128::from(a) * u128::from(d)).cmp(&(u128::from(c) * u128::from(b)))
    };
    let Some(densest) = tasks.iter().map(parts).max_by(|a, b| cross(*a, *b)) else {
        return Ok(verdict(true));
    };
    // sum + (m - 1) densest <= m
    let others = BigUint::from(densest.0) * (cpus - 1);
    let sum = sum(tasks.iter().map(parts));
    let left = sum.numer() * densest.1 + sum.denom() * others;
    Ok(verdict(left <= sum.denom() * densest.1 * cpus))
}

/// The test of Bertogna, Cirinei & Lipari 2005, in the form for whole time units of 2007: each task
/// k meets its deadlines if the most that others can keep it waiting with deadlines no later than
/// its own, each capped at D - C + 1, sums up to less than m (D - C + 1).
///
/// # Errors
/// As of [`sufficient_density`].
pub fn sufficient_bcl(
    tasks: &[SporadicTask],
    cpus: u32,
) -> Result<SufficientVerdict, AnalysisError> {
    let tasks = global_tasks(tasks, cpus)?;
    let in_time = |(index, task): (usize, &GlobalTask)| {
        let cap = task.deadline_ns - task.execution_ns + 1;
        let interference: u128 = others(&tasks, index)
            .map(|other| interference_before_deadline(other, other.deadline_ns, task.deadline_ns))
            .map(|one| u128::from(one.min(cap)))
            .sum();
        interference < u128::from(cpus) * u128::from(cap)
    };
    let accepted = !any_hopeless(&tasks) && tasks.iter().enumerate().all(in_time);
    Ok(SufficientVerdict {
        method: "interference test for global EDF (Bertogna, Cirinei & Lipari 2005)",
        assumptions: ASSUMPTIONS,
        accepted,
    })
}

/// What the iterative analysis says of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalResponseTimes {
    /// The method by name, with its source.
    pub method: &'static str,
    /// Assumptions under which the method holds.
    pub assumptions: &'static [&'static str],
    /// Upper bounds of the response times, in the order of the tasks, if every task has one within
    /// its deadline. Bounds for some tasks only would rest on others that may miss theirs.
    pub bounds: Option<Vec<Duration>>,
}

impl GlobalResponseTimes {
    /// Whether the test proves that every job meets its deadline. `false` proves nothing.
    #[must_use]
    pub const fn accepted(&self) -> bool {
        self.bounds.is_some()
    }
}

/// The iterative test of Bertogna & Cirinei 2007: bounds each response
/// time, and then again with the slack that the bounds have shown, until all tasks meet their
/// deadlines or no slack is gained any more.
///
/// # Errors
/// As of [`sufficient_density`].
pub fn sufficient_response_times(
    tasks: &[SporadicTask],
    cpus: u32,
) -> Result<GlobalResponseTimes, AnalysisError> {
    let tasks = global_tasks(tasks, cpus)?;
    let mut responses: Vec<u64> = tasks.iter().map(|task| task.deadline_ns).collect();
    let mut bounds = None;
    let mut steps_left = if any_hopeless(&tasks) { 0 } else { MOST_STEPS };
    while steps_left > 0 {
        let round = slack_round(&tasks, cpus, &mut responses, &mut steps_left);
        if round.all_within {
            let nanos = responses.iter().map(|one| Duration::from_nanos(*one));
            bounds = Some(nanos.collect());
            break;
        }
        if !round.gained {
            break;
        }
    }
    Ok(GlobalResponseTimes {
        method: "response-time analysis for global EDF (Bertogna & Cirinei 2007)",
        assumptions: ASSUMPTIONS,
        bounds,
    })
}

struct Round {
    all_within: bool,
    gained: bool,
}

/// Bounds each task's response once more. A task without a bound keeps its deadline as one: it
/// holds as long as no deadline was missed, and the first to miss one would contradict its own
/// bound.
fn slack_round(
    tasks: &[GlobalTask],
    cpus: u32,
    responses: &mut [u64],
    steps_left: &mut u64,
) -> Round {
    let mut round = Round {
        all_within: true,
        gained: false,
    };
    for (index, task) in tasks.iter().enumerate() {
        let earlier = &*responses;
        let bound = global_bound(task, cpus, steps_left, |window| {
            let others = tasks.iter().zip(earlier).enumerate();
            let others = others.filter(move |(other, _)| *other != index);
            others.map(move |(_, (other, response))| {
                let before = interference_before_deadline(other, *response, task.deadline_ns);
                other
                    .workload(window, *response)
                    .min(Ramp::constant(before))
            })
        });
        match (bound, responses.get_mut(index)) {
            (GlobalBound::Within(bound), Some(response)) => {
                debug_assert!((task.execution_ns..=task.deadline_ns).contains(&bound));
                round.gained |= bound < *response;
                *response = bound.min(*response);
            }
            _ => round.all_within = false,
        }
    }
    round
}

fn others(tasks: &[GlobalTask], index: usize) -> impl Iterator<Item = &GlobalTask> {
    let pairs = tasks.iter().enumerate();
    pairs
        .filter(move |(other, _)| *other != index)
        .map(|(_, task)| task)
}

/// The most that jobs of `other` with deadlines no later than that of a job can take from it,
/// between its release and its deadline, `deadline_ns` later, if they are complete `response` after
/// their release: the last deadlines coincide (Bertogna & Cirinei 2007).
fn interference_before_deadline(other: &GlobalTask, response: u64, deadline_ns: u64) -> u64 {
    let jobs = deadline_ns / other.period_ns;
    // The first job has its deadline this long after the window's start, and is complete by its
    // slack sooner.
    let rest = deadline_ns - jobs * other.period_ns;
    let slack = other.deadline_ns.saturating_sub(response);
    jobs * other.execution_ns + other.execution_ns.min(rest.saturating_sub(slack))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::nanosecond_task::task;
    use super::*;

    #[test]
    fn the_density_bound_is_exact() {
        // Two CPUs, densities 2/3, 1/3, 1/3: 4/3 = 2 - 2/3.
        let edge = [task(2, 3, 3), task(1, 3, 3), task(2, 9, 6)];
        assert!(sufficient_density(&edge, 2).unwrap().accepted);
        let above = [edge[0], edge[1], task((1 << 50) + 1, 3 << 50, 3 << 50)];
        assert!(!sufficient_density(&above, 2).unwrap().accepted);
        assert!(sufficient_density(&above, 3).unwrap().accepted);
        assert!(!sufficient_density(&[task(3, 9, 2)], 8).unwrap().accepted);
        assert!(sufficient_density(&[], 1).unwrap().accepted);
    }

    #[test]
    fn the_effect_of_dhall_is_refused() {
        // Two light tasks start first, and the heavy one misses.
        let tasks = [task(2, 10, 10), task(2, 10, 10), task(10, 11, 11)];
        assert!(!sufficient_density(&tasks, 2).unwrap().accepted);
        assert!(!sufficient_bcl(&tasks, 2).unwrap().accepted);
        assert!(!sufficient_response_times(&tasks, 2).unwrap().accepted());
    }

    /// With a step of a nanosecond at a time, the bounds were given up.
    #[test]
    fn bounds_of_milliseconds_take_few_steps() {
        let ms = |count: u64| count * 1_000_000;
        let tasks = [(1, 10), (2, 10), (3, 20)].map(|(c, t)| task(ms(c), ms(t), ms(t)));
        let responses = sufficient_response_times(&tasks, 2).unwrap();
        assert_eq!(responses.bounds.map(|bounds| bounds.len()), Some(3));
    }

    #[test]
    fn slack_lets_more_pass() {
        // One heavy task beside light ones: no room for the density test.
        let light = task(1, 20, 10);
        let tasks = [task(9, 10, 10), light, light, light];
        assert!(!sufficient_density(&tasks, 2).unwrap().accepted);
        assert!(sufficient_response_times(&tasks, 2).unwrap().accepted());
    }

    #[test]
    fn as_many_tasks_as_cpus_take_their_execution_times() {
        let tasks = [task(5, 5, 5), task(7, 9, 8), task(3, 4, 4)];
        let bounds = sufficient_response_times(&tasks, 3)
            .unwrap()
            .bounds
            .unwrap();
        assert_eq!(
            bounds.iter().map(|one| one.as_nanos()).collect::<Vec<_>>(),
            [5, 7, 3]
        );
    }

    #[test]
    fn what_the_tests_are_not_for_is_refused() {
        let ns = Duration::from_nanos;
        assert!(sufficient_bcl(&[task(1, 4, 5)], 2).is_err());
        assert!(sufficient_bcl(&[task(1, 4, 4).with_jitter(ns(1)).unwrap()], 2).is_err());
        assert!(sufficient_density(&[task(1, 4, 4)], 0).is_err());
    }
}
