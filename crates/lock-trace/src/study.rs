//! The evaluation of lock events, one by one: memory grows with the locks and the places, not with the events.

use std::collections::{BTreeMap, HashMap};

use hdrhistogram::Histogram;

use tailbound_trace::kernel::LockKind;

use crate::events::{LockEvent, LockOperation};

/// An address in the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessAddress {
    /// The process.
    pub process: u32,
    /// The address.
    pub address: u64,
}

/// Critical sections of a lock, or of a place in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockTally {
    /// The kind of the lock; of a place, that of its first section.
    pub kind: LockKind,
    /// Complete critical sections.
    pub sections: u64,
    /// Those that had to wait for their lock.
    pub contended: u64,
    /// Their waits in nanoseconds, all together and the longest one.
    pub waited_ns: u64,
    /// The longest wait in nanoseconds.
    pub longest_wait_ns: u64,
    /// The sections in nanoseconds, all together.
    pub held_ns: u64,
    /// The longest section in nanoseconds.
    pub longest_hold_ns: u64,
    /// Whether several threads had sections.
    pub is_shared: bool,
    first_thread: u32,
}

impl LockTally {
    fn add(&mut self, section: &HeldLock, thread: u32, hold_ns: u64) {
        self.sections += 1;
        self.contended += u64::from(section.wait_ns.is_some());
        let wait_ns = section.wait_ns.unwrap_or(0);
        self.waited_ns = self.waited_ns.saturating_add(wait_ns);
        self.longest_wait_ns = self.longest_wait_ns.max(wait_ns);
        self.held_ns = self.held_ns.saturating_add(hold_ns);
        self.longest_hold_ns = self.longest_hold_ns.max(hold_ns);
        self.is_shared |= thread != self.first_thread;
    }

    /// Adds the sections of another tally, such as of the same place in another process.
    pub fn merge(&mut self, other: &Self) {
        self.sections += other.sections;
        self.contended += other.contended;
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
        self.longest_wait_ns = self.longest_wait_ns.max(other.longest_wait_ns);
        self.held_ns = self.held_ns.saturating_add(other.held_ns);
        self.longest_hold_ns = self.longest_hold_ns.max(other.longest_hold_ns);
        self.is_shared |= other.is_shared || self.first_thread != other.first_thread;
    }
}

/// Durations of critical sections, exact to a thousandth.
#[derive(Clone, Debug)]
pub struct HoldTimes(Histogram<u64>);

impl HoldTimes {
    /// Two hours, above which a duration counts as so long.
    const LONGEST_NS: u64 = 7_200_000_000_000;

    fn new() -> Self {
        let bounds = Histogram::new_with_bounds(1, Self::LONGEST_NS, 3);
        Self(bounds.unwrap_or_else(|_| unreachable!("the bounds are constant")))
    }

    fn add(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// The number of sections.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The mean in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// A quantile in nanoseconds; 0 without sections.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    /// The longest in nanoseconds.
    pub fn longest_ns(&self) -> u64 {
        self.0.max()
    }

    /// The share of sections of at most `ns` nanoseconds; `None` without sections.
    pub fn share_within(&self, ns: u64) -> Option<f64> {
        let is_empty = self.0.is_empty();
        (!is_empty).then(|| self.0.count_between(0, ns) as f64 / self.0.len() as f64)
    }
}

/// Critical sections of a kind of lock.
#[derive(Clone, Debug)]
pub struct KindSummary {
    /// Complete critical sections by nesting depth, in locks of any kind.
    pub depths: Vec<u64>,
    /// Durations of the sections.
    pub holds: HoldTimes,
}

impl KindSummary {
    fn new() -> Self {
        let (depths, holds) = (Vec::new(), HoldTimes::new());
        Self { depths, holds }
    }

    fn add(&mut self, depth: usize, hold_ns: u64) {
        if self.depths.len() <= depth {
            self.depths.resize(depth + 1, 0);
        }
        self.depths[depth] += 1;
        self.holds.add(hold_ns);
    }
}

/// The results of a study.
#[derive(Clone, Debug)]
pub struct LockSummary {
    /// Sections by the kind of their lock.
    pub kinds: BTreeMap<LockKind, KindSummary>,
    /// Complete critical sections by nesting depth.
    pub depths: Vec<u64>,
    /// Sections without a beginning or an end: begun before the recording, still held at its end, or next to losses.
    pub incomplete: u64,
    /// Sections that had to wait for their lock.
    pub contended: u64,
    /// Durations of all sections.
    pub holds: HoldTimes,
    /// Durations of sections that are in no other.
    pub outermost_holds: HoldTimes,
    /// Durations of waits.
    pub waits: HoldTimes,
    /// Sections by lock.
    pub locks: Vec<(ProcessAddress, LockTally)>,
    /// Sections by the place that took the lock.
    pub sites: Vec<(ProcessAddress, LockTally)>,
}

impl LockSummary {
    /// Complete critical sections.
    pub fn sections(&self) -> u64 {
        self.depths.iter().sum()
    }

