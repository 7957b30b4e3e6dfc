#![allow(clippy::unwrap_used)]

#[path = "../../../simulator/tests/traces/wire.rs"]
#[allow(dead_code, reason = "tests of the simulator use the rest")]
mod wire;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::process::Command;

use tailbound_perfetto::message::TrackDescriptor;
use tailbound_perfetto::{PacketEvent, PacketWriter, SIMULATED_SEQUENCE};
use tailbound_time::Instant;

use super::{
    ProgramEvent, ProgramEvents, SimulatedTraces, write_csv, write_ctf, write_perfetto,
    write_trace_dat,
};
use crate::kernel::{InterruptContext, KernelEventKind, OffCpuState, ThreadSwitch};
use crate::recording::{
    KernelRecording, RecordedDomain, RecordedLoad, RecordedProcess, RecordedThread, RequestRow,
    SamplerDelay,
};
use crate::synthetic::SyntheticRecording;

fn switch(previous: u32, state: OffCpuState, next: u32) -> KernelEventKind {
    let name = |thread: u32| if thread == 0 { "swapper/0" } else { "server" };
    KernelEventKind::ThreadSwitch(ThreadSwitch {
        previous,
        previous_name: name(previous).into(),
        state,
        next,
        next_name: name(next).into(),
        previous_rank: 120,
        next_rank: 120,
    })
}

/// A thread that runs, calls, is interrupted, and sleeps again; then a loss.
fn served() -> SyntheticRecording {
    let mut recording = SyntheticRecording::new(2);
    recording.header.calls.insert(0, "read".into());
    recording
        .header
        .interrupt_lines
        .insert(41, "eth0-rx".into());
    recording.header.processes.push(RecordedProcess {
        pid: 7,
        threads: vec![RecordedThread {
            tid: 7,
            name: "server".into(),
            cgroup: None,
        }],
        ..RecordedProcess::default()
    });
    let line = InterruptContext::Line(41);
    recording.push(1_000, 0, 0, switch(0, OffCpuState::Runnable, 7));
    recording.push(1_500, 0, 7, KernelEventKind::InterruptEntry(line));
    recording.push(1_700, 0, 7, KernelEventKind::InterruptExit(line));
    recording.push(
        2_000,
        0,
        7,
        KernelEventKind::CallEntry {
            number: 0,
            first: 5,
            third: 64,
        },
    );
    recording.push(
        2_500,
        0,
        7,
        KernelEventKind::CallExit {
            number: 0,
            result: -11,
        },
    );
    recording.push(3_000, 0, 7, switch(7, OffCpuState::Sleeping, 0));
    recording.push(4_000, 1, 0, KernelEventKind::Lost { count: Some(3) });
    let path = "/tailbound/one".into();
    recording.push(
        5_000,
        1,
        0,
        KernelEventKind::Freezer {
            cgroup: 12,
            path,
            frozen: true,
        },
    );
    recording
}

#[test]
fn csv_has_a_line_for_each_event() {
    let bytes = served().to_bytes();
    let mut out = Vec::new();
    write_csv(
        &KernelRecording::open(&bytes[..]).unwrap(),
        &ProgramEvents::default(),
        &mut out,
    )
    .unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "time_ns,cpu,thread,name,event,fields");
    assert_eq!(
        lines[2],
        "1500,0,7,server,interrupt_entry,interrupt=irq 41 (eth0-rx)"
    );
    assert_eq!(
        lines[4],
        "2000,0,7,server,sys_enter,call=read first=5 third=64"
    );
    assert_eq!(lines[5], "2500,0,7,server,sys_exit,call=read result=-11");
    assert_eq!(lines[7], "5000,1,0,idle,lost,count=3");
    assert_eq!(
        lines[8],
        "5000,1,0,idle,cgroup_freeze,cgroup=12 path=/tailbound/one"
    );
    assert_eq!(lines.len(), 9);
}

