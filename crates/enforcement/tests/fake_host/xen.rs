//! Budgets of Xen's virtual CPUs: set, changed, admitted with those of others, put back.

use super::fake_kernel::FakeKernel;
use tailbound_enforcement::recovery::recover_with;
use tailbound_enforcement::{Change, Enforcer, ReservationRequest, Target};
use tailbound_linux::xen::{Vcpu, VcpuSetting};
use tailbound_model::BackendKind;

use super::stage::{enforcer, host, interface, request, state_directory};

fn vcpu(domain: &str, id: u32, vcpu: u32) -> Vcpu {
    Vcpu {
        pool: "Pool-0".into(),
        domain: domain.into(),
        id,
        vcpu,
        setting: setting(10_000, 4_000, true),
    }
}

fn setting(period_us: u64, budget_us: u64, extratime: bool) -> VcpuSetting {
    VcpuSetting {
        period_us,
        budget_us,
        extratime,
    }
}

/// A pool of two CPUs with dom0 and two domains, the second of which has two virtual CPUs.
pub fn xen() -> FakeKernel {
    let kernel = host();
    kernel.alter(|state| {
        state.vcpus = vec![
            vcpu("Domain-0", 0, 0),
            vcpu("arm", 1, 0),
            vcpu("cell", 2, 0),
            vcpu("cell", 2, 1),
        ];
    });
    kernel
}

fn of(domain: &str, budget_ms: u64) -> ReservationRequest {
    request(
        domain,
        Target::XenDomain(domain.into()),
        interface(budget_ms, 100, 50, &[0, 1]),
        BackendKind::XenRtds,
    )
}

fn settings(kernel: &FakeKernel) -> Vec<VcpuSetting> {
    let vcpus = kernel.snapshot().vcpus;
    vcpus.into_iter().map(|one| one.setting).collect()
}

