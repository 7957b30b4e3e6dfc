//! Damaged journals, and any order of events.

use std::path::Path;

use super::fake_kernel::FakeKernel;
use proptest::prelude::*;
use tailbound_enforcement::journal::JournalHistory;
use tailbound_enforcement::recovery::{recover_with, standing_reservations_with};
use tailbound_enforcement::{ReservationRequest, Target};
use tailbound_model::BackendKind;
use tailbound_time::Duration;

use super::stage::*;

/// The journal of an enforcer that has applied [`several`].
fn journal_of(kernel: &FakeKernel, directory: &Path) -> (std::path::PathBuf, Vec<u8>) {
    let mut owner = enforcer(kernel, directory);
    owner.apply(&several()[..4]).unwrap();
    std::mem::forget(owner);
    kernel.end_process(1);
    kernel.add_process(2, 0, &[2]);
    kernel.become_process(2);
    let path = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "journal"))
        .unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (path, bytes)
}

#[test]
fn what_stands_is_told_until_it_is_taken_back_whoever_lives() {
    let (kernel, directory) = (host(), state_directory());
    let standing = || -> Vec<String> {
        let reservations = standing_reservations_with(directory.path(), &kernel).unwrap();
        reservations
            .into_iter()
            .map(|request| request.domain)
            .collect()
    };
    assert!(standing().is_empty());
    let (path, _) = journal_of(&kernel, directory.path());
    let applied: Vec<String> = several()[..4].iter().map(|it| it.domain.clone()).collect();
    assert_eq!(standing(), applied);
    recover_with(directory.path(), &mut kernel.clone()).unwrap();
    assert!(standing().is_empty());
    assert!(!path.exists());
    let mut owner = enforcer(&kernel, directory.path());
    owner.apply(&several()[..1]).unwrap();
    assert_eq!(standing(), applied[..1]);
    owner.revert_all().unwrap();
    assert!(standing().is_empty());
}

/// What others see of a reservation in the journals.
fn budget_of(kernel: &FakeKernel, directory: &Path, domain: &str) -> Duration {
    let standing = standing_reservations_with(directory, kernel).unwrap();
    let request = standing.iter().find(|request| request.domain == domain);
    request.unwrap().interface.budget
}

fn request_of_freeze(domain: &str, pid: u32, priority: u8) -> ReservationRequest {
    let target = Target::Processes(vec![pid]);
    let interface = interface(4, 10, priority, &[1]);
    request(domain, target, interface, BackendKind::DsFreeze)
}

#[test]
fn a_smaller_budget_waits_for_nobody_and_a_larger_one_for_its_turn() {
    let (kernel, directory) = (host(), state_directory());
    let mut owner = enforcer(&kernel, directory.path());
    owner.apply(&[request_of_freeze("one", 100, 50)]).unwrap();
    let lock = std::fs::File::open(directory.path().join("lock")).unwrap();
    lock.lock().unwrap();
    owner.change("one", &interface(3, 10, 50, &[1])).unwrap();
    assert_eq!(
        budget_of(&kernel, directory.path(), "one"),
        Duration::from_millis(3)
    );
    let grown = std::thread::scope(|scope| {
        let grows = scope.spawn(|| owner.change("one", &interface(5, 10, 50, &[1])).map(|_| ()));
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!grows.is_finished());
        lock.unlock().unwrap();
        grows.join().unwrap()
    });
    grown.unwrap();
    assert_eq!(
        budget_of(&kernel, directory.path(), "one"),
        Duration::from_millis(5)
    );
}

#[test]
fn changes_in_one_turn_are_written_at_its_end_or_with_what_comes_between() {
    let (kernel, directory) = (host(), state_directory());
    let mut owner = enforcer(&kernel, directory.path());
    owner
        .apply(&[
            request_of_freeze("one", 100, 50),
            request_of_freeze("two", 200, 40),
        ])
        .unwrap();
    let ms = Duration::from_millis;
    let journaled = |domain: &str| budget_of(&kernel, directory.path(), domain);
    owner.begin_changes().unwrap();
    owner.begin_changes().unwrap();
    owner.change("one", &interface(1, 10, 50, &[1])).unwrap();
    owner.change("two", &interface(6, 10, 40, &[1])).unwrap();
    // More than is left is refused as ever.
    owner
        .change("one", &interface(5, 10, 50, &[1]))
        .unwrap_err();
    assert_eq!((journaled("one"), journaled("two")), (ms(4), ms(4)));
    let status: Vec<_> = owner
        .status()
        .domains
        .iter()
        .map(|it| it.interface.budget)
        .collect();
    assert_eq!(status, [ms(1), ms(6)]);
    let lock = std::fs::File::open(directory.path().join("lock")).unwrap();
    assert!(lock.try_lock().is_err());
    owner.end_changes().unwrap();
    assert_eq!((journaled("one"), journaled("two")), (ms(1), ms(6)));
    lock.try_lock().unwrap();
    lock.unlock().unwrap();
    // Whatever else is done ends the turn, and takes its own.
    owner.begin_changes().unwrap();
    owner.change("two", &interface(2, 10, 40, &[1])).unwrap();
    owner.apply(&[request_of_freeze("three", 300, 30)]).unwrap();
    assert_eq!(journaled("two"), ms(2));
    owner.begin_changes().unwrap();
    owner.revert("three").unwrap();
    owner.revert_all().unwrap();
    assert!(
        standing_reservations_with(directory.path(), &kernel)
            .unwrap()
            .is_empty()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_make_a_journal_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _history = JournalHistory::read(&bytes);
    }

    #[test]
    fn a_damaged_journal_never_panics_and_never_touches_strangers(
        cut in 0.0_f64..=1.0,
        flips in proptest::collection::vec((0.0_f64..1.0, any::<u8>()), 0..6),
    ) {
        let (kernel, directory) = (host(), state_directory());
        let stranger = kernel.snapshot().threads[&400].clone();
        let (path, mut bytes) = journal_of(&kernel, directory.path());
        bytes.truncate((bytes.len() as f64 * cut) as usize);
        for (at, byte) in flips {
            let at = (bytes.len() as f64 * at) as usize;
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        let mut survivor = kernel.clone();
        let _outcome = recover_with(directory.path(), &mut survivor);
        let thread = &kernel.snapshot().threads[&400];
        prop_assert_eq!(thread.pid, stranger.pid);
    }

    #[test]
    fn any_order_of_applying_and_reverting_ends_where_it_began(
        steps in proptest::collection::vec((0_usize..4, any::<bool>()), 1..24),
    ) {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut enforcer = enforcer(&kernel, directory.path());
        let requests = several();
        for (index, apply) in steps {
            let active = enforcer.status().domains;
            let held = active.iter().any(|held| held.domain == requests[index].domain);
            let outcome = match apply {
                true => enforcer.apply(std::slice::from_ref(&requests[index])).map(drop),
                false => enforcer.revert(&requests[index].domain),
            };
            prop_assert_eq!(outcome.is_ok(), apply != held, "{:?}", outcome);
        }
        enforcer.revert_all().unwrap();
        prop_assert_eq!(kernel.snapshot(), before);
    }
}
