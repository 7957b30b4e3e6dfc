//! Recordings that are cut, garbled, or say what cannot be.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::{KernelRecording, KernelRecordingError};
use crate::RecordingSummary;
use crate::explain::{ExplainOptions, explain};
use crate::kernel::{KernelEvent, KernelEventKind, PageEvents};
use crate::recording::{
    RecordedConnection, RecordedLoad, RecordedProcess, RecordedSocket, RecordedThread,
    RecordingEnd, RequestRow, SamplerDelay, SocketSnapshot,
};
use crate::synthetic::SyntheticRecording;
use crate::synthetic::tests::{arbitrary_recording, events_of};
use tailbound_time::Instant;

/// A recording with something of every chunk, of events that need not make sense together.
fn arbitrary_whole() -> impl Strategy<Value = SyntheticRecording> {
    let rows =
        proptest::collection::vec((0..2_000_000_u64, 0..9_000_000_u64, any::<bool>()), 0..20);
    (arbitrary_recording(), rows).prop_map(|(mut recording, rows)| {
        let thread = |tid: u32| RecordedThread {
            tid,
            name: format!("t{tid}"),
            cgroup: None,
        };
        recording.header.processes.push(RecordedProcess {
            pid: 3,
            threads: vec![thread(3), thread(4)],
            ..RecordedProcess::default()
        });
        recording.sockets.push(SocketSnapshot {
            at: Instant::from_nanos(1),
            sockets: vec![RecordedSocket {
                pid: 3,
                descriptor: 2,
                peer: "tcp:127.0.0.1:9".into(),
            }],
        });
        let delay = |due: u64| SamplerDelay {
            cpu: 1,
            due: Instant::from_nanos(due),
            woke: Instant::from_nanos(due + 700_000),
        };
        recording.delays = vec![delay(900_000), delay(2_000_000)];
        let load = RecordedLoad {
            service: "web".into(),
            tasks: vec!["work".into()],
            connections: vec![RecordedConnection {
                task: 0,
                client: 0,
                end: "tcp:127.0.0.1:9".into(),
            }],
            ..RecordedLoad::default()
        };
        let mut requests: Vec<RequestRow> = rows
            .into_iter()
            .map(|(intended, latency, is_sent)| {
                let at = |nanos: u64| Instant::from_nanos(1_000_000 + nanos);
                RequestRow {
                    task: 0,
                    client: 0,
                    intended: at(intended),
                    taken_up: at(intended),
                    sent: is_sent.then(|| at(intended + latency / 3)),
                    replied: at(intended + latency),
                    answered: is_sent,
                    warm_up: false,
                }
            })
            .collect();
        requests.sort_by_key(|row| row.intended);
        recording.loads.push((load, requests));
        recording
    })
}

/// Everything that is asked of recordings; whatever the bytes say, there is an answer or an error with a text.
fn ask_everything(bytes: &[u8]) {
    let failed = |cause: KernelRecordingError| assert!(!cause.to_string().is_empty());
    let recording = match KernelRecording::open(bytes) {
        Ok(recording) => recording,
        Err(cause) => return failed(cause),
    };
    RecordingSummary::of(&recording)
        .map(drop)
        .unwrap_or_else(failed);
    match explain(&recording, &ExplainOptions::default()) {
        Err(cause) => failed(cause),
        Ok(explanations) => {
            for band in explanations.iter().flat_map(|one| &one.bands) {
                let parts = band.parts.iter().map(|part| part.total.as_nanos());
                assert_eq!(parts.sum::<u64>(), band.total.as_nanos(), "parts add up");
            }
        }
    }
    for written in [
        crate::export::write_csv(
            &recording,
            &crate::export::ProgramEvents::default(),
            std::io::sink(),
        ),
        crate::export::write_ctf(&recording, &crate::export::ProgramEvents::default(), |_| {
            Ok(std::io::sink())
        }),
        crate::export::write_trace_dat(&recording, std::io::sink()),
        crate::export::write_perfetto(
            &recording,
            &crate::export::ProgramEvents::default(),
            Vec::new(),
            std::io::sink(),
        )
        .map(drop),
    ] {
        if let Err(cause) = written {
            assert!(!cause.to_string().is_empty());
        }
    }
}

