//! What the rules have in common.

use tailbound_time::Duration;

use crate::NEVER;

/// A budget in the course of time, without the rule by which it comes back.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pub(crate) budget_ns: u64,
    pub(crate) period_ns: u64,
    /// What may be used from now on without another replenishment.
    pub(crate) left: u64,
    /// Whether there is work.
    pub(crate) active: bool,
    /// What has been used, as far as the rule has not taken note of it.
    pub(crate) used: u64,
    /// Whether the present shortage has been told.
    short: bool,
    /// Whether budget has come back since that was told.
    refilled: bool,
    /// Whether it is boosted: neither bound by its budget nor spending it.
    boosted: bool,
}

/// How a budget comes back. Nothing happens by itself: each rule says when it has to be looked at next.
pub(crate) trait Replenishment {
    /// Work comes, and there was none.
    fn wake(&mut self, budget: &mut Budget, now: u64) {
        let _ = (budget, now);
    }

    /// There is no work any more.
    fn sleep(&mut self, budget: &mut Budget, now: u64) {
        let _ = (budget, now);
    }

    /// Makes the replenishments that are due, and what follows at once from a used-up budget.
    fn update(&mut self, budget: &mut Budget, now: u64);

    /// When the budget next changes by itself; never, if that does not matter before work comes.
    fn next_change(&self, budget: &Budget) -> u64;

    /// The deadline by which earliest deadline first orders the reservation.
    fn deadline(&self) -> u64 {
        NEVER
    }
}

impl Budget {
    /// A full budget without work.
    pub(crate) fn full(budget: Duration, period: Duration) -> Self {
        Self {
            budget_ns: budget.as_nanos(),
            period_ns: period.as_nanos(),
            left: budget.as_nanos(),
            active: false,
            used: 0,
            short: false,
            refilled: false,
            boosted: false,
        }
    }

    /// No limit.
    pub(crate) fn unlimited() -> Self {
        Self {
            left: NEVER,
            ..Self::full(Duration::ZERO, Duration::ZERO)
        }
    }

    #[inline]
    pub(crate) fn left(&self) -> u64 {
        if self.boosted { NEVER } else { self.left }
    }

    #[inline]
    pub(crate) fn is_boosted(&self) -> bool {
        self.boosted
    }

    pub(crate) fn set_boosted(&mut self, boosted: bool) {
        self.boosted = boosted;
    }

    #[inline]
    pub(crate) fn spend(&mut self, amount: u64) -> bool {
        if self.left != NEVER && !self.boosted {
            self.left -= amount;
            self.used += amount;
        }
        self.left == 0 && !self.boosted
    }

    #[inline]
    pub(crate) fn begins_shortage(&mut self) -> bool {
        let begins = self.active && self.left() == 0 && !self.short;
        self.short |= begins;
        begins
    }

    pub(crate) fn refill(&mut self, to: u64) {
        self.left = to;
        self.short = false;
        self.refilled = true;
    }

    /// As much more, up to the whole budget.
    pub(crate) fn add(&mut self, amount: u64) {
        let to = self.left.saturating_add(amount).min(self.budget_ns);
        self.refill(to);
    }

    /// What came back was lost before it could be used.
    pub(crate) fn lose(&mut self) {
        self.left = 0;
        self.refilled = false;
    }

    #[inline]
    pub(crate) fn was_refilled(&mut self) -> bool {
        std::mem::take(&mut self.refilled)
    }
}
