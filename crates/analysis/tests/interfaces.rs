//! Supply bounds, tests on them and the search, against slot-by-slot simulation.

use proptest::prelude::*;
use tailbound_analysis::AnalysisError;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::interfaces::{
    BoundedDelay, DedicatedCpu, InterfaceSearch, LocalScheduler, PeriodicSupply, ResourceModel,
    Shortage, SupplyBound, Workload, first_shortage, schedulable,
};
use tailbound_time::Duration;

fn ns(value: u64) -> Duration {
    Duration::from_nanos(value)
}

fn task(execution: u64, period_ns: u64, deadline_ns: u64, jitter_ns: u64) -> SporadicTask {
    let task = SporadicTask::new(ns(execution), ns(period_ns), ns(deadline_ns)).unwrap();
    task.with_jitter(ns(jitter_ns)).unwrap()
}

/// The fewest slots of `budget` chosen ones among the first `deadline` of a period that fall into
/// the part from `from` to `to`, by trying all choices.
fn fewest_in_part(budget_slots: u64, deadline_slots: u64, from: u64, to: u64) -> u64 {
    (0_u32..1 << deadline_slots)
        .filter(|choice| u64::from(choice.count_ones()) == budget_slots)
        .map(|choice| (from..to).filter(|slot| choice & (1 << slot) != 0).count() as u64)
        .min()
        .unwrap()
}

/// The supply bound function by its definition: the least over all patterns and windows.
fn least_supply(budget_slots: u64, period_slots: u64, deadline_slots: u64, window: u64) -> u64 {
    let from_start = |start: u64| {
        let end = start + window;
        let part = |index: u64| {
            let (first, past) = (index * period_slots, (index + 1) * period_slots);
            let from = start.clamp(first, past) - first;
            let to = end.clamp(first, past) - first;
            fewest_in_part(budget_slots, deadline_slots, from, to)
        };
        (0..=end / period_slots).map(part).sum::<u64>()
    };
    (0..period_slots).map(from_start).min().unwrap()
}

fn check_inverse(supply: &dyn SupplyBound, most: u64) {
    for work in 0..most {
        let window = supply.time_to_supply(ns(work));
        assert!(supply.supplied_down(window) >= ns(work), "{work}");
        if work > 0 {
            assert!(supply.supplied_down(window - ns(1)) < ns(work), "{work}");
        }
    }
}

/// supply(t) >= rate (t - delay), and the repetition.
fn check_linear_bound_and_repetition(supply: &dyn SupplyBound, most: u64) {
    let (budget, period) = supply.rate();
    for window in (0..most).map(ns) {
        let linear = window
            .saturating_sub(supply.delay_up())
            .scaled_down(budget, period);
        assert!(supply.supplied_down(window) >= linear, "{window}");
        if window >= supply.delay_up() {
            let more = supply.repeats_after().scaled_down(budget, period);
            let later = supply.supplied_down(window + supply.repeats_after());
            assert_eq!(later, supply.supplied_down(window) + more);
        }
    }
}

#[test]
fn the_supply_bounds_are_the_least_over_all_patterns_and_windows() {
    for period in 1..=6 {
        for budget in 1..=period {
            for deadline in budget..=period {
                let model =
                    PeriodicSupply::by_deadline(ns(budget), ns(period), ns(deadline)).unwrap();
                for window in 0..4 * period {
                    let least = least_supply(budget, period, deadline, window);
                    assert_eq!(model.supplied_down(ns(window)), ns(least));
                }
                check_inverse(&model, 5 * budget);
                check_linear_bound_and_repetition(&model, 40);
            }
            let model = PeriodicSupply::somewhere(ns(budget), ns(period)).unwrap();
            for window in 0..4 * period {
                let least = least_supply(budget, period, period, window);
                assert_eq!(model.supplied_down(ns(window)), ns(least));
            }
            check_inverse(&model, 5 * budget);
            let delayed = BoundedDelay::of(&model).unwrap();
            check_inverse(&delayed, 20);
            check_linear_bound_and_repetition(&delayed, 40);
        }
    }
    check_inverse(&DedicatedCpu, 20);
}

