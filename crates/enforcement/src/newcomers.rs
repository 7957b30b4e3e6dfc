//! What a domain starts while its plan is being carried out gets what the plan gives its first members.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::audit::is_real_time;
use crate::backends::descendants_that;
use crate::change::is_of_agent;
use crate::error::EnforcementError;
use crate::executor::{ROUNDS, make, members};
use crate::journal::{HeldDomain, Journal, Previous};
use crate::kernel::{KernelState, KernelView};
use crate::{Change, Plan, SchedulingSetting, Target};

/// Treats threads that the domain started while it was being moved like the others.
pub(crate) fn treat_newcomers(
    kernel: &mut dyn KernelState,
    journal: &mut Journal,
    plan: &Plan,
) -> Result<(), EnforcementError> {
    let domain = &plan.request.domain;
    for _ in 0..ROUNDS {
        let held = journal.history().domain(domain);
        let mut changes = held.map_or_else(Vec::new, |held| moves_of_strays(kernel, held, plan));
        for tid in members(kernel, &plan.inheritance) {
            if let Some(setting) = plan.inheritance.scheduling
                && kernel.scheduling(tid).is_ok_and(|now| {
                    now != setting && !is_of_agent(now) && may_become(now, setting)
                })
            {
                changes.push(Change::SetScheduling { tid, setting });
            }
            if let Some(cpus) = plan.inheritance.affinity.clone()
                && kernel.affinity(tid).is_ok_and(|now| now != cpus)
            {
                changes.push(Change::SetAffinity { tid, cpus });
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        for change in &changes {
            make(kernel, journal, domain, change)?;
        }
    }
    // The audit adopts what a domain starts that starts threads faster than they can be listed.
    Ok(())
}

/// Whether a thread that is found with one policy is to get the other: a nice value is for ordinary threads only.
fn may_become(now: SchedulingSetting, setting: SchedulingSetting) -> bool {
    is_real_time(setting) || matches!(now, SchedulingSetting::Other { .. })
}

/// The moves of processes that were started between planning and the move of their parents. They are where
/// their parents were; one that is elsewhere was put there by somebody.
fn moves_of_strays(kernel: &dyn KernelView, held: &HeldDomain, plan: &Plan) -> Vec<Change> {
    let mut homes: BTreeMap<u32, Vec<(&Change, &Previous)>> = BTreeMap::new();
    for entry in &held.entries {
        if let Change::MoveProcess { pid, .. } = entry.change {
            let of_process = homes.entry(pid).or_default();
            of_process.push((&entry.change, &entry.previous));
        }
    }
    if !matches!(plan.request.target, Target::Processes(_)) || homes.is_empty() {
        return Vec::new();
    }
    let root = kernel.unified_root();
    // Where its parent is, or where that was until it was moved.
    let belongs = |child, parent| {
        let Some(root) = &root else {
            return true;
        };
        let home = homes.get(&parent).and_then(|moves| home_below(root, moves));
        let (at, parents) = (
            kernel.cgroup_of(child, root),
            kernel.cgroup_of(parent, root),
        );
        at.is_ok_and(|at| Some(&at) == home || Some(&at) == parents.as_ref().ok())
    };
    let mut changes = Vec::new();
    for (child, parent) in descendants_that(&plan.inheritance.pids, kernel, belongs) {
        if homes.contains_key(&child) {
            continue;
        }
        let of_parent = homes.get(&parent).cloned().unwrap_or_default();
        let moves = of_parent.into_iter().filter_map(|(change, previous)| {
            let Change::MoveProcess { directory, .. } = change else {
                return None;
            };
            let at = kernel.cgroup_of(child, directory).ok()?;
            let directory = directory.clone();
            let left_behind =
                matches!(previous, Previous::Cgroup { directory: home } if *home == at);
            (left_behind && at != directory).then_some(Change::MoveProcess {
                pid: child,
                directory,
            })
        });
        let moves: Vec<Change> = moves.collect();
        if moves.is_empty() {
            continue;
        }
        // First the affinity, so that what it was is put back once the cpuset is left.
        if let Some(cpus) = plan.inheritance.affinity.clone() {
            let threads = kernel.threads_of(child).unwrap_or_default().into_iter();
            changes.extend(threads.map(|tid| Change::SetAffinity {
                tid,
                cpus: cpus.clone(),
            }));
        }
        changes.extend(moves);
    }
    changes
}

/// Where a process was in the hierarchy of `root` before it was moved.
fn home_below<'a>(root: &Path, moves: &[(&Change, &'a Previous)]) -> Option<&'a PathBuf> {
    let mut replaced = moves.iter().map(|(_, previous)| *previous);
    replaced.find_map(|previous| match previous {
        Previous::Cgroup { directory } if directory.starts_with(root) => Some(directory),
        _ => None,
    })
}
