//! How many CPUs reservations need that are sized for the worst mode of each domain, and how many each mode
//! needs: the thesis's figure 2.4, by three counts.

use rand::Rng;
use serde::Serialize;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::schedulability::global_edf::sufficient_density;
use tailbound_time::Duration;

use crate::generate::{Component, GenerateError, Order, parts, random};

/// Virtual machines of a case.
const MACHINES: usize = 12;
/// Virtual CPUs of each, of which each gets a third of the machine's bandwidth.
const VCPUS: usize = 3;
/// CPUs of the host.
pub const HOST_CPUS: u32 = 15;
/// The period of every interface.
const PERIOD: Duration = Duration::from_millis(5);
/// What all virtual CPUs have together in each mode, in CPUs.
const TOTAL_CPUS: u64 = 8;
/// Bandwidths are multiples of a microsecond in a period.
const BUDGET_STEP: Duration = Duration::from_micros(1);
/// No virtual CPU has less.
const LEAST: Duration = Duration::from_micros(100);
/// Draws until one has the properties of a case.
const MOST_DRAWS: u32 = 100_000;
/// Tasks of a virtual CPU.
const MOST_TASKS: usize = 3;

/// CPUs that a set of reservations needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Needed {
    /// The exact sum of bandwidths, rounded up: no scheduler does with fewer.
    pub at_least: u32,
    /// With each virtual CPU on one CPU, the largest placed first, each on the first CPU with room.
    pub partitioned: u32,
    /// By the density test for global EDF, which the thesis's hypervisor schedules by.
    pub global: u32,
}

/// A random case with what it needs.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The number of the case.
    pub case: u32,
    /// Draws before it that did not have the properties of a case.
    pub discarded: u32,
    /// Tasks in all, of both modes.
    pub tasks: usize,
    /// In each mode.
    pub modes: [Needed; 2],
    /// With the larger interface of both modes for each machine.
    pub worst_case: Needed,
}

/// Budgets of the virtual CPUs of each machine.
type Budgets = Vec<Duration>;

/// Draws `count` cases.
///
/// # Errors
/// If the analysis refuses something, or no draw has the properties of a case.
pub fn rows(seed: u64, count: u32) -> Result<Vec<Row>, GenerateError> {
    (0..count).map(|case| row(seed, case)).collect()
}

fn row(seed: u64, case: u32) -> Result<Row, GenerateError> {
    let mut rng = random(seed, 1000 + u64::from(case));
    for discarded in 0..MOST_DRAWS {
        let modes = [budgets(&mut rng), budgets(&mut rng)];
        let needed = [needed(&modes[0])?, needed(&modes[1])?];
        let all_differ = modes[0].iter().zip(&modes[1]).all(|(a, b)| a != b);
        let all_have_some = modes.iter().flatten().all(|budget| *budget >= LEAST);
        if !all_differ || !all_have_some || needed.iter().any(|one| one.global > HOST_CPUS) {
            continue;
        }
        let larger: Budgets = modes[0]
            .iter()
            .zip(&modes[1])
            .map(|(a, b)| *a.max(b))
            .collect();
        let mut tasks = 0;
        for budget in modes.iter().flatten() {
            for _ in 0..VCPUS {
                tasks += draw_tasks(&mut rng, *budget)?;
            }
        }
        return Ok(Row {
            case,
            discarded,
            tasks,
            modes: needed,
            worst_case: self::needed(&larger)?,
        });
    }
    Err(GenerateError::NoCase {
        seed,
        draws: MOST_DRAWS,
    })
}

/// One budget for each machine, which each of its virtual CPUs has.
fn budgets(rng: &mut impl Rng) -> Budgets {
    let steps = TOTAL_CPUS * (PERIOD / BUDGET_STEP) / VCPUS as u64;
    let drawn = parts(rng, MACHINES, steps);
    drawn.into_iter().map(|part| BUDGET_STEP * part).collect()
}

/// The number of tasks that were drawn for a virtual CPU and meet their deadlines there.
fn draw_tasks(rng: &mut impl Rng, budget: Duration) -> Result<usize, GenerateError> {
    let component = Component {
        budget,
        period: PERIOD,
        order: Order::RateMonotonic,
        shortest: Duration::from_millis(100),
        longest: Duration::from_millis(1000),
    };
    let count = rand::RngExt::random_range(rng, 1..=MOST_TASKS);
    Ok(component.tasks(rng, count)?.len())
}

fn needed(budgets: &Budgets) -> Result<Needed, GenerateError> {
    let each: Vec<Duration> = budgets
        .iter()
        .flat_map(|budget| std::iter::repeat_n(*budget, VCPUS))
        .collect();
    let sum_ns: u64 = each.iter().map(|budget| budget.as_nanos()).sum();
    Ok(Needed {
        at_least: sum_ns.div_ceil(PERIOD.as_nanos()) as u32,
        partitioned: first_fit_decreasing(&each),
        global: global(&each)?,
    })
}

/// With equal periods, what fits a CPU is what adds up to the period.
fn first_fit_decreasing(budgets: &[Duration]) -> u32 {
    let mut sorted = budgets.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let mut cpus: Vec<Duration> = Vec::new();
    for budget in sorted {
        match cpus.iter_mut().find(|used| **used + budget <= PERIOD) {
            Some(used) => *used += budget,
            None => cpus.push(budget),
        }
    }
    cpus.len() as u32
}

/// The fewest CPUs with which the test accepts; one for each virtual CPU always suffices.
fn global(budgets: &[Duration]) -> Result<u32, GenerateError> {
    let tasks = budgets.iter().filter(|budget| !budget.is_zero());
    let tasks = tasks.map(|budget| SporadicTask::implicit(*budget, PERIOD));
    let tasks: Vec<SporadicTask> = tasks.collect::<Result<_, _>>()?;
    for cpus in 1..tasks.len() as u32 {
        if sufficient_density(&tasks, cpus)?.accepted {
            return Ok(cpus);
        }
    }
    Ok(tasks.len() as u32)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn counts_are_those_by_hand() {
        let ms = Duration::from_millis;
        // Three machines with 3 x 3 ms of 5: 5.4 CPUs, and no two of them on one.
        let cpus = needed(&vec![ms(3); 3]).unwrap();
        // (5.4 - 0.6) / (1 - 0.6) = 12 by the density test, which is above one CPU for each.
        assert_eq!((cpus.at_least, cpus.partitioned, cpus.global), (6, 9, 9));
        // 3 x 1 ms of 5 beside them fill what they leave.
        let cpus = needed(&vec![ms(3), ms(2)]).unwrap();
        assert_eq!((cpus.at_least, cpus.partitioned), (3, 3));
    }

    #[test]
    fn cases_have_their_properties() {
        for row in rows(1, 3).unwrap() {
            for mode in row.modes {
                assert_eq!(mode.at_least, TOTAL_CPUS as u32, "{row:?}");
                assert!(mode.global <= HOST_CPUS && mode.partitioned <= mode.global);
            }
            assert!(row.worst_case.at_least > TOTAL_CPUS as u32, "{row:?}");
            assert!(row.tasks >= 2 * MACHINES * VCPUS);
        }
    }
}
