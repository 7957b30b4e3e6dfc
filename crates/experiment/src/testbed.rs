//! The running system: domains started, services ready, execution times known.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration as Pause, Instant};

use tailbound_analysis::resolution::Deployment;
use tailbound_enforcement::binding::{self, StartedProcesses};
use tailbound_enforcement::{ReservationRequest, Target};
use tailbound_linux::network_interface::NetworkPlace;
use tailbound_measurement::{
    CalibrationPlan, Endpoint, MeasurementError, await_readiness, fingerprint, fingerprint_line,
    run_setup,
};
use tailbound_model::{Description, InputFiles, LoadedDescription, Members, Service};
use tailbound_time::Duration;

use crate::ExperimentError;
use crate::calibrations::Calibrations;
use crate::load_run::generator_cpu;
use crate::port_set::PortSet;
use crate::programs::{Programs, Surroundings};

/// How long a service may take to answer after its start.
const READY_WITHIN: Duration = Duration::from_secs(15);

/// The same for a service with a request that it must answer well first: it says of itself when it is ready, which may
/// be long after it accepts connections.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// How often it is looked whether its programs still live meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The part of a round of a calibration that is left of it in the shortest run.
const SHORTEST_ROUND: f64 = 0.25;
/// How long the setup of a service may take.
const SETUP_WITHIN: Duration = Duration::from_secs(60);

/// The system under test.
#[derive(Debug)]
pub struct Testbed<'a> {
    loaded: &'a LoadedDescription,
    inputs: &'a InputFiles,
    surroundings: Surroundings,
    ports: PortSet,
    /// The domains with a reservation or a service; they run through the whole experiment.
    residents: BTreeMap<String, Programs>,
    /// The others, while they run.
    neighbours: BTreeMap<String, Programs>,
    /// What calibration found.
    pub calibrations: Calibrations,
    /// Factor on the length of its rounds; no more than the usual length and no less than a quarter of it.
    pub calibration_scale: f64,
}

impl<'a> Testbed<'a> {
    /// Starts the resident domains, waits for their services and prepares their data.
    ///
    /// # Errors
    /// A program that does not start, a service that does not answer or refuses its setup.
    pub fn start(
        (loaded, inputs): (&'a LoadedDescription, &'a InputFiles),
        surroundings: Surroundings,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<Self, ExperimentError> {
        let description = &loaded.description;
        let mut testbed = Self {
            loaded,
            inputs,
            surroundings,
            ports: PortSet::of(description)?,
            residents: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            calibrations: Calibrations::default(),
            calibration_scale: 1.0,
        };
        for (name, domain) in &description.domains {
            if testbed.is_resident(name) {
                let programs = Programs::start(description, name, domain, testbed.environment())?;
                testbed.residents.insert(name.clone(), programs);
            }
        }
        for service in description.services.values() {
            let endpoint = testbed.endpoint(service)?;
            let limit = match service.ready {
                None => READY_WITHIN,
                Some(_) => ANSWER_WITHIN,
            };
            testbed.await_ready((service, &endpoint), limit, stop)?;
            testbed.watching(service, |_| {
                run_setup(service, &endpoint, seed, SETUP_WITHIN, stop).map(|_| ())
            })?;
        }
        Ok(testbed)
    }

    /// The description.
    pub fn description(&self) -> &'a Description {
        &self.loaded.description
    }

    /// What a round of a service's calibration needs to know of the running system.
    ///
    /// # Errors
    /// The service's endpoint makes no sense.
    pub fn calibration_plan(
        &self,
        name: &str,
        service: &Service,
    ) -> Result<CalibrationPlan, ExperimentError> {
        let mut plan = CalibrationPlan::new(name, service.clone(), self.endpoint(service)?);
        let users = service.users.as_ref();
        let file = users.and_then(|users| users.parameters.as_ref());
        plan.parameters = file.and_then(|file| self.inputs.parameters(file).cloned());
        plan.process = self
            .residents
            .get(&service.domain)
            .and_then(Programs::first_process);
        plan.cpu = generator_cpu(self.description(), service);
        plan.host = Some(fingerprint_line(&fingerprint()));
        let scale = self.calibration_scale.clamp(SHORTEST_ROUND, 1.0);
        plan.requests = (f64::from(plan.requests) * scale) as u32;
        plan.limit = Duration::from_secs_f64_nearest(plan.limit.as_secs_f64() * scale);
        Ok(plan)
    }

