//! Audsley's assignment against all orders.

use proptest::prelude::*;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::schedulability::PriorityOrder;
use tailbound_analysis::schedulability::priority_assignment::{
    audsley, audsley_by_response_time, deadline_monotonic, rate_monotonic,
};
use tailbound_analysis::schedulability::response_time::response_times;
use tailbound_time::Duration;

use super::small_set;

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for shorter in permutations(count - 1) {
        for place in 0..count {
            let mut one = shorter.clone();
            one.insert(place, count - 1);
            all.push(one);
        }
    }
    all
}

fn schedulable(tasks: &[SporadicTask], order: &PriorityOrder, blocking: &[Duration]) -> bool {
    response_times(tasks, order, blocking)
        .unwrap()
        .schedulable()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn finds_an_order_if_and_only_if_there_is_one(
        tasks in small_set(4, 12, 6),
        blocking in prop::collection::vec(0_u64..3, 4),
    ) {
        let blocking: Vec<_> =
            blocking[..tasks.len()].iter().copied().map(Duration::from_nanos).collect();
        let order = audsley_by_response_time(&tasks, &blocking).unwrap();
        let permutations = permutations(tasks.len()).into_iter();
        let mut orders = permutations.map(|one| PriorityOrder::new(one).unwrap());
        let exists = orders.any(|order| schedulable(&tasks, &order, &blocking));
        prop_assert_eq!(order.is_some(), exists);
        if let Some(order) = order {
            prop_assert!(schedulable(&tasks, &order, &blocking));
        }
    }

    #[test]
    fn accepts_whatever_a_rule_does(tasks in small_set(6, 12, 6)) {
        let rules = [rate_monotonic, deadline_monotonic];
        if rules.iter().any(|rule| schedulable(&tasks, &rule(&tasks), &[])) {
            prop_assert!(audsley_by_response_time(&tasks, &[]).unwrap().is_some());
        }
    }

    #[test]
    fn any_test_can_be_asked_and_is_asked_seldom(ranks in prop::collection::vec(0_u32..40, 0..9)) {
        // Schedulable at a level if at most as many are above as the rank says.
        let mut questions = 0;
        let assignment = audsley(ranks.len(), |question| {
            questions += 1;
            let count = question.higher.len() + question.lower.len() + 1;
            assert_eq!(count, ranks.len());
            Ok(question.higher.len() <= ranks[question.task] as usize)
        });
        let assignment = assignment.unwrap();
        prop_assert!(questions <= ranks.len() * (ranks.len() + 1) / 2);
        let mut sorted = ranks.clone();
        sorted.sort_unstable();
        let exists = sorted.iter().enumerate().all(|(above, rank)| above <= *rank as usize);
        prop_assert_eq!(assignment.is_some(), exists);
    }
}
