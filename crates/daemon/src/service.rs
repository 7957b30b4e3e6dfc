//! What the daemon does for a request, whoever carries it.

mod core;
pub mod members;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use tailbound_control::protocol::{
    ControlRequest, Lease, Refusal, RefusalKind, Response, Selection, WatchdogStatus,
};
use tailbound_enforcement::{Recovery, ReservationRequest, Target};
use tailbound_model::{CpuSet, WhenEmpty};
use tailbound_subsystem::process_identity::start_times;
use tailbound_subsystem::{Place, ReservationHost, Subsystem};
use tracing::warn;

use crate::leases::{ConnectionId, LeasedReservations, Leases};
use crate::{metrics, subsystems};

use self::core::Core;
use self::members::MemberWatch;

/// The process that takes everything back if the daemon dies, as the service needs it.
pub trait Protection: Send + Sync {
    /// Makes sure that a watchdog is up before something is enforced.
    ///
    /// # Errors
    /// Why there is none.
    fn ensure(&self) -> Result<(), Refusal>;

    /// Tells the watchdog which CPUs reservations hold on now.
    fn serves(&self, cpus: &CpuSet);

    /// How it is.
    fn status(&self) -> WatchdogStatus;
}

/// Counts since the daemon started, for the metrics.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections taken.
    pub connections: AtomicU64,
    /// Connections refused because there were too many.
    pub connections_refused: AtomicU64,
    /// Requests answered, refusals included.
    pub requests: AtomicU64,
    /// Requests refused.
    pub refusals: AtomicU64,
    /// Connections closed for a malformed frame or for being too slow.
    pub bad_frames: AtomicU64,
}

impl Counters {
    /// Adds one to `counter`.
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// `DaemonService` is the daemon's state, shared by its connections.
pub struct DaemonService<R> {
    core: Arc<Core<R>>,
    subsystems: Vec<Box<dyn Subsystem>>,
    recovered: Recovery,
    counters: Counters,
    members: MemberWatch,
}

impl<R: LeasedReservations + Send + 'static> DaemonService<R> {
    /// A service over `reservations`, guarded by `protection`; `recovered` is what was found at
    /// the start, and `place` is where subsystems keep what is theirs.
    pub fn new(
        reservations: R,
        protection: Box<dyn Protection>,
        recovered: Recovery,
        place: Place,
    ) -> Self {
        let core = Arc::new(Core::new(reservations, protection));
        let host: Arc<dyn ReservationHost> = Arc::<Core<R>>::clone(&core);
        Self {
            subsystems: subsystems::start(&host, &place),
            core,
            recovered,
            counters: Counters::default(),
            members: MemberWatch::default(),
        }
    }

