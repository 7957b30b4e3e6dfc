//! Response-time distributions of a service on a reservation.

mod poisson;
mod schedule;

use std::collections::BTreeMap;

use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_model::{Arrivals, ReservationServer, Scheduling, Task};
use tailbound_time::Duration;

use crate::{AnalysisError, PeriodicLoad, Prediction, ServiceQuery};
use poisson::{Law, Stream};

/// The distribution of the response times of a service's jobs, with a proved lower and upper
/// bound.
///
/// # Errors
/// [`AnalysisError::Overloaded`] if the work outgrows the reservation,
/// [`AnalysisError::NotAnalysed`] for systems outside the methods, and what is wrong with the
/// description otherwise.
pub fn predict(query: &ServiceQuery<'_>) -> Result<Prediction, AnalysisError> {
    let laws = laws(query)?;
    check_load(query, &laws)?;
    let poisson = |task: &Task| matches!(task.arrivals, Arrivals::Poisson { .. });
    if query.service.tasks.values().all(poisson) {
        return predict_poisson(query, laws);
    }
    let periodic = |task: &Task| matches!(task.arrivals, Arrivals::Periodic { .. });
    if query.service.tasks.values().all(periodic) {
        return predict_periodic(query, &laws);
    }
    Err(AnalysisError::NotAnalysed {
        reason: "response times are analysed for services with Poisson tasks only, or with \
                 periodic tasks only"
            .into(),
    })
}

/// The law of every task's execution times, in the order of the tasks.
fn laws(query: &ServiceQuery<'_>) -> Result<Vec<Law>, AnalysisError> {
    let law = |(name, task): (&String, &Task)| match query.execution_times.get(name) {
        Some(distribution) => Law::given(name, distribution),
        None => Law::described(name, &task.execution_time),
    };
    if query.service.tasks.is_empty() {
        return Err(AnalysisError::Invalid {
            what: format!("service \"{}\" has no task; it needs one", query.name),
        });
    }
    query.service.tasks.iter().map(law).collect()
}

/// Jobs per second of a task, all clients together; at most, for sporadic tasks. `None` for
/// traces.
fn jobs_per_second(task: &Task) -> Option<f64> {
    let each = match &task.arrivals {
        Arrivals::Periodic { period, .. } => 1.0 / period.as_secs_f64(),
        Arrivals::Sporadic { min_gap, .. } => 1.0 / min_gap.as_secs_f64(),
        Arrivals::Poisson { rate } => rate.as_per_second(),
        Arrivals::Trace { .. } => return None,
    };
    Some(each * f64::from(task.clients))
}

/// The share of a CPU that a server gives.
fn bandwidth(server: ReservationServer) -> f64 {
    match server {
        ReservationServer::Deferrable { budget, period }
        | ReservationServer::Periodic { budget, period }
        | ReservationServer::ConstantBandwidth { budget, period } => {
            budget.as_nanos() as f64 / period.as_nanos().max(1) as f64
        }
        ReservationServer::Dedicated => 1.0,
    }
}

fn utilisation(query: &ServiceQuery<'_>, laws: &[Law]) -> f64 {
    let load = |(task, law): (&Task, &Law)| {
        jobs_per_second(task).map_or(0.0, |rate| rate * law.mean_seconds())
    };
    query.service.tasks.values().zip(laws).map(load).sum()
}

/// The stability condition U < W (thesis, eq. 4.1).
fn check_load(query: &ServiceQuery<'_>, laws: &[Law]) -> Result<(), AnalysisError> {
    let (utilisation, bandwidth) = (utilisation(query, laws), bandwidth(query.server));
    let random = |task: &Task| matches!(task.arrivals, Arrivals::Poisson { .. });
    // A periodic load may use up all there is; a random one needs room.
    let room = if query.service.tasks.values().any(random) {
        utilisation < bandwidth
    } else {
        utilisation <= bandwidth * (1.0 + 1e-12)
    };
    if room {
        return Ok(());
    }
    Err(AnalysisError::Overloaded {
        utilisation,
        bandwidth,
        remedy: remedy(query.server, utilisation),
    })
}

fn remedy(server: ReservationServer, utilisation: f64) -> String {
    let fewer = "send fewer or shorter requests";
    match server {
        ReservationServer::Deferrable { period, .. }
        | ReservationServer::Periodic { period, .. }
        | ReservationServer::ConstantBandwidth { period, .. }
            if utilisation < 1.0 =>
        {
            let least = Duration::from_secs_f64_nearest(utilisation * period.as_secs_f64());
            format!(
                "give more than {:.2} % of the CPU (a budget above {least} in {period}), or {fewer}",
                utilisation * 100.0
            )
        }
        _ => format!("no bandwidth of one CPU suffices; {fewer}"),
    }
}

