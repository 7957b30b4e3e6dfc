//! Budgets that a running manager takes up by itself at a replenishment, without being woken for it.
//!
//! Waking a thread on another CPU and waiting for its answer takes longer than all else that a change
//! needs, and a change that holds from a replenishment on needs neither: the manager is awake then. The
//! requester has to know *which* replenishment, though. So the manager shows on a [`NoticeBoard`] which
//! period it is about to open and then looks for a posted budget; the requester first posts and then looks
//! which period was opened. A requester that still finds an earlier period knows that the manager will
//! find the budget.

use std::sync::atomic::{AtomicU64, Ordering};

use tailbound_reservation::ReplenishmentGrid;
use tailbound_reservation::metered_server::ServerParameters;
use tailbound_shared_memory::NoticeBoard;
use tailbound_time::{Duration, Instant};

/// A manager that has not opened a period for so many of them stands still, or has nothing to do with
/// this domain any more: it has to be asked.
const LATEST_SHOWN_PERIODS: u64 = 2;

/// A budget that nobody is served with: nothing is posted.
const NOTHING: Duration = Duration::ZERO;

/// The periods that the manager of a domain opens, and the budgets that are posted to it.
#[derive(Debug, Default)]
pub(super) struct BudgetSeqlock {
    /// Shown by the manager: the grid point of the latest period, its length, and whether the length will
    /// change. Posted by the requester: a budget, and the instant before which it must not hold.
    board: NoticeBoard,
    /// When the budget that was posted last is to be in force.
    last_in_force_ns: AtomicU64,
}

impl BudgetSeqlock {
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
        let [opened_ns, period_ns, unsettled] = self.board.shown()?;
        if unsettled != 0 || period_ns != parameters.period.as_nanos() {
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
        let [opened_ns, now_period_ns, unsettled] = self.board.shown()?;
        let in_time = opened_ns < in_force_at.as_nanos();
        (in_time && now_period_ns == period_ns && unsettled == 0).then_some(in_force_at)
    }

    /// For the requester: what was posted is not to be taken up any more.
    pub(super) fn withdraw(&self) {
        self.put(NOTHING, Instant::ORIGIN);
        self.last_in_force_ns.store(0, Ordering::Relaxed);
    }

    fn put(&self, budget: Duration, in_force_at: Instant) {
        self.board.post([budget.as_nanos(), in_force_at.as_nanos()]);
    }

    /// For the manager: it is about to open the period of this grid point.
    pub(super) fn show(&self, opened: Instant, period: Duration, unsettled: bool) {
        self.board
            .show([opened.as_nanos(), period.as_nanos(), u64::from(unsettled)]);
    }

    /// For the manager, after [`BudgetSeqlock::show`]: the latest that was posted, if its number is above
    /// `seen`.
    pub(super) fn take(&self, seen: &mut u64) -> Option<(Duration, Instant)> {
        let [budget_ns, from_ns] = self.board.latest_post(seen)?;
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
        let board = BudgetSeqlock::default();
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
        let board = BudgetSeqlock::default();
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
        let board = BudgetSeqlock::default();
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
        let board = BudgetSeqlock::default();
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
        let board = BudgetSeqlock::default();
        let (ended, count) = (AtomicBool::new(false), AtomicU64::new(0));
        let (mut promised, mut announced, mut periods) = (Vec::new(), Vec::new(), 0);
        std::thread::scope(|scope| {
            let manager = scope.spawn(|| {
                let (mut seen, mut announced) = (0, Vec::new());
                let mut period = 0;
                let enough = |period| period >= PERIODS && count.load(Ordering::Relaxed) > PROMISES;
                // What was posted in the last of these periods is for the next one.
                let mut last = None;
                while last.is_none_or(|last| period <= last) {
                    if last.is_none() && (enough(period) || period >= PERIODS_AT_MOST) {
                        ended.store(true, Ordering::Release);
                        last = Some(period + 1);
                    }
                    period += 1;
                    let opened = Instant::from_nanos(period * PERIOD.as_nanos());
                    board.show(opened, PERIOD, false);
                    if let Some((budget, from)) = board.take(&mut seen) {
                        announced.push((budget.as_nanos(), from, opened));
                    }
                    if period % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
                (announced, period)
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
            (announced, periods) = manager.join().unwrap();
        });
        let last = Instant::from_nanos(periods * PERIOD.as_nanos());
        announced.sort_unstable();
        let due: Vec<_> = promised.iter().filter(|(_, at)| *at <= last).collect();
        assert!(due.len() > 100, "only {} were promised", due.len());
        for (number, at) in due {
            // It, or a later one, was there in time.
            let first = announced.partition_point(|(budget, ..)| budget < number);
            let in_time = announced
                .get(first)
                .is_some_and(|(_, _, opened)| opened <= at);
            assert!(in_time, "{number} was promised for {at:?}");
        }
    }
}
