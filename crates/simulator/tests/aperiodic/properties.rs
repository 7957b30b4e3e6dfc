//! What must hold under every policy.

use proptest::prelude::*;
use tailbound_simulator::aperiodic::{Gain, Policy, ServerKind};

use super::sets::{Set, a_set, budget};

pub const DUAL_GAINS: [Gain; 4] = [Gain::None, Gain::Own, Gain::Propagated, Gain::Both];
pub const SLACK_GAINS: [Gain; 2] = [Gain::None, Gain::Propagated];

/// The largest budget in that period with which no deadline is missed, if there is one.
fn largest_budget(set: &Set, period_ns: u64, held_back: bool) -> Option<u64> {
    (1..=period_ns).rev().find(|budget_ns| {
        let jitter_ns = if held_back { period_ns - budget_ns } else { 0 };
        set.response_times(Some((*budget_ns, period_ns, jitter_ns)))
            .is_some()
    })
}

/// Every policy whose interference the set bears.
pub fn bearable(set: &Set, period_ns: u64) -> Vec<Policy> {
    let mut policies = vec![Policy::Background];
    for gain in DUAL_GAINS {
        let promotions = set.promotions().unwrap();
        policies.push(Policy::DualPriority { promotions, gain });
    }
    for gain in SLACK_GAINS {
        policies.push(Policy::SlackStealing { gain });
    }
    for (rule, held_back) in [
        (ServerKind::Polling, false),
        (ServerKind::Sporadic, false),
        (ServerKind::Deferrable, true),
        (ServerKind::ConstantBandwidth, true),
    ] {
        if let Some(budget_ns) = largest_budget(set, period_ns, held_back) {
            policies.push(Policy::Server {
                rule,
                budget: budget(budget_ns, period_ns),
                spills: true,
            });
        }
    }
    if let Some(budget_ns) = largest_budget(set, period_ns, false) {
        policies.push(Policy::PriorityExchange(budget(budget_ns, period_ns)));
    }
    policies
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_deadline_is_missed_and_no_soft_job_is_later_than_in_the_background(
        set in a_set(),
        period_ns in 2_u64..25,
    ) {
        let background = set.soft_ends(Policy::Background);
        for policy in bearable(&set, period_ns) {
            let completions = set.run(policy.clone());
            prop_assert_eq!(completions.len(), set.jobs.len());
            prop_assert_eq!(set.missed(&completions), None, "{:?}", policy);
            // Among policies that never idle with work at hand, the background gives hard jobs the most
            // at any time, and soft jobs the least.
            let ends = set.soft_ends(policy.clone());
            for (end, in_background) in ends.iter().zip(&background) {
                prop_assert!(end <= in_background, "{:?}: {:?} {:?}", policy, ends, background);
            }
        }
    }
}