#[test]
fn resources_that_cannot_be_given_are_refused() {
    assert!(PeriodicSupply::somewhere(ns(3), ns(2)).is_err());
    assert!(PeriodicSupply::somewhere(ns(0), ns(0)).is_err());
    assert!(PeriodicSupply::by_deadline(ns(3), ns(5), ns(2)).is_err());
    assert!(PeriodicSupply::by_deadline(ns(3), ns(5), ns(6)).is_err());
    assert!(PeriodicSupply::deferrable(ns(3), ns(5), ns(3)).is_err());
    assert!(BoundedDelay::new(2, 1, ns(0)).is_err());
    assert!(Workload::new(Vec::new()).is_err());
    assert!(SporadicTask::new(ns(1), ns(0), ns(1)).is_err());
    assert!(Workload::new(vec![task(1, 1 << 56, 1, 0)]).is_err());
    let nothing = PeriodicSupply::somewhere(ns(0), ns(5)).unwrap();
    assert_eq!(nothing.time_to_supply(ns(1)), Duration::MAX);
}

/// A deferrable server at the highest priority, slot by slot: the time worked before each slot,
/// and whether there was work in it.
fn deferrable_run(budget_slots: u64, period_slots: u64, arrivals: &[u64]) -> (Vec<u64>, Vec<bool>) {
    let (mut left, mut pending) = (0, 0);
    let (mut worked, mut busy) = (vec![0], Vec::new());
    for (slot, arriving) in arrivals.iter().enumerate() {
        if (slot as u64).is_multiple_of(period_slots) {
            left = budget_slots;
        }
        pending += arriving;
        busy.push(pending > 0);
        let step = u64::from(pending > 0 && left > 0);
        left -= step;
        pending -= step;
        worked.push(worked[slot] + step);
    }
    (worked, busy)
}

#[test]
fn the_supply_of_a_deferrable_server_is_reached() {
    for period in 1..8 {
        for budget in 1..=period {
            let supply = PeriodicSupply::deferrable(ns(budget), ns(period), ns(0)).unwrap();
            // Use it up at once, then come back with more than enough.
            let mut arrivals = vec![0; 60];
            arrivals[0] = 100;
            let (worked, _) = deferrable_run(budget, period, &arrivals);
            let from = budget as usize;
            for window in 0..30 {
                let given = worked[from + window] - worked[from];
                assert_eq!(supply.supplied_down(ns(window as u64)), ns(given));
            }
            check_inverse(&supply, 20);
        }
    }
}

fn small_task() -> impl Strategy<Value = SporadicTask> {
    let period = prop::sample::select(vec![4_u64, 6, 8, 12]);
    (
        1_u64..4,
        period,
        1_u64..26,
        prop::sample::select(vec![0_u64, 0, 0, 1, 3, 7]),
    )
        .prop_map(|(execution, period, deadline, jitter)| task(execution, period, deadline, jitter))
}

/// A job: when it is ready, when it is due (maybe before the start), its work, its rank.
type Job = (i64, i64, u64, usize);

/// Runs jobs by rank on the slots that are given; whether all are done by their deadlines, for
/// deadlines within the slots.
fn all_in_time(mut jobs: Vec<Job>, scheduler: LocalScheduler, slots: &[bool]) -> bool {
    for (now, given) in slots.iter().enumerate() {
        let now = now as i64;
        if jobs
            .iter()
            .any(|(_, due, left, _)| *left > 0 && *due <= now)
        {
            return false;
        }
        let ready = jobs
            .iter_mut()
            .filter(|(at, _, left, _)| *left > 0 && *at <= now);
        let next = match scheduler {
            LocalScheduler::EarliestDeadlineFirst => ready.min_by_key(|(_, due, ..)| *due),
            LocalScheduler::FixedPriority => {
                ready.min_by_key(|(at, due, _, rank)| (*rank, *due, *at))
            }
            LocalScheduler::FirstComeFirstServed => {
                ready.min_by_key(|(at, _, _, rank)| (*at, *rank))
            }
        };
        if let Some(job) = next.filter(|_| *given) {
            job.2 -= 1;
        }
        jobs.retain(|job| job.2 > 0);
    }
    true
}

