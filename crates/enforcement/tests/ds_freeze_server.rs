//! The rule of `ds-freeze` without a kernel: what any domain can get from it, in virtual time.

use proptest::prelude::*;
use tailbound_enforcement::ds_freeze::server::{
    COARSENESS, ChangeAt, ClosedPeriod, FixedGridServer, LONGEST_LEAD, ServerParameters, StopLead,
    Switch,
};
use tailbound_time::{Duration, Instant};

const NONE: StopLead = StopLead::Fixed(Duration::ZERO);

fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

fn at(microseconds: u64) -> Instant {
    Instant::ORIGIN + us(microseconds)
}

fn four_in_ten() -> FixedGridServer {
    let parameters = ServerParameters {
        budget: us(4_000),
        period: us(10_000),
    };
    FixedGridServer::new(parameters, NONE, at(0), us(0))
}

#[test]
fn a_busy_domain_is_stopped_and_let_go_on_the_grid() {
    let mut server = four_in_ten();
    let (first, closed) = server.replenish(at(20), us(0));
    // Back ends hand a domain over frozen, and the manager may come to it after its first grid
    // point: it has to be let go even so.
    assert_eq!(
        (first.switch, first.arm_depletion),
        (Some(Switch::Thaw), Some(us(4_000)))
    );
    assert_eq!((first.sleep_until, closed), (at(10_000), None));
    let stop = server.observed(us(4_005));
    assert_eq!(
        (stop.switch, stop.arm_depletion),
        (Some(Switch::Freeze), None)
    );
    assert_eq!(stop.sleep_until, at(10_000));
    // Stopped already: nothing more to do.
    assert_eq!(server.observed(us(4_010)).switch, None);
    let (go, closed) = server.replenish(at(10_030), us(4_012));
    assert_eq!(go.switch, Some(Switch::Thaw));
    assert_eq!(
        go.arm_depletion,
        Some(us(3_988)),
        "the overrun is paid back"
    );
    assert_eq!(
        go.sleep_until,
        at(20_000),
        "the grid does not move with lateness"
    );
    let expected = ClosedPeriod {
        index: 0,
        grid_start: at(0),
        replenished_at: at(20),
        budget: us(4_000),
        used: us(4_012),
        overrun: us(12),
        forgiven: us(0),
        depleted: true,
        debt: us(12),
        skipped: 0,
    };
    assert_eq!(closed, Some(expected));
}

#[test]
fn a_sleeping_domain_keeps_its_budget_to_the_end_of_the_period_and_no_longer() {
    let mut server = four_in_ten();
    server.replenish(at(0), us(0));
    let used = us(1_000);
    assert_eq!(server.observed(used).arm_depletion, Some(us(3_000)));
    let (next, _) = server.replenish(at(10_000), used);
    assert_eq!(
        next.arm_depletion,
        Some(us(4_000)),
        "3 ms are lost, not added"
    );
    assert_eq!(next.switch, None);
}

#[test]
fn a_large_debt_is_carried_over_several_periods() {
    let mut server = four_in_ten();
    server.replenish(at(0), us(0));
    server.observed(us(4_000));
    // It went on for 9 ms after it was told to stop: two whole budgets and a quarter of a third one.
    let used = us(13_000);
    let (first, closed) = server.replenish(at(10_000), used);
    assert_eq!(
        closed.map(|c| (c.overrun, c.debt)),
        Some((us(9_000), us(9_000)))
    );
    assert_eq!((first.switch, first.arm_depletion), (None, None));
    let (second, closed) = server.replenish(at(20_000), used);
    assert_eq!(
        closed.map(|c| (c.overrun, c.debt)),
        Some((us(0), us(5_000)))
    );
    assert_eq!(second.switch, None);
    let (third, _) = server.replenish(at(30_000), used);
    assert_eq!(
        (third.switch, third.arm_depletion),
        (Some(Switch::Thaw), Some(us(3_000)))
    );
}

