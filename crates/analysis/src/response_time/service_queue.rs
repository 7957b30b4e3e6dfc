//! A described service as one queue.

use std::collections::BTreeMap;

use tailbound_distribution::Distribution;
use tailbound_model::{Arrivals, ReservationServer, Scheduling, Service};
use tailbound_time::{Duration, Rate};

use super::poisson::Law;
use super::queue::PoissonQueue;
use super::{ServiceQuery, jobs_per_second, laws};
use crate::AnalysisError;

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