    /// Starts the domains without a reservation or a service.
    ///
    /// # Errors
    /// A program that does not start.
    pub fn start_neighbours(&mut self) -> Result<(), ExperimentError> {
        for (name, domain) in &self.loaded.description.domains {
            if !self.is_resident(name) && !self.neighbours.contains_key(name) {
                let description = &self.loaded.description;
                let programs = Programs::start(description, name, domain, self.environment())?;
                self.neighbours.insert(name.clone(), programs);
            }
        }
        Ok(())
    }

    /// Where programs are started, and with what.
    fn environment(&self) -> (&Surroundings, &PortSet) {
        (&self.surroundings, &self.ports)
    }

    /// Ends the domains without a reservation or a service.
    pub fn stop_neighbours(&mut self) {
        self.neighbours.clear();
    }

    /// The programs of a domain that have ended since this was asked last, each with its end in words.
    pub fn take_endings(&mut self, domain: &str) -> Vec<String> {
        let programs = self.programs(domain);
        programs.map_or_else(Vec::new, Programs::take_endings)
    }

    /// Kills the programs of a domain.
    pub fn kill(&mut self, domain: &str) {
        if let Some(programs) = self.programs(domain) {
            programs.kill();
        }
    }

    /// Starts the programs of a domain anew; those that still run are killed.
    ///
    /// # Errors
    /// A program that does not start.
    pub fn start_again(&mut self, name: &str) -> Result<(), ExperimentError> {
        self.kill(name);
        let description = &self.loaded.description;
        if let Some(domain) = description.domains.get(name) {
            let begun = Programs::start(description, name, domain, self.environment())?;
            if let Some(programs) = self.programs(name) {
                *programs = begun;
            }
        }
        Ok(())
    }

    /// Starts the residents with a health monitor anew of which programs have ended.
    ///
    /// # Errors
    /// A program that does not start.
    pub fn revive(&mut self) -> Result<(), ExperimentError> {
        for (name, domain) in &self.loaded.description.domains {
            let started = match domain.members(name) {
                Members::Started { instances } => instances as usize,
                _ => continue,
            };
            if domain.health.is_none() {
                continue;
            }
            let Some(programs) = self.residents.get_mut(name) else {
                continue;
            };
            let _ended_before = programs.take_endings();
            if programs.started().len() < started {
                self.start_again(name)?;
            }
        }
        Ok(())
    }

    /// The members of a domain whose programs were started just now, some of which may have ended since.
    ///
    /// # Errors
    /// The domain is nothing of this host that can have a reservation.
    pub fn started_target(&mut self, domain: &str) -> Result<Option<Target>, ExperimentError> {
        let started = self.programs(domain).map(|programs| programs.started());
        let description = &self.loaded.description;
        Ok(binding::target(description, domain, started.as_deref())?)
    }

    /// The network namespaces of the programs of a domain that were started just now.
    pub fn networks(&mut self, domain: &str) -> Vec<NetworkPlace> {
        let started = self.programs(domain).map(|programs| programs.started());
        let described = self.loaded.description.domains.get(domain);
        described.map_or_else(Vec::new, |described| {
            binding::networks(described, &started.unwrap_or_default())
        })
    }

    /// Whether a program of a domain has ended.
    pub fn has_ended(&mut self, domain: &str) -> bool {
        let programs = self.programs(domain);
        programs.is_some_and(|programs| programs.check_alive().is_err())
    }

    fn programs(&mut self, domain: &str) -> Option<&mut Programs> {
        let residents = self.residents.get_mut(domain);
        residents.or_else(|| self.neighbours.get_mut(domain))
    }

    /// The folder of the results.
    pub fn out(&self) -> &Path {
        &self.surroundings.out
    }

    /// The programs of a resident domain.
    ///
    /// # Errors
    /// The domain is no resident, or one of its programs has ended.
    pub fn resident(&mut self, domain: &str) -> Result<&mut Programs, ExperimentError> {
        let programs = self.residents.get_mut(domain);
        let programs = programs.ok_or_else(|| ExperimentError::NotRunning {
            domain: domain.into(),
        })?;
        programs.check_alive()?;
        Ok(programs)
    }