/// All tasks ready at zero after their whole jitter, and from then on as early as may be.
fn worst_jobs(tasks: &[SporadicTask], until: i64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (rank, task) in tasks.iter().enumerate() {
        let mut arrival = -(task.jitter().as_nanos() as i64);
        while arrival < until {
            let due = arrival + task.deadline().as_nanos() as i64;
            jobs.push((arrival.max(0), due, task.execution().as_nanos(), rank));
            arrival += task.period().as_nanos() as i64;
        }
    }
    jobs
}

/// The slots of a supply that is as bad as its bound.
fn worst_slots(supply: &dyn SupplyBound, count: u64) -> Vec<bool> {
    let given = |slot: u64| supply.supplied_down(ns(slot + 1)) > supply.supplied_down(ns(slot));
    (0..count).map(given).collect()
}

fn small_resource() -> impl Strategy<Value = PeriodicSupply> {
    let period = prop::sample::select(vec![1_u64, 2, 3, 4, 6]);
    (period, any::<u64>(), any::<u64>()).prop_map(|(period, budget, deadline)| {
        let budget = 1 + budget % period;
        let deadline = budget + deadline % (period - budget + 1);
        PeriodicSupply::by_deadline(ns(budget), ns(period), ns(deadline)).unwrap()
    })
}

fn scheduler() -> impl Strategy<Value = LocalScheduler> {
    prop::sample::select(vec![
        LocalScheduler::EarliestDeadlineFirst,
        LocalScheduler::FixedPriority,
    ])
}

