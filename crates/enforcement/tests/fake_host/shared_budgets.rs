//! Budgets that several CPUs share: what is planned for them, and what refuses them.

use tailbound_enforcement::backends::backend;
use tailbound_enforcement::{AdmissionError, Change, EnforcementError, ReservationRequest, Target};
use tailbound_linux::capabilities::Feature;
use tailbound_model::{BackendKind, BudgetScope, Cpu};
use tailbound_time::Duration;

use super::stage::*;

/// 120 ms every 100 ms on CPUs 1 and 2 together.
fn shared(target: Target, backend: BackendKind) -> ReservationRequest {
    let mut interface = interface(120, 100, 50, &[1, 2]);
    interface.budget_scope = BudgetScope::AllCpus;
    request("both", target, interface, backend)
}

#[test]
fn one_manager_serves_a_group_on_all_its_cpus() {
    let (kernel, directory) = (host(), state_directory());
    let enforcer = enforcer(&kernel, directory.path());
    let request = shared(Target::Processes(vec![100]), BackendKind::DsFreeze);
    let plans = enforcer.plan(std::slice::from_ref(&request)).unwrap();
    let [manager] = plans[0].managers.as_slice() else {
        panic!("{:?}", plans[0].managers);
    };
    assert_eq!(manager.cpu, Cpu(1));
    assert_eq!(manager.cpus(), request.interface.cpus);
    let pinned = plans[0].changes.iter().filter_map(|change| match change {
        Change::SetAffinity { cpus, .. } => Some(cpus),
        _ => None,
    });
    let pinned: Vec<_> = pinned.collect();
    assert!(pinned.len() >= 3 && pinned.iter().all(|cpus| **cpus == manager.cpus()));
    assert_eq!(plans[0].inheritance.affinity, Some(manager.cpus()));
}

#[test]
fn a_shared_quota_is_the_budget_itself() {
    let (kernel, directory) = (host(), state_directory());
    let enforcer = enforcer(&kernel, directory.path());
    let quota = |scope| {
        let mut request = shared(Target::Processes(vec![100]), BackendKind::CfsQuota);
        request.interface.budget = Duration::from_millis(60);
        request.interface.budget_scope = scope;
        let plans = enforcer.plan(&[request]).unwrap();
        let written = plans[0].changes.iter().filter_map(|change| match change {
            Change::WriteFile { file, value } => Some(format!("{} {value}", file.display())),
            _ => None,
        });
        written.collect::<Vec<_>>().join("\n")
    };
    assert!(quota(BudgetScope::AllCpus).contains("quota_us 60000"));
    assert!(quota(BudgetScope::EachCpu).contains("quota_us 120000"));
}

#[test]
fn only_what_the_table_says_shares_a_budget() {
    let (kernel, directory) = (host(), state_directory());
    let enforcer = enforcer(&kernel, directory.path());
    for kind in BackendKind::ALL
        .into_iter()
        .filter(|kind| kind.has_budget())
    {
        let plan = enforcer.plan(&[shared(Target::Processes(vec![100]), kind)]);
        match kind.traits().cpus_share_budget {
            true => assert!(plan.is_ok(), "{kind}: {plan:?}"),
            false => {
                let refused = plan.unwrap_err().to_string();
                assert!(refused.contains("a budget of its own"), "{kind}: {refused}");
            }
        }
    }
}

#[test]
fn refusals_of_shared_budgets_say_what_would_be_right() {
    let (kernel, directory) = (host(), state_directory());
    let enforcer = enforcer(&kernel, directory.path());
    let plan = |request| enforcer.plan(&[request]).unwrap_err().to_string();
    let threads = plan(shared(
        Target::Threads(vec![101, 102]),
        BackendKind::DsFreeze,
    ));
    assert!(threads.contains("reserve the whole process"), "{threads}");
    let mut long = shared(Target::Processes(vec![100]), BackendKind::DsFreeze);
    long.interface.budget = Duration::from_millis(201);
    let long = plan(long);
    assert!(long.contains("at most 200ms"), "{long}");
    let mut each = shared(Target::Processes(vec![100]), BackendKind::DsFreeze);
    each.interface.budget_scope = BudgetScope::EachCpu;
    each.interface.budget = Duration::from_millis(60);
    let each = plan(each);
    assert!(each.contains("--budget-scope all-cpus"), "{each}");
}

#[test]
fn a_shared_budget_needs_counters_of_other_cpus() {
    let without = host().host().without(&[Feature::PerfCgroupEvents]);
    let missing = |request: &ReservationRequest| {
        let missing = backend(request.backend).missing_for(request, &without);
        missing
            .into_iter()
            .map(|one| one.needed)
            .collect::<Vec<_>>()
    };
    let mut request = shared(Target::Processes(vec![100]), BackendKind::DsFreeze);
    let needed = missing(&request);
    assert!(
        needed.iter().any(|needed| needed.contains("perf events")),
        "{needed:?}"
    );
    request.interface.cpus = [Cpu(1)].into();
    assert_eq!(missing(&request), Vec::<String>::new());
}

#[test]
fn what_is_taken_back_is_as_it_was() {
    let (kernel, directory) = (host(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    let before = kernel.snapshot();
    let request = shared(Target::Processes(vec![100]), BackendKind::DsFreeze);
    enforcer.apply(std::slice::from_ref(&request)).unwrap();
    let mut longer = request.interface.clone();
    longer.budget = Duration::from_millis(150);
    enforcer.change(&request.domain, &longer).unwrap();
    let mut too_long = longer.clone();
    too_long.budget = Duration::from_millis(190);
    let refused = enforcer.change(&request.domain, &too_long).unwrap_err();
    let too_much = matches!(
        refused,
        EnforcementError::Refused(AdmissionError::NoRoom(_))
    );
    assert!(too_much, "{refused:?}");
    enforcer.revert_all().unwrap();
    assert_eq!(kernel.snapshot(), before);
}
