//! A disk that becomes full, or fails, at any moment.

use super::fake_kernel::{FakeDisk, FakeKernel};
use proptest::prelude::*;
use tailbound_enforcement::journal::JournalHistory;
use tailbound_enforcement::recovery::recover_with;
use tailbound_enforcement::{EnforcementError, Enforcer, Target};
use tailbound_model::BackendKind;

use super::stage::*;

fn enforcer_on(kernel: &FakeKernel, directory: &std::path::Path, disk: &FakeDisk) -> Enforcer {
    enforcer(kernel, directory).with_disk(Box::new(disk.clone()))
}

fn assert_nothing_is_left(directory: &std::path::Path) {
    let names = std::fs::read_dir(directory).unwrap();
    let names: Vec<_> = names.map(|it| it.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name == "lock"), "{names:?}");
}

/// How much room all of [`several`] takes.
fn room_of_all() -> u64 {
    let (kernel, directory) = (host(), state_directory());
    let mut owner = enforcer(&kernel, directory.path());
    owner.apply(&several()[..4]).unwrap();
    let journal = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|it| it.unwrap());
    let journal = journal.max_by_key(|it| it.metadata().unwrap().len());
    journal.unwrap().metadata().unwrap().len() * 2
}

#[test]
fn an_apply_for_which_there_is_no_room_leaves_everything_as_it_was() {
    let most = room_of_all();
    let mut came_about = 0;
    // In steps that meet every record at another byte of it, and every byte near its ends.
    for room in (0..most).step_by(61).chain(0..200) {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let disk = FakeDisk::with_room(room);
        let mut owner = enforcer_on(&kernel, directory.path(), &disk);
        match owner.apply(&several()[..4]) {
            Ok(_) => {
                came_about += 1;
                disk.fill();
                owner.revert_all().unwrap();
            }
            Err(error) => {
                let text = error.to_string();
                assert!(
                    matches!(error, EnforcementError::NoRoom { .. }),
                    "{room}: {text}"
                );
                assert!(text.contains(directory.path().to_str().unwrap()), "{text}");
                assert!(text.contains(" kB more are needed"), "{text}");
            }
        }
        assert_eq!(kernel.snapshot(), before, "with room for {room} bytes");
        assert_eq!(owner.status().domains, []);
        assert_nothing_is_left(directory.path());
    }
    assert!(came_about > 0, "{most} bytes were never enough");
}

#[test]
fn what_was_applied_one_after_another_is_taken_back_in_any_order_on_a_full_disk() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let disk = FakeDisk::default();
        let mut owner = enforcer_on(&kernel, directory.path(), &disk);
        for request in &several()[..4] {
            owner.apply(std::slice::from_ref(request)).unwrap();
        }
        disk.fill();
        // So many threads that no block is left with room for them by chance.
        let threads: Vec<u32> = (7_000..7_200).collect();
        kernel.add_process(7_000, 1, &threads);
        let target = Target::Processes(vec![7_000]);
        let many = request(
            "many",
            target,
            interface(1, 100, 50, &[0]),
            BackendKind::CfsQuota,
        );
        let refused = owner.apply(&[many]).unwrap_err();
        kernel.end_process(7_000);
        assert!(
            matches!(refused, EnforcementError::NoRoom { .. }),
            "{refused}"
        );
        for index in order {
            owner.revert(&several()[index].domain).unwrap();
        }
        assert_eq!(kernel.snapshot(), before);
        assert_nothing_is_left(directory.path());
    }
}

#[test]
fn a_journal_that_could_not_be_removed_goes_once_it_can() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let disk = FakeDisk::default();
    let mut owner = enforcer_on(&kernel, directory.path(), &disk);
    owner.apply(&several()[..4]).unwrap();
    disk.fail_from(0);
    disk.keep_files();
    assert!(owner.revert_all().is_err());
    assert_eq!(kernel.snapshot(), before);
    assert!(owner.revert_all().is_err());
    disk.mend();
    owner.revert_all().unwrap();
    assert_nothing_is_left(directory.path());
}

