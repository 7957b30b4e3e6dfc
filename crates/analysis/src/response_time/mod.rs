//! Response-time distributions of a service on a reservation.

mod anderson;
mod answers;
mod batch_work;
mod continuous;
mod described_queue;
mod diffusion;
mod execution_range;
mod lattice;
mod promise_judge;
mod queue;
mod schedule;
mod search;
mod service_queue;

use std::collections::BTreeMap;

use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_model::{Arrivals, ReservationServer, Scheduling, Service, Task};
use tailbound_time::{Duration, Rate};

use crate::batches::BatchLaw;
use crate::{
    AnalysisError, PeriodicLoad, Prediction, SearchWatch, ServiceQuery, SharpPoints, Unwatched,
};
pub(crate) use answers::EXACT_EVIDENCE;
pub use answers::{ProbabilityBounds, QueueResponses};
pub(crate) use continuous::BudgetUse;
pub use described_queue::DescribedQueue;
pub(crate) use lattice::LatticeRung;
use lattice::{JobStream, Law};
pub(crate) use promise_judge::PromiseJudge;
pub(crate) use queue::PRECISE;
pub use queue::PoissonQueue;

/// The distribution of the response times of a service's jobs, with a lower and an upper bound: proved, or an
/// estimate beside the proved bracket, as its evidence says.
///
/// # Errors
/// [`AnalysisError::Overloaded`] if the work outgrows the reservation,
/// [`AnalysisError::NotAnalysed`] for systems outside the methods, and what is wrong with the
/// description otherwise.
pub fn predict(query: &ServiceQuery<'_>) -> Result<Prediction, AnalysisError> {
    predict_at(query, &SharpPoints::default())
}

/// The same, as sharp as can be at the points that are asked for and at the promises of the service.
///
/// # Errors
/// As of [`predict`].
pub fn predict_at(
    query: &ServiceQuery<'_>,
    points: &SharpPoints,
) -> Result<Prediction, AnalysisError> {
    predict_watched(query, points, &Unwatched)
}

/// The prediction of [`predict`], whose progress `watch` hears. Where the watch stops it, the answer is a wider bracket, as
/// [`Prediction::is_stopped`] tells; periodic tasks are answered to the end.
///
/// # Errors
/// As of [`predict`].
pub fn predict_watched(
    query: &ServiceQuery<'_>,
    points: &SharpPoints,
    watch: &dyn SearchWatch,
) -> Result<Prediction, AnalysisError> {
    if let Some((task, key)) = query.service.delayed_task() {
        return Err(AnalysisError::delayed(task, key));
    }
    if query.service.users.is_some() {
        return Err(AnalysisError::NotAnalysed {
            reason: "the service has users who wait for replies, and no response-time distribution of ours is for a \
                     closed loop"
                .into(),
        });
    }
    let poisson = |task: &Task| matches!(task.arrivals, Arrivals::Poisson { .. });
    if query.service.tasks.values().all(poisson) {
        return predict_poisson(query, &BatchLaw::single(), (points, watch));
    }
    let laws = laws(query)?;
    check_load(query, &laws)?;
    let periodic = |task: &Task| matches!(task.arrivals, Arrivals::Periodic { .. });
    if query.service.tasks.values().all(periodic) {
        return predict_periodic(query, &laws);
    }
    if let Some(reason) = modulated(query) {
        return Err(AnalysisError::NotAnalysed { reason });
    }
    Err(AnalysisError::NotAnalysed {
        reason: "response times are analysed for services with Poisson tasks only, or with \
                 periodic tasks only; simulate the others"
            .into(),
    })
}

/// Why Markov-modulated arrivals are not analysed, and what bounds their response times: the jobs are some of those
/// of a Poisson process with the highest rate, chosen without regard to its past, and without the others each is
/// done no later.
fn modulated(query: &ServiceQuery<'_>) -> Option<String> {
    let mut tasks = query.service.tasks.iter();
    tasks.find_map(|(name, task)| {
        let Arrivals::MarkovModulatedPoisson { states } = &task.arrivals else {
            return None;
        };
        let rates = states.iter().filter_map(|state| state.rate);
        let highest = rates.max_by(|a, b| a.as_per_second().total_cmp(&b.as_per_second()))?;
        Some(format!(
            "the arrivals of task \"{name}\" are Markov-modulated, and no response-time distribution of \
             ours is for these; simulate them, or take poisson arrivals of the highest rate, {highest}, \
             whose response times bound theirs from above"
        ))
    })
}

/// The law of every task's execution times, in the order of the tasks.
fn laws(query: &ServiceQuery<'_>) -> Result<Vec<Law>, AnalysisError> {
    laws_of((query.name, query.service), &query.execution_times)
}