/// Events of the thread of [`served`] and of one that the recording does not know.
fn of_programs() -> ProgramEvents {
    let event = |instant_ns: u64, thread: u32, trigger: &str| ProgramEvent {
        instant_ns,
        thread,
        trigger: trigger.into(),
        arguments: vec![3, 4],
    };
    ProgramEvents {
        lost: 1,
        clock_error_ns: 50,
        events: vec![event(1_600, 7, "serve.begin"), event(9_000, 9, "serve.end")],
    }
}

#[test]
fn events_of_programs_are_in_order_with_those_of_the_kernel() {
    let bytes = served().to_bytes();
    let recording = KernelRecording::open(&bytes[..]).unwrap();
    let mut out = Vec::new();
    write_csv(&recording, &of_programs(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[3], "1600,,7,server,serve.begin,arguments=3 4");
    assert_eq!(lines.last(), Some(&"9000,,9,,serve.end,arguments=3 4"));
    let out = write_perfetto(&recording, &of_programs(), Vec::new(), Vec::new()).unwrap();
    let shown = wire::Shown::of(&wire::packets(&out).unwrap()).unwrap();
    for (track, name, at) in [
        ("thread 7 of 7", "serve.begin", 1_600),
        ("thread 9 of 9", "serve.end", 9_000),
    ] {
        assert_eq!(shown.instants[track], [(name.to_string(), at)]);
    }
}

#[test]
fn a_number_that_another_thread_has_again_has_its_name_from_then_on() {
    let mut recording = SyntheticRecording::new(1);
    let wake = |name: &str| KernelEventKind::Waking {
        thread: 7,
        name: name.into(),
        target_cpu: 0,
    };
    recording.push(1_000, 0, 3, wake("old"));
    recording.push(2_000, 0, 7, KernelEventKind::Exit { thread: 7 });
    let new = KernelEventKind::NewThread {
        thread: 7,
        name: "new".into(),
        same_process: false,
    };
    recording.push(3_000, 0, 3, new);
    recording.push(4_000, 0, 7, KernelEventKind::Idle { begins: true });
    let bytes = recording.to_bytes();
    let mut out = Vec::new();
    write_csv(
        &KernelRecording::open(&bytes[..]).unwrap(),
        &ProgramEvents::default(),
        &mut out,
    )
    .unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[2].starts_with("2000,0,7,old,"), "{text}");
    assert!(lines[4].starts_with("4000,0,7,new,"), "{text}");
}

/// Whether a program of another project is here; says so if not.
fn is_here(program: &str) -> bool {
    let here = Command::new(program).arg("--version").output().is_ok();
    if !here {
        eprintln!("SKIPPED: {program} is not installed (tools/setup test)");
    }
    here
}

fn run(program: &str, arguments: &[&str]) -> (String, String) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn babeltrace_reads_the_common_trace_format() {
    if !is_here("babeltrace2") {
        return;
    }
    let bytes = served().to_bytes();
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| File::create(folder.path().join(name));
    write_ctf(
        &KernelRecording::open(&bytes[..]).unwrap(),
        &ProgramEvents::default(),
        open,
    )
    .unwrap();
    let path = folder.path().to_str().unwrap();
    let (text, warnings) = run("babeltrace2", &["--clock-cycles", "--no-delta", path]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7, "{text}{warnings}");
    assert!(
        lines[3].starts_with("[00000000000000002000] sys_enter:"),
        "{text}"
    );
    assert!(
        lines[3].contains("{ cpu_id = 0 }, { tid = 7, name = \"server\" }"),
        "{text}"
    );
    assert!(
        lines[4].contains("{ call = \"read\", result = -11 }"),
        "{text}"
    );
    assert!(lines[6].contains("path = \"/tailbound/one\""), "{text}");
}

