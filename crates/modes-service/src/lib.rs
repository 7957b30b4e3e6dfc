//! The modes of a host as a subsystem of the daemon.
//!
//! [`ModesService`] is known to the daemon by its [`REGISTRATION`]. Modes that are loaded are a thread with
//! the host mode manager and the links to the agents ([`modes`]). It feeds the triggers and looks at the
//! tasks that agents say are stopped, and writes a [`journal`] from which the daemon after this one makes
//! the reservations again ([`resumption`]).

mod agent_access;
mod contradiction_watch;
pub mod journal;
pub mod metrics;
pub mod modes;
pub mod resumption;
#[cfg(test)]
mod standing_arm;
mod trigger_source;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use serde_json::Value;
use tailbound_control::{HeldBy, Refusal, RefusalKind};
use tailbound_modes::control::{
    ModesRefusal, ModesRequest, ModesResponse, ModesSummary, RunningDescription, SUBSYSTEM,
};
use tailbound_modes::manager::State;
use tailbound_modes::manager::journal::Fate;
use tailbound_modes::table::ModeTable;
use tailbound_subsystem::{Place, Registration, Remains, ReservationHost, Subsystem};
use tracing::{info, warn};

use crate::journal::{Loaded, ModesJournal};
use crate::metrics::ModesMetrics;
use crate::modes::{Loading, Modes};

/// Modes in the daemon's list of subsystems.
pub const REGISTRATION: Registration = Registration {
    start: |host, place| Box::new(ModesService::new(host, place)),
    remains,
};

fn remains(directory: &Path) -> Option<Remains> {
    // The next daemon that somebody starts tells what is wrong with a journal that cannot be read.
    let (loaded, _) = journal::left(directory).ok().flatten()?;
    Some(Remains {
        exit_when_idle: loaded.exit_when_idle,
    })
}

/// Locks what a panic of another holder has not broken: every holder leaves it whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `ModesService` answers requests for modes, and keeps those that are loaded.
pub struct ModesService {
    host: Arc<dyn ReservationHost>,
    place: Place,
    modes: Mutex<Option<Arc<Modes>>>,
    /// Held by whoever loads modes or ends them, until that is done: there is one socket and one journal.
    /// Taken before the other locks here, since who has it waits for a change that is under way.
    loading: Mutex<()>,
}

impl ModesService {
    /// Modes over the reservations of a host; none are loaded.
    pub fn new(host: Arc<dyn ReservationHost>, place: Place) -> Self {
        Self {
            host,
            place,
            modes: Mutex::default(),
            loading: Mutex::default(),
        }
    }