#[test]
fn grid_points_that_a_stall_passed_over_are_skipped_and_counted() {
    let mut server = four_in_ten();
    server.replenish(at(0), us(0));
    // Held up from 2 ms on; the domain ran all the time. Three points passed: 10, 20, 30.
    let (actions, closed) = server.replenish(at(34_000), us(34_000));
    let closed = closed.expect("closed");
    assert_eq!((closed.skipped, closed.overrun), (2, us(22_000)));
    let lead = LONGEST_LEAD;
    assert_eq!((closed.forgiven, closed.debt), (us(22_000) - lead, lead));
    let left = us(4_000) - lead;
    assert_eq!(actions.arm_depletion, Some(left), "it is not left without");
    assert_eq!(actions.sleep_until, at(40_000), "still on the grid");
    let (_, closed) = server.replenish(at(40_000), us(34_000));
    assert_eq!(
        closed.map(|c| (c.index, c.grid_start)),
        Some((3, at(30_000)))
    );
}

#[test]
fn a_domain_that_ran_while_its_manager_was_held_up_is_not_left_without_budget() {
    let parameters = ServerParameters {
        budget: us(500),
        period: us(10_000),
    };
    let mut server = FixedGridServer::new(parameters, NONE, at(0), us(0));
    server.replenish(at(0), us(0));
    // The host took 5 ms, and then stopping took 100 us.
    let stop = server.observed(us(5_500));
    assert_eq!(stop.switch, Some(Switch::Freeze));
    let (next, closed) = server.replenish(at(10_000), us(5_600));
    let closed = closed.expect("closed");
    assert_eq!((closed.overrun, closed.forgiven), (us(5_100), us(4_800)));
    assert_eq!((closed.debt, server.debt()), (us(300), us(300)));
    assert_eq!(next.switch, Some(Switch::Thaw));
    assert_eq!(next.arm_depletion, Some(us(200)));
}

#[test]
fn stopping_early_costs_the_domain_nothing_in_the_end() {
    let parameters = ServerParameters {
        budget: us(4_000),
        period: us(10_000),
    };
    let lead = StopLead::Fixed(us(10));
    let mut server = FixedGridServer::new(parameters, lead, at(0), us(0));
    assert_eq!(
        server.replenish(at(0), us(0)).0.arm_depletion,
        Some(us(3_990))
    );
    assert_eq!(server.observed(us(3_990)).switch, Some(Switch::Freeze));
    let (next, closed) = server.replenish(at(10_000), us(3_994));
    assert_eq!(closed.map(|c| (c.overrun, c.debt)), Some((us(0), us(0))));
    assert_eq!(next.arm_depletion, Some(us(4_006 - 10)));
}

#[test]
fn the_lead_is_learnt_from_what_stopping_takes() {
    let parameters = ServerParameters {
        budget: us(4_000),
        period: us(10_000),
    };
    let mut server = FixedGridServer::new(parameters, StopLead::Learnt, at(0), us(0));
    let (mut used, mut overrun) = (us(0), us(0));
    for period in 0..60 {
        let (actions, closed) = server.replenish(at(period * 10_000), used);
        overrun = closed.map_or(us(0), |c| c.overrun);
        // Stopping takes 20 us from the alarm on.
        used = used + actions.arm_depletion.expect("runs") + us(20);
        server.observed(used);
    }
    assert!(overrun <= us(1), "{overrun}");
    assert!(used >= us(60 * 4_000 - 1_000), "{used}");
}

#[test]
fn before_the_first_grid_point_there_is_no_budget() {
    let parameters = ServerParameters {
        budget: us(4_000),
        period: us(10_000),
    };
    let mut server = FixedGridServer::new(parameters, NONE, at(5_000), us(700));
    let (actions, closed) = server.replenish(at(0), us(700));
    assert_eq!((actions.switch, closed), (Some(Switch::Freeze), None));
    assert_eq!(actions.sleep_until, at(5_000));
    let (actions, _) = server.replenish(at(5_001), us(712));
    assert_eq!(actions.switch, Some(Switch::Thaw));
    assert_eq!(actions.arm_depletion, Some(us(3_988)));
}

#[test]
fn a_switch_that_failed_is_asked_for_again() {
    let mut server = four_in_ten();
    server.replenish(at(0), us(0));
    assert_eq!(server.observed(us(4_000)).switch, Some(Switch::Freeze));
    server.forget_switch();
    assert_eq!(server.observed(us(4_500)).switch, Some(Switch::Freeze));
    let (go, _) = server.replenish(at(10_000), us(4_500));
    assert_eq!(go.switch, Some(Switch::Thaw));
    server.forget_switch();
    let again = server.observed(us(4_500));
    assert_eq!(
        (again.switch, again.arm_depletion),
        (Some(Switch::Thaw), Some(us(3_500)))
    );
}

