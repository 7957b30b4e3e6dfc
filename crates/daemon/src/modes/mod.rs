//! The modes of the host: a thread with the host mode manager and the links to the agents.

mod entrance;
pub mod identity;
pub mod journal;
pub mod known;
mod looking;
pub mod resuming;
mod triggering;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use tailbound_enforcement::{Changed, EnforcementStatus};
use tailbound_linux::HostCapabilities;
use tailbound_linux::clock::Monotonic;
use tailbound_linux::scheduling::set_affinity;
use tailbound_linux::thread::{current_thread_id, make_current_thread_fifo};
use tailbound_model::ResourceInterface;
use tailbound_modes::enforced::{Enforced, Enforcing, limits};
use tailbound_modes::links::{AgentLinks, Commands, LOOK_FOR};
use tailbound_modes::manager::journal::Fate;
use tailbound_modes::manager::{Asker, HostModeManager, ModeError, Report, State};
use tailbound_modes::table::ModeTable;
use tailbound_modes::triggers::Triggers;
use tailbound_time::{Clock, Duration, Instant};

use crate::leases::{Leases, Reservations};
use crate::log::note;
use crate::metrics::ChangeCounts;
use crate::protocol::{ModesStatus, Refusal, RefusalKind, RunningDescription};
use entrance::{authority, cpus_without_domains, listen, ways};
use identity::StartTimes;
use journal::ModesJournal;
use looking::Looks;

/// Above all domains, below the managers of budgets: a mode change waits for neither of the former.
const PRIORITY: u8 = 96;
/// How often the thread looks whether it is to end.
const LOOK_AFTER: Duration = Duration::from_millis(200);
/// How long a transition, with what it takes to take it back, may last.
const CHANGED_WITHIN: std::time::Duration = std::time::Duration::from_secs(50);

/// Leases that several threads use.
pub type SharedLeases<R> = Arc<Mutex<Leases<R>>>;

/// What asks for a mode waits for this.
type Answer = Result<Report, ModeError>;
type Answers = Arc<Mutex<BTreeMap<u64, mpsc::Sender<Answer>>>>;

/// Modes to be added: the table with them, the description with them, and who waits for the answer.
type Addition = (
    ModeTable,
    Option<RunningDescription>,
    mpsc::Sender<Result<(), Refusal>>,
);
type Additions = Arc<Mutex<Vec<Addition>>>;

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
    answers: Answers,
    status: Arc<Mutex<ModesStatus>>,
    counts: Arc<Mutex<ChangeCounts>>,
    ending: Arc<AtomicBool>,
    next: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
    socket: PathBuf,
    additions: Additions,
    description: Arc<Mutex<Option<RunningDescription>>>,
    journal: Option<ModesJournal>,
}

/// Locks what a panic of another holder has not broken: every holder leaves it whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::Mode, message)
}

/// The reservations of this daemon, as its mode manager changes them.
struct Leased<R>(SharedLeases<R>);

impl<R: Reservations> Enforcing for Leased<R> {
    fn begin_changes(&mut self) -> Result<(), String> {
        let begun = lock(&self.0).begin_changes();
        begun.map_err(|refusal| refusal.message)
    }

    fn end_changes(&mut self) -> Result<(), String> {
        let ended = lock(&self.0).end_changes();
        ended.map_err(|refusal| refusal.message)
    }

    fn change_from(
        &mut self,
        domain: &str,
        interface: &ResourceInterface,
        not_before: Instant,
    ) -> Result<Changed, String> {
        let changed = lock(&self.0).change_from(domain, interface, not_before);
        changed.map_err(|refusal| refusal.message)
    }

    fn boost(&mut self, domain: &str, at_most: Duration, if_exhausted: bool) -> Result<(), String> {
        let boosted = lock(&self.0).boost(domain, at_most, if_exhausted);
        boosted.map_err(|refusal| refusal.message)
    }

    fn unboost(&mut self, domain: &str) -> Result<(), String> {
        lock(&self.0)
            .unboost(domain)
            .map_err(|refusal| refusal.message)
    }
}

type Manager<R> = HostModeManager<Enforced<Leased<R>, Monotonic>, AgentLinks<Monotonic>, Monotonic>;

/// Refuses a table whose initial mode is not in force, or that leaves a domain out whose modes are known.
///
/// # Errors
/// Which domain stands against it.
pub fn check<R: Reservations>(
    table: &ModeTable,
    leases: &SharedLeases<R>,
    known: Option<&Modes>,
) -> Result<(), Refusal> {
    if let Some(known) = known {
        known::refuse_other(table, &known.status(), known.description().as_ref())?;
    }
    let standing = lock(leases).reservations().status();
    check_state(&State::initial(table), &standing)
}

