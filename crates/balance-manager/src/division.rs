//! A division under way: a thread with its manager.
//!
//! The thread asks applications without a lock, so that none of them holds up the daemon. Whoever ends a division sets a flag
//! and does not wait: a thread that asks meanwhile finds the flag before it changes anything.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration as Pause;
use std::{io, thread};

use tailbound_linux::clock::Monotonic;
use tailbound_time::{Clock, Duration, Instant};
use tracing::{info, warn};

use crate::control::DivisionView;
use crate::division_state::{DivisionState, PassedInterval};
use crate::manager::CapacityManager;
use crate::report_round::{ReportRound, prefer_this_thread};

/// The most intervals that are kept for clients.
const KEPT_INTERVALS: usize = 64;

/// `Division` is a division under way.
pub struct Division {
    shared: Arc<Shared>,
}

/// What the thread of a division and those who ask for it share. The locks are taken in the order of the fields.
struct Shared {
    /// Held while budgets are changed.
    manager: Mutex<CapacityManager>,
    /// Held for moments only.
    record: Mutex<DivisionRecord>,
    /// Signalled at the end.
    ending: Condvar,
}

/// What is told of a division.
struct DivisionRecord {
    state: DivisionState,
    passed: VecDeque<PassedInterval>,
    /// The domains whose budgets the manager changes.
    domains: BTreeSet<String>,
    is_over: bool,
}

impl Division {
    /// Begins to divide.
    ///
    /// # Errors
    /// If there is no thread.
    pub fn begin(
        manager: CapacityManager,
        round: ReportRound,
        state: DivisionState,
    ) -> io::Result<Self> {
        let domains = manager.domains().map(str::to_owned);
        let record = DivisionRecord {
            state,
            passed: VecDeque::new(),
            domains: domains.collect(),
            is_over: false,
        };
        let shared = Arc::new(Shared {
            record: Mutex::new(record),
            manager: Mutex::new(manager),
            ending: Condvar::new(),
        });
        let thread = thread::Builder::new().name("balance".to_owned());
        let for_thread = Arc::clone(&shared);
        thread.spawn(move || for_thread.divide(&round))?;
        Ok(Self { shared })
    }

    /// The state, and the intervals after the one with the number `after`.
    pub fn view(&self, after: u64) -> DivisionView {
        let record = self.shared.record();
        let passed = record.passed.iter().filter(|one| one.number > after);
        DivisionView {
            state: record.state.clone(),
            passed: passed.cloned().collect(),
        }
    }

    /// The state.
    pub fn state(&self) -> DivisionState {
        self.shared.record().state.clone()
    }

    /// The domains whose budgets the manager changes.
    pub fn domains(&self) -> BTreeSet<String> {
        self.shared.record().domains.clone()
    }

    /// Whether nothing is divided any more.
    pub fn is_over(&self) -> bool {
        self.shared.record().is_over
    }

    /// Looks which reservations have ended.
    pub fn look_for_ended(&self) {
        let mut manager = lock(&self.shared.manager);
        if !self.is_over() {
            let ended = manager.look_for_ended();
            self.shared.note_ended(&manager, ended.unwrap_or_default());
        }
    }

    /// Ends the division; reservations stay as they are.
    pub fn end(&self) {
        self.shared.record().is_over = true;
        self.shared.ending.notify_all();
    }
}

impl Drop for Division {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn record(&self) -> MutexGuard<'_, DivisionRecord> {
        lock(&self.record)
    }

    /// The life of the thread.
    fn divide(&self, round: &ReportRound) {
        if !prefer_this_thread() {
            warn!(
                "the manager of balanced applications has no fixed priority, and may be late in an overload"
            );
        }
        let interval = lock(&self.manager).interval();
        let begun = Monotonic.now();
        let mut next = begun.saturating_add(interval);
        while self.wait_until(next) {
            let reports = round.ask();
            let mut manager = lock(&self.manager);
            // The division may have ended while applications were asked.
            if self.record().is_over {
                return;
            }
            let held: Vec<Duration> = manager.capacities().to_vec();
            let at = Monotonic.now().saturating_since(begun);
            match manager.pass_interval(&reports) {
                Err(_) => self.note_ended(&manager, Vec::new()),
                Ok(outcome) => {
                    let mut record = self.record();
                    let passed = record.state.enter(at, &held, &reports, &outcome);
                    record.add(passed);
                    drop(record);
                    self.note_ended(&manager, outcome.ended);
                }
            }
            drop(manager);
            // An interval that was slept through is left out.
            let now = Monotonic.now();
            while next <= now {
                next = next.saturating_add(interval);
            }
        }
    }

    /// Waits for an instant; whether the division goes on then.
    fn wait_until(&self, instant: Instant) -> bool {
        let mut record = self.record();
        loop {
            let left = instant.saturating_since(Monotonic.now());
            if record.is_over || left.is_zero() {
                return !record.is_over;
            }
            let left = Pause::from_nanos(left.as_nanos());
            let waited = self.ending.wait_timeout(record, left);
            record = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Notes which domains are left, and the end of the division with the last of them.
    fn note_ended(&self, manager: &CapacityManager, ended: Vec<String>) {
        let mut record = self.record();
        record.domains = manager.domains().map(str::to_owned).collect();
        let name = record.state.name.clone();
        for domain in &ended {
            info!(
                domain = domain.as_str(),
                "\"{name}\" divides without \"{domain}\", whose reservation has ended"
            );
        }
        if record.domains.is_empty() {
            record.is_over = true;
            info!("\"{name}\" divides nothing any more");
        }
    }
}

impl DivisionRecord {
    fn add(&mut self, passed: PassedInterval) {
        for news in &passed.news {
            info!("{news}");
        }
        if self.passed.len() == KEPT_INTERVALS {
            self.passed.pop_front();
        }
        self.passed.push_back(passed);
    }
}

/// Locks what a panic of another holder has not broken: every holder leaves it whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
