//! The budget of one reservation by its rule.

use tailbound_model::ServerKind;
use tailbound_time::{Duration, Instant};

use crate::budget::{Budget, Replenishment};
use crate::rules::burstable::Burstable;
use crate::rules::constant_bandwidth::ConstantBandwidth;
use crate::rules::deferrable::Deferrable;
use crate::rules::periodic::Periodic;
use crate::rules::polling::Polling;
use crate::rules::posix_sporadic::PosixSporadic;
use crate::rules::shared_budget::SharedBudget;
use crate::rules::soft_constant_bandwidth::SoftConstantBandwidth;
use crate::rules::sporadic::Sporadic;
use crate::rules::windows::Windows;
use crate::{NEVER, ReplenishmentGrid, ReservationError, Rule};

/// The budget of one reservation in the course of time, in nanoseconds from the origin.
///
/// Events come in order of time. [`update`](Self::update) is due at [`next_change`](Self::next_change),
/// and as soon as nothing is [`left`](Self::left).
#[derive(Clone, Debug)]
pub struct Account {
    budget: Budget,
    rule: RuleState,
}

#[derive(Clone, Debug)]
enum RuleState {
    Unlimited,
    Deferrable(Deferrable),
    Periodic(Periodic),
    Polling(Polling),
    ConstantBandwidth(ConstantBandwidth),
    SoftConstantBandwidth(SoftConstantBandwidth),
    Sporadic(Sporadic),
    PosixSporadic(PosixSporadic),
    Burstable(Burstable),
    Shared(SharedBudget),
    Windows(Windows),
}

/// Asks the rule of an account; without a rule the answer is the last argument.
macro_rules! ask {
    ($state:expr, $rule:ident => $question:expr, $unlimited:expr) => {
        match $state {
            RuleState::Unlimited => $unlimited,
            RuleState::Deferrable($rule) => $question,
            RuleState::Periodic($rule) => $question,
            RuleState::Polling($rule) => $question,
            RuleState::ConstantBandwidth($rule) => $question,
            RuleState::SoftConstantBandwidth($rule) => $question,
            RuleState::Sporadic($rule) => $question,
            RuleState::PosixSporadic($rule) => $question,
            RuleState::Burstable($rule) => $question,
            RuleState::Shared($rule) => $question,
            RuleState::Windows($rule) => $question,
        }
    };
}

impl Account {
    /// The account of a reservation without a limit.
    pub fn unlimited() -> Self {
        Self {
            budget: Budget::unlimited(),
            rule: RuleState::Unlimited,
        }
    }

    /// The account of a reservation that is idle at time 0. ReplenishmentGrid points, or frames, lie at the phase and
    /// whole periods from it. Budget and period mean nothing without a limit; of windows the period is
    /// the frame.
    ///
    /// # Errors
    /// For a budget of zero or above the period, and for windows that do not lie in a frame.
    pub fn new(
        rule: &Rule,
        budget: Duration,
        period: Duration,
        phase: Duration,
    ) -> Result<Self, ReservationError> {
        let kind = match rule {
            Rule::Unlimited => return Ok(Self::unlimited()),
            Rule::Windows(windows) => {
                let mut budget = Budget::full(Duration::ZERO, period);
                let rule = Windows::new(windows.clone(), phase, &mut budget)?;
                return Ok(Self::of(budget, RuleState::Windows(rule)));
            }
            Rule::WindowsAndSlack { windows, slack } => {
                // Who comes first in which of them is a question of the level, by the ranks of its members.
                let mut all = [windows.as_slice(), slack].concat();
                all.sort_by_key(|window| window.offset);
                return Self::new(&Rule::Windows(all), budget, period, phase);
            }
            Rule::Server(kind) => *kind,
        };
        if budget.is_zero() || budget > period {
            return Err(ReservationError::Budget { budget, period });
        }
        let mut budget = Budget::full(budget, period);
        let grid = grid_from(period, phase);
        let rule = match kind {
            ServerKind::Deferrable => RuleState::Deferrable(Deferrable(grid)),
            ServerKind::Periodic => RuleState::Periodic(Periodic::new(grid, &mut budget)),
            ServerKind::Polling => RuleState::Polling(Polling(grid)),
            ServerKind::ConstantBandwidth => {
                RuleState::ConstantBandwidth(ConstantBandwidth::default())
            }
            ServerKind::SoftConstantBandwidth => {
                RuleState::SoftConstantBandwidth(SoftConstantBandwidth::default())
            }
            ServerKind::Sporadic => RuleState::Sporadic(Sporadic::default()),
            ServerKind::PosixSporadic => RuleState::PosixSporadic(PosixSporadic::default()),
            ServerKind::Burstable => RuleState::Burstable(Burstable(grid)),
        };
        Ok(Self::of(budget, rule))
    }

