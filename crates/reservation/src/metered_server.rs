//! The deferrable server on a fixed grid as a meter of CPU time shows it: the rule of `ds-freeze`.
//!
//! It knows no kernel: whoever drives it tells the time and the CPU time that the domain has used
//! in total, and carries out the [`Actions`] that come back.
//!
//! The rule is the deferrable server's (thesis, section 4.1; Strosnider, Lehoczky and Sha 1995):
//! the budget is full again at every point of the grid `origin + k * period`, is kept while the
//! domain sleeps, and what is left at the next point is lost. Stopping takes a little time, so a
//! domain can use a little more than its budget; that overrun is a *debt* which later budgets pay
//! back first. A domain that is stopped a little early, because stopping takes time, gets the
//! remainder as a *credit*, so that the long run is exact both ways.
//!
//! What a domain has used beyond its budget before it was even told to stop is another matter. Whoever
//! drives this comes before everything on its CPU: if he is late, the CPU was away (a hypervisor,
//! interrupts), and the kernel charges whoever happened to run. A stall of 25 ms would leave a domain
//! of 0.5 ms every 10 ms without any budget for half a second, for something that it neither did nor
//! had. Such an overrun is *forgiven*, but for [`LONGEST_LEAD`]: no other domain's guarantee rests on
//! its repayment.

use tailbound_time::{Duration, Instant};

use crate::ReplenishmentGrid;

/// Whether the domain is to run or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Stop it: its budget is used up.
    Freeze,
    /// Let it go on.
    Thaw,
}

/// What is to be done after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actions {
    /// Stop the domain or let it go on; `None` leaves it as it is.
    pub switch: Option<Switch>,
    /// Come back with [`FixedGridServer::observed`] once the domain has used this much more;
    /// `None` while it is stopped.
    pub arm_depletion: Option<Duration>,
    /// Come back with [`FixedGridServer::replenish`] at this instant, the next grid point.
    pub sleep_until: Instant,
}

/// A period that has ended: what the ledger keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClosedPeriod {
    /// Its place on the grid, from 0.
    pub index: u64,
    /// The grid point at which its budget was due.
    pub grid_start: Instant,
    /// When its budget was really given.
    pub replenished_at: Instant,
    /// Its nominal budget.
    pub budget: Duration,
    /// CPU time that the domain used in it.
    pub used: Duration,
    /// The part of that which no budget covered.
    pub overrun: Duration,
    /// Whether the budget ran out and the domain was stopped.
    pub depleted: bool,
    /// The part of the overrun that is no debt: the domain was told to stop so much too late.
    pub forgiven: Duration,
    /// What later budgets owe after it.
    pub debt: Duration,
    /// ReplenishmentGrid points that passed unserved after it (the manager was held up); their budgets count
    /// as given.
    pub skipped: u64,
}

impl ClosedPeriod {
    /// How late its budget was given.
    pub fn lateness(&self) -> Duration {
        self.replenished_at.saturating_since(self.grid_start)
    }
}

/// A budget and its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerParameters {
    /// CPU time per period; above zero, at most the period.
    pub budget: Duration,
    /// The distance between grid points; above zero.
    pub period: Duration,
}

/// When a change of parameters takes hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeAt {
    /// At the next grid point, from which the new period counts.
    NextReplenishment,
    /// At the first grid point that is not before an instant: what it takes up may be given back by
    /// others only then.
    ReplenishmentFrom(Instant),
    /// At once: the running period ends, a new grid begins here with a full budget less debt. A
    /// sequence of such changes can give more than the bandwidth; the mode-change protocol that
    /// asks for them has to account for it.
    Now,
}

/// How much before the end of a budget stopping begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopLead {
    /// Always this much.
    Fixed(Duration),
    /// As much as stopping this domain has taken lately: from the alarm to the last thread
    /// standing still, averaged over about eight depletions, at most [`LONGEST_LEAD`].
    Learnt,
}

