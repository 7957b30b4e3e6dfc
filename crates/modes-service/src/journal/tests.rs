//! The journal as a file: what is cut, foreign or nonsense.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use tailbound_linux::process::process_started;
use tailbound_modes::manager::journal::Fate;

use super::*;
use crate::standing_arm::standing_arm;

fn table() -> ModeTable {
    let text = r#"
        schema_version = 1
        name = "cell"
        initial_mode = "run"
        hosts.cell.cpus = [0]
        [domains.arm]
        kind = "process"
        pids = [1]
        reservation = { budget = "4ms", period = "10ms", cpus = [0], priority = 50 }
        [modes.run]
        [modes.rest]
        reservations = { arm = { budget = "1ms", period = "10ms", cpus = [0], priority = 50 } }
    "#;
    let description = tailbound_model::parse(text, "cell.toml").unwrap();
    tailbound_modes::table_from_description::table_of(&description).unwrap()
}

fn loaded() -> Loaded {
    let own = std::process::id();
    let at = process_started(own).unwrap();
    let started = [("arm".to_owned(), [(own, at)].into())].into();
    let idle_time = Some(Duration::from_secs(5));
    Loaded::new(table(), &standing_arm(), &started, None, idle_time).unwrap()
}

fn begins() -> StepRecord {
    let (from, to) = (table().in_mode("run"), table().in_mode("rest"));
    StepRecord::Begins {
        from,
        to,
        stopping: ["arm".to_owned()].into(),
        fallbacks: BTreeMap::new(),
    }
}

/// A journal of a change in which the tasks of the arm were stopped.
fn written(directory: &Path) -> Vec<u8> {
    let mut journal = ModesJournal::new(directory, loaded());
    let state = table().in_mode("run");
    journal.note(&StepRecord::Holds { state });
    journal.note(&begins());
    let domain = "arm".to_owned();
    journal.note(&StepRecord::Switched { domain });
    fs::read(path_in(directory)).unwrap()
}

#[test]
fn what_is_left_is_read_and_removed_for_good() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    assert_eq!(left(directory), Ok(None));
    let mut journal = ModesJournal::new(directory, loaded());
    // Nothing is known before the first state.
    journal.note(&begins());
    assert_eq!(left(directory), Ok(None));
    let state = table().in_mode("run");
    journal.note(&StepRecord::Holds { state });
    let (read_back, resumption) = left(directory).unwrap().unwrap();
    assert_eq!(read_back, loaded());
    assert_eq!(resumption.fate, Fate::NoneUnderWay);
    let requests = read_back.requests(&resumption.state).unwrap();
    assert_eq!(requests[0].interface.budget, Duration::from_millis(4));
    journal.note(&begins());
    assert_eq!(left(directory).unwrap().unwrap().1.fate, Fate::RolledBack);
    journal.remove();
    journal.note(&begins());
    let state = table().in_mode("rest");
    journal.note(&StepRecord::Holds { state });
    assert_eq!(left(directory), Ok(None));
}

#[test]
fn steps_that_count_no_more_are_not_kept_for_good() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut journal = ModesJournal::new(directory, loaded());
    for turn in 0..2_000 {
        let mode = if turn % 2 == 0 { "run" } else { "rest" };
        let state = table().in_mode(mode);
        journal.note(&StepRecord::Holds { state });
        assert!(fs::metadata(path_in(directory)).unwrap().len() <= LONGEST + 4_096);
    }
    let (_, resumption) = left(directory).unwrap().unwrap();
    assert_eq!(resumption.state.mode, "rest");
    // Others are loaded: the file follows.
    journal.set_modes(
        table(),
        Some(RunningDescription {
            file: "x".into(),
            text: "y".into(),
        }),
    );
    let state = table().in_mode("run");
    journal.note(&StepRecord::Holds { state });
    assert!(left(directory).unwrap().unwrap().0.description.is_some());
}

#[test]
fn another_boot_and_other_processes_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let text = written(directory.path());
    assert_eq!(read(&text, "another"), Ok(None));
    let mut loaded = loaded();
    let state = table().in_mode("run");
    let own = std::process::id();
    let arm = loaded.domains.get_mut("arm").unwrap();
    *arm.started.get_mut(&own).unwrap() += 1;
    let gone = Unresumable::Gone {
        domain: "arm".into(),
        pid: own,
    };
    assert_eq!(loaded.requests(&state), Err(gone));
    loaded.domains.clear();
    assert_eq!(
        loaded.requests(&state),
        Err(Unresumable::Unknown("arm".into()))
    );
}

