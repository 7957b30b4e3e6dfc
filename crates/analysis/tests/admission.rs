//! Admission of reservations, against simulations of the reservation servers.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use tailbound_analysis::AnalysisError;
use tailbound_analysis::interfaces::admission::{
    Admission, AdmissionHost, BudgetRule, Excess, Fit, HostScheduler, Placement, Reservation,
};
use tailbound_analysis::interfaces::{AdmissionQuery, admit};
use tailbound_model::{Cpu, CpuSet, Priority};
use tailbound_time::Duration;

fn ns(value: u64) -> Duration {
    Duration::from_nanos(value)
}

fn reservation(
    name: &str,
    budget_ns: u64,
    period_ns: u64,
    priority: u8,
    cpu: Option<u32>,
) -> Reservation {
    Reservation {
        name: name.into(),
        budget: ns(budget_ns),
        period: ns(period_ns),
        priority: Priority(priority),
        rule: BudgetRule::Deferrable,
        placement: cpu.map_or(Placement::Any, |cpu| {
            Placement::On(CpuSet::from([Cpu(cpu)]))
        }),
    }
}

fn ask(
    scheduler: HostScheduler,
    fit: Fit,
    cpus: u32,
    reservations: Vec<Reservation>,
) -> Result<Admission, AnalysisError> {
    let host = AdmissionHost {
        cpus: (0..cpus).map(Cpu).collect(),
        scheduler,
        fit,
        modes: BTreeMap::from([("m".into(), reservations)]),
    };
    admit(&AdmissionQuery {
        hosts: BTreeMap::from([("h".into(), host)]),
    })
}

const FP: HostScheduler = HostScheduler::PartitionedFixedPriority;

#[test]
fn a_reservation_that_does_not_fit_is_named_with_what_is_too_much() {
    // b: 4 and, back to back, 3 + 3 of a within 8.
    let set = vec![
        reservation("a", 3, 10, 9, Some(0)),
        reservation("b", 4, 8, 1, Some(0)),
    ];
    let answer = ask(FP, Fit::WorstDecreasing, 1, set.clone()).unwrap();
    assert!(!answer.admitted);
    let cpu = &answer.hosts["h"]["m"].cpus[0];
    assert_eq!(cpu.failures.len(), 1);
    assert_eq!(cpu.failures[0].reservation, "b");
    let excess = Excess::Window {
        window: ns(8),
        shortfall: ns(2),
    };
    assert_eq!(cpu.failures[0].excess, excess);
    assert!((cpu.load - 0.8).abs() < 1e-12);
    // As a periodic server, a does not come back to back.
    let mut periodic = set;
    periodic[0].rule = BudgetRule::Periodic;
    assert!(ask(FP, Fit::WorstDecreasing, 1, periodic).unwrap().admitted);
}

#[test]
fn every_mode_of_every_host_counts() {
    let fine = vec![reservation("a", 1, 10, 9, None)];
    let heavy = vec![
        reservation("a", 6, 10, 9, Some(1)),
        reservation("b", 6, 10, 8, Some(1)),
    ];
    let host = |modes: Vec<(&str, Vec<Reservation>)>| AdmissionHost {
        cpus: CpuSet::from([Cpu(1), Cpu(2)]),
        scheduler: FP,
        fit: Fit::FirstDecreasing,
        modes: modes
            .into_iter()
            .map(|(name, set)| (name.to_owned(), set))
            .collect(),
    };
    let hosts = BTreeMap::from([
        (
            "one".to_owned(),
            host(vec![("low", fine.clone()), ("high", heavy)]),
        ),
        ("two".to_owned(), host(vec![("low", fine)])),
    ]);
    let answer = admit(&AdmissionQuery { hosts }).unwrap();
    assert!(!answer.admitted);
    assert!(answer.hosts["one"]["low"].admitted);
    assert!(!answer.hosts["one"]["high"].admitted);
    assert!(answer.hosts["two"]["low"].admitted);
    let high = &answer.hosts["one"]["high"].cpus;
    assert_eq!((high[0].admitted, high[1].admitted), (false, true));
}