#[test]
fn babeltrace_reads_events_of_programs() {
    if !is_here("babeltrace2") {
        return;
    }
    let bytes = served().to_bytes();
    let recording = KernelRecording::open(&bytes[..]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| File::create(folder.path().join(name));
    write_ctf(&recording, &of_programs(), open).unwrap();
    let path = folder.path().to_str().unwrap();
    let (text, warnings) = run("babeltrace2", &["--clock-cycles", "--no-delta", path]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 9, "{text}{warnings}");
    assert!(
        lines[2]
            .starts_with("[00000000000000001600] program_event: { tid = 7, name = \"server\" }"),
        "{text}"
    );
    assert!(
        lines[2].contains("{ trigger = \"serve.begin\", arguments = \"3 4\" }"),
        "{text}"
    );
}

#[test]
fn babeltrace_counts_lost_events() {
    if !is_here("babeltrace2") {
        return;
    }
    let mut recording = SyntheticRecording::new(1);
    recording.push(1_000, 0, 7, KernelEventKind::Idle { begins: true });
    recording.push(2_000, 0, 7, KernelEventKind::Lost { count: Some(3) });
    recording.push(3_000, 0, 7, KernelEventKind::Idle { begins: false });
    let bytes = recording.to_bytes();
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| File::create(folder.path().join(name));
    write_ctf(
        &KernelRecording::open(&bytes[..]).unwrap(),
        &ProgramEvents::default(),
        open,
    )
    .unwrap();
    let (_, warnings) = run("babeltrace2", &[folder.path().to_str().unwrap()]);
    assert!(warnings.contains("discarded 3 events"), "{warnings}");
}

#[test]
fn trace_cmd_reads_both_buffers() {
    if !is_here("trace-cmd") {
        return;
    }
    let bytes = served().to_bytes();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.dat");
    write_trace_dat(
        &KernelRecording::open(&bytes[..]).unwrap(),
        File::create(&path).unwrap(),
    )
    .unwrap();
    let (text, warnings) = run("trace-cmd", &["report", "-t", "-i", path.to_str().unwrap()]);
    for expected in [
        "sched_switch:",
        "irq_handler_entry:",
        "sys_enter:",
        "sys_exit:",
        "3 EVENTS DROPPED",
        "/tailbound/one",
        "server-7",
        "0.000002500",
    ] {
        assert!(text.contains(expected), "{expected}: {text}{warnings}");
    }
}

#[test]
fn streams_of_ctf_are_whole_packets() {
    let bytes = served().to_bytes();
    let files = std::cell::RefCell::new(BTreeMap::new());
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let path = folder.path().join(name);
        files.borrow_mut().insert(name.to_string(), path.clone());
        File::create(path)
    };
    write_ctf(
        &KernelRecording::open(&bytes[..]).unwrap(),
        &ProgramEvents::default(),
        open,
    )
    .unwrap();
    let files = files.into_inner();
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        ["cpu0", "cpu1", "metadata"]
    );
    let stream = fs::read(&files["cpu0"]).unwrap();
    let number = |at: usize| u64::from_le_bytes(stream[at..at + 8].try_into().unwrap());
    assert_eq!((number(8), number(16)), (1_000, 3_000));
    assert_eq!(number(32), stream.len() as u64 * 8);
}

/// A simulated schedule of one CPU, with a name and a slice of its own.
fn simulated() -> Vec<u8> {
    let mut packets = PacketWriter::new(Vec::new(), SIMULATED_SEQUENCE);
    let cpus = packets.describe(TrackDescriptor {
        name: Some("CPUs".into()),
        ..TrackDescriptor::default()
    });
    packets.begin(cpus, 10, PacketEvent::named("web.work"));
    packets.end(cpus, 30, Vec::new());
    packets.finish().unwrap()
}

