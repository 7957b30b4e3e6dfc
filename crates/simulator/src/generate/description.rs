//! A generated set as a description that every verb reads.

use tailbound_model::{
    Arrivals, BackendKind, Builtin, Cpu, Description, Domain, DomainKind, ExecutionTime,
    Experiment, Host, Reservation, Scheduling, Service, Task, Variant,
};
use tailbound_time::Duration;

use super::{GenerateError, GeneratedTask, Recipe, task_set};

/// The name of the service and of its domain.
const SET: &str = "set";

/// What a description says beside the tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The name of the description.
    pub name: String,
    /// What it is, for a reader.
    pub about: String,
    /// The order in which the tasks are served.
    pub scheduling: Scheduling,
    /// Budget and period of the domain's reservation; a CPU of its own if left out.
    pub reservation: Option<(Duration, Duration)>,
}

impl Frame {
    /// That of set number `number` of a seed, as files with several sets name them.
    ///
    /// # Errors
    /// A budget of zero, or one that is longer than its period.
    pub fn numbered(
        recipe: &Recipe,
        seed: u64,
        number: u32,
        scheduling: Scheduling,
        reservation: Option<(Duration, Duration)>,
    ) -> Result<Self, GenerateError> {
        if let Some((budget, period)) = reservation
            && (budget.is_zero() || budget > period)
        {
            return Err(GenerateError::Reservation { budget, period });
        }
        let (number, utilisation) = (number + 1, recipe.utilisation);
        Ok(Self {
            name: format!("set-{number}"),
            about: format!("Generated: utilisation {utilisation}, set {number} of seed {seed}."),
            scheduling,
            reservation,
        })
    }
}

/// The name of task number `index` of a set of `count`: `t1`, or `t01` of ten and more, so that the
/// order of the names is that of the tasks.
pub fn task_name(index: usize, count: usize) -> String {
    let digits = count.to_string().len();
    format!("t{:0digits$}", index + 1)
}

/// The set number `number` of `seed` as periodic tasks of a synthetic service on one CPU.
///
/// # Errors
/// As [`task_set`], and [`GenerateError::NotDescribed`] for an order that a set cannot be served in.
pub fn description(
    recipe: &Recipe,
    seed: u64,
    number: u32,
    frame: &Frame,
) -> Result<Description, GenerateError> {
    let set = task_set(recipe, seed, number)?;
    if frame.scheduling == Scheduling::FixedPriority {
        return Err(GenerateError::NotDescribed {
            what: "generated tasks under `fixed-priority`, which have no priorities".into(),
            remedy: "take rate-monotonic or deadline-monotonic, which follow from the tasks".into(),
        });
    }
    let tasks = set.iter().enumerate().map(|(index, task)| {
        let name = task_name(index, set.len());
        (name, described(task))
    });
    let service = Service {
        scheduling: frame.scheduling,
        ..Service::of(SET, format!("unix:{SET}.sock"), tasks)
    };
    let here = Host::of([Cpu(0)].into());
    Ok(Description {
        seed,
        hosts: [("local".to_string(), here)].into(),
        domains: [(SET.to_string(), domain(frame))].into(),
        services: [(SET.to_string(), service)].into(),
        experiment: experiment(frame),
        ..Description::named(&frame.name, &frame.about)
    })
}

fn described(task: &GeneratedTask) -> Task {
    let arrivals = Arrivals::Periodic {
        period: task.period,
        offset: task.offset,
    };
    let value = task.execution;
    Task {
        deadline: Some(task.deadline),
        ..Task::of(arrivals, ExecutionTime::Constant { value })
    }
}

fn domain(frame: &Frame) -> Domain {
    let backend = match frame.reservation {
        Some(_) => BackendKind::default(),
        None => BackendKind::WHOLE_CPUS,
    };
    Domain {
        builtin: Some(Builtin::SyntheticService),
        reservation: Some(Reservation {
            budget: frame.reservation.map(|(budget, _)| budget),
            period: frame.reservation.map(|(_, period)| period),
            ..Reservation::on(backend, [Cpu(0)].into())
        }),
        ..Domain::of(DomainKind::Process)
    }
}

/// One variant: as described.
fn experiment(frame: &Frame) -> Experiment {
    let name = match frame.reservation {
        Some(_) => "reserved",
        None => "dedicated",
    };
    Experiment {
        variants: vec![Variant {
            name: name.into(),
            backend: None,
            neighbours: true,
            margin_points: None,
            repetitions: 1,
        }],
        ..Experiment::default()
    }
}
