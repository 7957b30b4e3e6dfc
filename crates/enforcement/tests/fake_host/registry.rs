//! Enforcers over several state directories of one host.

use std::path::Path;

use super::fake_kernel::{FakeKernel, V2_ROOT};
use proptest::prelude::*;
use tailbound_enforcement::recovery::{recover_registered, recover_with};
use tailbound_enforcement::registry::RegistryEntry;
use tailbound_enforcement::{
    AdmissionError, AdmissionRefusal, EnforcementError, Enforcer, HostRegistry, PlanError,
    ReservationRequest, Target,
};
use tailbound_model::BackendKind;

use super::stage::*;

/// A request for `percent` of CPU 1.
fn share(domain: &str, pid: u32, percent: u64) -> ReservationRequest {
    request(
        domain,
        Target::Processes(vec![pid]),
        interface(percent, 100, 50, &[1]),
        BackendKind::DsFreeze,
    )
}

/// An enforcer of process `pid` with a state directory of its own.
fn registered(kernel: &FakeKernel, pid: u32, directory: &Path, registry: &Path) -> Enforcer {
    kernel.add_process(pid, 0, &[pid]);
    kernel.become_process(pid);
    enforcer(kernel, directory).with_registry(HostRegistry::at(registry))
}

fn entries_in(registry: &Path) -> usize {
    let files = std::fs::read_dir(registry).unwrap().flatten();
    let is_entry = |path: &Path| path.extension().is_some_and(|end| end == "entry");
    files.filter(|file| is_entry(&file.path())).count()
}

#[test]
fn two_state_directories_are_admitted_together() {
    let (kernel, registry) = (host(), state_directory());
    let (one, two) = (state_directory(), state_directory());
    let before = kernel.snapshot();
    let mut first = registered(&kernel, 10, one.path(), registry.path());
    let mut second = registered(&kernel, 11, two.path(), registry.path());
    first.apply(&[share("web", 100, 70)]).unwrap();
    for refusal in [
        second.plan(&[share("db", 200, 70)]).unwrap_err(),
        second.apply(&[share("db", 200, 70)]).unwrap_err(),
    ] {
        let text = refusal.to_string();
        let directory = one.path().canonicalize().unwrap();
        for words in ["web 70%", directory.to_str().unwrap(), "process 10"] {
            assert!(text.contains(words), "no {words:?} in: {text}");
        }
    }
    // Who does not know of the registry would have been admitted.
    enforcer(&kernel, two.path())
        .plan(&[share("db", 200, 70)])
        .unwrap();
    second.apply(&[share("db", 200, 20)]).unwrap();
    second.begin_changes().unwrap();
    let grown = second.change("db", &interface(30, 100, 50, &[1]));
    assert!(grown.unwrap_err().to_string().contains("web 70%"));
    second.end_changes().unwrap();
    first.revert("web").unwrap();
    assert_eq!(entries_in(registry.path()), 1);
    second.change("db", &interface(70, 100, 50, &[1])).unwrap();
    second.revert_all().unwrap();
    assert_eq!(entries_in(registry.path()), 0);
    kernel.end_process(10);
    kernel.end_process(11);
    // The group that all have in common is left to whoever comes next: who made it found another's
    // group in it, and the other one did not make it.
    kernel.alter(|state| {
        state.cgroups.remove(&Path::new(V2_ROOT).join("tailbound"));
    });
    assert_eq!(kernel.snapshot(), before);
}

/// The interference that a request comes with is taken from its CPU for everybody, whatever state directory they are from.
#[test]
fn interference_of_one_request_counts_for_all_on_its_cpu() {
    let (kernel, registry) = (host(), state_directory());
    let (one, two) = (state_directory(), state_directory());
    let mut first = registered(&kernel, 10, one.path(), registry.path());
    let mut second = registered(&kernel, 11, two.path(), registry.path());
    // A fifth of CPU 1.
    let interference = serde_json::json!([{ "cpu": 1, "sources": [[{
        "source": "irq 24", "curve": [[1, "10ms"]], "longest": "2ms", "may_use_budget": false
    }]] }]);
    let interfered = ReservationRequest {
        interference: serde_json::from_value(interference).unwrap(),
        ..share("web", 100, 40)
    };
    first.apply(std::slice::from_ref(&interfered)).unwrap();
    let refused = second.apply(&[share("db", 200, 45)]).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("takes the rest: irq 24"), "{text}");
    first.revert("web").unwrap();
    second.apply(&[share("db", 200, 45)]).unwrap();
    let refused = first.apply(&[interfered]).unwrap_err().to_string();
    assert!(refused.contains("db 45%"), "{refused}");
    second.revert_all().unwrap();
}