#[test]
fn a_change_waits_for_the_grid_or_begins_one() {
    let half = ServerParameters {
        budget: us(1_000),
        period: us(2_000),
    };
    let mut server = four_in_ten();
    server.replenish(at(0), us(0));
    assert!(
        server
            .change(half, ChangeAt::NextReplenishment, at(3_000), us(0))
            .is_none()
    );
    assert_eq!(server.next_replenishment(), at(10_000));
    let (actions, _) = server.replenish(at(10_000), us(0));
    assert_eq!(
        (actions.arm_depletion, actions.sleep_until),
        (Some(us(1_000)), at(12_000))
    );
    let (actions, closed) = server
        .change(half, ChangeAt::Now, at(11_300), us(400))
        .expect("at once");
    assert_eq!(closed.map(|c| (c.index, c.used)), Some((1, us(400))));
    assert_eq!(
        (actions.arm_depletion, actions.sleep_until),
        (Some(us(1_000)), at(13_300))
    );
}

#[test]
fn a_change_may_have_to_wait_for_a_later_grid_point() {
    let half = ServerParameters {
        budget: us(1_000),
        period: us(2_000),
    };
    let mut server = four_in_ten();
    server.replenish(at(0), us(0));
    for (from, expected) in [
        (0, 10),
        (10_000, 10),
        (10_001, 20),
        (20_000, 20),
        (39_000, 40),
    ] {
        assert_eq!(
            server.in_force_at(at(from)),
            Some(at(expected * 1_000)),
            "{from}"
        );
    }
    let from = ChangeAt::ReplenishmentFrom(at(10_001));
    assert!(server.change(half, from, at(3_000), us(0)).is_none());
    let (actions, _) = server.replenish(at(10_000), us(0));
    assert_eq!(actions.sleep_until, at(20_000), "the old period");
    let (actions, _) = server.replenish(at(20_000), us(0));
    assert_eq!(actions.sleep_until, at(22_000), "the new one");
}

#[test]
fn a_later_change_does_not_replace_an_earlier_one() {
    let of = |budget, period| ServerParameters {
        budget: us(budget),
        period: us(period),
    };
    let mut server = FixedGridServer::new(of(5_000, 10_000), NONE, at(0), us(0));
    server.replenish(at(0), us(0));
    let ask = |server: &mut FixedGridServer, parameters, from| {
        let in_force_at = server.in_force_at(at(from));
        let from = ChangeAt::ReplenishmentFrom(at(from));
        assert!(server.change(parameters, from, at(1_000), us(0)).is_none());
        in_force_at
    };
    // Less soon, and more when somebody else gives it back.
    assert_eq!(ask(&mut server, of(1_000, 10_000), 1_000), Some(at(10_000)));
    assert_eq!(ask(&mut server, of(2_000, 5_000), 12_000), Some(at(20_000)));
    assert_eq!(ask(&mut server, of(4_000, 5_000), 21_000), Some(at(25_000)));
    assert_eq!(ask(&mut server, of(3_000, 5_000), 26_000), Some(at(30_000)));
    // There is no room behind them, but in place of any of them.
    assert!(!server.has_room());
    assert_eq!(ask(&mut server, of(9_000, 10_000), 31_000), None);
    assert_eq!(ask(&mut server, of(4_500, 5_000), 24_000), Some(at(25_000)));
    for (now, budget) in [
        (10_000, 1_000),
        (20_000, 2_000),
        (25_000, 4_500),
        (30_000, 4_500),
    ] {
        server.replenish(at(now), us(0));
        assert_eq!(server.parameters().budget, us(budget), "{now}");
    }
    // Of those whose grid points all passed unserved the last one holds.
    assert_eq!(ask(&mut server, of(1_000, 5_000), 31_000), Some(at(35_000)));
    assert_eq!(ask(&mut server, of(2_000, 5_000), 36_000), Some(at(40_000)));
    assert_eq!(ask(&mut server, of(3_000, 5_000), 90_000), Some(at(90_000)));
    server.replenish(at(51_000), us(0));
    assert_eq!(server.parameters().budget, us(2_000));
}

