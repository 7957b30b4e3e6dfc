//! The multiprocessor periodic resource and global EDF on it, against slot-by-slot simulation.

use proptest::prelude::*;
use tailbound_analysis::AnalysisError;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::interfaces::search::on_fewest_cpus;
use tailbound_analysis::interfaces::{
    InterfaceSearch, LocalScheduler, MultiprocessorPeriodic, PeriodicSupply, ResourceModel,
    Shortage, SupplyBound, Workload, schedulable_global_edf,
};
use tailbound_time::Duration;

fn ns(value: u64) -> Duration {
    Duration::from_nanos(value)
}

fn task(execution: u64, period_ns: u64, deadline_ns: u64) -> SporadicTask {
    SporadicTask::new(ns(execution), ns(period_ns), ns(deadline_ns)).unwrap()
}

/// All ways to spread `budget` over `slots` slots of at most `cpus` each.
fn spreads(budget_slots: u64, slots: u64, cpus: u64) -> Vec<Vec<u64>> {
    if slots == 0 {
        return if budget_slots == 0 {
            vec![Vec::new()]
        } else {
            Vec::new()
        };
    }
    let mut all = Vec::new();
    for first in 0..=cpus.min(budget_slots) {
        for mut rest in spreads(budget_slots - first, slots - 1, cpus) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}

/// The supply bound by its definition, for supplies in whole slots.
fn least_supply(spreads: &[Vec<u64>], period_slots: u64, window: u64) -> u64 {
    let from_start = |start: u64| {
        let end = start + window;
        let part = |index: u64| {
            let (first, past) = (index * period_slots, (index + 1) * period_slots);
            let from = (start.clamp(first, past) - first) as usize;
            let to = (end.clamp(first, past) - first) as usize;
            let in_part = |spread: &Vec<u64>| spread[from..to].iter().sum::<u64>();
            spreads.iter().map(in_part).min().unwrap()
        };
        (0..=end / period_slots).map(part).sum::<u64>()
    };
    (0..period_slots).map(from_start).min().unwrap()
}

#[test]
fn the_supply_bound_is_below_all_patterns_by_less_than_the_cpus() {
    for period in 1..=5 {
        for cpus in 1..=3_u32 {
            for budget in 1..=period * u64::from(cpus) {
                let model = MultiprocessorPeriodic::new(ns(budget), ns(period), cpus).unwrap();
                let spreads = spreads(budget, period, u64::from(cpus));
                for window in 0..4 * period {
                    let least = least_supply(&spreads, period, window);
                    let bound = model.supplied_down(ns(window)).as_nanos();
                    assert!(bound <= least, "{budget}/{period} on {cpus}, {window}");
                    // Two ends of a slot, each rounded.
                    assert!(bound + 2 * u64::from(cpus) > least);
                    if cpus == 1 {
                        let single = PeriodicSupply::somewhere(ns(budget), ns(period)).unwrap();
                        assert_eq!(single.supplied_down(ns(window)), ns(bound));
                    }
                }
                for work in 1..40 {
                    let window = model.time_to_supply(ns(work));
                    assert!(model.supplied_down(window) >= ns(work));
                    assert!(model.supplied_down(window - ns(1)) < ns(work));
                }
            }
        }
    }
}

#[test]
fn resources_that_cannot_be_given_are_refused() {
    assert!(MultiprocessorPeriodic::new(ns(5), ns(2), 2).is_err());
    assert!(MultiprocessorPeriodic::new(ns(0), ns(2), 0).is_err());
    assert!(MultiprocessorPeriodic::new(ns(0), ns(0), 1).is_err());
    let workload = Workload::new(vec![task(1, 2, 2).with_jitter(ns(1)).unwrap()]).unwrap();
    let resource = MultiprocessorPeriodic::new(ns(2), ns(2), 1).unwrap();
    assert!(matches!(
        schedulable_global_edf(&workload, &resource),
        Err(AnalysisError::NotAnalysed { .. })
    ));
}

/// Global EDF on the CPUs given in each slot; whether all jobs (ready, due, work) are in time.
fn all_in_time(mut jobs: Vec<(u64, u64, u64)>, slots: &[u64]) -> bool {
    jobs.sort_by_key(|(_, due, _)| *due);
    for (now, given) in slots.iter().enumerate() {
        let now = now as u64;
        if jobs.iter().any(|(_, due, left)| *left > 0 && *due <= now) {
            return false;
        }
        let ready = jobs
            .iter_mut()
            .filter(|(at, _, left)| *left > 0 && *at <= now);
        for job in ready.take(*given as usize) {
            job.2 -= 1;
        }
        jobs.retain(|(_, _, left)| *left > 0);
    }
    true
}

fn small_tasks() -> impl Strategy<Value = Vec<SporadicTask>> {
    let one = (1_u64..6, 4_u64..20, any::<u64>()).prop_map(|(execution, period, deadline)| {
        let execution = execution.min(period);
        task(
            execution,
            period,
            execution + deadline % (period - execution + 1),
        )
    });
    proptest::collection::vec(one, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn what_is_schedulable_never_misses(
        tasks in small_tasks(), period in 1_u64..5, cpus in 1_u32..4, unused in 0_u64..3,
        numbers in proptest::collection::vec(0_u64..1_000, 150), synchronous in any::<bool>(),
    ) {
        let workload = Workload::new(tasks.clone()).unwrap();
        let budget = (period * u64::from(cpus)).saturating_sub(unused).max(1);
        let resource = MultiprocessorPeriodic::new(ns(budget), ns(period), cpus).unwrap();
        let verdict = schedulable_global_edf(&workload, &resource).unwrap();
        if let Some(Shortage::Window { demand, supply, .. }) = verdict.shortage {
            prop_assert!(demand >= supply);
        }
        prop_assume!(verdict.schedulable);
        let mut numbers = numbers.iter().cycle();
        let mut number = |below: u64| numbers.next().unwrap() % below.max(1);
        let horizon = 200;
        let mut jobs = Vec::new();
        for task in &tasks {
            let mut at = if synchronous { budget.div_ceil(u64::from(cpus)) } else { number(10) };
            while at < horizon {
                jobs.push((at, at + task.deadline().as_nanos(), task.execution().as_nanos()));
                at += task.period().as_nanos() + if synchronous { 0 } else { number(3) * number(2) };
            }
        }
        let mut slots = Vec::new();
        while slots.len() < horizon as usize {
            let mut in_period = vec![0_u64; period as usize];
            for given in 0..budget {
                // Early in the first period and late in the others, or anyhow.
                let full = |slot: &usize| in_period[*slot] < u64::from(cpus);
                let free: Vec<usize> = (0..period as usize).filter(full).collect();
                let slot = match (synchronous, slots.is_empty()) {
                    (true, true) => free[0],
                    (true, false) => free[free.len() - 1],
                    (false, _) => free[number(free.len() as u64 + given % 2) as usize % free.len()],
                };
                in_period[slot] += 1;
            }
            slots.extend(in_period);
        }
        prop_assert!(all_in_time(jobs, &slots));
    }

    #[test]
    fn jumps_and_bends_find_what_every_nanosecond_shows(
        tasks in small_tasks(), period in 1_u64..8, cpus in 1_u32..4, budget in 1_u64..24,
    ) {
        let budget = budget.min(period * u64::from(cpus));
        let workload = Workload::new(tasks.clone()).unwrap();
        let resource = MultiprocessorPeriodic::new(ns(budget), ns(period), cpus).unwrap();
        let verdict = schedulable_global_edf(&workload, &resource).unwrap();
        prop_assume!(workload.utilisation() * 1.0001 < budget as f64 / period as f64);
        // The test by its formulas, window by window.
        let mut fails = false;
        for (k, problem) in tasks.iter().enumerate() {
            let (c_k, d_k) = (problem.execution().as_nanos(), problem.deadline().as_nanos());
            for window in d_k..2_500 {
                let mut more = Vec::new();
                let mut cut = 0;
                let mut demand = u64::from(cpus) * c_k;
                for (i, task) in tasks.iter().enumerate() {
                    let (c, t, d) = (
                        task.execution().as_nanos(),
                        task.period().as_nanos(),
                        task.deadline().as_nanos(),
                    );
                    let jobs = (window + t - d) / t;
                    let carried = c.min(window.saturating_sub(jobs * t));
                    let (without, with) = if i == k {
                        ((jobs * c - c).min(window - d), (jobs * c + carried - c).min(window - d))
                    } else {
                        ((jobs * c).min(window - c_k), (jobs * c + carried).min(window - c_k))
                    };
                    demand += without;
                    more.push(with - without);
                    let (own, room) = if i == k { (c, window - d) } else { (0, window - c_k) };
                    cut += u32::from(jobs * c + carried - own > room);
                }
                more.sort_unstable_by(|a, b| b.cmp(a));
                demand += more.iter().take(cpus as usize - 1).sum::<u64>();
                let supply = resource.supplied_down(ns(window)).as_nanos();
                fails |= demand > supply || (demand == supply && cut >= cpus);
            }
        }
        prop_assert_eq!(verdict.schedulable, !fails);
    }

    #[test]
    fn the_least_budget_passes_and_a_nanosecond_less_fails(
        tasks in proptest::collection::vec((10_u64..300, 300_u64..2_000), 1..7),
        period in 10_u64..300, cpus in 1_u32..5, overhead in 0_u64..10,
    ) {
        let tasks = tasks.iter().map(|&(c, t)| task(c, t, t)).collect();
        let workload = Workload::new(tasks).unwrap();
        let search = InterfaceSearch {
            workload: &workload,
            scheduler: LocalScheduler::EarliestDeadlineFirst,
            model: ResourceModel::Multiprocessor { cpus },
            overhead: ns(overhead),
        };
        match search.least_budget(ns(period)) {
            Ok(least) => {
                prop_assert!(search.test(least.budget, ns(period)).unwrap().schedulable);
                if least.assumptions.iter().any(|text| text.contains("count as too small")) {
                    return Ok(());
                }
                let less = search.test(least.budget - ns(1), ns(period)).unwrap();
                prop_assert!(!less.schedulable);
                prop_assert_eq!(less.shortage, least.tightest);
            }
            Err(AnalysisError::NoBudgetSuffices { .. }) => {
                prop_assert!(!search.test(ns(period * u64::from(cpus)), ns(period)).unwrap().schedulable);
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}

#[test]
fn the_fewest_cpus_are_tried_first() {
    let ms = Duration::from_millis;
    let tasks: Vec<_> = (0..6)
        .map(|i| SporadicTask::implicit(ms(40), ms(100 + 10 * i)).unwrap())
        .collect();
    let workload = Workload::new(tasks).unwrap();
    let interface = on_fewest_cpus(&workload, ms(10), 8, Duration::ZERO).unwrap();
    let ResourceModel::Multiprocessor { cpus } = interface.model else {
        panic!("{interface:?}");
    };
    assert!(cpus >= 2, "{interface:?}");
    let fewer = InterfaceSearch {
        workload: &workload,
        scheduler: LocalScheduler::EarliestDeadlineFirst,
        model: ResourceModel::Multiprocessor { cpus: cpus - 1 },
        overhead: Duration::ZERO,
    };
    assert!(fewer.least_budget(ms(10)).is_err());
    let fixed = InterfaceSearch {
        scheduler: LocalScheduler::FixedPriority,
        ..fewer
    };
    assert!(matches!(
        fixed.least_budget(ms(10)),
        Err(AnalysisError::Invalid { .. })
    ));
}

#[test]
fn two_jobs_that_both_need_the_whole_cpu_at_once_do_not_pass() {
    for tasks in [
        [task(1, 4, 1), task(1, 4, 1)],
        [task(3, 12, 3), task(1, 4, 1)],
    ] {
        let workload = Workload::new(tasks.to_vec()).unwrap();
        let cpu = MultiprocessorPeriodic::new(ns(1), ns(1), 1).unwrap();
        assert!(!schedulable_global_edf(&workload, &cpu).unwrap().schedulable);
        let two = MultiprocessorPeriodic::new(ns(2), ns(1), 2).unwrap();
        assert!(schedulable_global_edf(&workload, &two).unwrap().schedulable);
    }
    // One alone needs no more than it asks for.
    let workload = Workload::new(vec![task(1, 4, 1)]).unwrap();
    let cpu = MultiprocessorPeriodic::new(ns(1), ns(1), 1).unwrap();
    assert!(schedulable_global_edf(&workload, &cpu).unwrap().schedulable);
}
