//! Writes a recording of many requests to one service, or explains one and tells how long that took and how much memory it
//! needed: `explain_load make FILE REQUESTS`, `explain_load explain FILE`. `bench/trace` runs it.

use std::error::Error;
use std::fs::File;
use std::time::Instant as Stopwatch;

use tailbound_time::{Duration, Instant};
use tailbound_trace::explain::{ExplainOptions, LatencyCause, explain};
use tailbound_trace::kernel::{
    InterruptContext, KernelEventKind, OffCpuState, ThreadName, ThreadSwitch, Vector,
};
use tailbound_trace::recording::{
    KernelRecording, RecordedConnection, RecordedDomain, RecordedLoad, RecordedProcess,
    RecordedSocket, RecordedThread, RequestRow, SocketSnapshot,
};
use tailbound_trace::synthetic::SyntheticRecording;

/// From one request to the next, in nanoseconds.
const APART: u64 = 1_000_000;
/// The service's thread, and another one.
const SERVICE: u32 = 10;
const OTHER: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["make", file, requests] => {
            let recording = recording(requests.parse()?);
            std::fs::write(file, recording.to_bytes())?;
            println!("{} events", recording.events.len());
        }
        ["explain", file] => {
            let started = Stopwatch::now();
            let recording = KernelRecording::open(File::open(file)?)?;
            let explanations = explain(&recording, &ExplainOptions::default())?;
            let took = started.elapsed();
            for explanation in &explanations {
                let own: u64 = explanation
                    .bands
                    .iter()
                    .map(|band| band.of_cause(LatencyCause::Execution).as_nanos())
                    .sum();
                let (seconds, peak) = (took.as_secs_f64(), peak_kib()?);
                println!(
                    "{{\"requests\": {}, \"seconds\": {seconds:.3}, \"peak_kib\": {peak}, \"own_execution_ns\": {own}}}",
                    explanation.requests
                );
            }
        }
        _ => return Err("make FILE REQUESTS, or explain FILE".into()),
    }
    Ok(())
}

/// The most memory that this process has had.
fn peak_kib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    Ok(number.ok_or("no VmHWM in /proc/self/status")?.parse()?)
}

/// One request a millisecond: the service wakes up, reads, works with a timer interrupt in between, is preempted once,
/// answers and sleeps.
fn recording(requests: u64) -> SyntheticRecording {
    let mut recording = SyntheticRecording::new(1);
    let names = ["read", "write", "epoll_wait"];
    recording.header.calls = (0..).zip(names.map(String::from)).collect();
    recording.header.processes = vec![RecordedProcess {
        pid: SERVICE,
        threads: vec![RecordedThread {
            tid: SERVICE,
            name: "service".into(),
            cgroup: None,
        }],
        ..RecordedProcess::default()
    }];
    recording.header.domains = vec![RecordedDomain {
        name: "store".into(),
        pids: vec![SERVICE],
        ..RecordedDomain::default()
    }];
    let end = "unix:1".to_string();
    recording.sockets = vec![SocketSnapshot {
        at: Instant::ORIGIN,
        sockets: vec![RecordedSocket {
            pid: SERVICE,
            descriptor: 5,
            peer: end.clone(),
        }],
    }];
    let mut rows = Vec::with_capacity(requests as usize);
    for number in 0..requests {
        let at = (number + 1) * APART;
        push_request(&mut recording, at, number);
        let instant = |nanos: u64| Instant::ORIGIN + Duration::from_nanos(nanos);
        rows.push(RequestRow {
            task: 0,
            client: 0,
            intended: instant(at),
            taken_up: instant(at + 100),
            sent: Some(instant(at + 200)),
            replied: instant(at + 500_000 + number % 997),
            answered: true,
            warm_up: false,
        });
    }
    let load = RecordedLoad {
        service: "store".into(),
        domain: "store".into(),
        tasks: vec!["get".into()],
        connections: vec![RecordedConnection {
            task: 0,
            client: 0,
            end,
        }],
        requests,
        ..RecordedLoad::default()
    };
    recording.loads = vec![(load, rows)];
    recording
}

fn push_request(recording: &mut SyntheticRecording, at: u64, number: u64) {
    let name = |thread: u32| {
        ThreadName::from(if thread == SERVICE {
            "service"
        } else {
            "other"
        })
    };
    let switch = |from: u32, state, to: u32| {
        KernelEventKind::ThreadSwitch(ThreadSwitch {
            previous: from,
            previous_name: name(from),
            state,
            next: to,
            next_name: name(to),
            previous_rank: 120,
            next_rank: 120,
        })
    };
    let call = |number, first| KernelEventKind::CallEntry {
        number,
        first,
        third: 0,
    };
    let timer = InterruptContext::Vector(Vector::LocalTimer);
    let wake = KernelEventKind::Waking {
        thread: SERVICE,
        name: name(SERVICE),
        target_cpu: 0,
    };
    let result = |number| KernelEventKind::CallExit { number, result: 64 };
    let events = [
        (1_000, OTHER, wake),
        (5_000, OTHER, switch(OTHER, OffCpuState::Runnable, SERVICE)),
        (6_000, SERVICE, result(2)),
        (7_000, SERVICE, call(0, 5)),
        (8_000, SERVICE, result(0)),
        (100_000, SERVICE, KernelEventKind::InterruptEntry(timer)),
        (105_000, SERVICE, KernelEventKind::InterruptExit(timer)),
        (
            200_000,
            SERVICE,
            switch(SERVICE, OffCpuState::Runnable, OTHER),
        ),
        (
            260_000 + number % 997,
            OTHER,
            switch(OTHER, OffCpuState::Runnable, SERVICE),
        ),
        (480_000, SERVICE, call(1, 5)),
        (490_000, SERVICE, result(1)),
        (491_000, SERVICE, call(2, 3)),
        (
            495_000,
            SERVICE,
            switch(SERVICE, OffCpuState::Sleeping, OTHER),
        ),
    ];
    for (offset, thread, kind) in events {
        recording.push(at + offset, 0, thread, kind);
    }
}
