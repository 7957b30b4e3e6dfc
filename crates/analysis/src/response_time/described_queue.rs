//! A queue whose execution times a description could have.

use std::collections::BTreeMap;

use tailbound_model::{Arrivals, ExecutionTime, ReservationServer, Service, Task};
use tailbound_time::Rate;

use super::PoissonQueue;
use super::service_queue::{TASK, predict_one_task};
use crate::batches::BatchLaw;
use crate::{AnalysisError, Prediction, SearchWatch, SharpPoints};

/// Jobs that come as a Poisson process, one or several at a time, first come, first served, with execution times of a
/// formula, or of a histogram within whose bins any law is possible.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedQueue {
    /// How often jobs, or batches of them, come.
    pub rate: Rate,
    /// The execution times of the jobs, which are independent.
    pub execution_time: ExecutionTime,
    /// How many jobs come at a time, with probabilities; `[(1, 1.0)]` for single jobs.
    pub batches: Vec<(u32, f64)>,
    /// The rule by which CPU time is given.
    pub server: ReservationServer,
}

impl DescribedQueue {
    /// The response times of the queue, called `name`: a bracket that holds whatever the law within what is known, proved
    /// but on polling servers. Execution times are rounded outward, each job's by itself, before those of a batch are
    /// added; where the watch stops the computation, the bracket is wider.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for batches that are no law, [`AnalysisError::Overloaded`] if the work outgrows the
    /// reservation, [`AnalysisError::NotAnalysed`] where the lattices would be too fine, and
    /// [`AnalysisError::ExecutionTimeUnknown`] for execution times that only a file or a calibration has.
    pub fn predict_watched(
        &self,
        name: &str,
        points: &SharpPoints,
        watch: &dyn SearchWatch,
    ) -> Result<Prediction, AnalysisError> {
        let batches = BatchLaw::new(&self.batches);
        batches.check()?;
        predict_one_task(
            (name, self.task(), None),
            (&batches, self.server),
            (points, watch),
        )
    }

    /// The queue with listed execution times, each job no shorter than it is: a budget for these is enough for the true
    /// ones.
    ///
    /// # Errors
    /// [`AnalysisError::ExecutionTimeUnknown`] for execution times that only a file or a calibration has.
    pub fn with_listed_times(&self, name: &str) -> Result<PoissonQueue, AnalysisError> {
        let service = Service::of(name, "", [(TASK, self.task())]);
        let queue = PoissonQueue::of_service(name, &service, &BTreeMap::new(), self.server)?;
        Ok(PoissonQueue {
            batches: self.batches.clone(),
            ..queue
        })
    }

    /// The jobs as a task.
    fn task(&self) -> Task {
        let arrivals = Arrivals::Poisson { rate: self.rate };
        Task::of(arrivals, self.execution_time.clone())
    }
}
