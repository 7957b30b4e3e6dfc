//! The handle of a manager thread.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use tailbound_linux::clock::{Monotonic, cpu_time_of_thread, sleep_until};
use tailbound_linux::memory::{lock_touched_pages, touch_stack};
use tailbound_linux::process::own_thread;
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_model::Cpu;
use tailbound_shared_memory::Doorbell;
use tailbound_time::{Clock, Duration, Instant};

use crate::audit::Bell;

use super::RealTimeLimit;
use super::budget_seqlock::BudgetSeqlock;
use super::domain::{LONGEST_BOOST, ServedDomain, ServedState, StopControl, checked_parameters};
use super::error::ManagerError;
use super::heartbeat::HeartbeatRow;
use super::ledger::{Ledger, LedgerSnapshot};
use super::mailbox::{MOST_NOTES, ManagerReply, ManagerRequest, Note, ask, open_mailbox};
use super::service_loop::{MOST_DOMAINS, ServiceLoop, SharedLoop};
use tailbound_reservation::metered_server::{ChangeAt, MOST_PENDING, StopLead};
use tailbound_reservation::window_server::FrameWindows;

/// How long a manager may take to answer: far beyond any stall of a host that is worth serving.
const PATIENCE: Duration = Duration::from_secs(2);

/// How a manager learns that a budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// By the clock while the domain keeps its CPU busy, by alarm while it mostly waits; by polling
    /// alone where the kernel permits no alarm.
    Automatic,
    /// By a performance event that goes off after so much CPU time of the cgroup; an error where
    /// that is not permitted.
    Alarm,
    /// By looking when the budget can have been used up at the earliest, never sooner than
    /// [`ManagerOptions::shortest_poll`] after the last look.
    Polling,
}

/// How a manager works.
#[derive(Debug)]
pub struct ManagerOptions {
    /// How it learns that a budget is used up.
    pub detection: Detection,
    /// The shortest distance between two looks when polling.
    pub shortest_poll: Duration,
    /// How much before the end of a budget stopping begins.
    pub stop_lead: StopLead,
    /// Its own SCHED_FIFO priority, above every domain.
    pub fifo_priority: u8,
    /// Whether to lock the pages of this process as they are touched.
    pub lock_memory: bool,
    /// What the real-time threads of the CPU may use altogether.
    pub real_time_limit: RealTimeLimit,
    /// Where it shows that it is alive.
    pub heartbeat: Option<HeartbeatRow>,
    /// What it rings when a domain has used more than its CPU can give.
    pub bell: Option<Bell>,
    /// How long after the next planned wake-up a watchdog may call it dead; hosts stall for
    /// 50 ms.
    pub heartbeat_margin: Duration,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            detection: Detection::Automatic,
            shortest_poll: Duration::from_micros(50),
            stop_lead: StopLead::Learnt,
            fifo_priority: 98,
            lock_memory: true,
            real_time_limit: RealTimeLimit::default(),
            heartbeat: None,
            bell: None,
            heartbeat_margin: Duration::from_millis(200),
        }
    }
}

/// What a manager has cost so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagerSummary {
    /// The CPU that it serves.
    pub cpu: Cpu,
    /// CPU time of its own thread.
    pub own_time: Duration,
    /// How long it has been running.
    pub running_for: Duration,
    /// How often it woke up.
    pub wake_ups: u64,
}

struct ServedHandle {
    number: u64,
    cpus: u64,
    ledger: Arc<Ledger>,
    stop: Arc<StopControl>,
    budget_seqlock: Arc<BudgetSeqlock>,
    /// The length of the frame of a time partition.
    frame: Option<Duration>,
}

/// The manager of one CPU. Dropping it stops it and leaves every domain thawed.
pub struct CpuManager {
    cpu: Cpu,
    options: ManagerOptions,
    thread_id: u32,
    started: Instant,
    shared: Arc<SharedLoop>,
    served: Mutex<BTreeMap<String, ServedHandle>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for CpuManager {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("CpuManager")
            .field("cpu", &self.cpu)
            .field("thread_id", &self.thread_id)
            .finish_non_exhaustive()
    }
}

