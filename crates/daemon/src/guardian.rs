//! The daemon's side of the watchdog: starts it before the first reservation, notices its death,
//! starts another.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::control_socket::wait_readable;
use tailbound_linux::thread::WakeUp;
use tailbound_model::CpuSet;
use tailbound_time::Clock;

use crate::service::Protection;
use crate::watch_channel::{ChannelError, WatchChannel, WatchOrder, WatchReport};
use crate::watchdog_watch::{WatchdogState, WatchdogWatch};
use tailbound_control::deadline::remaining;
use tailbound_control::protocol::{Refusal, RefusalKind, WatchdogStatus};
use tracing::warn;

/// How long a new watchdog has to be ready, and a stopped one to end.
const READY_WITHIN: time::Duration = time::Duration::from_secs(5);
/// How long a request waits for a watchdog.
const ENSURE_WITHIN: time::Duration = time::Duration::from_secs(6);
/// After the first failed start; doubled with each further one.
const BACK_OFF: time::Duration = time::Duration::from_millis(10);
const BACK_OFF_MAX: time::Duration = time::Duration::from_secs(2);
/// Starts that fail in a row after which nothing is enforced any longer.
const FAILURES_MAX: u32 = 5;

/// What a watchdog needs from us.
#[derive(Debug)]
pub struct WatchdogParts {
    /// The program, `tailboundd` itself.
    pub program: PathBuf,
    /// Where our journals lie.
    pub journals: PathBuf,
    /// Our lock.
    pub lock: File,
    /// The heartbeat of our managers.
    pub heartbeat: OwnedFd,
}

/// How the daemon leaves its watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchdogStop {
    /// Everything has been taken back: the watchdog ends first.
    InOrder,
    /// Something could not be taken back: the watchdog outlives the daemon, and tries it once more.
    Abandoning,
}

/// Keeps a watchdog running.
#[derive(Clone)]
pub struct Guardian {
    shared: Arc<SharedGuardian>,
}

struct SharedGuardian {
    parts: WatchdogParts,
    state: Mutex<GuardianState>,
    changed: Condvar,
    wake: WakeUp,
}

#[derive(Debug, Default)]
struct GuardianState {
    /// From the first reservation on.
    wanted: bool,
    stopping: Option<WatchdogStop>,
    /// The present watchdog's process and how it is scheduled.
    ready: Option<(u32, String)>,
    restarts: u64,
    failure: Option<String>,
    served: CpuSet,
}

impl Guardian {
    /// A guardian that starts its watchdog when it is first asked for.
    ///
    /// # Errors
    /// If the kernel gives no descriptor to wake it with.
    pub fn new(parts: WatchdogParts) -> io::Result<Self> {
        Ok(Self {
            shared: Arc::new(SharedGuardian {
                parts,
                state: Mutex::default(),
                changed: Condvar::new(),
                wake: WakeUp::new()?,
            }),
        })
    }

    /// Starts the thread that keeps the watchdog. It calls `on_unprotected` when no watchdog can be
    /// started any longer, for everything to be taken back.
    ///
    /// # Errors
    /// If the thread does not start.
    pub fn keep(&self, on_unprotected: impl Fn() + Send + 'static) -> io::Result<JoinHandle<()>> {
        let shared = Arc::clone(&self.shared);
        thread::Builder::new()
            .name("guardian".to_owned())
            .spawn(move || shared.keep(&on_unprotected))
    }

    /// Ends the guarding, and the watchdog unless it is left behind.
    pub fn stop(&self, how: WatchdogStop) {
        self.shared.lock().stopping = Some(how);
        self.shared.changed.notify_all();
        self.shared.wake.signal();
    }
}

impl Protection for Guardian {
    fn ensure(&self) -> Result<(), Refusal> {
        let deadline = time::Instant::now() + ENSURE_WITHIN;
        let mut state = self.shared.lock();
        if !state.wanted {
            state.wanted = true;
            state.failure = None;
            self.shared.changed.notify_all();
        }
        while state.ready.is_none() {
            if state.stopping.is_some() {
                return Err(Refusal::shutting_down());
            }
            let Some(left) = remaining(deadline) else {
                break;
            };
            state = match self.shared.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
            if !state.wanted {
                break;
            }
        }
        if state.ready.is_some() {
            return Ok(());
        }
        let reason = state
            .failure
            .clone()
            .unwrap_or_else(|| "it is not ready yet".to_owned());
        Err(Refusal::new(
            RefusalKind::Unprotected,
            format!("no watchdog could be started, and nothing is enforced without one: {reason}"),
        ))
    }

    fn serves(&self, cpus: &CpuSet) {
        let mut state = self.shared.lock();
        if state.served != *cpus {
            state.served.clone_from(cpus);
            self.shared.wake.signal();
        }
    }

    fn status(&self) -> WatchdogStatus {
        let state = self.shared.lock();
        let (pid, scheduling) = match &state.ready {
            Some((pid, scheduling)) => (Some(*pid), scheduling.clone()),
            None => (None, "not running".to_owned()),
        };
        WatchdogStatus {
            pid,
            scheduling,
            restarts: state.restarts,
            failure: state.failure.clone(),
        }
    }
}

/// How one watchdog came to its end.
#[derive(PartialEq, Eq)]
enum WatchdogEnd {
    Died,
    Stopped,
}

