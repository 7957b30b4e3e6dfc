//! The books of one domain: what its manager saw, period by period and over its whole life.
//!
//! The manager writes, anybody reads, nobody waits for the other: all is atomics under a sequence
//! counter that tells a reader to look again if the writer came in between.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use serde::{Deserialize, Serialize};
use tailbound_reservation::edge_delay::{DelayCause, LEAST_DELAY};
use tailbound_reservation::window_server::CompleteWindow;
use tailbound_time::{Duration, Instant};

use super::histogram::{DurationCounts, SharedHistogram};
use tailbound_reservation::metered_server::ClosedPeriod;

/// So many of the latest periods are kept one by one.
pub const KEPT_PERIODS: usize = 1024;

/// A manager that comes later than this was held up by the host (its hypervisor, or interrupts
/// that ran on); such periods
/// are counted apart ([`LedgerSnapshot::stalled_periods`]) and left out of
/// [`LedgerSnapshot::overrun`] and [`LedgerSnapshot::lateness`].
pub const STALL: Duration = LEAST_DELAY;

const RECORD_WORDS: usize = 10;

/// The edges of windows that came late for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateEdges {
    /// The number of edges.
    pub edges: u64,
    /// The longest delay among them.
    pub longest: Duration,
}

impl LateEdges {
    fn add(&mut self, other: Self) {
        self.edges = self.edges.saturating_add(other.edges);
        self.longest = self.longest.max(other.longest);
    }
}

/// The account of a time partition's windows beside that of its periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowTotals {
    /// Begins and ends of windows to which the manager came [`STALL`] or more late, since its sleep ended late.
    pub late_by_host: LateEdges,
    /// The same, since the kernel took long to switch other partitions.
    pub late_by_partition: LateEdges,
    /// The same, since the manager was at work otherwise.
    pub late_by_manager: LateEdges,
    /// The longest delay of the begin of a window, whatever its cause.
    pub worst_start: Duration,
    /// The longest CPU time that the partition used between two windows, after it was told to stop.
    pub longest_run_on: Duration,
    /// Windows after which that was more than the tolerance.
    #[serde(default)]
    pub overruns: u64,
    /// The CPU time that the partition used in windows of others, in which it may run while those leave it.
    #[serde(default)]
    pub slack_used: Duration,
}

impl WindowTotals {
    /// The late edges, whatever their cause.
    pub fn late_edges(&self) -> u64 {
        let causes = [
            self.late_by_host,
            self.late_by_partition,
            self.late_by_manager,
        ];
        causes.map(|late| late.edges).iter().sum()
    }

    /// Adds the account of another CPU.
    pub(crate) fn add(&mut self, other: &Self) {
        self.late_by_host.add(other.late_by_host);
        self.late_by_partition.add(other.late_by_partition);
        self.late_by_manager.add(other.late_by_manager);
        self.worst_start = self.worst_start.max(other.worst_start);
        self.longest_run_on = self.longest_run_on.max(other.longest_run_on);
        self.overruns = self.overruns.saturating_add(other.overruns);
        self.slack_used = self.slack_used.saturating_add(other.slack_used);
    }
}