impl Modes {
    /// Knows the modes of a table, one of which is in force. Agents connect to `socket`.
    ///
    /// # Errors
    /// If a domain of the table is not active as that mode says, or the socket cannot be made.
    pub fn load<R: Reservations + Send + 'static>(
        loading: Loading,
        leases: &SharedLeases<R>,
        socket: &Path,
    ) -> Result<Self, Refusal> {
        let failed = |error: io::Error| refused(format!("{}: {error}", socket.display()));
        let journal = loading.journal.clone();
        let description = Arc::new(Mutex::new(loading.description.clone()));
        let (mut manager, commands, own_cpus) = manager_of(&loading, leases, socket)?;
        let told = Told::new(manager.table(), &loading);
        let status = Arc::new(Mutex::new(status_of(&mut manager, socket, &told)));
        let (answers, ending) = (Answers::default(), Arc::new(AtomicBool::new(false)));
        let additions = Additions::default();
        let counts = Arc::<Mutex<ChangeCounts>>::default();
        let thread = {
            let work = Work {
                answers: Arc::clone(&answers),
                status: Arc::clone(&status),
                counts: Arc::clone(&counts),
                ending: Arc::clone(&ending),
                socket: socket.to_owned(),
                own_cpus,
                leases: Arc::clone(leases),
                additions: Arc::clone(&additions),
                description: Arc::clone(&description),
                journal: loading.journal,
                told,
            };
            let builder = std::thread::Builder::new().name("modes".into());
            builder.spawn(move || work.run(manager)).map_err(failed)?
        };
        Ok(Self {
            commands,
            answers,
            status,
            counts,
            ending,
            next: AtomicU64::new(1),
            thread: Mutex::new(Some(thread)),
            socket: socket.to_owned(),
            additions,
            description,
            journal,
        })
    }

    /// Where the modes are from, if that was told.
    pub fn description(&self) -> Option<RunningDescription> {
        lock(&self.description).clone()
    }

    /// Knows more modes from now on: those of `table` that are not known yet.
    ///
    /// # Errors
    /// If it differs in something else, or a new mode cannot be changed to or from.
    pub fn add(
        &self,
        table: ModeTable,
        description: Option<RunningDescription>,
    ) -> Result<(), Refusal> {
        let (sender, receiver) = mpsc::channel();
        lock(&self.additions).push((table, description, sender));
        self.wake()?;
        let answer = receiver.recv_timeout(CHANGED_WITHIN);
        answer.unwrap_or_else(|_| {
            Err(refused(
                "the modes were unloaded meanwhile, or a change lasts",
            ))
        })
    }

    fn wake(&self) -> Result<(), Refusal> {
        let ended = |_| refused("the modes were unloaded meanwhile");
        // There is no such mode, and nobody waits for the answer.
        self.commands.ask(0, String::new()).map_err(ended)
    }

    /// If the daemon dies from here on, nothing is made again.
    pub fn put_journal_aside(&self) {
        if let Some(journal) = &self.journal {
            journal.put_aside();
        }
    }

    /// If the daemon dies from here on, the modes are made again as before.
    pub fn put_journal_back(&self) {
        if let Some(journal) = &self.journal {
            journal.put_back();
        }
    }

    /// If the daemon dies from here on, nothing is made again, for good.
    pub fn forget_journal(&self) {
        if let Some(journal) = &self.journal {
            journal.remove();
        }
    }

    /// Changes to a mode, and waits until that has ended.
    ///
    /// # Errors
    /// If there is no such mode, or another request took its place.
    pub fn set(&self, mode: &str) -> Result<Report, Refusal> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel();
        lock(&self.answers).insert(number, sender);
        let ended = |_| refused("the modes were unloaded meanwhile");
        self.commands.ask(number, mode.to_owned()).map_err(ended)?;
        let answer = receiver.recv_timeout(CHANGED_WITHIN);
        lock(&self.answers).remove(&number);
        match answer {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(error)) => Err(refused(error.to_string())),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(refused("the modes were unloaded meanwhile"))
            }
            Err(mpsc::RecvTimeoutError::Timeout) => Err(refused(
                "the change has not ended in time; see `tailbound mode list`",
            )),
        }
    }

    /// What is known, and what holds.
    pub fn status(&self) -> ModesStatus {
        lock(&self.status).clone()
    }

    /// What was counted of the changes, for the metrics.
    pub fn counts(&self) -> ChangeCounts {
        lock(&self.counts).clone()
    }

    /// Where agents connect.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Modes {
    /// Ends the thread; a transition that is under way comes to its end first. Who waits for one that
    /// has not begun is told.
    pub fn end(&self) {
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        self.ending.store(true, Ordering::Release);
        // It fails if the thread has ended.
        let _woken = self.wake();
        if thread.join().is_err() {
            note("the thread of the modes panicked");
        }
        lock(&self.answers).clear();
        lock(&self.additions).clear();
        self.forget_journal();
        // Gone already if somebody tidied up.
        let _gone = fs::remove_file(&self.socket);
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        self.end();
    }
}