#[test]
fn cpus_are_chosen_by_the_rule_and_always_the_same() {
    let set = || {
        vec![
            reservation("d", 1, 10, 1, None),
            reservation("c", 2, 10, 2, None),
            reservation("b", 3, 10, 3, None),
            reservation("a", 3, 10, 4, None),
        ]
    };
    let chosen = |fit| {
        let answer = ask(FP, fit, 2, set()).unwrap();
        assert!(answer.admitted);
        let chosen = &answer.hosts["h"]["m"].chosen;
        chosen
            .iter()
            .map(|(name, cpu)| (name.clone(), cpu.0))
            .collect::<Vec<_>>()
    };
    let named = |cpus: [u32; 4]| {
        ["a", "b", "c", "d"]
            .iter()
            .map(|name| (*name).to_owned())
            .zip(cpus)
            .collect::<Vec<_>>()
    };
    // a, b: 0, 1; c to the lower number of equal loads; d to the other.
    assert_eq!(chosen(Fit::WorstDecreasing), named([0, 1, 0, 1]));
    // First: a and b on 0 (3 + 3 + 3 within 10), then no more: c needs 2 + 6 + 6.
    assert_eq!(chosen(Fit::FirstDecreasing), named([0, 0, 1, 1]));
    // Where it fits nowhere, it goes to the least load, and the answer says so.
    let mut too_much = set();
    too_much.push(reservation("e", 10, 10, 1, None));
    too_much.push(reservation("f", 10, 10, 1, None));
    too_much.push(reservation("g", 10, 10, 1, None));
    let answer = ask(FP, Fit::WorstDecreasing, 2, too_much).unwrap();
    assert!(!answer.admitted);
    assert_eq!(answer.hosts["h"]["m"].chosen.len(), 7);
}

#[test]
fn edf_takes_a_whole_cpu_of_periodic_reservations_and_no_more() {
    let edf = HostScheduler::PartitionedEdf;
    let third = |name: &str, budget| Reservation {
        rule: BudgetRule::Periodic,
        ..reservation(name, budget, 3_000_000_000, 1, Some(0))
    };
    let full = vec![
        third("a", 1_000_000_000),
        third("b", 1_000_000_000),
        third("c", 1_000_000_000),
    ];
    assert!(
        ask(edf, Fit::WorstDecreasing, 1, full.clone())
            .unwrap()
            .admitted
    );
    let mut over = full;
    over[2].budget = ns(1_000_000_001);
    let answer = ask(edf, Fit::WorstDecreasing, 1, over).unwrap();
    let failures = &answer.hosts["h"]["m"].cpus[0].failures;
    assert_eq!(failures[0].reservation, "c");
    assert!(matches!(failures[0].excess, Excess::Bandwidth { cpus } if cpus > 0.0));
}

#[test]
fn global_edf_is_decided_by_the_largest_and_the_sum() {
    let global = HostScheduler::GlobalEdf;
    let all = Placement::On(CpuSet::from([Cpu(0), Cpu(1), Cpu(2)]));
    let on_all = |budget| Reservation {
        placement: all.clone(),
        ..reservation("a", budget, 5, 1, None)
    };
    // 3 x 3/5 <= 3 - 2 x 3/5.
    let answer = ask(global, Fit::WorstDecreasing, 3, vec![on_all(3)]).unwrap();
    assert!(answer.admitted);
    assert!((answer.hosts["h"]["m"].cpus[0].load - 1.8).abs() < 1e-12);
    assert!(
        answer
            .assumptions
            .iter()
            .any(|text| text.contains("deferrable"))
    );
    let more = vec![on_all(3), reservation("b", 1, 1_000_000, 1, None)];
    let answer = ask(global, Fit::WorstDecreasing, 3, more).unwrap();
    assert!(!answer.admitted);
    assert_eq!(answer.hosts["h"]["m"].cpus[0].failures[0].reservation, "a");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |set| {
        let answer = ask(FP, Fit::WorstDecreasing, 1, set);
        assert!(
            matches!(answer, Err(AnalysisError::Invalid { .. })),
            "{answer:?}"
        );
    };
    refused(vec![reservation("a", 3, 2, 1, None)]);
    refused(vec![reservation("a", 0, 0, 1, None)]);
    refused(vec![reservation("a", 1, 2, 1, Some(7))]);
    refused(vec![
        reservation("a", 1, 2, 1, None),
        reservation("a", 1, 2, 1, None),
    ]);
    let nowhere = Placement::On(CpuSet::new());
    refused(vec![Reservation {
        placement: nowhere,
        ..reservation("a", 1, 2, 1, None)
    }]);
    assert!(ask(FP, Fit::WorstDecreasing, 0, Vec::new()).is_err());
}

/// A server in the simulation: its reservation, the phase of its replenishments, and the slots in
/// which it has work.
struct Server<'a> {
    reservation: &'a Reservation,
    phase: u64,
    asks: Vec<bool>,
}

