//! Random interfaces and tasks: in both modes the same bandwidth in all, in other hands.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_analysis::interfaces::{LocalScheduler, PeriodicSupply, Workload, schedulable};
use tailbound_analysis::{AnalysisError, SporadicTask};
use tailbound_time::Duration;

/// The bisection for execution times ends at this fraction of the interface's bandwidth.
const SCALE_STEPS: u64 = 200;

/// Why there is no case.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The analysis refuses a task or an interface.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
    /// No draw had the properties that cases have.
    #[error(
        "none of {draws} draws with seed {seed} had the properties of a case; use another seed"
    )]
    NoCase {
        /// The seed.
        seed: u64,
        /// How many were tried.
        draws: u32,
    },
}

/// In which order the tasks of a domain run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// First come, first served: processes of one SCHED_FIFO priority.
    FirstCome,
    /// The shortest period first, with preemption.
    RateMonotonic,
}

/// A task with its worst-case execution time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Task {
    /// Between releases; the deadline, too.
    #[serde(rename = "period_ns", serialize_with = "as_nanos")]
    pub period: Duration,
    /// The worst case.
    #[serde(rename = "execution_ns", serialize_with = "as_nanos")]
    pub execution: Duration,
}

/// Times in results are whole nanoseconds.
pub fn as_nanos<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(time.as_nanos())
}

/// Random numbers of one purpose, apart from those of all others.
pub fn random(seed: u64, purpose: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&purpose.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

/// `count` numbers that add up to `total`, uniformly over all that do (the gaps between sorted cuts).
pub fn parts(rng: &mut impl Rng, count: usize, total: u64) -> Vec<u64> {
    let mut cuts: Vec<u64> = (1..count).map(|_| rng.random_range(0..=total)).collect();
    cuts.extend([0, total]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// What tasks are drawn for.
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// What they get in every period.
    pub budget: Duration,
    /// The period.
    pub period: Duration,
    /// Their order.
    pub order: Order,
    /// Periods of tasks are drawn uniformly from here
    pub shortest: Duration,
    /// to here.
    pub longest: Duration,
}

impl Component {
    /// Random tasks with the longest execution times with which all deadlines are met on the interface, to
    /// a two-hundredth of its bandwidth.
    ///
    /// # Errors
    /// What the analysis refuses.
    pub fn tasks(&self, rng: &mut impl Rng, count: usize) -> Result<Vec<Task>, AnalysisError> {
        let range_ms = self.shortest.as_nanos() / 1_000_000..=self.longest.as_nanos() / 1_000_000;
        let mut periods: Vec<u64> = (0..count)
            .map(|_| rng.random_range(range_ms.clone()))
            .collect();
        periods.sort_unstable();
        let weights = parts(rng, count, 1000 - 100 * count as u64);
        let at_scale = |scale: u64| -> Vec<Task> {
            let each = periods.iter().zip(&weights);
            each.map(|(period_ms, weight)| {
                let period = Duration::from_millis(*period_ms);
                // No task has less than a tenth of all.
                let share = period
                    .scaled_down(self.budget.as_nanos(), self.period.as_nanos())
                    .scaled_down(scale * (100 + weight), SCALE_STEPS * 1000);
                Task {
                    period,
                    execution: share.max(Duration::from_micros(1)),
                }
            })
            .collect()
        };
        let (mut good, mut bad) = (0, SCALE_STEPS + 1);
        while bad - good > 1 {
            let middle = (good + bad) / 2;
            match self.holds(&at_scale(middle))? {
                true => good = middle,
                false => bad = middle,
            }
        }
        Ok(at_scale(good))
    }

    /// Whether all deadlines are met, wherever in its period the budget falls.
    ///
    /// # Errors
    /// What the analysis refuses.
    pub fn holds(&self, tasks: &[Task]) -> Result<bool, AnalysisError> {
        let shortest = tasks.iter().map(|task| task.period).min();
        let sporadic = |task: &Task| match self.order {
            // With equal relative deadlines, the earliest deadline is that of the first to come.
            Order::FirstCome => {
                SporadicTask::new(task.execution, task.period, shortest.unwrap_or(task.period))
            }
            Order::RateMonotonic => SporadicTask::implicit(task.execution, task.period),
        };
        let workload = Workload::new(tasks.iter().map(sporadic).collect::<Result<_, _>>()?)?;
        let scheduler = match self.order {
            Order::FirstCome => LocalScheduler::EarliestDeadlineFirst,
            Order::RateMonotonic => LocalScheduler::FixedPriority,
        };
        let supply = PeriodicSupply::somewhere(self.budget, self.period)?;
        Ok(schedulable(&workload, scheduler, &supply)?.schedulable)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_add_up(seed: u64, count in 1_usize..40, total in 0_u64..1_000_000) {
            let drawn = parts(&mut random(seed, 0), count, total);
            prop_assert_eq!(drawn.len(), count);
            prop_assert_eq!(drawn.iter().sum::<u64>(), total);
        }

        #[test]
        fn tasks_meet_their_deadlines_on_their_interface(
            seed: u64, budget_ms in 1_u64..9, count in 1_usize..4, first_come: bool,
        ) {
            let component = Component {
                budget: Duration::from_millis(budget_ms),
                period: Duration::from_millis(10),
                order: if first_come { Order::FirstCome } else { Order::RateMonotonic },
                shortest: Duration::from_millis(50),
                longest: Duration::from_millis(250),
            };
            let tasks = component.tasks(&mut random(seed, 1), count).unwrap();
            prop_assert_eq!(tasks.len(), count);
            prop_assert!(component.holds(&tasks).unwrap());
            for task in tasks {
                prop_assert!(component.shortest <= task.period && task.period <= component.longest);
            }
        }
    }
}