impl CpuManager {
    /// Starts the manager of `cpu` serving `domains`, which may be none.
    ///
    /// It returns once the thread runs where and as it must.
    ///
    /// # Errors
    /// See [`ManagerError`]; nothing is left running or frozen then.
    pub fn start(
        cpu: Cpu,
        domains: &[ServedDomain],
        mut options: ManagerOptions,
    ) -> Result<Self, ManagerError> {
        let descriptor = |cause| ManagerError::Descriptor { cause };
        let shared = Arc::new(SharedLoop {
            mailbox: open_mailbox().map_err(descriptor)?,
            stop: AtomicBool::new(false),
            wake_ups: AtomicU64::new(0),
        });
        let mut work = ServiceLoop::new(
            Arc::clone(&shared),
            options.heartbeat.take(),
            options.heartbeat_margin,
            options.real_time_limit,
        );
        let mut served = BTreeMap::new();
        for domain in domains {
            if served.len() >= MOST_DOMAINS {
                let limit = MOST_DOMAINS;
                return Err(ManagerError::Full { cpu: cpu.0, limit });
            }
            let state = ServedState::open(domain, cpu.0, &options)?;
            let handle = handle_of(&state);
            if served.insert(domain.name.clone(), handle).is_some() {
                let domain = domain.name.clone();
                return Err(ManagerError::Duplicate { domain, cpu: cpu.0 });
            }
            work.admit(Box::new(state));
        }
        if options.lock_memory {
            lock_touched_pages().map_err(|cause| ManagerError::MemoryLock { cause })?;
        }
        let started = Monotonic.now();
        let (thread, thread_id) = spawn(cpu, options.fifo_priority, work)?;
        Ok(Self {
            cpu,
            options,
            thread_id,
            started,
            shared,
            served: Mutex::new(served),
            thread: Some(thread),
        })
    }

    /// The CPU that it serves.
    pub fn cpu(&self) -> Cpu {
        self.cpu
    }

    /// The kernel's id of its thread.
    pub fn thread_id(&self) -> u32 {
        self.thread_id
    }