fn predict_poisson(query: &ServiceQuery<'_>, laws: Vec<Law>) -> Result<Prediction, AnalysisError> {
    if query.service.scheduling != Scheduling::Fifo && query.service.tasks.len() > 1 {
        return Err(AnalysisError::NotAnalysed {
            reason: "several Poisson tasks under priorities; first come, first served is".into(),
        });
    }
    let utilisation = utilisation(query, &laws);
    let stream = |(task, law): (&Task, Law)| {
        let per_second = jobs_per_second(task).unwrap_or(0.0);
        Stream { per_second, law }
    };
    let streams: Vec<_> = query.service.tasks.values().zip(laws).map(stream).collect();
    let (overall, per_task, step) =
        poisson::response_times(&streams, query.server, query.dispatch_overhead)?;
    let method = match query.server {
        ReservationServer::Dedicated => "M/G/1 on a lattice (Pollaczek and Khinchine)",
        _ => {
            "M/G/1 on a reservation server: first passages on a lattice, started from the workload \
             at replenishments (Li 2021, Theorem 5)"
        }
    };
    let assumptions = poisson_assumptions(query, step);
    let distribution = |task: Option<&str>, enclosure: poisson::Enclosure| {
        let subject = match task {
            Some(task) => format!("response time of {}.{task}", query.name),
            None => format!("response time of {}", query.name),
        };
        let mut provenance = Provenance::new(Evidence::Bound, subject, method);
        provenance.assumptions.clone_from(&assumptions);
        Distribution::from_bracket(provenance, enclosure.optimistic, enclosure.pessimistic)
    };
    let names = query.service.tasks.keys();
    let per_task: BTreeMap<_, _> = names
        .zip(per_task)
        .map(|(name, enclosure)| (name.clone(), distribution(Some(name.as_str()), enclosure)))
        .collect();
    Ok(Prediction {
        overall: distribution(None, overall),
        per_task,
        method: method.into(),
        assumptions,
        utilisation,
        bandwidth: bandwidth(query.server),
    })
}

fn predict_periodic(query: &ServiceQuery<'_>, laws: &[Law]) -> Result<Prediction, AnalysisError> {
    if laws
        .iter()
        .any(|law| law.few_values().is_none_or(|values| values.len() != 1))
    {
        return Err(AnalysisError::NotAnalysed {
            reason: "periodic tasks are analysed with constant execution times only".into(),
        });
    }
    let load = PeriodicLoad::of(query.service, &query.execution_times)?;
    schedule::check_never_depleted(&load, query.server)?;
    let steady = schedule::steady_state(query.service, &load)?;
    let method = match query.server {
        ReservationServer::Dedicated => "the schedule of one hyperperiod",
        _ => {
            "the schedule of one hyperperiod, which is that of a dedicated CPU, since the budget \
             is never used up (Li 2021, Theorem 1)"
        }
    };
    let mut assumptions = vec![
        "releases are strictly periodic from their offsets on".to_string(),
        "execution times are constant".into(),
    ];
    assumptions.extend(server_assumptions(query));
    let distribution = |subject: String, task: Option<usize>| {
        let of = steady
            .responses
            .iter()
            .filter(|(owner, _)| task.is_none_or(|t| t == *owner));
        let responses = of
            .map(|(_, r)| r.saturating_add(query.dispatch_overhead))
            .collect();
        let mut provenance = Provenance::new(Evidence::Bound, subject, method);
        provenance.assumptions.clone_from(&assumptions);
        Ok(Distribution::from_curve(
            provenance,
            schedule::curve(responses)?,
        ))
    };
    let mut per_task = BTreeMap::new();
    for (index, name) in query.service.tasks.keys().enumerate() {
        let subject = format!("response time of {}.{name}", query.name);
        per_task.insert(name.clone(), distribution(subject, Some(index))?);
    }
    Ok(Prediction {
        overall: distribution(format!("response time of {}", query.name), None)?,
        per_task,
        method: method.into(),
        assumptions: assumptions.clone(),
        utilisation: utilisation(query, laws),
        bandwidth: bandwidth(query.server),
    })
}

fn poisson_assumptions(query: &ServiceQuery<'_>, step: Duration) -> Vec<String> {
    let mut assumptions = vec![
        "releases form a Poisson process".to_string(),
        "execution times are independent draws from the given distribution".into(),
        "jobs are served first come, first served by one thread".into(),
        "the service has been running long enough to be in equilibrium".into(),
        format!("times are rounded outward to steps of {step}"),
    ];
    assumptions.extend(server_assumptions(query));
    assumptions
}

fn server_assumptions(query: &ServiceQuery<'_>) -> Vec<String> {
    let mut assumptions = Vec::new();
    if query.server != ReservationServer::Dedicated {
        assumptions.push(
            "the reservation has the highest priority on its CPU, and its budget is full at every \
             replenishment and spent only by the service"
                .into(),
        );
    }
    if !query.dispatch_overhead.is_zero() {
        assumptions.push(format!(
            "every response takes {} longer for the way there and back",
            query.dispatch_overhead
        ));
    }
    assumptions
}
