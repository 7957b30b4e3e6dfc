//! `tailbound trace locks` with a program whose locks are counted.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tailbound_trace::kernel::{ExecutionContext, KernelEventKind, LockCall, LockKind, LockStep};
use tailbound_trace::synthetic::SyntheticRecording;

/// The program that tests of the preloaded library use, compiled into `folder`.
fn subject(folder: &Path) -> PathBuf {
    let program = folder.join("subject");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lock-trace/tests/subject.c");
    let status = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    assert!(status.unwrap().success());
    program
}

/// Traces the program into `file`, with `temporary` as the folder of temporary files.
fn trace(temporary: &Path, file: &Path, program: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tailbound"))
        .args(["trace", "locks", "--format", "csv", "--output"])
        .args([file, Path::new("--"), program])
        .args(words)
        .env("TMPDIR", temporary)
        .output()
        .unwrap()
}

#[test]
fn the_locks_of_a_command_are_told_and_its_status_is_kept() {
    let (folder, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = subject(folder.path());
    let file = folder.path().join("recording");
    let output = trace(temporary.path(), &file, &program, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    // The program prints a number of its own.
    let rows: Vec<&str> = text.lines().skip(1).collect();
    let header = "of,name,kind,sections,contended,waited_ns,longest_wait_ns,mean_hold_ns,longest_hold_ns,is_shared";
    assert_eq!(rows[0], header);
    let name = program.file_name().unwrap().to_string_lossy().into_owned();
    let has = |of: &str, kind: &str, rest: &str| {
        let mut rows = rows.iter();
        rows.any(|row| {
            row.starts_with(&format!("{of},"))
                && row.contains(&name)
                && row.contains(&format!(",{kind},{rest}"))
        })
    };
    assert!(has("lock", "spin lock", "1,0,0,0,"), "{text}");
    assert!(
        has("place", "write lock", "1,1,"),
        "the one that waits: {text}"
    );
    assert!(has("lock", "mutex", ""), "{text}");
    check_recording(&file, &rows);
    let killed = trace(temporary.path(), &file, &program, &["killed"]);
    assert_eq!(killed.status.code(), Some(128 + 9));
    let full = trace(temporary.path(), Path::new("/dev/full"), &program, &[]);
    let faults = String::from_utf8(full.stderr).unwrap();
    let expected = "cannot write the recording to /dev/full: No space left on device";
    assert!(faults.contains(expected), "{faults}");
    assert!(!full.stdout.is_empty() && !full.status.success());
    let leftovers = std::fs::read_dir(temporary.path()).unwrap().count();
    assert_eq!(leftovers, 0);
}

/// The tables of a recording are those of the command, and a recording that is cut short has what is there.
fn check_recording(file: &Path, expected: &[&str]) {
    let read = || {
        let output = Command::new(env!("CARGO_BIN_EXE_tailbound"))
            .args(["trace", "locks", "--format", "csv"])
            .arg(file)
            .output()
            .unwrap();
        [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap())
    };
    let [text, faults] = read();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!((rows.as_slice(), faults.as_str()), (expected, ""));
    let whole = std::fs::read(file).unwrap();
    std::fs::write(file, &whole[..whole.len() - 1]).unwrap();
    let [text, faults] = read();
    assert!(text.lines().count() > 3, "{text}");
    assert!(faults.contains("the recording has no end"), "{faults}");
    std::fs::write(file, "ELF").unwrap();
    let [_, faults] = read();
    assert!(
        faults.contains("recording: this is no recording of tailbound"),
        "{faults}"
    );
}

/// Runs `trace locks` on a recording of the kernel; the answer and what stands on standard error.
fn kernel_locks(folder: &Path, recording: &SyntheticRecording) -> [String; 2] {
    let file = folder.join("kernel.trace");
    std::fs::write(&file, recording.to_bytes()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tailbound"))
        .args(["trace", "locks", "--format", "csv"])
        .arg(file)
        .output()
        .unwrap();
    [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap())
}

#[test]
fn locks_of_the_kernel_have_the_names_of_its_symbols() {
    let (function, variable, memory) = (
        0xffff_ffff_8100_0000,
        0xffff_ffff_8200_0000,
        0xffff_8880_0000_0000,
    );
    let mut recording = SyntheticRecording::new(1);
    recording.header.symbols = [
        (function, "do_work".to_owned()),
        (variable, "work_lock".to_owned()),
    ]
    .into();
    recording.header.missing = vec!["locks by mutex_lock_io: none".into()];
    for (at, step, lock) in [
        (1_000, LockStep::Request, variable),
        (1_100, LockStep::Request, memory),
        (1_300, LockStep::Release, memory),
        (1_500, LockStep::Release, variable),
    ] {
        let call = LockCall {
            step,
            kind: LockKind::Mutex,
            lock,
            caller: function + 0x10,
            context: ExecutionContext::Thread,
        };
        recording.push(at, 0, 7, KernelEventKind::Lock(call));
    }
    let folder = tempfile::tempdir().unwrap();
    let [text, faults] = kernel_locks(folder.path(), &recording);
    let rows: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        rows,
        [
            "lock,0xffff888000000000,mutex,1,0,0,0,200,200,false",
            "lock,work_lock,mutex,1,0,0,0,500,500,false",
            "place,do_work+0x10,mutex,2,0,0,0,350,500,false",
        ]
    );
    assert!(
        faults.contains("not recorded: locks by mutex_lock_io"),
        "{faults}"
    );
    recording.events.clear();
    let [_, faults] = kernel_locks(folder.path(), &recording);
    assert!(faults.contains("trace record --kernel-locks"), "{faults}");
}
