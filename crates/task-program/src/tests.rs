//! What the program of a domain is to do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::{AtomicBool, Ordering};

use tailbound_job_log::LoggedJob;
use tailbound_messages::{Contract, ExcessRule};
use tailbound_model::{
    Arrivals, Description, DescriptionFormat, ExecutionTime, InputFiles, SectionKind,
};
use tailbound_time::Duration;
use tailbound_topics::{Routes, Topics};

use crate::{PlayedTask, ProgramPlan, ProgramTask, RouteChoice, RoutePlan, RouteService, play};

static FORMAT: DescriptionFormat =
    DescriptionFormat::with(&[SectionKind::of::<Topics>(), SectionKind::of::<Routes>()]);

/// A sensor that a filter listens to, and a route beside the filter.
const ROBOT: &str = r#"
schema_version = 1
name = "robot"
[hosts.local]
cpus = [0]
[domains.sensor]
kind = "process"
builtin = "own-tasks"
[domains.sensor.tasks.sense]
arrivals = { kind = "periodic", period = "5ms" }
execution_time = { kind = "constant", value = "10us" }
[domains.filter]
kind = "process"
builtin = "own-tasks"
[domains.filter.tasks.smooth]
arrivals = { kind = "periodic", period = "20ms" }
execution_time = { kind = "constant", value = "10us" }
[domains.filter.tasks.count]
arrivals = { kind = "sporadic", min_gap = "1ms", max_gap = "1s" }
execution_time = { kind = "constant", value = "10us" }
[domains.filter.tasks.pass]
arrivals = { kind = "sporadic", min_gap = "1ms", max_gap = "1s" }
execution_time = { kind = "constant", value = "10us" }
[topics.speed]
publishers = ["sensor/sense"]
subscribers = ["filter/smooth"]
released = ["filter/count", "filter/pass"]
size = 64
transport = "udp"
address = "127.0.0.1:PORT"
quality = { history = 8 }
[topics.speed-outside]
publishers = ["filter/pass"]
subscribers = ["sensor/sense"]
size = 64
name = "speed"
type_name = "speed"
transport = "udp"
address = "127.0.0.1:OTHER"
[routes.outward]
task = "filter/pass"
from = "speed"
to = "speed-outside"
"#;

fn robot(ports: (u16, u16)) -> Description {
    let text = ROBOT.replace("PORT", &ports.0.to_string());
    let text = text.replace("OTHER", &ports.1.to_string());
    FORMAT.load_text(text, "robot.toml").unwrap().description
}

fn names(topics: &[crate::PlannedTopic]) -> Vec<&str> {
    topics.iter().map(|topic| topic.name.as_str()).collect()
}

#[test]
fn tasks_have_the_topics_of_the_description() {
    let plan = ProgramPlan::of(&robot((7441, 7442)), "filter").unwrap();
    let of =
        |name: &str| -> &ProgramTask { plan.tasks.iter().find(|task| task.name == name).unwrap() };
    assert_eq!(names(&of("smooth").reads), ["speed"]);
    assert!(of("smooth").releasing.is_none() && of("smooth").route.is_none());
    assert_eq!(of("count").read_names(), ["speed"]);
    assert!(of("count").reads.is_empty() && of("count").releasing.is_some());
    assert_eq!(of("pass").route.as_ref().unwrap().name, "outward");
    let topic = of("pass").publishes[0].topic();
    assert_eq!((topic.name.as_str(), topic.subscribers), ("speed", 1));
    assert_eq!(plan.periods.len(), 2);
}

#[test]
fn a_domain_that_has_nothing_to_do_is_refused() {
    let mut description = robot((7441, 7442));
    let refusal = |description: &Description, domain: &str| {
        ProgramPlan::of(description, domain)
            .unwrap_err()
            .to_string()
    };
    assert!(refusal(&description, "moon").contains("`moon`: there is none"));
    let mut topics: Topics = description.section();
    let speed = topics.0.get_mut("speed-outside").unwrap();
    speed.released.push("filter/count".to_owned());
    description.sections.set(&topics).unwrap();
    assert!(refusal(&description, "filter").contains("`speed` and `speed-outside`"));
    description.domains.get_mut("filter").unwrap().tasks.clear();
    assert!(refusal(&description, "filter").contains("describe them at `tasks`"));
}

/// What the programs of filter and sensor do, side by side for some time.
fn both_programs(length: std::time::Duration) -> [Vec<PlayedTask>; 2] {
    let description = robot((7443, 7444));
    let (inputs, stop) = (InputFiles::default(), AtomicBool::new(false));
    let plans = ["filter", "sensor"].map(|domain| ProgramPlan::of(&description, domain).unwrap());
    std::thread::scope(|scope| {
        let threads = plans
            .each_ref()
            .map(|plan| scope.spawn(|| play(plan, &inputs, &stop)));
        std::thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        threads.map(|thread| thread.join().unwrap().unwrap())
    })
}

