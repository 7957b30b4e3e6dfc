//! Damaged journals, and any order of events.

use std::path::Path;

use proptest::prelude::*;
use tailbound_enforcement::fake_kernel::FakeKernel;
use tailbound_enforcement::journal::History;
use tailbound_enforcement::recovery::{recover_with, standing_reservations_with};

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
        let found = standing_reservations_with(directory.path(), &kernel).unwrap();
        found.into_iter().map(|request| request.domain).collect()
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_make_a_journal_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _history = History::read(&bytes);
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
