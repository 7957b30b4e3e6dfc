//! Who belongs to a reservation, and what becomes of threads that leave it, over a kernel in memory.

use std::path::Path;

use super::fake_kernel::{CPUSET_ROOT, FakeKernel, V2_ROOT};
use tailbound_enforcement::audit::record::AdoptionRecord;
use tailbound_enforcement::audit::{AuditedDomain, Band, DomainAudit, JournaledMember};
use tailbound_enforcement::recovery::recover_with;
use tailbound_enforcement::{
    EnforcementError, KernelState, KernelView, PlanError, SchedulingSetting, Target,
};
use tailbound_linux::capabilities::Feature;
use tailbound_model::{BackendKind, Cpu};
use tailbound_time::Duration;

use super::stage::*;

const GROUP: &str = "/v2/tailbound/one";
pub(super) const OTHER: SchedulingSetting = SchedulingSetting::Other { nice: 0 };

pub(super) fn fifo(priority: u8) -> SchedulingSetting {
    SchedulingSetting::Fifo {
        priority,
        reset_on_fork: true,
    }
}

#[test]
fn a_cpuset_confines_what_gets_a_priority_and_goes_again() {
    for kind in [
        BackendKind::DsFreeze,
        BackendKind::RtGroup,
        BackendKind::Hcbs,
    ] {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut enforcer = enforcer(&kernel, directory.path());
        enforcer.apply(&[one(kind)]).unwrap();
        let cpuset = Path::new(CPUSET_ROOT).join("tailbound-domain-one");
        for tid in [100, 101, 102] {
            let at = kernel.cgroup_of(tid, Path::new(CPUSET_ROOT)).unwrap();
            assert_eq!(at, cpuset, "{kind:?}");
            // The kernel masks what a thread asks for.
            let mut escaping = kernel.clone();
            assert!(escaping.set_affinity(tid, &[Cpu(0)].into()).is_err());
            escaping
                .set_affinity(tid, &[Cpu(0), Cpu(1)].into())
                .unwrap();
            assert_eq!(kernel.affinity(tid).unwrap(), [Cpu(1)].into());
        }
        enforcer.revert_all().unwrap();
        assert_eq!(kernel.snapshot(), before, "{kind:?}");
    }
}

