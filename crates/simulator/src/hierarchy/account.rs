//! Budgets: what a reservation may still use, and when it gets more.

use std::collections::VecDeque;

use tailbound_time::Duration;

use super::plan::{Rule, VirtualCpu, Window};
use super::problem::PlanError;
use crate::timers::NEVER;

/// The budget of one reservation in the course of a simulation.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    rule: Rule,
    budget_ns: u64,
    period_ns: u64,
    /// What may be used from now on without another replenishment.
    left: u64,
    /// The next point of the replenishment grid; of a constant-bandwidth server its deadline.
    boundary: u64,
    /// Whether there is work.
    active: bool,
    /// Since when the present activation counts (sporadic servers).
    activated: u64,
    /// Used since then and not yet set for replenishment (sporadic servers).
    used: u64,
    /// Parts of the budget that come back, by time (sporadic servers).
    pending: VecDeque<Part>,
    /// Whether the present shortage has been told.
    short: bool,
    /// Whether budget has come back since that was told.
    refilled: bool,
    /// Whether it is boosted: neither bound by its budget nor spending it.
    boosted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    at: u64,
    amount: u64,
}

impl Account {
    /// The account of what has no limit.
    pub(crate) fn unlimited() -> Self {
        Self {
            rule: Rule::Unlimited,
            budget_ns: NEVER,
            period_ns: 0,
            left: NEVER,
            boundary: NEVER,
            active: false,
            activated: 0,
            used: 0,
            pending: VecDeque::new(),
            short: false,
            refilled: false,
            boosted: false,
        }
    }

    /// The account of a reservation that is idle at time 0. Grid points lie at its phase and whole
    /// periods from it.
    pub(crate) fn new(reservation: &VirtualCpu, number: usize) -> Result<Self, PlanError> {
        let VirtualCpu { budget, period, .. } = *reservation;
        if let Rule::Windows(windows) = &reservation.rule {
            check_windows(windows, period.as_nanos(), number)?;
        } else if reservation.rule == Rule::Unlimited {
            return Ok(Self::unlimited());
        } else if budget.is_zero() || budget > period {
            return Err(PlanError::Budget {
                reservation: number,
                budget,
                period,
            });
        }
        let (budget_ns, period_ns) = (budget.as_nanos(), period.as_nanos());
        let mut account = Self {
            rule: reservation.rule.clone(),
            budget_ns,
            period_ns,
            left: budget_ns,
            ..Self::unlimited()
        };
        let phase = reservation.phase.as_nanos() % period_ns;
        match &account.rule {
            Rule::HardConstantBandwidth | Rule::SoftConstantBandwidth => account.boundary = 0,
            Rule::Windows(_) => {
                // What the grid's phase is to a budget, the begin of the first frame is to windows.
                account.activated = phase;
                account.enter_window(0);
            }
            _ if phase == 0 => account.boundary = period_ns,
            _ => account.boundary = phase,
        }
        if account.rule == Rule::Periodic {
            // The first part of the period that holds the origin has passed unused.
            account.left = budget_ns.saturating_sub(period_ns - account.boundary);
        }
        account.refilled = false;
        Ok(account)
    }

    /// How long it may be used without another replenishment; zero if it has to wait.
    #[inline]
    pub(crate) fn left(&self) -> u64 {
        if self.boosted { NEVER } else { self.left }
    }

    /// Whether it is neither bound by its budget nor spends it.
    #[inline]
    pub(crate) fn is_boosted(&self) -> bool {
        self.boosted
    }

    pub(crate) fn set_boosted(&mut self, boosted: bool) {
        self.boosted = boosted;
    }

    /// Whether it is used up by the passing of time while there is no work.
    #[inline]
    pub(crate) fn passes_unused(&self) -> bool {
        self.rule == Rule::Periodic
    }

