//! Budgets that a running manager takes up by itself at a replenishment, without being woken for it.
//!
//! Waking a thread on another CPU and waiting for its answer takes longer than all else that a change
//! needs, and a change that holds from a replenishment on needs neither: the manager is awake then. The
//! requester has to know *which* replenishment, though. So the manager first shows which period it is
//! about to open and then looks for a posted budget; the requester first posts and then looks which
//! period was opened. All of it is sequentially consistent, so of the two at least one sees the other:
//! if the requester still finds an earlier period, the manager will find the budget.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use tailbound_time::{Duration, Instant};

use tailbound_reservation::ReplenishmentGrid;
use tailbound_reservation::metered_server::ServerParameters;

/// A manager that has not opened a period for so many of them stands still, or has nothing to do with
/// this domain any more: it has to be asked.
const LATEST_SHOWN_PERIODS: u64 = 2;

/// So often a reader looks again while the writer is in the middle; it writes three numbers.
const LOOKS: u32 = 10_000;

/// A budget that nobody is served with: nothing is posted.
const NOTHING: Duration = Duration::ZERO;

/// Three numbers that one thread writes and others read together.
#[derive(Debug, Default)]
struct Triple {
    /// Odd while the writer is at it.
    version: AtomicU64,
    numbers: [AtomicU64; 3],
}

impl Triple {
    /// For the only writer.
    fn write(&self, numbers: [u64; 3]) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        for (place, number) in self.numbers.iter().zip(numbers) {
            place.store(number, Ordering::SeqCst);
        }
        self.version.store(version + 2, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The version and the numbers, unless the writer is at it.
    fn read(&self) -> Option<(u64, [u64; 3])> {
        let before = self.version.load(Ordering::SeqCst);
        let numbers = [0, 1, 2].map(|place: usize| self.numbers[place].load(Ordering::SeqCst));
        fence(Ordering::SeqCst);
        let after = self.version.load(Ordering::SeqCst);
        (before == after && before.is_multiple_of(2)).then_some((before, numbers))
    }

    fn read_soon(&self) -> Option<(u64, [u64; 3])> {
        (0..LOOKS).find_map(|_| {
            let read = self.read();
            if read.is_none() {
                std::hint::spin_loop();
            }
            read
        })
    }
}

/// What the manager of a domain shows, and what it is shown.
#[derive(Debug, Default)]
pub(super) struct PostedBudget {
    /// By the manager: the grid point of the latest period, its length, and whether the length will
    /// change. The version is 0 before the first period.
    shown: Triple,
    /// By the requester, in turns, so that the one before can be read while it writes: a budget, the
    /// instant before which it must not hold, and its number, from 1.
    posted: [Triple; 2],
    /// Of the last one that was posted.
    number: AtomicU64,
    /// When that one was to be in force.
    last_in_force_ns: AtomicU64,
}

impl PostedBudget {
    /// For one requester at a time: has a budget taken up at the first replenishment that is not before
    /// an instant, and says when that is. `None` if the manager has to be asked: the period changes, or
    /// the manager is just there, or has not been heard of lately, or the last one is to be in force before
    /// this one and may not be lost. It may be taken up all the same then, unless it is withdrawn.
    pub(super) fn post(
        &self,
        parameters: ServerParameters,
        from: Instant,
        now: Instant,
    ) -> Option<Instant> {
        let (version, [opened_ns, period_ns, unsettled]) = self.shown.read_soon()?;
        if version == 0 || unsettled != 0 || period_ns != parameters.period.as_nanos() {
            return None;
        }
        let periods_since = now.as_nanos().saturating_sub(opened_ns) / period_ns.max(1);
        if periods_since >= LATEST_SHOWN_PERIODS {
            return None;
        }
        let next = Instant::from_nanos(opened_ns.saturating_add(period_ns));
        let in_force_at = ReplenishmentGrid::new(next, parameters.period).first_from(from);
        let last_ns = self.last_in_force_ns.load(Ordering::Relaxed);
        if opened_ns < last_ns && last_ns < in_force_at.as_nanos() {
            return None;
        }
        self.last_in_force_ns
            .store(in_force_at.as_nanos(), Ordering::Relaxed);
        self.put(parameters.budget, in_force_at);
        let (_, [opened_ns, now_period_ns, unsettled]) = self.shown.read_soon()?;
        let in_time = opened_ns < in_force_at.as_nanos();
        (in_time && now_period_ns == period_ns && unsettled == 0).then_some(in_force_at)
    }

    /// For the requester: what was posted is not to be taken up any more.
    pub(super) fn withdraw(&self) {
        self.put(NOTHING, Instant::ORIGIN);
        self.last_in_force_ns.store(0, Ordering::Relaxed);
    }

    fn put(&self, budget: Duration, in_force_at: Instant) {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        let place = usize::from(number.is_multiple_of(2));
        self.posted[place].write([budget.as_nanos(), in_force_at.as_nanos(), number]);
    }

    /// For the manager: it is about to open the period of this grid point.
    pub(super) fn show(&self, opened: Instant, period: Duration, unsettled: bool) {
        self.shown
            .write([opened.as_nanos(), period.as_nanos(), u64::from(unsettled)]);
    }

