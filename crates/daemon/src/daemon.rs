//! The daemon from its first step to its last.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{thread, time};

use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tailbound_enforcement::ds_freeze::HeartbeatRow;
use tailbound_enforcement::{EnforcementError, Recovery, recover};
use tailbound_linux::clock::Monotonic;
use tailbound_linux::control_socket::{peer_credentials, wait_readable};
use tailbound_linux::process::{effective_uid, own_thread};
use tailbound_linux::scheduling::{SchedulingSetting, scheduling_of, set_scheduling};
use tailbound_linux::thread::WakeUp;
use tailbound_time::{Clock, Duration};

use crate::connection::{self, ClientPatience, End};
use crate::control_listener::{self, ControlListener};
use crate::detachment;
use crate::guardian::{Guardian, WatchdogParts, WatchdogStop};
use crate::leases::{ConnectionId, LeasedReservations};
use crate::reservations::enforcer_of_this_host;
use crate::service::{self, Counters, DaemonService};
use crate::service_manager;
use tailbound_control::control_frame::{self, RESPONSE_BYTES_MAX};
use tailbound_control::deadline::{self, std_duration};
use tailbound_control::origin::Peer;
use tailbound_control::protocol::{Refusal, RefusalKind, Response};
use tailbound_control::state_directory::{StateDirectory, StateDirectoryError};
use tailbound_control::{Client, ClientError};
use tailbound_subsystem::Place;
use tracing::{info, warn};

/// The CPU of the main loop in the heartbeat: it serves none.
pub const NO_CPU: u32 = u32::MAX;
/// The line on standard output that says that the control socket takes connections.
pub const READY_LINE: &str = "ready";
/// The exit status for "another daemon serves this directory".
pub const ALREADY_RUNNING_STATUS: u8 = 3;

/// Connections at a time; those of users who may not change anything are fewer, so that they can
/// never keep root out.
const CONNECTIONS_MAX: usize = 128;
const CONNECTIONS_OF_OTHERS_MAX: usize = 32;
const CONNECTION_STACK_BYTES: usize = 1024 * 1024;
/// How long a new daemon waits for the watchdog of a dead one to finish.
const LOCK_WITHIN: time::Duration = time::Duration::from_secs(15);
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// How long the connections have to notice the end.
const FAREWELL: time::Duration = time::Duration::from_secs(5);

/// How long the main loop may be held up before the watchdog takes the daemon for deadlocked: by far longer
/// than all that it waits for in good order (a turn, room for a reservation, the kernel). A thread of
/// ordinary priority needs microseconds of CPU time to be back by then, and real-time throttling leaves it
/// fifty milliseconds of every second however busy the CPUs are.
const HELD_UP_AT_MOST: Duration = Duration::from_secs(180);
/// How often the main loop shows that it goes on.
const BEAT_EVERY: Duration = Duration::from_secs(20);

/// What the command line decides.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// Where socket, lock and journals lie.
    pub state_directory: StateDirectory,
    /// End after so long without reservations and connections.
    pub exit_when_idle: Option<Duration>,
}

/// Why the daemon does not start, or ends badly.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The directory cannot be used.
    #[error(transparent)]
    StateDirectory(#[from] StateDirectoryError),
    /// There is one already.
    #[error(
        "another tailboundd serves {0}; use it, stop it, or set TAILBOUND_STATE_DIR to another directory"
    )]
    AlreadyRunning(String),
    /// The lock is held and nobody answers.
    #[error(
        "the lock of {0} is held, but no daemon answers there: the watchdog of a dead one may still be at work; see tailboundd.log in it"
    )]
    LockHeld(String),
    /// A system call failed.
    #[error("cannot {attempt}: {source}")]
    System {
        /// What was tried.
        attempt: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Nobody can be listened to.
    #[error("cannot make the control socket {}: {source}", .path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The service manager has passed the socket of another directory.
    #[error(
        "the service manager listens on {passed}, and this daemon serves {}; set ListenStream= of tailboundd.socket and \
         TAILBOUND_STATE_DIR of tailboundd.service to one directory", .own.display()
    )]
    OtherSocket {
        /// The path of the socket that was passed.
        passed: String,
        /// The socket of our directory.
        own: PathBuf,
    },
    /// The enforcer does not start.
    #[error(transparent)]
    Enforcement(#[from] EnforcementError),
    /// Not everything could be put back at the end; the watchdog and the next start try again.
    #[error("{0}")]
    NotRestored(Refusal),
}

