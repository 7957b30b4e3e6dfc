//! Whether the reservations of one CPU, or those of all CPUs under global EDF, get their budgets.

use std::cmp::Ordering;

use tailbound_time::Duration;

use super::admission::{BudgetRule, Excess, Failure, Reservation};
use super::demand::Workload;
use super::supply::DedicatedCpu;
use super::test_points::{demand_horizon, find_shortage};
use crate::periodic_load::compare_sum;
use crate::{AnalysisError, SporadicTask};

/// The sum of budget / period, in CPUs, for printing; verdicts compare exactly.
pub(super) fn load(reservations: &[&Reservation]) -> f64 {
    let share = |one: &&Reservation| one.budget.as_secs_f64() / one.period.as_secs_f64();
    reservations.iter().map(share).sum()
}

fn shares<'a>(reservations: &'a [&Reservation]) -> impl Iterator<Item = (u64, u64)> + Clone + 'a {
    let share = |one: &&Reservation| (one.budget.as_nanos(), one.period.as_nanos());
    reservations.iter().map(share)
}

/// Fixed priorities on one CPU: each reservation's budget, asked for from a replenishment on, is
/// spent before the next, with all others of the same or a higher priority in the way. A
/// deferrable one may spend a budget at the end of a period and the next one at once: a periodic
/// task with a jitter of period - budget (Bernat and Burns 1999).
pub(super) fn fixed_priority(reservations: &[&Reservation]) -> Vec<Failure> {
    let failure = |(index, one): (usize, &&Reservation)| {
        let others = reservations.iter().enumerate();
        let in_the_way: Vec<&Reservation> = others
            .filter(|(other, reservation)| *other != index && reservation.priority >= one.priority)
            .map(|(_, reservation)| *reservation)
            .collect();
        let shortfall = shortfall(one, &in_the_way)?;
        Some(Failure {
            reservation: one.name.clone(),
            excess: Excess::Window {
                window: one.period,
                shortfall,
            },
        })
    };
    reservations
        .iter()
        .enumerate()
        .filter_map(failure)
        .collect()
}

/// What is asked for beyond the period by its end, if the budget is not spent before.
fn shortfall(one: &Reservation, in_the_way: &[&Reservation]) -> Option<Duration> {
    let asked = |window: u128| {
        let interference = |other: &&Reservation| {
            let jitter = match other.rule {
                BudgetRule::Deferrable => other.period - other.budget,
                BudgetRule::Periodic => Duration::ZERO,
            };
            let jobs = (window + u128::from(jitter.as_nanos()))
                .div_ceil(u128::from(other.period.as_nanos()));
            jobs * u128::from(other.budget.as_nanos())
        };
        let others: u128 = in_the_way.iter().map(interference).sum();
        others + u128::from(one.budget.as_nanos())
    };
    let period = u128::from(one.period.as_nanos());
    let mut window = 1;
    loop {
        let next = asked(window);
        if next <= window {
            return None;
        }
        if next > period {
            let missing = asked(period) - period;
            return Some(Duration::from_nanos(
                u64::try_from(missing).unwrap_or(u64::MAX),
            ));
        }
        window = next;
    }
}

/// EDF on one CPU, with the next replenishment as the deadline. Periodic ones and
/// constant-bandwidth servers: a sum of bandwidths up to one, exactly (Liu and Layland 1973; Abeni
/// and Buttazzo 1998). With deferrable ones: processor demand with a jitter of period - budget, in
/// windows that hold a whole period of the reservation in question; sufficient.
pub(super) fn earliest_deadline_first(
    reservations: &[&Reservation],
) -> Result<Vec<Failure>, AnalysisError> {
    if let Some(failure) = overload(reservations) {
        return Ok(vec![failure]);
    }
    let deferrable =
        |one: &&Reservation| one.rule == BudgetRule::Deferrable && !one.budget.is_zero();
    if !reservations.iter().any(deferrable) {
        return Ok(Vec::new());
    }
    let task = |one: &&Reservation| {
        let jitter = match one.rule {
            BudgetRule::Deferrable => one.period - one.budget,
            BudgetRule::Periodic => Duration::ZERO,
        };
        SporadicTask::implicit(one.budget, one.period)?.with_jitter(jitter)
    };
    // What has no budget asks for nothing; a deferrable reservation has one.
    let used = reservations.iter().filter(|one| !one.budget.is_zero());
    let workload = Workload::new(used.map(task).collect::<Result<_, _>>()?)?;
    let horizon = demand_horizon(&workload, &DedicatedCpu)?;
    let mut failures = Vec::new();
    for one in reservations {
        // Beyond a whole repetition after the shortest window of interest, all repeats.
        let from = horizon.saturating_add(one.period);
        let found = find_shortage(one.period, from, &DedicatedCpu, &workload)?;
        failures.extend(found.map(|window| Failure {
            reservation: one.name.clone(),
            excess: Excess::Window {
                window,
                shortfall: workload.demand_bound(window).saturating_sub(window),
            },
        }));
    }
    Ok(failures)
}

/// The first reservation with which the bandwidths exceed one CPU.
fn overload(reservations: &[&Reservation]) -> Option<Failure> {
    let exceeds = |count: usize| {
        let first = reservations.get(..count).unwrap_or(reservations);
        compare_sum(shares(first), (1, 1)) == Ordering::Greater
    };
    let count = (1..=reservations.len()).find(|count| exceeds(*count))?;
    let last = reservations.get(count - 1)?;
    Some(Failure {
        reservation: last.name.clone(),
        excess: Excess::Bandwidth {
            cpus: load(reservations) - 1.0,
        },
    })
}

/// Global EDF on `cpus` CPUs: the sum of bandwidths is at most m - (m - 1) times the largest
/// (Goossens, Funk and Baruah 2003, Theorem 5); exact sums, sufficient. Otherwise the largest
/// reservation is named.
pub(super) fn global_edf(reservations: &[&Reservation], cpus: usize) -> Option<Failure> {
    let largest = reservations.iter().max_by(|a, b| {
        let by_share = compare_sum(shares(&[**a]), (b.budget.as_nanos(), b.period.as_nanos()));
        by_share.then_with(|| b.name.cmp(&a.name))
    })?;
    // The sum and (m - 1) times the largest against m; a bandwidth is at most one CPU.
    let again = std::iter::repeat_n(*largest, cpus.saturating_sub(1));
    let all: Vec<&Reservation> = reservations.iter().copied().chain(again).collect();
    let whole = (cpus as u64, 1);
    (compare_sum(shares(&all), whole) == Ordering::Greater).then(|| Failure {
        reservation: largest.name.clone(),
        excess: Excess::Bandwidth {
            cpus: load(&all) - cpus as f64,
        },
    })
}
