//! Reservations of a description for the host that a recorded calibration has seen: the runs in which their promises
//! are kept.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use tailbound_analysis::resolution::Deployment;
use tailbound_assessment::band::{BandError, kept_share};
use tailbound_assessment::execution_times::ServiceTimes;
use tailbound_assessment::sizing::{CalibratedRuns, RunForecasts};
use tailbound_model::{BackendKind, InputFiles, LoadedDescription, ReservationServer, Variant};
use tailbound_time::Duration;

use crate::ExperimentError;
use crate::band_history::BandHistory;
use crate::bands::{BandSubject, PlannedRuns};
use crate::calibration_record::CalibrationRecord;
use crate::calibrations::Condition;
use crate::campaign::known_times;
use crate::host_prediction::PredictedRun;

/// `CalibratedHost` is the host of a recorded calibration, with the run of a description on it. The run is that of the
/// first variant, which is the system as described.
#[derive(Debug)]
pub struct CalibratedHost<'a> {
    loaded: &'a LoadedDescription,
    inputs: &'a InputFiles,
    record: &'a CalibrationRecord,
    history: BandHistory,
    run: PredictedRun,
    variant: Variant,
    deployment: Deployment,
    times: BTreeMap<String, ServiceTimes>,
}

impl<'a> CalibratedHost<'a> {
    /// The host of `record`, with the earlier runs in the file `history`, and what is to be said of these.
    ///
    /// # Errors
    /// The description makes no sense to analysis, or the record lacks a service.
    pub fn new(
        loaded: &'a LoadedDescription,
        inputs: &'a InputFiles,
        (record, history): (&'a CalibrationRecord, Option<&Path>),
        run: PredictedRun,
    ) -> Result<(Self, Vec<String>), ExperimentError> {
        let description = &loaded.description;
        let (history, remarks) = BandHistory::read_or_none(history, &record.host);
        let variant = description.experiment.variants.first().cloned();
        let variant = variant.unwrap_or_else(Variant::as_described);
        let deployment = Deployment::of_run(description, &variant)?;
        let times = known_times(loaded, inputs, (&variant, &deployment), Some(record))?;
        let host = Self {
            loaded,
            inputs,
            record,
            history,
            run,
            variant,
            deployment,
            times,
        };
        Ok((host, remarks))
    }
}

impl RunForecasts for CalibratedHost<'_> {
    fn of(
        &self,
        service: &str,
        backend: BackendKind,
    ) -> Result<Box<dyn CalibratedRuns + '_>, String> {
        let described = self.loaded.description.services.get_key_value(service);
        let (name, described) = described.ok_or_else(|| {
            format!(
                "{service} is no service, and runs are those of services; leave --probability out"
            )
        })?;
        let domain = self.deployment.reserved.get(&described.domain);
        let (domain, times) = match (domain, self.times.get(name)) {
            (Some(domain), Some(times)) if domain.backend == backend => (domain, times),
            _ => {
                return Err(format!(
                    "domain \"{}\" has no {backend} reservation in variant {}, so its runs are unknown; describe one \
                     of any budget and period",
                    described.domain, self.variant.name
                ));
            }
        };
        let subject = BandSubject {
            variant: &self.variant.name,
            name,
            service: described,
            domain,
            condition: Condition::of(&self.variant, Some(domain)),
            times,
        };
        let stop = AtomicBool::new(false);
        let bench = self.run.bench(self.loaded, self.inputs, &stop);
        let queue = subject.queue(self.record, &bench);
        let queue = queue.map_err(|why| format!("its runs are unknown, since {why}"))?;
        let planned = subject.runs(queue, &self.history, &bench);
        let planned = planned.map_err(|error| error.to_string())?;
        Ok(Box::new(SizedRuns { planned, times }))
    }
}

/// `SizedRuns` are the runs of a service whose reservation is looked for.
struct SizedRuns<'a> {
    planned: PlannedRuns,
    times: &'a ServiceTimes,
}

impl CalibratedRuns for SizedRuns<'_> {
    fn duration(&self) -> Duration {
        self.planned.query().setting.duration
    }

    fn count(&self) -> usize {
        self.planned.query().runs
    }

    fn kept(&self, server: ReservationServer, runs: usize) -> Result<f64, BandError> {
        let mut query = self.planned.query();
        query.setting.server = self.times.as_seen(server);
        query.runs = runs;
        kept_share(&query)
    }
}
