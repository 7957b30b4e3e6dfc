//! The case that is executed: three domains on one CPU, two modes, one interface for each domain and mode.

use serde::Serialize;
use tailbound_time::Duration;

use crate::generate::{Component, GenerateError, Order, Task, as_nanos, parts, random};

/// The period of every interface, as in the thesis.
pub const PERIOD: Duration = Duration::from_millis(5);
/// What all domains have together in each mode: three quarters of the CPU.
const TOTAL: Duration = Duration::from_micros(3750);
/// Budgets are multiples of it.
const BUDGET_STEP: Duration = Duration::from_micros(50);
/// No domain has less in a mode, or more.
const LEAST: Duration = Duration::from_micros(500);
const MOST: Duration = Duration::from_micros(2500);
/// The virtual machine has this at least: its kernel takes a part that does not shrink with the budget.
const LEAST_OF_A_MACHINE: Duration = Duration::from_micros(1000);
/// A domain of processes really executes so many times what the initial mode reserves for it, at least,
/// in the second mode.
const OVERLOAD: f64 = 1.3;
/// Tasks of a domain in a mode.
const TASKS: usize = 2;
const MOST_DRAWS: u32 = 100_000;

/// The domains, the virtual machine first, with the priorities of their reservations.
const DOMAINS: [(&str, u8); 3] = [("vision", 50), ("motion", 40), ("logging", 30)];

/// What a domain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A virtual machine with one virtual CPU.
    Machine,
    /// Processes.
    Processes,
}

impl Kind {
    /// How its tasks run. A virtual machine's own kernel has priorities for them; processes of a domain have
    /// all the one of their reservation.
    pub fn order(self) -> Order {
        match self {
            Self::Machine => Order::RateMonotonic,
            Self::Processes => Order::FirstCome,
        }
    }

    /// What a task really executes of the execution time that the analysis counts. The rest is for what is
    /// not in the tasks: the guest's kernel and the emulation of its devices, releases, a CPU that is slower
    /// while its sibling works.
    pub fn executed(self, analysed: Duration) -> Duration {
        match self {
            Self::Machine => analysed.scaled_down(40, 100),
            Self::Processes => analysed.scaled_down(80, 100),
        }
    }
}

/// What a domain does in one mode.
#[derive(Clone, Debug, Serialize)]
pub struct Local {
    /// Of its interface.
    #[serde(rename = "budget_ns", serialize_with = "as_nanos")]
    pub budget: Duration,
    /// Its tasks, the shortest period first.
    pub tasks: Vec<Task>,
}

/// A domain.
#[derive(Clone, Debug, Serialize)]
pub struct Domain {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Of its reservation.
    pub priority: u8,
    /// In each mode.
    pub modes: [Local; 2],
}

/// The name of a task: of which mode it is, and which of that mode.
pub fn task_name(mode: usize, task: usize) -> String {
    format!("m{mode}t{task}")
}

impl Domain {
    /// All tasks with their names.
    pub fn tasks(&self) -> impl Iterator<Item = (String, Task)> + '_ {
        self.modes.iter().enumerate().flat_map(|(mode, local)| {
            let numbered = local.tasks.iter().enumerate();
            numbered.map(move |(number, task)| (task_name(mode, number), *task))
        })
    }

    /// The larger of its budgets.
    pub fn worst(&self) -> Duration {
        self.modes[0].budget.max(self.modes[1].budget)
    }
}

/// A case.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Of the random numbers.
    pub seed: u64,
    /// Draws that did not have the properties of a case.
    pub discarded: u32,
    /// The domains.
    pub domains: Vec<Domain>,
}

impl Case {
    /// Draws a case. The first domain is a virtual machine, or processes where there can be none.
    ///
    /// # Errors
    /// What the analysis refuses, or no draw has the properties of a case.
    pub fn draw(seed: u64, first: Kind) -> Result<Self, GenerateError> {
        let mut rng = random(seed, 0);
        for discarded in 0..MOST_DRAWS {
            let steps = TOTAL / BUDGET_STEP;
            let budgets: [Vec<Duration>; 2] = std::array::from_fn(|_| {
                let drawn = parts(&mut rng, DOMAINS.len(), steps);
                drawn.into_iter().map(|part| BUDGET_STEP * part).collect()
            });
            if !is_case(&budgets) {
                continue;
            }
            let mut domains = Vec::new();
            for (place, (name, priority)) in DOMAINS.into_iter().enumerate() {
                let kind = if place == 0 { first } else { Kind::Processes };
                let mut local = |mode: usize| -> Result<Local, GenerateError> {
                    let budget = budgets[mode][place];
                    let component = Component {
                        budget,
                        period: PERIOD,
                        order: kind.order(),
                        // A quarter of the thesis's periods, so that short phases have many jobs.
                        shortest: Duration::from_millis(25),
                        longest: Duration::from_millis(250),
                    };
                    let tasks = component.tasks(&mut rng, TASKS)?;
                    Ok(Local { budget, tasks })
                };
                domains.push(Domain {
                    name,
                    kind,
                    priority,
                    modes: [local(0)?, local(1)?],
                });
            }
            let case = Self {
                seed,
                discarded,
                domains,
            };
            if case.overload() >= OVERLOAD {
                return Ok(case);
            }
        }
        Err(GenerateError::NoCase {
            seed,
            draws: MOST_DRAWS,
        })
    }

    /// What a domain of processes really executes in the second mode, of what the initial mode reserves for
    /// it; of the domain for which that is most.
    fn overload(&self) -> f64 {
        let processes = self.domains.iter().skip(1);
        let overload = |domain: &Domain| {
            let executed = |task: &Task| {
                let executed = domain.kind.executed(task.execution);
                executed.as_secs_f64() / task.period.as_secs_f64()
            };
            let [initial, second] = &domain.modes;
            let reserved = initial.budget.as_secs_f64() / PERIOD.as_secs_f64();
            second.tasks.iter().map(executed).sum::<f64>() / reserved
        };
        processes.map(overload).fold(0.0, f64::max)
    }

    /// What all domains would have with the larger of their budgets each, in CPUs.
    pub fn worst_case_cpus(&self) -> f64 {
        let sum: Duration = self.domains.iter().map(Domain::worst).sum();
        sum.as_secs_f64() / PERIOD.as_secs_f64()
    }
}

/// Every budget can be given, differs between the modes, and the larger ones together exceed the CPU.
fn is_case(budgets: &[Vec<Duration>; 2]) -> bool {
    let in_range = |budget: &Duration| (LEAST..=MOST).contains(budget);
    let [first, second] = budgets;
    let pairs = || first.iter().zip(second);
    let worst: Duration = pairs().map(|(a, b)| *a.max(b)).sum();
    budgets.iter().flatten().all(in_range)
        && budgets.iter().all(|mode| mode[0] >= LEAST_OF_A_MACHINE)
        && pairs().all(|(a, b)| a != b)
        && worst > PERIOD
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn cases_have_their_properties() {
        for seed in 0..20 {
            let case = Case::draw(seed, Kind::Machine).unwrap();
            for mode in 0..2 {
                let of_mode = case.domains.iter().map(|domain| domain.modes[mode].budget);
                assert_eq!(of_mode.sum::<Duration>(), TOTAL, "{case:?}");
            }
            assert!(case.worst_case_cpus() > 1.0 && case.overload() >= OVERLOAD);
            let again = Case::draw(seed, Kind::Machine).unwrap();
            assert_eq!(format!("{case:?}"), format!("{again:?}"));
        }
    }
}