    /// The longest outermost section of a lock that several threads took, in nanoseconds.
    pub fn longest_shared_hold_ns(&self) -> Option<u64> {
        let shared = self.locks.iter().filter(|(_, tally)| tally.is_shared);
        shared.map(|(_, tally)| tally.longest_hold_ns).max()
    }
}

/// A lock that a thread holds.
#[derive(Clone, Copy, Debug)]
struct HeldLock {
    kind: LockKind,
    lock: u64,
    site: u64,
    acquired_ns: u64,
    wait_ns: Option<u64>,
    is_waiting: bool,
    depth: usize,
}

#[derive(Debug, Default)]
struct LockingThread {
    process: u32,
    held: Vec<HeldLock>,
}

impl LockingThread {
    /// The last section of a lock.
    fn last_of(&mut self, lock: u64) -> Option<&mut HeldLock> {
        self.held.iter_mut().rfind(|held| held.lock == lock)
    }
}

/// A study under way.
#[derive(Debug)]
pub struct LockStudy {
    threads: HashMap<u32, LockingThread>,
    locks: HashMap<ProcessAddress, LockTally>,
    sites: HashMap<ProcessAddress, LockTally>,
    summary: LockSummary,
}

impl Default for LockStudy {
    fn default() -> Self {
        Self {
            threads: HashMap::new(),
            locks: HashMap::new(),
            sites: HashMap::new(),
            summary: LockSummary {
                kinds: BTreeMap::new(),
                depths: Vec::new(),
                incomplete: 0,
                contended: 0,
                holds: HoldTimes::new(),
                outermost_holds: HoldTimes::new(),
                waits: HoldTimes::new(),
                locks: Vec::new(),
                sites: Vec::new(),
            },
        }
    }
}

impl LockStudy {
    /// Takes the next event of a thread. Events of different threads come in any order.
    pub fn take(&mut self, event: &LockEvent) {
        let thread = self.threads.entry(event.thread).or_default();
        if event.follows_loss {
            // A release may be among the losses: whatever is held since then is not known.
            self.summary.incomplete += thread.held.len() as u64;
            thread.held.clear();
        }
        match event.operation {
            LockOperation::Process(process) => {
                // A new thread, by an old one's number perhaps, or a child of fork.
                self.summary.incomplete += thread.held.len() as u64;
                thread.held.clear();
                thread.process = process;
            }
            LockOperation::Acquired {
                kind,
                lock,
                site,
                requested_ns,
            } => thread.held.push(HeldLock {
                kind,
                lock,
                site,
                acquired_ns: event.instant_ns,
                wait_ns: requested_ns.map(|requested| event.instant_ns.saturating_sub(requested)),
                is_waiting: false,
                depth: thread.held.iter().filter(|held| !held.is_waiting).count(),
            }),
            LockOperation::WaitBegan { lock } => {
                if let Some(held) = thread.last_of(lock) {
                    held.is_waiting = true;
                }
            }
            LockOperation::WaitEnded { lock } => {
                if let Some(held) = thread.last_of(lock) {
                    held.is_waiting = false;
                    let waited_ns = event.instant_ns.saturating_sub(held.acquired_ns);
                    held.wait_ns = Some(held.wait_ns.unwrap_or(0).saturating_add(waited_ns));
                    held.acquired_ns = event.instant_ns;
                }
            }
            LockOperation::HandedOver { to } => self.hand_over(event.thread, to),
            LockOperation::Released { lock } => {
                let Some(place) = thread.held.iter().rposition(|held| held.lock == lock) else {
                    self.summary.incomplete += 1;
                    let process = thread.process;
                    self.forget(ProcessAddress {
                        process,
                        address: lock,
                    });
                    return;
                };
                let held = thread.held.remove(place);
                let process = thread.process;
                self.conclude(&held, process, event);
            }
        }
    }

    /// Gives the last spin lock of a thread to another. A thread that holds more of them has given them up unseen.
    fn hand_over(&mut self, from: u32, to: u32) {
        let held = &mut self.threads.entry(from).or_default().held;
        let mut spinning: Vec<HeldLock> = held
            .extract_if(.., |held| held.kind == LockKind::Spin)
            .collect();
        let last = spinning.pop();
        self.summary.incomplete += spinning.len() as u64;
        self.threads.entry(to).or_default().held.extend(last);
    }

