//! The options of a run on a host that was calibrated.

use std::path::PathBuf;

use clap::Args;
use tailbound_experiment::PredictedRun;
use tailbound_time::Duration;

use super::HistoryArguments;
use crate::failure::Failure;

/// A described run, as the host of a recorded calibration would make it.
#[derive(Debug, Args)]
pub struct CalibratedRunArguments {
    /// With a FILE: take execution times and the supply of the CPUs from the calibration of an earlier `run`, whose
    /// result folder this is, and answer for the described run on that host.
    #[arg(long, value_name = "DIR", requires = "file")]
    pub calibration: Option<PathBuf>,
    /// With a calibration: how long the run is, in place of the described duration.
    #[arg(short, long, requires = "calibration")]
    pub duration: Option<Duration>,
    /// With a calibration: how long requests are sent before the run counts, in place of the described warm-up.
    #[arg(long, requires = "calibration")]
    pub warm_up: Option<Duration>,
    /// With a calibration: the history of the host's prediction bands.
    #[command(flatten)]
    pub history: HistoryArguments,
}

impl CalibratedRunArguments {
    /// The run.
    pub fn run(&self) -> PredictedRun {
        PredictedRun {
            duration: self.duration,
            warm_up: self.warm_up,
        }
    }

    /// Refuses a history where no calibration is named.
    pub fn check(&self) -> Result<(), Failure> {
        if self.calibration.is_none() && !self.history.is_default() {
            return Err(Failure::with_help(
                "a history corrects the bands of a calibrated host, and no calibration is named",
                "give the result folder of a `tailbound run` with --calibration, or leave --history out",
            ));
        }
        Ok(())
    }
}
