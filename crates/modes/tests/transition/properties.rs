//! What holds at every instant of every transition.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tailbound_model::{AgentPlace, ChangePolicy, Cpu, TaskStart};
use tailbound_modes::transition::{DomainChange, DomainMode, Ending, HeldMode, Options};
use tailbound_time::Duration;

use super::world::{Agent, change, limit, mode, run};

/// Domains whose old modes need no more than the limit together, nor their new ones.
fn changes() -> impl Strategy<Value = Vec<DomainChange>> {
    let period = || prop::sample::select(vec![1_000_u64, 2_000, 5_000, 7_000, 10_000, 40_000]);
    let one = (
        1..=100_u64,
        1..=100_u64,
        period(),
        period(),
        0..4_u8,
        any::<bool>(),
    );
    prop::collection::vec(one, 1..8).prop_map(|domains| {
        let sums = domains
            .iter()
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let of = |weight: u64, sum: u64, period_us: u64| (period_us * weight / sum).max(1);
        let named = domains.into_iter().enumerate();
        named
            .map(
                |(index, (old, new, old_period, new_period, kind, outside))| {
                    let from = mode("old", of(old, sums.0, old_period), old_period, &["old"]);
                    let mut to = mode("new", of(new, sums.1, new_period), new_period, &["new"]);
                    if kind == 3 || kind == 1 {
                        to.tasks = from.tasks.clone();
                    }
                    let mut change = change(&format!("d{index}"), from, to);
                    change.offset = Duration::from_micros(if old % 2 == 0 { old * 97 } else { 0 });
                    change.fallback = (kind == 2).then(|| mode("park", 1, 40_000, &[]));
                    change.agent = match kind {
                        1 => None,
                        _ if outside => Some(AgentPlace::Outside),
                        _ => Some(AgentPlace::Inside),
                    };
                    change
                },
            )
            .collect()
    })
}

fn agent() -> impl Strategy<Value = Agent> {
    let after = || (0..20_000_u64).prop_map(Duration::from_micros);
    prop_oneof![
        8 => after().prop_map(Agent::Answers),
        1 => after().prop_map(Agent::Fails),
        1 => after().prop_map(Agent::Ends),
        1 => Just(Agent::Hangs),
    ]
}

/// Every policy.
const ALL: [ChangePolicy; 5] = [
    ChangePolicy::Sequential,
    ChangePolicy::Batch,
    ChangePolicy::Greedy,
    ChangePolicy::Boost,
    ChangePolicy::Prompt,
];

/// Roundings of weights to whole microseconds lie below this.
const LIMIT_PERCENT: u64 = 101;

/// What a mode asks of a CPU, in millionths.
fn millionths(mode: &DomainMode) -> u64 {
    mode.interface.budget.as_nanos() * 1_000_000 / mode.interface.period.as_nanos()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn nothing_is_ever_overloaded(
        changes in changes(),
        agents in prop::collection::vec(agent(), 8),
        policy in prop::sample::select(ALL.to_vec()),
        in_force: bool,
        accepting in 0..3_000_u64,
        refuses in prop::option::of(0..8_usize),
    ) {
        let options = Options {
            policy,
            start: if in_force { TaskStart::InForce } else { TaskStart::Accepted },
            timeout: Duration::from_millis(50),
        };
        let (world, transition, outcome) = run(&changes, limit(LIMIT_PERCENT), options, |world| {
            world.accepting = Duration::from_micros(accepting);
            for (change, agent) in changes.iter().zip(&agents) {
                world.agents.insert(change.domain.clone(), *agent);
            }
            world.refuses.extend(refuses.map(|index| format!("d{index}")));
        });
        prop_assert!(world.most_in_force(Cpu(0)) <= LIMIT_PERCENT * 10 + 8, "{:?}", world.trace);
        prop_assert!(transition.timeline().ended_at.is_some());
        let at_once = match policy {
            ChangePolicy::Boost => 1,
            ChangePolicy::Prompt => 3,
            _ => 0,
        };
        prop_assert!(world.most_boosted <= at_once, "{:?}", world.trace);
        let by_name: BTreeMap<&str, &DomainChange> =
            changes.iter().map(|change| (change.domain.as_str(), change)).collect();
        for (domain, history) in &world.histories {
            let change = by_name[domain.as_str()];
            // Where tasks wait for what is in force, no domain's tasks ask for more.
            for (at, tasks) in history.tasks.iter().filter(|_| in_force && change.switches_tasks()) {
                let asked = if *tasks == change.to.tasks { millionths(&change.to) } else { 0 };
                let has = world.in_force(domain, *at);
                let has = has.budget.as_nanos() * 1_000_000 / has.period.as_nanos();
                prop_assert!(asked <= has, "{domain} asks for {asked} of {has}: {:?}", world.trace);
            }
            // Where new tasks wait, they wait long enough after the last old one was stopped.
            for pair in history.tasks.windows(2) {
                let ((stopped, before), (started, after)) = (&pair[0], &pair[1]);
                let starts = change.switches_tasks() && *after == change.to.tasks;
                if starts && *before != *after && !change.offset.is_zero() {
                    prop_assert!(before.is_empty(), "{domain}: {:?}", world.trace);
                    let waited = started.saturating_since(*stopped);
                    prop_assert!(waited >= change.offset, "{domain}: {:?}", world.trace);
                }
            }
            let settled = &outcome.domains[domain];
            let last = &history.interfaces.last().unwrap().1;
            let expected = match settled.interface {
                HeldMode::Old => &change.from.interface,
                HeldMode::New => &change.to.interface,
                HeldMode::Fallback => &change.fallback.as_ref().unwrap().interface,
            };
            prop_assert_eq!(last, expected, "{}: {:?}", domain, world.trace);
            let tasks = &history.tasks.last().unwrap().1;
            match settled.tasks {
                Some(HeldMode::New) => prop_assert_eq!(tasks, &change.to.tasks),
                Some(HeldMode::Old) => prop_assert_eq!(tasks, &change.from.tasks),
                Some(HeldMode::Fallback) => {
                    prop_assert_eq!(tasks, &change.fallback.as_ref().unwrap().tasks);
                }
                None => {}
            }
        }
    }

    #[test]
    fn where_all_answer_all_change(
        changes in changes(),
        delays in prop::collection::vec(0..20_000_u64, 8),
        policy in prop::sample::select(ALL.to_vec()),
        in_force: bool,
    ) {
        let options = Options {
            policy,
            start: if in_force { TaskStart::InForce } else { TaskStart::Accepted },
            timeout: Duration::from_millis(50),
        };
        let (_, _, outcome) = run(&changes, limit(LIMIT_PERCENT), options, |world| {
            for (change, delay) in changes.iter().zip(&delays) {
                let answers = Agent::Answers(Duration::from_micros(*delay));
                world.agents.insert(change.domain.clone(), answers);
            }
        });
        prop_assert_eq!(outcome.ending, Ending::Completed);
        for settled in outcome.domains.values() {
            let all_new = settled.interface == HeldMode::New && settled.tasks == Some(HeldMode::New);
            prop_assert!(all_new, "{settled:?}");
        }
    }
}