#[test]
fn a_daemon_that_dies_on_a_full_disk_is_recovered_there() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let disk = FakeDisk::default();
    let mut owner = enforcer_on(&kernel, directory.path(), &disk);
    owner.apply(&several()[..4]).unwrap();
    disk.fill();
    // It dies half-way through taking back.
    owner.revert("db").unwrap();
    kernel.stop_at(Some(3));
    let _died = owner.revert_all();
    std::mem::forget(owner);
    kernel.stop_at(None);
    kernel.end_process(1);
    kernel.add_process(2, 0, &[2]);
    kernel.become_process(2);
    let recovery = recover_with(directory.path(), &mut kernel.clone()).unwrap();
    assert_eq!(recovery.failures, Vec::<String>::new());
    let mut now = kernel.snapshot();
    now.threads.remove(&2);
    let mut before = before;
    before.threads.remove(&1);
    assert_eq!(now, before);
    assert_nothing_is_left(directory.path());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Wherever writing begins to fail, the host is as before the apply that failed, or as before all after
    /// everything was taken back; what cannot be noted of that is told, and found so by a recovery.
    #[test]
    fn a_journal_that_fails_keeps_nothing_from_being_taken_back(
        fails_from in 0_usize..80,
        keeps in any::<bool>(),
    ) {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let disk = FakeDisk::default();
        let mut owner = enforcer_on(&kernel, directory.path(), &disk);
        disk.fail_from(fails_from);
        let applied = owner.apply(&several()[..4]);
        if applied.is_err() {
            prop_assert_eq!(&kernel.snapshot(), &before);
        }
        if keeps {
            disk.keep_files();
        }
        let reverted = owner.revert_all();
        prop_assert_eq!(&kernel.snapshot(), &before);
        prop_assert_eq!(owner.status().domains, []);
        prop_assert_eq!(reverted.is_err(), keeps && applied.is_ok(), "{:?}", reverted);
        std::mem::forget(owner);
        kernel.end_process(1);
        kernel.add_process(2, 0, &[2]);
        kernel.become_process(2);
        let recovery = recover_with(directory.path(), &mut kernel.clone()).unwrap();
        prop_assert!(recovery.failures.is_empty(), "{:?}", recovery.failures);
        let (mut now, mut before) = (kernel.snapshot(), before);
        now.threads.remove(&2);
        before.threads.remove(&1);
        prop_assert_eq!(now, before);
        assert_nothing_is_left(directory.path());
    }

    /// A change of an interface is made with all its notes, or not at all.
    #[test]
    fn a_change_on_a_disk_that_becomes_full_is_whole_or_refused(room in 0_u64..6_000) {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let disk = FakeDisk::with_room(1 << 16);
        let mut owner = enforcer_on(&kernel, directory.path(), &disk);
        owner.apply(&[one(tailbound_model::BackendKind::RtGroup)]).unwrap();
        let applied = kernel.snapshot();
        disk.fill();
        disk.give(room);
        let (mut budget_ms, mut changes) = (20, 0);
        while changes < 40 {
            let next_ms = 10 + (budget_ms + 7) % 20;
            match owner.change("one", &interface(next_ms, 100, 80, &[1])) {
                Ok(_) => budget_ms = next_ms,
                Err(error) => {
                    prop_assert!(matches!(error, EnforcementError::NoRoom { .. }), "{}", error);
                    break;
                }
            }
            changes += 1;
        }
        let held = owner.status().domains[0].interface.budget;
        prop_assert_eq!(held, tailbound_time::Duration::from_millis(budget_ms));
        if changes == 0 {
            prop_assert_eq!(kernel.snapshot(), applied);
        }
        owner.revert_all().unwrap();
        prop_assert_eq!(kernel.snapshot(), before);
    }
}

/// Whatever single change the kernel refuses while a reservation is taken back, its group runs.
#[test]
fn a_group_that_was_frozen_is_thawed_in_the_end() {
    for number in 0.. {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut owner = enforcer(&kernel, directory.path());
        let request = &several()[0];
        owner.apply(std::slice::from_ref(request)).unwrap();
        // As its manager does.
        kernel.alter(|state| {
            for (path, files) in &mut state.cgroups {
                if path.ends_with(&request.domain) {
                    files.insert("cgroup.freeze".into(), "1".into());
                }
            }
        });
        kernel.refuse_at(Some(number));
        let reverted = owner.revert(&request.domain);
        let state = kernel.snapshot();
        let mut groups = state.cgroups.values();
        let frozen = groups.any(|it| it.get("cgroup.freeze").is_some_and(|text| text == "1"));
        assert!(!frozen, "with change {number} refused");
        if kernel.writes() <= number {
            assert!(number > 5);
            break;
        }
        kernel.refuse_at(None);
        if reverted.is_err() {
            owner.revert(&request.domain).unwrap();
        }
        assert_eq!(kernel.snapshot(), before, "with change {number} refused");
    }
}

#[test]
fn a_journal_of_very_many_changes_stays_short_and_says_the_same() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let mut owner = enforcer(&kernel, directory.path());
    owner.apply(&several()[..4]).unwrap();
    let path = || {
        let all = std::fs::read_dir(directory.path()).unwrap();
        let mut all = all.map(|it| it.unwrap().path());
        all.find(|it| it.extension().is_some_and(|end| end == "journal"))
            .unwrap()
    };
    let mut longest = 0;
    for round in 0..2_000 {
        let budget_ms = 1 + round % 4;
        owner
            .change("web", &interface(budget_ms, 10, 90, &[1]))
            .unwrap();
        longest = longest.max(std::fs::metadata(path()).unwrap().len());
    }
    assert!(longest < 400_000, "{longest} bytes");
    let (history, unreadable) = JournalHistory::read(&std::fs::read(path()).unwrap());
    assert_eq!(unreadable, 0);
    let requests: Vec<_> = history
        .domains
        .iter()
        .map(|held| held.request.clone())
        .collect();
    let held: Vec<_> = owner
        .status()
        .domains
        .iter()
        .map(|it| it.interface.clone())
        .collect();
    assert_eq!(
        requests
            .iter()
            .map(|it| it.interface.clone())
            .collect::<Vec<_>>(),
        held
    );
    std::mem::forget(owner);
    kernel.end_process(1);
    kernel.add_process(2, 0, &[2]);
    kernel.become_process(2);
    recover_with(directory.path(), &mut kernel.clone()).unwrap();
    let (mut now, mut before) = (kernel.snapshot(), before);
    now.threads.remove(&2);
    before.threads.remove(&1);
    assert_eq!(now, before);
    assert_nothing_is_left(directory.path());
}
