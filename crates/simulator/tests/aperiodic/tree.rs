//! Policies that the tree of reservations knows too yield the same completions there.

use proptest::prelude::*;
use tailbound_simulator::aperiodic::{Policy, ServerBudget, ServerKind};
use tailbound_simulator::hierarchy::{
    Completion, HierarchyPlan, Level, LevelMember, PlannedReservation, PlannedTask, Rank, Rule,
    simulate_plan,
};
use tailbound_time::Duration;

use super::sets::{Set, a_set, ns};

fn level(members: Vec<LevelMember>) -> Level {
    Level::of(members)
}

/// The hard tasks by rank, and behind them in the tree (in front by rank, if need be) the soft one.
fn plan(set: &Set, rule: Rule, place: ServerBudget) -> HierarchyPlan {
    let task = |rank| LevelMember::Task(PlannedTask::of_rank(rank));
    let ranks = 0..set.tasks.len() as u64;
    let mut members: Vec<LevelMember> = ranks.map(|rank| task(Rank::Fixed(2 * rank + 1))).collect();
    members.push(LevelMember::Reservation(PlannedReservation {
        rank: Rank::Fixed(2 * place.behind as u64),
        rule,
        budget: place.budget,
        period: place.period,
        phase: Duration::ZERO,
        inside: level(vec![task(Rank::Fixed(0))]),
    }));
    HierarchyPlan::on_one_cpu(level(members))
}

fn in_tree(set: &Set, plan: &HierarchyPlan) -> Vec<Completion> {
    let mut completions = Vec::new();
    simulate_plan(plan, &mut set.jobs.as_slice(), &mut completions, None).unwrap();
    completions
}

proptest! {
    #[test]
    fn servers_are_reservations(
        set in a_set(),
        period_ns in 3_u64..20,
        part in 1_u64..20,
        place in 0_usize..6,
    ) {
        let budget = ServerBudget {
            budget: ns(part.min(period_ns)),
            period: ns(period_ns),
            behind: place.min(set.tasks.len()),
        };
        for rule in [
            ServerKind::Polling,
            ServerKind::Deferrable,
            ServerKind::Sporadic,
            ServerKind::ConstantBandwidth,
        ] {
            let spills = false;
            let ours = set.run(Policy::Server { rule, budget, spills });
            let plan = plan(&set, rule.into(), budget);
            prop_assert_eq!(ours, in_tree(&set, &plan), "{:?}", rule);
        }
    }

    #[test]
    fn the_background_is_the_last_rank(set in a_set()) {
        let last = ServerBudget {
            budget: ns(1),
            period: ns(1),
            behind: set.tasks.len(),
        };
        let plan = plan(&set, Rule::Unlimited, last);
        prop_assert_eq!(set.run(Policy::Background), in_tree(&set, &plan));
    }
}
