//! The modes of the host: a thread with the host mode manager and the links to the agents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use tailbound_enforcement::EnforcementStatus;
use tailbound_linux::HostCapabilities;
use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::own_thread;
use tailbound_linux::scheduling::set_affinity;
use tailbound_linux::thread::make_current_thread_fifo;
use tailbound_modes::control::{ModesRefusal, ModesStatus, RunningDescription};
use tailbound_modes::enforcer_adapter::{EnforcerAdapter, limits};
use tailbound_modes::links::{AgentLinks, Commands, LOOK_FOR};
use tailbound_modes::manager::journal::Fate;
use tailbound_modes::manager::{Asker, HostModeManager, ModeError, Report, State};
use tailbound_modes::table::ModeTable;
use tailbound_modes::table_replacement;
use tailbound_modes::triggers::Triggers;
use tailbound_subsystem::ReservationHost;
use tailbound_subsystem::process_identity::StartTimes;
use tailbound_time::{Clock, Duration, Instant};
use tracing::{info, warn};

use crate::agent_access::{authority, cpus_without_domains, listen, ways};
use crate::contradiction_watch::ContradictionWatch;
use crate::journal::ModesJournal;
use crate::metrics::ChangeCounts;
use crate::{lock, trigger_source};

/// Above all domains, below the managers of budgets: a mode change waits for neither of the former.
const PRIORITY: u8 = 96;
/// How often the thread looks whether it is to end.
const LOOK_AFTER: Duration = Duration::from_millis(200);
/// How long a transition, with what it takes to take it back, may last.
const CHANGED_WITHIN: std::time::Duration = std::time::Duration::from_secs(50);

/// What asks for a mode waits for this.
type ChangeResult = Result<Report, ModeError>;

/// Modes to be added: the table with them, the description with them, and who waits for the answer.
type Addition = (
    ModeTable,
    Option<RunningDescription>,
    mpsc::Sender<Result<(), ModesRefusal>>,
);

/// What is to be known.
pub struct Loading {
    /// The modes.
    pub table: ModeTable,
    /// What holds, where that is not the initial mode.
    pub state: Option<State>,
    /// Where the modes are from.
    pub description: Option<RunningDescription>,
    /// What is noted of them for the next daemon.
    pub journal: Option<ModesJournal>,
    /// When the processes of the domains were started.
    pub started: StartTimes,
    /// What became of a change in which another daemon died.
    pub resumed: Option<Fate>,
}

/// The modes of the host, as long as they are known.
pub struct Modes {
    commands: Commands,
    shared: Arc<SharedModes>,
    next: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
    journal: Option<ModesJournal>,
}

/// `SharedModes` is what the thread of the modes has in common with those who ask.
struct SharedModes {
    /// Where agents connect.
    socket: PathBuf,
    answers: Mutex<BTreeMap<u64, mpsc::Sender<ChangeResult>>>,
    additions: Mutex<Vec<Addition>>,
    status: Mutex<ModesStatus>,
    counts: Mutex<ChangeCounts>,
    description: Mutex<Option<RunningDescription>>,
    ending: AtomicBool,
}

/// The manager of the modes, over the reservations of the daemon and the links to the agents.
pub(crate) type DaemonModeManager =
    HostModeManager<EnforcerAdapter<Monotonic>, AgentLinks<Monotonic>, Monotonic>;

/// Refuses a table whose initial mode is not in force, or that leaves a domain out whose modes are known.
///
/// # Errors
/// Which domain stands against it.
pub fn check(
    table: &ModeTable,
    host: &dyn ReservationHost,
    running: Option<&Modes>,
) -> Result<(), ModesRefusal> {
    if let Some(running) = running {
        table_replacement::refuse_other(table, &running.status(), running.description().as_ref())?;
    }
    check_state(&State::initial(table), &host.standing())
}