#[test]
fn every_virtual_cpu_gets_the_budget_and_gets_its_old_one_back() {
    let (kernel, directory) = (xen(), state_directory());
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    let plans = enforcer.apply(&[of("cell", 20)]).unwrap();
    let changes: Vec<String> = plans[0].changes.iter().map(Change::to_string).collect();
    assert_eq!(
        changes,
        [
            "xl sched-rtds -d 2 -v 0 -p 100000 -b 20000 -e 0",
            "xl sched-rtds -d 2 -v 1 -p 100000 -b 20000 -e 0",
        ]
    );
    assert_eq!(settings(&kernel)[2..], [setting(100_000, 20_000, false); 2]);
    enforcer
        .change("cell", &interface(30, 100, 50, &[0, 1]))
        .unwrap();
    assert_eq!(settings(&kernel)[2..], [setting(100_000, 30_000, false); 2]);
    let writes = kernel.writes();
    enforcer
        .change("cell", &interface(30, 100, 50, &[0, 1]))
        .unwrap();
    assert_eq!(kernel.writes(), writes, "there is nothing to change");
    enforcer.revert("cell").unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn what_others_have_counts() {
    let (kernel, directory) = (xen(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    // 40% of dom0, 2 x 40% of cell, and arm's: four virtual CPUs on two CPUs.
    enforcer.apply(&[of("arm", 40)]).unwrap();
    let error = enforcer.apply(&[of("cell", 61)]).unwrap_err().to_string();
    assert!(
        error.contains("Pool-0") && error.contains("2 CPUs"),
        "{error}"
    );
    assert!(
        error.contains("Domain-0.0") && error.contains("202"),
        "{error}"
    );
    enforcer.apply(&[of("cell", 40)]).unwrap();
    let more = interface(81, 100, 50, &[0, 1]);
    assert!(enforcer.change("arm", &more).is_err());
    assert_eq!(settings(&kernel)[1], setting(100_000, 40_000, false));
}

#[test]
fn a_sum_that_fits_is_not_enough_for_global_edf() {
    let (kernel, directory) = (xen(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    // 1.99 CPUs of two; but the three others, which go first, have both CPUs for 4 of each 10 ms.
    let error = enforcer.apply(&[of("arm", 79)]).unwrap_err().to_string();
    assert!(error.contains("does not show"), "{error}");
    assert!(error.contains("dom0_max_vcpus"), "{error}");
    // A virtual CPU for each CPU needs no more than the sum.
    kernel.alter(|state| state.vcpus.truncate(2));
    enforcer.apply(&[of("arm", 100)]).unwrap();
}

#[test]
fn a_virtual_cpu_has_one_reservation() {
    let (kernel, directory) = (xen(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    let named = |name: &str| {
        let mut request = of("arm", 20);
        request.domain = name.into();
        request
    };
    let error = enforcer.plan(&[named("one"), named("two")]).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("\"one\"") && message.contains("\"two\""),
        "{message}"
    );
    enforcer.apply(&[named("one")]).unwrap();
    let error = enforcer.apply(&[named("two")]).unwrap_err().to_string();
    assert!(error.contains("virtual CPU 0"), "{error}");
    enforcer
        .change("one", &interface(30, 100, 50, &[0, 1]))
        .unwrap();
    enforcer.revert("one").unwrap();
    enforcer.apply(&[named("two")]).unwrap();
}

#[test]
fn the_next_enforcer_puts_back_what_a_dead_one_set() {
    for killed_after in 0..=2 {
        let (kernel, directory) = (xen(), state_directory());
        let before = kernel.snapshot();
        let mut first: Enforcer = enforcer(&kernel, directory.path());
        kernel.stop_at(Some(killed_after));
        let outcome = first.apply(&[of("cell", 20)]);
        assert_eq!(outcome.is_ok(), killed_after == 2);
        std::mem::forget(first);
        kernel.stop_at(None);
        kernel.end_process(1);
        kernel.add_process(2, 0, &[2]);
        kernel.become_process(2);
        let mut second = kernel.clone();
        recover_with(directory.path(), &mut second).unwrap();
        assert_eq!(
            settings(&kernel),
            before
                .vcpus
                .iter()
                .map(|one| one.setting)
                .collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_domain_that_has_gone_is_no_obstacle_to_revert() {
    let (kernel, directory) = (xen(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    enforcer.apply(&[of("arm", 20)]).unwrap();
    // One of the same name was started meanwhile: it is another one.
    kernel.alter(|state| state.vcpus[1].id = 7);
    let new = settings(&kernel)[1];
    enforcer.revert("arm").unwrap();
    assert_eq!(settings(&kernel)[1], new);
}

#[test]
fn a_domain_that_was_started_anew_gets_its_budget_by_a_change_to_what_it_has() {
    let (kernel, directory) = (xen(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    enforcer.apply(&[of("arm", 20)]).unwrap();
    // It reboots: to Xen it is another domain, as every new one.
    kernel.alter(|state| state.vcpus[1] = vcpu("arm", 7, 0));
    enforcer
        .change("arm", &interface(20, 100, 50, &[0, 1]))
        .unwrap();
    assert_eq!(settings(&kernel)[1], setting(100_000, 20_000, false));
    // `xl` has not been done with building it.
    kernel.alter(|state| state.vcpus[1].setting = setting(10_000, 4_000, false));
    enforcer
        .change("arm", &interface(20, 100, 50, &[0, 1]))
        .unwrap();
    assert_eq!(settings(&kernel)[1], setting(100_000, 20_000, false));
    enforcer
        .change("arm", &interface(30, 100, 50, &[0, 1]))
        .unwrap();
    assert_eq!(settings(&kernel)[1], setting(100_000, 30_000, false));
    enforcer.revert("arm").unwrap();
    assert_eq!(settings(&kernel)[1], setting(10_000, 4_000, true));
}

#[test]
fn what_is_no_xen_domain_is_refused_with_a_remedy() {
    let (kernel, directory) = (xen(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    let error = enforcer.apply(&[of("nobody", 20)]).unwrap_err().to_string();
    assert!(error.contains("xl list"), "{error}");
    let mut processes = of("web", 20);
    processes.target = Target::Processes(vec![100]);
    let error = enforcer.apply(&[processes]).unwrap_err().to_string();
    assert!(error.contains("xen-vm"), "{error}");
    let mut elsewhere = of("arm", 20);
    elsewhere.backend = BackendKind::DsFreeze;
    let error = enforcer.apply(&[elsewhere]).unwrap_err().to_string();
    assert!(error.contains("xen-rtds"), "{error}");
}
