//! The record of a calibration: execution times and the supply of the CPUs, as a run measured them beforehand. The run
//! predicts from this record, and keeps it in its result folder, so that another description can be predicted from
//! it as the run itself would.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tailbound_assessment::band::{ServiceProcess, SupplyProcess};
use tailbound_assessment::execution_times::CalibratedTimes;
use tailbound_distribution::Distribution;
use tailbound_model::Cpu;

use crate::calibrations::Condition;

/// The version of a record.
const RECORD_VERSION: u32 = 1;
/// Where a record lies in a result folder.
pub(crate) const RECORD_FILE: &str = "raw/calibration.json";

/// The record of a calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationRecord {
    /// The version of the record.
    schema_version: u32,
    /// The host, in a line: a new kernel makes another host of it.
    pub host: String,
    /// The name of the description that was calibrated.
    pub description: String,
    /// Every service under every condition.
    pub(crate) services: Vec<CalibratedService>,
    /// The supply of the CPUs meanwhile, where it could be sampled.
    pub(crate) supply: Vec<CpuSupply>,
}

/// A service, as it was calibrated under one condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CalibratedService {
    /// The service.
    pub service: String,
    /// The condition.
    pub condition: Condition,
    /// The CPU time of a request, by task.
    pub execution_times: BTreeMap<String, Distribution>,
    /// The time from request to reply, by task.
    pub round_trips: BTreeMap<String, Distribution>,
    /// The way from client to service and back.
    pub dispatch_overhead: Distribution,
    /// The execution times as a process in time.
    pub process: ServiceProcess,
}

/// The supply of a CPU while services were calibrated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CpuSupply {
    /// The CPU.
    pub cpu: Cpu,
    /// Its supply.
    pub process: SupplyProcess,
}

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be read.
    #[error(
        "cannot read {file}: {cause}; name the result folder of a `tailbound run` that measured something"
    )]
    Unreadable {
        /// The file.
        file: String,
        /// The cause.
        cause: std::io::Error,
    },
    /// The file holds no record of this version.
    #[error(
        "{file} is no calibration of version {RECORD_VERSION}: {cause}; calibrate again with `tailbound run`"
    )]
    Malformed {
        /// The file.
        file: String,
        /// What is wrong.
        cause: String,
    },
}

impl CalibrationRecord {
    /// A record of this version.
    pub(crate) fn new(
        host: String,
        description: String,
        services: Vec<CalibratedService>,
        supply: Vec<CpuSupply>,
    ) -> Self {
        Self {
            schema_version: RECORD_VERSION,
            host,
            description,
            services,
            supply,
        }
    }

    /// The record in a result folder.
    ///
    /// # Errors
    /// The folder has none, or one of another version.
    pub fn read(folder: &Path) -> Result<Self, RecordError> {
        let path = folder.join(RECORD_FILE);
        let file = path.display().to_string();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) => return Err(RecordError::Unreadable { file, cause }),
        };
        let record: Result<Self, String> =
            serde_json::from_str(&text).map_err(|error| error.to_string());
        match record {
            Ok(record) if record.schema_version == RECORD_VERSION => Ok(record),
            Ok(other) => Err(RecordError::Malformed {
                file,
                cause: format!("it is of version {}", other.schema_version),
            }),
            Err(cause) => Err(RecordError::Malformed { file, cause }),
        }
    }

    /// What is known of `service` under `condition`; where it was not calibrated there, under another one.
    pub(crate) fn times(&self, service: &str, condition: Condition) -> Option<CalibratedTimes<'_>> {
        let own = || self.services.iter().filter(|one| one.service == service);
        let exact = own().find(|one| one.condition == condition);
        exact
            .or_else(|| own().next())
            .map(|calibrated| CalibratedTimes {
                execution_times: &calibrated.execution_times,
                round_trips: &calibrated.round_trips,
                dispatch_overhead: &calibrated.dispatch_overhead,
            })
    }

    /// The execution times of `service` under `condition` as a process in time; none where it was not calibrated
    /// there. With `whole_trips` a request keeps the service busy for its whole round trip.
    pub(crate) fn process(
        &self,
        service: &str,
        condition: Condition,
        whole_trips: bool,
    ) -> Option<ServiceProcess> {
        let mut services = self.services.iter();
        let calibrated =
            services.find(|one| one.service == service && one.condition == condition)?;
        let process = match whole_trips {
            true => calibrated.process.of_whole_trips(),
            false => calibrated.process.clone(),
        };
        (!process.rounds().is_empty()).then_some(process)
    }

    /// The supply of a CPU, where it was sampled.
    pub(crate) fn supply(&self, cpu: Cpu) -> Option<SupplyProcess> {
        let mut all = self.supply.iter();
        all.find(|one| one.cpu == cpu)
            .map(|one| one.process.clone())
    }
}