impl Modes {
    /// Knows the modes of a table, one of which is in force. Agents connect to `socket`.
    ///
    /// # Errors
    /// If a domain of the table is not active as that mode says, or the socket cannot be made.
    pub fn load(
        loading: Loading,
        host: &Arc<dyn ReservationHost>,
        socket: &Path,
    ) -> Result<Self, ModesRefusal> {
        let (mut manager, commands, own_cpus) = manager_of(&loading, &**host, socket)?;
        let loaded = LoadedModes::new(manager.table(), &loading);
        let shared = Arc::new(SharedModes {
            socket: socket.to_owned(),
            answers: Mutex::default(),
            additions: Mutex::default(),
            status: Mutex::new(status_of(&mut manager, socket, &loaded)),
            counts: Mutex::default(),
            description: Mutex::new(loading.description),
            ending: AtomicBool::new(false),
        });
        let work = ModeThread {
            shared: Arc::clone(&shared),
            own_cpus,
            host: Arc::clone(host),
            journal: loading.journal.clone(),
            loaded,
        };
        let builder = std::thread::Builder::new().name("modes".into());
        let spawned = builder.spawn(move || work.run(manager));
        let thread = spawned.map_err(|error| no_listener(socket, &error))?;
        Ok(Self {
            commands,
            shared,
            next: AtomicU64::new(1),
            thread: Mutex::new(Some(thread)),
            journal: loading.journal,
        })
    }

    /// Where the modes are from, if that was told.
    pub fn description(&self) -> Option<RunningDescription> {
        lock(&self.shared.description).clone()
    }

    /// Knows more modes from now on: those of `table` that are not known yet.
    ///
    /// # Errors
    /// If it differs in something else, or a new mode cannot be changed to or from.
    pub fn add(
        &self,
        table: ModeTable,
        description: Option<RunningDescription>,
    ) -> Result<(), ModesRefusal> {
        let (sender, receiver) = mpsc::channel();
        lock(&self.shared.additions).push((table, description, sender));
        self.wake()?;
        let answer = receiver.recv_timeout(CHANGED_WITHIN);
        answer.unwrap_or(Err(ModesRefusal::Unfinished {}))
    }

    fn wake(&self) -> Result<(), ModesRefusal> {
        let ended = |_| ModesRefusal::Unloaded {};
        // There is no such mode, and nobody waits for the answer.
        self.commands.ask(0, String::new()).map_err(ended)
    }

    /// The journal, where the daemon after this one is to make the modes again.
    pub fn journal(&self) -> Option<&ModesJournal> {
        self.journal.as_ref()
    }

    /// Changes to a mode, and waits until that has ended.
    ///
    /// # Errors
    /// If there is no such mode, or another request took its place.
    pub fn set(&self, mode: &str) -> Result<Report, ModesRefusal> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel();
        lock(&self.shared.answers).insert(number, sender);
        let ended = |_| ModesRefusal::Unloaded {};
        self.commands.ask(number, mode.to_owned()).map_err(ended)?;
        let answer = receiver.recv_timeout(CHANGED_WITHIN);
        lock(&self.shared.answers).remove(&number);
        match answer {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(error)) => Err(error.into()),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(ModesRefusal::Unloaded {}),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(ModesRefusal::Unfinished {}),
        }
    }

    /// What is known, and what holds.
    pub fn status(&self) -> ModesStatus {
        lock(&self.shared.status).clone()
    }

    /// The domains whose reservations the modes change.
    pub fn domains(&self) -> BTreeSet<String> {
        lock(&self.shared.status)
            .state
            .domains
            .keys()
            .cloned()
            .collect()
    }

    /// What was counted of the changes, for the metrics.
    pub fn counts(&self) -> ChangeCounts {
        lock(&self.shared.counts).clone()
    }

    /// Ends the thread; a transition that is under way comes to its end first. Who waits for one that
    /// has not begun is told.
    pub fn end(&self) {
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        self.shared.ending.store(true, Ordering::Release);
        // It fails if the thread has ended.
        let _woken = self.wake();
        if thread.join().is_err() {
            warn!("the thread of the modes panicked");
        }
        lock(&self.shared.answers).clear();
        lock(&self.shared.additions).clear();
        if let Some(journal) = &self.journal {
            journal.remove();
        }
        // Gone already if somebody tidied up.
        let _gone = fs::remove_file(&self.shared.socket);
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        self.end();
    }
}

/// What is told of the modes beside what the manager knows.
struct LoadedModes {
    last: Option<Report>,
    triggers: Triggers,
    resumed: Option<Fate>,
    watch: ContradictionWatch,
    at: Instant,
}

impl LoadedModes {
    fn new(table: &ModeTable, loading: &Loading) -> Self {
        let now = Monotonic.now();
        Self {
            last: None,
            triggers: Triggers::new(table.triggers(), now),
            resumed: loading.resumed,
            watch: ContradictionWatch::of(table, &loading.started),
            at: now,
        }
    }
}