fn has_read(task: &PlayedTask) -> bool {
    task.log.jobs.iter().any(|job| job.read[0].is_some())
}

#[test]
fn programs_pass_messages_by_clock_by_release_and_by_route() {
    // On a host that stalls, the programs get more time until each has read something.
    let lengths = [500, 1000, 2000, 4000, 8000];
    let [filter, sensor] = lengths
        .into_iter()
        .map(|milliseconds| both_programs(std::time::Duration::from_millis(milliseconds)))
        .find(|both| both.iter().flatten().all(has_read))
        .expect("messages pass");
    let log = |played: &[PlayedTask], name: &str| {
        let played = played.iter().find(|task| task.name == name).unwrap();
        assert_eq!((&played.failure, played.violations), (&None, 0), "{name}");
        played.log.clone()
    };
    let sensed = log(&sensor, "sense");
    let messages: Vec<_> = sensed.jobs.iter().map(|job| job.published[0]).collect();
    assert!(!messages.is_empty() && messages.iter().all(Option::is_some));
    // Each log begins with its program, so what counts is that no other message came than the sensor published.
    for (task, publishes) in [("count", false), ("smooth", false), ("pass", true)] {
        let log = log(&filter, task);
        let mut read = log
            .jobs
            .iter()
            .map(|job| job.read[0])
            .filter(Option::is_some);
        assert!(read.clone().next().is_some(), "{task} read nothing");
        assert!(read.all(|message| messages.contains(&message)), "{task}");
        assert!(
            log.jobs
                .iter()
                .all(|job| job.release <= job.start && job.start <= job.end)
        );
        if publishes {
            assert!(
                log.jobs.iter().all(|job| job.published == job.read),
                "a route keeps source and number"
            );
        }
    }
    let counted = log(&filter, "count");
    let numbers: Vec<u64> = counted
        .jobs
        .iter()
        .filter_map(|job| Some(job.read[0]?.sequence))
        .collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
    // What the route sent on comes back to the sensor, under the number that the sensor gave it.
    let back = sensed.jobs.iter().filter_map(|job| job.read[0]);
    assert!(back.map(Some).all(|message| messages.contains(&message)));
}

/// A task that another one of its program hears in memory, and a route within the program.
const INSIDE: &str = r#"
schema_version = 1
name = "inside"
[hosts.local]
cpus = [0]
[domains.filter]
kind = "process"
builtin = "own-tasks"
[domains.filter.tasks.sense]
arrivals = { kind = "periodic", period = "5ms" }
execution_time = { kind = "constant", value = "10us" }
[domains.filter.tasks.pass]
arrivals = { kind = "sporadic", min_gap = "1ms", max_gap = "1s" }
execution_time = { kind = "constant", value = "10us" }
[domains.filter.tasks.count]
arrivals = { kind = "sporadic", min_gap = "1ms", max_gap = "1s" }
execution_time = { kind = "constant", value = "10us" }
[topics.raw]
publishers = ["filter/sense"]
released = ["filter/pass"]
size = 64
transport = "in-process"
type_name = "speed"
quality = { history = 8 }
[topics.speed]
publishers = ["filter/pass"]
released = ["filter/count"]
size = 64
transport = "in-process"
quality = { history = 8 }
[routes.clean]
task = "filter/pass"
from = "raw"
to = "speed"
"#;

#[test]
fn tasks_of_one_domain_pass_messages_in_memory() {
    let description = FORMAT.load_text(INSIDE.to_owned(), "inside.toml");
    let description = description.unwrap().description;
    let plan = ProgramPlan::of(&description, "filter").unwrap();
    let (inputs, stop) = (InputFiles::default(), AtomicBool::new(false));
    let played = std::thread::scope(|scope| {
        let played = scope.spawn(|| play(&plan, &inputs, &stop));
        std::thread::sleep(std::time::Duration::from_millis(1500));
        stop.store(true, Ordering::Relaxed);
        played.join().unwrap().unwrap()
    });
    let jobs = |name: &str| {
        let task = played.iter().find(|task| task.name == name).unwrap();
        assert_eq!(task.failure, None);
        task.log.jobs.clone()
    };
    let sent: Vec<_> = jobs("sense").iter().map(|job| job.published[0]).collect();
    let heard: Vec<_> = jobs("count").iter().map(|job| job.read[0]).collect();
    assert!(!heard.is_empty());
    assert!(heard.iter().all(|message| sent.contains(message)));
    assert!(jobs("pass").len() >= heard.len());
}

