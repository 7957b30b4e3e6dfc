//! The load generator against the synthetic service.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;

use crate::testbed::*;
use tailbound_measurement::protocol::frame::{FRAME_BYTES, WorkReply, WorkRequest};
use tailbound_measurement::synthetic::MOST_OVERHEAD;
use tailbound_measurement::{Endpoint, Progress, RecordOutcome, RequestRecord, measure};
use tailbound_model::{Arrivals, InputFiles, Protocol, Scheduling};
use tailbound_simulator::workload::releases;
use tailbound_time::{ClockId, Duration};

/// How often a machine may stand still where it matters.
const ATTEMPTS: u32 = 20;

fn ignore(_: Progress) {}

#[test]
fn every_request_is_answered_and_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let server = SyntheticService::start_in(folder.path(), Scheduling::Fifo);
    let mut service = service(
        Protocol::Synthetic,
        &[
            ("a", task(periodic(ms(5), ms(0)), us(500))),
            ("b", task(periodic(ms(10), ms(3)), us(400))),
        ],
    );
    service.tasks.get_mut("b").unwrap().clients = 3;
    let plan = plan(&service, &server.endpoint, ms(100), ms(300));
    let measured = measure(&plan, NEVER, &mut ignore).unwrap();

    assert_eq!(measured.interrupted, None);
    assert_eq!(
        (measured.counts.released, measured.counts.answered),
        (150, 150)
    );
    assert_eq!(measured.counts.failed(), 0);
    assert_eq!(measured.warm_up_counts.answered, 50);
    assert_eq!(measured.overall.count(), Some(150));
    assert_eq!(measured.per_task["a"].count(), Some(60));
    assert_eq!(measured.per_task["b"].count(), Some(90));
    assert_eq!(measured.lateness.count(), Some(150));
    assert_eq!(measured.overall.provenance.clock, Some(ClockId::Monotonic));
    assert_eq!(measured.overall.provenance.warm_up, Some(ms(100)));
    assert_eq!(measured.records.len(), 200);
    for (record, release) in measured.records.iter().zip(&plan.releases) {
        assert_eq!(record.outcome, RecordOutcome::Answered);
        assert_eq!(
            record
                .intended
                .saturating_since(measured.started_at)
                .as_nanos(),
            release.at.as_nanos()
        );
        assert!(record.intended <= record.taken_up && record.taken_up <= record.sent.unwrap());
        let asked = release.execution.unwrap();
        // The work of serving counts as work that was asked for, also where it came before the request.
        assert!(
            record.latency().saturating_add(MOST_OVERHEAD) >= asked,
            "{record:?} worked less than {asked}"
        );
    }
    let mut csv = Vec::new();
    measured.write_csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert_eq!(csv.lines().count(), 201);
    assert!(csv.lines().all(|line| line.split(',').count() == 9));
}

#[test]
fn waiting_for_a_place_in_flight_is_latency_but_not_lateness() {
    let folder = tempfile::tempdir().unwrap();
    let server = SyntheticService::start_in(folder.path(), Scheduling::Fifo);
    let mut service = service(
        Protocol::Synthetic,
        &[("a", task(periodic(ms(50), ms(0)), ms(2)))],
    );
    service.tasks.get_mut("a").unwrap().clients = 5;
    service.max_in_flight = Some(1);
    let measured = measure(
        &plan(&service, &server.endpoint, ms(0), ms(200)),
        NEVER,
        &mut ignore,
    )
    .unwrap();
    assert_eq!(measured.counts.answered, 20);
    for burst in measured.records.chunks(5) {
        let mut busy_until = None;
        for (place, record) in burst.iter().enumerate() {
            assert!(busy_until <= record.sent, "two were in flight");
            busy_until = Some(record.replied);
            assert!(record.latency() >= (ms(2) - MOST_OVERHEAD) * (place as u64 + 1));
        }
        let sent = burst[4].sent.unwrap();
        assert!(
            sent.saturating_since(burst[4].intended) >= ms(8),
            "four others come first"
        );
    }
    // Taken up together, though sent one after the other: the wait is no lateness of ours.
    let together = |burst: &[RequestRecord]| burst[4].taken_up < burst[0].replied;
    assert!(measured.records.chunks(5).any(together));
}