/// What the thread works with.
struct ModeThread {
    shared: Arc<SharedModes>,
    /// The CPUs that it looks for answers on; none where every CPU has domains.
    own_cpus: BTreeSet<u32>,
    host: Arc<dyn ReservationHost>,
    journal: Option<ModesJournal>,
    loaded: LoadedModes,
}

impl ModeThread {
    fn run(mut self, mut manager: DaemonModeManager) {
        if !self.own_cpus.is_empty()
            && let Err(error) = set_affinity(own_thread(), &self.own_cpus)
        {
            warn!("mode changes may hold agents up: {error}");
        }
        if let Err(error) = make_current_thread_fifo(PRIORITY) {
            warn!("mode changes wait for other programs: {error}");
        }
        while !self.shared.ending.load(Ordering::Acquire) {
            let now = Monotonic.now();
            let fired =
                trigger_source::look(&mut self.loaded.triggers, &mut manager, &*self.host, now);
            let added = self.take_additions(&mut manager);
            self.look_at_tasks(&mut manager, now);
            let at_latest = now.saturating_add(LOOK_AFTER);
            let until = self.loaded.triggers.next_look();
            let until = until.map_or(at_latest, |next| next.min(at_latest));
            match manager.serve_one(Some(until)) {
                Some((asker, answer)) => self.served(&mut manager, &asker, answer),
                None if fired
                    || added
                    || Monotonic.now() >= self.loaded.at.saturating_add(LOOK_AFTER) =>
                {
                    self.take_note(&mut manager);
                }
                None => {}
            }
        }
    }

    /// Holds what agents say of stopped tasks against what the host sees.
    fn look_at_tasks(&mut self, manager: &mut DaemonModeManager, now: Instant) {
        let said_stopped = |domain: &str, task: &str| manager.said_stopped(domain, task);
        let last = self.loaded.last.as_mut();
        if self.loaded.watch.look(now, said_stopped, last) {
            lock(&self.shared.counts)
                .contradictions
                .clone_from(self.loaded.watch.counts());
            self.take_note(manager);
        }
    }

    fn served(&mut self, manager: &mut DaemonModeManager, asker: &Asker, answer: ChangeResult) {
        tell(asker, &answer);
        if let Ok(report) = &answer
            && !report.changes_nothing()
        {
            lock(&self.shared.counts).add(report);
            self.loaded.last = Some(report.clone());
            self.loaded.triggers.mode_has_changed();
        }
        self.take_note(manager);
        for other in manager.take_joined() {
            self.answer(manager, &other, answer.clone());
        }
        self.answer(manager, asker, answer);
    }

    fn take_note(&mut self, manager: &mut DaemonModeManager) {
        for reason in manager.agents().take_reasons() {
            warn!("agents: {reason}");
        }
        lock(&self.shared.counts).agents_refused = manager.agents().refused();
        self.loaded.at = Monotonic.now();
        *lock(&self.shared.status) = status_of(manager, &self.shared.socket, &self.loaded);
    }

    /// Adds modes; whether there were some to add.
    fn take_additions(&mut self, manager: &mut DaemonModeManager) -> bool {
        let additions = std::mem::take(&mut *lock(&self.shared.additions));
        let some = !additions.is_empty();
        for (table, description, sender) in additions {
            let added = manager.check_addition(&table).map(|()| {
                if let Some(journal) = &self.journal {
                    journal.set_modes(table.clone(), description.clone());
                }
                *lock(&self.shared.description) = description;
                manager.add_modes(table);
                let triggers = manager.table().triggers();
                self.loaded.triggers.keep(triggers, Monotonic.now());
            });
            self.take_note(manager);
            // Who asked may have gone.
            let _gone = sender.send(added.map_err(ModesRefusal::from));
        }
        some
    }

    fn answer(&self, manager: &mut DaemonModeManager, asker: &Asker, answer: ChangeResult) {
        match (asker, answer) {
            (Asker::Command(number), answer) => {
                if let Some(sender) = lock(&self.shared.answers).remove(number) {
                    // Who asked may have gone.
                    let _gone = sender.send(answer);
                }
            }
            (Asker::Domain(domain), Err(error)) => {
                let mode = match &error {
                    ModeError::Unknown { mode, .. }
                    | ModeError::NotAllowed { mode, .. }
                    | ModeError::Infeasible { mode, .. } => mode,
                    _ => return,
                };
                manager.agents().refuse(domain, mode, &error.to_string());
            }
            _ => {}
        }
    }
}

