//! The preloaded library in a program that uses every kind of lock.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tailbound_lock_trace::{
    LockEventReader, LockKind, LockStudy, LockSummary, MAPPINGS_VARIABLE, MappedModules,
    PRELOADED_LIBRARY, RECORDING_VARIABLE,
};
use tailbound_trigger::RecordingReader;
use tailbound_trigger::layout::RecordingLayout;

/// A folder with the library and the subject.
fn stage(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("lock-trace-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("locks.so"), PRELOADED_LIBRARY).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/subject.c");
    let output = Command::new("cc")
        .args([
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O1",
            "-pthread",
        ])
        .arg(source)
        .args(["-o", "subject"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    folder
}

/// Runs the subject, and studies its locks.
fn trace(folder: &Path, words: &[&str]) -> (LockSummary, RecordingReader, Output) {
    let layout = RecordingLayout {
        arguments: 3,
        rings: 8,
        ..RecordingLayout::default()
    };
    let file = layout.anonymous_file().unwrap();
    let recording = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let output = Command::new(folder.join("subject"))
        .args(words)
        .env("LD_PRELOAD", folder.join("locks.so"))
        .env(RECORDING_VARIABLE, recording)
        .env(MAPPINGS_VARIABLE, folder.join("maps."))
        .output()
        .unwrap();
    let mut reader = RecordingReader::open(&file).unwrap();
    let mut events = Vec::new();
    reader.drain(|event| events.push(*event));
    let mut translation = LockEventReader::default();
    let mut study = LockStudy::default();
    for event in &events {
        let name = |site| reader.name(site);
        let event = translation.translate(event, reader.conversion(), name);
        study.take(&event.expect("the library writes lock events"));
    }
    assert_eq!(reader.lost(), 0);
    (study.finish(), reader, output)
}

/// Complete sections of `use_all` in the subject, and of all of it, by depth.
const USES: [u64; 2] = [6, 3];

#[test]
fn sections_of_every_kind_of_lock_are_counted() {
    let folder = stage("kinds");
    let (summary, _, output) = trace(&folder, &[]);
    let waits: u64 = String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    // The waiting thread and each of its waits, the signal, the section that is waited for, and the one that waits. The
    // early section comes before the recording.
    assert_eq!(summary.depths, [USES[0] + 1 + waits + 1 + 2, USES[1]]);
    assert_eq!(summary.incomplete, 0);
    let kinds = |kind: LockKind| {
        let sites = summary.sites.iter().filter(|(_, tally)| tally.kind == kind);
        sites.map(|(_, tally)| tally.sections).sum::<u64>()
    };
    assert_eq!(
        [LockKind::Read, LockKind::Write, LockKind::Spin].map(kinds),
        [2, 2, 1]
    );
    let contended: Vec<_> = summary
        .sites
        .iter()
        .filter(|(_, tally)| tally.contended > 0)
        .collect();
    let waited = contended
        .iter()
        .find(|(_, tally)| tally.kind == LockKind::Write)
        .unwrap();
    assert_eq!(waited.1.contended, 1);
    assert!(waited.1.waited_ns > 0 && waited.1.waited_ns <= summary.waits.longest_ns() * 2);
    let maps = fs::read_to_string(folder.join(format!("maps.{}", waited.0.process))).unwrap();
    let place = MappedModules::parse(&maps).place(waited.0.address).unwrap();
    assert!(place.path.ends_with("/subject"), "{place:?}");
    assert!(summary.longest_shared_hold_ns().is_some());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn children_of_fork_and_killed_programs_are_recorded() {
    let folder = stage("children");
    let (alone, _, _) = trace(&folder, &[]);
    let (summary, _, _) = trace(&folder, &["child"]);
    // The number of waits may differ by chance wake-ups, the nested sections do not.
    assert_eq!(summary.depths[1], 2 * alone.depths[1]);
    let mut processes: Vec<_> = summary.sites.iter().map(|(site, _)| site.process).collect();
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(processes.len(), 2, "{:?}", summary.sites);
    // Zero is a process that has not told its number.
    assert!(processes[0] > 0);
    let (killed, _, output) = trace(&folder, &["killed"]);
    assert!(!output.status.success());
    assert_eq!((killed.incomplete, killed.depths[1]), (1, alone.depths[1]));
    fs::remove_dir_all(folder).unwrap();
}