    /// Ends the section of a lock that another thread than the holder gave up: it would nest all that follow.
    fn forget(&mut self, lock: ProcessAddress) {
        let threads = self.threads.values_mut();
        for thread in threads.filter(|thread| thread.process == lock.process) {
            let place = thread.held.iter().position(|it| it.lock == lock.address);
            if let Some(place) = place {
                thread.held.remove(place);
                self.summary.incomplete += 1;
                return;
            }
        }
    }

    fn conclude(&mut self, held: &HeldLock, process: u32, event: &LockEvent) {
        let hold_ns = event.instant_ns.saturating_sub(held.acquired_ns);
        let summary = &mut self.summary;
        if summary.depths.len() <= held.depth {
            summary.depths.resize(held.depth + 1, 0);
        }
        summary.depths[held.depth] += 1;
        summary.holds.add(hold_ns);
        let kind = summary.kinds.entry(held.kind);
        kind.or_insert_with(KindSummary::new)
            .add(held.depth, hold_ns);
        if held.depth == 0 {
            summary.outermost_holds.add(hold_ns);
        }
        if let Some(wait_ns) = held.wait_ns {
            summary.contended += 1;
            summary.waits.add(wait_ns);
        }
        let empty = LockTally {
            kind: held.kind,
            sections: 0,
            contended: 0,
            waited_ns: 0,
            longest_wait_ns: 0,
            held_ns: 0,
            longest_hold_ns: 0,
            is_shared: false,
            first_thread: event.thread,
        };
        for (tallies, address) in [(&mut self.locks, held.lock), (&mut self.sites, held.site)] {
            let key = ProcessAddress { process, address };
            tallies
                .entry(key)
                .or_insert(empty)
                .add(held, event.thread, hold_ns);
        }
    }