/// What is told of the modes beside what the manager knows.
struct Told {
    last: Option<Report>,
    triggers: Triggers,
    resumed: Option<Fate>,
    looks: Looks,
    at: Instant,
}

impl Told {
    fn new(table: &ModeTable, loading: &Loading) -> Self {
        let now = Monotonic.now();
        Self {
            last: None,
            triggers: Triggers::new(table.triggers(), now),
            resumed: loading.resumed,
            looks: Looks::of(table, &loading.started),
            at: now,
        }
    }
}

/// What the thread works with.
struct Work<R> {
    answers: Answers,
    status: Arc<Mutex<ModesStatus>>,
    counts: Arc<Mutex<ChangeCounts>>,
    ending: Arc<AtomicBool>,
    socket: PathBuf,
    /// The CPUs that it looks for answers on; none where every CPU has domains.
    own_cpus: BTreeSet<u32>,
    leases: SharedLeases<R>,
    additions: Additions,
    description: Arc<Mutex<Option<RunningDescription>>>,
    journal: Option<ModesJournal>,
    told: Told,
}

impl<R: Reservations> Work<R> {
    fn run(mut self, mut manager: Manager<R>) {
        if !self.own_cpus.is_empty()
            && let Err(error) = set_affinity(current_thread_id(), &self.own_cpus)
        {
            note(format_args!("mode changes may hold agents up: {error}"));
        }
        if let Err(error) = make_current_thread_fifo(PRIORITY) {
            note(format_args!(
                "mode changes wait for other programs: {error}"
            ));
        }
        while !self.ending.load(Ordering::Acquire) {
            let now = Monotonic.now();
            let fired = triggering::look(&mut self.told.triggers, &mut manager, &self.leases, now);
            let added = self.take_additions(&mut manager);
            self.look_at_tasks(&mut manager, now);
            let at_latest = now.saturating_add(LOOK_AFTER);
            let until = self.told.triggers.next_look();
            let until = until.map_or(at_latest, |next| next.min(at_latest));
            match manager.serve_one(Some(until)) {
                Some((asker, answer)) => self.served(&mut manager, &asker, answer),
                None if fired
                    || added
                    || Monotonic.now() >= self.told.at.saturating_add(LOOK_AFTER) =>
                {
                    self.take_note(&mut manager);
                }
                None => {}
            }
        }
    }

    /// Holds what agents say of stopped tasks against what the host sees.
    fn look_at_tasks(&mut self, manager: &mut Manager<R>, now: Instant) {
        let said_stopped = |domain: &str, task: &str| manager.said_stopped(domain, task);
        let last = self.told.last.as_mut();
        if self.told.looks.look(now, said_stopped, last) {
            lock(&self.counts)
                .contradictions
                .clone_from(self.told.looks.counts());
            self.take_note(manager);
        }
    }

    fn served(&mut self, manager: &mut Manager<R>, asker: &Asker, answer: Answer) {
        tell(asker, &answer);
        if let Ok(report) = &answer
            && !report.changes_nothing()
        {
            lock(&self.counts).add(report);
            self.told.last = Some(report.clone());
            self.told.triggers.mode_has_changed();
        }
        self.take_note(manager);
        for other in manager.take_joined() {
            self.answer(manager, &other, answer.clone());
        }
        self.answer(manager, asker, answer);
    }

    fn take_note(&mut self, manager: &mut Manager<R>) {
        for reason in manager.agents().take_reasons() {
            note(format_args!("agents: {reason}"));
        }
        lock(&self.counts).agents_refused = manager.agents().refused();
        self.told.at = Monotonic.now();
        *lock(&self.status) = status_of(manager, &self.socket, &self.told);
    }

