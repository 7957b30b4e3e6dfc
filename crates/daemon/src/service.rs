//! What the daemon does for a request, whoever carries it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tailbound_enforcement::{Recovery, ReservationRequest, Target};
use tailbound_model::CpuSet;
use tailbound_modes::manager::State;
use tailbound_modes::manager::journal::Fate;
use tailbound_modes::table::ModeTable;
use tailbound_time::Duration;

use crate::leases::{ConnectionId, Leases, Owner, Reservations};
use crate::log::note;
use crate::metrics;
use crate::modes::journal::{self, Loaded, ModesJournal};
use crate::modes::{self, Loading, Modes, SharedLeases, resuming};
use crate::protocol::{
    DaemonStatus, HeldBy, Lease, Refusal, RefusalKind, Request, ReservationStatus, Response,
    RunningDescription, Selection, WatchdogStatus,
};
use crate::xen_renewal::XenRenewal;

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

/// What an answer means for the daemon itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// Go on.
    Continue,
    /// End, once the answer is sent.
    End,
}

fn no_modes() -> Refusal {
    Refusal::new(
        RefusalKind::Mode,
        "no modes are known; `tailbound apply` a description that has some",
    )
}

/// Where what belongs to modes is.
#[derive(Clone, Debug)]
pub struct ModesKeeping {
    /// Where agents of domains connect.
    pub socket: PathBuf,
    /// Where the journal of mode changes lies.
    pub directory: PathBuf,
    /// How long the daemon may be idle, for the one that is started if this one dies.
    pub exit_when_idle: Option<Duration>,
}

/// The daemon's state, shared by its connections.
pub struct Service<R> {
    leases: SharedLeases<R>,
    modes: Mutex<Option<Arc<Modes>>>,
    keeping: ModesKeeping,
    protection: Box<dyn Protection>,
    recovered: Recovery,
    counters: Counters,
    xen: XenRenewal,
}

