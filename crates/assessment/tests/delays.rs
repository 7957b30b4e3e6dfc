//! Delays of the jobs of a description's tasks: release jitter, blocking, and jobs that are not preempted.

use std::fmt::Write as _;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_analysis::SporadicTask;
use tailbound_assessment::schedulability::{DeadlineVerdict, ModeVerdict, TaskVerdict, judge};
use tailbound_assessment::task_set::{PriorityQuestion, PriorityRule, fixed_priority};
use tailbound_model::{Description, InputFiles};
use tailbound_simulator::host::{HostQuery, Kept, MOST_EVENTS, simulate_host};
use tailbound_time::Duration;

/// A task of the random sets; the first one has the highest priority.
#[derive(Clone, Copy, Debug)]
struct RandomTask {
    execution: Duration,
    period: Duration,
    jitter: Duration,
    blocking: Duration,
}

fn random_tasks(random: &mut ChaCha8Rng, with_delays: bool) -> Vec<RandomTask> {
    let count = random.random_range(2..6_u64);
    let micros = Duration::from_micros;
    let tasks = (0..count).map(|_| {
        let period = random.random_range(4..60) * 500;
        let mut delay = |most: u64| match with_delays && random.random_bool(0.5) {
            true => micros(random.random_range(0..most)),
            false => Duration::ZERO,
        };
        let (jitter, blocking) = (delay(period / 2), delay(period / 3));
        RandomTask {
            execution: micros(random.random_range(1..period / count)),
            period: micros(period),
            jitter,
            blocking,
        }
    });
    tasks.collect()
}

/// A domain with these tasks of its own by fixed priorities.
fn description(tasks: &[RandomTask], reservation: &str, preemptive: bool) -> Description {
    let mut text = format!(
        "schema_version = 1\nname = \"delays\"\nhosts.here.cpus = [0]\n[domains.arm]\nkind = \"process\"\n\
         command = [\"arm\"]\nscheduling = \"fixed-priority\"\npreemptive = {preemptive}\nreservation = {reservation}\n"
    );
    for (index, task) in tasks.iter().enumerate() {
        let RandomTask {
            execution,
            period,
            jitter,
            blocking,
        } = task;
        let priority = 90 - index;
        write!(
            text,
            "[domains.arm.tasks.t{index}]\narrivals = {{ kind = \"periodic\", period = \"{period}\" }}\n\
             execution_time = {{ kind = \"constant\", value = \"{execution}\" }}\npriority = {priority}\n\
             jitter = \"{jitter}\"\nblocking = \"{blocking}\"\n"
        )
        .unwrap();
    }
    tailbound_model::parse(&text, "delays.toml").unwrap()
}

fn verdict(description: &Description) -> ModeVerdict {
    let mut modes = judge(description, &InputFiles::default()).unwrap();
    assert_eq!(modes.len(), 1);
    modes.remove(0)
}

#[test]
fn a_description_has_the_verdicts_of_its_task_set() {
    let mut random = ChaCha8Rng::seed_from_u64(19);
    let mut met = 0;
    for case in 0..400 {
        let tasks = random_tasks(&mut random, true);
        let preemptive = case % 2 == 0;
        let description = description(
            &tasks,
            r#"{ backend = "dedicated", cpus = [0] }"#,
            preemptive,
        );
        let sporadic = tasks.iter().map(|task| {
            let sporadic = SporadicTask::implicit(task.execution, task.period).unwrap();
            sporadic.with_jitter(task.jitter).unwrap()
        });
        let sporadic: Vec<SporadicTask> = sporadic.collect();
        let blocking: Vec<Duration> = tasks.iter().map(|task| task.blocking).collect();
        let question = PriorityQuestion {
            blocking: &blocking,
            is_preemptive: preemptive,
            ..PriorityQuestion::of(&sporadic)
        };
        let answer = fixed_priority(&question, PriorityRule::AsGiven)
            .unwrap()
            .unwrap();
        let expected = answer
            .tasks
            .iter()
            .map(|task| (task.response_time, task.meets_deadline));
        let judged = verdict(&description).tasks;
        let judged = judged
            .iter()
            .map(|task| (task.response_bound, task.verdict == DeadlineVerdict::Met));
        assert_eq!(
            judged.collect::<Vec<_>>(),
            expected.collect::<Vec<_>>(),
            "{tasks:?}"
        );
        met += usize::from(answer.schedulable);
    }
    assert!(
        (40..360).contains(&met),
        "{met} of 400 sets meet their deadlines"
    );
}

#[test]
fn no_simulated_job_without_preemption_is_later_than_its_bound() {
    let mut random = ChaCha8Rng::seed_from_u64(20);
    let mut bounded = 0;
    for case in 0..120 {
        let tasks = random_tasks(&mut random, false);
        let reservation = match case % 3 {
            0 => r#"{ backend = "dedicated", cpus = [0] }"#,
            1 => r#"{ budget = "6ms", period = "7ms", cpus = [0] }"#,
            _ => r#"{ budget = "2ms", period = "3ms", server = "periodic", cpus = [0] }"#,
        };
        let description = description(&tasks, reservation, false);
        let simulation = simulate_host(&HostQuery {
            description: &description,
            host: "here",
            inputs: &InputFiles::default(),
            seed: case,
            warm_up: Duration::ZERO,
            duration: Duration::from_millis(400),
            kept: Kept::All,
            most_events: MOST_EVENTS,
        })
        .unwrap();
        let simulated = &simulation.domains["arm"].tasks;
        for TaskVerdict {
            task,
            response_bound,
            ..
        } in verdict(&description).tasks
        {
            let Some(bound) = response_bound else {
                continue;
            };
            let simulated = simulated.iter().find(|one| one.name == task).unwrap();
            let longest = Duration::from_nanos(simulated.longest_ns.unwrap());
            assert!(
                longest <= bound,
                "{task} takes {longest}, bound {bound}: {tasks:?}, {reservation}"
            );
            bounded += 1;
        }
    }
    assert!(bounded > 100, "{bounded} tasks have a bound");
}