/// A budget with no more left than this counts as used up: the meter may tell a microsecond too
/// little, and waking up once more costs more than that. What is left comes back as credit.
pub const COARSENESS: Duration = Duration::from_micros(10);

/// The most that [`StopLead::Learnt`] begins early.
pub const LONGEST_LEAD: Duration = Duration::from_micros(200);

/// So many changes of one server can wait for their grid points at a time.
pub const MOST_PENDING: usize = 4;

/// The state of one deferrable server.
#[derive(Clone, Debug)]
pub struct FixedGridServer {
    parameters: ServerParameters,
    /// What holds from the first grid point on that is not before an instant, one after the other, the
    /// places behind the last one empty. A later one does not replace an earlier one: what that gives back
    /// may be promised to others from its instant on.
    pending: [Option<(Instant, ServerParameters)>; MOST_PENDING],
    policy: StopLead,
    /// Begin to stop this much before the budget ends.
    stop_lead: Duration,
    current: ClosedPeriod,
    begun: bool,
    used_at_start: Duration,
    available: Duration,
    grid: ReplenishmentGrid,
    debt: Duration,
    credit: Duration,
    stopped_early_by: Duration,
    /// What had been used without budget when that was first seen.
    seen_late: Duration,
    /// Whether the domain is stopped; `None` before the first switch and after one that failed,
    /// so that the next action switches whatever the kernel's state is.
    frozen: Option<bool>,
}

impl FixedGridServer {
    /// A server whose first budget is due at `origin`; the domain has used `used_total` so far;
    /// whether it runs is not known, so the first action says. Call [`FixedGridServer::observed`] or, from `origin` on,
    /// [`FixedGridServer::replenish`] next: before `origin` the domain has no budget.
    pub fn new(
        parameters: ServerParameters,
        policy: StopLead,
        origin: Instant,
        used_total: Duration,
    ) -> Self {
        let stop_lead = match policy {
            StopLead::Fixed(lead) => lead,
            StopLead::Learnt => Duration::ZERO,
        };
        Self {
            parameters,
            pending: [None; MOST_PENDING],
            policy,
            stop_lead,
            current: ClosedPeriod::default(),
            begun: false,
            used_at_start: used_total,
            available: Duration::ZERO,
            grid: ReplenishmentGrid::new(origin, parameters.period),
            debt: Duration::ZERO,
            credit: Duration::ZERO,
            stopped_early_by: Duration::ZERO,
            seen_late: Duration::ZERO,
            frozen: None,
        }
    }

    /// The next grid point.
    pub fn next_replenishment(&self) -> Instant {
        self.grid.next()
    }

    /// Whether the domain is stopped.
    pub fn is_frozen(&self) -> bool {
        self.frozen == Some(true)
    }

    /// Whether the domain runs, and another replenishment would leave everything as it is if nothing is used until then.
    pub fn is_settled(&self) -> bool {
        let is_whole = self.debt.is_zero() && self.available == self.parameters.budget;
        is_whole && self.frozen == Some(false) && self.pending[0].is_none()
    }

    /// What later budgets owe.
    pub fn debt(&self) -> Duration {
        self.debt
    }

    /// The parameters of the running period.
    pub fn parameters(&self) -> ServerParameters {
        self.parameters
    }

    /// The last switch was not carried out, or undone: the next action asks for it again.
    pub fn forget_switch(&mut self) {
        self.frozen = None;
    }

    /// The domain has used `used_total` in total; asked when the alarm goes off, or by polling,
    /// before the next grid point.
    pub fn observed(&mut self, used_total: Duration) -> Actions {
        let used = used_total.saturating_sub(self.used_at_start);
        let left = self.available.saturating_sub(used);
        let lead = self.lead();
        if left <= lead.saturating_add(COARSENESS) {
            if self.begun && !self.current.depleted {
                self.current.depleted = true;
                self.stopped_early_by = left;
                self.seen_late = used.saturating_sub(self.available);
            }
            return self.actions(Switch::Freeze, None);
        }
        self.actions(Switch::Thaw, Some(left.saturating_sub(lead)))
    }

