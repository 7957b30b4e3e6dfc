//! Prints how many jobs per second the simulation of trees completes, for the tables in bench/results.
//!
//! `cargo run --release -p tailbound-simulator --example hierarchy_speed`

use std::error::Error;
use std::time::Instant as WallClock;

use tailbound_simulator::ResponseTimes;
use tailbound_simulator::hierarchy::{
    Level, Member, PeriodicJobs, PeriodicTask, Plan, Rank, Reservation, Rule, Task, simulate_plan,
};
use tailbound_time::Duration;

const JOBS: u64 = 20_000_000;

fn level(members: Vec<Member>) -> Level {
    Level {
        preemptive: true,
        quantum: None,
        members,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let periods: Vec<u64> = (0..10).map(|index| 1_000_000 * (index + 2)).collect();
    let flat = |rank: &dyn Fn(u64) -> Rank| {
        let members = periods
            .iter()
            .map(|period| Member::Task(Task::of_rank(rank(*period))));
        Plan::on_one_cpu(level(members.collect()))
    };
    let inside = |tasks: &[u64]| {
        level(
            tasks
                .iter()
                .map(|period| Member::Task(Task::of_rank(Rank::Fixed(*period))))
                .collect(),
        )
    };
    let server = |rank, tasks: &[u64]| {
        Member::Reservation(Reservation {
            rank: Rank::Fixed(rank),
            rule: Rule::Deferrable,
            budget: Duration::from_micros(450),
            period: Duration::from_millis(1),
            phase: Duration::ZERO,
            inside: inside(tasks),
        })
    };
    let plans = [
        ("fixed priority", flat(&Rank::Fixed)),
        (
            "earliest deadline first",
            flat(&|period| Rank::Deadline(Duration::from_nanos(period))),
        ),
        (
            "two deferrable servers",
            Plan::on_one_cpu(level(vec![
                server(0, &periods[..5]),
                server(1, &periods[5..]),
            ])),
        ),
    ];
    for (name, plan) in plans {
        let task = |period_ns: &u64| PeriodicTask {
            offset: 0,
            period_ns: *period_ns,
            work: period_ns * 7 / 100,
        };
        let mut source = PeriodicJobs::new(periods.iter().map(task).collect(), JOBS);
        let mut sink = ResponseTimes::new(periods.len(), Duration::ZERO);
        let begin = WallClock::now();
        simulate_plan(&plan, &mut source, &mut sink, None)?;
        let per_second = JOBS as f64 / begin.elapsed().as_secs_f64() / 1e6;
        let longest = sink
            .per_task
            .iter()
            .map(|tally| tally.longest())
            .max()
            .unwrap_or(Duration::ZERO);
        println!("{name:25} {per_second:6.1} million jobs per second (longest response {longest})");
    }
    Ok(())
}