    /// For the manager, after [`PostedBudget::show`]: the latest that was posted, if its number is above
    /// `seen`.
    pub(super) fn take(&self, seen: &mut u64) -> Option<(Duration, Instant)> {
        // Who is in the middle of posting will see that it is too late, and ask.
        let there = self.posted.iter().filter_map(Triple::read);
        let latest = there.map(|(_, numbers)| numbers).max_by_key(|it| it[2]);
        let [budget_ns, from_ns, number] = latest.filter(|it| it[2] > *seen)?;
        *seen = number;
        let budget = Duration::from_nanos(budget_ns);
        (budget != NOTHING).then_some((budget, Instant::from_nanos(from_ns)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::sync::atomic::AtomicBool;

    const PERIOD: Duration = Duration::from_nanos(100);

    /// Before all of it.
    const NOW: Instant = Instant::ORIGIN;

    fn budget(nanos: u64) -> ServerParameters {
        ServerParameters {
            budget: Duration::from_nanos(nanos),
            period: PERIOD,
        }
    }

    #[test]
    fn a_manager_that_has_not_begun_or_changes_its_period_is_asked() {
        let board = PostedBudget::default();
        assert_eq!(board.post(budget(5), Instant::ORIGIN, NOW), None);
        board.show(Instant::from_nanos(1_000), PERIOD, true);
        assert_eq!(board.post(budget(5), Instant::ORIGIN, NOW), None);
        board.show(Instant::from_nanos(1_000), Duration::from_nanos(70), false);
        assert_eq!(board.post(budget(5), Instant::ORIGIN, NOW), None);
        board.show(Instant::from_nanos(1_000), PERIOD, false);
        let at = |nanos| Some(Instant::from_nanos(nanos));
        assert_eq!(board.post(budget(5), Instant::ORIGIN, NOW), at(1_100));
        assert_eq!(
            board.post(budget(5), Instant::from_nanos(1_100), NOW),
            at(1_100)
        );
    }

    #[test]
    fn a_later_budget_is_not_posted_over_an_earlier_one() {
        let board = PostedBudget::default();
        let at = Instant::from_nanos;
        board.show(at(1_000), PERIOD, false);
        assert_eq!(board.post(budget(5), at(1_150), NOW), Some(at(1_200)));
        // What is in force sooner, or at the same time, replaces it.
        assert_eq!(board.post(budget(6), at(1_200), NOW), Some(at(1_200)));
        assert_eq!(board.post(budget(7), at(1_100), NOW), Some(at(1_100)));
        assert_eq!(board.post(budget(8), at(1_101), NOW), None);
        board.show(at(1_100), PERIOD, false);
        let mut seen = 0;
        assert_eq!(
            board.take(&mut seen),
            Some((Duration::from_nanos(7), at(1_100)))
        );
        assert_eq!(board.post(budget(8), at(1_101), NOW), Some(at(1_200)));
    }

    #[test]
    fn a_manager_that_is_not_heard_of_is_asked() {
        let board = PostedBudget::default();
        let at = Instant::from_nanos;
        board.show(at(1_000), PERIOD, false);
        assert_eq!(
            board.post(budget(5), Instant::ORIGIN, at(1_199)),
            Some(at(1_100))
        );
        assert_eq!(board.post(budget(6), Instant::ORIGIN, at(1_200)), None);
    }

    #[test]
    fn what_is_withdrawn_is_not_taken_up() {
        let board = PostedBudget::default();
        let at = Instant::from_nanos;
        board.show(at(1_000), PERIOD, false);
        assert!(board.post(budget(5), at(1_500), NOW).is_some());
        board.withdraw();
        let mut seen = 0;
        assert_eq!(board.take(&mut seen), None);
        // What is posted after that counts, sooner or later than what was withdrawn.
        assert_eq!(board.post(budget(6), at(1_600), NOW), Some(at(1_600)));
        let taken = board.take(&mut seen);
        assert_eq!(taken, Some((Duration::from_nanos(6), at(1_600))));
    }

    /// A manager opens period after period while budgets are posted: each that was promised for a grid
    /// point is known by then, whatever the two threads do at the same time.
    #[test]
    fn what_was_promised_for_a_period_is_known_when_it_opens() {
        const PERIODS: u64 = 300_000;
        /// As many more as the poster needs where it gets little of a CPU, and an end.
        const PERIODS_AT_MOST: u64 = PERIODS * 1_000;
        const PROMISES: u64 = 200;
        let board = PostedBudget::default();
        let (ended, count) = (AtomicBool::new(false), AtomicU64::new(0));
        let (mut promised, mut known, mut periods) = (Vec::new(), Vec::new(), 0);
        std::thread::scope(|scope| {
            let manager = scope.spawn(|| {
                let (mut seen, mut known) = (0, Vec::new());
                let mut period = 0;
                let enough = |period| period >= PERIODS && count.load(Ordering::Relaxed) > PROMISES;
                while !enough(period) && period < PERIODS_AT_MOST {
                    period += 1;
                    let opened = Instant::from_nanos(period * PERIOD.as_nanos());
                    board.show(opened, PERIOD, false);
                    if let Some((budget, from)) = board.take(&mut seen) {
                        known.push((budget.as_nanos(), from, opened));
                    }
                    if period % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
                ended.store(true, Ordering::Release);
                (known, period)
            });
            let mut number = 0;
            while !ended.load(Ordering::Acquire) {
                number += 1;
                if let Some(at) = board.post(budget(number), Instant::ORIGIN, NOW) {
                    promised.push((number, at));
                    count.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::yield_now();
            }
            (known, periods) = manager.join().unwrap();
        });
        let last = Instant::from_nanos(periods * PERIOD.as_nanos());
        known.sort_unstable();
        let due: Vec<_> = promised.iter().filter(|(_, at)| *at <= last).collect();
        assert!(due.len() > 100, "only {} were promised", due.len());
        for (number, at) in due {
            // It, or a later one, was there in time.
            let first = known.partition_point(|(budget, ..)| budget < number);
            let in_time = known.get(first).is_some_and(|(_, _, opened)| opened <= at);
            assert!(in_time, "{number} was promised for {at:?}");
        }
    }
}