    /// The reservations of a deployment, for the programs that run.
    ///
    /// # Errors
    /// A program has ended, or a domain is nothing of this host that can have a reservation.
    pub fn requests(
        &mut self,
        deployment: &Deployment,
    ) -> Result<Vec<ReservationRequest>, ExperimentError> {
        let mut started = StartedProcesses::new();
        let resident = |domain: &&String| self.loaded.description.domains.contains_key(*domain);
        let domains: Vec<&String> = deployment.reserved.keys().filter(resident).collect();
        for domain in domains {
            started.insert(domain.clone(), self.resident(domain)?.started());
        }
        Ok(binding::requests(deployment, &started)?)
    }

    /// The members of a resident domain.
    ///
    /// # Errors
    /// As [`Testbed::requests`].
    pub fn target(&mut self, domain: &str) -> Result<Option<Target>, ExperimentError> {
        let started = self.resident(domain)?.started();
        let description = &self.loaded.description;
        Ok(binding::target(description, domain, Some(&started))?)
    }

    /// The processes of a domain without a reservation or a service, if it runs.
    pub fn neighbour(&mut self, domain: &str) -> Option<Vec<u32>> {
        let programs = self.neighbours.get_mut(domain);
        programs.map(|programs| programs.started())
    }

    /// Whether every program that should run still does, but for those with a health monitor.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check_alive(&mut self) -> Result<(), ExperimentError> {
        let description = &self.loaded.description;
        let is_monitored = |name: &str| {
            let domain = description.domains.get(name);
            domain.is_some_and(|domain| domain.health.is_some())
        };
        let all = self.residents.iter_mut().chain(&mut self.neighbours);
        for (_, programs) in all.filter(|(name, _)| !is_monitored(name)) {
            programs.check_alive()?;
        }
        Ok(())
    }

    /// Waits until a service answers a request while it has no load.
    ///
    /// # Errors
    /// It does not within the limit, or its programs have ended.
    pub fn check_answers(
        &mut self,
        name: &str,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<(), ExperimentError> {
        let description = &self.loaded.description;
        let Some(service) = description.services.get(name) else {
            return Ok(());
        };
        let endpoint = self.endpoint(service)?;
        self.await_ready((service, &endpoint), limit, stop)
    }

    /// Whether a domain runs through the whole experiment.
    fn is_resident(&self, name: &str) -> bool {
        let description = &self.loaded.description;
        let own = description.domains.get(name);
        let reserved = own.is_some_and(|domain| domain.reservation.is_some());
        let mut modes = description.modes.values();
        reserved
            || modes.any(|mode| description.reservation_in(mode, name).is_some())
            || description
                .services
                .values()
                .any(|service| service.domain == name)
    }

    fn endpoint(&self, service: &Service) -> Result<Endpoint, ExperimentError> {
        Ok(Endpoint::of_service(service, self.loaded.base())?)
    }

    /// Waits until a service answers, no longer than its programs live.
    fn await_ready(
        &mut self,
        (service, endpoint): (&Service, &Endpoint),
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<(), ExperimentError> {
        let give_up = Instant::now() + Pause::from_nanos(limit.as_nanos());
        loop {
            let answered = self.watching(service, |_| {
                await_readiness(service, endpoint, LOOK_EVERY, stop)
            });
            match answered {
                Err(ExperimentError::Measurement(MeasurementError::NotReady {
                    endpoint,
                    last,
                    ..
                })) if Instant::now() >= give_up => {
                    let waited = limit;
                    return Err(MeasurementError::NotReady {
                        endpoint,
                        waited,
                        last,
                    }
                    .into());
                }
                Err(ExperimentError::Measurement(MeasurementError::NotReady { .. })) => {}
                other => return other,
            }
        }
    }

    /// Does something with a service; if it fails because a program of the domain has ended, says
    /// that in its place, since it is the cause.
    fn watching<E: Into<ExperimentError>>(
        &mut self,
        service: &Service,
        act: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), ExperimentError> {
        act(self).map_err(|error| match self.resident(&service.domain) {
            Ok(_) => error.into(),
            Err(ended) => ended,
        })
    }
}