    /// The leases.
    pub fn leases(&self) -> MutexGuard<'_, Leases<R>> {
        self.core.leases()
    }

    /// The counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Ends a connection: what was leased to it is taken back.
    pub fn disconnect(&self, id: ConnectionId) {
        self.core.end_leases(id);
        self.tell_of_owners();
    }

    /// Tries again to take back what nobody answers for.
    pub fn retry_abandoned(&self) {
        if !self.leases().has_abandoned() {
            return;
        }
        let failures = self.leases().retry_abandoned();
        for failure in failures {
            warn!("trying again: {failure}");
        }
        self.tell_of_owners();
    }

    /// Answers a request of connection `id`; `trusted` if its user may change things.
    pub fn answer(&self, id: ConnectionId, trusted: bool, request: ControlRequest) -> Response {
        Counters::count(&self.counters.requests);
        let answered = match trusted || self.is_open_to_everyone(&request) {
            true => self.carry_out(id, request),
            false => Err(Refusal::new(
                RefusalKind::NotPermitted,
                "only root and the daemon's own user may change or plan reservations; run the command as root (sudo)",
            )),
        };
        answered.unwrap_or_else(|refusal| {
            Counters::count(&self.counters.refusals);
            Response::Refused { refusal }
        })
    }

    fn carry_out(&self, id: ConnectionId, request: ControlRequest) -> Result<Response, Refusal> {
        match request {
            ControlRequest::Hello { .. } => Ok(Response::Hello {
                release: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
            }),
            ControlRequest::Plan { requests } => Ok(Response::Planned {
                plans: self.leases().plan(&requests)?,
            }),
            ControlRequest::Apply {
                requests,
                lease,
                when_empty,
            } => self.apply(id, &requests, lease, when_empty),
            ControlRequest::Change { domain, interface } => {
                self.refuse_if_claimed(&domain)?;
                let plan = self.leases().change(&domain, &interface)?;
                Ok(Response::Changed {
                    plan: Box::new(plan),
                })
            }
            ControlRequest::Host {} => {
                let host = Box::new(self.leases().reservations().host());
                Ok(Response::Host { host })
            }
            ControlRequest::Subsystem { name, body } => Ok(Response::Subsystem {
                body: self.subsystem(&name)?.answer(body)?,
            }),
            ControlRequest::Revert { selection } => self.revert(id, &selection),
            ControlRequest::Status {} => Ok(Response::Status {
                status: Box::new(self.status()),
            }),
            ControlRequest::Ledger {} => Ok(Response::Ledger {
                domains: self.ledger(),
            }),
            ControlRequest::Metrics {} => Ok(Response::Metrics {
                text: self.metrics(),
            }),
            ControlRequest::Shutdown {} => {
                self.end_subsystems();
                self.leases().close()?;
                Ok(Response::ShuttingDown {})
            }
        }
    }

    fn metrics(&self) -> String {
        let subsystems = self.subsystems.iter();
        let collectors = subsystems.filter_map(|one| one.metrics());
        metrics::render(self.status(), &self.counters, collectors)
    }

    /// The domains whose reservations subsystems keep when they have no members.
    fn kept_domains(&self) -> BTreeSet<String> {
        let subsystems = self.subsystems.iter();
        subsystems.flat_map(|one| one.kept_domains()).collect()
    }

    /// What a subsystem changes nobody else does.
    fn refuse_if_claimed(&self, domain: &str) -> Result<(), Refusal> {
        let mut subsystems = self.subsystems.iter();
        match subsystems.find(|one| one.claimed_domains().contains(domain)) {
            Some(subsystem) => Err(subsystem.refusal_to_change(domain)),
            None => Ok(()),
        }
    }

    fn subsystem(&self, name: &str) -> Result<&dyn Subsystem, Refusal> {
        let subsystem = self.subsystems.iter().find(|one| one.name() == name);
        subsystem.map(|one| &**one).ok_or_else(|| {
            let names: Vec<&str> = self.subsystems.iter().map(|one| one.name()).collect();
            let message = format!("there is no subsystem \"{name}\", but {}", names.join(", "));
            Refusal::new(RefusalKind::BadRequest, message)
        })
    }

    fn is_open_to_everyone(&self, request: &ControlRequest) -> bool {
        match request {
            ControlRequest::Subsystem { name, body } => {
                let subsystem = self.subsystem(name);
                subsystem.is_ok_and(|subsystem| subsystem.is_open_to_everyone(body))
            }
            request => request.is_open_to_everyone(),
        }
    }

    fn revert(&self, id: ConnectionId, selection: &Selection) -> Result<Response, Refusal> {
        let concerned = self.subsystems.iter().filter(|one| {
            let claimed = one.claimed_domains();
            claimed.iter().any(|domain| selection.includes(domain))
        });
        let concerned: Vec<_> = concerned.collect();
        // If we die in between, what is to be taken back must not be made again.
        for subsystem in &concerned {
            subsystem.before_revert();
        }
        let result = self.leases().revert_for(id, selection);
        for subsystem in &concerned {
            subsystem.after_revert();
        }
        self.core.tell_served_cpus();
        Ok(Response::Reverted { domains: result? })
    }

    /// Makes again what was in force in subsystems when another daemon died.
    pub fn resume_subsystems(&self) {
        for subsystem in &self.subsystems {
            subsystem.resume();
        }
    }

    /// Takes everything back, for nobody guards it any longer.
    ///
    /// # Errors
    /// What could not be restored.
    pub fn give_up(&self) -> Result<(), Refusal> {
        for subsystem in &self.subsystems {
            subsystem.forget_journal();
        }
        let reverted = self.leases().revert(&Selection::All);
        // Afterwards, since something that is under way there may take long to end.
        self.end_subsystems();
        reverted.map(|_| ())
    }

    /// Ends the subsystems; reservations stay as they are.
    pub fn end_subsystems(&self) {
        for subsystem in &self.subsystems {
            subsystem.end();
        }
    }

    /// Tells the subsystems that reservations have other owners or none.
    fn tell_of_owners(&self) {
        for subsystem in &self.subsystems {
            subsystem.owners_changed();
        }
    }

    fn apply(
        &self,
        id: ConnectionId,
        requests: &[ReservationRequest],
        lease: Lease,
        when_empty: BTreeMap<String, WhenEmpty>,
    ) -> Result<Response, Refusal> {
        // A watchdog may take seconds to start: whoever reverts meanwhile does not wait for it.
        self.leases().announce(id, requests);
        let protection = self.core.protection.ensure();
        let prepared = protection.and_then(|()| self.refuse_watchdog_as_target(requests));
        if let Err(refusal) = prepared {
            self.leases().withdraw(id);
            return Err(refusal);
        }
        let started = start_times(requests);
        let result = {
            let mut leases = self.leases();
            let result = leases.apply(id, requests, lease);
            if result.is_ok() {
                let mut times = self.core.started();
                times.retain(|domain, _| leases.owners().contains_key(domain));
                times.extend(started);
                self.members.applied(requests, when_empty);
            }
            result
        };
        self.core.tell_served_cpus();
        self.core.watch_xen(requests);
        Ok(Response::Applied { plans: result? })
    }

    /// The enforcer refuses targets that contain this process; it does not know of the watchdog,
    /// which must not be stopped either.
    fn refuse_watchdog_as_target(&self, requests: &[ReservationRequest]) -> Result<(), Refusal> {
        let Some(watchdog) = self.core.protection.status().pid else {
            return Ok(());
        };
        for request in requests {
            let is_target = match &request.target {
                Target::Processes(numbers) | Target::Threads(numbers) => {
                    numbers.contains(&watchdog)
                }
                // An emulator's other threads get another policy and other CPUs than the watchdog has.
                Target::Machine(machine) => {
                    machine.vcpus.contains(&watchdog) || machine.emulator.contains(&watchdog)
                }
                Target::Cgroup(_)
                | Target::NamedCgroup(_)
                | Target::XenDomain(_)
                | Target::Interrupts(_)
                | Target::Topics(_) => false,
            };
            if is_target {
                return Err(Refusal::new(
                    RefusalKind::Target,
                    format!(
                        "domain \"{}\": process {watchdog} is Tailbound's watchdog, which must not wait for a reservation",
                        request.domain
                    ),
                ));
            }
        }
        Ok(())
    }
}
