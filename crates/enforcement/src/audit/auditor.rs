//! The thread that audits: above all domains, below the managers.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tailbound_linux::clock::{Monotonic, thread_cpu_time};
use tailbound_linux::thread::{PollSet, WakeUp, make_current_thread_fifo};
use tailbound_time::{Clock, Duration, Instant};

use super::record::AdoptionRecord;
use super::{AuditSummary, AuditedDomain, Band, DomainAudit};
use crate::kernel::KernelState;

/// Above the domains (90 and less) and below the managers, whose time the promises are about.
const PRIORITY: u8 = 97;
/// The audit takes one part in so many of a CPU at most, all domains together.
const COST_FACTOR: u64 = 200;
/// The same for domains whose members have no priority of ours: whoever escapes there takes no more than any ordinary thread.
const COST_FACTOR_WITHOUT_PRIORITY: u64 = 1000;
/// A bell is not heard again before so many times the cost have passed.
const BELL_FACTOR: u64 = 200;
/// The shortest time between two looks at one domain.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
/// The longest sleep; it only bounds what a missed wake-up could cost.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// How often corrections of one domain are told at most.
const NOTICE_EVERY: Duration = Duration::from_secs(10);

/// Who is told of corrections, such as a log; it is called by a real-time thread, once in ten seconds for
/// each domain at most.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// Asks for a look at once. Ringing it allocates nothing and waits for nothing, so managers may.
#[derive(Clone, Debug)]
pub struct Bell(Arc<BellParts>);

#[derive(Debug)]
struct BellParts {
    wake: WakeUp,
    rung: AtomicBool,
}

impl Bell {
    /// A quiet one.
    ///
    /// # Errors
    /// If there are too many open files.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(BellParts {
            wake: WakeUp::new()?,
            rung: AtomicBool::new(false),
        })))
    }

    /// Rings it.
    pub fn ring(&self) {
        if !self.0.rung.swap(true, Ordering::AcqRel) {
            self.0.wake.signal();
        }
    }

    /// Whether it was rung; it is quiet then.
    pub(crate) fn take(&self) -> bool {
        self.0.wake.take();
        self.0.rung.swap(false, Ordering::AcqRel)
    }
}

/// A domain in the auditor's hands.
#[derive(Debug)]
struct DomainUnderAudit {
    audit: DomainAudit,
    /// When it is looked at next; never while it is held.
    due: Option<Instant>,
    told_at: Option<Instant>,
    reported: AuditSummary,
}

struct Books {
    kernel: Box<dyn KernelState + Send>,
    domains: BTreeMap<String, DomainUnderAudit>,
    records: BTreeMap<PathBuf, AdoptionRecord>,
    last_look: Instant,
}

struct SharedAudit {
    books: Mutex<Books>,
    bell: Bell,
    stop: AtomicBool,
}

impl SharedAudit {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that audits the members of domains. Dropping it ends the thread; what it adopted stays so
/// until [`Auditor::end`].
pub struct Auditor {
    shared: Arc<SharedAudit>,
    thread: Option<JoinHandle<()>>,
}

impl Auditor {
    /// Starts the thread. Without the privilege for a real-time priority it runs at an ordinary one: then
    /// no domain has such a priority either.
    ///
    /// # Errors
    /// If there are too many threads.
    pub fn start(
        kernel: Box<dyn KernelState + Send>,
        bell: Bell,
        notice: Option<Notice>,
    ) -> io::Result<Self> {
        let shared = Arc::new(SharedAudit {
            books: Mutex::new(Books {
                kernel,
                domains: BTreeMap::new(),
                records: BTreeMap::new(),
                last_look: Instant::ORIGIN,
            }),
            bell,
            stop: AtomicBool::new(false),
        });
        let work = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("member-audit".into())
            .spawn(move || {
                let _ordinary_without_the_privilege = make_current_thread_fifo(PRIORITY);
                run(&work, notice.as_ref());
            })?;
        let thread = Some(thread);
        Ok(Self { shared, thread })
    }

    /// Audits a domain from now on, or goes on with what is known of its members.
    pub fn audit(&self, audited: AuditedDomain) {
        let mut books = self.shared.books();
        let due = Some(Monotonic.now());
        match books.domains.get_mut(&audited.domain) {
            Some(entry) => {
                entry.audit.update(audited);
                entry.due = due;
            }
            None => {
                let entry = DomainUnderAudit {
                    due,
                    told_at: None,
                    reported: AuditSummary::default(),
                    audit: DomainAudit::new(audited.clone()),
                };
                books.domains.insert(audited.domain, entry);
            }
        }
        drop(books);
        self.shared.bell.0.wake.signal();
    }

    /// Looks at a domain no longer until [`Auditor::resume`] or [`Auditor::audit`].
    pub fn hold(&self, domain: &str) {
        if let Some(entry) = self.shared.books().domains.get_mut(domain) {
            entry.due = None;
        }
    }

    /// Looks at a domain again, by the rules of before.
    pub fn resume(&self, domain: &str) {
        if let Some(entry) = self.shared.books().domains.get_mut(domain) {
            entry.due = Some(Monotonic.now());
        }
        self.shared.bell.0.wake.signal();
    }

