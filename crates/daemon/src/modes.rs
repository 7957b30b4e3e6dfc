//! The modes of the host: a thread with the host mode manager and the links to the agents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use tailbound_enforcement::{Changed, EnforcementStatus, Target};
use tailbound_linux::HostCapabilities;
use tailbound_linux::clock::Monotonic;
use tailbound_linux::control_socket::PeerCredentials;
use tailbound_linux::process::{effective_uid, user_of};
use tailbound_linux::scheduling::set_affinity;
use tailbound_linux::thread::{current_thread_id, make_current_thread_fifo};
use tailbound_model::ResourceInterface;
use tailbound_modes::enforced::{Enforced, Enforcing, limits};
use tailbound_modes::links::{AgentLinks, Commands, LOOK_FOR, Ways};
use tailbound_modes::manager::{Asker, HostModeManager, ModeError, Report};
use tailbound_modes::table::ModeTable;
use tailbound_time::{Clock, Duration, Instant};

use crate::leases::{Leases, Reservations};
use crate::log::note;
use crate::protocol::{ModesStatus, Refusal, RefusalKind};

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

/// The modes of the host, as long as they are known.
pub struct Modes {
    commands: Commands,
    answers: Answers,
    status: Arc<Mutex<ModesStatus>>,
    ending: Arc<AtomicBool>,
    next: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
    socket: PathBuf,
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

/// Refuses a table whose initial mode is not in force.
///
/// # Errors
/// Which domain stands against it.
pub fn check<R: Reservations>(table: &ModeTable, leases: &SharedLeases<R>) -> Result<(), Refusal> {
    check_initial(table, &lock(leases).reservations().status())
}

impl Modes {
    /// Knows the modes of a table, whose initial one is in force. Agents connect to `socket`.
    ///
    /// # Errors
    /// If a domain of the table is not active as the initial mode says, or the socket cannot be made.
    pub fn load<R: Reservations + Send + 'static>(
        table: ModeTable,
        leases: &SharedLeases<R>,
        socket: &Path,
    ) -> Result<Self, Refusal> {
        let standing = lock(leases).reservations().status();
        check_initial(&table, &standing)?;
        let host = HostCapabilities::probe();
        let takes_part = |domain: &str| of_initial(&table, domain).is_some();
        let cpus = standing.domains.iter().flat_map(|one| &one.interface.cpus);
        let limits = limits(cpus.copied(), &standing, takes_part, &host);
        let authority = authority(&standing);
        let failed = |error: io::Error| refused(format!("{}: {error}", socket.display()));
        let listener = listen(socket).map_err(failed)?;
        let (mut links, commands) =
            AgentLinks::new(listener, authority, Monotonic).map_err(failed)?;
        let opened = links.open(ways(&table, &standing));
        opened.map_err(|error| refused(error.to_string()))?;
        let own_cpus = cpus_without_domains(&host, &standing);
        // A machine's emulator may need these CPUs for what is looked for.
        if !own_cpus.is_empty() && table.links().is_empty() {
            links.look_for(LOOK_FOR);
        }
        let reservations = Enforced::new(Leased(Arc::clone(leases)), &standing, Monotonic);
        let manager = HostModeManager::new(table, limits, reservations, links, Monotonic);
        let status = Arc::new(Mutex::new(status_of(&manager, Vec::new(), socket, None)));
        let (answers, ending) = (Answers::default(), Arc::new(AtomicBool::new(false)));
        let thread = {
            let work = Work {
                answers: Arc::clone(&answers),
                status: Arc::clone(&status),
                ending: Arc::clone(&ending),
                socket: socket.to_owned(),
                own_cpus,
            };
            let builder = std::thread::Builder::new().name("modes".into());
            builder.spawn(move || work.run(manager)).map_err(failed)?
        };
        Ok(Self {
            commands,
            answers,
            status,
            ending,
            next: AtomicU64::new(1),
            thread: Mutex::new(Some(thread)),
            socket: socket.to_owned(),
        })
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
        // It wakes the thread; there is no such mode.
        let _woken = self.commands.ask(0, String::new());
        if thread.join().is_err() {
            note("the thread of the modes panicked");
        }
        lock(&self.answers).clear();
        // Gone already if somebody tidied up.
        let _gone = fs::remove_file(&self.socket);
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the thread works with.
struct Work {
    answers: Answers,
    status: Arc<Mutex<ModesStatus>>,
    ending: Arc<AtomicBool>,
    socket: PathBuf,
    /// The CPUs that it looks for answers on; none where every CPU has domains.
    own_cpus: BTreeSet<u32>,
}

/// The CPUs of the host on which nothing is reserved.
fn cpus_without_domains(host: &HostCapabilities, standing: &EnforcementStatus) -> BTreeSet<u32> {
    let reserved = standing.domains.iter().flat_map(|one| &one.interface.cpus);
    let reserved: BTreeSet<u32> = reserved.map(|cpu| cpu.0).collect();
    host.online_cpus.difference(&reserved).copied().collect()
}

impl Work {
    fn run<R: Reservations>(&self, mut manager: Manager<R>) {
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
        let mut last = None;
        while !self.ending.load(Ordering::Acquire) {
            let served = manager.serve_one(Some(Monotonic.now() + LOOK_AFTER));
            if let Some((asker, answer)) = served {
                tell(&asker, &answer);
                if let Ok(report) = &answer {
                    last = Some(report.clone());
                }
                self.take_note(&mut manager, last.clone());
                self.answer(&mut manager, &asker, answer);
            } else {
                self.take_note(&mut manager, last.clone());
            }
        }
    }

    fn take_note<R: Reservations>(&self, manager: &mut Manager<R>, last: Option<Report>) {
        for reason in manager.agents().take_reasons() {
            note(format_args!("agents: {reason}"));
        }
        let agents = manager.agents().present();
        let agents = agents.into_iter().map(str::to_owned).collect();
        *lock(&self.status) = status_of(manager, agents, &self.socket, last);
    }

    fn answer<R: Reservations>(&self, manager: &mut Manager<R>, asker: &Asker, answer: Answer) {
        match (asker, answer) {
            (Asker::Command(number), answer) => {
                if let Some(sender) = lock(&self.answers).remove(number) {
                    // Who asked may have gone.
                    let _gone = sender.send(answer);
                }
            }
            (Asker::Domain(domain), Err(error)) => {
                let mode = match &error {
                    ModeError::Unknown { mode, .. } | ModeError::NotAllowed { mode, .. } => mode,
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
        Ok(report) => note(format_args!("mode `{}`, asked for by {asker:?}", report.to)),
        Err(error) if !matches!(asker, Asker::Command(_)) => note(format_args!("{error}")),
        Err(_) => {}
    }
}

fn status_of<R: Reservations>(
    manager: &Manager<R>,
    agents: Vec<String>,
    socket: &Path,
    last: Option<Report>,
) -> ModesStatus {
    ModesStatus {
        table: manager.table().clone(),
        state: manager.state().clone(),
        agents,
        socket: socket.to_owned(),
        last,
    }
}

fn of_initial<'a>(
    table: &'a ModeTable,
    domain: &str,
) -> Option<&'a tailbound_modes::transition::LocalMode> {
    table.mode(table.initial())?.get(domain)
}

/// Refuses a table whose initial mode is not in force.
fn check_initial(table: &ModeTable, standing: &EnforcementStatus) -> Result<(), Refusal> {
    for (domain, local) in table.mode(table.initial()).into_iter().flatten() {
        let active = standing.domains.iter().find(|one| one.domain == *domain);
        let Some(active) = active else {
            return Err(refused(format!(
                "domain \"{domain}\" of mode `{}` has no active reservation; apply the description first",
                table.initial()
            )));
        };
        if active.interface != local.interface {
            return Err(refused(format!(
                "domain \"{domain}\" has {} every {}, and mode `{}` says {} every {}; revert it and apply \
                 the description again",
                active.interface.budget,
                active.interface.period,
                table.initial(),
                local.interface.budget,
                local.interface.period,
            )));
        }
    }
    Ok(())
}

/// Root, the daemon's own user, and the processes of a domain may be its agent.
fn authority(standing: &EnforcementStatus) -> tailbound_modes::links::Authority {
    let targets = standing.domains.iter();
    let targets: BTreeMap<String, Target> = targets
        .map(|one| (one.domain.clone(), one.target.clone()))
        .collect();
    let own = effective_uid();
    Box::new(move |peer: &PeerCredentials, domain: &str| {
        let Some(target) = targets.get(domain) else {
            return Err(format!("there is no domain \"{domain}\" with modes"));
        };
        let is_member = match target {
            Target::Processes(pids) => pids.contains(&peer.pid),
            Target::Threads(_) | Target::Machine(_) | Target::Cgroup(_) | Target::XenDomain(_) => {
                false
            }
        };
        match peer.uid == 0 || peer.uid == own || is_member {
            true => Ok(()),
            false => Err(format!(
                "user {} may not be the agent of \"{domain}\"",
                peer.uid
            )),
        }
    })
}

/// How agents come to this host; the user of a virtual machine may hold its port.
fn ways(table: &ModeTable, standing: &EnforcementStatus) -> Ways {
    let owners = standing.domains.iter().filter_map(|one| match &one.target {
        Target::Machine(machine) => {
            let user = user_of(*machine.vcpus.first()?).ok()?;
            Some((one.domain.clone(), user))
        }
        _ => None,
    });
    Ways {
        links: table.links().clone(),
        listeners: table.listeners().clone(),
        owners: owners.collect(),
    }
}

/// Listens where everybody may connect; who may be an agent is checked then.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}