/// The report of the domain's program after some time, with these changes of its description.
fn played_inside(change: impl FnOnce(&mut Description), milliseconds: u64) -> Vec<PlayedTask> {
    let description = FORMAT.load_text(INSIDE.to_owned(), "inside.toml");
    let mut description = description.unwrap().description;
    change(&mut description);
    let plan = ProgramPlan::of(&description, "filter").unwrap();
    let (inputs, stop) = (InputFiles::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let played = scope.spawn(|| play(&plan, &inputs, &stop));
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        stop.store(true, Ordering::Relaxed);
        played.join().unwrap().unwrap()
    })
}

fn periodic(period_us: u64) -> Arrivals {
    Arrivals::Periodic {
        period: Duration::from_micros(period_us),
        offset: Duration::ZERO,
    }
}

/// A task that works for two and a half of its periods.
#[test]
fn jobs_that_come_too_late_are_left_out_and_counted() {
    let played = played_inside(
        |description| {
            let filter = description.domains.get_mut("filter").unwrap();
            let sense = filter.tasks.get_mut("sense").unwrap();
            sense.arrivals = periodic(1_000);
            sense.execution_time = ExecutionTime::Constant {
                value: Duration::from_micros(2_500),
            };
        },
        400,
    );
    let sense = played.iter().find(|task| task.name == "sense").unwrap();
    assert!(!sense.log.jobs.is_empty() && sense.skipped > 0);
    // The jobs keep the phase of their releases.
    let phase_ns = |job: &LoggedJob| job.release.as_nanos() % 1_000_000;
    assert!(sense.log.jobs.iter().all(|job| phase_ns(job) == 0));
}

#[test]
fn messages_beyond_a_contract_are_counted_and_not_in_the_log() {
    let played = played_inside(
        |description| {
            let mut topics: Topics = description.section();
            topics.0.get_mut("raw").unwrap().contract = Some(Contract {
                messages: 1,
                bytes: None,
                interval: Duration::from_secs(3_600),
                least_distance: Duration::ZERO,
                violation: ExcessRule::Drop,
            });
            description.sections.set(&topics).unwrap();
        },
        400,
    );
    let sense = played.iter().find(|task| task.name == "sense").unwrap();
    let published = sense.log.jobs.iter().map(|job| job.published[0]);
    let unsent = published.clone().filter(Option::is_none).count() as u64;
    assert_eq!(published.flatten().count(), 1);
    assert!(unsent > 0);
    assert_eq!(sense.violations, unsent);
}

/// A task with a clock five times as fast as that of its publisher.
#[test]
fn a_message_is_read_until_a_newer_one_comes() {
    let played = played_inside(
        |description| {
            let filter = description.domains.get_mut("filter").unwrap();
            filter.tasks.get_mut("sense").unwrap().arrivals = periodic(50_000);
            filter.tasks.get_mut("count").unwrap().arrivals = periodic(10_000);
            let mut topics: Topics = description.section();
            let speed = topics.0.get_mut("speed").unwrap();
            speed.subscribers = std::mem::take(&mut speed.released);
            description.sections.set(&topics).unwrap();
        },
        1_000,
    );
    let count = played.iter().find(|task| task.name == "count").unwrap();
    let read: Vec<_> = count.log.jobs.iter().map(|job| job.read[0]).collect();
    let first = read.iter().position(Option::is_some).expect("a message");
    assert!(read[first..].iter().all(Option::is_some));
    assert!(read[first..].windows(2).any(|pair| pair[0] == pair[1]));
    assert!(read[first..].windows(2).any(|pair| pair[0] != pair[1]));
}

#[test]
fn a_route_of_a_program_of_its_own_has_no_topics_in_the_memory_of_another() {
    let description = FORMAT.load_text(INSIDE.to_owned(), "inside.toml");
    let description = description.unwrap().description;
    let choice = |host: &str| RouteChoice {
        host: Some(host.to_owned()),
        domain: None,
    };
    let plan = RoutePlan::of(&description, &choice("local")).unwrap();
    assert_eq!(plan.names().collect::<Vec<_>>(), ["clean"]);
    let refusal = RouteService::begin(plan).err().unwrap().to_string();
    assert!(
        refusal.contains("a route has a program of its own"),
        "{refusal}"
    );
    let refusal = RoutePlan::of(&description, &choice("moon")).unwrap_err();
    let refusal = refusal.to_string();
    assert!(refusal.contains("no route is on host `moon`"), "{refusal}");
    assert!(
        refusal.contains("`clean` by filter/pass on host `local`"),
        "{refusal}"
    );
}
