//! Users who wait for replies, against services of ours.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use crate::testbed::*;
use tailbound_measurement::{
    Endpoint, LoadPlan, Measurement, Progress, RecordOutcome, RequestRecord, measure,
};
use tailbound_model::{
    Arrivals, InputFiles, Protocol, Request, Scheduling, Service, ThinkTime, UserStep, Users,
    parse_parameters,
};
use tailbound_time::Duration;

fn ignore(_: Progress) {}

pub fn users(count: u32, think: Duration, session: &[(&str, u32)]) -> Users {
    let step = |(task, times): &(&str, u32)| UserStep {
        task: (*task).into(),
        times: *times,
    };
    Users {
        count,
        think_time: ThinkTime::Constant { value: think },
        session: session.iter().map(step).collect(),
        parameters: None,
        changes: Vec::new(),
    }
}

/// The requests of each user, in order.
fn by_user(measured: &Measurement) -> BTreeMap<u32, Vec<RequestRecord>> {
    let mut all: BTreeMap<u32, Vec<RequestRecord>> = BTreeMap::new();
    for record in &measured.records {
        all.entry(record.client).or_default().push(*record);
    }
    all
}

#[test]
fn each_user_thinks_after_the_reply_and_then_asks() {
    let folder = tempfile::tempdir().unwrap();
    let server = SyntheticService::start_in(folder.path(), Scheduling::Fifo);
    let think = ms(5);
    let tasks = [
        ("fetch", task(Arrivals::Users {}, ms(2))),
        ("look", task(Arrivals::Users {}, us(300))),
    ];
    let mut service = service(Protocol::Synthetic, &tasks);
    service.users = Some(users(3, think, &[("look", 2), ("fetch", 1)]));
    let plan = plan(&service, &server.endpoint, ms(50), ms(400));
    let measured = measure(&plan, NEVER, &mut ignore).unwrap();

    assert_eq!(measured.interrupted, None);
    assert_eq!(measured.counts.failed(), 0);
    let of_users = by_user(&measured);
    assert_eq!(of_users.len(), 3);
    for requests in of_users.values() {
        let asked: Vec<u32> = requests.iter().map(|one| one.task).collect();
        let session = [1, 1, 0].iter().cycle().take(asked.len()).copied();
        assert_eq!(asked, session.collect::<Vec<u32>>());
        for pair in requests.windows(2) {
            assert_eq!(pair[0].outcome, RecordOutcome::Answered);
            assert_eq!(pair[1].intended, pair[0].replied + think);
        }
    }
    let omitted = measured.omitted.as_ref().unwrap();
    assert!(omitted.cycle >= think);
    assert!(
        measured
            .remarks
            .iter()
            .any(|one| one.contains("users wait"))
    );
    let method = &measured.overall.provenance.method;
    assert!(method.contains("closed loop"), "{method}");
}

#[test]
fn tasks_that_no_user_asks_go_on_beside_users() {
    let folder = tempfile::tempdir().unwrap();
    let server = SyntheticService::start_in(folder.path(), Scheduling::Fifo);
    let tasks = [
        ("look", task(Arrivals::Users {}, us(300))),
        ("probe", task(periodic(ms(10), ms(0)), us(100))),
    ];
    let mut service = service(Protocol::Synthetic, &tasks);
    service.users = Some(users(2, ms(7), &[]));
    let plan = plan(&service, &server.endpoint, ms(0), ms(200));
    let measured = measure(&plan, NEVER, &mut ignore).unwrap();
    assert_eq!(measured.per_task["probe"].count(), Some(20));
    assert!(measured.per_task["look"].count() > Some(2));
    assert!(measured.records.is_sorted_by_key(|record| record.intended));
}

/// A server of HTTP that answers everything, closes after `kept` requests of a connection, and tells the paths.
fn web_server(kept: usize) -> (Endpoint, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Tcp(listener.local_addr().unwrap());
    let (tell, paths) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tell = tell.clone();
            std::thread::spawn(move || serve(stream, kept, &tell));
        }
    });
    (endpoint, paths)
}

fn serve(stream: TcpStream, kept: usize, tell: &mpsc::Sender<String>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut out = stream;
    for _ in 0..kept {
        let Some(Ok(first)) = lines.next() else {
            return;
        };
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        while lines
            .next()
            .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
        {}
        if tell.send(path).is_err() {
            return;
        }
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        if out.write_all(reply).is_err() {
            return;
        }
    }
}

fn walking(endpoint: &Endpoint, walks: &str) -> LoadPlan {
    let mut look = task(Arrivals::Users {}, us(10));
    look.request = Some(Request::Http {
        path: "/position?walk={session}&step={step}&{unknown}".into(),
    });
    let mut service: Service = service(Protocol::Http, &[("look", look)]);
    let mut walkers = users(1, ms(2), &[("look", 3)]);
    walkers.parameters = Some("walks.csv".into());
    service.users = Some(walkers);
    let mut plan = plan(&service, endpoint, ms(0), ms(150));
    let mut inputs = InputFiles::default();
    inputs.insert_parameters("walks.csv", parse_parameters(walks, "walks.csv").unwrap());
    plan.inputs = inputs;
    plan
}

#[test]
fn users_walk_along_their_rows_over_connections_that_close() {
    let (endpoint, paths) = web_server(4);
    let plan = walking(&endpoint, "session,step\na,1\na,2\na,3\n");
    let measured = measure(&plan, NEVER, &mut ignore).unwrap();
    assert!(measured.counts.answered >= 5, "{:?}", measured.counts);
    let paths: Vec<String> = paths.try_iter().collect();
    let steps = [1, 2, 3].iter().cycle();
    for (path, step) in paths.iter().zip(steps) {
        assert_eq!(*path, format!("/position?walk=a&step={step}&{{unknown}}"));
    }
}

#[test]
fn values_that_have_no_place_in_a_path_are_refused() {
    let (endpoint, _paths) = web_server(1);
    let plan = walking(&endpoint, "session,step\na,one step\n");
    let refusal = measure(&plan, NEVER, &mut ignore).unwrap_err().to_string();
    assert!(refusal.contains("blank"), "{refusal}");
}
