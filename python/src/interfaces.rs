//! The least reservation on which tasks meet their deadlines.

use pyo3::prelude::*;
use tailbound_analysis::AnalysisError as Refused;
use tailbound_analysis::interfaces::search::on_fewest_cpus;
use tailbound_analysis::interfaces::{
    InterfaceSearch, LeastInterface, LocalScheduler, ResourceModel, Workload,
};
use tailbound_time::Duration;

use crate::interruption::interruptible;
use crate::refusal::{invalid, refused};
use crate::tasks::{SporadicRow, sporadic};

/// Budget, period and, of several, the number of CPUs; the method; what is taken for granted; what is
/// missing with a nanosecond less.
type InterfaceRow = (u64, u64, u32, String, Vec<String>, Option<String>);

/// What is asked for: the model by name, with the deadline of its budget or the jitter in nanoseconds,
/// or the most CPUs.
#[derive(Clone, Copy)]
enum Asked {
    OneCpu(ResourceModel),
    FewestCpus(u32),
}

/// The reservation with the least bandwidth among these periods, whose replenishments cost so much.
///
/// # Errors
/// What the analysis refuses, and a model or scheduler that there is none of.
#[pyfunction]
#[pyo3(signature = (tasks_ns, model, by_deadline, length_ns, cpus, periods_ns, overhead_ns))]
#[allow(clippy::too_many_arguments)]
pub fn least_interface(
    python: Python<'_>,
    tasks_ns: Vec<SporadicRow>,
    model: &str,
    by_deadline: bool,
    length_ns: u64,
    cpus: u32,
    periods_ns: Vec<u64>,
    overhead_ns: u64,
) -> PyResult<InterfaceRow> {
    let length = Duration::from_nanos(length_ns);
    let asked = match model {
        "periodic" => Asked::OneCpu(ResourceModel::Periodic),
        "explicit-deadline" => Asked::OneCpu(ResourceModel::ExplicitDeadline { deadline: length }),
        "deferrable" => Asked::OneCpu(ResourceModel::Deferrable { jitter: length }),
        "multiprocessor" => Asked::FewestCpus(cpus),
        _ => {
            let what = format!("there is no resource model \"{model}\"; choose one of {MODELS:?}");
            return Err(invalid(python, what));
        }
    };
    let scheduler = match by_deadline {
        true => LocalScheduler::EarliestDeadlineFirst,
        false => LocalScheduler::FixedPriority,
    };
    let found = interruptible(python, move || {
        let workload = Workload::new(sporadic(tasks_ns)?)?;
        let periods = periods_ns.into_iter().map(Duration::from_nanos);
        let overhead = Duration::from_nanos(overhead_ns);
        search(&workload, scheduler, asked, periods, overhead)
    })?;
    let found = found.map_err(|error| refused(python, &error))?;
    let cpus = match found.model {
        ResourceModel::Multiprocessor { cpus } => cpus,
        _ => 1,
    };
    let tightest = found.tightest.map(|shortage| shortage.to_string());
    let (budget_ns, period_ns) = (found.budget.as_nanos(), found.period.as_nanos());
    let (method, assumptions) = (found.method, found.assumptions);
    Ok((budget_ns, period_ns, cpus, method, assumptions, tightest))
}

fn search(
    workload: &Workload,
    scheduler: LocalScheduler,
    asked: Asked,
    periods: impl Iterator<Item = Duration>,
    overhead: Duration,
) -> Result<LeastInterface, Refused> {
    let model = match asked {
        Asked::OneCpu(model) => model,
        Asked::FewestCpus(cpus) => {
            let one = |period| on_fewest_cpus(workload, period, cpus, overhead);
            let found: Result<Vec<LeastInterface>, Refused> = periods.map(one).collect();
            let best = found?.into_iter().reduce(|best, next| {
                match (next.bandwidth(), best.bandwidth()) {
                    (Some(less), Some(more)) if less < more => next,
                    _ => best,
                }
            });
            return best.ok_or_else(|| Refused::Invalid {
                what: "there is no period to search; give at least one".into(),
            });
        }
    };
    let search = InterfaceSearch {
        workload,
        scheduler,
        model,
        overhead,
    };
    search.best(periods)
}

/// The resource models by name.
const MODELS: [&str; 4] = [
    "periodic",
    "explicit-deadline",
    "deferrable",
    "multiprocessor",
];
