//! Explanations of arbitrary events: nothing is split wrongly by a nanosecond, whatever the kernel seems to say.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tailbound_time::Duration;

use super::{ExplainOptions, explain};
use crate::kernel::{KernelEventKind, ThreadName};
use crate::recording::{
    KernelRecording, RecordedConnection, RecordedDomain, RecordedInterface, RecordedLoad,
    RecordedProcess, RecordedSocket, RecordedThread, RequestRow, SamplerDelay, SocketSnapshot,
};
use crate::synthetic::{SyntheticRecording, tests::arbitrary_kind};
use tailbound_time::Instant;

/// Threads 0 to 8, of which 1 to 3 serve connections, under a reservation; two clients.
fn recording(
    events: Vec<(u64, u32, u32, KernelEventKind)>,
    rows: Vec<RequestRow>,
) -> SyntheticRecording {
    let mut recording = SyntheticRecording::new(2);
    let names = ["read", "write", "epoll_wait", "futex"];
    recording.header.calls = (0..).zip(names.map(String::from)).collect();
    recording.header.looks_apart = Some(Duration::from_micros(1));
    recording.header.processes = vec![RecordedProcess {
        pid: 1,
        cgroup: "/a".into(),
        threads: (1..4)
            .map(|tid| RecordedThread {
                tid,
                name: ThreadName::from("serves").text(),
                cgroup: None,
            })
            .collect(),
    }];
    recording.header.domains = vec![RecordedDomain {
        name: "store".into(),
        pids: vec![1],
        interface: Some(RecordedInterface {
            budget: Duration::from_nanos(100),
            period: Duration::from_nanos(300),
        }),
        ..RecordedDomain::default()
    }];
    let ends = ["unix:7", "unix:8"];
    let socket = |(descriptor, peer): (u32, &str)| RecordedSocket {
        pid: 1,
        descriptor,
        peer: peer.into(),
    };
    recording.sockets = vec![SocketSnapshot {
        at: Instant::ORIGIN,
        sockets: (0..).zip(ends).map(socket).collect(),
    }];
    let connection = |(client, end): (u32, &str)| RecordedConnection {
        task: 0,
        client,
        end: end.into(),
    };
    let load = RecordedLoad {
        service: "store".into(),
        domain: "store".into(),
        tasks: vec!["get".into()],
        connections: (0..).zip(ends).map(connection).collect(),
        generator: Some(5),
        requests: rows.len() as u64,
        ..RecordedLoad::default()
    };
    recording.loads = vec![(load, rows)];
    for (at, cpu, thread, kind) in events {
        recording.push(at, cpu, thread, kind);
    }
    recording
}

fn rows() -> impl Strategy<Value = Vec<RequestRow>> {
    let row =
        (0..40_000_u64, 0..3_u32, [0..500_u64, 0..500, 0..9_000]).prop_map(|(at, client, gaps)| {
            let instant = |nanos: u64| Instant::from_nanos(nanos);
            RequestRow {
                task: 0,
                client,
                intended: instant(at),
                taken_up: instant(at + gaps[0]),
                sent: (gaps[1] % 7 != 0).then(|| instant(at + gaps[0] + gaps[1])),
                replied: instant(at + gaps[2]),
                answered: true,
                warm_up: false,
            }
        });
    prop::collection::vec(row, 0..40).prop_map(|mut rows| {
        rows.sort_by_key(|row| row.intended);
        rows
    })
}

fn events() -> impl Strategy<Value = Vec<(u64, u32, u32, KernelEventKind)>> {
    let event = (1..300_u64, 0..2_u32, 0..9_u32, arbitrary_kind());
    prop::collection::vec(event, 0..400).prop_map(|events| {
        let mut now = 0;
        let step = |(step, cpu, thread, kind)| {
            now += step;
            (now, cpu, thread, kind)
        };
        events.into_iter().map(step).collect()
    })
}

proptest! {
    #[test]
    fn parts_of_every_request_add_up(
        events in events(),
        rows in rows(),
        delays in prop::collection::vec((0..40_000_u64, 0..400_000_u64, 0..2_u32), 0..5),
    ) {
        let count = rows.len() as u64;
        let mut total: u64 = 0;
        for row in &rows {
            total += row.latency().as_nanos();
        }
        let mut recording = recording(events, rows);
        recording.delays = delays
            .into_iter()
            .map(|(due, late, cpu)| SamplerDelay {
                cpu,
                due: Instant::from_nanos(due),
                woke: Instant::from_nanos(due + late),
            })
            .collect();
        let bytes = recording.to_bytes();
        let recording = KernelRecording::open(bytes.as_slice()).unwrap();
        let options = ExplainOptions {
            threads: ["serves".to_string()].into(),
            ..ExplainOptions::default()
        };
        let explanations = explain(&recording, &options).unwrap();
        let load = explanations.iter().find(|one| one.subject == "store").unwrap();
        prop_assert_eq!(load.requests, count);
        let mut explained = 0;
        for band in explanations.iter().flat_map(|one| &one.bands) {
            let parts: u64 = band.parts.iter().map(|part| part.total.as_nanos()).sum();
            prop_assert_eq!(parts, band.total.as_nanos());
        }
        for band in &load.bands {
            explained += band.total.as_nanos();
        }
        prop_assert_eq!(explained, total);
        for slow in explanations.iter().flat_map(|one| &one.slowest) {
            let course: u64 = slow.course.iter().map(|one| one.length.as_nanos()).sum();
            prop_assert_eq!(course, slow.latency.as_nanos());
        }
    }
}