    /// Goes on with another budget and period of a domain. It waits for nobody: where a look is under way, the
    /// old ones stay, which changes only how often the domain is looked at, and who counts as busy.
    pub fn set_budget(&self, domain: &str, budget: Duration, period: Duration) {
        if let Ok(mut books) = self.shared.books.try_lock()
            && let Some(entry) = books.domains.get_mut(domain)
        {
            (entry.audit.audited.budget, entry.audit.audited.period) = (budget, period);
        }
    }

    /// Goes on with other priorities for the members of a domain; nothing if its reservation sets none.
    pub fn set_band(&self, domain: &str, band: Band) {
        if let Some(entry) = self.shared.books().domains.get_mut(domain) {
            let audited = &mut entry.audit.audited;
            audited.band = audited.scheduling.map(|_| band);
        }
    }

    /// Ends the audit of a domain; adopted threads get back what they had.
    pub fn end(&self, domain: &str) {
        let mut books = self.shared.books();
        let Some(mut entry) = books.domains.remove(domain) else {
            return;
        };
        let path = entry.audit.audited.record.clone();
        let Books {
            kernel, records, ..
        } = &mut *books;
        if let Some(record) = records.get_mut(&path) {
            entry.audit.release(kernel.as_mut(), record);
            record.finish();
        }
    }

    /// What was found of a domain so far.
    pub fn summary(&self, domain: &str) -> Option<AuditSummary> {
        let books = self.shared.books();
        Some(books.domains.get(domain)?.audit.summary.clone())
    }
}

impl Drop for Auditor {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.bell.0.wake.signal();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn run(shared: &SharedAudit, notice: Option<&Notice>) {
    let mut waiting = PollSet::with_capacity(1);
    while !shared.stop.load(Ordering::Acquire) {
        let rung = shared.bell.take();
        let (next, notices) = look_at_all(&mut shared.books(), rung);
        if let Some(notice) = notice {
            notices.iter().for_each(|line| notice(line));
        }
        waiting.clear();
        waiting.push(Some(shared.bell.0.wake.as_fd()));
        let length = next.saturating_since(Monotonic.now());
        if waiting.wait(length.min(LONGEST_SLEEP)).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

/// Looks at what is due, or after a bell at every domain; when to look next, and what is to be told.
fn look_at_all(books: &mut Books, rung: bool) -> (Instant, Vec<String>) {
    let begun = Monotonic.now();
    let total = |books: &Books| -> Duration {
        let costs = books.domains.values();
        costs.map(|entry| entry.audit.summary.cost).sum()
    };
    let deaf_until = books.last_look.saturating_add(total(books) * BELL_FACTOR);
    let at_once = rung && begun >= deaf_until;
    let mut notices = Vec::new();
    let others = total(books);
    let Books {
        kernel,
        domains,
        records,
        last_look,
    } = books;
    for entry in domains.values_mut() {
        let Some(due) = entry.due else {
            continue;
        };
        if begun < due && !at_once {
            continue;
        }
        let path = &entry.audit.audited.record;
        let record = records
            .entry(path.clone())
            .or_insert_with(|| AdoptionRecord::new(path.clone()));
        let before = thread_cpu_time();
        entry.audit.look(kernel.as_mut(), record);
        let cost = thread_cpu_time().saturating_sub(before);
        let all = others.saturating_sub(entry.audit.summary.cost) + cost;
        let period = entry.audit.audited.period.max(SHORTEST_INTERVAL);
        let factor = match entry.audit.audited.scheduling {
            Some(_) => COST_FACTOR,
            None => COST_FACTOR_WITHOUT_PRIORITY,
        };
        let summary = &mut entry.audit.summary;
        summary.cost = cost;
        summary.interval = period.max(all * factor);
        let now = Monotonic.now();
        entry.due = Some(now.saturating_add(summary.interval));
        *last_look = now;
        notices.extend(notice_of(entry, now));
    }
    let due = domains.values().filter_map(|entry| entry.due);
    let next = due.min().unwrap_or(begun.saturating_add(LONGEST_SLEEP));
    // A bell that was not heard is not forgotten: the next look comes when it may.
    let next = if rung && !at_once {
        next.min(deaf_until)
    } else {
        next
    };
    (next, notices)
}

/// What corrections there were since the last notice, if it is time for one.
fn notice_of(entry: &mut DomainUnderAudit, now: Instant) -> Option<String> {
    let (summary, reported) = (&entry.audit.summary, &entry.reported);
    let news = summary.escapes() > reported.escapes() || summary.failures > reported.failures;
    let waits = |at: Instant| now < at.saturating_add(NOTICE_EVERY);
    if !news || entry.told_at.is_some_and(waits) {
        return None;
    }
    let line = format!(
        "domain \"{}\": since the last notice {} threads were brought back to its CPUs, {} above its \
         priority were set back, {} that left its groups lost its priority; {} corrections failed",
        entry.audit.audited.domain,
        summary.brought_back - reported.brought_back,
        summary.set_back - reported.set_back,
        summary.demoted - reported.demoted,
        summary.failures - reported.failures,
    );
    entry.reported = summary.clone();
    entry.told_at = Some(now);
    Some(line)
}