    /// Gives the budget of the grid point that was reached by `now`, the domain having used
    /// `used_total`; also closes the period before it, unless this is the first.
    ///
    /// Where several grid points have passed (the manager was held up), only the last one starts
    /// a period; the budgets of the others pay for what was used meanwhile, and what they leave
    /// is lost, as it is at every grid point. Too early, it is [`FixedGridServer::observed`].
    pub fn replenish(
        &mut self,
        now: Instant,
        used_total: Duration,
    ) -> (Actions, Option<ClosedPeriod>) {
        let Some((grid_start, skipped)) = self.grid.latest(now.as_nanos()) else {
            return (self.observed(used_total), None);
        };
        let grid_start = Instant::from_nanos(grid_start);
        let closed = self.close(used_total, skipped);
        let first = if self.begun {
            self.current.index + 1
        } else {
            0
        };
        let index = first + skipped;
        self.take_pending(grid_start);
        (self.open(index, grid_start, now, used_total), closed)
    }

    /// When a change that may not hold before an instant takes hold; `None` if there are too many before
    /// it already.
    pub fn in_force_at(&self, not_before: Instant) -> Option<Instant> {
        let (place, at) = self.place_of(not_before);
        (place < MOST_PENDING).then_some(at)
    }

    /// Where among the pending changes one belongs that may not hold before an instant, and its grid
    /// point: behind all that hold sooner.
    fn place_of(&self, not_before: Instant) -> (usize, Instant) {
        let mut grid = self.grid;
        for (place, pending) in self.pending.iter().enumerate() {
            let at = grid.first_from(not_before);
            let Some((from, parameters)) = pending else {
                return (place, at);
            };
            let sooner = grid.first_from(*from);
            if at <= sooner {
                return (place, at);
            }
            let next = sooner.saturating_add(parameters.period);
            grid = ReplenishmentGrid::new(next, parameters.period);
        }
        (MOST_PENDING, grid.first_from(not_before))
    }

    /// Goes over to what holds from a grid point on.
    fn take_pending(&mut self, grid_start: Instant) {
        let due = |pending: &&Option<(Instant, ServerParameters)>| {
            pending.is_some_and(|(from, _)| from <= grid_start)
        };
        let passed = self.pending.iter().take_while(due).count();
        if let Some((_, parameters)) = passed.checked_sub(1).and_then(|last| self.pending[last]) {
            self.parameters = parameters;
            self.pending[..passed].fill(None);
            self.pending.rotate_left(passed);
        }
    }

    /// The grid point whose period [`FixedGridServer::replenish`] would open now, if it would.
    pub fn opens_at(&self, now: Instant) -> Option<Instant> {
        let (point, _) = self.grid.latest(now.as_nanos())?;
        Some(Instant::from_nanos(point))
    }

    /// The grid point of the latest period, if there was one.
    pub fn opened_at(&self) -> Option<Instant> {
        self.begun.then_some(self.current.grid_start)
    }

    /// Whether the period will be another one.
    pub fn changes_period(&self) -> bool {
        let mut pending = self.pending.iter().flatten();
        pending.any(|(_, parameters)| parameters.period != self.parameters.period)
    }

    /// Whether another change can wait, whenever it is to hold.
    pub fn has_room(&self) -> bool {
        self.pending[MOST_PENDING - 1].is_none()
    }

