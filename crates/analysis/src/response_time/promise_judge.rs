//! `PromiseJudge` judges promises about one load under servers of any budget and period.

use tailbound_model::ReservationServer;

use super::lattice::{self, JobStream, LatticeOutlook, LatticeRung};
use super::queue::PoissonQueue;
use crate::{AnalysisError, Promise};

/// The load and the promises. Execution times are put on no lattice yet.
#[derive(Clone, Debug)]
pub(crate) struct PromiseJudge<'a> {
    streams: Vec<JobStream>,
    promises: &'a [Promise],
}

impl<'a> PromiseJudge<'a> {
    /// The judge of the promises about the jobs of a queue, whose server is not looked at.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for execution times that are no distribution.
    pub(crate) fn new(
        queue: &PoissonQueue,
        promises: &'a [Promise],
    ) -> Result<Self, AnalysisError> {
        Ok(Self {
            streams: vec![queue.stream()?],
            promises,
        })
    }

    /// The outlook of all promises together on one lattice, proved on each: kept, missed, or undecided; the finest
    /// lattice shows no miss.
    ///
    /// # Errors
    /// [`AnalysisError::NotAnalysed`] for other servers than deferrable, periodic and dedicated ones.
    pub(crate) fn outlook(
        &self,
        server: ReservationServer,
        rung: LatticeRung,
    ) -> Result<LatticeOutlook, AnalysisError> {
        lattice::judge(&self.streams, server, self.promises, rung)
    }
}
