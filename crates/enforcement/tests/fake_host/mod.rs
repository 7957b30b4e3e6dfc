//! Enforcement over a kernel in memory: what is applied is taken back, whatever happens between.

mod bursts;
mod dry_runs;
mod escapes;
pub mod fake_kernel;
mod full_disk;
mod group_servers;
mod interrupts;
mod journals;
mod machines;
mod members;
mod peers;
mod refusals;
mod registry;
mod replacements;
mod shared_budgets;
mod stage;
mod thread_order;
mod topics;
mod traits;
mod units;
mod xen;

use std::path::Path;

use fake_kernel::{CPUSET_ROOT, FakeManagers, V2_ROOT};
use stage::*;
use tailbound_enforcement::recovery::recover_with;
use tailbound_enforcement::{
    AdmissionError, AdmissionRefusal, EnforcementError, KernelView, SchedulingSetting, Target,
};
use tailbound_model::BackendKind;
use tailbound_time::Duration;

#[test]
fn every_back_end_leaves_the_host_as_it_was() {
    for kind in KINDS {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut enforcer = enforcer(&kernel, directory.path());
        let plans = enforcer.plan(&[one(kind)]).unwrap();
        assert_eq!(
            kernel.snapshot(),
            before,
            "{kind:?}: planning changed something"
        );
        assert_eq!(enforcer.apply(&[one(kind)]).unwrap(), plans, "{kind:?}");
        let changed = kernel.snapshot() != before;
        assert_eq!(changed, kind != BackendKind::None, "{kind:?}");
        let status = enforcer.status();
        assert_eq!(status.domains.len(), 1, "{kind:?}");
        assert!(status.domains[0].threads >= 1, "{kind:?}");
        enforcer.revert("one").unwrap();
        assert_eq!(kernel.snapshot(), before, "{kind:?}");
        assert!(enforcer.status().domains.is_empty());
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "only the lock is left: {left:?}");
    }
}

#[test]
fn dropping_reverts() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let managers = FakeManagers::default();
    let mut enforcer = enforcer_with(&kernel, managers.clone(), directory.path());
    enforcer.apply(&[one(BackendKind::DsFreeze)]).unwrap();
    assert_eq!(managers.serving().len(), 1);
    drop(enforcer);
    assert_eq!(kernel.snapshot(), before);
    assert!(managers.serving().is_empty());
}

#[test]
fn what_the_domain_starts_later_is_put_back_too() {
    for kind in KINDS {
        let (kernel, directory) = (host(), state_directory());
        let mut enforcer = enforcer(&kernel, directory.path());
        let request = one(kind);
        enforcer.apply(&[request]).unwrap();
        let parent = if kind == BackendKind::Deadline {
            200
        } else {
            100
        };
        let forked = kernel.clone();
        forked.fork(parent, 150, false);
        forked.fork(150, 160, true);
        forked.fork(160, 161, false);
        if kind == BackendKind::Deadline {
            // RESET_ON_FORK.
            forked.alter(|state| {
                for tid in [150, 160, 161] {
                    let other = SchedulingSetting::Other { nice: 0 };
                    state.threads.get_mut(&tid).unwrap().scheduling = other;
                }
            });
        }
        enforcer.revert_all().unwrap();
        let after = kernel.snapshot();
        for tid in [150, 160, 161] {
            let thread = &after.threads[&tid];
            let other = SchedulingSetting::Other { nice: 0 };
            assert_eq!(thread.scheduling, other, "{kind:?} {tid}");
            for (root, at) in &thread.cgroups {
                assert_eq!(root, at, "{kind:?} {tid}");
            }
            if kind != BackendKind::Deadline {
                let parent = &after.threads[&parent];
                assert_eq!(thread.affinity, parent.affinity, "{kind:?} {tid}");
            }
        }
    }
}

#[test]
fn processes_that_have_gone_do_no_harm() {
    for kind in KINDS {
        let (kernel, directory) = (host(), state_directory());
        let mut enforcer = enforcer(&kernel, directory.path());
        let request = one(kind);
        enforcer.apply(&[request]).unwrap();
        kernel.end_process(100);
        kernel.end_process(200);
        // The number is used again by somebody who is none of our business.
        kernel.add_process(100, 50, &[100]);
        kernel.alter(|state| state.threads.get_mut(&100).unwrap().started = 999_999);
        let stranger = kernel.snapshot().threads[&100].clone();
        enforcer.revert_all().unwrap();
        let after = kernel.snapshot();
        assert_eq!(after.threads[&100], stranger, "{kind:?}");
        let ours = after
            .cgroups
            .keys()
            .any(|path| path.display().to_string().contains("tailbound"));
        assert!(!ours, "{kind:?}: {:?}", after.cgroups.keys());
        assert_eq!(
            after.cgroups[Path::new(CPUSET_ROOT)]["cpuset.sched_load_balance"],
            "1"
        );
    }
}

