//! Triggers of programs in C and C++: in several files, in inline functions and templates, in a shared library.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tailbound_linux::process::die_with_parent;
use tailbound_linux::trigger_control::TriggerControl;
use tailbound_trigger::clock::EventClock;
use tailbound_trigger::layout::RecordingLayout;
use tailbound_trigger::{PATCH_VARIABLE, RecordingReader, TriggerEvent};

use crate::own_triggers::check_that_others_are_refused;

/// A way to compile.
struct Build {
    c: &'static str,
    cpp: &'static str,
    options: &'static [&'static str],
    /// A program that runs the result, for another architecture.
    runner: &'static [&'static str],
    /// What the environment says of patches.
    patch: &'static str,
}

const NATIVE: Build = Build {
    c: "cc",
    cpp: "c++",
    options: &["-O2"],
    runner: &[],
    patch: "on",
};

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
}

/// Compiles the subject into a folder of its own; `None`, and a line, without the compiler.
fn compile(build: &Build, name: &str) -> Option<PathBuf> {
    for tool in [build.c, build.cpp]
        .into_iter()
        .chain(build.runner.first().copied())
    {
        if Command::new(tool).arg("--version").output().is_err() {
            eprintln!("SKIP triggers in C, {name}: needs {tool}");
            return None;
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let here = root.join("crates/trigger/tests/c");
    let library = root.join("libraries/c");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("triggers-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let compiler = |compiler: &str, standard: &str| {
        let mut command = Command::new(compiler);
        command.args([
            standard,
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-pthread",
            "-I",
        ]);
        command
            .arg(&library)
            .args(build.options)
            .current_dir(&folder);
        command
    };
    let shared = ["-shared", "-fPIC", "-o", "libplaces.so"];
    run(compiler(build.cpp, "-std=c++17")
        .args(shared)
        .arg(here.join("library.cc")));
    run(compiler(build.cpp, "-std=c++17")
        .arg("-c")
        .arg(here.join("second.cc")));
    let sources = [
        here.join("subject.c"),
        library.join("trigger/control.c"),
        library.join("trigger/recording.c"),
    ];
    run(compiler(build.c, "-std=c11").arg("-c").args(sources));
    let objects = [
        "subject.o",
        "control.o",
        "recording.o",
        "second.o",
        "libplaces.so",
    ];
    let paths = ["-Wl,-rpath,$ORIGIN", "-o", "subject"];
    run(Command::new(build.cpp)
        .args(objects)
        .args(build.options)
        .args(paths)
        .arg("-pthread")
        .current_dir(&folder));
    Some(folder)
}

/// The names and first arguments of events, sorted.
fn summary(events: &[TriggerEvent], reader: &RecordingReader) -> Vec<String> {
    let line = |event: &TriggerEvent| {
        let name = reader.name(event.site).unwrap();
        format!("{name} {:?}", event.arguments())
    };
    let mut lines: Vec<_> = events.iter().map(line).collect();
    lines.sort_unstable();
    lines
}

/// Has the subject switch and record its triggers.
fn check_recording(build: &Build, name: &str) {
    let Some(folder) = compile(build, name) else {
        return;
    };
    let clock = match build.runner {
        [] => EventClock::of_this_machine(),
        _ => EventClock::Monotonic,
    };
    let layout = RecordingLayout {
        clock,
        ..RecordingLayout::default()
    };
    let file = layout.anonymous_file().unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let program = folder.join("subject");
    let mut words = build
        .runner
        .iter()
        .map(Path::new)
        .chain([program.as_path()]);
    run(Command::new(words.next().unwrap())
        .args(words)
        .arg("record")
        .arg(path)
        .env(PATCH_VARIABLE, build.patch));
    let mut reader = RecordingReader::open(&file).unwrap();
    let mut events = Vec::new();
    reader.drain(|event| events.push(*event));
    let expected = |number: u64| {
        [
            format!("c.inline [{number}]"),
            format!("c.inline [{number}]"),
            format!("c.library [{number}]"),
            format!("c.main [{number}, {}]", number + 1),
            "c.none []".into(),
            format!("c.template [{number}, 1]"),
            format!("c.template [{number}, 4]"),
            format!("c.template [{number}, 4]"),
        ]
    };
    let mut all = [4, 5, 7].map(expected).concat();
    all.sort_unstable();
    assert_eq!(summary(&events, &reader), all, "{name}");
    let mut threads: Vec<_> = events.iter().map(|event| event.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 3, "two threads, and a child of fork");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn triggers_of_every_file_and_library_are_switched() {
    check_recording(&NATIVE, "optimised");
    let unoptimised = Build {
        options: &["-O0"],
        ..NATIVE
    };
    check_recording(&unoptimised, "unoptimised");
}

#[test]
fn triggers_are_branches_where_text_is_not_patched() {
    let atomic = Build {
        options: &["-O2", "-DTAILBOUND_TRIGGER_ATOMIC"],
        patch: "off",
        ..NATIVE
    };
    check_recording(&atomic, "atomic");
    let clang = Build {
        c: "clang",
        cpp: "clang++",
        ..NATIVE
    };
    check_recording(&clang, "clang");
    let foreign = Build {
        c: "aarch64-linux-gnu-gcc",
        cpp: "aarch64-linux-gnu-g++",
        options: &["-O2"],
        runner: &["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
        patch: "off",
    };
    check_recording(&foreign, "aarch64");
}

/// A program that is switched from outside and killed in the middle of its writes leaves a recording that is whole but
/// for what was being written.
#[test]
fn a_killed_program_leaves_a_recording_that_is_read() {
    const THREADS: u32 = 3;
    let Some(folder) = compile(&NATIVE, "killed") else {
        return;
    };
    check_refusals(&folder);
    let mut subject = Command::new(folder.join("subject"));
    let subject = subject
        .args(["serve", &THREADS.to_string()])
        .stdout(Stdio::piped());
    // One ring for one thread, so that two share the other one.
    let layout = RecordingLayout {
        rings: 2,
        slots: 256,
        ..RecordingLayout::default()
    };
    let mut unfinished = 0;
    for _ in 0..8 {
        let mut child = die_with_parent(subject).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let file = layout.anonymous_file().unwrap();
        let mut control = TriggerControl::connect(child.id()).unwrap();
        let names: Vec<_> = control
            .triggers()
            .unwrap()
            .into_iter()
            .map(|it| it.name)
            .collect();
        assert_eq!(
            names,
            [
                "c.eight",
                "c.inline",
                "c.library",
                "c.main",
                "c.none",
                "c.template"
            ]
        );
        control.record(&file).unwrap();
        control.enable("c.m*").unwrap();
        let mut reader = RecordingReader::open(&file).unwrap();
        let mut events = 0;
        let check = |event: &TriggerEvent| {
            let &[number, next] = event.arguments() else {
                panic!("{event:?}");
            };
            assert_eq!(number + 1, next);
        };
        while events < 2_000 {
            let mut check = |event: &TriggerEvent| {
                check(event);
                events += 1;
            };
            reader.drain(&mut check);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let salvage = reader.salvage(check);
        assert_eq!(salvage.garbled, 0);
        assert!(salvage.unfinished <= THREADS.into(), "{salvage:?}");
        unfinished += salvage.unfinished;
    }
    eprintln!("{unfinished} events were being written at 8 kills");
    fs::remove_dir_all(folder).unwrap();
}

/// A program whose environment forbids patches, and what it answers to its user and to others.
fn check_refusals(folder: &Path) {
    for (value, reason) in [("off", "forbids it"), ("no", "is neither on nor off")] {
        let mut subject = Command::new(folder.join("subject"));
        let subject = subject.args(["serve", "1"]).env(PATCH_VARIABLE, value);
        let mut child = die_with_parent(subject.stdout(Stdio::piped()))
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let mut control = TriggerControl::connect(child.id()).unwrap();
        let refusal = control.enable("c.m*").unwrap_err().to_string();
        let expected = format!(
            "process {}: \"c.m*\" cannot be switched, since the text of the program cannot be changed \
             ({PATCH_VARIABLE}={value} {reason}); build the program with TAILBOUND_TRIGGER_ATOMIC",
            child.id()
        );
        assert_eq!(refusal, expected);
        let none = control.enable("d.*").unwrap_err().to_string();
        assert!(none.contains("no trigger of the program fits"), "{none}");
        check_that_others_are_refused(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