    /// The names of the domains that it serves.
    pub fn domains(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Whether it serves a domain.
    pub fn serves(&self, domain: &str) -> bool {
        self.lock().contains_key(domain)
    }

    /// Serves another domain.
    ///
    /// # Errors
    /// See [`ManagerError`]; the manager goes on as before.
    pub fn add(&self, domain: &ServedDomain) -> Result<(), ManagerError> {
        let mut served = self.lock();
        if served.contains_key(&domain.name) {
            return Err(ManagerError::Duplicate {
                domain: domain.name.clone(),
                cpu: self.cpu.0,
            });
        }
        let state = ServedState::open(domain, self.cpu.0, &self.options)?;
        let handle = handle_of(&state);
        match self.ask(ManagerRequest::Add(Some(Box::new(state))))? {
            ManagerReply::Full => Err(ManagerError::Full {
                cpu: self.cpu.0,
                limit: MOST_DOMAINS,
            }),
            _ => {
                served.insert(domain.name.clone(), handle);
                Ok(())
            }
        }
    }

    /// Serves a domain no longer; it is thawed, and its last ledger is returned.
    ///
    /// # Errors
    /// [`ManagerError::Unknown`], [`ManagerError::Unresponsive`] (then it is thawed all the
    /// same, but a manager that comes back to life may freeze it again).
    pub fn remove(&self, domain: &str) -> Result<LedgerSnapshot, ManagerError> {
        let mut served = self.lock();
        if !served.contains_key(domain) {
            return Err(self.unknown(domain));
        }
        let outcome = self
            .ask(ManagerRequest::Remove(domain.into()))
            .map(|reply| {
                if let ManagerReply::Removed(state) = reply {
                    state.let_go();
                }
            });
        let Some(handle) = served.remove(domain) else {
            return Err(self.unknown(domain));
        };
        if outcome.is_err() {
            let _gone = handle.stop.let_go();
        }
        outcome.map(|()| handle.ledger.snapshot())
    }

    /// Changes a domain's budget and period while it runs; when that is in force. Another budget from
    /// a replenishment on does not even wake the manager.
    ///
    /// # Errors
    /// [`ManagerError::Parameters`], [`ManagerError::Unknown`], [`ManagerError::Pending`],
    /// [`ManagerError::Unresponsive`].
    pub fn set_interface(
        &self,
        domain: &str,
        budget: Duration,
        period: Duration,
        at: ChangeAt,
    ) -> Result<Instant, ManagerError> {
        // Kept until the end: one change at a time.
        let served = self.lock();
        let handle = served.get(domain).ok_or_else(|| self.unknown(domain))?;
        let parameters = checked_parameters(domain, budget, period, handle.cpus)?;
        let from = match at {
            ChangeAt::NextReplenishment => Some(Instant::ORIGIN),
            ChangeAt::ReplenishmentFrom(instant) => Some(instant),
            ChangeAt::Now => None,
        };
        // Nobody takes up what is posted where the thread has ended.
        let lives = self.thread.as_ref().is_some_and(|it| !it.is_finished());
        let now = Monotonic.now();
        let post = |from| handle.budget_seqlock.post(parameters, from, now);
        if let Some(in_force_at) = from.filter(|_| lives).and_then(post) {
            return Ok(in_force_at);
        }
        let asked = self.ask(ManagerRequest::Change {
            name: domain.into(),
            parameters,
            at,
        });
        if asked.is_err() {
            // What was posted too late must not be taken up later on.
            handle.budget_seqlock.withdraw();
        }
        match asked? {
            ManagerReply::InForce(instant) => Ok(instant),
            ManagerReply::Full => Err(ManagerError::Pending {
                domain: domain.into(),
                limit: MOST_PENDING,
            }),
            _ => Err(self.unknown(domain)),
        }
    }

    /// Changes the windows of a time partition while it runs, from the first begin of a frame on that is not before an
    /// instant; when that is in force. The length of the frame stays: all partitions of a host have one.
    ///
    /// # Errors
    /// [`ManagerError::Frame`], [`ManagerError::Unknown`], [`ManagerError::Pending`], [`ManagerError::Unresponsive`].
    pub fn set_windows(
        &self,
        domain: &str,
        windows: FrameWindows,
        from: Instant,
    ) -> Result<Instant, ManagerError> {
        let served = self.lock();
        let handle = served.get(domain).ok_or_else(|| self.unknown(domain))?;
        let asked = windows.frame();
        if let Some(own) = handle.frame.filter(|own| *own != asked) {
            return Err(ManagerError::Frame {
                domain: domain.into(),
                frame: own,
                asked,
            });
        }
        match self.ask(ManagerRequest::ChangeWindows {
            name: domain.into(),
            windows: Box::new(windows),
            from,
        })? {
            ManagerReply::InForce(instant) => Ok(instant),
            ManagerReply::Full => Err(ManagerError::Pending {
                domain: domain.into(),
                limit: MOST_PENDING,
            }),
            _ => Err(self.unknown(domain)),
        }
    }

    /// Lets a domain run whatever budget it has, until [`CpuManager::unboost`], for `at_most` and no
    /// longer than [`LONGEST_BOOST`] in all, however often it is asked for meanwhile; what it uses then
    /// comes from no budget. With `if_exhausted` only from when its budget is used up, if that is so by
    /// then or comes to be so. One that is stopped to stay clear of the kernel's real-time throttling is
    /// not boosted. It does not wait for the manager; the ledger counts boosts.
    ///
    /// # Errors
    /// [`ManagerError::Unknown`], [`ManagerError::Flooded`].
    pub fn boost(
        &self,
        domain: &str,
        at_most: Duration,
        if_exhausted: bool,
    ) -> Result<(), ManagerError> {
        let until = Monotonic.now() + at_most.min(LONGEST_BOOST);
        self.leave(domain, |domain| Note::Boost {
            domain,
            until,
            if_exhausted,
        })
    }

    /// Ends a boost; nothing if there is none. It does not wait for the manager.
    ///
    /// # Errors
    /// [`ManagerError::Unknown`], [`ManagerError::Flooded`].
    pub fn unboost(&self, domain: &str) -> Result<(), ManagerError> {
        self.leave(domain, |domain| Note::Unboost { domain })
    }

    fn leave(&self, domain: &str, note: impl Fn(u64) -> Note) -> Result<(), ManagerError> {
        let number = self.lock().get(domain).map(|handle| handle.number);
        let number = number.ok_or_else(|| self.unknown(domain))?;
        match self.shared.mailbox.leave(note(number)) {
            true => Ok(()),
            false => Err(ManagerError::Flooded {
                cpu: self.cpu.0,
                limit: MOST_NOTES,
            }),
        }
    }

    /// What it has seen of a domain so far.
    pub fn ledger(&self, domain: &str) -> Option<LedgerSnapshot> {
        let ledger = self.lock().get(domain).map(|h| Arc::clone(&h.ledger))?;
        Some(ledger.snapshot())
    }

    /// What it has cost so far.
    pub fn summary(&self) -> ManagerSummary {
        ManagerSummary {
            cpu: self.cpu,
            own_time: cpu_time_of_thread(self.thread_id).unwrap_or_default(),
            running_for: Monotonic.now().saturating_since(self.started),
            wake_ups: self.shared.wake_ups.load(Ordering::Relaxed),
        }
    }

    /// Stops it and thaws every domain.
    ///
    /// # Errors
    /// [`ManagerError::Unresponsive`] where the thread did not end; its domains were thawed from
    /// here then.
    pub fn stop(mut self) -> Result<(), ManagerError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ManagerError> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        self.shared.stop.store(true, Ordering::Release);
        self.shared.mailbox.wake().ring();
        let give_up = Monotonic.now() + PATIENCE;
        while !thread.is_finished() && Monotonic.now() < give_up {
            let _slept = sleep_until(Monotonic.now() + Duration::from_micros(200));
        }
        let ended = thread.is_finished();
        if ended {
            // A panic in the loop has thawed the domains on its way out.
            let _panicked = thread.join();
        }
        for handle in self.lock().values() {
            let _gone = handle.stop.let_go();
        }
        match ended {
            true => Ok(()),
            false => Err(self.unresponsive()),
        }
    }