impl SharedGuardian {
    fn lock(&self) -> MutexGuard<'_, GuardianState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, on_unprotected: &dyn Fn()) {
        let mut failures = 0;
        while self.wait_until_wanted() {
            match self.start() {
                Ok((child, channel)) => {
                    failures = 0;
                    if self.stay_with(child, channel) == WatchdogEnd::Stopped {
                        return;
                    }
                }
                Err(reason) => {
                    failures += 1;
                    warn!("the watchdog did not start: {reason}");
                    self.lock().failure = Some(reason);
                    if failures >= FAILURES_MAX {
                        failures = 0;
                        self.lock().wanted = false;
                        on_unprotected();
                    }
                    self.changed.notify_all();
                    thread::sleep(BACK_OFF_MAX.min(BACK_OFF * 2_u32.pow(failures)));
                }
            }
        }
    }

    /// Waits for the first reservation; `false` if the daemon ends.
    fn wait_until_wanted(&self) -> bool {
        let mut state = self.lock();
        while !state.wanted && state.stopping.is_none() {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.stopping.is_none()
    }

    fn start(&self) -> Result<(Child, WatchChannel), String> {
        let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
        for timeout in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
            timeout(&ours, Some(READY_WITHIN)).map_err(|error| error.to_string())?;
        }
        let program = &self.parts.program;
        let mut child = Command::new(program)
            .arg("--watchdog")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mut channel = WatchChannel::new(ours);
        match self.hand_over(&mut channel) {
            Ok(scheduling) => {
                let mut state = self.lock();
                state.ready = Some((child.id(), scheduling));
                state.failure = None;
                drop(state);
                self.changed.notify_all();
                Ok((child, channel))
            }
            Err(error) => {
                // First the end of the process, then of the channel: a watchdog that sees the
                // channel end takes us for dead.
                end(&mut child);
                drop(channel);
                Err(error.to_string())
            }
        }
    }

    fn hand_over(&self, channel: &mut WatchChannel) -> Result<String, ChannelError> {
        let begin = WatchOrder::Begin {
            daemon: std::process::id(),
            journals: self.parts.journals.clone(),
        };
        let descriptors = [self.parts.lock.as_fd(), self.parts.heartbeat.as_fd()];
        channel.send(&begin, &descriptors)?;
        loop {
            if let WatchReport::Ready { scheduling } = channel.receive()? {
                return Ok(scheduling);
            }
        }
    }

    /// Until this watchdog ends, by itself or by our wish.
    fn stay_with(&self, mut child: Child, mut channel: WatchChannel) -> WatchdogEnd {
        let mut sent_cpus = CpuSet::new();
        let mut watch = WatchdogWatch::new(child.id());
        loop {
            self.wake.take();
            let (stopping, served) = {
                let state = self.lock();
                (state.stopping, state.served.clone())
            };
            if let Some(how) = stopping {
                if how == WatchdogStop::InOrder {
                    self.end_in_order(&mut child, &channel);
                } else {
                    // Our end of the channel stays open until this process ends.
                    std::mem::forget(channel);
                }
                return WatchdogEnd::Stopped;
            }
            let now = Monotonic.now();
            let (mut lost, look_again_at) = match watch.look(now) {
                WatchdogState::Fine { look_again_at } => (false, look_again_at),
                WatchdogState::StandsStill(why) => {
                    warn!("the watchdog {why}");
                    (true, now)
                }
            };
            if !lost && watch.is_to_be_asked(now) {
                lost = channel.send(&WatchOrder::Ask {}, &[]).is_err();
            }
            if !lost && served != sent_cpus {
                lost = channel
                    .send(
                        &WatchOrder::Serves {
                            cpus: served.clone(),
                        },
                        &[],
                    )
                    .is_err();
                sent_cpus = served;
            }
            let descriptors = [channel.stream().as_fd(), self.wake.as_fd()];
            if !lost {
                let limit = look_again_at.saturating_since(Monotonic.now());
                let ready = wait_readable(&descriptors, Some(limit));
                lost = match ready.as_deref() {
                    Ok([readiness, ..]) if readiness.closed => true,
                    Ok([readiness, ..]) if readiness.readable => match channel.receive() {
                        Ok(WatchReport::Here {} | WatchReport::Ready { .. }) => {
                            watch.has_answered();
                            false
                        }
                        Err(_) => true,
                    },
                    Ok(_) => false,
                    Err(_) => true,
                };
            }
            if lost {
                self.lose(&mut child);
                return WatchdogEnd::Died;
            }
        }
    }

    fn lose(&self, child: &mut Child) {
        {
            let mut state = self.lock();
            state.ready = None;
            state.restarts += 1;
        }
        end(child);
        warn!("the watchdog is gone; starting another");
    }

    fn end_in_order(&self, child: &mut Child, channel: &WatchChannel) {
        self.lock().ready = None;
        // If it does not take the order it is dead, or about to be.
        let _ = channel.send(&WatchOrder::Stop {}, &[]);
        let deadline = time::Instant::now() + READY_WITHIN;
        // It closes the channel by ending.
        while let Some(left) = remaining(deadline) {
            let limit = tailbound_time::Duration::from_nanos(left.as_nanos() as u64);
            match wait_readable(&[channel.stream().as_fd()], Some(limit)) {
                Ok(ready) if ready.iter().any(|one| one.closed || one.readable) => break,
                _ => {}
            }
        }
        end(child);
    }
}

/// Makes sure that `child` has ended, and reaps it.
fn end(child: &mut Child) {
    // It fails if the child has ended, which is what we want.
    let _ = child.kill();
    if let Err(error) = child.wait() {
        warn!("the watchdog cannot be waited for: {error}");
    }
}