    /// The deadline by which a level under earliest deadline first orders it.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.boundary
    }

    /// When it next changes by itself; never, if it does not matter before work comes.
    #[inline]
    pub(crate) fn next_change(&self) -> u64 {
        match self.rule {
            Rule::Unlimited => NEVER,
            Rule::Deferrable | Rule::Polling => {
                if self.active {
                    self.boundary
                } else {
                    NEVER
                }
            }
            Rule::Periodic | Rule::Windows(_) => self.boundary,
            Rule::HardConstantBandwidth => {
                if self.active && self.left == 0 {
                    self.boundary
                } else {
                    NEVER
                }
            }
            Rule::SoftConstantBandwidth => NEVER,
            // The corrected rule looks at the next part only when the present one is used up.
            Rule::Sporadic if self.left > 0 => NEVER,
            Rule::Sporadic | Rule::PosixSporadic => {
                if self.active {
                    self.pending.front().map_or(NEVER, |next| next.at)
                } else {
                    NEVER
                }
            }
        }
    }

    /// Work comes, and there was none.
    pub(crate) fn wake(&mut self, now: u64) {
        self.active = true;
        match self.rule {
            Rule::Unlimited | Rule::Periodic | Rule::Windows(_) => {}
            Rule::Deferrable => self.catch_up(now),
            Rule::Polling => {
                self.catch_up(now);
                let at_start = self.boundary - now == self.period_ns;
                if at_start {
                    self.refill(self.budget_ns);
                } else {
                    self.left = 0;
                    // What came back at the grid point was lost there: nothing to tell of now.
                    self.refilled = false;
                }
            }
            Rule::HardConstantBandwidth | Rule::SoftConstantBandwidth => self.wake_up_rule(now),
            Rule::Sporadic => self.begin_part(now),
            Rule::PosixSporadic => {
                self.replenish_pending(now);
                self.activated = now;
            }
        }
    }

    /// SCHED_DEADLINE's rule, which is the constant-bandwidth server's (Abeni and Buttazzo 1998):
    /// where the rest of the budget until the deadline would exceed the bandwidth, or the deadline
    /// has passed, both start anew.
    fn wake_up_rule(&mut self, now: u64) {
        let exceeds = now >= self.boundary || {
            let until = u128::from(self.boundary - now);
            u128::from(self.left) * u128::from(self.period_ns) > until * u128::from(self.budget_ns)
        };
        if exceeds {
            self.boundary = now.saturating_add(self.period_ns);
            self.refill(self.budget_ns);
        }
    }

    /// There is no work any more.
    pub(crate) fn sleep(&mut self, now: u64) {
        self.active = false;
        match self.rule {
            Rule::Polling => self.left = 0,
            Rule::Sporadic => {
                // What is left of the part may be used from now on; what was used comes back later.
                self.set_replenishment();
                self.activated = now;
            }
            Rule::PosixSporadic => self.set_replenishment(),
            _ => {}
        }
    }

    /// `amount` was used, or passed unused; at most what was left. Returns whether nothing is left to
    /// go on with.
    #[inline]
    pub(crate) fn spend(&mut self, amount: u64) -> bool {
        if self.left != NEVER && !self.boosted {
            self.left -= amount;
            self.used += amount;
        }
        self.left == 0 && !self.boosted
    }

    /// What happens by the rule at `now`: replenishments that are due, and what follows at once from
    /// a used-up budget.
    pub(crate) fn update(&mut self, now: u64) {
        match self.rule {
            Rule::Unlimited => {}
            Rule::Windows(_) if now < self.boundary => {}
            Rule::Windows(_) => self.enter_window(now),
            Rule::Deferrable | Rule::Polling | Rule::Periodic => self.catch_up(now),
            Rule::HardConstantBandwidth => {
                if self.left == 0 && now >= self.boundary {
                    self.boundary = self.boundary.saturating_add(self.period_ns);
                    self.refill(self.budget_ns);
                }
            }
            Rule::SoftConstantBandwidth => {
                if self.left == 0 {
                    self.boundary = self.boundary.saturating_add(self.period_ns);
                    self.refill(self.budget_ns);
                }
            }
            Rule::Sporadic => {
                if self.left == 0 {
                    self.set_replenishment();
                    self.next_part(now);
                }
            }
            Rule::PosixSporadic => {
                if self.left == 0 {
                    self.set_replenishment();
                }
                let empty = self.left == 0;
                self.replenish_pending(now);
                if empty && self.left > 0 {
                    self.activated = now;
                }
            }
        }
    }

    /// Whether a shortage begins: work has to wait for the first time since there was budget.
    #[inline]
    pub(crate) fn begins_shortage(&mut self) -> bool {
        let begins = self.active && self.left() == 0 && !self.short;
        self.short |= begins;
        begins
    }

    fn catch_up(&mut self, now: u64) {
        if now >= self.boundary {
            let passed = (now - self.boundary) / self.period_ns + 1;
            self.boundary = self
                .boundary
                .saturating_add(passed.saturating_mul(self.period_ns));
            self.refill(self.budget_ns);
        }
    }

    fn refill(&mut self, to: u64) {
        self.left = to;
        self.short = false;
        self.refilled = true;
    }

    /// Whether budget has come back since this was asked last.
    #[inline]
    pub(crate) fn was_refilled(&mut self) -> bool {
        std::mem::take(&mut self.refilled)
    }

    /// Opens or closes the partition as its windows have it at `now`, until the next of their edges.
    fn enter_window(&mut self, now: u64) {
        let Rule::Windows(windows) = &self.rule else {
            return;
        };
        // Frames lie at `activated`, which is below one frame, and whole frames from it.
        let into = if now >= self.activated {
            (now - self.activated) % self.period_ns
        } else {
            self.period_ns - (self.activated - now)
        };
        let frame = i128::from(now) - i128::from(into);
        let edge = |at: u64| u64::try_from(frame + i128::from(at)).unwrap_or(NEVER);
        let current = windows
            .iter()
            .map(|window| {
                let begin = window.offset.as_nanos();
                (begin, begin + window.length.as_nanos())
            })
            .find(|(_, end)| into < *end);
        let first = windows.first().map_or(0, |window| window.offset.as_nanos());
        match current {
            Some((begin, end)) if into >= begin => {
                // A window that reaches the end of the frame may go on in the next one.
                self.boundary = edge(end);
                self.refill(NEVER);
            }
            Some((begin, _)) => {
                self.boundary = edge(begin);
                self.left = 0;
            }
            None => {
                self.boundary = edge(self.period_ns.saturating_add(first));
                self.left = 0;
            }
        }
    }

    /// What was used since the activation comes back one period after it.
    fn set_replenishment(&mut self) {
        if self.used > 0 {
            let at = self.activated.saturating_add(self.period_ns);
            self.pending.push_back(Part {
                at,
                amount: self.used,
            });
            self.used = 0;
        }
    }

    /// An activation begins: what is there counts from now on, together with what comes back before
    /// it could be used up.
    fn begin_part(&mut self, now: u64) {
        if self.left == 0 {
            self.next_part(now);
        }
        if self.left > 0 {
            self.activated = now;
            self.join_parts();
        }
    }

    /// The present part is used up; the next one is taken if it is there. It counts from when it came
    /// back, since the server has been active since before.
    fn next_part(&mut self, now: u64) {
        if let Some(part) = self.pending.front().copied().filter(|part| part.at <= now) {
            self.pending.pop_front();
            self.activated = part.at;
            self.refill(part.amount);
            self.join_parts();
        }
    }

    fn join_parts(&mut self) {
        while let Some(next) = self.pending.front().copied() {
            if next.at > self.activated.saturating_add(self.left) {
                return;
            }
            self.pending.pop_front();
            self.left = self.left.saturating_add(next.amount).min(self.budget_ns);
        }
    }

    fn replenish_pending(&mut self, now: u64) {
        while let Some(due) = self.pending.front().copied().filter(|due| due.at <= now) {
            self.pending.pop_front();
            let to = self.left.saturating_add(due.amount).min(self.budget_ns);
            self.refill(to);
        }
    }
}

/// Windows are in order, within the frame, and none is empty.
fn check_windows(windows: &[Window], frame_ns: u64, reservation: usize) -> Result<(), PlanError> {
    if windows.is_empty() {
        return Err(PlanError::NoWindow { reservation });
    }
    let mut before = 0;
    for (index, window) in windows.iter().enumerate() {
        let begin = window.offset.as_nanos();
        // What cannot be added up ends behind every frame.
        let end = begin.checked_add(window.length.as_nanos());
        let end = end.filter(|end| *end <= frame_ns && begin >= before);
        let Some(end) = end.filter(|_| !window.length.is_zero()) else {
            return Err(PlanError::Window {
                reservation,
                window: index,
                offset: window.offset,
                length: window.length,
                frame: Duration::from_nanos(frame_ns),
            });
        };
        before = end;
    }
    Ok(())
}