/// Whether the first are among the second, in this order.
fn is_subsequence(few: &[KernelEvent], many: &[KernelEvent]) -> bool {
    let mut rest = many.iter();
    few.iter().all(|one| rest.any(|other| other == one))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_cut_recording_has_the_events_before_the_cut(
        recording in arbitrary_whole(),
        place in any::<prop::sample::Index>(),
    ) {
        let bytes = recording.to_bytes();
        let cut = &bytes[..place.index(bytes.len())];
        ask_everything(cut);
        if let Ok(opened) = KernelRecording::open(cut) {
            prop_assert!(opened.end().is_none());
            prop_assert!(opened.remarks().iter().any(|remark| remark.contains("has no end")));
            let (whole, _) = events_of(&bytes);
            prop_assert!(is_subsequence(&events_of(cut).0, &whole));
        }
    }

    #[test]
    fn garbled_bytes_cost_their_chunk_and_are_told(
        recording in arbitrary_whole(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..4),
    ) {
        let whole = recording.to_bytes();
        let mut bytes = whole.clone();
        for (place, mask) in flips {
            bytes[place.index(whole.len())] ^= mask;
        }
        ask_everything(&bytes);
        if let Ok(opened) = KernelRecording::open(&bytes[..]) {
            let (few, loss) = events_of(&bytes);
            let (many, _) = events_of(&whole);
            prop_assert!(is_subsequence(&few, &many));
            let told = loss.unreadable > 0 || !opened.remarks().is_empty();
            prop_assert!(few.len() == many.len() || told);
        }
    }

    #[test]
    fn pages_of_any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), short: bool) {
        let mut page = bytes;
        if short && page.len() > 16 {
            // A length that fits, so that what is behind is read.
            let length = (page.len() - 16) as u64;
            page[8..16].copy_from_slice(&length.to_le_bytes());
        }
        if let Ok(mut events) = PageEvents::of(&page) {
            let mut count = 0;
            while let Ok(Some(_)) = events.next_event() {
                count += 1;
            }
            prop_assert!(count <= page.len());
        }
    }
}

#[test]
fn a_recording_without_an_end_says_so_and_is_read() {
    let mut recording = SyntheticRecording::new(1);
    recording.push(5, 0, 1, KernelEventKind::Idle { begins: true });
    recording.end = None;
    let bytes = recording.to_bytes();
    let opened = KernelRecording::open(&bytes[..]).unwrap();
    assert!(
        opened.remarks()[0].contains("the recorder was killed"),
        "{:?}",
        opened.remarks()
    );
    assert_eq!(events_of(&bytes).0.len(), 1);
}

#[test]
fn empty_recordings_have_no_events_and_no_faults() {
    let bytes = SyntheticRecording::new(2).to_bytes();
    let opened = KernelRecording::open(&bytes[..]).unwrap();
    assert!(opened.remarks().is_empty());
    assert_eq!(opened.end(), Some(&RecordingEnd::default()));
    assert_eq!(events_of(&bytes).0, Vec::new());
    ask_everything(&bytes);
    for bytes in [&b""[..], b"tailbound trace", &bytes[..20]] {
        let refusal = KernelRecording::open(bytes).unwrap_err().to_string();
        assert!(refusal.contains("record"), "{refusal}");
    }
}

#[test]
fn a_clock_that_jumps_back_is_counted_and_its_events_stand_at_the_time_before() {
    let mut recording = SyntheticRecording::new(1);
    for at in [1_000, 2_000, 1_500, 3_000] {
        recording.push(at, 0, 1, KernelEventKind::Idle { begins: true });
    }
    let (events, loss) = events_of(&recording.to_bytes());
    let times: Vec<u64> = events.iter().map(|event| event.at.as_nanos()).collect();
    assert_eq!(times, [1_000, 2_000, 2_000, 3_000]);
    assert_eq!(loss.backwards, 1);
    ask_everything(&recording.to_bytes());
}

