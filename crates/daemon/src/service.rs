//! What the daemon does for a request, whoever carries it.

pub mod members;
mod status;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tailbound_enforcement::{Recovery, ReservationRequest, Target};
use tailbound_model::{CpuSet, WhenEmpty};
use tailbound_modes::manager::State;
use tailbound_modes::manager::journal::Fate;
use tailbound_modes::table::ModeTable;
use tailbound_time::Duration;

use crate::leases::{ConnectionId, Leases, Owner, Reservations};
use crate::log::note;
use crate::metrics;
use crate::modes::identity::{StartTimes, start_times};
use crate::modes::journal::{self, Loaded, ModesJournal};
use crate::modes::{self, Loading, Modes, SharedLeases, resuming};
use crate::protocol::{
    Lease, Refusal, RefusalKind, Request, Response, RunningDescription, Selection, WatchdogStatus,
};
use crate::xen_renewal::XenRenewal;

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
    /// Held by whoever loads modes or ends them, until that is done: there is one socket and one journal.
    /// Taken before the other locks here, since who has it waits for a change that is under way.
    loading: Mutex<()>,
    started: Mutex<StartTimes>,
    keeping: ModesKeeping,
    protection: Box<dyn Protection>,
    recovered: Recovery,
    counters: Counters,
    xen: XenRenewal,
    members: MemberWatch,
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
            loading: Mutex::default(),
            started: Mutex::default(),
            keeping,
            protection,
            recovered,
            counters: Counters::default(),
            xen: XenRenewal::default(),
            members: MemberWatch::default(),
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
        self.end_leases(id);
        self.forget_modes_of_nothing();
    }

    fn end_leases(&self, id: ConnectionId) {
        let failures = self.leases().disconnect(id);
        for failure in failures {
            note(format_args!("taking back what a client left: {failure}"));
        }
        self.tell_served_cpus();
    }

    /// Tries again to take back what nobody answers for.
    pub fn retry_abandoned(&self) {
        if !self.leases().has_abandoned() {
            return;
        }
        let failures = self.leases().retry_abandoned();
        for failure in failures {
            note(format_args!("trying again: {failure}"));
        }
        self.forget_modes_of_nothing();
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
            Request::Apply {
                requests,
                lease,
                when_empty,
            } => self.apply(id, &requests, lease, when_empty),
            Request::Change { domain, interface } => {
                self.refuse_if_of_modes(&domain)?;
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
            Request::Host {} => {
                let host = Box::new(self.leases().reservations().host());
                Ok(Response::Host { host })
            }
            Request::ModesDescription {} => {
                let description = self.modes().as_ref().and_then(|it| it.description());
                Ok(Response::ModesDescription { description })
            }
            Request::SetMode { mode } => {
                let modes = self.modes().clone().ok_or_else(no_modes)?;
                Ok(Response::ModeSet {
                    report: Box::new(modes.set(&mode)?),
                })
            }
            Request::Modes {} => {
                let modes = self.modes().as_ref().map(|modes| Box::new(modes.status()));
                Ok(Response::Modes { modes })
            }
            Request::Revert { selection } => self.revert(id, &selection),
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

    /// What modes change nobody else does: the next transition would start from what no longer holds.
    fn refuse_if_of_modes(&self, domain: &str) -> Result<(), Refusal> {
        let modes = self.modes().clone();
        if !modes.is_some_and(|modes| modes.status().state.domains.contains_key(domain)) {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalKind::Mode,
            format!(
                "the reservation of \"{domain}\" is changed by modes; use `tailbound mode set`, or add a \
                 mode by `tailbound mode add`"
            ),
        ))
    }

    fn modes(&self) -> MutexGuard<'_, Option<Arc<Modes>>> {
        self.modes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load_modes(
        &self,
        table: ModeTable,
        description: Option<RunningDescription>,
    ) -> Result<Response, Refusal> {
        let loading = self.loading();
        // One that is refused takes nothing away.
        let known = self.modes().clone();
        modes::check(&table, &self.leases, known.as_deref())?;
        drop(known);
        // The old ones first: there is one socket.
        self.end_modes();
        journal::forget_restarts(&self.keeping.directory);
        let started = self.started().clone();
        let modes = Modes::load(
            Loading {
                journal: self.journal(&table, description.clone()),
                table,
                state: None,
                description,
                started,
                resumed: None,
            },
            &self.leases,
            &self.keeping.socket,
        )?;
        let socket = modes.socket().to_owned();
        self.know(modes);
        drop(loading);
        // Who asked for the reservations may have gone meanwhile, and found no modes to end.
        self.forget_modes_of_nothing();
        Ok(Response::ModesLoaded { socket })
    }

    fn loading(&self) -> MutexGuard<'_, ()> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn started(&self) -> MutexGuard<'_, StartTimes> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has these modes from now on.
    fn know(&self, modes: Modes) {
        let old = self.modes().replace(Arc::new(modes));
        // Without the lock: its last change may be under way.
        drop(old);
    }

    fn revert(&self, id: ConnectionId, selection: &Selection) -> Result<Response, Refusal> {
        // If we die in between, what is to be taken back must not be made again.
        self.put_journal_aside(selection);
        let result = self.leases().revert_for(id, selection);
        self.forget_modes_of_nothing();
        // Where the modes are known still, nothing of theirs was taken back.
        if let Some(modes) = self.modes().as_ref() {
            modes.put_journal_back();
        }
        self.tell_served_cpus();
        Ok(Response::Reverted { domains: result? })
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
        let started = self.started().clone();
        match Loaded::new(table.clone(), &standing, &started, description, idle_time) {
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
        let _loading = self.loading();
        let id = self.leases().connect();
        let applied = self.leases().apply(id, &requests, Lease::Persistent);
        self.end_leases(id);
        applied?;
        self.xen.watch(&requests, &self.leases);
        let started = loaded.start_times();
        self.started().clone_from(&started);
        let (table, description) = (loaded.table.clone(), loaded.description.clone());
        let modes = Modes::load(
            Loading {
                journal: self.journal(&table, description.clone()),
                table,
                state: Some(state),
                description,
                started,
                resumed: Some(fate),
            },
            &self.leases,
            &self.keeping.socket,
        );
        match modes {
            Ok(modes) => {
                self.know(modes);
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
        if let Some(modes) = self.modes().as_ref() {
            modes.forget_journal();
        }
        let reverted = self.leases().revert(&Selection::All);
        // Afterwards, since a change that is under way may take long to end.
        self.forget_modes();
        reverted.map(|_| ())
    }

    /// Has nothing made again if we die now, if a domain with modes is selected.
    fn put_journal_aside(&self, selection: &Selection) {
        if let Some(modes) = self.modes().as_ref() {
            let concerns = match selection {
                Selection::All => true,
                Selection::Domain(domain) => modes.status().state.domains.contains_key(domain),
                Selection::Domains(domains) => {
                    let state = modes.status().state;
                    domains.iter().any(|one| state.domains.contains_key(one))
                }
            };
            if concerns {
                modes.put_journal_aside();
            }
        }
    }

    /// Ends what changes modes; reservations stay as they are.
    pub fn forget_modes(&self) {
        let _loading = self.loading();
        self.end_modes();
    }

    /// The same for who holds `loading`.
    fn end_modes(&self) {
        let modes = self.modes().take();
        // Without the lock, since a transition may be under way.
        if let Some(modes) = modes {
            modes.end();
        }
    }

    /// Ends what changes modes if a domain of theirs is reserved no more, or nobody answers for it.
    fn forget_modes_of_nothing(&self) {
        // Who loads modes looks again afterwards, so most connections need not wait for that to end.
        if !self.has_modes_of_nothing() {
            return;
        }
        let _loading = self.loading();
        if self.has_modes_of_nothing() {
            self.end_modes();
        }
    }

    fn has_modes_of_nothing(&self) -> bool {
        let status = self.modes().as_ref().map(|modes| modes.status());
        let Some(status) = status else { return false };
        let leases = self.leases();
        let goes = |domain| matches!(leases.owners().get(domain), None | Some(Owner::Abandoned));
        status.state.domains.keys().any(goes)
    }

    fn apply(
        &self,
        id: ConnectionId,
        requests: &[ReservationRequest],
        lease: Lease,
        when_empty: BTreeMap<String, WhenEmpty>,
    ) -> Result<Response, Refusal> {
        self.protection.ensure()?;
        self.refuse_watchdog_as_target(requests)?;
        let started = start_times(requests);
        let result = {
            let mut leases = self.leases();
            let result = leases.apply(id, requests, lease);
            if result.is_ok() {
                let mut known = self.started();
                known.retain(|domain, _| leases.owners().contains_key(domain));
                known.extend(started);
                self.members.applied(requests, when_empty);
            }
            result
        };
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
            let is_target = match &request.target {
                Target::Processes(numbers) | Target::Threads(numbers) => {
                    numbers.contains(&watchdog)
                }
                // An emulator's other threads get another policy and other CPUs than the watchdog has.
                Target::Machine(machine) => {
                    machine.vcpus.contains(&watchdog) || machine.emulator.contains(&watchdog)
                }
                Target::Cgroup(_) | Target::XenDomain(_) => false,
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
