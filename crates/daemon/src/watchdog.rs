//! The watchdog: a process of its own that takes everything back if the daemon cannot.
//!
//! It sees the daemon's death as the end of their channel, a daemon that is stopped in the state of its
//! process, and one that goes on but does not serve (starved, deadlocked) in the heartbeat of its managers
//! and of its main loop. In all cases it makes sure that the daemon is dead, for two hands on one
//! reservation would be worse than none, and recovers from the journal.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time;

use tailbound_enforcement::ds_freeze::{Liveness, WatchdogView};
use tailbound_enforcement::recover;
use tailbound_linux::clock::Monotonic;
use tailbound_linux::control_socket::{ProcessHandle, begin_session, wait_readable};
use tailbound_linux::memory::lock_touched_pages;
use tailbound_linux::process::own_thread;
use tailbound_linux::scheduling::{SchedulingSetting, affinity_of, set_affinity, set_scheduling};
use tailbound_linux::thread::make_current_thread_fifo;
use tailbound_model::CpuSet;
use tailbound_time::{Clock, Duration, Instant};

use crate::daemon::NO_CPU;
use crate::detachment;
use crate::liveness::{LivenessDetector, LivenessVerdict};
use crate::service_manager;
use crate::stop_detector::{Sighting, StopDetector, StopVerdict};
use crate::subsystems;
use crate::watch_channel::{ChannelError, WatchChannel, WatchOrder, WatchReport};
use tailbound_control::state_directory::StateDirectory;
use tracing::{info, warn};

/// Above the managers (98), which are above the domains (90 and less).
const PRIORITY: u8 = 99;
/// How long the daemon has for its first message.
const BEGIN_WITHIN: time::Duration = time::Duration::from_secs(10);
/// How long the kernel has to end a killed daemon before recovery begins without waiting longer.
const KILLED_WITHIN: Duration = Duration::from_secs(10);
/// How often recovery is tried, and the time between.
const RECOVERY_ATTEMPTS: u32 = 50;
const BETWEEN_ATTEMPTS: time::Duration = time::Duration::from_millis(100);

/// How long a daemon that is started again may take to be ready.
const RESTARTED_WITHIN: Duration = Duration::from_secs(20);

/// Why a watchdog could not watch.
#[derive(Debug, thiserror::Error)]
pub enum WatchdogError {
    /// It was not started by a daemon.
    #[error(
        "--watchdog is for tailboundd itself, which starts its watchdog with a socket as standard input: {0}"
    )]
    NoChannel(ChannelError),
    /// What it needs did not come with the first message.
    #[error(
        "the daemon's first message lacks {0}; start tailboundd and its watchdog from the same release"
    )]
    Incomplete(&'static str),
    /// A system call failed.
    #[error("cannot {attempt}: {source}")]
    System {
        /// What was tried.
        attempt: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something could not be put back; the journal stays for the next attempt.
    #[error("not everything could be restored, the next start of tailboundd tries again: {0}")]
    NotRecovered(String),
}

fn system(attempt: &'static str) -> impl FnOnce(io::Error) -> WatchdogError {
    move |source| WatchdogError::System { attempt, source }
}

/// Why watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The daemon said so, with everything taken back.
    Stopped,
    DaemonDied,
    DaemonStopped,
    Stuck,
}

/// Watches the daemon at the other end of standard input, until it says to stop or has to be
/// replaced; then takes back what it left.
///
/// # Errors
/// If standard input is no such channel, or something could not be taken back.
pub fn run() -> Result<(), WatchdogError> {
    // Now, since the kernel says "... (deleted)" once another release lies there. That one is started then:
    // it is the one whose commands will talk to the daemon.
    let program = std::env::current_exe();
    // It leads a group already if somebody starts it by hand from a shell; no harm.
    let _ = begin_session();
    let stdin = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(system("take the channel"))?;
    let mut watch = DaemonWatch::begin(WatchChannel::new(UnixStream::from(stdin)))?;
    match watch.until_needed()? {
        Reason::Stopped => Ok(()),
        reason => {
            warn!(
                "watchdog: {}; taking everything back",
                match reason {
                    Reason::Stuck => "the daemon does not go on",
                    Reason::DaemonStopped => "the daemon is stopped by a signal or a debugger",
                    _ => "the daemon is dead",
                }
            );
            watch.end_daemon();
            watch.take_back()?;
            restart(watch, program);
            Ok(())
        }
    }
}

