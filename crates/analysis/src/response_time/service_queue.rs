//! A described service as one queue.

use std::collections::BTreeMap;

use tailbound_distribution::{Distribution, Evidence};
use tailbound_model::{Arrivals, ReservationServer, Scheduling, Service};
use tailbound_time::{Duration, Rate};

use super::poisson::Law;
use super::queue::PoissonQueue;
use super::{ServiceQuery, jobs_per_second, laws};
use crate::grid::GridPrediction;
use crate::{AnalysisError, Prediction};

/// A continuous law of execution times is cut into so many slices, each rounded up.
const SLICES: u64 = 32;

impl PoissonQueue {
    /// The queue of a service all of whose tasks are Poisson: their jobs in one stream, first come,
    /// first served, with the longest of the given execution times, or of the described ones for
    /// tasks without. Where these are known as a bracket the longer end counts, and a uniform law
    /// is rounded up to a 32nd of its range, so that no response is shorter than the queue's.
    ///
    /// # Errors
    /// [`AnalysisError::NotAnalysed`] for other arrivals and other orders of service,
    /// [`AnalysisError::ExecutionTimeUnknown`], and [`AnalysisError::Invalid`] for a service
    /// without tasks.
    pub fn of_service(
        name: &str,
        service: &Service,
        execution_times: &BTreeMap<String, Distribution>,
        server: ReservationServer,
    ) -> Result<Self, AnalysisError> {
        let refused = |reason: String| Err(AnalysisError::NotAnalysed { reason });
        let query = ServiceQuery {
            name,
            service,
            execution_times: execution_times.clone(),
            server,
            dispatch_overhead: Duration::ZERO,
        };
        let laws = laws(&query)?;
        for (task, described) in &service.tasks {
            if !matches!(described.arrivals, Arrivals::Poisson { .. }) {
                return refused(format!(
                    "task \"{task}\" is not Poisson, and budgets of promises are found for \
                     services with Poisson tasks only"
                ));
            }
        }
        if service.scheduling != Scheduling::Fifo && service.tasks.len() > 1 {
            return refused(
                "several Poisson tasks under priorities; first come, first served is".into(),
            );
        }
        let rates: Vec<f64> = service
            .tasks
            .values()
            .map(|task| jobs_per_second(task).unwrap_or(0.0))
            .collect();
        let sum: f64 = rates.iter().sum();
        let rate = Rate::per_second(sum).ok_or_else(|| AnalysisError::Invalid {
            what: format!("the tasks of service \"{name}\" come {sum} times a second"),
        })?;
        let mut values: BTreeMap<Duration, f64> = BTreeMap::new();
        for (law, of_task) in laws.iter().zip(&rates) {
            for (time, p) in atoms(law) {
                *values.entry(time).or_insert(0.0) += p * of_task / sum;
            }
        }
        Ok(Self {
            rate,
            execution_times: values.into_iter().collect(),
            batches: vec![(1, 1.0)],
            server,
        })
    }
}

/// The values of a law with their probabilities, no shorter than they are.
fn atoms(law: &Law) -> Vec<(Duration, f64)> {
    match law {
        Law::Atoms { pessimistic, .. } => pessimistic
            .iter()
            .map(|(ns, p)| (Duration::from_nanos(*ns), *p))
            .collect(),
        Law::Uniform(from, to) => {
            let step = |slice: u64| (to - from).saturating_mul(slice).div_ceil(SLICES);
            let upper_end = |slice: u64| Duration::from_nanos(from + step(slice));
            let each = 1.0 / SLICES as f64;
            (1..=SLICES).map(|slice| (upper_end(slice), each)).collect()
        }
    }
}

/// The prediction for a service on a server that follows the arrivals, of all its jobs together;
/// `None` for other servers. By task only where there is only one.
pub(super) fn predict_on_grid(
    query: &ServiceQuery<'_>,
) -> Option<Result<Prediction, AnalysisError>> {
    let (name, service) = (query.name, query.service);
    let queue = PoissonQueue::of_service(name, service, &query.execution_times, query.server);
    let found = match queue {
        Ok(queue) => queue.on_a_grid(query.dispatch_overhead)?,
        Err(error) => {
            let follows = matches!(
                query.server,
                ReservationServer::Polling { .. } | ReservationServer::ConstantBandwidth { .. }
            );
            return follows.then_some(Err(error));
        }
    };
    Some(found.and_then(|found| Ok(prediction(query, found, &laws(query)?))))
}

fn prediction(query: &ServiceQuery<'_>, found: GridPrediction, laws: &[Law]) -> Prediction {
    let mut overall = found.distribution;
    overall.provenance.subject = format!("response time of {}", query.name);
    let mut assumptions = found.assumptions;
    let exactly = |law: &Law| match law {
        Law::Atoms {
            optimistic,
            pessimistic,
        } => optimistic == pessimistic,
        Law::Uniform(..) => false,
    };
    if !laws.iter().all(exactly) {
        // The server is not monotone in its load.
        overall.provenance.evidence = Evidence::Estimate;
        assumptions.push(
            "execution times that are known as a range are rounded up, which is no bound here"
                .into(),
        );
    }
    overall.provenance.assumptions.clone_from(&assumptions);
    let mut per_task = BTreeMap::new();
    if let (Some(task), 1) = (query.service.tasks.keys().next(), query.service.tasks.len()) {
        let mut alone = overall.clone();
        alone.provenance.subject = format!("response time of {}.{task}", query.name);
        per_task.insert(task.clone(), alone);
    }
    Prediction {
        overall,
        per_task,
        method: found.method,
        assumptions,
        utilisation: found.utilisation,
        bandwidth: found.bandwidth,
    }
}