pub(crate) fn system(attempt: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
    move |source| DaemonError::System { attempt, source }
}

/// Runs the daemon until it is told to end; whatever it enforced is taken back then.
///
/// # Errors
/// Why it did not start, or what could not be put back.
pub fn run(options: &DaemonOptions) -> Result<(), DaemonError> {
    // Before we wait for anything: the kernel says "... (deleted)" once another release lies there.
    let program = std::env::current_exe().map_err(system("find our own program"))?;
    let directory = &options.state_directory;
    directory.prepare()?;
    let passed = control_listener::passed(directory)?;
    let lock = take_lock(directory, passed.is_some())?;
    if service_manager::is_there() {
        detachment::move_to_root_cgroups();
    }
    leave_real_time();
    let signals = catch_signals().map_err(system("catch signals"))?;
    let recovered = recover_first(directory)?;
    let (reservations, heartbeat, pulse) = enforcer_of_this_host(directory.path())?;
    let guardian = Guardian::new(WatchdogParts {
        program,
        journals: directory.path().to_owned(),
        lock,
        heartbeat,
    })
    .map_err(system("make a watchdog's guardian"))?;
    let service = DaemonService::new(
        reservations,
        Box::new(guardian.clone()),
        recovered,
        Place {
            directory: directory.path().to_owned(),
            exit_when_idle: options.exit_when_idle,
        },
    );
    let daemon = Arc::new(Daemon {
        service,
        open: Mutex::default(),
        ending: AtomicBool::new(false),
        wake: WakeUp::new().map_err(system("make a wake-up"))?,
        patience: ClientPatience::default(),
        pulse,
    });
    daemon.begin_pulse();
    let for_guardian = Arc::clone(&daemon);
    let guardian_thread = guardian
        .keep(move || for_guardian.give_up_everything())
        .map_err(system("start the guardian"))?;
    service::members::start(&daemon, |daemon| &daemon.service);
    // Before anybody can ask for something else.
    daemon.service.resume_subsystems();
    let listener = ControlListener::of(directory, passed)?;
    if let Err(cause) = tailbound_trigger::listen() {
        warn!("the triggers of the daemon cannot be switched: {cause}");
    }
    service_manager::tell(NotifyState::Ready);
    let ran = daemon.serve(listener.socket(), &signals, options.exit_when_idle);
    service_manager::tell(NotifyState::Stopping);
    drop(listener);
    let closed = daemon.close();
    guardian.stop(match closed {
        Ok(()) => WatchdogStop::InOrder,
        Err(_) => WatchdogStop::Abandoning,
    });
    if guardian_thread.join().is_err() {
        warn!("the guardian panicked");
    }
    ran?;
    closed.map_err(DaemonError::NotRestored)
}

/// Our ordinary threads stay below the domains, and a real-time thread must not reap children (the
/// guardian does); so a real-time policy of whoever started us is left.
fn leave_real_time() {
    use SchedulingSetting::{Batch, Idle, Other};
    match scheduling_of(own_thread()) {
        Ok(Other { .. } | Batch { .. } | Idle) => {}
        setting => match set_scheduling(own_thread(), Other { nice: 0 }) {
            Ok(()) => info!("left {setting:?} for SCHED_OTHER"),
            Err(error) => warn!("cannot leave {setting:?}: {error}"),
        },
    }
}