/// A recording with a domain that is frozen, a load, and a late look.
fn loaded() -> SyntheticRecording {
    let mut recording = served();
    recording.header.processes[0].cgroup = "/tailbound/one".into();
    recording.header.domains.push(RecordedDomain {
        name: "one".into(),
        pids: vec![7],
        frozen: true,
        ..RecordedDomain::default()
    });
    let path = "/tailbound/one".into();
    recording.push(
        6_000,
        1,
        0,
        KernelEventKind::Freezer {
            cgroup: 12,
            path,
            frozen: false,
        },
    );
    let at = Instant::from_nanos;
    recording.delays.push(SamplerDelay {
        cpu: 1,
        due: at(4_100),
        woke: at(4_900),
    });
    let load = RecordedLoad {
        service: "web".into(),
        tasks: vec!["work".into()],
        ..RecordedLoad::default()
    };
    let row = |intended: u64, replied: u64| RequestRow {
        task: 0,
        client: 0,
        intended: at(intended),
        taken_up: at(intended),
        sent: Some(at(intended)),
        replied: at(replied),
        answered: true,
        warm_up: false,
    };
    recording.loads.push((
        load,
        vec![row(900, 3_100), row(1_200, 3_300), row(3_100, 3_500)],
    ));
    recording
}

#[test]
fn perfetto_has_recorded_and_simulated_tracks_of_the_same_names() {
    let (bytes, schedule) = (loaded().to_bytes(), simulated());
    let traces: SimulatedTraces<'_> = vec![
        ("one".into(), Box::new(&schedule[..])),
        ("two".into(), Box::new(&schedule[..])),
    ];
    let recording = KernelRecording::open(&bytes[..]).unwrap();
    let out = write_perfetto(&recording, &ProgramEvents::default(), traces, Vec::new()).unwrap();
    let shown = wire::Shown::of(&wire::packets(&out).unwrap()).unwrap();
    assert_eq!(shown.disorder(), Vec::<String>::new());
    let slice = |name: &str, from: u64, until: u64| (name.to_string(), from, Some(until));
    assert_eq!(
        shown.slices["recorded/CPUs/CPU 0"],
        [slice("server", 1_000, 3_000)]
    );
    assert_eq!(
        shown.slices["recorded/CPUs/CPU 1/stalls"],
        [slice("late look", 4_100, 4_900)]
    );
    assert_eq!(
        shown.slices["recorded/Reservations/one"],
        [slice("frozen", 5_000, 6_000)]
    );
    let instants = &shown.instants["recorded/Reservations/one"];
    assert_eq!(
        instants[..],
        [
            ("ran out".to_string(), 5_000),
            ("replenished".into(), 6_000)
        ]
    );
    let jobs = shown
        .slices
        .iter()
        .filter(|(track, _)| track.starts_with("recorded/Tasks/web.work/jobs"));
    let jobs: Vec<_> = jobs.map(|(_, slices)| slices.clone()).collect();
    assert_eq!(
        jobs,
        [
            vec![slice("#0", 900, 3_100), slice("#2", 3_100, 3_500)],
            vec![slice("#1", 1_200, 3_300)],
        ]
    );
    // The simulation begins with the first request.
    for track in ["simulated/one/CPUs", "simulated/two/CPUs"] {
        assert_eq!(shown.slices[track], [slice("web.work", 910, 930)]);
    }
    let kernel: Vec<&str> = shown.kernel[&0].iter().map(|(_, _, name)| *name).collect();
    assert_eq!(
        kernel,
        [
            "sched_switch",
            "irq_handler_entry",
            "irq_handler_exit",
            "sys_enter",
            "sys_exit",
            "sched_switch"
        ]
    );
    assert_eq!(shown.kernel[&0][1], (1_500, 7, "irq_handler_entry"));
}

#[test]
fn other_files_are_no_simulated_schedules() {
    let bytes = served().to_bytes();
    let recording = KernelRecording::open(&bytes[..]).unwrap();
    let refused = |content: &[u8]| {
        let traces: SimulatedTraces<'_> = vec![(
            "x.csv".into(),
            Box::new(std::io::Cursor::new(content.to_vec())),
        )];
        write_perfetto(&recording, &ProgramEvents::default(), traces, Vec::new())
            .unwrap_err()
            .to_string()
    };
    assert!(refused(b"task,job\n").contains("no packet begins here"));
    let recorded = write_perfetto(
        &recording,
        &ProgramEvents::default(),
        Vec::new(),
        Vec::new(),
    )
    .unwrap();
    let refusal = refused(&recorded);
    assert!(refusal.starts_with("x.csv is no schedule"), "{refusal}");
}