    /// Adds modes; whether there were some to add.
    fn take_additions(&mut self, manager: &mut Manager<R>) -> bool {
        let additions = std::mem::take(&mut *lock(&self.additions));
        let some = !additions.is_empty();
        for (table, description, sender) in additions {
            let added = manager.check_addition(&table).map(|()| {
                if let Some(journal) = &self.journal {
                    journal.set_modes(table.clone(), description.clone());
                }
                *lock(&self.description) = description;
                manager.add_modes(table);
                let triggers = manager.table().triggers();
                self.told.triggers.keep(triggers, Monotonic.now());
            });
            self.take_note(manager);
            // Who asked may have gone.
            let _gone = sender.send(added.map_err(|error| refused(error.to_string())));
        }
        some
    }

    fn answer(&self, manager: &mut Manager<R>, asker: &Asker, answer: Answer) {
        match (asker, answer) {
            (Asker::Command(number), answer) => {
                if let Some(sender) = lock(&self.answers).remove(number) {
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
fn tell(asker: &Asker, answer: &Answer) {
    match answer {
        Ok(report) if !report.is_there() => {
            note(format_args!(
                "mode `{}`: {:?}",
                report.to, report.outcome.ending
            ));
        }
        // An agent may ask for the mode that holds as often as it likes.
        Ok(report) if report.changes_nothing() => {}
        Ok(report) => note(format_args!("mode `{}`, asked for by {asker:?}", report.to)),
        Err(error) if !matches!(asker, Asker::Command(_)) => note(format_args!("{error}")),
        Err(_) => {}
    }
}

/// The manager of what is loaded, and the end by which others ask for modes.
fn manager_of<R: Reservations>(
    loading: &Loading,
    leases: &SharedLeases<R>,
    socket: &Path,
) -> Result<(Manager<R>, Commands, BTreeSet<u32>), Refusal> {
    let table = loading.table.clone();
    let state = loading.state.clone();
    let state = state.unwrap_or_else(|| State::initial(&table));
    let standing = lock(leases).reservations().status();
    check_state(&state, &standing)?;
    let host = HostCapabilities::probe();
    let takes_part = |domain: &str| state.domains.contains_key(domain);
    let cpus = standing.domains.iter().flat_map(|one| &one.interface.cpus);
    let limits = limits(cpus.copied(), &standing, takes_part, &host);
    let authority = authority(&standing, loading.started.clone());
    let failed = |error: io::Error| refused(format!("{}: {error}", socket.display()));
    let listener = listen(socket).map_err(failed)?;
    let (mut links, commands) = AgentLinks::new(listener, authority, Monotonic).map_err(failed)?;
    let opened = links.open(ways(&table, &standing));
    opened.map_err(|error| refused(error.to_string()))?;
    let own_cpus = cpus_without_domains(&host, &standing);
    // A machine's emulator may need these CPUs for what is looked for.
    if !own_cpus.is_empty() && table.links().is_empty() {
        links.look_for(LOOK_FOR);
    }
    let reservations = Enforced::new(Leased(Arc::clone(leases)), &standing, Monotonic);
    let manager = HostModeManager::new(table, limits, reservations, links, Monotonic);
    let manager = manager.in_state(state);
    let manager = match &loading.journal {
        Some(journal) => manager.with_journal(Box::new(journal.clone())),
        None => manager,
    };
    Ok((manager, commands, own_cpus))
}

fn status_of<R: Reservations>(manager: &mut Manager<R>, socket: &Path, told: &Told) -> ModesStatus {
    let agents = manager.agents().present().into_iter();
    let agents = agents.map(str::to_owned).collect();
    ModesStatus {
        table: manager.table().clone(),
        state: manager.state().clone(),
        agents,
        socket: socket.to_owned(),
        last: told.last.clone(),
        triggers: told.triggers.status(),
        resumed: told.resumed,
        contradictions: told.looks.contradictions(),
    }
}

/// Refuses a state that is not in force.
fn check_state(state: &State, standing: &EnforcementStatus) -> Result<(), Refusal> {
    for (domain, held) in &state.domains {
        let active = standing.domains.iter().find(|one| one.domain == *domain);
        let Some(active) = active else {
            return Err(refused(format!(
                "domain \"{domain}\" of mode `{}` has no active reservation; apply the description first",
                state.mode
            )));
        };
        let wanted = &held.interface.interface;
        if active.interface != *wanted {
            return Err(refused(format!(
                "domain \"{domain}\" has {} every {}, and mode `{}` says {} every {}; revert it and apply \
                 the description again",
                active.interface.budget,
                active.interface.period,
                state.mode,
                wanted.budget,
                wanted.period,
            )));
        }
    }
    Ok(())
}