/// Takes the lock; a daemon that is ending is waited for, and so is a watchdog that is still taking
/// back what a dead daemon left. Where the socket is `passed` to us, nobody else can be asked over it.
fn take_lock(directory: &StateDirectory, passed: bool) -> Result<File, DaemonError> {
    let deadline = time::Instant::now() + LOCK_WITHIN;
    loop {
        if let Some(lock) = directory.try_lock()? {
            return Ok(lock);
        }
        let name = directory.path().display().to_string();
        let Some(left) = deadline::remaining(deadline) else {
            return Err(DaemonError::LockHeld(name));
        };
        let left = Duration::from_nanos(left.as_nanos() as u64);
        // An open socket alone says nothing: it may belong to a daemon that is dying, or stopped.
        match (!passed).then(|| Client::connect_within(directory.path(), left)) {
            None
            | Some(Err(
                ClientError::NotRunning { .. } | ClientError::Slow(_) | ClientError::Ended(_),
            )) => {}
            Some(_) => return Err(DaemonError::AlreadyRunning(name)),
        }
        thread::sleep(time::Duration::from_millis(20));
    }
}

/// A socket that becomes readable with SIGTERM, SIGINT and SIGHUP.
fn catch_signals() -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, theirs.try_clone()?)?;
    }
    Ok(ours)
}

fn recover_first(directory: &StateDirectory) -> Result<Recovery, DaemonError> {
    let recovered = recover(directory.path())?;
    for domain in &recovered.reverted {
        info!(
            domain = domain.as_str(),
            "took back \"{domain}\", left by one that died"
        );
    }
    for failure in &recovered.failures {
        warn!("not restored: {failure}");
    }
    Ok(recovered)
}

/// What the threads of the daemon share.
struct Daemon<R> {
    service: DaemonService<R>,
    open: Mutex<HashMap<ConnectionId, OpenConnection>>,
    ending: AtomicBool,
    wake: WakeUp,
    patience: ClientPatience,
    pulse: Option<HeartbeatRow>,
}

struct OpenConnection {
    stream: UnixStream,
    trusted: bool,
}