    /// The account of one of `cpus` CPUs that share a deferrable budget. Whoever drives it spends here, too, what the
    /// others use, so that the accounts of all of them have the same left.
    ///
    /// # Errors
    /// For a budget of less than a nanosecond a CPU, or above the period times the CPUs.
    pub fn of_one_of(
        cpus: usize,
        budget: Duration,
        period: Duration,
        phase: Duration,
    ) -> Result<Self, ReservationError> {
        let cpus = cpus as u64;
        let longest = period.checked_mul(cpus).unwrap_or(Duration::MAX);
        if budget.as_nanos() < cpus.max(1) || budget > longest {
            return Err(ReservationError::SharedBudget {
                budget,
                period,
                cpus,
            });
        }
        let rule = RuleState::Shared(SharedBudget(grid_from(period, phase)));
        Ok(Self::of(Budget::full(budget, period), rule))
    }

    fn of(mut budget: Budget, rule: RuleState) -> Self {
        // Nobody has waited for the first budget.
        budget.was_refilled();
        Self { budget, rule }
    }

    /// How long it may be used without another replenishment; zero if it has to wait.
    #[inline]
    pub fn left(&self) -> u64 {
        self.budget.left()
    }

    /// Whether it is neither bound by its budget nor spends it.
    #[inline]
    pub fn is_boosted(&self) -> bool {
        self.budget.is_boosted()
    }

    /// Begins or ends a boost.
    pub fn set_boosted(&mut self, boosted: bool) {
        self.budget.set_boosted(boosted);
    }

    /// Whether it is used up by the passing of time while there is no work.
    #[inline]
    pub fn passes_unused(&self) -> bool {
        matches!(self.rule, RuleState::Periodic(_))
    }

    /// The deadline by which a level under earliest deadline first orders it; never, if its rule has none.
    #[inline]
    pub fn deadline(&self) -> u64 {
        ask!(&self.rule, rule => rule.deadline(), NEVER)
    }

    /// When it next changes by itself; never, if it does not matter before work comes.
    #[inline]
    pub fn next_change(&self) -> u64 {
        ask!(&self.rule, rule => rule.next_change(&self.budget), NEVER)
    }

    /// Work comes, and there was none.
    #[inline]
    pub fn wake(&mut self, now: u64) {
        self.budget.active = true;
        ask!(&mut self.rule, rule => rule.wake(&mut self.budget, now), ());
    }

    /// There is no work any more.
    #[inline]
    pub fn sleep(&mut self, now: u64) {
        self.budget.active = false;
        ask!(&mut self.rule, rule => rule.sleep(&mut self.budget, now), ());
    }

    /// `amount` was used, or passed unused; at most what was left. Returns whether nothing is left to
    /// go on with.
    #[inline]
    pub fn spend(&mut self, amount: u64) -> bool {
        self.budget.spend(amount)
    }

    /// What happens by the rule at `now`: replenishments that are due, and what follows at once from
    /// a used-up budget.
    #[inline]
    pub fn update(&mut self, now: u64) {
        ask!(&mut self.rule, rule => rule.update(&mut self.budget, now), ());
    }

    /// Whether a shortage begins: work has to wait for the first time since there was budget.
    #[inline]
    pub fn begins_shortage(&mut self) -> bool {
        self.budget.begins_shortage()
    }

    /// Whether budget has come back since this was asked last.
    #[inline]
    pub fn was_refilled(&mut self) -> bool {
        self.budget.was_refilled()
    }
}

/// The grid of points at the phase and whole periods from it, after time 0.
fn grid_from(period: Duration, phase: Duration) -> ReplenishmentGrid {
    let next = match phase.as_nanos() % period.as_nanos() {
        0 => period.as_nanos(),
        phase_ns => phase_ns,
    };
    ReplenishmentGrid::new(Instant::from_nanos(next), period)
}