/// Also the order whose test is sufficient only.
fn any_scheduler() -> impl Strategy<Value = LocalScheduler> {
    prop_oneof![Just(LocalScheduler::FirstComeFirstServed), scheduler()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn the_verdict_is_that_of_the_worst_case(
        tasks in proptest::collection::vec(small_task(), 1..4),
        resource in small_resource(), scheduler in scheduler(),
    ) {
        let workload = Workload::new(tasks.clone()).unwrap();
        let verdict = schedulable(&workload, scheduler, &resource).unwrap();
        // Overloads of a 24th of a CPU show after 24 slots for each slot of deadline.
        let horizon = 1_400;
        let jobs = worst_jobs(&tasks, horizon);
        let slots = worst_slots(&resource, horizon as u64);
        prop_assert_eq!(verdict.schedulable, all_in_time(jobs, scheduler, &slots));
        prop_assert_eq!(verdict.schedulable, verdict.shortage.is_none());
        if let Some(Shortage::Window { task, window, demand, supply }) = verdict.shortage {
            prop_assert!(task < tasks.len());
            prop_assert!(demand > supply);
            prop_assert_eq!(supply, resource.supplied_down(window));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_schedulable_never_misses_whatever_the_arrivals_and_the_supply(
        tasks in proptest::collection::vec(small_task(), 1..4),
        resource in small_resource(), scheduler in any_scheduler(),
        numbers in proptest::collection::vec(0_usize..1_000, 150),
    ) {
        let workload = Workload::new(tasks.clone()).unwrap();
        let verdict = schedulable(&workload, scheduler, &resource);
        // Of first come, first served there is no answer where the tasks take all that is given.
        prop_assume!(verdict.is_ok() || scheduler != LocalScheduler::FirstComeFirstServed);
        prop_assume!(verdict.unwrap().schedulable);
        let mut numbers = numbers.iter().cycle();
        let mut number = |below: u64| *numbers.next().unwrap() as u64 % below.max(1);
        let horizon = 240;
        let mut jobs = Vec::new();
        for (rank, task) in tasks.iter().enumerate() {
            let mut arrival = number(8);
            while arrival < horizon {
                let ready = arrival + number(task.jitter().as_nanos() + 1);
                let due = (arrival + task.deadline().as_nanos()) as i64;
                jobs.push((ready as i64, due, task.execution().as_nanos(), rank));
                arrival += task.period().as_nanos() + number(3) * number(2);
            }
        }
        let (budget, period) = (resource.budget().as_nanos(), resource.period().as_nanos());
        let deadline = (resource.delay_up().as_nanos() + 2 * budget - period) as usize;
        let mut slots = Vec::new();
        while slots.len() < horizon as usize {
            let mut in_period = vec![false; period as usize];
            for _ in 0..budget {
                let free: Vec<usize> = (0..deadline).filter(|slot| !in_period[*slot]).collect();
                in_period[free[number(free.len() as u64) as usize]] = true;
            }
            slots.extend(in_period);
        }
        prop_assert!(all_in_time(jobs, scheduler, &slots));
    }

    #[test]
    fn demand_bounds_count_jobs(tasks in proptest::collection::vec(small_task(), 1..4)) {
        let workload = Workload::new(tasks.clone()).unwrap();
        let jobs = worst_jobs(&tasks, 200);
        for window in 0..150_i64 {
            let sum = |wanted: &dyn Fn(&Job) -> bool| {
                jobs.iter().filter(|job| wanted(job)).map(|job| job.2).sum::<u64>()
            };
            let due = sum(&|job| job.1 <= window);
            prop_assert_eq!(workload.demand_bound(ns(window as u64)), ns(due));
            let ready = sum(&|job| job.0 < window);
            prop_assert_eq!(workload.request_bound(tasks.len(), ns(window as u64)), ns(ready));
        }
        let mut rises: Vec<u64> = jobs.iter().map(|job| job.1.max(0) as u64).collect();
        rises.sort_unstable();
        rises.dedup();
        rises.retain(|rise| *rise <= 150);
        let mut before = ns(151);
        for rise in rises.iter().rev() {
            let (_, latest) = workload.latest_deadline(before).unwrap();
            prop_assert_eq!(latest, ns(*rise));
            before = latest;
        }
        prop_assert_eq!(workload.latest_deadline(before), None);
        let mut from = Duration::ZERO;
        for rise in rises {
            let (_, earliest) = workload.earliest_deadline(from).unwrap();
            prop_assert_eq!(earliest, ns(rise));
            from = ns(rise + 1);
        }
    }

    #[test]
    fn the_first_shortage_is_the_shortest_window(
        tasks in proptest::collection::vec(small_task(), 1..4), budget in 2_u64..5,
    ) {
        let workload = Workload::new(tasks.clone()).unwrap();
        let supply = PeriodicSupply::deferrable(ns(budget), ns(5), ns(0)).unwrap();
        let test = schedulable(&workload, LocalScheduler::EarliestDeadlineFirst, &supply).unwrap();
        let first = first_shortage(&workload, &supply).unwrap();
        prop_assert_eq!(first.is_none(), test.schedulable);
        if let Some(Shortage::Window { window, demand, supply: given, task }) = first {
            let short = |window: &u64| {
                workload.demand_bound(ns(*window)) > supply.supplied_down(ns(*window))
            };
            prop_assert_eq!((0..=window.as_nanos()).find(short), Some(window.as_nanos()));
            prop_assert_eq!(demand, workload.demand_bound(window));
            prop_assert_eq!(given, supply.supplied_down(window));
            let before = window.saturating_sub(ns(1));
            prop_assert!(window.is_zero() || tasks[task].jobs_due(window) > tasks[task].jobs_due(before));
        }
    }

    #[test]
    fn a_deferrable_server_gives_its_supply_whenever_there_is_work(
        period in 1_u64..9, budget in any::<u64>(),
        arrivals in proptest::collection::vec(prop::sample::select(vec![0_u64, 0, 0, 1, 1, 2, 9]), 120),
    ) {
        let budget = 1 + budget % period;
        let supply = PeriodicSupply::deferrable(ns(budget), ns(period), ns(0)).unwrap();
        let (worked, busy) = deferrable_run(budget, period, &arrivals);
        for start in 0..busy.len() {
            let length = busy[start..].iter().take_while(|busy| **busy).count();
            for window in 0..=length {
                let given = worked[start + window] - worked[start];
                prop_assert!(ns(given) >= supply.supplied_down(ns(window as u64)));
            }
        }
    }

    #[test]
    fn a_deferrable_server_below_another_gives_its_supply_with_jitter(
        period in 2_u64..12, budget in any::<u64>(), above in (1_u64..4, 4_u64..14, 0_u64..14),
        arrivals in proptest::collection::vec(prop::sample::select(vec![0_u64, 0, 0, 1, 1, 2, 9]), 150),
        waits in proptest::collection::vec(0_u64..6, 60),
    ) {
        let budget = 1 + budget % period;
        let (execution, gap, first) = above;
        // The worst-case response time of the budget below a sporadic task.
        let mut response = budget;
        for _ in 0..50 {
            response = budget + response.div_ceil(gap) * execution;
        }
        prop_assume!(response <= period);
        let supply = PeriodicSupply::deferrable(ns(budget), ns(period), ns(response - budget)).unwrap();
        let mut taken = vec![0_u64; arrivals.len() + 1];
        let (mut at, mut waits) = (first, waits.iter().cycle());
        while at < arrivals.len() as u64 {
            taken[at as usize] += execution;
            at += gap + waits.next().unwrap();
        }
        let (mut left, mut pending, mut ahead) = (0, 0, 0);
        let (mut worked, mut busy) = (vec![0], Vec::new());
        for (slot, arriving) in arrivals.iter().enumerate() {
            if (slot as u64).is_multiple_of(period) {
                left = budget;
            }
            ahead += taken[slot];
            pending += arriving;
            busy.push(pending > 0);
            let step = u64::from(ahead == 0 && pending > 0 && left > 0);
            ahead = ahead.saturating_sub(1);
            left -= step;
            pending -= step;
            worked.push(worked[slot] + step);
        }
        for start in 0..busy.len() {
            let length = busy[start..].iter().take_while(|busy| **busy).count();
            for window in 0..=length {
                let given = worked[start + window] - worked[start];
                prop_assert!(ns(given) >= supply.supplied_down(ns(window as u64)));
            }
        }
    }

    #[test]
    fn the_least_budget_passes_and_a_nanosecond_less_fails(
        tasks in proptest::collection::vec((1_u64..300, 100_u64..2_000, 50_u64..2_500, 0_u64..40), 1..6),
        period in 1_u64..1_500, scheduler in any_scheduler(), overhead in 0_u64..20,
        kind in 0_u8..4, share in 0_u64..100,
    ) {
        let tasks = tasks.iter().map(|&(c, t, d, j)| task(c, t, d, j)).collect();
        let workload = Workload::new(tasks).unwrap();
        let model = match kind {
            0 => ResourceModel::Periodic,
            1 => ResourceModel::ExplicitDeadline { deadline: ns(period * share / 100) },
            2 => ResourceModel::Deferrable { jitter: ns(period * share / 300) },
            _ => ResourceModel::Polling { jitter: ns(period * share / 300) },
        };
        let search = InterfaceSearch { workload: &workload, scheduler, model, overhead: ns(overhead) };
        match search.least_budget(ns(period)) {
            Ok(least) => {
                prop_assert!(search.test(least.budget, ns(period)).unwrap().schedulable);
                prop_assert!(least.budget > ns(overhead));
                if least.assumptions.iter().any(|text| text.contains("count as too small")) {
                    return Ok(());
                }
                let less = search.test(least.budget - ns(1), ns(period)).unwrap();
                prop_assert!(!less.schedulable);
                prop_assert_eq!(less.shortage, least.tightest);
                let share = least.bandwidth().unwrap().as_f64();
                prop_assert!(share >= workload.utilisation() * (1.0 - 1e-12));
            }
            Err(AnalysisError::NoBudgetSuffices { most, .. }) => {
                prop_assert!(most <= ns(overhead) || !search.test(most, ns(period)).unwrap().schedulable);
            }
            Err(AnalysisError::NotAnalysed { .. }) => {}
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}

/// Shin and Lee (2003, section 4): two tasks (T, C) = (50, 7) and (75, 9), in milliseconds, on
/// resources of 10 ms; the budgets by trying all whole milliseconds in the simulation.
#[test]
fn the_example_of_shin_and_lee_by_simulation() {
    let tasks = vec![task(7, 50, 50, 0), task(9, 75, 75, 0)];
    let workload = Workload::new(tasks.clone()).unwrap();
    for scheduler in [
        LocalScheduler::EarliestDeadlineFirst,
        LocalScheduler::FixedPriority,
    ] {
        for period in [10, 17, 25, 40, 50] {
            let search = InterfaceSearch {
                workload: &workload,
                scheduler,
                model: ResourceModel::Periodic,
                overhead: Duration::ZERO,
            };
            let least = search.least_budget(ns(period)).unwrap().budget.as_nanos();
            let simulated = (1..=period).find(|budget| {
                let resource = PeriodicSupply::somewhere(ns(*budget), ns(period)).unwrap();
                let slots = worst_slots(&resource, 5_100);
                all_in_time(worst_jobs(&tasks, 5_100), scheduler, &slots)
            });
            assert_eq!(Some(least), simulated, "{period} {scheduler:?}");
        }
    }
}

#[test]
fn the_best_period_has_the_least_bandwidth_and_overhead_makes_it_longer() {
    let ms = Duration::from_millis;
    let tasks = vec![
        SporadicTask::implicit(ms(7), ms(50)).unwrap(),
        SporadicTask::implicit(ms(9), ms(75)).unwrap(),
    ];
    let workload = Workload::new(tasks).unwrap();
    let best = |overhead| {
        let search = InterfaceSearch {
            workload: &workload,
            scheduler: LocalScheduler::EarliestDeadlineFirst,
            model: ResourceModel::Periodic,
            overhead,
        };
        let best = search.best((1..=50).map(ms)).unwrap();
        for period in (1..=50).map(ms) {
            let other = search.least_budget(period).unwrap();
            assert!(best.bandwidth() <= other.bandwidth());
        }
        best
    };
    let free = best(Duration::ZERO);
    let costly = best(Duration::from_micros(100));
    assert!(costly.period > free.period, "{free:?} {costly:?}");
    assert!(costly.bandwidth() > free.bandwidth());
    assert!(costly.assumptions.iter().any(|text| text.contains("100us")));
    assert!(free.tightest.is_some());
}

#[test]
fn a_utilisation_of_the_whole_bandwidth_is_decided() {
    let tasks = vec![task(2, 4, 4, 0), task(3, 6, 6, 0)];
    let workload = Workload::new(tasks).unwrap();
    let edf = LocalScheduler::EarliestDeadlineFirst;
    assert!(
        schedulable(&workload, edf, &DedicatedCpu)
            .unwrap()
            .schedulable
    );
    let fixed = schedulable(&workload, LocalScheduler::FixedPriority, &DedicatedCpu).unwrap();
    assert!(!fixed.schedulable);
    let resource = PeriodicSupply::somewhere(ns(1_000), ns(1_000)).unwrap();
    assert!(schedulable(&workload, edf, &resource).unwrap().schedulable);
}

#[test]
fn later_jobs_of_a_busy_window_may_be_the_ones_that_miss() {
    // Two tasks, the lower with a deadline beyond its period, on little more than they need.
    let resources = [
        PeriodicSupply::somewhere(ns(1), ns(1)).unwrap(),
        PeriodicSupply::somewhere(ns(7), ns(8)).unwrap(),
    ];
    let (mut misses, mut only_later) = (0, 0);
    for (first_period, second_period) in [(4, 6), (5, 7), (6, 8), (7, 10)] {
        for (first, second) in
            (1..first_period).flat_map(|c| (1..second_period).map(move |d| (c, d)))
        {
            if first * second_period + second * first_period > first_period * second_period {
                continue;
            }
            for deadline in second_period..2 * second_period {
                for resource in &resources {
                    let tasks = vec![
                        task(first, first_period, 2 * first_period, 0),
                        task(second, second_period, deadline, 0),
                    ];
                    let fixed = LocalScheduler::FixedPriority;
                    let workload = Workload::new(tasks.clone()).unwrap();
                    let verdict = schedulable(&workload, fixed, resource).unwrap();
                    let slots = worst_slots(resource, 700);
                    let jobs = worst_jobs(&tasks, 700);
                    let in_time = all_in_time(jobs.clone(), fixed, &slots);
                    assert_eq!(verdict.schedulable, in_time, "{tasks:?} {resource:?}");
                    misses += u32::from(!in_time);
                    let first_jobs = slots[..deadline as usize + 1].to_vec();
                    let first_in_time = all_in_time(jobs, fixed, &first_jobs);
                    only_later += u32::from(!in_time && first_in_time);
                }
            }
        }
    }
    assert!(misses > 20 && only_later > 5, "{misses} {only_later}");
}