#[test]
fn no_thread_and_no_name_is_reserved_from_two_state_directories() {
    let (kernel, registry) = (host(), state_directory());
    let (one, two) = (state_directory(), state_directory());
    let mut first = registered(&kernel, 10, one.path(), registry.path());
    let mut second = registered(&kernel, 11, two.path(), registry.path());
    first.apply(&[share("web", 100, 20)]).unwrap();
    let refusal = second.apply(&[share("shop", 100, 20)]).unwrap_err();
    assert!(
        matches!(
            &refusal,
            EnforcementError::Unplannable(PlanError::ReservedAlready { .. })
        ),
        "{refusal}"
    );
    assert!(refusal.to_string().contains("process 10"), "{refusal}");
    let refusal = second.apply(&[share("web", 200, 20)]).unwrap_err();
    assert!(
        matches!(
            &refusal,
            EnforcementError::Refused(AdmissionError::NoRoom(
                AdmissionRefusal::DuplicateElsewhere { .. }
            ))
        ),
        "{refusal}"
    );
}

#[test]
fn what_a_dead_one_left_counts_until_it_is_taken_back() {
    let (kernel, registry) = (host(), state_directory());
    let (one, two) = (state_directory(), state_directory());
    let mut first = registered(&kernel, 10, one.path(), registry.path());
    first.apply(&[share("web", 100, 70)]).unwrap();
    std::mem::forget(first);
    kernel.end_process(10);
    let mut second = registered(&kernel, 11, two.path(), registry.path());
    let text = second.apply(&[share("db", 200, 70)]).unwrap_err();
    let text = text.to_string();
    for words in ["has died", "tailbound revert --all"] {
        assert!(text.contains(words), "no {words:?} in: {text}");
    }
    let at = HostRegistry::at(registry.path());
    let recovered = recover_registered(one.path(), &mut kernel.clone(), Some(&at)).unwrap();
    assert_eq!(recovered.reverted, ["web"]);
    assert_eq!(entries_in(registry.path()), 0);
    second.apply(&[share("db", 200, 70)]).unwrap();
}

#[test]
fn a_domain_is_taken_back_though_another_daemon_stands_still_with_the_lock() {
    let (kernel, registry) = (host(), state_directory());
    let one = state_directory();
    let before = kernel.snapshot();
    let mut first = registered(&kernel, 10, one.path(), registry.path());
    first.apply(&[share("web", 100, 70)]).unwrap();
    let lock = std::fs::File::open(registry.path().join("lock")).unwrap();
    lock.lock().unwrap();
    first.revert("web").unwrap();
    kernel.end_process(10);
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn entries_that_mean_nothing_are_passed_over_and_removed() {
    let (kernel, registry) = (host(), state_directory());
    let (one, two) = (state_directory(), state_directory());
    let mut first = registered(&kernel, 10, one.path(), registry.path());
    first.apply(&[share("web", 100, 70)]).unwrap();
    let entry = std::fs::read_dir(registry.path())
        .unwrap()
        .map(|file| file.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "entry"))
        .unwrap();
    let mut of_last_boot = RegistryEntry::read(&std::fs::read(&entry).unwrap()).unwrap();
    of_last_boot.owner.boot = "the one before".into();
    let text = serde_json::to_vec(&of_last_boot).unwrap();
    std::fs::write(registry.path().join("1-1-0.entry"), text).unwrap();
    std::fs::write(registry.path().join("2-2-0.entry"), "no entry").unwrap();
    // A directory that was removed with a journal in it: nobody can take back what it said.
    std::mem::forget(first);
    kernel.end_process(10);
    drop(one);
    let mut second = registered(&kernel, 11, two.path(), registry.path());
    second.apply(&[share("db", 200, 70)]).unwrap();
    assert_eq!(entries_in(registry.path()), 1);
}

#[test]
fn a_registry_that_others_can_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (kernel, registry) = (host(), state_directory());
    let one = state_directory();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(registry.path(), open).unwrap();
    let before = kernel.snapshot();
    let mut first = registered(&kernel, 10, one.path(), registry.path());
    let refusal = first.apply(&[share("web", 100, 70)]).unwrap_err();
    assert!(refusal.to_string().contains("its mode is 777"), "{refusal}");
    kernel.end_process(10);
    assert_eq!(kernel.snapshot(), before);
    // Nothing was left for anybody to take back.
    let recovered = recover_with(one.path(), &mut kernel.clone()).unwrap();
    assert_eq!(recovered.reverted, [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_in_the_registry_keep_others_from_reserving(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        flips in proptest::collection::vec((0.0_f64..1.0, any::<u8>()), 0..4),
    ) {
        let (kernel, registry) = (host(), state_directory());
        let (one, two) = (state_directory(), state_directory());
        let mut first = registered(&kernel, 10, one.path(), registry.path());
        first.apply(&[share("web", 100, 20)]).unwrap();
        std::fs::write(registry.path().join("3-3-0.entry"), &bytes).unwrap();
        for file in std::fs::read_dir(registry.path()).unwrap().flatten() {
            let mut text = std::fs::read(file.path()).unwrap();
            for (at, byte) in &flips {
                let at = (text.len() as f64 * at) as usize;
                if let Some(place) = text.get_mut(at) {
                    *place = *byte;
                }
            }
            std::fs::write(file.path(), text).unwrap();
        }
        let mut second = registered(&kernel, 11, two.path(), registry.path());
        second.apply(&[share("db", 200, 20)]).unwrap();
    }
}