/// Whether each server, in each period in which it asks in every slot until it is done, spends its
/// budget; one CPU, by priority or by the next replenishment.
fn budgets_are_spent(servers: &[Server], by_priority: bool, slots: u64) -> Vec<bool> {
    let mut left: Vec<u64> = vec![0; servers.len()];
    let mut always: Vec<bool> = vec![false; servers.len()];
    let mut fine = vec![true; servers.len()];
    for slot in 0..slots {
        for (index, server) in servers.iter().enumerate() {
            let period = server.reservation.period.as_nanos();
            if (slot + server.phase) % period == 0 {
                fine[index] &= !(always[index] && left[index] > 0);
                left[index] = server.reservation.budget.as_nanos();
                always[index] = true;
            }
            if left[index] > 0 && !server.asks[slot as usize] {
                always[index] = false;
            }
        }
        let ready = (0..servers.len()).filter(|i| left[*i] > 0 && servers[*i].asks[slot as usize]);
        let next = ready.min_by_key(|index| {
            let one = &servers[*index];
            let period = one.reservation.period.as_nanos();
            let deadline = period - (slot + one.phase) % period;
            let priority = u64::from(u8::MAX - one.reservation.priority.0);
            (if by_priority { priority } else { deadline }, *index)
        });
        if let Some(next) = next {
            left[next] -= 1;
        }
    }
    fine
}

fn small_reservations(most: usize) -> impl Strategy<Value = Vec<Reservation>> {
    let one = (1_u64..5, 4_u64..16, any::<bool>());
    proptest::collection::vec(one, 1..=most).prop_map(|all| {
        let make = |(index, (budget, period, deferrable)): (usize, (u64, u64, bool))| Reservation {
            rule: if deferrable {
                BudgetRule::Deferrable
            } else {
                BudgetRule::Periodic
            },
            ..reservation(
                &index.to_string(),
                budget,
                period,
                50 - index as u8,
                Some(0),
            )
        };
        all.into_iter().enumerate().map(make).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn who_is_admitted_gets_its_budget_whatever_the_others_do(
        set in small_reservations(4), by_priority in any::<bool>(),
        numbers in proptest::collection::vec(0_u64..1_000, 97),
    ) {
        let scheduler = if by_priority { FP } else { HostScheduler::PartitionedEdf };
        let answer = ask(scheduler, Fit::WorstDecreasing, 1, set.clone()).unwrap();
        let failures = &answer.hosts["h"]["m"].cpus[0].failures;
        prop_assume!(failures.len() < set.len());
        let mut numbers = numbers.iter().cycle();
        let mut number = |below: u64| numbers.next().unwrap() % below;
        let slots = 300;
        let servers: Vec<Server> = set.iter().map(|one| {
            // Periodic ones always ask; deferrable ones in stretches.
            let mut asks = Vec::new();
            let mut on = true;
            while asks.len() < slots as usize {
                let length = if on { 1 + number(20) } else { number(12) };
                asks.extend(std::iter::repeat_n(on || one.rule == BudgetRule::Periodic, length as usize));
                on = !on;
            }
            Server { reservation: one, phase: number(one.period.as_nanos()), asks }
        }).collect();
        let fine = budgets_are_spent(&servers, by_priority, slots);
        let overloaded = matches!(failures.first().map(|f| f.excess), Some(Excess::Bandwidth { .. }));
        for (index, one) in set.iter().enumerate() {
            if !overloaded && failures.iter().all(|failure| failure.reservation != one.name) {
                prop_assert!(fine[index], "{}", one.name);
            }
        }
    }

    #[test]
    fn below_one_deferrable_server_the_verdict_is_exact(
        above in (1_u64..6, 2_u64..14), below in (1_u64..8, 2_u64..30),
    ) {
        prop_assume!(above.0 <= above.1 && below.0 <= below.1);
        let set = vec![
            reservation("a", above.0, above.1, 9, Some(0)),
            reservation("b", below.0, below.1, 1, Some(0)),
        ];
        let answer = ask(FP, Fit::WorstDecreasing, 1, set.clone()).unwrap();
        // a waits until it has just its budget's time left, and b is replenished right then.
        let wait = above.1 - above.0;
        let slots = 30 * 14;
        let a = Server {
            reservation: &set[0],
            phase: 0,
            asks: (0..slots).map(|slot| slot >= wait).collect(),
        };
        let b = Server {
            reservation: &set[1],
            phase: (below.1 - wait % below.1) % below.1,
            asks: vec![true; slots as usize],
        };
        let fine = budgets_are_spent(&[a, b], true, slots);
        prop_assert_eq!(answer.admitted, fine[1]);
    }
}
