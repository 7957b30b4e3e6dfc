//! The budget of a server outside of a simulation.

use tailbound_reservation::{Account, NEVER, ReservationError, ServerKind};
use tailbound_simulator::aperiodic::ServerBudget;
use tailbound_time::{Duration, Instant};

/// The budget of a reservation server, by the rules of the simulator, in the types of a program that serves
/// real threads by them. It knows no clock: the program says what has happened, and when.
///
/// Events come in order of time. [`update`](Self::update) is due at [`next_change`](Self::next_change),
/// and as soon as nothing is [`left`](Self::left).
#[derive(Clone, Debug)]
pub struct BudgetAccount(Account);

impl BudgetAccount {
    /// A full budget at the origin of time, where also the grid lies, if the rule has one. No work is
    /// there.
    ///
    /// # Errors
    /// If the budget is zero or above its period.
    pub fn new(rule: ServerKind, budget: &ServerBudget) -> Result<Self, ReservationError> {
        let ServerBudget { budget, period, .. } = *budget;
        Account::new(&rule.into(), budget, period, Duration::ZERO).map(Self)
    }

    /// How long work may run before it has to wait for a replenishment.
    pub fn left(&self) -> Duration {
        Duration::from_nanos(self.0.left())
    }

    /// When there is next something to update; nothing before work comes, or before it is used up.
    pub fn next_change(&self) -> Option<Instant> {
        match self.0.next_change() {
            NEVER => None,
            at => Some(Instant::from_nanos(at)),
        }
    }

    /// Work comes, and there was none.
    pub fn wake(&mut self, now: Instant) {
        self.0.wake(now.as_nanos());
    }

    /// There is no work any more.
    pub fn sleep(&mut self, now: Instant) {
        self.0.sleep(now.as_nanos());
    }

    /// Work ran for `amount`; returns what of it no budget covered.
    pub fn spend(&mut self, amount: Duration) -> Duration {
        let covered = amount.min(self.left());
        self.0.spend(covered.as_nanos());
        amount.saturating_sub(covered)
    }

    /// What is due by the rule at `now`.
    pub fn update(&mut self, now: Instant) {
        self.0.update(now.as_nanos());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_used_up_budget_comes_back_at_the_next_period() {
        let ms = Duration::from_millis;
        let at = |instant: u64| Instant::ORIGIN + ms(instant);
        let server = ServerBudget {
            budget: ms(3),
            period: ms(10),
            behind: 0,
        };
        let mut budget = BudgetAccount::new(ServerKind::Deferrable, &server).unwrap();
        budget.wake(at(7));
        assert_eq!(budget.spend(ms(4)), ms(1));
        assert_eq!(
            (budget.left(), budget.next_change()),
            (Duration::ZERO, Some(at(10)))
        );
        budget.update(at(10));
        assert_eq!(budget.left(), ms(3));
    }
}