/// What a manager saw of one domain, as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerSnapshot {
    /// Periods that have ended, without the skipped ones.
    pub periods: u64,
    /// Grid points that passed unserved because the manager was held up.
    pub skipped: u64,
    /// Periods in which nobody ran and which the manager slept through; they are among `periods`.
    pub rested: u64,
    /// Periods in which the budget ran out and the domain was stopped.
    pub depletions: u64,
    /// CPU time used in the periods that have ended.
    pub used: Duration,
    /// The sum of the budgets of the periods that have ended, skipped ones included.
    pub reserved: Duration,
    /// What later budgets owe now.
    pub debt: Duration,
    /// The longest overrun of a period, stalled ones included.
    pub largest_overrun: Duration,
    /// Periods during which the manager came later than [`STALL`] to its own or the next
    /// replenishment, to a planned look or to an alarm (which says when it went off).
    pub stalled_periods: u64,
    /// CPU time used without any budget in stalled periods.
    pub stalled_overrun: Duration,
    /// The parts of overruns that are not paid back, since the manager came so late.
    pub forgiven: Duration,
    /// Overruns of the depleted periods that were not stalled.
    pub overrun: DurationCounts,
    /// How late the replenishments of the periods that were not stalled came.
    pub lateness: DurationCounts,
    /// How often the manager woke up for this domain.
    pub wake_ups: u64,
    /// Freezes, thaws, readings and alarms that the kernel refused.
    pub failures: u64,
    /// Freezes and thaws that took the kernel longer than [`STALL`]: somebody else held the lock
    /// over all cgroups, and the domain ran on meanwhile.
    pub slow_switches: u64,
    /// The longest that a freeze or thaw took.
    pub longest_switch: Duration,
    /// How often the domain was stopped although it had budget, to stay clear of the kernel's
    /// real-time throttling ([`RealTimeLimit`](super::RealTimeLimit)).
    pub holds: u64,
    /// How long it was stopped so, altogether.
    pub held: Duration,
    /// How often it was boosted.
    pub boosts: u64,
    /// CPU time that it used under boosts, which came from no budget.
    pub boosted: Duration,
    /// Whether the domain is stopped now.
    pub frozen: bool,
    /// Whether depletion is found by timed polling (no alarm was permitted, or it died).
    pub polling: bool,
    /// The account of its windows, if it is a time partition.
    pub windows: Option<WindowTotals>,
    /// The latest periods one by one, oldest first, at most [`KEPT_PERIODS`].
    pub latest: Vec<ClosedPeriod>,
}

impl LedgerSnapshot {
    /// How far the use of a domain that always wanted to run was from what was reserved, as a
    /// fraction: positive is too much.
    pub fn budget_error(&self) -> Option<f64> {
        let reserved = self.reserved.as_nanos() as f64;
        (reserved > 0.0).then(|| self.used.as_nanos() as f64 / reserved - 1.0)
    }
}

/// [`LateEdges`] as the manager writes them.
#[derive(Debug, Default)]
struct SharedLateEdges {
    edges: AtomicU64,
    longest_ns: AtomicU64,
}

impl SharedLateEdges {
    fn note(&self, delay: Duration) {
        add(&self.edges, 1);
        raise(&self.longest_ns, delay);
    }

    fn read(&self) -> LateEdges {
        LateEdges {
            edges: get(&self.edges),
            longest: Duration::from_nanos(get(&self.longest_ns)),
        }
    }
}

/// [`WindowTotals`] as the manager writes them.
#[derive(Debug, Default)]
struct SharedWindowTotals {
    late_by_host: SharedLateEdges,
    late_by_partition: SharedLateEdges,
    late_by_manager: SharedLateEdges,
    worst_start_ns: AtomicU64,
    longest_run_on_ns: AtomicU64,
    overruns: AtomicU64,
    slack_used_ns: AtomicU64,
    /// CPU time after a window from which on that is an overrun.
    tolerance: Duration,
}

impl SharedWindowTotals {
    fn read(&self) -> WindowTotals {
        WindowTotals {
            late_by_host: self.late_by_host.read(),
            late_by_partition: self.late_by_partition.read(),
            late_by_manager: self.late_by_manager.read(),
            worst_start: Duration::from_nanos(get(&self.worst_start_ns)),
            longest_run_on: Duration::from_nanos(get(&self.longest_run_on_ns)),
            overruns: get(&self.overruns),
            slack_used: Duration::from_nanos(get(&self.slack_used_ns)),
        }
    }
}

/// The books as the manager writes them.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    sequence: AtomicU64,
    periods: AtomicU64,
    skipped: AtomicU64,
    rested: AtomicU64,
    depletions: AtomicU64,
    used_ns: AtomicU64,
    reserved_ns: AtomicU64,
    debt_ns: AtomicU64,
    largest_overrun_ns: AtomicU64,
    stalled_periods: AtomicU64,
    stalled_overrun_ns: AtomicU64,
    forgiven_ns: AtomicU64,
    wake_ups: AtomicU64,
    failures: AtomicU64,
    slow_switches: AtomicU64,
    longest_switch_ns: AtomicU64,
    holds: AtomicU64,
    held_ns: AtomicU64,
    boosts: AtomicU64,
    boosted_ns: AtomicU64,
    frozen: AtomicU64,
    polling: AtomicU64,
    /// Of a time partition.
    windows: Option<SharedWindowTotals>,
    overrun: SharedHistogram,
    lateness: SharedHistogram,
    ring: Box<[AtomicU64]>,
}