    fn modes(&self) -> MutexGuard<'_, Option<Arc<Modes>>> {
        lock(&self.modes)
    }

    fn socket(&self) -> PathBuf {
        self.place.directory.join("modes.sock")
    }

    fn carry_out(&self, request: ModesRequest) -> Result<ModesResponse, Refusal> {
        let modes = self.modes().clone();
        let loaded = || modes.clone().ok_or(ModesRefusal::NoneKnown {});
        Ok(match request {
            ModesRequest::Load { table, description } => {
                drop(modes);
                let socket = self.load(*table, description)?;
                ModesResponse::Loaded { socket }
            }
            ModesRequest::Add { table, description } => {
                loaded()?.add(*table, description)?;
                ModesResponse::Added {}
            }
            ModesRequest::Description {} => ModesResponse::Description {
                description: modes.and_then(|modes| modes.description()),
            },
            ModesRequest::Set { mode } => ModesResponse::Set {
                report: Box::new(loaded()?.set(&mode)?),
            },
            ModesRequest::State {} => ModesResponse::State {
                modes: modes.map(|modes| Box::new(modes.status())),
            },
        })
    }

    fn load(
        &self,
        table: ModeTable,
        description: Option<RunningDescription>,
    ) -> Result<PathBuf, Refusal> {
        let loading = lock(&self.loading);
        // One that is refused takes nothing away.
        let old = self.modes().clone();
        modes::check(&table, &*self.host, old.as_deref())?;
        drop(old);
        // The old ones first: there is one socket.
        self.end_modes();
        journal::forget_restarts(&self.place.directory);
        let socket = self.socket();
        let modes = Modes::load(
            Loading {
                journal: self.journal(&table, description.clone()),
                table,
                state: None,
                description,
                started: self.host.start_times(),
                resumed: None,
            },
            &self.host,
            &socket,
        )?;
        self.know(modes);
        drop(loading);
        // Who asked for the reservations may have gone meanwhile, and found no modes to end.
        self.owners_changed();
        Ok(socket)
    }

    /// Has these modes from now on.
    fn know(&self, modes: Modes) {
        let old = self.modes().replace(Arc::new(modes));
        assert!(
            old.is_none(),
            "others are loaded once the old ones have ended"
        );
    }

    /// A journal for the daemon after this one, if the reservations are to outlive those who asked for
    /// them.
    fn journal(
        &self,
        table: &ModeTable,
        description: Option<RunningDescription>,
    ) -> Option<ModesJournal> {
        let domains = table.in_mode(table.initial()).domains;
        let mut holders = domains.keys().map(|domain| self.host.holder(domain));
        if !holders.all(|holder| holder == Some(HeldBy::Nobody)) {
            return None;
        }
        let loaded = Loaded::new(
            table.clone(),
            &self.host.standing(),
            &self.host.start_times(),
            description,
            self.place.exit_when_idle,
        );
        match loaded {
            Ok(loaded) => Some(ModesJournal::new(&self.place.directory, loaded)),
            Err(error) => {
                warn!("no journal of mode changes: {error}");
                None
            }
        }
    }

    fn restore(&self, loaded: &Loaded, state: State, fate: Fate) -> Result<(), Refusal> {
        let requests = loaded.requests(&state);
        let requests =
            requests.map_err(|error| Refusal::new(RefusalKind::Target, error.to_string()))?;
        let _loading = lock(&self.loading);
        let started = loaded.start_times();
        self.host.restore(&requests, &started)?;
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
            &self.host,
            &self.socket(),
        );
        match modes {
            Ok(modes) => {
                self.know(modes);
                Ok(())
            }
            Err(refusal) => {
                self.host.revert_all()?;
                Err(refusal.into())
            }
        }
    }

    /// Does something with the journal of the modes, where they have one.
    fn with_journal(&self, act: impl FnOnce(&ModesJournal)) {
        let modes = self.modes();
        if let Some(journal) = modes.as_ref().and_then(|modes| modes.journal()) {
            act(journal);
        }
    }

    /// Ends the modes, for who holds `loading`.
    fn end_modes(&self) {
        let modes = self.modes().take();
        // Without the lock, since a transition may be under way.
        if let Some(modes) = modes {
            modes.end();
        }
    }

    /// Whether a domain of the modes is reserved no more, or is about to be taken back.
    fn has_modes_of_nothing(&self) -> bool {
        let goes =
            |domain: &String| matches!(self.host.holder(domain), None | Some(HeldBy::Daemon));
        self.claimed_domains().iter().any(goes)
    }
}

impl Subsystem for ModesService {
    fn name(&self) -> &'static str {
        SUBSYSTEM
    }

    fn is_open_to_everyone(&self, request: &Value) -> bool {
        tailbound_subsystem::is_open_to_everyone::<ModesRequest>(request)
    }

    fn answer(&self, request: Value) -> Result<Value, Refusal> {
        tailbound_subsystem::answer(request, |request| self.carry_out(request))
    }

    fn status(&self) -> Option<Value> {
        let modes = self.modes().clone()?;
        serde_json::to_value(ModesSummary::from(&modes.status())).ok()
    }

    fn metrics(&self) -> Option<Box<dyn Collector>> {
        let modes = self.modes().clone()?;
        Some(Box::new(ModesMetrics {
            status: modes.status(),
            counts: modes.counts(),
        }))
    }

    fn claimed_domains(&self) -> BTreeSet<String> {
        let modes = self.modes().clone();
        modes.map(|modes| modes.domains()).unwrap_or_default()
    }

    fn refusal_to_change(&self, domain: &str) -> Refusal {
        let domain = domain.to_owned();
        ModesRefusal::ChangedByModes { domain }.into()
    }

    fn resume(&self) {
        let directory = &self.place.directory;
        let Some((loaded, resumption)) = resumption::left(directory) else {
            return;
        };
        let instead = resumption.otherwise.map(|state| (state, Fate::RolledBack));
        let tried = std::iter::once((resumption.state, resumption.fate)).chain(instead);
        for (state, fate) in tried {
            let mode = state.mode.clone();
            match self.restore(&loaded, state, fate) {
                Ok(()) => return info!("{}", fate.in_words(&mode)),
                Err(refusal) => warn!("mode `{mode}` is not made again: {refusal}"),
            }
        }
        journal::forget(directory);
    }

    fn before_revert(&self) {
        self.with_journal(ModesJournal::put_aside);
    }

    fn after_revert(&self) {
        self.owners_changed();
        // Where the modes are known still, nothing of theirs was taken back.
        self.with_journal(ModesJournal::put_back);
    }

    fn owners_changed(&self) {
        // Who loads modes looks again afterwards, so most connections need not wait for that to end.
        if !self.has_modes_of_nothing() {
            return;
        }
        let _loading = lock(&self.loading);
        if self.has_modes_of_nothing() {
            self.end_modes();
        }
    }

    fn forget_journal(&self) {
        self.with_journal(ModesJournal::remove);
    }

    fn end(&self) {
        let _loading = lock(&self.loading);
        self.end_modes();
    }
}