impl<R: Reservations + Send + 'static> Service<R> {
    /// A service over `reservations`, guarded by `protection`; `recovered` is what was found at
    /// the start, and `keeping` is where modes are kept.
    pub fn new(
        reservations: R,
        protection: Box<dyn Protection>,
        recovered: Recovery,
        keeping: ModesKeeping,
    ) -> Self {
        Self {
            leases: Arc::new(Mutex::new(Leases::new(reservations))),
            modes: Mutex::default(),
            keeping,
            protection,
            recovered,
            counters: Counters::default(),
            xen: XenRenewal::default(),
        }
    }

    /// The leases; a panic of another holder does not lock them for good, since every operation
    /// begins by looking at what is active.
    pub fn leases(&self) -> MutexGuard<'_, Leases<R>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Ends a connection: what was leased to it is taken back.
    pub fn disconnect(&self, id: ConnectionId) {
        let failures = self.leases().disconnect(id);
        for failure in failures {
            note(format_args!("taking back what a client left: {failure}"));
        }
        self.tell_served_cpus();
    }

    /// Answers a request of connection `id`; `trusted` if its user may change things.
    pub fn answer(
        &self,
        id: ConnectionId,
        trusted: bool,
        request: Request,
    ) -> (Response, Afterwards) {
        Counters::count(&self.counters.requests);
        if !trusted && !request.is_open_to_everyone() {
            return (
                self.refused(Refusal::new(
                    RefusalKind::NotPermitted,
                    "only root and the daemon's own user may change or plan reservations; run the command as root (sudo)",
                )),
                Afterwards::Continue,
            );
        }
        let ends = request == Request::Shutdown {};
        let response = self
            .carry_out(id, request)
            .unwrap_or_else(|refusal| self.refused(refusal));
        let afterwards = if ends {
            Afterwards::End
        } else {
            Afterwards::Continue
        };
        (response, afterwards)
    }

    fn refused(&self, refusal: Refusal) -> Response {
        Counters::count(&self.counters.refusals);
        Response::Refused { refusal }
    }

    fn carry_out(&self, id: ConnectionId, request: Request) -> Result<Response, Refusal> {
        match request {
            Request::Hello { .. } => Ok(Response::Hello {
                release: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
            }),
            Request::Plan { requests } => Ok(Response::Planned {
                plans: self.leases().plan(&requests)?,
            }),
            Request::Apply { requests, lease } => self.apply(id, &requests, lease),
            Request::Change { domain, interface } => {
                let plan = self.leases().change(&domain, &interface)?;
                Ok(Response::Changed {
                    plan: Box::new(plan),
                })
            }
            Request::LoadModes { table, description } => self.load_modes(*table, description),
            Request::AddModes { table, description } => {
                let modes = self.modes().clone();
                modes.ok_or_else(no_modes)?.add(*table, description)?;
                Ok(Response::ModesAdded {})
            }
            Request::ModesDescription {} => {
                let modes = self.modes();
                let description = modes.as_ref().and_then(|modes| modes.description());
                Ok(Response::ModesDescription { description })
            }
            Request::SetMode { mode } => {
                let modes = self.modes().clone();
                let modes = modes.ok_or_else(no_modes)?;
                Ok(Response::ModeSet {
                    report: Box::new(modes.set(&mode)?),
                })
            }
            Request::Modes {} => {
                let modes = self.modes().as_ref().map(|modes| Box::new(modes.status()));
                Ok(Response::Modes { modes })
            }
            Request::Revert { selection } => {
                // If we die in between, what is to be taken back must not be made again.
                self.forget_journal_of(&selection);
                let result = self.leases().revert(&selection);
                self.forget_modes_of_nothing();
                self.tell_served_cpus();
                Ok(Response::Reverted { domains: result? })
            }
            Request::Status {} => Ok(Response::Status {
                status: Box::new(self.status()),
            }),
            Request::Ledger {} => Ok(Response::Ledger {
                domains: self.ledger(),
            }),
            Request::Metrics {} => Ok(Response::Metrics {
                text: self.metrics(),
            }),
            Request::Shutdown {} => {
                self.forget_modes();
                self.leases().close()?;
                Ok(Response::ShuttingDown {})
            }
        }
    }

    fn metrics(&self) -> String {
        let modes = self.modes().clone();
        let modes = modes.map(|modes| (modes.status(), modes.counts()));
        let modes = modes.as_ref().map(|(status, counts)| (status, counts));
        metrics::render(&self.status(), &self.counters, modes)
    }

    fn modes(&self) -> MutexGuard<'_, Option<Arc<Modes>>> {
        self.modes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load_modes(
        &self,
        table: ModeTable,
        description: Option<RunningDescription>,
    ) -> Result<Response, Refusal> {
        // One that is refused takes nothing away.
        modes::check(&table, &self.leases)?;
        // The old ones first: there is one socket.
        self.forget_modes();
        journal::forget_restarts(&self.keeping.directory);
        let modes = Modes::load(
            Loading {
                journal: self.journal(&table, description.clone()),
                table,
                state: None,
                description,
                resumed: None,
            },
            &self.leases,
            &self.keeping.socket,
        )?;
        let socket = modes.socket().to_owned();
        *self.modes() = Some(Arc::new(modes));
        Ok(Response::ModesLoaded { socket })
    }

    /// A journal for the daemon after this one, if the reservations are to outlive those who asked for
    /// them.
    fn journal(
        &self,
        table: &ModeTable,
        description: Option<RunningDescription>,
    ) -> Option<ModesJournal> {
        let leases = self.leases();
        let domains = table.in_mode(table.initial()).domains;
        let mut owners = domains.keys().map(|domain| leases.owners().get(domain));
        if !owners.all(|owner| owner == Some(&Owner::Persistent)) {
            return None;
        }
        let standing = leases.reservations().status();
        drop(leases);
        let idle_time = self.keeping.exit_when_idle;
        match Loaded::new(table.clone(), &standing, description, idle_time) {
            Ok(loaded) => Some(ModesJournal::new(&self.keeping.directory, loaded)),
            Err(error) => {
                note(format_args!("no journal of mode changes: {error}"));
                None
            }
        }
    }

    /// Makes again what was in force with modes when another daemon died.
    pub fn resume_modes(&self) {
        let Some(left) = resuming::left(&self.keeping.directory) else {
            return;
        };
        let state_and_fate = |state| (state, left.fate);
        let instead = left
            .otherwise
            .clone()
            .map(|state| (state, Fate::RolledBack));
        let tried = std::iter::once(state_and_fate(left.state.clone())).chain(instead);
        for (state, fate) in tried {
            let mode = state.mode.clone();
            match self.resume(&left.loaded, state, fate) {
                Ok(()) => {
                    note(resuming::told(fate, &mode));
                    return;
                }
                Err(refusal) => note(format_args!("mode `{mode}` is not made again: {refusal}")),
            }
        }
        journal::forget(&self.keeping.directory);
    }

    fn resume(&self, loaded: &Loaded, state: State, fate: Fate) -> Result<(), Refusal> {
        let requests = loaded.requests(&state);
        let requests =
            requests.map_err(|error| Refusal::new(RefusalKind::Target, error.to_string()))?;
        self.protection.ensure()?;
        let id = self.leases().connect();
        let applied = self.leases().apply(id, &requests, Lease::Persistent);
        self.disconnect(id);
        applied?;
        self.xen.watch(&requests, &self.leases);
        let (table, description) = (loaded.table.clone(), loaded.description.clone());
        let modes = Modes::load(
            Loading {
                journal: self.journal(&table, description.clone()),
                table,
                state: Some(state),
                description,
                resumed: Some(fate),
            },
            &self.leases,
            &self.keeping.socket,
        );
        match modes {
            Ok(modes) => {
                *self.modes() = Some(Arc::new(modes));
                Ok(())
            }
            Err(refusal) => {
                self.leases().revert(&Selection::All)?;
                Err(refusal)
            }
        }
    }

    /// Takes everything back, for nobody guards it any longer.
    ///
    /// # Errors
    /// What could not be restored.
    pub fn give_up(&self) -> Result<(), Refusal> {
        self.forget_journal_of(&Selection::All);
        self.leases().revert(&Selection::All)?;
        Ok(())
    }

    /// Has nothing made again after our death, if a domain with modes is selected.
    fn forget_journal_of(&self, selection: &Selection) {
        if let Some(modes) = self.modes().as_ref() {
            let concerns = match selection {
                Selection::All => true,
                Selection::Domain(domain) => modes.status().state.domains.contains_key(domain),
            };
            if concerns {
                modes.forget_journal();
            }
        }
    }

    /// Ends what changes modes; reservations stay as they are.
    pub fn forget_modes(&self) {
        let modes = self.modes().take();
        // Without the lock, since a transition may be under way.
        if let Some(modes) = modes {
            modes.end();
        }
    }

    /// Ends what changes modes if a domain of theirs is reserved no more.
    fn forget_modes_of_nothing(&self) {
        let status = self.modes().as_ref().map(|modes| modes.status());
        let Some(status) = status else { return };
        let active = self.leases().reservations().active();
        let domains = status.state.domains.keys();
        if domains.into_iter().any(|domain| !active.contains(domain)) {
            self.forget_modes();
        }
    }

    fn apply(
        &self,
        id: ConnectionId,
        requests: &[ReservationRequest],
        lease: Lease,
    ) -> Result<Response, Refusal> {
        self.protection.ensure()?;
        self.refuse_watchdog_as_target(requests)?;
        let result = self.leases().apply(id, requests, lease);
        self.tell_served_cpus();
        self.xen.watch(requests, &self.leases);
        Ok(Response::Applied { plans: result? })
    }

    /// The enforcer refuses targets that contain this process; it does not know of the watchdog,
    /// which must not be stopped either.
    fn refuse_watchdog_as_target(&self, requests: &[ReservationRequest]) -> Result<(), Refusal> {
        let Some(watchdog) = self.protection.status().pid else {
            return Ok(());
        };
        for request in requests {
            let numbers = match &request.target {
                Target::Processes(numbers) | Target::Threads(numbers) => numbers,
                Target::Machine(machine) => &machine.vcpus,
                Target::Cgroup(_) | Target::XenDomain(_) => continue,
            };
            if numbers.contains(&watchdog) {
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

    fn tell_served_cpus(&self) {
        let enforced = self.leases().reservations().status();
        let cpus = enforced
            .domains
            .iter()
            .flat_map(|domain| domain.interface.cpus.iter().copied())
            .collect();
        self.protection.serves(&cpus);
    }

    /// The state of the daemon.
    pub fn status(&self) -> DaemonStatus {
        let leases = self.leases();
        let owners = leases.owners();
        let reservations = leases
            .reservations()
            .status()
            .domains
            .into_iter()
            .map(|enforced| ReservationStatus {
                held_by: match owners.get(&enforced.domain) {
                    Some(Owner::Persistent) => HeldBy::Nobody,
                    Some(Owner::Connection(_)) => HeldBy::Connection,
                    Some(Owner::Abandoned) | None => HeldBy::Daemon,
                },
                enforced,
            })
            .collect();
        let connections = leases.connections().len();
        drop(leases);
        DaemonStatus {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            reservations,
            connections,
            watchdog: self.protection.status(),
            recovered: self.recovered.clone(),
        }
    }

    fn ledger(&self) -> BTreeMap<String, tailbound_enforcement::LedgerSummary> {
        let enforced = self.leases().reservations().status();
        enforced
            .domains
            .into_iter()
            .filter_map(|domain| Some((domain.domain, domain.ledger?)))
            .collect()
    }
}
