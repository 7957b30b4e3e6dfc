//! The deferrable rule has two forms: an account that is exact to the nanosecond, which the simulator
//! spends from, and a server that reads a meter, by which `ds-freeze` serves. With a manager that is never
//! late both deplete and replenish at the same instants.

use std::collections::VecDeque;

use proptest::prelude::*;
use tailbound_reservation::metered_server::{
    Actions, COARSENESS, FixedGridServer, ServerParameters, StopLead, Switch,
};
use tailbound_reservation::{Account, NEVER, Rule, ServerKind};
use tailbound_time::{Duration, Instant};

/// What becomes of work that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Depleted(u64),
    Replenished(u64),
    /// All work that has come is done.
    Done(u64),
}

/// Work that comes to a CPU with nothing else on it, in nanoseconds: when, and how much.
type Demand = VecDeque<(u64, u64)>;

/// Takes what comes at `now`, which is the first or more.
fn take(demand: &mut Demand, now: u64) -> u64 {
    let mut work = 0;
    while demand.front().is_some_and(|(at, _)| *at <= now) {
        work += demand.pop_front().map_or(0, |(_, work)| work);
    }
    work
}

fn next(demand: &Demand) -> u64 {
    demand.front().map_or(NEVER, |(at, _)| *at)
}

fn by_account(mut account: Account, mut demand: Demand) -> Vec<Event> {
    let (mut now, mut work) = (0, 0);
    let mut events = Vec::new();
    while work > 0 || !demand.is_empty() {
        let runs = work > 0 && account.left() > 0;
        let until = if runs {
            now + work.min(account.left())
        } else {
            NEVER
        };
        let until = until.min(account.next_change()).min(next(&demand));
        let before = account.left();
        if runs {
            account.spend(until - now);
            work -= until - now;
        }
        now = until;
        if account.next_change() <= now {
            account.update(now);
            if before == 0 && account.left() > 0 {
                events.push(Event::Replenished(now));
            }
        }
        if runs && work == 0 {
            account.sleep(now);
            events.push(Event::Done(now));
        } else if runs && account.left() == 0 {
            account.update(now);
            events.push(Event::Depleted(now));
        }
        let coming = take(&mut demand, now);
        if coming > 0 && work == 0 {
            account.wake(now);
        }
        work += coming;
    }
    events
}

struct Metered {
    server: FixedGridServer,
    frozen: bool,
    alarm: u64,
}

impl Metered {
    fn follow(&mut self, actions: Actions) {
        match actions.switch {
            Some(Switch::Freeze) => self.frozen = true,
            Some(Switch::Thaw) => self.frozen = false,
            None => {}
        }
        self.alarm = actions.arm_depletion.map_or(NEVER, Duration::as_nanos);
    }
}

fn by_meter(parameters: ServerParameters, mut demand: Demand) -> Vec<Event> {
    let lead = StopLead::Fixed(Duration::ZERO);
    let server = FixedGridServer::new(parameters, lead, Instant::ORIGIN, Duration::ZERO);
    let mut domain = Metered {
        server,
        frozen: true,
        alarm: NEVER,
    };
    let (actions, _) = domain.server.replenish(Instant::ORIGIN, Duration::ZERO);
    domain.follow(actions);
    let (mut now, mut work, mut used) = (0, 0, 0);
    let mut events = Vec::new();
    while work > 0 || !demand.is_empty() {
        let runs = work > 0 && !domain.frozen;
        let until = if runs {
            now + work.min(domain.alarm)
        } else {
            NEVER
        };
        let grid = domain.server.next_replenishment().as_nanos();
        let until = until.min(grid).min(next(&demand));
        if runs {
            work -= until - now;
            used += until - now;
            domain.alarm -= until - now;
        }
        now = until;
        let total = Duration::from_nanos(used);
        if now == grid {
            let before = domain.frozen;
            let (actions, _) = domain.server.replenish(Instant::from_nanos(now), total);
            domain.follow(actions);
            if before && work > 0 {
                assert!(!domain.frozen);
                events.push(Event::Replenished(now));
            }
        }
        if runs && domain.alarm == 0 {
            let actions = domain.server.observed(total);
            domain.follow(actions);
        }
        if runs && work == 0 {
            events.push(Event::Done(now));
        } else if runs && domain.frozen {
            events.push(Event::Depleted(now));
        }
        work += take(&mut demand, now);
    }
    events
}

/// Instants and amounts in steps above what the meter takes for nothing.
fn steps(count: u64) -> u64 {
    2 * count * COARSENESS.as_nanos()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn account_and_metered_server_deplete_and_replenish_at_the_same_instants(
        period in 1_u64..40, share in 1_u64..=100,
        demand in prop::collection::vec((0_u64..60, 1_u64..50), 1..40),
    ) {
        let budget = Duration::from_nanos(steps((period * share).div_ceil(100)));
        let period = Duration::from_nanos(steps(period));
        let mut at = 0;
        let demand: Demand = demand.iter().map(|(gap, work)| {
            at += steps(*gap);
            (at, steps(*work))
        }).collect();
        let rule = Rule::Server(ServerKind::Deferrable);
        let account = Account::new(&rule, budget, period, Duration::ZERO).unwrap();
        let exact = by_account(account, demand.clone());
        prop_assert!(exact.iter().any(|event| matches!(event, Event::Done(_))));
        prop_assert_eq!(exact, by_meter(ServerParameters { budget, period }, demand));
    }
}
