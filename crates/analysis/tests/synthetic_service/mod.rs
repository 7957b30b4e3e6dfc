//! A service as the tests of the analyses describe it, and the ends of what is answered for it.

use tailbound_distribution::{Distribution, Shape, StepCdf};
use tailbound_model::{Arrivals, ExecutionTime, Scheduling, Service, Task};
use tailbound_time::Rate;

/// A service of these tasks, with nothing that an analysis looks at besides.
pub fn service<Name: Into<String>>(
    scheduling: Scheduling,
    tasks: impl IntoIterator<Item = (Name, Task)>,
) -> Service {
    Service {
        scheduling,
        ..Service::of("d", "unix:s", tasks)
    }
}

/// A task of one client, without a deadline or a priority of its own.
pub fn task(arrivals: Arrivals, execution_time: ExecutionTime) -> Task {
    Task::of(arrivals, execution_time)
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