    /// Changes budget and period. Unless it is [`ChangeAt::Now`] nothing is to be done now. Changes that
    /// wait to hold then or later are dropped, earlier ones are not. It is not taken if
    /// [`FixedGridServer::in_force_at`] knows no instant.
    pub fn change(
        &mut self,
        parameters: ServerParameters,
        at: ChangeAt,
        now: Instant,
        used_total: Duration,
    ) -> Option<(Actions, Option<ClosedPeriod>)> {
        let from = match at {
            ChangeAt::NextReplenishment => Some(Instant::ORIGIN),
            ChangeAt::ReplenishmentFrom(instant) => Some(instant),
            ChangeAt::Now => None,
        };
        if let Some(from) = from {
            let (place, _) = self.place_of(from);
            if let Some((first, later)) = self.pending[place.min(MOST_PENDING)..].split_first_mut()
            {
                *first = Some((from, parameters));
                later.fill(None);
            }
            return None;
        }
        let latest = self.grid.latest(now.as_nanos());
        let missed = latest.map_or(0, |(_, skipped)| skipped + 1);
        let closed = self.close(used_total, missed);
        self.pending = [None; MOST_PENDING];
        self.parameters = parameters;
        let index = if self.begun {
            self.current.index + 1 + missed
        } else {
            0
        };
        Some((self.open(index, now, now, used_total), closed))
    }

    /// Ends the running period, if there is one, and settles debt and credit.
    fn close(&mut self, used_total: Duration, skipped: u64) -> Option<ClosedPeriod> {
        let used = used_total.saturating_sub(self.used_at_start);
        if !self.begun {
            // Whatever was used before the first grid point had no budget.
            self.debt = used;
            return None;
        }
        let given = self
            .parameters
            .budget
            .checked_mul(skipped + 1)
            .unwrap_or(Duration::MAX);
        let unpaid = self.debt.saturating_sub(given);
        let entitled = given.saturating_add(self.credit);
        let owed = self.debt.saturating_add(used).saturating_sub(entitled);
        let overrun = owed.saturating_sub(unpaid);
        let seen_late = match self.current.depleted {
            true => self.seen_late,
            false => overrun,
        };
        let forgiven = overrun.min(seen_late.saturating_sub(LONGEST_LEAD));
        let owed = owed.saturating_sub(forgiven);
        // A remainder is lost, but for what was kept back by stopping early.
        let unused = self.available.saturating_sub(used);
        self.credit = match (owed.is_zero() && overrun.is_zero(), skipped) {
            (true, 0) => unused.min(self.stopped_early_by),
            _ => Duration::ZERO,
        };
        self.debt = owed;
        if skipped == 0 {
            self.learn(used);
        }
        Some(ClosedPeriod {
            used,
            overrun,
            forgiven,
            debt: owed,
            skipped,
            ..self.current
        })
    }

    /// The lead in force: never more than a quarter of a budget.
    fn lead(&self) -> Duration {
        self.stop_lead.min(self.parameters.budget.scaled_down(1, 4))
    }

    /// Draws from a depletion how long stopping takes.
    fn learn(&mut self, used: Duration) {
        let target = self.available.saturating_sub(self.lead());
        if self.policy != StopLead::Learnt || !self.current.depleted || target.is_zero() {
            return;
        }
        let took = used.saturating_sub(target).min(LONGEST_LEAD).as_nanos();
        let lead = self.stop_lead.as_nanos();
        self.stop_lead = Duration::from_nanos((lead * 7 + took) / 8);
    }

    /// Starts a period at `grid_start`.
    fn open(
        &mut self,
        index: u64,
        grid_start: Instant,
        now: Instant,
        used_total: Duration,
    ) -> Actions {
        let ServerParameters { budget, period } = self.parameters;
        self.begun = true;
        self.used_at_start = used_total;
        self.available = budget.saturating_add(self.credit).saturating_sub(self.debt);
        self.grid = ReplenishmentGrid::new(grid_start.saturating_add(period), period);
        self.stopped_early_by = Duration::ZERO;
        self.seen_late = Duration::ZERO;
        self.current = ClosedPeriod {
            index,
            grid_start,
            replenished_at: now,
            budget,
            depleted: false,
            ..ClosedPeriod::default()
        };
        self.observed(used_total)
    }

    fn actions(&mut self, wanted: Switch, arm_depletion: Option<Duration>) -> Actions {
        let freeze = wanted == Switch::Freeze;
        let switch = (self.frozen != Some(freeze)).then_some(wanted);
        self.frozen = Some(freeze);
        Actions {
            switch,
            arm_depletion,
            sleep_until: self.grid.next(),
        }
    }
}