#[test]
fn overload_leaves_lower_bounds_and_not_flattering_quantiles() {
    let folder = tempfile::tempdir().unwrap();
    let server = SyntheticService::start_in(folder.path(), Scheduling::Fifo);
    let service = service(
        Protocol::Synthetic,
        &[("a", task(periodic(ms(5), ms(0)), ms(20)))],
    );
    let mut plan = plan(&service, &server.endpoint, ms(0), ms(400));
    plan.drain = ms(50);
    let measured = measure(&plan, NEVER, &mut ignore).unwrap();
    assert_eq!(measured.counts.released, 80);
    assert!(measured.counts.unanswered > 40, "{:?}", measured.counts);
    assert_eq!(
        measured.counts.answered + measured.counts.unanswered,
        measured.counts.released
    );
    assert_eq!(
        measured.overall.censored().len() as u64,
        measured.counts.unanswered
    );
    let p99 = measured.overall.quantile(0.99).unwrap();
    assert_eq!(p99.high, None, "the tail is not known");
    assert!(p99.low >= ms(50));
    assert!(
        measured
            .overall
            .provenance
            .assumptions
            .iter()
            .any(|text| text.contains("lower bound")),
    );
}

#[test]
fn a_service_that_dies_leaves_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = SyntheticService::start_in(folder.path(), Scheduling::Fifo);
    let service = service(
        Protocol::Synthetic,
        &[("a", task(periodic(ms(5), ms(0)), us(200)))],
    );
    let plan = plan(&service, &server.endpoint, ms(0), ms(5_000));
    let measured = measure(&plan, NEVER, &mut |progress| {
        if progress.answered > 20 {
            server.stop();
        }
    })
    .unwrap();
    assert!(measured.interrupted.is_some());
    assert!(measured.counts.answered > 0);
    assert!(measured.counts.released < plan.releases.len() as u64);
}

#[test]
fn a_stop_ends_early_and_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let server = SyntheticService::start_in(folder.path(), Scheduling::Fifo);
    let service = service(
        Protocol::Synthetic,
        &[("a", task(periodic(ms(5), ms(0)), us(200)))],
    );
    let plan = plan(&service, &server.endpoint, ms(0), ms(60_000));
    let stop = AtomicBool::new(false);
    let mut last = Progress::default();
    let measured = measure(&plan, &stop, &mut |progress| {
        last = progress;
        if progress.answered > 20 {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    })
    .unwrap();
    assert_eq!(
        measured.interrupted.as_deref(),
        Some("stopped by the caller")
    );
    assert!(measured.counts.answered > 20 && measured.counts.unanswered == 0);
    assert_eq!(last.total, ms(60_000));
}

#[test]
fn an_urgent_job_overtakes_a_long_one_and_both_work_their_full_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = SyntheticService::start_in(folder.path(), Scheduling::RateMonotonic);
    let mut service = service(
        Protocol::Synthetic,
        &[
            ("long", task(periodic(ms(400), ms(0)), ms(60))),
            ("short", task(periodic(ms(100), ms(10)), ms(1))),
        ],
    );
    service.scheduling = Scheduling::RateMonotonic;
    let plan = plan(&service, &server.endpoint, ms(0), ms(400));
    // A generator that is held up sends the urgent job when the long one has ended.
    let first_of_each = || {
        let measured = measure(&plan, NEVER, &mut ignore).unwrap();
        ["long", "short"].map(|task| {
            let index = measured.tasks.iter().position(|name| name == task).unwrap();
            let mut records = measured.records.iter();
            *records
                .find(|record| record.task as usize == index)
                .unwrap()
        })
    };
    let overtaken = |[long, short]: &[RequestRecord; 2]| short.replied < long.replied;
    let [long, short] = (0..ATTEMPTS)
        .map(|_| first_of_each())
        .find(overtaken)
        .expect("the long job ended after the urgent one");
    assert!(long.intended < short.intended, "the long job came first");
    assert!(
        long.latency() >= ms(61) - MOST_OVERHEAD * 2,
        "its own work and the urgent job's"
    );
}