impl Ledger {
    /// Empty books of a domain with a budget.
    pub(super) fn of_budget() -> Self {
        let words = KEPT_PERIODS * RECORD_WORDS;
        Self {
            ring: (0..words).map(|_| AtomicU64::new(0)).collect(),
            ..Self::default()
        }
    }

    /// Empty books of a time partition, which may use so much CPU time after a window.
    pub(super) fn of_windows(tolerance: Duration) -> Self {
        let windows = SharedWindowTotals {
            tolerance,
            ..SharedWindowTotals::default()
        };
        Self {
            windows: Some(windows),
            ..Self::of_budget()
        }
    }

    /// Enters the period in which a rest began, and all that were slept through after it; for the manager only.
    pub(super) fn enter_rest(&self, closed: &ClosedPeriod, stalled: bool) {
        let slept = closed.budget.checked_mul(closed.skipped);
        self.write(|| {
            add(&self.rested, closed.skipped);
            add(&self.reserved_ns, slept.unwrap_or_default().as_nanos());
        });
        let first = ClosedPeriod {
            skipped: 0,
            ..*closed
        };
        self.enter(&first, stalled);
    }

    /// Enters a period that ended; for the manager only. `stalled`: the host held the manager up.
    pub(super) fn enter(&self, closed: &ClosedPeriod, stalled: bool) {
        debug_assert!(
            closed.forgiven <= closed.overrun,
            "no more is forgiven than was overrun"
        );
        self.write(|| {
            let place = get(&self.periods) as usize % KEPT_PERIODS * RECORD_WORDS;
            for (word, value) in self.ring[place..].iter().zip(words_of(closed)) {
                word.store(value, Ordering::Relaxed);
            }
            let overrun = closed.overrun.as_nanos();
            add(&self.periods, 1);
            add(&self.skipped, closed.skipped);
            add(&self.used_ns, closed.used.as_nanos());
            let budgets = closed.budget.checked_mul(closed.skipped + 1);
            add(&self.reserved_ns, budgets.unwrap_or_default().as_nanos());
            add(&self.forgiven_ns, closed.forgiven.as_nanos());
            self.debt_ns
                .store(closed.debt.as_nanos(), Ordering::Relaxed);
            raise(&self.largest_overrun_ns, closed.overrun);
            if closed.depleted {
                add(&self.depletions, 1);
            }
            if stalled {
                add(&self.stalled_periods, 1);
                add(&self.stalled_overrun_ns, overrun);
                return;
            }
            self.lateness.record(closed.lateness());
            if closed.depleted || overrun > 0 {
                self.overrun.record(closed.overrun);
            }
        });
    }

    /// Counts a wake-up of the manager for this domain.
    pub(super) fn count_wake_up(&self) {
        add(&self.wake_ups, 1);
    }

    /// Counts something that the kernel refused.
    pub(super) fn count_failure(&self) {
        add(&self.failures, 1);
    }

    /// Notes how long a freeze or thaw took.
    pub(super) fn note_switch(&self, took: Duration) {
        if took > STALL {
            add(&self.slow_switches, 1);
        }
        raise(&self.longest_switch_ns, took);
    }

    /// Notes an edge of a window that was served late.
    pub(super) fn note_late_edge(&self, cause: DelayCause, delay: Duration) {
        let Some(windows) = &self.windows else {
            return;
        };
        let late = match cause {
            DelayCause::Host => &windows.late_by_host,
            DelayCause::Partition => &windows.late_by_partition,
            DelayCause::Manager => &windows.late_by_manager,
        };
        late.note(delay);
    }

    /// Notes of a window that has passed what its period does not have.
    pub(super) fn note_window(&self, complete: &CompleteWindow) {
        if let Some(windows) = &self.windows {
            raise(&windows.worst_start_ns, complete.period.lateness());
            raise(&windows.longest_run_on_ns, complete.ran_on);
            if complete.ran_on > windows.tolerance {
                add(&windows.overruns, 1);
            }
        }
    }

    /// Notes the CPU time that a partition has used in windows of others so far.
    pub(super) fn note_slack(&self, used: Duration) {
        if let Some(windows) = &self.windows {
            raise(&windows.slack_used_ns, used);
        }
    }

