//! A quota with a burst lies between a quota alone and a quota as long as both: on a CPU with nothing else none of its
//! requests is answered later than by the one, nor sooner than by the other.

use proptest::prelude::*;
use tailbound_reservation::{Account, NEVER, Rule, ServerKind};
use tailbound_time::Duration;

/// When each request is answered, in nanoseconds: (arrival, execution time) in the order of service.
fn answers(
    kind: ServerKind,
    (budget, period): (Duration, Duration),
    requests: &[(u64, u64)],
) -> Vec<u64> {
    let mut account = Account::new(&Rule::Server(kind), budget, period, Duration::ZERO).unwrap();
    let (mut now, mut answered) = (0, Vec::new());
    for &(arrival, mut work) in requests {
        if now <= arrival {
            while account.next_change() <= arrival {
                account.update(account.next_change());
            }
            now = arrival;
            account.sleep(now);
            account.wake(now);
        }
        while work > 0 {
            let run = work.min(account.left()).min(account.next_change() - now);
            account.spend(run);
            (now, work) = (now + run, work - run);
            if account.next_change() <= now {
                account.update(now);
            } else if account.left() == 0 {
                now = account.next_change();
                assert_ne!(now, NEVER);
                account.update(now);
            }
        }
        answered.push(now);
    }
    answered
}

proptest! {
    #[test]
    fn a_burst_lies_between_no_burst_and_a_whole_one(
        period in 4_u64..40,
        part in 1_u64..=100,
        gaps in prop::collection::vec((0_u64..60, 1_u64..20), 1..40),
    ) {
        let quota = Duration::from_nanos((period / 2 * part).div_ceil(100));
        let period = Duration::from_nanos(period);
        let mut at = 0;
        let requests: Vec<(u64, u64)> = gaps
            .into_iter()
            .map(|(gap, work)| {
                at += gap;
                (at, work)
            })
            .collect();
        // The rule saves up as much as a quota.
        let without = answers(ServerKind::Deferrable, (quota, period), &requests);
        let burst = answers(ServerKind::Burstable, (quota, period), &requests);
        let whole = answers(ServerKind::Deferrable, (quota * 2, period), &requests);
        for ((without, burst), whole) in without.iter().zip(&burst).zip(&whole) {
            prop_assert!(whole <= burst && burst <= without, "{requests:?}");
        }
    }
}
