//! Load generator, setup and calibration against a real Redis.

use crate::testbed::*;
use tailbound_measurement::{
    CalibrationPlan, MeasurementError, Progress, ServiceTimeSource, measure, run_setup,
};
use tailbound_model::{Arrivals, Protocol, Service, Task};

fn ignore(_: Progress) {}

fn asking(arrivals: Arrivals, words: &[&str]) -> Task {
    let mut task = task(arrivals, ms(1));
    task.request = Some(command(words));
    task
}

fn with_list(tasks: &[(&str, Task)]) -> Service {
    let mut service = service(Protocol::Redis, tasks);
    service.setup = vec![
        command(&["DEL", "numbers"]),
        repeated(&["RPUSH", "numbers", "{index}"], 5_000),
    ];
    service
}

#[test]
fn sets_up_and_answers_in_the_order_of_each_client() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = RedisServer::start("sets_up_and_answers", folder.path()) else {
        return;
    };
    let poisson = Arrivals::Poisson {
        rate: "200/s".parse().unwrap(),
    };
    let mut service = with_list(&[
        (
            "sort",
            asking(poisson, &["SORT", "numbers", "LIMIT", "0", "10"]),
        ),
        (
            "all",
            asking(periodic(ms(50), ms(0)), &["LRANGE", "numbers", "0", "-1"]),
        ),
        (
            "get",
            asking(periodic(ms(2), ms(0)), &["LINDEX", "numbers", "{random}"]),
        ),
    ]);
    service.tasks.get_mut("get").unwrap().clients = 4;
    let sent = run_setup(&service, &server.endpoint, 1, ms(20_000), NEVER).unwrap();
    assert_eq!(sent, 5_001);
    let measured = measure(
        &plan(&service, &server.endpoint, ms(100), ms(400)),
        NEVER,
        &mut ignore,
    )
    .unwrap();
    assert_eq!(measured.interrupted, None);
    assert_eq!(measured.counts.failed(), 0, "{:?}", measured.failures);
    assert_eq!(measured.per_task["get"].count(), Some(800));
    assert_eq!(measured.counts.answered, measured.counts.released);
}

#[test]
fn error_replies_are_counted_with_their_text() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = RedisServer::start("error_replies_are_counted", folder.path()) else {
        return;
    };
    let service = with_list(&[
        ("bad", asking(periodic(ms(10), ms(0)), &["GET", "numbers"])),
        (
            "good",
            asking(periodic(ms(10), ms(5)), &["LLEN", "numbers"]),
        ),
    ]);
    run_setup(&service, &server.endpoint, 1, ms(20_000), NEVER).unwrap();
    let measured = measure(
        &plan(&service, &server.endpoint, ms(0), ms(200)),
        NEVER,
        &mut ignore,
    )
    .unwrap();
    assert_eq!(
        (measured.counts.refused, measured.counts.answered),
        (20, 20)
    );
    let (text, count) = measured.failures.first_key_value().unwrap();
    assert!(text.starts_with("WRONGTYPE"), "{text}");
    assert_eq!(*count, 20);
    assert_eq!(measured.per_task["bad"].count(), Some(0));
}

#[test]
fn a_killed_redis_leaves_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut server) = RedisServer::start("a_killed_redis", folder.path()) else {
        return;
    };
    let service = with_list(&[("ping", asking(periodic(ms(2), ms(0)), &["PING"]))]);
    let plan = plan(&service, &server.endpoint, ms(0), ms(10_000));
    let mut kill_at_first_word = |progress: Progress| {
        if progress.answered > 20 {
            server.kill();
        }
    };
    let measured = measure(&plan, NEVER, &mut kill_at_first_word).unwrap();
    assert!(measured.interrupted.is_some());
    assert!(measured.counts.answered > 20);
    assert!(measured.records.len() < plan.releases.len());
    drop(server);
    let again = measure(&plan, NEVER, &mut ignore);
    assert!(matches!(again, Err(MeasurementError::Connect { .. })));
}

#[test]
fn a_refused_setup_says_which_request_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = RedisServer::start("a_refused_setup", folder.path()) else {
        return;
    };
    let mut service = with_list(&[]);
    service.setup.push(command(&["INCR", "numbers"]));
    let error = run_setup(&service, &server.endpoint, 1, ms(20_000), NEVER).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("setup request 3") && text.contains("WRONGTYPE"),
        "{text}"
    );
}

#[test]
fn calibration_tells_long_requests_from_short_ones_and_finds_the_busy_rate() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = RedisServer::start("calibration", folder.path()) else {
        return;
    };
    let script = "for i = 1, tonumber(ARGV[1]) do end";
    let service = with_list(&[
        ("ping", asking(periodic(ms(10), ms(0)), &["PING"])),
        (
            "sort",
            asking(
                periodic(ms(10), ms(0)),
                &["SORT", "numbers", "LIMIT", "0", "10"],
            ),
        ),
        (
            "busy",
            asking(
                periodic(ms(10), ms(0)),
                &["EVAL", script, "0", "{busy:5ms}"],
            ),
        ),
    ]);
    run_setup(&service, &server.endpoint, 1, ms(20_000), NEVER).unwrap();
    for process in [Some(server.child.id()), None] {
        let mut plan = CalibrationPlan::new("r", service.clone(), server.endpoint.clone());
        plan.process = process;
        plan.fifo_priority = None;
        (plan.requests, plan.warm_up, plan.limit) = (30, 5, NO_HURRY);
        let calibration = calibrated(&plan);
        let expected = match process {
            Some(_) => ServiceTimeSource::ProcessCpuTime,
            None => ServiceTimeSource::RoundTrip,
        };
        assert_eq!(calibration.source, expected, "{:?}", calibration.remarks);
        assert_eq!(calibration.execution_times["sort"].count(), Some(30));
        assert!(calibration.busy.unwrap().iterations_per_millisecond > 0.0);
        // Round trips are the machine's as much as the service's; CPU time is the service's.
        if process.is_some() {
            let median = |task: &str| calibration.execution_times[task].quantile(0.5).unwrap().low;
            assert!(median("ping") < median("sort"));
            assert!(median("ping") < median("busy"));
        }
        assert_eq!(calibration.dispatch_overhead.count(), Some(90));
        assert!(calibration.trivial_round_trip.is_some());
    }
}

#[test]
fn a_process_that_does_not_serve_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = RedisServer::start("a_process_that_does_not_serve", folder.path()) else {
        return;
    };
    let idle = IdleProcess::start();
    let service = with_list(&[("ping", asking(periodic(ms(10), ms(0)), &["PING"]))]);
    for process in [idle.0.id(), u32::MAX >> 4] {
        let mut plan = CalibrationPlan::new("r", service.clone(), server.endpoint.clone());
        plan.process = Some(process);
        plan.fifo_priority = None;
        (plan.requests, plan.warm_up, plan.limit) = (10, 2, NO_HURRY);
        let calibration = calibrated(&plan);
        assert_eq!(calibration.source, ServiceTimeSource::RoundTrip);
        let remarks = calibration.remarks.join("\n");
        assert!(
            remarks.contains("execution times are round trips"),
            "{remarks}"
        );
    }
}