/// A watchdog at work.
struct DaemonWatch {
    channel: WatchChannel,
    daemon: ProcessHandle,
    journals: PathBuf,
    view: WatchdogView,
    /// The daemon's process, as the handle is of it.
    daemon_pid: u32,
    detector: LivenessDetector,
    loop_detector: LivenessDetector,
    stop_detector: StopDetector,
    /// The CPUs that we may use; [`DaemonWatch::keep_off`] takes from these.
    allowed: BTreeSet<u32>,
    /// Held until we end, so that no new daemon starts while we take back.
    _lock: OwnedFd,
}

impl DaemonWatch {
    fn begin(mut channel: WatchChannel) -> Result<Self, WatchdogError> {
        channel
            .stream()
            .set_read_timeout(Some(BEGIN_WITHIN))
            .map_err(system("set a timeout"))?;
        let order = channel.receive().map_err(WatchdogError::NoChannel)?;
        let WatchOrder::Begin { daemon, journals } = order else {
            return Err(WatchdogError::Incomplete("the order to begin"));
        };
        let lock = channel
            .take_descriptor()
            .ok_or(WatchdogError::Incomplete("the lock"))?;
        let heartbeat = channel
            .take_descriptor()
            .ok_or(WatchdogError::Incomplete("the heartbeat"))?;
        let watch = Self {
            daemon: ProcessHandle::open(daemon).map_err(system("watch the daemon's process"))?,
            journals,
            view: WatchdogView::open(heartbeat.as_fd()).map_err(system("read the heartbeat"))?,
            daemon_pid: daemon,
            detector: LivenessDetector::default(),
            loop_detector: LivenessDetector::patient(),
            stop_detector: StopDetector::default(),
            allowed: affinity_of(own_thread()).unwrap_or_default(),
            _lock: lock,
            channel,
        };
        let scheduling = prepare();
        watch
            .channel
            .send(&WatchReport::Ready { scheduling }, &[])
            .map_err(WatchdogError::NoChannel)?;
        Ok(watch)
    }

    fn until_needed(&mut self) -> Result<Reason, WatchdogError> {
        loop {
            let now = Monotonic.now();
            let again = match self.look(now) {
                LivenessVerdict::Stuck(pulse) => {
                    let who = match pulse.cpu {
                        NO_CPU => "the main loop".to_owned(),
                        cpu => format!("the manager of CPU {cpu}"),
                    };
                    warn!(
                        "watchdog: {who} (thread {}) broke its promise: {:?}",
                        pulse.thread, pulse.liveness
                    );
                    return Ok(Reason::Stuck);
                }
                LivenessVerdict::LookAgainAt(again) => again,
            };
            let again = match self.stop_detector.look(now, Sighting::of(self.daemon_pid)) {
                StopVerdict::Stopped => return Ok(Reason::DaemonStopped),
                StopVerdict::LookAgainAt(sooner) => again.min(sooner),
                StopVerdict::GoesOn => again,
            };
            let limit = again.saturating_since(now);
            let descriptors = [self.channel.stream().as_fd(), self.daemon.as_fd()];
            let ready = wait_readable(&descriptors, Some(limit)).map_err(system("wait"))?;
            let [channel, daemon] = ready.as_slice() else {
                continue;
            };
            if daemon.readable {
                return Ok(Reason::DaemonDied);
            }
            if (channel.readable || channel.closed)
                && let Some(reason) = self.follow_orders()
            {
                return Ok(reason);
            }
        }
    }

    fn look(&mut self, now: Instant) -> LivenessVerdict {
        let pulses: Vec<_> = (0..self.view.rows())
            .filter_map(|row| self.view.pulse(row, now))
            .filter(|pulse| pulse.liveness != Liveness::Unused)
            .collect();
        let (of_loop, of_managers): (Vec<_>, Vec<_>) =
            pulses.into_iter().partition(|pulse| pulse.cpu == NO_CPU);
        match (
            self.detector.look(now, &of_managers),
            self.loop_detector.look(now, &of_loop),
        ) {
            (LivenessVerdict::LookAgainAt(one), LivenessVerdict::LookAgainAt(other)) => {
                LivenessVerdict::LookAgainAt(one.min(other))
            }
            (stuck @ LivenessVerdict::Stuck(_), _) | (_, stuck) => stuck,
        }
    }