/// The same of a service with the execution times that are given for some of its tasks.
fn laws_of(
    (name, service): (&str, &Service),
    given: &BTreeMap<String, Distribution>,
) -> Result<Vec<Law>, AnalysisError> {
    let law = |(name, task): (&String, &Task)| match given.get(name) {
        Some(distribution) => Law::given(name, distribution),
        None => Law::described(name, &task.execution_time),
    };
    if service.tasks.is_empty() {
        return Err(AnalysisError::Invalid {
            what: format!("service \"{name}\" has no task; it needs one"),
        });
    }
    service.tasks.iter().map(law).collect()
}

/// Jobs per second of a task, all clients together; at most, for sporadic tasks. `None` for
/// traces.
fn jobs_per_second(task: &Task) -> Option<f64> {
    match task.least_gap() {
        Some(least) => Some(f64::from(task.clients) / least.as_secs_f64()),
        None => task.mean_rate().map(Rate::as_per_second),
    }
}

/// The share of a CPU that a server gives.
fn bandwidth(server: ReservationServer) -> f64 {
    server.budget_and_period().map_or(1.0, |(budget, period)| {
        budget.as_nanos() as f64 / period.as_nanos().max(1) as f64
    })
}

/// The load of single jobs, in CPUs.
fn utilisation(query: &ServiceQuery<'_>, laws: &[Law]) -> f64 {
    let load = |(task, law): (&Task, &Law)| {
        jobs_per_second(task).map_or(0.0, |rate| rate * law.mean_seconds())
    };
    query.service.tasks.values().zip(laws).map(load).sum()
}

/// The stability condition U < W (thesis, eq. 4.1).
fn check_load(query: &ServiceQuery<'_>, laws: &[Law]) -> Result<(), AnalysisError> {
    check_room(query, utilisation(query, laws))
}

fn check_room(query: &ServiceQuery<'_>, utilisation: f64) -> Result<(), AnalysisError> {
    let bandwidth = bandwidth(query.server);
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
    match server.budget_and_period() {
        Some((_, period)) if utilisation < 1.0 => {
            let least = Duration::from_secs_f64_nearest(utilisation * period.as_secs_f64());
            format!(
                "give more than {:.2} % of the CPU (a budget above {least} in {period}), or {fewer}",
                utilisation * 100.0
            )
        }
        _ => format!("no bandwidth of one CPU suffices; {fewer}"),
    }
}

/// The prediction for a service whose tasks are all Poisson and whose jobs come in `batches`.
fn predict_poisson(
    query: &ServiceQuery<'_>,
    batches: &BatchLaw,
    (points, watch): (&SharpPoints, &dyn SearchWatch),
) -> Result<Prediction, AnalysisError> {
    let laws = laws(query)?;
    let utilisation = utilisation(query, &laws) * batches.mean();
    check_room(query, utilisation)?;
    if query.service.scheduling != Scheduling::Fifo && query.service.tasks.len() > 1 {
        return Err(AnalysisError::NotAnalysed {
            reason: "several Poisson tasks under priorities; first come, first served is".into(),
        });
    }
    if let Some(prediction) = service_queue::predict_on_grid(query, batches, watch) {
        return prediction;
    }
    let stream = |(task, law): (&Task, &Law)| {
        let per_second = jobs_per_second(task).unwrap_or(0.0);
        JobStream {
            per_second,
            law: law.clone(),
            batches: batches.clone(),
        }
    };
    let streams: Vec<_> = query
        .service
        .tasks
        .values()
        .zip(&laws)
        .map(stream)
        .collect();
    let overhead = query.dispatch_overhead;
    let server = lattice::server_in_practice(&streams, query.server);
    let (sharp, responses) = rayon::join(
        || {
            let wanted = !watch.is_stopped();
            let sharp = || service_queue::sharp(query, &laws, (&streams, server), points);
            wanted.then(sharp).flatten()
        },
        || lattice::response_times(&streams, query.server, overhead, watch),
    );
    let responses = responses?;
    let method = responses.method();
    let assumptions = poisson_assumptions(query, responses.rounding());
    let is_stopped = responses.is_stopped;
    let mut prediction = answer(
        query,
        utilisation,
        method.into(),
        assumptions,
        (responses.overall, responses.per_stream),
        |one, of| one.into_distribution(of),
    );
    prediction.sharp_mean = Some(responses.mean);
    prediction.is_stopped = is_stopped;
    Ok(match sharp {
        Some(sharp) => sharp.sharpen(prediction),
        None => prediction,
    })
}

