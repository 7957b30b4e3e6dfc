//! Isolation in space: what programs of isolated time partitions see, whom they reach, and what is left when one of ours dies.
//!
//! The programs are ignored tests of this file.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tailbound_linux::isolation::missing_privilege;
use tailbound_linux::memory_group::MemoryGroup;
use tailbound_linux::process::{children_of, command_line, send_signal, with_descendants};
use tailbound_linux::scheduling::{SchedulingSetting, scheduling_of};
use tailbound_ports::inherited;

use crate::bench::Bench;

const ARGUMENTS: [&str; 3] = ["--ignored", "--exact", "--nocapture"];
const PAUSE: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(120);
/// A mark of this test's folders; the folder of the description is kept, and named so.
const KEPT: &str = "tbt";
const SIGKILL: i32 = 9;

/// Two partitions on one CPU, both isolated, and a port between them.
fn description(duration: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let domain = |name: &str, offset: &str| {
        let test = format!("isolation::{name}");
        let program = program.display().to_string();
        let words = std::iter::once(program.as_str()).chain(ARGUMENTS);
        let command: Vec<&str> = words.chain([test.as_str()]).collect();
        format!(
            r#"
[domains.{name}]
kind = "process"
command = {command:?}
isolation = {{ memory_limit = "64MiB" }}
reservation = {{ backend = "time-partitions", cpus = [0], windows = [{{ offset = "{offset}", length = "8ms" }}] }}
"#
        )
    };
    let domains = [domain("left", "0ms"), domain("right", "9ms")].concat();
    format!(
        r#"
schema_version = 1
name = "isolation"
[hosts.here]
cpus = [0, 1]
housekeeping = [1]
major_frame = "20ms"
[domains.sensor]
kind = "process"
builtin = "own-tasks"
cpus = [1]
[domains.sensor.tasks.sense]
arrivals = {{ kind = "periodic", period = "10ms" }}
execution_time = {{ kind = "constant", value = "200us" }}
{domains}
[ports.position]
kind = "sampling"
from = "left"
to = ["right"]
size = 64
validity = "60min"
[experiment]
duration = "{duration}"
warm_up = "300ms"
[[experiment.variants]]
name = "described"
"#
    )
}

/// A bench for a test with isolation; `None`, said loudly, where there can be none.
pub fn isolating(test: &str) -> Option<Bench> {
    if missing_privilege().is_some() {
        eprintln!("SKIP {test}: needs CAP_SYS_ADMIN");
        return None;
    }
    if let Err(error) = MemoryGroup::make(KEPT, 1 << 20).and_then(|group| group.remove()) {
        eprintln!("SKIP {test}: needs a cgroup that limits memory ({error})");
        return None;
    }
    Bench::enforcing(test)
}

fn log(bench: &Bench, name: &str) -> String {
    let log = bench.path().join(format!("out/logs/{name}-0.log"));
    fs::read_to_string(log).unwrap_or_default()
}

#[test]
fn partitions_are_isolated_in_space_and_their_ports_go_on() {
    let Some(bench) = isolating("isolation::partitions") else {
        return;
    };
    // A partition must not reach this process, nor a file of each place for passing files.
    bench.write("stranger", &std::process::id().to_string());
    let strange = ["/tmp", "/dev/shm"].map(|folder| {
        let file = tempfile::Builder::new()
            .prefix("tb-strange")
            .tempfile_in(folder);
        file.unwrap()
    });
    bench.write("isolated.toml", &description("10s"));
    let ended = bench.run(&["run", "isolated.toml", "--out", "out"]);
    let (left, right) = (log(&bench, "left"), log(&bench, "right"));
    let said = format!("{}{left}{right}", ended.err);
    assert!(matches!(ended.status, Some(0 | 2)), "{said}");
    assert!(left.contains("alone, and a child out of memory"), "{said}");
    assert!(
        left.contains("at the memory limit of 67108864 bytes: 1"),
        "{said}"
    );
    assert!(right.contains("alone, and the port works"), "{said}");
    drop(strange);
    bench.assert_clean("left");
    assert_eq!(memory_groups(), Vec::<PathBuf>::new());
}

/// The groups with limits on memory, wherever they are.
fn memory_groups() -> Vec<PathBuf> {
    let group = MemoryGroup::make(KEPT, 1 << 20).unwrap();
    let parent = group.directory().parent().unwrap().to_owned();
    group.remove().unwrap();
    let entries = fs::read_dir(parent).unwrap().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_ours = |path: &PathBuf| path.display().to_string().contains("tailbound-memory-");
    paths.filter(is_ours).collect()
}

/// The supervisor of a domain's program, below a run.
fn supervisor(run: u32, program: &str) -> Option<u32> {
    let children = children_of(run).unwrap();
    children.into_iter().find(|pid| {
        let words = command_line(*pid).unwrap_or_default();
        words.contains(&"isolated".to_owned()) && words.contains(&format!("isolation::{program}"))
    })
}

/// Waits until something is there.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(there) = look() {
            return there;
        }
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        sleep(PAUSE);
    }
}

