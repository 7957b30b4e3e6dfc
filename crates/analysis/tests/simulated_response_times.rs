//! Response-time analysis against the simulator: released together, periodic tasks under fixed priorities
//! have in one hyperperiod the longest response times that they can have (Lehoczky 1990, for deadlines of
//! any length).

use proptest::prelude::*;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::schedulability::NoResponseTime;
use tailbound_analysis::schedulability::response_time::FixedPriorityAnalyzer;
use tailbound_simulator::ResponseTimes;
use tailbound_simulator::hierarchy::{
    HierarchyPlan, Level, LevelMember, PeriodicJobs, PeriodicSource, PlannedTask, Rank,
    simulate_plan,
};
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

/// The longest response of each task to its jobs of one hyperperiod.
fn simulated(set: &[(u64, u64)]) -> Vec<Duration> {
    let members = (0..set.len() as u64)
        .map(|rank| LevelMember::Task(PlannedTask::of_rank(Rank::Fixed(rank))));
    let plan = HierarchyPlan::on_one_cpu(Level::of(members.collect()));
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