#[test]
fn lost_events_are_counted_where_the_kernel_counted_them() {
    let mut recording = SyntheticRecording::new(1);
    let idle = KernelEventKind::Idle { begins: true };
    recording.push(1_000, 0, 1, idle.clone());
    for count in [Some(7), None] {
        recording.push(2_000, 0, 1, KernelEventKind::Lost { count });
        recording.push(3_000, 0, 1, idle.clone());
    }
    let (events, loss) = events_of(&recording.to_bytes());
    assert_eq!((loss.lost, loss.uncounted, loss.unreadable), (7, 1, 0));
    let names: Vec<&str> = events.iter().map(|event| event.kind.name()).collect();
    assert_eq!(names, ["cpu_idle", "lost", "cpu_idle", "lost", "cpu_idle"]);
}

#[test]
fn a_garbled_chunk_costs_its_events_alone() {
    let mut recording = SyntheticRecording::new(2);
    for cpu in [0, 1] {
        recording.push(1_000, cpu, 1, KernelEventKind::Idle { begins: true });
    }
    let mut bytes = recording.to_bytes();
    let page = 1_000_u64.to_le_bytes();
    let place = bytes.windows(8).position(|window| window == page).unwrap();
    bytes[place] ^= 1;
    let (events, loss) = events_of(&bytes);
    assert_eq!((events.len(), events[0].cpu, loss.unreadable), (1, 1, 1));
}

/// The recording with a byte of the chunk garbled in which the text stands.
fn garbled_at(recording: &SyntheticRecording, text: &[u8]) -> Vec<u8> {
    let mut bytes = recording.to_bytes();
    let windows = bytes.windows(text.len());
    let place = windows.clone().position(|window| window == text).unwrap();
    bytes[place] ^= 0x20;
    bytes
}

/// Two loads of one request each.
fn two_loads() -> SyntheticRecording {
    let mut recording = SyntheticRecording::new(1);
    for (service, intended) in [("first", 0x1111_2222_3333), ("second", 0x4444_5555_6666)] {
        let load = RecordedLoad {
            service: service.into(),
            ..RecordedLoad::default()
        };
        let at = Instant::from_nanos(intended);
        let row = RequestRow {
            task: 0,
            client: 0,
            intended: at,
            taken_up: at,
            sent: Some(at),
            replied: at,
            answered: true,
            warm_up: false,
        };
        recording.loads.push((load, vec![row]));
    }
    recording
}

/// The services of the loads, with how many requests each has.
fn loads_of(bytes: &[u8]) -> (Vec<(String, usize)>, Vec<String>) {
    let recording = KernelRecording::open(bytes).unwrap();
    let loads = recording.loads().unwrap().into_iter();
    let loads = loads.map(|(load, place)| (load.service, recording.requests(&place).count()));
    (loads.collect(), recording.remarks().to_vec())
}

#[test]
fn garbled_loads_and_requests_are_left_out_and_told() {
    let recording = two_loads();
    let (loads, remarks) = loads_of(&recording.to_bytes());
    assert_eq!(loads, [("first".to_string(), 1), ("second".into(), 1)]);
    assert_eq!(remarks, Vec::<String>::new());
    let row = 0x4444_5555_6666_u64.to_le_bytes();
    let (loads, remarks) = loads_of(&garbled_at(&recording, &row));
    assert_eq!(loads, [("first".to_string(), 1), ("second".into(), 0)]);
    assert!(
        remarks[0].contains("requests of a load cannot be read"),
        "{remarks:?}"
    );
    // Requests of a load whose names are lost are nobody's, and not those of the load before.
    let (loads, remarks) = loads_of(&garbled_at(&recording, b"second"));
    assert_eq!(loads, [("first".to_string(), 1)]);
    assert!(remarks[0].contains("the names of a load"), "{remarks:?}");
}

#[test]
fn a_garbled_end_is_a_missing_end() {
    let mut recording = two_loads();
    recording.end = Some(RecordingEnd {
        remarks: vec!["marked".into()],
        ..RecordingEnd::default()
    });
    let (loads, remarks) = loads_of(&garbled_at(&recording, b"marked"));
    assert_eq!(loads.len(), 2);
    assert!(remarks[0].contains("the sums at the end"), "{remarks:?}");
    assert!(remarks[1].contains("has no end"), "{remarks:?}");
    let bytes = garbled_at(&recording, b"2026-01-01");
    let refusal = KernelRecording::open(&bytes[..]).unwrap_err().to_string();
    assert!(refusal.contains("no readable header"), "{refusal}");
}