#[test]
fn a_cpuset_is_made_in_the_one_that_a_process_is_in() {
    let (kernel, directory) = (host(), state_directory());
    let home = Path::new(CPUSET_ROOT).join("batch");
    kernel.alter(|state| {
        let files = [("cpuset.cpus", "0-1"), ("cpuset.mems", "0")];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        state.cgroups.insert(home.clone(), files.into());
        for tid in [100, 101, 102] {
            let thread = state.threads.get_mut(&tid).unwrap();
            thread.cgroups.insert(CPUSET_ROOT.into(), home.clone());
            thread.affinity = [Cpu(0), Cpu(1)].into();
        }
    });
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    enforcer.apply(&[one(BackendKind::DsFreeze)]).unwrap();
    let at = kernel.cgroup_of(101, Path::new(CPUSET_ROOT)).unwrap();
    assert_eq!(at, home.join("tailbound-domain-one"));
    enforcer.revert_all().unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn without_a_v1_hierarchy_the_domain_s_own_group_is_its_cpuset() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let host = kernel.host().without(&[Feature::CpusetV1]);
    let mut enforcer = enforcer_on(&kernel, host, directory.path());
    let plans = enforcer.apply(&[one(BackendKind::DsFreeze)]).unwrap();
    let files = &kernel.snapshot().cgroups[Path::new(GROUP)];
    assert_eq!(files["cpuset.cpus"], "1", "{:?}", plans[0].mapping);
    let mut escaping = kernel.clone();
    assert!(escaping.set_affinity(101, &[Cpu(0)].into()).is_err());
    enforcer.revert_all().unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn cpus_that_somebody_has_to_himself_are_left_to_the_audit() {
    let (kernel, directory) = (host(), state_directory());
    kernel.alter(|state| {
        let files = [("cpuset.cpus", "1"), ("cpuset.cpu_exclusive", "1")];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let directory = Path::new(CPUSET_ROOT).join("theirs");
        state.cgroups.insert(directory, files.into());
    });
    let enforcer = enforcer(&kernel, directory.path());
    let plan = &enforcer.plan(&[one(BackendKind::DsFreeze)]).unwrap()[0];
    let mapping = plan.mapping.join("\n");
    assert!(
        mapping.contains("theirs has its CPUs to itself"),
        "{mapping}"
    );
}

/// A host where process 100 has a child, that one has a child, and one child is in a container.
fn host_with_descendants() -> FakeKernel {
    let kernel = host();
    kernel.add_process(110, 100, &[110, 111]);
    kernel.add_process(120, 110, &[120]);
    kernel.add_process(130, 100, &[130]);
    kernel.alter(|state| {
        let v2 = Path::new(V2_ROOT);
        let thread = state.threads.get_mut(&130).unwrap();
        thread.cgroups.insert(v2.into(), v2.join(CONTAINER));
    });
    kernel
}

#[test]
fn children_that_exist_already_are_taken_in() {
    for kind in [
        BackendKind::DsFreeze,
        BackendKind::RtGroup,
        BackendKind::CfsQuota,
        BackendKind::Dedicated,
    ] {
        let (kernel, directory) = (host_with_descendants(), state_directory());
        let before = kernel.snapshot();
        let mut enforcer = enforcer(&kernel, directory.path());
        enforcer.apply(&[one(kind)]).unwrap();
        for tid in [110, 111, 120] {
            let affinity = kernel.affinity(tid).unwrap();
            assert_eq!(affinity, [Cpu(1)].into(), "{kind:?} {tid}");
        }
        let container = &before.threads[&130];
        assert_eq!(&kernel.snapshot().threads[&130], container, "{kind:?}");
        enforcer.revert_all().unwrap();
        assert_eq!(kernel.snapshot(), before, "{kind:?}");
    }
}

#[test]
fn a_child_with_a_reservation_of_its_own_is_told() {
    let (kernel, directory) = (host_with_descendants(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    let child = request(
        "child",
        Target::Processes(vec![120]),
        interface(5, 100, 50, &[2]),
        BackendKind::Dedicated,
    );
    enforcer.apply(&[child]).unwrap();
    let error = enforcer.plan(&[one(BackendKind::Dedicated)]).unwrap_err();
    assert!(
        matches!(
            error,
            EnforcementError::Unplannable(PlanError::ReservedAlready { tid: 120, .. })
        ),
        "{error}"
    );
}

/// A domain of thread 100 in a group of its own, audited.
pub(super) struct Stage {
    pub kernel: FakeKernel,
    pub audit: DomainAudit,
    pub record: AdoptionRecord,
    pub directory: tempfile::TempDir,
}

impl Stage {
    pub fn new() -> Self {
        let (kernel, directory) = (host(), state_directory());
        kernel.alter(|state| {
            let files = state.cgroups[Path::new(V2_ROOT)].clone();
            for group in ["/v2/tailbound", GROUP] {
                state.cgroups.insert(group.into(), files.clone());
            }
            state.threads.retain(|tid, _| ![101, 102].contains(tid));
            let first = state.threads.get_mut(&100).unwrap();
            first.scheduling = fifo(50);
            first.affinity = [Cpu(1)].into();
            first.cgroups.insert(V2_ROOT.into(), GROUP.into());
        });
        let path = directory.path().join("1-1-1.adoptions");
        let audited = AuditedDomain {
            domain: "one".into(),
            groups: vec![(GROUP.into(), [Cpu(1)].into())],
            entrance: None,
            found_by: None,
            scheduling: Some(fifo(50)),
            band: Some(Band::below(50, [])),
            budget: Duration::from_millis(4),
            period: Duration::from_millis(10),
            journaled: vec![JournaledMember {
                tid: 100,
                started: 1_000,
                had: SchedulingSetting::Batch { nice: 3 },
            }],
            record: path.clone(),
            cpuset: false,
        };
        Self {
            kernel,
            audit: DomainAudit::new(audited),
            record: AdoptionRecord::new(path),
            directory,
        }
    }

    pub fn look(&mut self) {
        self.audit.look(&mut self.kernel, &mut self.record);
    }

    pub fn scheduling(&self, tid: u32) -> SchedulingSetting {
        self.kernel.scheduling(tid).unwrap()
    }

    fn move_out(&mut self, tid: u32) {
        self.kernel.move_thread(tid, Path::new(V2_ROOT)).unwrap();
    }
}

#[test]
fn a_child_is_ordinary_until_it_is_adopted_and_then_again() {
    let mut stage = Stage::new();
    stage.kernel.fork(100, 150, true);
    assert_eq!(stage.scheduling(150), OTHER, "a priority was inherited");
    stage.look();
    assert_eq!(stage.scheduling(150), fifo(50));
    assert_eq!(stage.audit.summary().adopted, 1);
    // Its parent ends, and somebody moves it out: it is nobody's child, and nobody's member.
    stage.kernel.end_process(100);
    stage.move_out(150);
    stage.look();
    assert_eq!(stage.scheduling(150), OTHER);
    assert_eq!(stage.audit.summary().demoted, 1);
    assert_eq!(stage.record.standing(), 0);
}

#[test]
fn what_a_runtime_starts_in_a_container_is_taken_in_and_put_back() {
    let mut stage = Stage::new();
    let home = Path::new("/v2/machine/two").to_owned();
    let mut audited = stage.audit.audited().clone();
    audited.entrance = Some((home.clone(), GROUP.into()));
    stage.audit.update(audited);
    let files = stage.kernel.snapshot().cgroups[Path::new(GROUP)].clone();
    stage
        .kernel
        .alter(|state| _ = state.cgroups.insert(home.clone(), files));
    stage.kernel.add_process(150, 1, &[150, 151]);
    stage.kernel.move_process(150, &home).unwrap();
    stage.look();
    for tid in [150, 151] {
        let at = stage.kernel.cgroup_of(tid, Path::new(GROUP)).unwrap();
        assert_eq!(at, Path::new(GROUP));
        assert_eq!(stage.scheduling(tid), fifo(50));
        assert_eq!(stage.kernel.affinity(tid).unwrap(), [Cpu(1)].into());
    }
    assert_eq!(
        (stage.audit.summary().entered, stage.audit.summary().adopted),
        (1, 2)
    );
    // The container ends.
    stage.kernel.alter(|state| _ = state.cgroups.remove(&home));
    stage.look();
    assert_eq!(stage.audit.summary().failures, 0);
    stage.audit.release(&mut stage.kernel, &mut stage.record);
    for tid in [150, 151] {
        assert_eq!(stage.scheduling(tid), OTHER);
        assert_eq!(stage.kernel.affinity(tid).unwrap().len(), 4);
    }
}

#[test]
fn the_first_members_get_back_what_the_journal_says() {
    let mut stage = Stage::new();
    stage.look();
    stage.move_out(100);
    stage.look();
    let had = SchedulingSetting::Batch { nice: 3 };
    assert_eq!(stage.scheduling(100), had);
    // It is left where it was put, and to itself.
    stage.kernel.set_scheduling(100, fifo(10)).unwrap();
    stage.look();
    assert_eq!(stage.scheduling(100), fifo(10));
}

#[test]
fn a_thread_that_lowers_itself_is_left_so_and_one_that_rises_is_not() {
    let mut stage = Stage::new();
    stage.look();
    for (to, becomes) in [
        // Its own priority counts among the domain's threads, of which there is no other.
        (fifo(20), fifo(50)),
        (fifo(90), fifo(50)),
        (fifo(95), fifo(95)),
        (OTHER, OTHER),
    ] {
        stage.kernel.set_scheduling(100, to).unwrap();
        stage.look();
        stage.look();
        assert_eq!(stage.scheduling(100), becomes, "{to}");
    }
    assert_eq!(stage.audit.summary().set_back, 1);
    assert_eq!(stage.audit.summary().lowered, 1);
}

#[test]
fn a_thread_that_takes_a_number_over_is_a_newcomer() {
    let mut stage = Stage::new();
    stage.look();
    stage.kernel.alter(|state| {
        let thread = state.threads.get_mut(&100).unwrap();
        thread.started = 77_777;
        thread.scheduling = OTHER;
    });
    stage.look();
    assert_eq!(stage.scheduling(100), fifo(50));
    assert_eq!(stage.audit.summary().lowered, 0);
}

#[test]
fn a_thread_that_keeps_leaving_its_cpu_loses_the_priority() {
    let mut stage = Stage::new();
    stage.look();
    for _ in 0..2 {
        stage.kernel.set_affinity(100, &[Cpu(0)].into()).unwrap();
        stage.look();
        assert_eq!(stage.kernel.affinity(100).unwrap(), [Cpu(1)].into());
        assert_eq!(stage.scheduling(100), fifo(50));
    }
    stage.kernel.set_affinity(100, &[Cpu(0)].into()).unwrap();
    stage.look();
    assert_eq!(stage.scheduling(100), SchedulingSetting::Batch { nice: 3 });
    // Nor does it get another try by a child.
    stage.kernel.fork(100, 150, true);
    let other = |state: &mut super::fake_kernel::FakeState| {
        state.threads.get_mut(&150).unwrap().scheduling = OTHER;
    };
    stage.kernel.alter(other);
    stage.look();
    assert_eq!(stage.scheduling(150), OTHER);
}

#[test]
fn nothing_is_adopted_that_cannot_be_recorded() {
    let mut stage = Stage::new();
    std::fs::remove_dir_all(stage.directory.path()).unwrap();
    stage.kernel.fork(100, 150, true);
    stage.look();
    assert_eq!(stage.scheduling(150), OTHER);
    assert_eq!(stage.audit.summary().failures, 1);
}

#[test]
fn an_auditor_that_dies_at_any_point_leaves_no_priority_behind() {
    for stop in 0.. {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut owner = enforcer(&kernel, directory.path());
        owner.apply(&[one(BackendKind::DsFreeze)]).unwrap();
        let journal = std::fs::read_dir(directory.path()).unwrap();
        let mut journals = journal.map(|entry| entry.unwrap().path());
        let journal = journals.find(|path| path.extension().is_some_and(|it| it == "journal"));
        let path = journal.unwrap().with_extension("adoptions");
        let mut stage = Stage::new();
        let mut audited = stage.audit.audited().clone();
        (audited.record, audited.scheduling) = (path.clone(), Some(fifo(80)));
        audited.journaled.clear();
        stage.audit = DomainAudit::new(audited);
        (stage.kernel, stage.record) = (kernel.clone(), AdoptionRecord::new(path));
        // Two children, one of which somebody moves out before the owner dies.
        kernel.fork(100, 150, true);
        kernel.fork(100, 160, true);
        kernel.stop_at(Some(stop));
        stage.look();
        let done = stage.audit.summary().failures == 0;
        std::mem::forget(owner);
        kernel.stop_at(None);
        for root in [V2_ROOT, CPUSET_ROOT] {
            stage.kernel.move_thread(150, Path::new(root)).unwrap();
        }
        kernel.end_process(1);
        kernel.add_process(2, 0, &[2]);
        kernel.become_process(2);
        let recovery = recover_with(directory.path(), &mut kernel.clone()).unwrap();
        assert!(recovery.failures.is_empty(), "{stop}: {recovery:?}");
        let mut after = kernel.snapshot();
        for tid in [150, 160] {
            let child = after.threads.remove(&tid).unwrap();
            assert_eq!(child.scheduling, OTHER, "{stop}: {tid}");
        }
        after.threads.remove(&2);
        let mut expected = before;
        expected.threads.remove(&1);
        assert_eq!(after, expected, "{stop}");
        let left = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 1, "{stop}: only the lock is left");
        if done {
            assert!(stop >= 2);
            break;
        }
    }
}