#[test]
fn jitter_counts_in_every_order() {
    let tasks = |scheduling: &str, jitter: &str| {
        let text = format!(
            r#"
            schema_version = 1
            name = "orders"
            hosts.here.cpus = [0]
            [domains.arm]
            kind = "process"
            command = ["arm"]
            scheduling = "{scheduling}"
            reservation = {{ backend = "dedicated", cpus = [0] }}
            [domains.arm.tasks.a]
            arrivals = {{ kind = "periodic", period = "10ms" }}
            execution_time = {{ kind = "constant", value = "3ms" }}
            jitter = "{jitter}"
            [domains.arm.tasks.b]
            arrivals = {{ kind = "periodic", period = "20ms" }}
            execution_time = {{ kind = "constant", value = "5ms" }}
            "#
        );
        let description = tailbound_model::parse(&text, "orders.toml").unwrap();
        let bounds = verdict(&description).tasks.into_iter();
        bounds
            .map(|task| task.response_bound.unwrap())
            .collect::<Vec<_>>()
    };
    for scheduling in ["fifo", "rate-monotonic", "earliest-deadline-first"] {
        let (without, with) = (tasks(scheduling, "0ns"), tasks(scheduling, "4ms"));
        // A job may wait as long as before once it is ready.
        let jitter = Duration::from_millis(4);
        assert!(
            with[0] >= without[0].saturating_add(jitter),
            "{scheduling}: {with:?} after {without:?}"
        );
        assert!(
            with[1] >= without[1],
            "{scheduling}: {with:?} after {without:?}"
        );
    }
}

/// Execution time, period, deadline, blocking and jitter of the tasks of an aircraft's mission computer, and their
/// response times from release, all in microseconds, the highest priority first: the example of Audsley et al.
/// (Software Engineering Journal 8(5), 1993) with the answers that SchedCAT's tests (`tests/fp.py`) expect.
const AVIONICS: [[u64; 6]; 18] = [
    [51, 1_000, 1_000, 0, 0, 51],
    [3_000, 2_000_000, 5_000, 300, 0, 3_504],
    [2_000, 25_000, 25_000, 600, 0, 5_906],
    [5_000, 25_000, 25_000, 900, 0, 11_512],
    [1_000, 40_000, 40_000, 1_350, 0, 13_064],
    [3_000, 50_000, 50_000, 1_350, 0, 16_217],
    [5_000, 50_000, 50_000, 750, 0, 20_821],
    [8_000, 59_000, 59_000, 750, 0, 36_637],
    [9_000, 80_000, 80_000, 1_350, 0, 47_798],
    [2_000, 80_000, 80_000, 450, 0, 48_949],
    [5_000, 100_000, 100_000, 1_050, 0, 99_150],
    [1_000, 200_000, 200_000, 450, 1_000, 99_550],
    [3_000, 200_000, 200_000, 450, 0, 140_641],
    [1_000, 200_000, 200_000, 450, 0, 141_692],
    [1_000, 200_000, 200_000, 1_350, 0, 143_694],
    [3_000, 1_000_000, 1_000_000, 0, 0, 145_446],
    [1_000, 1_000_000, 1_000_000, 0, 0, 146_497],
    [1_000, 1_000_000, 1_000_000, 0, 0, 147_548],
];

#[test]
fn the_avionics_example_has_its_published_response_times() {
    let mut text = String::from(
        "schema_version = 1\nname = \"avionics\"\nhosts.here.cpus = [0]\n[domains.computer]\nkind = \"process\"\n\
         command = [\"mission\"]\nscheduling = \"fixed-priority\"\nreservation = { backend = \"dedicated\", cpus = [0] }\n",
    );
    for (index, [execution, period, deadline, blocking, jitter, _]) in AVIONICS.iter().enumerate() {
        let priority = 90 - index;
        write!(
            text,
            "[domains.computer.tasks.t{index:02}]\narrivals = {{ kind = \"periodic\", period = \"{period}us\" }}\n\
             execution_time = {{ kind = \"constant\", value = \"{execution}us\" }}\ndeadline = \"{deadline}us\"\n\
             priority = {priority}\nblocking = \"{blocking}us\"\njitter = \"{jitter}us\"\n"
        )
        .unwrap();
    }
    let description = tailbound_model::parse(&text, "avionics.toml").unwrap();
    let judged = verdict(&description);
    assert!(judged.schedulable, "{judged:?}");
    let answers = judged.tasks.iter().map(|task| task.response_bound.unwrap());
    // Ours count from the arrival, the published ones from the release.
    let published = AVIONICS
        .iter()
        .map(|[.., jitter, response]| Duration::from_micros(response + jitter));
    assert_eq!(answers.collect::<Vec<_>>(), published.collect::<Vec<_>>());
}
