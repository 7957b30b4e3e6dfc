//! Response-time analysis against the simulator: released together, periodic tasks under fixed priorities
//! have in one hyperperiod the longest response times that they can have (Lehoczky 1990, for deadlines of
//! any length).

use proptest::prelude::*;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::schedulability::NoResponseTime;
use tailbound_analysis::schedulability::response_time::FixedPriorityAnalyzer;
use tailbound_model::{Arrivals, ExecutionTime, InputFiles, Task};
use tailbound_simulator::ResponseTimes;
use tailbound_simulator::hierarchy::{
    HierarchyPlan, Level, LevelMember, PeriodicJobs, PeriodicSource, PlannedTask, Rank,
    simulate_plan,
};
use tailbound_simulator::workload::DrawnJobs;
use tailbound_time::Duration;

/// The least common multiple of all periods, in microseconds.
const HYPERPERIOD: u64 = 720;

/// Periods and execution times in nanoseconds, by priority, which has nothing to do with the period.
fn sets() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let periods = [6, 8, 9, 10, 12, 15, 18, 20, 24, 30, 36, 40, 60, 80, 90, 120];
    let task = prop::sample::select(periods.to_vec()).prop_flat_map(|period| {
        let period_ns = period * 1_000;
        (Just(period_ns), 1..=period_ns / 2)
    });
    prop::collection::vec(task, 1..7)
}

/// So many tasks on a CPU, the first one first.
fn by_rank(tasks: usize) -> HierarchyPlan {
    let members =
        (0..tasks as u64).map(|rank| LevelMember::Task(PlannedTask::of_rank(Rank::Fixed(rank))));
    HierarchyPlan::on_one_cpu(Level::of(members.collect()))
}

/// The longest response of each task to its jobs of one hyperperiod.
fn simulated(set: &[(u64, u64)]) -> Vec<Duration> {
    let plan = by_rank(set.len());
    let tasks = set.iter().map(|(period_ns, work)| PeriodicSource {
        offset: 0,
        period_ns: *period_ns,
        work: *work,
    });
    let jobs = set
        .iter()
        .map(|(period_ns, _)| HYPERPERIOD * 1_000 / period_ns);
    let mut jobs = PeriodicJobs::new(tasks.collect(), jobs.sum());
    let mut responses = ResponseTimes::new(set.len(), Duration::ZERO);
    simulate_plan(&plan, &mut jobs, &mut responses, None).unwrap();
    responses
        .per_task
        .iter()
        .map(|tally| tally.longest())
        .collect()
}

/// The longest responses in forty hyperperiods, from the arrival, of jobs that become ready by the seed within their
/// jitter.
fn simulated_late(set: &[(u64, u64)], jitters: &[u64], seed: u64) -> Vec<Duration> {
    let ns = Duration::from_nanos;
    let task = |((period_ns, work), jitter): (&(u64, u64), &u64)| {
        let arrivals = Arrivals::Periodic {
            period: ns(*period_ns),
            offset: Duration::ZERO,
        };
        Task {
            jitter: ns(*jitter),
            ..Task::of(arrivals, ExecutionTime::Constant { value: ns(*work) })
        }
    };
    let tasks: Vec<Task> = set.iter().zip(jitters).map(task).collect();
    let names: Vec<String> = (0..set.len()).map(|at| at.to_string()).collect();
    let named = names.iter().zip(&tasks).enumerate();
    let named = named.map(|(at, (name, task))| (at, name.as_str(), task));
    let inputs = InputFiles::default();
    let horizon = ns(40 * HYPERPERIOD * 1_000);
    let mut jobs = DrawnJobs::of_tasks(named, horizon, seed, &inputs).unwrap();
    let mut responses = ResponseTimes::new(set.len(), Duration::ZERO);
    simulate_plan(&by_rank(set.len()), &mut jobs, &mut responses, None).unwrap();
    let longest = responses.per_task.iter().map(|tally| tally.longest());
    longest.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn jobs_with_jitter_never_take_longer_than_analysed(
        set in sets(),
        shares in prop::collection::vec(0.0..1.5_f64, 7),
        seed in any::<u64>(),
    ) {
        let ns = Duration::from_nanos;
        let jitters: Vec<u64> = set
            .iter()
            .zip(shares)
            .map(|((period_ns, _), share)| (*period_ns as f64 * share) as u64)
            .collect();
        let tasks: Vec<SporadicTask> = set
            .iter()
            .zip(&jitters)
            .map(|((period_ns, work), jitter)| {
                let task = SporadicTask::implicit(ns(*work), ns(*period_ns)).unwrap();
                task.with_jitter(ns(*jitter)).unwrap()
            })
            .collect();
        let simulated = simulated_late(&set, &jitters, seed);
        let mut analyzer = FixedPriorityAnalyzer::new();
        let analysed = analyzer.response_times(&tasks, &[]).unwrap();
        for (analysed, simulated) in analysed.iter().zip(simulated) {
            if let Ok(response) = analysed.response_time {
                prop_assert!(simulated <= response, "{simulated} {response}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn the_longest_simulated_response_is_the_analysed_one(set in sets()) {
        let ns = Duration::from_nanos;
        let tasks: Vec<SporadicTask> = set
            .iter()
            .map(|(period_ns, work)| SporadicTask::implicit(ns(*work), ns(*period_ns)).unwrap())
            .collect();
        let simulated = simulated(&set);
        let mut analyzer = FixedPriorityAnalyzer::new();
        let analysed = analyzer.response_times(&tasks, &[]).unwrap();
        for (analysed, simulated) in analysed.iter().zip(simulated) {
            match analysed.response_time {
                Ok(response) => prop_assert_eq!(response, simulated),
                // With more work than time there is no longest response.
                Err(problem) => prop_assert_eq!(problem, NoResponseTime::Overloaded),
            }
        }
    }
}