#[test]
fn all_or_nothing_whichever_change_is_refused() {
    for kind in KINDS {
        let requests = [
            request(
                "first",
                Target::Processes(vec![300]),
                interface(10, 100, 90, &[2]),
                BackendKind::DsFreeze,
            ),
            one(kind),
        ];
        for refused in 0.. {
            let (kernel, directory) = (host(), state_directory());
            let before = kernel.snapshot();
            let mut enforcer = enforcer(&kernel, directory.path());
            kernel.refuse_at(Some(refused));
            let outcome = enforcer.apply(&requests);
            if kernel.writes() <= refused {
                outcome.unwrap();
                break;
            }
            assert!(outcome.is_err(), "{kind:?} {refused}");
            assert_eq!(kernel.snapshot(), before, "{kind:?} {refused}");
            assert!(enforcer.status().domains.is_empty());
        }
    }
}

#[test]
fn a_manager_that_does_not_start_takes_everything_back() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let managers = FakeManagers::default();
    managers.refuse(true);
    let mut enforcer = enforcer_with(&kernel, managers, directory.path());
    let error = enforcer.apply(&[one(BackendKind::DsFreeze)]).unwrap_err();
    assert!(matches!(error, EnforcementError::Manager { .. }), "{error}");
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn an_owner_that_dies_at_any_point_is_cleaned_up_after() {
    // The cgroup target shares threads with the others; leave it to its own test.
    let requests = &several()[..4];
    for stop in 0.. {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut owner = enforcer(&kernel, directory.path());
        kernel.stop_at(Some(stop));
        let outcome = owner.apply(requests);
        let done = outcome.is_ok();
        // It dies: nothing of it runs any more, Drop included.
        std::mem::forget(owner);
        kernel.stop_at(None);
        kernel.end_process(1);
        kernel.add_process(2, 0, &[2]);
        kernel.become_process(2);
        let mut survivor = kernel.clone();
        let recovery = recover_with(directory.path(), &mut survivor).unwrap();
        assert!(recovery.failures.is_empty(), "{stop}: {recovery:?}");
        let mut after = kernel.snapshot();
        let own = after.threads.remove(&2);
        assert!(own.is_some());
        let mut expected = before;
        expected.threads.remove(&1);
        assert_eq!(after, expected, "died before change {stop}");
        let again = recover_with(directory.path(), &mut survivor).unwrap();
        assert_eq!(again, Default::default(), "{stop}");
        if done {
            assert!(stop > 20, "{stop} changes are few for so much");
            break;
        }
    }
}

#[test]
fn recovering_that_dies_is_recovered_from() {
    let requests = &several()[..4];
    for stop in 0.. {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut owner = enforcer(&kernel, directory.path());
        owner.apply(requests).unwrap();
        std::mem::forget(owner);
        kernel.end_process(1);
        kernel.add_process(2, 0, &[2]);
        kernel.become_process(2);
        kernel.stop_at(Some(stop));
        let mut survivor = kernel.clone();
        let first = recover_with(directory.path(), &mut survivor).unwrap();
        kernel.stop_at(None);
        let second = recover_with(directory.path(), &mut survivor).unwrap();
        assert!(second.failures.is_empty(), "{stop}: {second:?}");
        let mut after = kernel.snapshot();
        after.threads.remove(&2);
        let mut expected = before;
        expected.threads.remove(&1);
        assert_eq!(after, expected, "recovery died before change {stop}");
        if first.failures.is_empty() {
            break;
        }
    }
}

#[test]
fn a_living_owner_is_left_alone_and_its_reservations_count() {
    let (kernel, directory) = (host(), state_directory());
    let mut owner = enforcer(&kernel, directory.path());
    let big = request(
        "big",
        Target::Processes(vec![100]),
        interface(60, 100, 90, &[1]),
        BackendKind::DsFreeze,
    );
    owner.apply(std::slice::from_ref(&big)).unwrap();
    let applied = kernel.snapshot();
    let mut survivor = kernel.clone();
    let recovery = recover_with(directory.path(), &mut survivor).unwrap();
    assert_eq!(recovery.alive.len(), 1);
    assert_eq!(kernel.snapshot(), applied);
    let other = enforcer(&kernel, directory.path());
    let mut second = request(
        "second",
        Target::Processes(vec![200]),
        interface(40, 100, 80, &[1]),
        BackendKind::DsFreeze,
    );
    let refused = other.plan(std::slice::from_ref(&second)).unwrap_err();
    let EnforcementError::Refused(AdmissionError::NoRoom(AdmissionRefusal::TooMuch {
        fits, ..
    })) = refused
    else {
        panic!("{refused}");
    };
    assert_eq!(fits, Duration::from_millis(33));
    second.interface.budget = fits;
    other.plan(std::slice::from_ref(&second)).unwrap();
    assert!(matches!(
        other.plan(&[big]).unwrap_err(),
        EnforcementError::Refused(AdmissionError::NoRoom(AdmissionRefusal::DuplicateDomain(_)))
    ));
}