#[test]
fn a_change_at_once_thaws_a_stopped_domain_even_past_a_grid_point() {
    let half = ServerParameters {
        budget: us(5_000),
        period: us(10_000),
    };
    let mut server = four_in_ten();
    server.replenish(at(0), us(0));
    server.observed(us(4_000));
    let (actions, closed) = server
        .change(half, ChangeAt::Now, at(10_500), us(4_000))
        .expect("at once");
    assert_eq!(actions.switch, Some(Switch::Thaw));
    assert_eq!(actions.arm_depletion, Some(us(5_000)));
    assert_eq!(closed.map(|c| c.skipped), Some(1));
}

/// What happens between two looks of the manager: so much time passes, in which the domain uses
/// so much of it (per mille) unless it is stopped, and the look comes so much late. If it is told to
/// stop then, that takes it some time more.
#[derive(Clone, Debug)]
struct Step {
    share: u64,
    late_ns: u64,
    stops_ns: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let late = prop_oneof![8 => 0_u64..30_000, 1 => 0_u64..60_000_000];
    let share = prop_oneof![Just(1000), Just(0), 0_u64..=1000];
    let stops = prop_oneof![8 => 0_u64..100_000, 1 => 0_u64..30_000_000];
    (share, late, stops).prop_map(|(share, late_ns, stops_ns)| Step {
        share,
        late_ns,
        stops_ns,
    })
}

fn parameters() -> impl Strategy<Value = ServerParameters> {
    (100_u64..50_000, 0_u64..100).prop_map(|(period, percent)| {
        let budget = (period * percent / 100).max(100).min(period);
        ServerParameters {
            budget: us(budget),
            period: us(period),
        }
    })
}

fn policy() -> impl Strategy<Value = StopLead> {
    prop_oneof![
        Just(StopLead::Learnt),
        (0_u64..300).prop_map(|lead| StopLead::Fixed(us(lead))),
    ]
}

/// A host in virtual time that does what the state machine asks, late as the steps say.
struct Host {
    server: FixedGridServer,
    parameters: ServerParameters,
    now: Instant,
    used: Duration,
    frozen: bool,
    alarm: Option<Duration>,
    closed: Vec<ClosedPeriod>,
    /// Whether it has been told to stop since time last passed.
    stopping: bool,
    /// The most that the domain used in one period beyond what it was allowed.
    largest_excess: Duration,
    /// The most that it used after it was told to stop.
    largest_stop: Duration,
    /// What it used too much in this period before it was told.
    excess: Duration,
}

impl Host {
    fn new(parameters: ServerParameters, policy: StopLead) -> Self {
        Self {
            server: FixedGridServer::new(parameters, policy, at(0), us(0)),
            parameters,
            now: at(0),
            used: us(0),
            // As back ends hand a domain over.
            frozen: true,
            alarm: None,
            closed: Vec::new(),
            stopping: false,
            largest_excess: us(0),
            largest_stop: us(0),
            excess: us(0),
        }
    }

    fn forgiven(&self) -> Duration {
        let sum = self.closed.iter().map(|it| it.forgiven.as_nanos()).sum();
        Duration::from_nanos(sum)
    }

    fn look(&mut self) -> Result<(), TestCaseError> {
        let (actions, closed) = self.server.replenish(self.now, self.used);
        self.closed.extend(closed);
        match actions.switch {
            Some(Switch::Freeze) => {
                prop_assert!(!self.frozen, "stopped twice");
                self.frozen = true;
                self.stopping = true;
            }
            Some(Switch::Thaw) => {
                prop_assert!(self.frozen, "let go twice");
                self.frozen = false;
            }
            None => {}
        }
        prop_assert_eq!(self.frozen, self.server.is_frozen());
        prop_assert_eq!(
            self.frozen,
            actions.arm_depletion.is_none(),
            "watched while it runs"
        );
        prop_assert!(actions.sleep_until > self.now);
        let period = self.parameters.period.as_nanos();
        prop_assert_eq!(actions.sleep_until.as_nanos() % period, 0, "on the grid");
        prop_assert!(actions.sleep_until.as_nanos() - self.now.as_nanos() <= period);
        self.alarm = actions.arm_depletion;
        Ok(())
    }