#[test]
fn without_preemption_the_short_job_waits() {
    let folder = tempfile::tempdir().unwrap();
    let server = SyntheticService::start_in(folder.path(), Scheduling::Fifo);
    let service = service(
        Protocol::Synthetic,
        &[
            ("long", task(periodic(ms(400), ms(0)), ms(60))),
            ("short", task(periodic(ms(400), ms(10)), ms(1))),
        ],
    );
    let plan = plan(&service, &server.endpoint, ms(0), ms(400));
    let measured = measure(&plan, NEVER, &mut ignore).unwrap();
    assert!(measured.records[0].replied <= measured.records[1].replied);
    assert!(measured.records[1].latency() >= ms(51) - MOST_OVERHEAD * 2);
}

fn exchange(stream: &mut UnixStream, request: WorkRequest) -> WorkReply {
    stream.write_all(&request.to_bytes()).unwrap();
    let mut frame = [0; FRAME_BYTES];
    stream.read_exact(&mut frame).unwrap();
    WorkReply::from_bytes(&frame).unwrap()
}

#[test]
fn it_works_what_it_is_asked_refuses_too_much_and_survives_garbage() {
    let folder = tempfile::tempdir().unwrap();
    let server = SyntheticService::start_in(folder.path(), Scheduling::Fifo);
    let Endpoint::Unix(path) = &server.endpoint else {
        unreachable!()
    };
    let request = |id, execution| WorkRequest {
        id,
        execution,
        priority: 0,
    };
    let mut garbage = UnixStream::connect(path).unwrap();
    garbage
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    assert_eq!(garbage.read(&mut [0; 8]).unwrap(), 0, "it hangs up");

    let mut leaver = UnixStream::connect(path).unwrap();
    leaver.write_all(&request(1, ms(10)).to_bytes()).unwrap();
    drop(leaver);

    let mut stream = UnixStream::connect(path).unwrap();
    assert!(exchange(&mut stream, request(2, Duration::from_secs(61))).too_long);
    for execution in [Duration::ZERO, us(1), us(50), us(777), ms(3)] {
        let reply = exchange(&mut stream, request(3, execution));
        assert_eq!((reply.id, reply.too_long), (3, false));
        assert!(reply.worked >= execution);
    }
}

#[test]
fn it_listens_on_tcp_too_and_replaces_only_a_stale_socket() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let server = SyntheticService::start(Endpoint::Tcp(port), Scheduling::Fifo);
    let service = service(
        Protocol::Synthetic,
        &[("a", task(periodic(ms(10), ms(0)), us(100)))],
    );
    let plan = plan(&service, &server.endpoint, ms(0), ms(100));
    assert_eq!(
        measure(&plan, NEVER, &mut ignore).unwrap().counts.answered,
        10
    );

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let served = SyntheticService::start_in(folder.path(), Scheduling::Fifo);
    let options = tailbound_measurement::synthetic::ServeOptions::new(
        served.endpoint.clone(),
        Scheduling::Fifo,
    );
    let second = tailbound_measurement::synthetic::serve(&options, NEVER);
    assert!(second.unwrap_err().to_string().contains("listen at"));
}

#[test]
fn the_seed_decides_what_is_sent_when() {
    let folder = tempfile::tempdir().unwrap();
    let server = SyntheticService::start_in(folder.path(), Scheduling::Fifo);
    let rate = "300/s".parse().unwrap();
    let service = service(
        Protocol::Synthetic,
        &[("a", task(Arrivals::Poisson { rate }, us(20)))],
    );
    let inputs = InputFiles::default();
    let sent = |seed| {
        let mut plan = plan(&service, &server.endpoint, ms(0), ms(200));
        plan.releases = releases(&service, ms(200), seed, &inputs).unwrap();
        let measured = measure(&plan, NEVER, &mut ignore).unwrap();
        let since = |record: &RequestRecord| record.intended.saturating_since(measured.started_at);
        measured.records.iter().map(since).collect::<Vec<_>>()
    };
    let (first, again, other) = (sent(7), sent(7), sent(8));
    assert_eq!(first, again);
    assert_ne!(first, other);
}
