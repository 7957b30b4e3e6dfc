//! A service as the tests of the analyses describe it, and the ends of what is answered for it.

use tailbound_distribution::{Distribution, Shape, StepCdf};
use tailbound_model::{Arrivals, ExecutionTime, Protocol, Scheduling, Service, Task};
use tailbound_time::Rate;

/// A service of these tasks, with nothing that an analysis looks at besides.
pub fn service<Name: Into<String>>(
    scheduling: Scheduling,
    tasks: impl IntoIterator<Item = (Name, Task)>,
) -> Service {
    let tasks = tasks.into_iter().map(|(name, task)| (name.into(), task));
    Service {
        domain: "d".into(),
        protocol: Protocol::Synthetic,
        endpoint: "unix:s".into(),
        scheduling,
        max_in_flight: None,
        setup: Vec::new(),
        tasks: tasks.collect(),
        slos: Vec::new(),
    }
}

/// A task of one client, without a deadline or a priority of its own.
pub fn task(arrivals: Arrivals, execution_time: ExecutionTime) -> Task {
    Task {
        arrivals,
        execution_time,
        deadline: None,
        priority: None,
        request: None,
        clients: 1,
        vcpu: None,
        sections: Vec::new(),
        boost: None,
    }
}

/// Poisson arrivals of so many jobs per second.
pub fn poisson(per_second: f64) -> Arrivals {
    Arrivals::Poisson {
        rate: Rate::per_second(per_second).unwrap(),
    }
}

/// The optimistic and the pessimistic end of a bracket.
pub fn ends(distribution: &Distribution) -> (&StepCdf, &StepCdf) {
    match &distribution.shape {
        Shape::Bracket {
            optimistic,
            pessimistic,
        } => (optimistic, pessimistic),
        other => panic!("not a bracket: {other:?}"),
    }
}
