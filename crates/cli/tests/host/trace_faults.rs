//! `tailbound trace record` when the disk is full, the recorder dies, or something is missing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use tailbound_linux::tracefs::TraceFs;

use crate::bench::{Bench, Ended, signal};

/// The user and the group `nobody`.
const NOBODY: u32 = 65_534;
/// What a recorder says when it has recorded to the end.
const RECORDED: &str = "recording: ";

/// A place, and tracefs without instances whose makers are gone; `None`, said loudly, where nothing can be recorded.
fn recording(test: &str) -> Option<(Bench, TraceFs)> {
    let bench = Bench::new();
    let tracefs = TraceFs::open().and_then(|tracefs| tracefs.make_instance().map(|_| tracefs));
    match tracefs {
        Ok(tracefs) => {
            tracefs.remove_abandoned();
            Some((bench, tracefs))
        }
        Err(error) => {
            eprintln!("SKIP {test}: needs tracefs with instances: {error}");
            None
        }
    }
}

#[test]
fn a_full_disk_is_told_and_leaves_what_was_written() {
    let Some((bench, tracefs)) = recording("trace_faults::full_disk") else {
        return;
    };
    // The first write fails here.
    let full = bench.run(&["trace", "record", "-o", "/dev/full", "--", "true"]);
    full.expect(
        1,
        &["the recording cannot be written: No space left on device"],
    );
    assert_eq!(tracefs.remove_abandoned(), 0, "instances are left");
    // The mount is gone with its namespace.
    let script = "mkdir small && mount -t tmpfs -o size=512k none small || exit 99
        $0 trace record -o small/x.trace -- sh -c 'for i in $(seq 2000); do /bin/true; done; touch done'
        echo status $?
        $0 trace report small/x.trace";
    let mut command = bench.tailbound(&[]);
    let program = command.get_program().to_owned();
    command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script])
        .arg(program)
        .current_dir(bench.path());
    let ended = Ended::from(command.output().unwrap());
    if ended.status == Some(99) {
        eprintln!(
            "SKIP trace_faults::full_disk: nothing can be mounted: {}",
            ended.err
        );
        return;
    }
    let ended = ended.expect(
        0,
        &[
            "status 1",
            "No space left on device",
            "has no end",
            " events, ",
        ],
    );
    assert!(
        bench.path().join("done").exists(),
        "the command was not stopped: {}",
        ended.err
    );
    assert_eq!(tracefs.remove_abandoned(), 0, "instances are left");
}

#[test]
fn the_next_recorder_removes_what_a_killed_one_has_left() {
    let Some((bench, tracefs)) = recording("trace_faults::killed") else {
        return;
    };
    for next_is_a_recorder in [true, false] {
        let mut killed = bench.start(&[
            "trace",
            "record",
            "-o",
            "x.trace",
            "--",
            "sh",
            "-c",
            "touch here; exec sleep 600",
        ]);
        while !bench.path().join("here").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        signal(&killed, "KILL");
        killed.wait().unwrap();
        let left = match next_is_a_recorder {
            true => {
                bench
                    .run(&["trace", "record", "-o", "y.trace", "--", "true"])
                    .expect(0, &[RECORDED]);
                0
            }
            // An instance for all threads and one for system calls.
            false => 2,
        };
        assert_eq!(tracefs.remove_abandoned(), left);
        fs::remove_file(bench.path().join("here")).unwrap();
        bench.assert_clean("none");
    }
    bench
        .run(&["trace", "report", "x.trace"])
        .expect(0, &["the recording has no end"]);
}

#[test]
fn two_recorders_at_once_both_record() {
    let Some((bench, tracefs)) = recording("trace_faults::two") else {
        return;
    };
    let wait = "touch $0.here; until [ -e one.here ] && [ -e two.here ]; do sleep 0.01; done";
    let record = |name: &str| {
        let file = format!("{name}.trace");
        let words = ["trace", "record", "-o", &file, "--", "sh", "-c", wait, name];
        bench.tailbound(&words).spawn().unwrap()
    };
    let both = [record("one"), record("two")];
    for (name, recorder) in ["one", "two"].into_iter().zip(both) {
        Ended::from(recorder.wait_with_output().unwrap()).expect(0, &[RECORDED]);
        let file = format!("{name}.trace");
        bench
            .run(&["trace", "report", &file])
            .expect(0, &["thread", "sh "]);
    }
    assert_eq!(tracefs.remove_abandoned(), 0, "instances are left");
}

#[test]
fn commands_and_processes_that_end_end_the_recording() {
    let Some((bench, _)) = recording("trace_faults::ended") else {
        return;
    };
    bench
        .run(&["trace", "record", "--", "true"])
        .expect(0, &[RECORDED]);
    bench
        .run(&["trace", "record", "--", "sh", "-c", "exit 7"])
        .expect(7, &[RECORDED]);
    let mut sleeper = Command::new("sleep")
        .arg("0.2")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let pid = sleeper.id().to_string();
    bench
        .run(&["trace", "record", "--pid", &pid])
        .expect(0, &[RECORDED]);
    // It waits for its parent to notice its end.
    let ended = bench.run(&["trace", "record", "--pid", &pid]);
    ended.expect(1, &["there is no process"]);
    sleeper.wait().unwrap();
}

#[test]
fn an_ordinary_user_hears_what_is_missing() {
    let bench = Bench::new();
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(bench.path(), open).unwrap();
    let plain = bench.tailbound(&[]);
    // The program may lie where only root comes to.
    let copy = bench.path().join("tailbound");
    fs::copy(plain.get_program(), &copy).unwrap();
    let mut command = Command::new(copy);
    command.args(["trace", "record", "--no-stalls", "--", "touch", "ran"]);
    command.current_dir(bench.path()).uid(NOBODY).gid(NOBODY);
    let ended = Ended::from(command.output().unwrap());
    ended.expect(
        1,
        &[
            "the kernel's events cannot be recorded: opening tracefs",
            "run it as root, or mount tracefs",
        ],
    );
    assert!(
        !bench.path().join("ran").exists(),
        "the command ran without being recorded"
    );
}

/// The kernel's locks are recorded with their sections, or the refusal says what the kernel lacks; nothing is left behind.
#[test]
fn locks_of_the_kernel_are_recorded_or_refused_with_the_cause() {
    let Some((bench, tracefs)) = recording("trace_faults::kernel_locks") else {
        return;
    };
    let words = ["trace", "record", "--kernel-locks", "--no-stalls"];
    let command = ["-o", "locks.trace", "--", "ls", "/proc/self/task"];
    let ended = bench.run(&[&words[..], &command].concat());
    if tracefs.read("kprobe_events").is_ok() && ended.status == Some(0) {
        let report = bench.run(&["trace", "locks", "locks.trace"]);
        report.expect(0, &["critical sections", "held, outermost", "spin lock"]);
    } else {
        eprintln!("SKIP trace_faults::kernel_locks: this kernel's functions cannot be probed");
        ended.expect(
            1,
            &["its functions cannot be probed", "CONFIG_KPROBE_EVENTS"],
        );
    }
    assert_eq!(tracefs.remove_abandoned(), 0, "instances are left");
    let probes = tracefs.read("kprobe_events").unwrap_or_default();
    assert!(!probes.contains("tailbound_"), "{probes}");
}
