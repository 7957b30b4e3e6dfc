//! Whether reservation servers at fixed priorities on one CPU all get their budget in their period.
//!
//! A sufficient test with exact integers. Server i, with work waiting from a replenishment on, has
//! got its budget C(i) after the least w with
//!
//!   w = C(i) + sum over the servers j of higher or equal priority of I(j, w),
//!
//! and the test asks for w <= P(i). I(j, w) bounds what server j may run in a window of length w
//! that starts at a replenishment of i. Without knowledge of the grids, a deferrable server may
//! spend one budget right before its replenishment and the next right after it, so it behaves like
//! a periodic task of jitter P - C:
//!
//!   I(j, w) = ceil((w + P(j) - C(j)) / P(j)) * C(j)
//!
//! (Strosnider, Lehoczky and Sha, IEEE Transactions on Computers 44(1), 1995; the form with jitter
//! is that of Davis and Burns, RTSS 2005.) All our managers replenish at multiples of the period of
//! one clock, so at a replenishment of i the next one of j is r away, where r is a multiple of
//! g = gcd(P(i), P(j)) and 0 < r <= P(j). Until then j runs for min(C(j), r) at most, so that
//!
//!   I(j, w) = max over r of min(C(j), r) + ceil(max(0, w - r) / P(j)) * C(j).
//!
//! The least of both bounds is taken. A server that asks from a replenishment on, and never with more
//! demand than that (periodic, polling, sporadic), has no jitter. Equal priorities count as higher: among them SCHED_FIFO goes
//! by arrival. Where the managers may have to pause all domains to stay clear of the kernel's throttling
//! ([`RealTimeLimit`]), w of work takes longer. Described sources of
//! interference count as servers of the highest priority, with their arrival curves ([`InterferenceLoad`]). What managers
//! and other interrupts take is not counted; the bound on the sum of the bandwidths leaves some percent for it.

use num_integer::gcd;

use tailbound_time::Duration;

use super::RealTimeLimit;
use crate::interference::InterferenceLoad;

/// A reservation server, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedPriorityServer {
    /// CPU time per period; above 0.
    pub budget_ns: u64,
    /// The distance between replenishments; above 0.
    pub period_ns: u64,
    /// The higher number runs first.
    pub priority: u8,
    /// How long after a replenishment it may begin to ask for its budget: its period less its budget for a
    /// deferrable server.
    pub jitter_ns: u64,
    /// Whether its replenishments lie at multiples of its period on the clock common to all.
    pub on_common_grid: bool,
}

/// Beyond this many distances to the next replenishment, the bound without the grid is taken.
const MOST_DISTANCES: u64 = 4096;

/// When server `index` has got its budget at the latest, counted from a replenishment: the least
/// fixed point, or the first value found that lies beyond the period. `limit`: what managers that
/// may have to pause them keep to; `None` where they never have to. `interference` comes before all of them.
///
/// # Panics
/// If `index` is no index, or a period is 0.
pub fn budget_response_ns(
    servers: &[FixedPriorityServer],
    index: usize,
    limit: Option<&RealTimeLimit>,
    interference: &InterferenceLoad,
) -> u64 {
    let own = &servers[index];
    let above: Vec<&FixedPriorityServer> = servers
        .iter()
        .enumerate()
        .filter(|(other, server)| *other != index && server.priority >= own.priority)
        .map(|(_, server)| server)
        .collect();
    let time_for = |work_ns: u64| match limit {
        None => work_ns,
        Some(limit) => {
            let time_ns = limit.time_for_ns(u128::from(work_ns));
            u64::try_from(time_ns).unwrap_or(u64::MAX)
        }
    };
    let mut window_ns = own.budget_ns;
    loop {
        // What does not fit into 64 bits is beyond every period.
        let taken = interference.taken_in(Duration::from_nanos(window_ns));
        let before_ns = own.budget_ns.saturating_add(taken.as_nanos());
        let work_ns = above.iter().fold(before_ns, |work_ns, other| {
            work_ns.saturating_add(demand_ns(own, other, window_ns))
        });
        let next_ns = time_for(work_ns);
        debug_assert!(
            next_ns >= own.budget_ns,
            "a budget takes its own length at least"
        );
        // It only grows, by whole budgets, and is left beyond the period: so it ends.
        if next_ns <= window_ns || next_ns > own.period_ns {
            return next_ns;
        }
        window_ns = next_ns;
    }
}

