//! From a described service to the load that drives it.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use tailbound_measurement::{
    BusyRate, Endpoint, LoadPlan, Measurement, Progress, fingerprint, fingerprint_line, measure,
};
use tailbound_model::{Cpu, Description, InputFiles, Service};
use tailbound_simulator::workload::releases;
use tailbound_time::Duration;

use crate::ExperimentError;

/// How a service is driven.
#[derive(Clone, Debug)]
pub struct LoadRun<'a> {
    /// The description that the service is of.
    pub description: &'a Description,
    /// The folder that relative paths start from.
    pub base: &'a Path,
    /// The files that the description names.
    pub inputs: &'a InputFiles,
    /// The service's name.
    pub name: &'a str,
    /// The service.
    pub service: &'a Service,
    /// How long releases count.
    pub duration: Duration,
    /// What is released before and counts for nothing.
    pub warm_up: Duration,
    /// The seed of the arrivals.
    pub seed: u64,
    /// The CPU of the load generator.
    pub cpu: Option<Cpu>,
    /// How many loop iterations `{busy:...}` stands for.
    pub busy: Option<BusyRate>,
}

impl LoadRun<'_> {
    /// Drives the service and returns its latencies.
    ///
    /// # Errors
    /// The arrivals cannot be made, or the service cannot be reached.
    pub fn carry_out(
        &self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Measurement, ExperimentError> {
        let endpoint = Endpoint::of_service(self.service, self.base)?;
        let mut plan = LoadPlan::new(self.name, self.service.clone(), endpoint);
        let horizon = self.warm_up.saturating_add(self.duration);
        plan.releases = releases(self.service, horizon, self.seed, self.inputs)?;
        plan.warm_up = self.warm_up;
        plan.duration = self.duration;
        plan.seed = self.seed;
        plan.cpu = self.cpu;
        plan.busy = self.busy;
        if self.service.users.is_some() {
            plan.inputs = self.inputs.clone();
        }
        plan.host = Some(fingerprint_line(&fingerprint()));
        Ok(measure(&plan, stop, progress)?)
    }
}

/// The CPU of the load generator that drives `service`: the first for housekeeping of its host.
pub fn generator_cpu(description: &Description, service: &Service) -> Option<Cpu> {
    let domain = description.domains.get(&service.domain)?;
    let host = match &domain.host {
        Some(name) => description.hosts.get(name)?,
        None => description.hosts.values().next()?,
    };
    host.housekeeping.first().copied()
}
