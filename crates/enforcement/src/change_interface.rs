//! Gives an active reservation another budget, period or priority.

use crate::change::is_of_agent;
use crate::error::EnforcementError;
use crate::executor::{make, members, undo_after};
use crate::journal::Journal;
use crate::kernel::KernelState;
use crate::managers::Managers;
use crate::{Change, Plan};
use tailbound_model::ResourceInterface;
use tailbound_time::Instant;

/// A change that did not come about.
pub(crate) struct NotChanged {
    /// Why.
    pub cause: EnforcementError,
    /// Whether the new interface may hold all the same, or in part.
    pub may_hold: bool,
}

impl NotChanged {
    fn certainly(cause: EnforcementError) -> Self {
        let may_hold = false;
        Self { cause, may_hold }
    }
}

/// Makes those changes of `plan` that differ from what stands; if one fails, the old interface
/// holds again. When a manager puts it in force, no earlier than `not_before`; `None` without one:
/// then it holds.
pub(crate) fn change_interface(
    kernel: &mut dyn KernelState,
    journal: &mut Journal,
    managers: &mut dyn Managers,
    plan: &Plan,
    old: &ResourceInterface,
    not_before: Instant,
) -> Result<Option<Instant>, NotChanged> {
    debug_assert_eq!(
        old.cpus, plan.request.interface.cpus,
        "a change keeps the CPUs"
    );
    let domain = &plan.request.domain;
    let before = journal.last_sequence();
    let made = differing(kernel, journal, plan)
        .iter()
        .try_for_each(|change| make(kernel, journal, domain, change))
        .map_err(NotChanged::certainly);
    let mut tell = || {
        let outcome = managers.change(&plan.request, old, not_before);
        outcome.map_err(|refused| NotChanged {
            cause: EnforcementError::Manager {
                domain: domain.clone(),
                reason: refused.reason,
            },
            may_hold: refused.may_hold,
        })
    };
    let outcome = made.and_then(|()| tell());
    outcome.map_err(
        |not_changed| match undo_after(kernel, journal, domain, before) {
            failures if failures.is_empty() => not_changed,
            // What was changed before it failed could not be taken back.
            failures => NotChanged {
                cause: (not_changed.cause).and_then(EnforcementError::NotRestored { failures }),
                may_hold: true,
            },
        },
    )
}

/// The settings of the new plan that differ from what stands. Groups and places stay as they are;
/// threads that came later get the new policy, too.
fn differing(kernel: &dyn KernelState, journal: &Journal, plan: &Plan) -> Vec<Change> {
    let standing = journal.history().domain(&plan.request.domain);
    let standing = standing
        .map(|held| held.entries.as_slice())
        .unwrap_or_default();
    let mut files = Vec::new();
    let mut policies = Vec::new();
    for change in &plan.changes {
        let stands = standing
            .iter()
            .rev()
            .find(|entry| entry.change.same_object(change));
        match change {
            Change::WriteFile { .. } if stands.is_some_and(|entry| entry.change != *change) => {
                files.push(change.clone());
            }
            Change::SetScheduling { tid, setting }
                if kernel
                    .scheduling(*tid)
                    .is_ok_and(|now| now != *setting && !is_of_agent(now)) =>
            {
                policies.push(change.clone());
            }
            // The journal does not tell what stands: `xl` sets what it likes when it has built a domain.
            Change::SetXenVcpu { .. } => policies.push(change.clone()),
            _ => {}
        }
    }
    if let Some(setting) = plan.inheritance.scheduling
        && plan.request.target.single_threads().is_none()
    {
        for tid in members(kernel, &plan.inheritance) {
            let change = Change::SetScheduling { tid, setting };
            let differs = kernel
                .scheduling(tid)
                .is_ok_and(|now| now != setting && !is_of_agent(now));
            if differs && !policies.contains(&change) {
                policies.push(change);
            }
        }
    }
    order_period_and_budget(kernel, &mut files);
    files.extend(policies);
    files
}

/// A real-time group's period and budget are two files, and the kernel checks the share that they
/// make after each write: the one first whose share with the other's old value is the smaller.
fn order_period_and_budget(kernel: &dyn KernelState, files: &mut [Change]) {
    let [
        Change::WriteFile {
            file: period_file,
            value: period,
        },
        Change::WriteFile {
            file: budget_file,
            value: budget,
        },
    ] = files
    else {
        return;
    };
    let number = |text: &str| text.parse::<u128>().ok();
    let old = |file| kernel.read_file(file).ok().and_then(|text| number(&text));
    let numbers = (
        old(period_file),
        number(period),
        old(budget_file),
        number(budget),
    );
    if let (Some(old_period), Some(period), Some(old_budget), Some(budget)) = numbers
        && budget * period < old_budget * old_period
    {
        files.swap(0, 1);
    }
}