/// Tells the log of what was not asked for by a command, or did not come to its end.
fn tell(asker: &Asker, answer: &ChangeResult) {
    match answer {
        Ok(report) if !report.is_there() => {
            info!("mode `{}`: {:?}", report.to, report.outcome.ending);
        }
        // An agent may ask for the mode that holds as often as it likes.
        Ok(report) if report.changes_nothing() => {}
        Ok(report) => info!("mode `{}`, asked for by {asker:?}", report.to),
        Err(error) if !matches!(asker, Asker::Command(_)) => warn!("{error}"),
        Err(_) => {}
    }
}

/// The manager of what is loaded, and the end by which others ask for modes.
fn manager_of(
    loading: &Loading,
    daemon: &dyn ReservationHost,
    socket: &Path,
) -> Result<(DaemonModeManager, Commands, BTreeSet<u32>), ModesRefusal> {
    let table = loading.table.clone();
    let state = loading.state.clone();
    let state = state.unwrap_or_else(|| State::initial(&table));
    let standing = daemon.standing();
    check_state(&state, &standing)?;
    let host = HostCapabilities::probe();
    let takes_part = |domain: &str| state.domains.contains_key(domain);
    let cpus = standing.domains.iter().flat_map(|one| &one.interface.cpus);
    let limits = limits(cpus.copied(), &standing, takes_part, &host);
    let authority = authority(&standing, loading.started.clone());
    let failed = |error: io::Error| no_listener(socket, &error);
    let listener = listen(socket).map_err(failed)?;
    let (mut links, commands) = AgentLinks::new(listener, authority, Monotonic).map_err(failed)?;
    let opened = links.open(ways(&table, &standing));
    opened.map_err(|error| {
        let why = error.to_string();
        ModesRefusal::NoListener { why }
    })?;
    let own_cpus = cpus_without_domains(&host, &standing);
    // A machine's emulator may need these CPUs for what is looked for.
    if !own_cpus.is_empty() && table.links().is_empty() {
        links.look_for(LOOK_FOR);
    }
    let reservations = EnforcerAdapter::new(daemon.control(), &standing, Monotonic);
    let manager = HostModeManager::new(table, limits, reservations, links, Monotonic);
    let manager = manager.in_state(state);
    let manager = match &loading.journal {
        Some(journal) => manager.with_journal(Box::new(journal.clone())),
        None => manager,
    };
    Ok((manager, commands, own_cpus))
}

fn status_of(manager: &mut DaemonModeManager, socket: &Path, loaded: &LoadedModes) -> ModesStatus {
    let agents = manager.agents().present().into_iter();
    let agents = agents.map(str::to_owned).collect();
    ModesStatus {
        table: manager.table().clone(),
        state: manager.state().clone(),
        agents,
        socket: socket.to_owned(),
        last: loaded.last.clone(),
        triggers: loaded.triggers.status(),
        resumed: loaded.resumed,
        contradictions: loaded.watch.contradictions(),
    }
}

fn no_listener(socket: &Path, error: &io::Error) -> ModesRefusal {
    let why = format!("{}: {error}", socket.display());
    ModesRefusal::NoListener { why }
}

/// Refuses a state that is not in force.
fn check_state(state: &State, standing: &EnforcementStatus) -> Result<(), ModesRefusal> {
    let mode = &state.mode;
    for (domain, held) in &state.domains {
        let active = standing.domains.iter().find(|one| one.domain == *domain);
        let wanted = &held.interface.interface;
        let why = match active.map(|active| &active.interface) {
            Some(active) if active == wanted => continue,
            Some(active) => format!(
                "domain \"{domain}\" has {} every {}, and mode `{mode}` says {} every {}; revert it and \
                 apply the description again",
                active.budget, active.period, wanted.budget, wanted.period,
            ),
            None => format!(
                "domain \"{domain}\" of mode `{mode}` has no active reservation; apply the description first"
            ),
        };
        let (mode, domain) = (mode.clone(), domain.clone());
        return Err(ModesRefusal::NotInForce { mode, domain, why });
    }
    Ok(())
}