impl<R: LeasedReservations + Send + 'static> Daemon<R> {
    fn serve(
        self: &Arc<Self>,
        listener: &UnixListener,
        signals: &UnixStream,
        exit_when_idle: Option<Duration>,
    ) -> Result<(), DaemonError> {
        let mut idle_since = None;
        loop {
            self.beat();
            self.wake.take();
            if self.ending.load(Ordering::Acquire) {
                return Ok(());
            }
            let limit = match self.time_to_next(exit_when_idle, &mut idle_since) {
                Next::End => return Ok(()),
                Next::Wait(limit) => limit,
            };
            let descriptors = [listener.as_fd(), signals.as_fd(), self.wake.as_fd()];
            let limit = limit.map_or(BEAT_EVERY, |limit| limit.min(BEAT_EVERY));
            let ready = wait_readable(&descriptors, Some(limit)).map_err(system("wait"))?;
            if ready.get(1).is_some_and(|signal| signal.readable) {
                info!("told to end by a signal");
                return Ok(());
            }
            if ready.first().is_some_and(|listener| listener.readable) {
                self.accept_all(listener);
            }
            self.service.retry_abandoned();
        }
    }

    /// The watchdog looks for us from here on. We serve no CPU.
    fn begin_pulse(&self) {
        let until = Monotonic.now().saturating_add(HELD_UP_AT_MOST);
        if let Some(pulse) = &self.pulse {
            pulse.begin(NO_CPU, std::process::id(), own_thread(), until);
        }
    }

    fn beat(&self) {
        if let Some(pulse) = &self.pulse {
            pulse.promise(Monotonic.now().saturating_add(HELD_UP_AT_MOST));
        }
    }

    /// How long to wait at most, or that it is time to end.
    fn time_to_next(
        &self,
        exit_when_idle: Option<Duration>,
        idle_since: &mut Option<time::Instant>,
    ) -> Next {
        let mut leases = self.service.leases();
        if leases.has_abandoned() {
            *idle_since = None;
            return Next::Wait(Some(RETRY_EVERY));
        }
        let Some(idle_time) = exit_when_idle.filter(|_| leases.is_idle()) else {
            *idle_since = None;
            return Next::Wait(None);
        };
        let since = *idle_since.get_or_insert_with(time::Instant::now);
        let left = std_duration(idle_time).saturating_sub(since.elapsed());
        if left.is_zero() && leases.close_if_idle() {
            info!("idle; ending");
            return Next::End;
        }
        Next::Wait(Some(Duration::from_nanos(left.as_nanos() as u64)))
    }

    fn accept_all(self: &Arc<Self>, listener: &UnixListener) {
        loop {
            match listener.accept() {
                Ok((stream, _)) => self.accept(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Such as too many open files: give others time to close theirs.
                    warn!("cannot accept a connection: {error}");
                    thread::sleep(time::Duration::from_millis(100));
                    return;
                }
            }
        }
    }

    fn accept(self: &Arc<Self>, stream: UnixStream) {
        let Ok(peer) = peer_credentials(&stream) else {
            return;
        };
        let trusted = peer.uid == 0 || peer.uid == effective_uid();
        let counters = self.service.counters();
        let Some((id, copy)) = self.admit(&stream, trusted, Peer::of(&peer)) else {
            Counters::count(&counters.connections_refused);
            turn_away(&stream);
            return;
        };
        Counters::count(&counters.connections);
        let daemon = Arc::clone(self);
        let started = thread::Builder::new()
            .name("connection".to_owned())
            .stack_size(CONNECTION_STACK_BYTES)
            .spawn(move || {
                // Dropped even if a request panics.
                let _closing = Closing {
                    daemon: &daemon,
                    id,
                };
                let end = connection::serve(&copy, &daemon.service, id, trusted, daemon.patience);
                if matches!(end, End::Shutdown) {
                    daemon.ending.store(true, Ordering::Release);
                }
            });
        if let Err(error) = started {
            warn!("no thread for a connection: {error}");
            self.service.disconnect(id);
            self.open().remove(&id);
        }
    }

    /// Counts the connection in, unless there are too many.
    fn admit(
        &self,
        stream: &UnixStream,
        trusted: bool,
        peer: Peer,
    ) -> Option<(ConnectionId, UnixStream)> {
        let mut open = self.open();
        let others = open.values().filter(|one| !one.trusted).count();
        if open.len() >= CONNECTIONS_MAX || (!trusted && others >= CONNECTIONS_OF_OTHERS_MAX) {
            return None;
        }
        let ours = stream.try_clone().ok()?;
        let copy = stream.try_clone().ok()?;
        let id = self.service.leases().connect_as(peer);
        open.insert(
            id,
            OpenConnection {
                stream: ours,
                trusted,
            },
        );
        Some((id, copy))
    }

    fn open(&self) -> MutexGuard<'_, HashMap<ConnectionId, OpenConnection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No watchdog can be started any longer.
    fn give_up_everything(&self) {
        warn!("no watchdog can be started; taking everything back");
        if let Err(refusal) = self.service.give_up() {
            warn!("{refusal}");
        }
    }

    /// Takes everything back and ends the connections.
    fn close(&self) -> Result<(), Refusal> {
        self.beat();
        self.service.end_subsystems();
        let closed = self.service.leases().close();
        for one in self.open().values() {
            // It fails if the client has left.
            let _ = one.stream.shutdown(Shutdown::Both);
        }
        let deadline = time::Instant::now() + FAREWELL;
        while !self.open().is_empty() && deadline::remaining(deadline).is_some() {
            thread::sleep(time::Duration::from_millis(5));
        }
        closed.map(|_| ())
    }
}

enum Next {
    Wait(Option<Duration>),
    End,
}

/// Takes a connection out of the list when its thread ends, however that comes about.
struct Closing<'a, R: LeasedReservations + Send + 'static> {
    daemon: &'a Daemon<R>,
    id: ConnectionId,
}

impl<R: LeasedReservations + Send + 'static> Drop for Closing<'_, R> {
    fn drop(&mut self) {
        self.daemon.open().remove(&self.id);
        self.daemon.wake.signal();
    }
}

/// Says why, if the client is quick to listen.
fn turn_away(stream: &UnixStream) {
    let refusal = Refusal::new(
        RefusalKind::Busy,
        "tailboundd has too many connections; close some, or try again later",
    );
    if let Ok(bytes) = control_frame::encode(&Response::Refused { refusal }, RESPONSE_BYTES_MAX) {
        // The socket's buffer is empty, so this does not wait; if it fails the client is gone.
        let _ = deadline::write_within(stream, &bytes, Duration::from_millis(100));
    }
}