#[test]
fn restarts_come_to_an_end() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let at = |second: u64| Instant::from_nanos(second * 1_000_000_000);
    let count = |second| count_restart(directory, at(second));
    assert!(count(100) && count(110) && count(120));
    assert!(!count(130) && !count(159));
    // The first one is a minute ago.
    assert!(count(160) && !count(161));
    // Instants of another boot do not count.
    assert!(count(5));
    forget_restarts(directory);
    assert!(count(5));
    // Nobody knows how often it was.
    fs::write(restarts_path(directory), "nonsense").unwrap();
    assert!(!count(5));
}

#[test]
fn slow_restarts_come_to_an_end_too() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let at = |minute: u64| Instant::from_nanos(minute * 61_000_000_000);
    let may = (0..100).filter(|minute| count_restart(directory, at(*minute)));
    assert_eq!(may.count(), RESTARTS_IN_ALL_MAX as usize);
}

#[test]
fn what_is_put_aside_is_not_made_again_unless_it_is_put_back() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut journal = ModesJournal::new(directory, loaded());
    // Before the first state there is nothing to move.
    journal.put_aside();
    journal.put_back();
    let holds = |mode: &str| StepRecord::Holds {
        state: table().in_mode(mode),
    };
    journal.note(&holds("run"));
    journal.put_aside();
    assert_eq!(left(directory), Ok(None));
    journal.note(&holds("rest"));
    // Also where the file is begun anew meanwhile.
    journal.set_modes(table(), None);
    journal.note(&holds("rest"));
    assert_eq!(left(directory), Ok(None));
    journal.put_back();
    assert_eq!(left(directory).unwrap().unwrap().1.state.mode, "rest");
    for way in [ModesJournal::remove, |_: &ModesJournal| ()] {
        journal.put_aside();
        way(&journal);
        forget(directory);
        assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
        journal = ModesJournal::new(directory, loaded());
        journal.note(&holds("run"));
    }
}

#[test]
fn nobody_else_reads_what_is_noted() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let _text = written(directory);
    assert!(count_restart(directory, Instant::from_nanos(1)));
    for path in [path_in(directory), restarts_path(directory)] {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Wherever the file ends, what is read is what was written whole.
    #[test]
    fn a_cut_file_says_what_was_whole(cut in any::<prop::sample::Index>()) {
        let directory = tempfile::tempdir().unwrap();
        let text = written(directory.path());
        let cut = cut.index(text.len());
        let lines = text[..cut].iter().filter(|byte| **byte == b'\n').count();
        let left = read(&text[..cut], &boot_id().unwrap());
        let expected = [None, None, Some(Fate::NoneUnderWay), Some(Fate::RolledBack)][lines];
        prop_assert_eq!(left.ok().flatten().map(|(_, resumption)| resumption.fate), expected);
    }

    /// Nothing that lies there makes the daemon panic.
    #[test]
    fn nonsense_is_an_error(at in any::<prop::sample::Index>(), byte: u8, tail in prop::collection::vec(any::<u8>(), 0..64)) {
        let directory = tempfile::tempdir().unwrap();
        let mut text = written(directory.path());
        let at = at.index(text.len());
        text[at] = byte;
        text.extend(&tail);
        let _any = read(&text, &boot_id().unwrap());
        let _any = read(&tail, "boot");
    }
}

/// A folder in the place of the new file stands for a file system that takes no further one.
#[test]
fn where_there_is_no_room_for_a_second_file_the_long_one_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut journal = ModesJournal::new(directory, loaded());
    let modes = ["run", "rest"];
    let state = table().in_mode(modes[0]);
    journal.note(&StepRecord::Holds { state });
    fs::create_dir(path_in(directory).with_extension("state-new")).unwrap();
    let mut turn = 0;
    while fs::metadata(path_in(directory)).unwrap().len() <= LONGEST + 8_192 {
        turn += 1;
        assert!(turn < 10_000);
        let state = table().in_mode(modes[turn % 2]);
        journal.note(&StepRecord::Holds { state });
    }
    let (_, resumption) = left(directory).unwrap().unwrap();
    assert_eq!(resumption.state.mode, modes[turn % 2]);
    // Other modes would be half of the truth in the old file.
    journal.set_modes(table(), None);
    let state = table().in_mode("run");
    journal.note(&StepRecord::Holds { state });
    assert_eq!(left(directory), Ok(None));
}