    /// Ends the study. Sections that are still open are incomplete.
    pub fn finish(mut self) -> LockSummary {
        let open = self.threads.values().map(|thread| thread.held.len() as u64);
        self.summary.incomplete += open.sum::<u64>();
        // The longest waits first, then the most sections.
        let sorted = |tallies: HashMap<ProcessAddress, LockTally>| {
            let mut tallies: Vec<_> = tallies.into_iter().collect();
            tallies.sort_by_key(|(address, tally)| {
                (
                    u64::MAX - tally.waited_ns,
                    u64::MAX - tally.sections,
                    *address,
                )
            });
            tallies
        };
        self.summary.locks = sorted(self.locks);
        self.summary.sites = sorted(self.sites);
        self.summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn acquired(lock: u64, requested_ns: Option<u64>) -> LockOperation {
        LockOperation::Acquired {
            kind: LockKind::Mutex,
            lock,
            site: lock + 1000,
            requested_ns,
        }
    }

    fn released(lock: u64) -> LockOperation {
        LockOperation::Released { lock }
    }

    fn study(events: &[(u32, u64, LockOperation)]) -> LockSummary {
        let mut study = LockStudy::default();
        for &(thread, instant_ns, operation) in events {
            study.take(&LockEvent {
                instant_ns,
                thread,
                follows_loss: false,
                operation,
            });
        }
        study.finish()
    }

    #[test]
    fn depths_holds_and_waits_follow_from_the_events_of_each_thread() {
        let summary = study(&[
            (1, 0, LockOperation::Process(9)),
            (1, 100, acquired(7, None)),
            (2, 150, acquired(8, Some(120))),
            (1, 200, acquired(8, Some(140))),
            (1, 260, released(8)),
            (2, 270, released(8)),
            (1, 300, released(7)),
        ]);
        assert_eq!(summary.depths, [2, 1]);
        assert_eq!(
            (summary.sections(), summary.incomplete, summary.contended),
            (3, 0, 2)
        );
        assert_eq!(summary.outermost_holds.longest_ns(), 200);
        assert_eq!((summary.waits.count(), summary.waits.longest_ns()), (2, 60));
        let (address, lock) = summary.locks[0];
        assert_eq!((address.process, address.address), (9, 8));
        assert_eq!((lock.sections, lock.waited_ns, lock.held_ns), (1, 60, 60));
        assert_eq!(summary.sites[0].0.address, 1008);
        assert_eq!(
            summary.longest_shared_hold_ns(),
            None,
            "each has one thread"
        );
    }

    #[test]
    fn incomplete_sections_are_left_out() {
        let summary = study(&[
            (1, 100, released(7)),
            (1, 110, acquired(7, None)),
            (1, 120, acquired(8, None)),
            (1, 130, released(8)),
            (2, 140, acquired(5, None)),
            (2, 150, LockOperation::Process(3)),
            (2, 160, acquired(5, None)),
            (2, 170, released(5)),
        ]);
        assert_eq!(summary.incomplete, 3);
        assert_eq!(summary.depths, [1, 1]);
    }

    #[test]
    fn a_loss_ends_what_is_held() {
        let mut study = LockStudy::default();
        for (instant_ns, follows_loss, operation) in [
            (10, false, acquired(7, None)),
            (20, true, acquired(8, None)),
            (30, false, released(8)),
        ] {
            study.take(&LockEvent {
                instant_ns,
                thread: 1,
                follows_loss,
                operation,
            });
        }
        let summary = study.finish();
        assert_eq!((summary.depths, summary.incomplete), (vec![1], 1));
    }

    #[test]
    fn a_lock_that_is_waited_for_is_held_from_the_end_of_the_wait() {
        let summary = study(&[
            (1, 100, acquired(7, None)),
            (1, 110, LockOperation::WaitBegan { lock: 7 }),
            // The lock of the list of waiters is in no other, since the first is not held yet.
            (1, 120, acquired(8, None)),
            (1, 125, released(8)),
            (1, 150, LockOperation::WaitEnded { lock: 7 }),
            (1, 180, LockOperation::WaitEnded { lock: 7 }),
            (1, 185, acquired(8, None)),
            (1, 190, released(8)),
            (1, 200, released(7)),
            (1, 210, LockOperation::WaitEnded { lock: 9 }),
        ]);
        assert_eq!((summary.depths, summary.incomplete), (vec![2, 1], 0));
        assert_eq!((summary.contended, summary.waits.longest_ns()), (1, 80));
        assert_eq!(summary.outermost_holds.longest_ns(), 20);
    }

    #[test]
    fn a_thread_that_goes_off_its_cpu_hands_the_last_spin_lock_over() {
        let spin = |lock| LockOperation::Acquired {
            kind: LockKind::Spin,
            lock,
            site: 0,
            requested_ns: None,
        };
        let summary = study(&[
            (1, 10, acquired(5, None)),
            // Its release was not seen.
            (1, 15, spin(6)),
            (1, 20, spin(7)),
            (1, 30, LockOperation::HandedOver { to: 2 }),
            (2, 40, released(7)),
            (1, 50, spin(8)),
            (1, 60, released(8)),
            (1, 70, released(5)),
        ]);
        let depths = |kind| summary.kinds[&kind].depths.clone();
        assert_eq!(depths(LockKind::Mutex), [1]);
        assert_eq!(depths(LockKind::Spin), [0, 1, 1]);
        assert_eq!(summary.kinds[&LockKind::Spin].holds.longest_ns(), 20);
        // The mutex at depth 0, the handed one behind two, the last one in the mutex alone.
        assert_eq!((summary.depths, summary.incomplete), (vec![1, 1, 1], 1));
    }

    #[test]
    fn a_lock_that_another_thread_gives_up_nests_nothing_afterwards() {
        let summary = study(&[
            (1, 10, acquired(5, None)),
            (2, 20, released(5)),
            (1, 30, acquired(6, None)),
            (1, 40, released(6)),
        ]);
        assert_eq!((summary.depths, summary.incomplete), (vec![1], 2));
    }

    #[test]
    fn a_recursive_lock_nests_in_itself() {
        let summary = study(&[
            (1, 10, acquired(7, None)),
            (1, 20, acquired(7, None)),
            (1, 30, released(7)),
            (1, 50, released(7)),
        ]);
        assert_eq!(summary.depths, [1, 1]);
        assert_eq!(summary.outermost_holds.longest_ns(), 40);
        assert_eq!(summary.holds.share_within(10), Some(0.5));
    }

    proptest! {
        /// Every acquisition and every release is in one complete section or counted as incomplete.
        #[test]
        fn no_event_is_counted_twice_or_not_at_all(
            events in proptest::collection::vec((0_u32..3, 0_u64..4, any::<bool>()), 0..60),
        ) {
            let events: Vec<_> = events
                .into_iter()
                .zip(0..)
                .map(|((thread, lock, is_release), instant)| {
                    let operation = if is_release { released(lock) } else { acquired(lock, None) };
                    (thread, instant, operation)
                })
                .collect();
            let summary = study(&events);
            prop_assert_eq!(summary.sections() * 2 + summary.incomplete, events.len() as u64);
            prop_assert_eq!(summary.holds.count(), summary.sections());
            let by_lock: u64 = summary.locks.iter().map(|(_, tally)| tally.sections).sum();
            prop_assert_eq!(by_lock, summary.sections());
        }
    }
}