#[test]
fn shared_groups_survive_whichever_domain_ends_first() {
    let vcpu = |name: &str, tid: u32, cpu: u32| {
        request(
            name,
            Target::Threads(vec![tid]),
            interface(20, 100, 50, &[cpu]),
            BackendKind::DsFreeze,
        )
    };
    for order in [["a", "b"], ["b", "a"]] {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut enforcer = enforcer(&kernel, directory.path());
        enforcer.apply(&[vcpu("a", 300, 1)]).unwrap();
        enforcer.apply(&[vcpu("b", 301, 2)]).unwrap();
        enforcer.revert(order[0]).unwrap();
        let (left, group) = match order[1] {
            "a" => (300, "/v2/tailbound/.threads-300/a"),
            _ => (301, "/v2/tailbound/.threads-300/b"),
        };
        let at = kernel.cgroup_of(left, Path::new(V2_ROOT)).unwrap();
        assert_eq!(at, Path::new(group), "{order:?}");
        enforcer.revert(order[1]).unwrap();
        assert_eq!(kernel.snapshot(), before, "{order:?}");
    }
}

#[test]
fn cpus_of_several_deadline_domains_are_released_in_any_order() {
    let domain = |name: &str, pid: u32, cpu: u32| {
        request(
            name,
            Target::Processes(vec![pid]),
            interface(20, 100, 50, &[cpu]),
            BackendKind::Deadline,
        )
    };
    for order in [["a", "b"], ["b", "a"]] {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut enforcer = enforcer(&kernel, directory.path());
        enforcer
            .apply(&[domain("a", 200, 1), domain("b", 400, 2)])
            .unwrap();
        for name in order {
            let files = kernel.snapshot().cgroups[Path::new(CPUSET_ROOT)].clone();
            assert_eq!(files["cpuset.sched_load_balance"], "0");
            enforcer.revert(name).unwrap();
        }
        assert_eq!(kernel.snapshot(), before, "{order:?}");
    }
}

#[test]
fn a_container_is_stopped_in_a_group_below_its_own() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    let container = request(
        "container",
        Target::Cgroup(CONTAINER.into()),
        interface(20, 100, 50, &[1]),
        BackendKind::DsFreeze,
    );
    let plans = enforcer.apply(&[container]).unwrap();
    assert_eq!(
        plans[0].managers[0].cgroup,
        Path::new(V2_ROOT).join(CONTAINER).join("tailbound")
    );
    let after = kernel.snapshot();
    assert_eq!(after.cgroups.len(), before.cgroups.len() + 1);
    for tid in [300, 301, 400] {
        let fifo = SchedulingSetting::Fifo {
            priority: 50,
            reset_on_fork: true,
        };
        assert_eq!(after.threads[&tid].scheduling, fifo);
    }
    enforcer.revert_all().unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn an_interface_changes_in_place_or_not_at_all() {
    for kind in [
        BackendKind::DsFreeze,
        BackendKind::Deadline,
        BackendKind::RtGroup,
        BackendKind::Hcbs,
        BackendKind::CfsQuota,
    ] {
        for refused in 0.. {
            let (kernel, directory) = (host(), state_directory());
            let before = kernel.snapshot();
            let mut enforcer = enforcer(&kernel, directory.path());
            enforcer.apply(&[one(kind)]).unwrap();
            let applied = kernel.snapshot();
            kernel.refuse_at(Some(refused));
            let outcome = enforcer.change("one", &interface(30, 60, 70, &[1]));
            let done = kernel.writes() <= refused;
            if done {
                outcome.unwrap();
                let now = &enforcer.status().domains[0].interface;
                assert_eq!(now.budget, Duration::from_millis(30));
            } else {
                outcome.unwrap_err();
                assert_eq!(kernel.snapshot(), applied, "{kind:?} {refused}");
                let now = &enforcer.status().domains[0].interface;
                assert_eq!(now.budget, Duration::from_millis(20));
            }
            kernel.refuse_at(None);
            enforcer.revert_all().unwrap();
            assert_eq!(kernel.snapshot(), before, "{kind:?} {refused}");
            if done {
                break;
            }
        }
    }
}