    fn ask(&self, request: ManagerRequest) -> Result<ManagerReply, ManagerError> {
        let reply = ask(&self.shared.mailbox, request, PATIENCE);
        reply.ok_or_else(|| self.unresponsive())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, ServedHandle>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unresponsive(&self) -> ManagerError {
        ManagerError::Unresponsive {
            cpu: self.cpu.0,
            waited: PATIENCE,
        }
    }

    fn unknown(&self, domain: &str) -> ManagerError {
        ManagerError::Unknown {
            domain: domain.into(),
            cpu: self.cpu.0,
        }
    }
}

impl Drop for CpuManager {
    fn drop(&mut self) {
        // Whoever wants to know calls `stop`.
        let _told_by_stop = self.end();
    }
}

fn handle_of(state: &ServedState) -> ServedHandle {
    ServedHandle {
        number: state.number,
        cpus: state.cpus,
        ledger: Arc::clone(&state.ledger),
        stop: Arc::clone(&state.stop),
        budget_seqlock: Arc::clone(&state.budget_seqlock),
        frame: state.frame(),
    }
}

/// Starts the thread, and waits until it is where it must be.
fn spawn(
    cpu: Cpu,
    fifo_priority: u8,
    mut work: ServiceLoop,
) -> Result<(JoinHandle<()>, u32), ManagerError> {
    let (report, reported) = mpsc::channel();
    let thread = std::thread::Builder::new()
        .name(format!("ds-freeze/{cpu}"))
        .spawn(move || {
            // The priority comes first: without it the thread would starve on a CPU where a
            // domain already runs.
            let ready = make_current_thread_fifo(fifo_priority).and_then(|()| {
                touch_stack();
                pin_current_thread(cpu.0)
            });
            let good = ready.is_ok();
            if good && let Some(heartbeat) = &work.heartbeat {
                let until = Monotonic.now() + work.heartbeat_margin;
                heartbeat.begin(cpu.0, std::process::id(), own_thread(), until);
            }
            let report_sent = report.send(ready.map(|()| own_thread()));
            drop(report);
            if good && report_sent.is_ok() {
                work.run();
            }
        })
        .map_err(|cause| ManagerError::Spawn { cpu: cpu.0, cause })?;
    match reported.recv() {
        Ok(Ok(thread_id)) => Ok((thread, thread_id)),
        Ok(Err(cause)) => {
            let _ended = thread.join();
            Err(ManagerError::Thread { cpu: cpu.0, cause })
        }
        Err(_) => Err(ManagerError::Spawn {
            cpu: cpu.0,
            cause: io::Error::other("the thread ended before it was set up"),
        }),
    }
}
