//! Every back end against the model's table of what each can do: what it plans, takes and refuses.

use std::collections::BTreeSet;

use tailbound_enforcement::backends::{self, backend};
use tailbound_enforcement::{Change, Plan, ReservationRequest, Site, Target};
use tailbound_model::{BackendKind, Precedence};
use tailbound_time::Duration;

use super::stage::{enforcer, interface, request, state_directory, window};
use super::xen::xen;

/// A request for one thread of a process, or for one virtual CPU of a Xen domain, whichever the kind takes.
fn smallest(kind: BackendKind) -> ReservationRequest {
    let target = match kind.precedence() {
        Precedence::Hypervisor => Target::XenDomain("arm".into()),
        _ => Target::Processes(vec![200]),
    };
    request("one", target, interface(20, 100, 80, &[1]), kind)
}

#[test]
fn plans_are_as_the_table_says() {
    let kernel = xen();
    let host = kernel.host();
    for back_end in backends::ALL {
        let kind = back_end.kind();
        let traits = kind.traits();
        let plan = |target: Option<Target>| {
            let mut request = smallest(kind);
            request.target = target.unwrap_or(request.target);
            back_end.plan(
                &request,
                Site {
                    host: &host,
                    view: &kernel,
                },
            )
        };
        let own = plan(None).unwrap();
        assert_eq!(!own.changes.is_empty(), traits.enforces, "{kind}");
        assert_eq!(!own.managers.is_empty(), traits.has_manager, "{kind}");
        // Others take the main thread of a process alone.
        let threads = plan(Some(Target::Processes(vec![100])));
        let covers = |plan: Plan| {
            let subjects: BTreeSet<u32> = plan.changes.iter().filter_map(Change::subject).collect();
            subjects.is_superset(&[100, 101, 102].into()) || !traits.enforces
        };
        assert_eq!(threads.is_ok_and(covers), traits.thread_groups, "{kind}");
        let processes = plan(Some(Target::Processes(vec![100, 200])));
        assert_eq!(processes.is_ok(), traits.process_groups, "{kind}");
    }
}

#[test]
fn lengths_outside_the_table_are_refused() {
    let host = xen().host();
    for kind in BackendKind::ALL {
        let traits = kind.traits();
        let is_taken = |budget, period| {
            let mut request = smallest(kind);
            (request.interface.budget, request.interface.period) = (budget, period);
            for window in &mut request.interface.windows {
                window.length = budget;
            }
            backend(kind).check_interface(&request, &host).is_ok()
        };
        let usual = Duration::from_millis(100);
        let step = Duration::from_micros(1);
        assert!(is_taken(usual / 5, usual), "{kind}");
        let (least, shortest) = (traits.smallest_budget, traits.shortest_period);
        let outside = [
            (least.saturating_sub(step), usual),
            (usual, traits.longest_period.saturating_add(step)),
            (least, shortest.saturating_sub(step)),
        ];
        for (budget, period) in outside {
            assert_eq!(
                is_taken(budget, period),
                !traits.has_budget,
                "{kind}: {budget} in {period}"
            );
        }
    }
}

/// No CPU holds more budget than it has time, of guarantees and of caps; what has no budget is not counted.
#[test]
fn budgets_beyond_a_cpu_are_refused() {
    for kind in BackendKind::ALL {
        let (kernel, directory) = (xen(), state_directory());
        let mut enforcer = enforcer(&kernel, directory.path());
        let (mut one, mut other) = (smallest(kind), smallest(kind));
        for (request, offset) in [(&mut one, 0), (&mut other, 40)] {
            request.interface = interface(60, 100, 80, &[1]);
            if kind.has_windows() {
                let offset = Duration::from_millis(offset);
                request.interface.windows = vec![window(offset, request.interface.budget)];
            }
        }
        other.domain = "other".into();
        other.target = match kind.precedence() {
            Precedence::Hypervisor => Target::XenDomain("cell".into()),
            _ => Target::Processes(vec![400]),
        };
        let both = enforcer.apply(&[one, other]);
        assert_eq!(both.is_err(), kind.has_budget(), "{kind}");
    }
}

/// A CPU that a domain is to have to itself takes no reservation beside it, in either order.
#[test]
fn a_dedicated_cpu_is_not_shared_with_other_reservations() {
    for kind in BackendKind::ALL {
        let counts = kind.enforces() && kind.precedence() != Precedence::Hypervisor;
        for order in [
            [BackendKind::Dedicated, kind],
            [kind, BackendKind::Dedicated],
        ] {
            let (kernel, directory) = (xen(), state_directory());
            let mut enforcer = enforcer(&kernel, directory.path());
            let [first, mut second] = order.map(smallest);
            second.domain = "other".into();
            second.target = match second.backend.precedence() {
                Precedence::Hypervisor => Target::XenDomain("cell".into()),
                _ => Target::Processes(vec![400]),
            };
            enforcer.apply(&[first]).unwrap();
            let both = enforcer.apply(&[second]);
            assert_eq!(both.is_err(), counts, "{order:?}: {both:?}");
        }
    }
}

/// Domains that were admitted together, each to have the CPU to itself, stay in each other's company: a change of
/// one of them moves nothing.
#[test]
fn a_change_is_not_judged_by_the_company_that_it_was_admitted_with() {
    let (kernel, directory) = (xen(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    let first = smallest(BackendKind::Dedicated);
    let mut second = first.clone();
    second.domain = "other".into();
    second.target = Target::Processes(vec![400]);
    let (domain, interface) = (first.domain.clone(), first.interface.clone());
    enforcer.apply(&[first, second]).unwrap();
    enforcer.change(&domain, &interface).unwrap();
}