    /// Runs to the next alarm or grid point, and on for as long as the look is late.
    fn pass(&mut self, step: &Step) {
        let grid = self.server.next_replenishment();
        let to_grid = grid.saturating_since(self.now);
        let share = |length: Duration| length.scaled_down(step.share, 1000);
        let late = Duration::from_nanos(step.late_ns);
        let Some(alarm) = self.alarm else {
            if std::mem::take(&mut self.stopping) {
                let stop = Duration::from_nanos(step.stops_ns).min(to_grid);
                self.used += stop;
                self.largest_stop = self.largest_stop.max(stop);
                self.largest_excess = self.largest_excess.max(self.excess + stop);
            }
            self.now = grid + late;
            return;
        };
        // The wall time after which the alarm goes off, if it does before the grid point.
        let wall = match step.share {
            0 => to_grid,
            share => alarm.scaled_up(1000, share).min(to_grid),
        };
        let using = share(wall + late);
        self.excess = using.saturating_sub(alarm);
        self.largest_excess = self.largest_excess.max(self.excess);
        self.used += using;
        self.now = self.now + wall + late;
    }

    /// Budgets given up to now.
    fn given(&self) -> Duration {
        let points = self.now.as_nanos() / self.parameters.period.as_nanos() + 1;
        Duration::from_nanos(points * self.parameters.budget.as_nanos())
    }
}

proptest! {
    #[test]
    fn nobody_gets_more_than_the_budgets_and_one_late_stop(
        parameters in parameters(),
        policy in policy(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut host = Host::new(parameters, policy);
        host.look()?;
        for step in &steps {
            host.pass(step);
            host.look()?;
            prop_assert!(
                host.used <= host.given() + host.forgiven() + host.largest_excess,
                "{} used of {} given, {} forgiven, one stop at most {} late",
                host.used, host.given(), host.forgiven(), host.largest_excess
            );
            // However late the manager comes, the domain is not left without budget for it.
            prop_assert!(host.server.debt() <= host.largest_stop + LONGEST_LEAD);
            let last = host.closed.last().map_or(us(0), |it| it.forgiven);
            prop_assert!(last <= host.largest_excess);
        }
    }

    #[test]
    fn debt_is_repaid_and_books_balance(
        parameters in parameters(),
        policy in policy(),
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut host = Host::new(parameters, policy);
        host.look()?;
        for step in &steps {
            host.pass(step);
            host.look()?;
        }
        // Every closed period is on the grid, in order, without a hole.
        let mut next = 0;
        let mut debt = us(0);
        for closed in &host.closed {
            prop_assert_eq!(closed.index, next);
            let start = closed.index * parameters.period.as_nanos();
            prop_assert_eq!(closed.grid_start.as_nanos(), start);
            prop_assert!(closed.debt <= debt + closed.overrun, "debt comes from overruns alone");
            next = closed.index + 1 + closed.skipped;
            debt = closed.debt;
        }
        let booked: u64 = host.closed.iter().map(|c| c.used.as_nanos()).sum();
        prop_assert!(booked <= host.used.as_nanos());
        // From here on it sleeps, and looks are in time: every debt is paid off at the rate of
        // one budget a period, no slower.
        // (The running period may have an overrun that is not booked yet.)
        let owed = host.server.debt() + host.largest_excess;
        let periods = owed.as_nanos().div_ceil(parameters.budget.as_nanos()) + 2;
        for _ in 0..periods.min(100_000) {
            host.pass(&Step { share: 0, late_ns: 0, stops_ns: 0 });
            host.look()?;
        }
        prop_assert_eq!(host.server.debt(), us(0));
        prop_assert!(!host.frozen);
    }

    #[test]
    fn a_busy_domain_gets_all_of_it(
        parameters in parameters(),
        policy in policy(),
        late in 0_u64..20_000,
    ) {
        prop_assume!(parameters.budget.as_nanos() + 100_000 < parameters.period.as_nanos());
        let mut host = Host::new(parameters, policy);
        host.look()?;
        let busy = Step { share: 1000, late_ns: late, stops_ns: 0 };
        while host.closed.len() < 50 {
            host.pass(&busy);
            host.look()?;
        }
        let used: u64 = host.closed.iter().map(|c| c.used.as_nanos()).sum();
        let fair = 50 * parameters.budget.as_nanos();
        let slack = LONGEST_LEAD.as_nanos() + COARSENESS.as_nanos() + 300_000;
        prop_assert!(used + slack >= fair, "{used} of {fair}");
        prop_assert!(used <= fair + slack, "{used} of {fair}");
    }
}