/// The most that `other` runs in `window` from a replenishment of `own`; no less where that does not
/// fit.
fn demand_ns(own: &FixedPriorityServer, other: &FixedPriorityServer, window_ns: u64) -> u64 {
    let (budget_ns, period_ns) = (other.budget_ns, other.period_ns);
    let rounds_ns = |length_ns: u64| length_ns.div_ceil(period_ns).saturating_mul(budget_ns);
    let Some(with_jitter_ns) = window_ns.checked_add(other.jitter_ns) else {
        return u64::MAX;
    };
    let jittered_ns = rounds_ns(with_jitter_ns);
    if !(own.on_common_grid && other.on_common_grid) {
        return jittered_ns;
    }
    let step_ns = gcd(own.period_ns, period_ns);
    if period_ns / step_ns > MOST_DISTANCES {
        return jittered_ns;
    }
    let distances = (1..=period_ns / step_ns).map(|k| k * step_ns);
    let on_grid = distances.map(|distance_ns| {
        let later_ns = rounds_ns(window_ns.saturating_sub(distance_ns));
        let first_ns = budget_ns.min(distance_ns).min(window_ns);
        first_ns.saturating_add(later_ns)
    });
    on_grid.max().unwrap_or(jittered_ns).min(jittered_ns)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;

    fn server(budget_ns: u64, period_ns: u64, priority: u8) -> FixedPriorityServer {
        FixedPriorityServer {
            budget_ns,
            period_ns,
            priority,
            jitter_ns: period_ns.saturating_sub(budget_ns),
            on_common_grid: true,
        }
    }

    #[test]
    fn the_highest_priority_waits_for_nobody() {
        let servers = [server(4, 10, 90), server(40, 100, 80)];
        assert_eq!(
            budget_response_ns(&servers, 0, None, &InterferenceLoad::default()),
            4
        );
    }

    #[test]
    fn on_harmonic_grids_servers_interfere_like_periodic_tasks() {
        // 40 of 100 beneath 4 of 10: seven budgets of the other come before the end at 68.
        let servers = [server(4, 10, 90), server(40, 100, 80)];
        assert_eq!(
            budget_response_ns(&servers, 1, None, &InterferenceLoad::default()),
            68
        );
        // Equal periods share them fully.
        let servers = [server(45, 100, 90), server(50, 100, 90)];
        assert_eq!(
            budget_response_ns(&servers, 1, None, &InterferenceLoad::default()),
            95
        );
    }

    #[test]
    fn off_the_grid_two_budgets_may_come_in_a_row() {
        let mut servers = [server(4, 10, 90), server(4, 10, 80)];
        assert_eq!(
            budget_response_ns(&servers, 1, None, &InterferenceLoad::default()),
            8
        );
        servers[0].on_common_grid = false;
        assert_eq!(
            budget_response_ns(&servers, 1, None, &InterferenceLoad::default()),
            12
        );
    }

    #[test]
    fn a_long_budget_at_equal_priority_starves_a_short_period() {
        let servers = [server(4, 10, 90), server(40, 100, 90)];
        assert!(budget_response_ns(&servers, 0, None, &InterferenceLoad::default()) > 10);
    }

    #[test]
    fn long_budgets_are_paused_and_take_longer() {
        let limit = RealTimeLimit::default();
        let long = [FixedPriorityServer {
            budget_ns: 1_365_000_000,
            period_ns: 2_100_000_000,
            priority: 90,
            jitter_ns: 735_000_000,
            on_common_grid: true,
        }];
        assert_eq!(
            budget_response_ns(&long, 0, Some(&limit), &InterferenceLoad::default()),
            1_365_000_000 + 2 * 60_000_000
        );
    }

    /// Fixed-priority schedule of deferrable servers on their grids, tick by tick: `lead` wants the
    /// CPU always, the others when `wants` says. When `lead` is short of budget at the end of one
    /// of its periods, it was starved.
    fn starved(servers: &[FixedPriorityServer], lead: usize, wants: &[bool]) -> bool {
        let horizon: u64 = servers.iter().map(|s| s.period_ns).product();
        let mut left: Vec<u64> = servers.iter().map(|s| s.budget_ns).collect();
        for tick in 0..horizon * 2 {
            for (server, left) in servers.iter().zip(&mut left) {
                if tick % server.period_ns == 0 {
                    *left = server.budget_ns;
                }
            }
            let eager = |index: usize| {
                index == lead || wants[(tick as usize * servers.len() + index) % wants.len()]
            };
            let ready = (0..servers.len()).filter(|&index| left[index] > 0 && eager(index));
            // Among equals the lead comes last: the worst for it.
            let running = ready.max_by_key(|&index| (servers[index].priority, index != lead));
            if let Some(running) = running {
                left[running] -= 1;
            }
            if (tick + 1) % servers[lead].period_ns == 0 && left[lead] > 0 {
                return true;
            }
        }
        false
    }

    proptest! {
        #[test]
        fn who_passes_the_test_is_never_starved(
            raw in proptest::collection::vec((1_u64..6, 1_u64..13, 1_u8..4), 1..4),
            wants in proptest::collection::vec(any::<bool>(), 7..60),
        ) {
            let servers: Vec<_> = raw
                .into_iter()
                .map(|(budget, period, priority)| server(budget.min(period), period, priority))
                .collect();
            for lead in 0..servers.len() {
                if budget_response_ns(&servers, lead, None, &InterferenceLoad::default()) <= servers[lead].period_ns {
                    prop_assert!(!starved(&servers, lead, &wants), "{servers:?} {lead}");
                    prop_assert!(!starved(&servers, lead, &[true]), "{servers:?} {lead}");
                }
            }
        }

        #[test]
        fn extreme_lengths_do_not_overflow(
            budgets in proptest::collection::vec((1_u64.., 1_u64..), 2..5),
        ) {
            let servers: Vec<_> = budgets.into_iter().map(|(b, p)| server(b, p, 5)).collect();
            for index in 0..servers.len() {
                let _response = budget_response_ns(&servers, index, None, &InterferenceLoad::default());
            }
        }
    }
}