/// Waits until program and first process are in the partition, and makes sure that the supervisor is not.
fn assert_reserved(supervisor: u32, first: u32, program: u32) {
    let is_fifo = |pid| {
        scheduling_of(pid).is_ok_and(|setting| matches!(setting, SchedulingSetting::Fifo { .. }))
    };
    until("real-time priority", || {
        (is_fifo(first) && is_fifo(program)).then_some(())
    });
    assert!(!is_fifo(supervisor));
    let group = fs::read_to_string(format!("/proc/{program}/cgroup")).unwrap();
    let is_in = |ending: &str| group.lines().any(|line| line.ends_with(ending));
    assert!(is_in("tailbound/right"), "{group}");
    assert!(group.contains("tailbound-memory-"), "{group}");
}

#[test]
fn a_reservation_holds_an_isolated_program_and_no_death_of_ours_leaves_any() {
    let Some(bench) = isolating("isolation::deaths") else {
        return;
    };
    bench.write("stranger", &std::process::id().to_string());
    bench.write("isolated.toml", &description("60s"));
    for victim in ["run", "supervisor", "first", "program"] {
        let mut run = bench.start(&["run", "isolated.toml", "--out", victim]);
        let supervisor = until("a supervisor", || supervisor(run.id(), "right"));
        let first = until("a first process", || children_of(supervisor).unwrap().pop());
        let program = until("a program", || children_of(first).unwrap().pop());
        if victim == "run" {
            assert_reserved(supervisor, first, program);
        }
        let all = with_descendants(&BTreeSet::from([supervisor])).unwrap();
        let doomed = match victim {
            "run" => run.id(),
            "supervisor" => supervisor,
            "first" => first,
            _ => program,
        };
        send_signal(doomed, SIGKILL).unwrap();
        run.wait().unwrap();
        for pid in all {
            let words = || {
                command_line(pid).is_ok_and(|words| words.join(" ").contains("isolation::right"))
            };
            until(&format!("the end of {pid} after {victim}"), || {
                (!words()).then_some(())
            });
        }
        bench.assert_clean("right");
        until("the removal of the group", || {
            memory_groups().is_empty().then_some(())
        });
    }
}

/// Says a line once, and lives on: a program that ends, ends the run.
fn report(line: &str) -> ! {
    println!("{line}");
    loop {
        sleep(Duration::from_secs(3_600));
    }
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.collect()
}

/// A program sees nothing of others.
fn assert_alone(own: &str) {
    assert_eq!(names("/dev/shm"), Vec::<String>::new());
    let temporary = names("/tmp");
    assert!(
        temporary.iter().all(|name| name.starts_with(KEPT)),
        "{temporary:?}"
    );
    for folder in ["/tmp", "/dev/shm"] {
        fs::write(Path::new(folder).join(own), own).unwrap();
    }
    let numbers = names("/proc").into_iter();
    let processes: Vec<u32> = numbers.filter_map(|name| name.parse().ok()).collect();
    assert!(processes.iter().all(|pid| *pid < 100), "{processes:?}");
    let stranger: u32 = fs::read_to_string("stranger").unwrap().parse().unwrap();
    assert_eq!(
        send_signal(stranger, 0).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let routes = fs::read_to_string("/proc/net/route").unwrap();
    assert_eq!(routes.lines().count(), 1, "{routes}");
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // An address of documentation (RFC 5737): nothing would be sent anyway.
    let refused = socket.connect("203.0.113.1:9").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NetworkUnreachable);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    near.write_all(b"own").unwrap();
    let mut heard = [0; 3];
    listener.accept().unwrap().0.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"own");
}

#[test]
#[ignore = "a program of the tests above"]
fn left() {
    assert_alone("left");
    let mut position = inherited("position").unwrap().sampling_writer().unwrap();
    position.write(b"12.5 7.0").unwrap();
    let mut glutton = Command::new(std::env::current_exe().unwrap());
    glutton.args(ARGUMENTS).arg("isolation::glutton");
    let ended = glutton.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert_eq!(ended.unwrap().signal(), Some(SIGKILL));
    position.write(b"13.5 7.0").unwrap();
    report("alone, and a child out of memory");
}

#[test]
#[ignore = "a program of the tests above"]
fn right() {
    assert_alone("right");
    let mut position = inherited("position").unwrap().sampling_reader().unwrap();
    let mut room = [0; 64];
    loop {
        // After the child of the other has been killed.
        let sample = position.read(&mut room).unwrap();
        if sample.is_some_and(|sample| &room[..sample.length] == b"13.5 7.0") {
            break;
        }
        sleep(PAUSE);
    }
    assert_eq!(names("/dev/shm"), ["right"]);
    report("alone, and the port works");
}

/// Needs four times the memory that it may have.
#[test]
#[ignore = "a program of the tests above"]
fn glutton() {
    let mut eaten = Vec::new();
    for _ in 0..256 {
        eaten.push(vec![1_u8; 1 << 20]);
    }
    println!("{}", eaten.len());
}