fn predict_periodic(query: &ServiceQuery<'_>, laws: &[Law]) -> Result<Prediction, AnalysisError> {
    let varies = |law: &Law| law.few_values().is_none_or(|values| values.len() != 1);
    let own_cpu = match query.server.in_effect() {
        ReservationServer::Dedicated => "",
        _ => ", as on a dedicated CPU, since the budget is never used up (Li 2021, Theorem 1)",
    };
    if laws.iter().any(varies) {
        return predict_varying(query, laws, own_cpu);
    }
    let load = PeriodicLoad::of(query.service, &query.execution_times)?;
    schedule::check_never_depleted(&load, query.server)?;
    let steady = schedule::steady_state(query.service, &load)?;
    let curve = |task| schedule::curve(steady.of(task, query.dispatch_overhead));
    let per_task = (0..laws.len()).map(|task| curve(Some(task)));
    let curves = (curve(None)?, per_task.collect::<Result<_, _>>()?);
    let method = format!("the schedule of one hyperperiod{own_cpu}");
    let assumptions = periodic_assumptions(query, vec!["execution times are constant".into()]);
    let utilisation = utilisation(query, laws);
    Ok(answer(
        query,
        utilisation,
        method,
        assumptions,
        curves,
        |one, of| Distribution::from_curve(of, one),
    ))
}

/// Periodic tasks of which at least one has no constant execution time.
fn predict_varying(
    query: &ServiceQuery<'_>,
    laws: &[Law],
    own_cpu: &str,
) -> Result<Prediction, AnalysisError> {
    let mut worst = PeriodicLoad::of(query.service, &query.execution_times)?;
    for (task, owner) in worst.tasks.iter_mut().zip(schedule::owners(query.service)) {
        task.execution = Duration::from_nanos(laws[owner].longest_ns());
    }
    let ranges = schedule::check_never_depleted(&worst, query.server).and_then(|()| {
        execution_range::response_times(query.service, laws, &worst, query.dispatch_overhead)
    });
    let ranges = ranges.map_err(|error| match error {
        AnalysisError::NotAnalysed { reason } => AnalysisError::NotAnalysed {
            reason: format!("if every job takes its longest execution time, {reason}"),
        },
        AnalysisError::Overloaded { utilisation, .. } => AnalysisError::NotAnalysed {
            reason: format!(
                "periodic tasks are analysed if they keep up even where every job takes its \
                 longest execution time; these would need {:.2} % of a CPU",
                utilisation * 100.0
            ),
        },
        other => other,
    })?;
    let method = format!("{}{own_cpu}", ranges.method);
    let assumptions = periodic_assumptions(query, ranges.assumptions);
    let utilisation = utilisation(query, laws);
    let curves = (ranges.overall, ranges.per_task);
    Ok(answer(
        query,
        utilisation,
        method,
        assumptions,
        curves,
        |one, of| one.into_distribution(of),
    ))
}

/// The answer with a distribution for all jobs and for each task's, made of what was found for them.
fn answer<T>(
    query: &ServiceQuery<'_>,
    utilisation: f64,
    method: String,
    assumptions: Vec<String>,
    (overall, per_task): (T, Vec<T>),
    distribution: impl Fn(T, Provenance) -> Distribution,
) -> Prediction {
    let of = |one: T, subject: String| {
        let mut provenance = Provenance::new(Evidence::Bound, subject, method.clone());
        provenance.assumptions.clone_from(&assumptions);
        distribution(one, provenance)
    };
    let name = query.name;
    let tasks = query.service.tasks.keys().zip(per_task);
    let per_task = tasks
        .map(|(task, one)| {
            (
                task.clone(),
                of(one, format!("response time of {name}.{task}")),
            )
        })
        .collect();
    Prediction {
        overall: of(overall, format!("response time of {name}")),
        proved: None,
        cap_assumptions: Vec::new(),
        per_task,
        method,
        assumptions,
        sharp_mean: None,
        is_stopped: false,
        utilisation,
        bandwidth: bandwidth(query.server),
    }
}

fn periodic_assumptions(query: &ServiceQuery<'_>, of_method: Vec<String>) -> Vec<String> {
    let mut assumptions = vec!["releases are strictly periodic from their offsets on".to_string()];
    assumptions.extend(of_method);
    assumptions.extend(server_assumptions(query));
    assumptions
}

fn poisson_assumptions(query: &ServiceQuery<'_>, rounding: String) -> Vec<String> {
    let mut assumptions = vec![
        "releases form a Poisson process".to_string(),
        "execution times are independent draws from the given distribution".into(),
        "jobs are served first come, first served by one thread".into(),
        "the service has been running long enough to be in equilibrium".into(),
        rounding,
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