    /// Notes that it was stopped for so long although it had budget.
    pub(super) fn note_hold(&self, length: Duration) {
        add(&self.holds, 1);
        add(&self.held_ns, length.as_nanos());
    }

    /// Notes a boost, under which so much was used.
    pub(super) fn note_boost(&self, used: Duration) {
        add(&self.boosts, 1);
        add(&self.boosted_ns, used.as_nanos());
    }

    pub(super) fn set_frozen(&self, frozen: bool) {
        self.frozen.store(frozen.into(), Ordering::Relaxed);
    }

    pub(super) fn set_polling(&self, polling: bool) {
        self.polling.store(polling.into(), Ordering::Relaxed);
    }

    /// The books at this moment; looks again until the manager was not writing meanwhile.
    pub(super) fn snapshot(&self) -> LedgerSnapshot {
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let snapshot = self.copy();
                fence(Ordering::Acquire);
                if self.sequence.load(Ordering::Relaxed) == before {
                    return snapshot;
                }
            }
            std::thread::yield_now();
        }
    }

    fn copy(&self) -> LedgerSnapshot {
        let duration = |word: &AtomicU64| Duration::from_nanos(get(word));
        let periods = get(&self.periods);
        let kept = periods.min(KEPT_PERIODS as u64);
        let latest = (periods - kept..periods)
            .map(|number| {
                let place = number as usize % KEPT_PERIODS * RECORD_WORDS;
                period_of(&std::array::from_fn(|word| get(&self.ring[place + word])))
            })
            .collect();
        let rested = get(&self.rested);
        LedgerSnapshot {
            periods: periods.saturating_add(rested),
            skipped: get(&self.skipped),
            rested,
            depletions: get(&self.depletions),
            used: duration(&self.used_ns),
            reserved: duration(&self.reserved_ns),
            debt: duration(&self.debt_ns),
            largest_overrun: duration(&self.largest_overrun_ns),
            stalled_periods: get(&self.stalled_periods),
            stalled_overrun: duration(&self.stalled_overrun_ns),
            forgiven: duration(&self.forgiven_ns),
            overrun: self.overrun.read(),
            lateness: self.lateness.read(),
            wake_ups: get(&self.wake_ups),
            failures: get(&self.failures),
            slow_switches: get(&self.slow_switches),
            longest_switch: duration(&self.longest_switch_ns),
            holds: get(&self.holds),
            held: duration(&self.held_ns),
            boosts: get(&self.boosts),
            boosted: duration(&self.boosted_ns),
            frozen: get(&self.frozen) != 0,
            polling: get(&self.polling) != 0,
            windows: self.windows.as_ref().map(SharedWindowTotals::read),
            latest,
        }
    }

    /// Runs `change` so that a reader sees all of it or none.
    fn write(&self, change: impl FnOnce()) {
        let before = self.sequence.load(Ordering::Relaxed);
        debug_assert!(before.is_multiple_of(2), "there is one writer");
        self.sequence.store(before + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        change();
        self.sequence.store(before + 2, Ordering::Release);
    }
}