    /// Takes in what the daemon said; a channel that fails in any way counts as its death.
    fn follow_orders(&mut self) -> Option<Reason> {
        loop {
            match self.channel.receive() {
                Ok(WatchOrder::Stop {}) => return Some(Reason::Stopped),
                Ok(WatchOrder::Serves { cpus }) => self.keep_off(&cpus),
                // One that cannot be answered is dead, which is seen at the end of the channel.
                Ok(WatchOrder::Ask {}) => {
                    let _ = self.channel.send(&WatchReport::Here {}, &[]);
                }
                Ok(WatchOrder::Begin { .. }) => {}
                Err(error) => {
                    if !matches!(error, ChannelError::Closed) {
                        warn!("watchdog: the channel failed: {error}");
                    }
                    return Some(Reason::DaemonDied);
                }
            }
            if !self.channel.has_buffered() {
                return None;
            }
        }
    }

    /// Leaves the served CPUs to the domains, if there is another.
    fn keep_off(&self, served: &CpuSet) {
        let others: BTreeSet<u32> = self
            .allowed
            .iter()
            .copied()
            .filter(|cpu| !served.iter().any(|one| one.0 == *cpu))
            .collect();
        let cpus = if others.is_empty() {
            &self.allowed
        } else {
            &others
        };
        // Best effort: at our priority we run wherever we are.
        let _ = set_affinity(own_thread(), cpus);
    }

    /// Makes sure that the daemon is dead before its reservations are touched.
    fn end_daemon(&self) {
        // It fails if the daemon is dead and reaped, which is what we want.
        let _ = self.daemon.kill();
        match self.daemon.wait_ended(KILLED_WITHIN) {
            Ok(true) => {}
            other => warn!(
                "watchdog: the daemon has not ended {KILLED_WITHIN} after SIGKILL ({other:?})"
            ),
        }
    }

    /// Recovers from the journals, trying again where something could not be put back at once.
    fn take_back(&self) -> Result<(), WatchdogError> {
        let mut problem = String::new();
        for attempt in 0..RECOVERY_ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(BETWEEN_ATTEMPTS);
            }
            // Before recovery looks, which leaves the journal of a living process alone.
            let ended = self.daemon.wait_ended(Duration::ZERO).unwrap_or(true);
            match recover(&self.journals) {
                Ok(recovery) if !recovery.failures.is_empty() => {
                    problem = recovery.failures.join("; ");
                }
                Ok(recovery) if !ended && !recovery.alive.is_empty() => {
                    problem = "the daemon has been killed but does not end".to_owned();
                }
                Ok(recovery) => {
                    info!(
                        "watchdog: took back: {}",
                        if recovery.reverted.is_empty() {
                            "nothing was left".to_owned()
                        } else {
                            recovery.reverted.join(", ")
                        }
                    );
                    return Ok(());
                }
                Err(error) => problem = error.to_string(),
            }
        }
        Err(WatchdogError::NotRecovered(problem))
    }
}

/// Starts another daemon if the dead one left something that the next one makes again.
fn restart(watch: DaemonWatch, program: io::Result<PathBuf>) {
    let directory = StateDirectory::new(watch.journals.clone());
    let Some(remains) = subsystems::remains(directory.path()) else {
        return;
    };
    // The lock goes, so that the daemon may have it.
    drop(watch);
    if service_manager::is_there() {
        info!("watchdog: another daemon is left to the service manager");
        return;
    }
    // What there was to do before everything else is done.
    if let Err(error) = set_scheduling(own_thread(), SchedulingSetting::Other { nice: 0 }) {
        warn!("watchdog: cannot leave real time: {error}");
    }
    let program = match program {
        Ok(program) => program,
        Err(error) => {
            warn!("watchdog: no daemon is started: {error}");
            return;
        }
    };
    let mut command = Command::new(program);
    command.arg("--state-dir").arg(directory.path());
    if let Some(idle_time) = remains.exit_when_idle {
        let idle_time = format!("{}ns", idle_time.as_nanos());
        command.args(["--exit-when-idle", "--idle-time", &idle_time]);
    }
    match detachment::detach(command, &directory, RESTARTED_WITHIN) {
        Ok(()) => info!("watchdog: started another daemon, which makes again what is to stay"),
        Err(error) => warn!("watchdog: no daemon is started: {error}"),
    }
}

/// Makes us run before everything else, with our memory in place; tells how that went.
fn prepare() -> String {
    if let Err(error) = lock_touched_pages() {
        warn!("watchdog: memory stays unlocked: {error}");
    }
    match make_current_thread_fifo(PRIORITY) {
        Ok(()) => format!("SCHED_FIFO {PRIORITY}"),
        Err(error) => format!("SCHED_OTHER: {error}"),
    }
}