fn get(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

/// Adds without a bus lock: there is one writer.
fn add(word: &AtomicU64, amount: u64) {
    word.store(get(word).saturating_add(amount), Ordering::Relaxed);
}

/// Keeps the longest.
fn raise(word: &AtomicU64, length: Duration) {
    if length.as_nanos() > get(word) {
        word.store(length.as_nanos(), Ordering::Relaxed);
    }
}

fn words_of(closed: &ClosedPeriod) -> [u64; RECORD_WORDS] {
    [
        closed.index,
        closed.grid_start.as_nanos(),
        closed.replenished_at.as_nanos(),
        closed.budget.as_nanos(),
        closed.used.as_nanos(),
        closed.overrun.as_nanos(),
        closed.depleted.into(),
        closed.debt.as_nanos(),
        closed.skipped,
        closed.forgiven.as_nanos(),
    ]
}

fn period_of(words: &[u64; RECORD_WORDS]) -> ClosedPeriod {
    ClosedPeriod {
        index: words[0],
        grid_start: Instant::from_nanos(words[1]),
        replenished_at: Instant::from_nanos(words[2]),
        budget: Duration::from_nanos(words[3]),
        used: Duration::from_nanos(words[4]),
        overrun: Duration::from_nanos(words[5]),
        depleted: words[6] != 0,
        debt: Duration::from_nanos(words[7]),
        skipped: words[8],
        forgiven: Duration::from_nanos(words[9]),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn period(index: u64) -> ClosedPeriod {
        ClosedPeriod {
            index,
            grid_start: Instant::from_nanos(index * 10),
            replenished_at: Instant::from_nanos(index * 10 + 1),
            budget: Duration::from_nanos(4),
            used: Duration::from_nanos(5),
            overrun: Duration::from_nanos(3),
            forgiven: Duration::from_nanos(2),
            depleted: true,
            debt: Duration::from_nanos(1),
            skipped: 0,
        }
    }

    #[test]
    fn the_ring_keeps_the_latest_and_the_sums_keep_all() {
        let ledger = Ledger::of_budget();
        let total = KEPT_PERIODS as u64 + 10;
        for index in 0..total {
            ledger.enter(&period(index), false);
        }
        let seen = ledger.snapshot();
        assert_eq!(seen.periods, total);
        assert_eq!(seen.used, Duration::from_nanos(5 * total));
        assert_eq!(seen.reserved, Duration::from_nanos(4 * total));
        assert_eq!(seen.latest.len(), KEPT_PERIODS);
        assert_eq!(seen.latest.first(), Some(&period(10)));
        assert_eq!(seen.latest.last(), Some(&period(total - 1)));
        assert_eq!(seen.overrun.count(), total);
        assert!((seen.budget_error().unwrap() - 0.25).abs() < 1e-12);
    }

    #[test]
    fn stalled_periods_are_kept_apart() {
        let ledger = Ledger::of_budget();
        ledger.enter(&period(0), false);
        ledger.enter(&period(1), true);
        let seen = ledger.snapshot();
        assert_eq!((seen.stalled_periods, seen.overrun.count()), (1, 1));
        assert_eq!(seen.stalled_overrun, Duration::from_nanos(3));
        assert_eq!(seen.forgiven, Duration::from_nanos(4));
    }

    #[test]
    fn late_edges_are_counted_by_cause_and_overruns_beyond_the_tolerance() {
        let ledger = Ledger::of_windows(Duration::from_micros(800));
        let ms = Duration::from_millis;
        ledger.note_late_edge(DelayCause::Host, ms(7));
        ledger.note_late_edge(DelayCause::Host, ms(3));
        ledger.note_late_edge(DelayCause::Manager, ms(2));
        let mut period = period(4);
        period.replenished_at = period.grid_start + ms(5);
        for ran_on in [ms(1), Duration::from_micros(800)] {
            ledger.note_window(&CompleteWindow { period, ran_on });
        }
        for used in [ms(15), ms(40)] {
            ledger.note_slack(used);
        }
        let late = |edges, longest| LateEdges { edges, longest };
        let expected = WindowTotals {
            late_by_host: late(2, ms(7)),
            late_by_partition: late(0, ms(0)),
            late_by_manager: late(1, ms(2)),
            worst_start: ms(5),
            longest_run_on: ms(1),
            // The tolerance itself is none.
            overruns: 1,
            slack_used: ms(40),
        };
        let mut seen = ledger.snapshot().windows.expect("a partition");
        assert_eq!(seen, expected);
        seen.add(&expected);
        assert_eq!((seen.late_edges(), seen.worst_start), (6, ms(5)));
        assert_eq!((seen.overruns, seen.slack_used), (2, ms(80)));
        assert_eq!(Ledger::of_budget().snapshot().windows, None);
    }

    #[test]
    fn a_reader_never_sees_half_an_entry() {
        let ledger = Ledger::of_budget();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for index in 0..20_000 {
                    ledger.enter(&period(index), false);
                }
            });
            for _ in 0..200 {
                let seen = ledger.snapshot();
                assert_eq!(seen.used.as_nanos(), 5 * seen.periods);
                assert_eq!(seen.overrun.count(), seen.periods);
                let last = seen.latest.last().map(|closed| closed.index + 1);
                assert_eq!(last.unwrap_or(0), seen.periods);
            }
        });
    }
}
