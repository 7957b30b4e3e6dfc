//! `ds-freeze`: SCHED_FIFO for the domain, and a manager that freezes its cgroup when the budget
//! is spent. The server itself is in [`crate::ds_freeze`]; this plans what it runs on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::{BackendKind, Cpu, CpuSet};
use tailbound_time::Duration;

use super::target::{not_supported, reading};
use super::{
    THREADED_ROOT_PREFIX, TargetMembers, all_lacking, check_range, lacking, leave_real_time_groups,
    own_group,
};
use crate::change::{cpu_list, is_of_agent};
use crate::error::{AdmissionError, EnforcementError, PlanError};
use crate::kernel::KernelView;
use crate::{
    Backend, Change, Inheritance, Manager, MissingRequirement, Plan, ReservationRequest,
    SchedulingSetting, Site, Target,
};

/// CPU time that the kernel takes to stop one thread of a group and let it run again, rounded up: 7 microseconds
/// were measured with 500 threads, fewer with less (docs/measurements/ds-freeze.md, "Stopping a large group").
const SWITCH_PER_THREAD: Duration = Duration::from_micros(8);
/// Stopping a group and letting it run again takes one part in so many of the period at most, since an ordinary
/// thread on the CPU waits that long.
const LARGEST_PART_FOR_SWITCHING: u64 = 5;

/// The name of the group in which the processes of a container are stopped.
const GROUP_BELOW_CONTAINER: &str = "tailbound";

/// Our deferrable server at fixed priority.
pub struct DsFreeze;

impl Backend for DsFreeze {
    fn kind(&self) -> BackendKind {
        BackendKind::DsFreeze
    }

    fn missing(&self, host: &HostCapabilities) -> Vec<MissingRequirement> {
        let needs = [
            (Feature::CgroupV2, "a cgroup v2 hierarchy to make groups in"),
            (Feature::FreezerV2, "the cgroup v2 freezer"),
            (
                Feature::SchedFifo,
                "SCHED_FIFO for the domain and its manager",
            ),
        ];
        all_lacking(host, &needs)
    }

    fn missing_for(
        &self,
        request: &ReservationRequest,
        host: &HostCapabilities,
    ) -> Vec<MissingRequirement> {
        let mut missing = self.missing(host);
        let several = request.interface.cpus.len() > 1;
        if request.interface.shares_budget() || request.backend.has_windows() && several {
            let needed = "perf events of cgroups, which tell what a domain has used of other CPUs than its manager's";
            missing.extend(lacking(host, Feature::PerfCgroupEvents, needed));
        }
        missing
    }

    fn check_interface(
        &self,
        request: &ReservationRequest,
        _: &HostCapabilities,
    ) -> Result<(), AdmissionError> {
        if let Target::Processes(_) | Target::Cgroup(_) | Target::NamedCgroup(_) = request.target {
            cpus_of_group(request)?;
        } else if request.interface.shares_budget() {
            return Err(AdmissionError::SharedBySingleThreads {
                domain: request.domain.clone(),
            });
        }
        check_range(
            request,
            "its manager wakes up twice a period, 10 to 20 microseconds each",
        )
    }

    fn plan(&self, request: &ReservationRequest, site: Site<'_>) -> Result<Plan, EnforcementError> {
        let Site { host, view } = site;
        let root = host.cgroup_v2_root.as_deref().ok_or_else(|| {
            not_supported(request, "finds no cgroup v2 here", "see tailbound doctor")
        })?;
        let members = TargetMembers::with_descendants(request, Some(root), view)?;
        check_controller(request, host, root, view)?;
        let mut changes = leave_real_time_groups(host, &members.threads, view);
        let groups = match &request.target {
            Target::Processes(_) => {
                let cpus = cpus_of_group(request)?;
                group_of_processes(request, cpus, root, &members, view, &mut changes)?
            }
            // Topics have no members, so that they have been refused by now.
            Target::Interrupts(_) | Target::Topics(_) => {
                group_of_kernel_threads(request, root, &members, &mut changes)?
            }
            Target::Threads(_) | Target::Machine(_) => {
                groups_of_threads(request, root, &members, view, &mut changes)?
            }
            // What Xen runs has no members here, so that it has been refused by now.
            Target::Cgroup(_) | Target::NamedCgroup(_) | Target::XenDomain(_) => {
                let cpus = cpus_of_group(request)?;
                group_below_container(request, cpus, root, &members, view, &mut changes)?
            }
        };
        check_sizes(request, &groups)?;
        let priority = request.interface.priority.0;
        let setting = SchedulingSetting::Fifo {
            priority,
            reset_on_fork: true,
        };
        for (group, threads) in &groups {
            for &tid in threads {
                changes.push(Change::SetAffinity {
                    tid,
                    cpus: group.cpus(),
                });
            }
        }
        let is_agent = |tid: u32| view.scheduling(tid).is_ok_and(is_of_agent);
        let threads = groups.iter().flat_map(|(_, threads)| threads);
        for &tid in threads.filter(|tid| !is_agent(**tid)) {
            changes.push(Change::SetScheduling { tid, setting });
        }
        let managers: Vec<Manager> = groups.into_iter().map(|(group, _)| group).collect();
        debug_assert!(
            changes.iter().all(|change| {
                let thaws = |manager: &Manager| {
                    Change::write(&manager.cgroup, "cgroup.freeze", "1") == *change
                };
                !is_freeze(change) || managers.iter().any(thaws)
            }),
            "each group that is frozen has a manager that thaws it"
        );
        let cgroups = managers.iter().map(|manager| manager.cgroup.clone());
        Ok(Plan {
            mapping: mapping(request, &managers),
            inheritance: Inheritance {
                pids: members.heirs(request),
                cgroups: cgroups.collect(),
                scheduling: Some(setting),
                affinity: cpus_of_group(request).ok().cloned(),
            },
            request: request.clone(),
            changes,
            managers,
        })
    }
}

/// Whether a change freezes a group.
fn is_freeze(change: &Change) -> bool {
    matches!(change, Change::WriteFile { file, .. } if file.ends_with("cgroup.freeze"))
}

fn mapping(request: &ReservationRequest, managers: &[Manager]) -> Vec<String> {
    let interface = &request.interface;
    let mut lines = vec![
        format!(
            "priority {0} -> SCHED_FIFO {0}; managers run at SCHED_FIFO 98",
            interface.priority.0
        ),
        format!(
            "budget {} every {} -> our manager freezes the cgroup when the budget is spent and \
             thaws it at the next multiple of the period",
            interface.budget, interface.period
        ),
    ];
    if managers.iter().any(|manager| !manager.demoted.is_empty()) {
        lines[1] = format!(
            "budget {} every {} -> our manager makes the threads SCHED_OTHER when the budget is spent, and SCHED_FIFO {} \
             again at the next multiple of the period",
            interface.budget, interface.period, interface.priority.0
        );
    }
    lines.extend(managers.iter().map(|manager| {
        let group = manager.cgroup.display();
        match manager.other_cpus.is_empty() {
            true if !manager.demoted.is_empty() => {
                format!("CPU {} -> {group}/cpu.stat", manager.cpu)
            }
            true => format!("CPU {} -> {group}/cgroup.freeze", manager.cpu),
            false => format!(
                "CPUs {} together -> {group}/cgroup.freeze",
                cpu_list(&manager.cpus())
            ),
        }
    }));
    lines
}

/// The only CPU, if there is only one.
fn one_cpu(request: &ReservationRequest) -> Option<Cpu> {
    match request.interface.cpus.len() {
        1 => request.interface.cpus.first().copied(),
        _ => None,
    }
}

/// The CPUs of a group that is frozen as a whole: one, or several that share a budget or have the same windows.
fn cpus_of_group(request: &ReservationRequest) -> Result<&CpuSet, AdmissionError> {
    let interface = &request.interface;
    let as_a_whole = interface.shares_budget() || request.backend.has_windows();
    match interface.cpus.len() == 1 || as_a_whole {
        true => Ok(&interface.cpus),
        false => Err(AdmissionError::GroupOnCpus {
            domain: request.domain.clone(),
            backend: request.backend,
            cpus: cpu_list(&interface.cpus),
        }),
    }
}

/// Refuses where the kernel would refuse SCHED_FIFO in the groups that we make.
fn check_controller(
    request: &ReservationRequest,
    host: &HostCapabilities,
    root: &Path,
    view: &dyn KernelView,
) -> Result<(), PlanError> {
    if !host.rt_group_sched {
        return Ok(());
    }
    let file = root.join("cgroup.subtree_control");
    let enabled = view
        .read_file(&file)
        .map_err(|error| reading(request, &file, &error))?;
    match enabled.split_whitespace().any(|name| name == "cpu") {
        false => Ok(()),
        true => Err(not_supported(
            request,
            "needs SCHED_FIFO in a cgroup, which this kernel (CONFIG_RT_GROUP_SCHED) refuses \
             where the cpu controller is on",
            format!(
                "echo -cpu > {}, or boot with rt_group_sched=0",
                file.display()
            ),
        )),
    }
}

type ManagedGroup = (Manager, Vec<u32>);

/// Refuses groups of so many threads that stopping them takes too much of a period.
fn check_sizes(request: &ReservationRequest, groups: &[ManagedGroup]) -> Result<(), PlanError> {
    let period = request.interface.period;
    let largest = groups.iter().map(|(_, threads)| threads.len()).max();
    let threads = largest.unwrap_or_default() as u64;
    let least = SWITCH_PER_THREAD * threads * LARGEST_PART_FOR_SWITCHING;
    match period >= least {
        true => Ok(()),
        false => Err(not_supported(
            request,
            format!(
                "stops {threads} threads at a time, which keeps ordinary programs on their CPU waiting for up to \
                 {}: more than a fifth of the period of {period}",
                SWITCH_PER_THREAD * threads
            ),
            format!("give it a period of {least} or more, or divide it into several domains"),
        )),
    }
}

/// The group of our own for whole processes.
fn group_of_processes(
    request: &ReservationRequest,
    cpus: &CpuSet,
    root: &Path,
    members: &TargetMembers,
    view: &dyn KernelView,
    changes: &mut Vec<Change>,
) -> Result<Vec<ManagedGroup>, PlanError> {
    members.check_unsplit(request, root, view)?;
    let own = own_group(&home_of_processes(request, root, members, view));
    changes.push(Change::mkdir(&own));
    let directory = own.join(&request.domain);
    Ok(frozen_group(cpus, directory, members, changes))
}

/// Where the group of our own is made: in the group of the processes, such as their unit's, so that what is done to that
/// as a whole (stopped, killed, limited, counted) goes on reaching them; at the root where they are of several groups.
fn home_of_processes(
    request: &ReservationRequest,
    root: &Path,
    members: &TargetMembers,
    view: &dyn KernelView,
) -> PathBuf {
    let mut homes = members.homes(&request.domain, root, view);
    let kind = |home: &PathBuf| view.read_file(&home.join("cgroup.type"));
    match (homes.pop_first(), homes.is_empty()) {
        // Below a threaded group there can be no group of whole processes; the root has no such file.
        (Some(home), true) if kind(&home).is_ok_and(|kind| kind == "domain") => home,
        _ => root.to_owned(),
    }
}

/// A new group with all members, frozen until its manager first replenishes it.
fn frozen_group(
    cpus: &CpuSet,
    cgroup: PathBuf,
    members: &TargetMembers,
    changes: &mut Vec<Change>,
) -> Vec<ManagedGroup> {
    changes.extend([
        Change::mkdir(&cgroup),
        Change::write(&cgroup, "cgroup.freeze", "1"),
    ]);
    changes.extend(members.moves(false, &cgroup));
    let manager = Manager::of_all(cpus, cgroup);
    let group = manager.map(|manager| (manager, members.threads.clone()));
    group.into_iter().collect()
}

/// A group of our own for threads of the kernel, in which their CPU time is counted. They cannot be frozen: the manager
/// takes their priority from them once the budget is used up.
fn group_of_kernel_threads(
    request: &ReservationRequest,
    root: &Path,
    members: &TargetMembers,
    changes: &mut Vec<Change>,
) -> Result<Vec<ManagedGroup>, PlanError> {
    let cpu = one_cpu(request).ok_or_else(|| {
        not_supported(
            request,
            "gives the threads of interrupts a budget on one CPU",
            "name one CPU",
        )
    })?;
    let own = own_group(root);
    let directory = own.join(&request.domain);
    changes.extend([Change::mkdir(&own), Change::mkdir(&directory)]);
    changes.extend(members.moves(false, &directory));
    let manager = Manager {
        demoted: members.threads.clone(),
        ..Manager::of_one_cpu(cpu, directory)
    };
    Ok(vec![(manager, members.threads.clone())])
}

/// A group of our own below that of a container or unit, whose own freezer is its manager's: `pause`, `exec` and
/// `systemctl freeze` work as without a reservation. What is put into the group above later, by `exec`, the audit takes in.
fn group_below_container(
    request: &ReservationRequest,
    cpus: &CpuSet,
    root: &Path,
    members: &TargetMembers,
    view: &dyn KernelView,
    changes: &mut Vec<Change>,
) -> Result<Vec<ManagedGroup>, PlanError> {
    // A group of ours is there already where the reservation is being changed; a container may have the same name.
    let is_ours = |group: &PathBuf| {
        group.ends_with(GROUP_BELOW_CONTAINER) && Some(group) != members.cgroup.as_ref()
    };
    let above = |group: &PathBuf| match is_ours(group) {
        true => group
            .parent()
            .map_or_else(|| group.clone(), Path::to_path_buf),
        false => group.clone(),
    };
    let homes: BTreeSet<PathBuf> = members.groups.iter().map(above).collect();
    let mut homes = homes.into_iter();
    let home = match (homes.next(), homes.next()) {
        (Some(home), None) => home,
        (None, _) => return Err(PlanError::EmptyTarget(request.domain.clone())),
        (Some(first), Some(second)) => {
            return Err(not_supported(
                request,
                format!(
                    "stops one group, and there are processes in {} and in {}",
                    first.display(),
                    second.display()
                ),
                "name the cgroup of one of them, and give each a domain of its own",
            ));
        }
    };
    members.check_unsplit(request, root, view)?;
    let directory = home.join(GROUP_BELOW_CONTAINER);
    Ok(frozen_group(cpus, directory, members, changes))
}

/// The process of single threads, if they are of one, and can be divided among the CPUs.
fn the_process(request: &ReservationRequest, members: &TargetMembers) -> Result<u32, PlanError> {
    let &[pid] = members.processes.as_slice() else {
        return Err(not_supported(
            request,
            "keeps single threads in a threaded cgroup, which holds those of one process",
            "make one reservation per process",
        ));
    };
    let (threads, cpus) = (members.threads.len(), request.interface.cpus.len());
    if cpus != 1 && cpus != threads {
        return Err(not_supported(
            request,
            format!("cannot divide {threads} threads among {cpus} CPUs"),
            "name one CPU, or as many CPUs as threads",
        ));
    }
    Ok(pid)
}

/// Threaded groups: one for all the threads on one CPU, or one per thread and CPU.
fn groups_of_threads(
    request: &ReservationRequest,
    root: &Path,
    members: &TargetMembers,
    view: &dyn KernelView,
    changes: &mut Vec<Change>,
) -> Result<Vec<ManagedGroup>, PlanError> {
    let pid = the_process(request, members)?;
    let cpus = &request.interface.cpus;
    let parent = own_group(root).join(format!("{THREADED_ROOT_PREFIX}{pid}"));
    let home = view.cgroup_of(pid, root);
    let here = home.is_ok_and(|home| home.starts_with(&parent));
    if !here {
        if let Some(groups) = groups_of_libvirt(request, root, members, view)? {
            let freeze =
                |(group, _): &ManagedGroup| Change::write(&group.cgroup, "cgroup.freeze", "1");
            changes.extend(groups.iter().map(freeze));
            return Ok(groups);
        }
        members.check_unsplit(request, root, view)?;
    }
    changes.extend([
        Change::mkdir(&own_group(root)),
        Change::mkdir(&parent),
        Change::MoveProcess {
            pid,
            directory: parent.clone(),
        },
    ]);
    let mut groups = Vec::new();
    let mut add = |name: String, cpu: Cpu, threads: Vec<u32>| {
        let directory: PathBuf = parent.join(name);
        changes.extend([
            Change::mkdir(&directory),
            Change::write(&directory, "cgroup.type", "threaded"),
            Change::write(&directory, "cgroup.freeze", "1"),
        ]);
        changes.extend(threads.iter().map(|&tid| Change::MoveThread {
            tid,
            directory: directory.clone(),
            legacy: false,
        }));
        let manager = Manager::of_one_cpu(cpu, directory);
        groups.push((manager, threads));
    };
    match one_cpu(request) {
        Some(cpu) => add(request.domain.clone(), cpu, members.threads.clone()),
        None => {
            for (&cpu, &tid) in cpus.iter().zip(&members.threads) {
                add(format!("{}-cpu{cpu}", request.domain), cpu, vec![tid]);
            }
        }
    }
    Ok(groups)
}

/// The groups in which libvirt keeps the virtual CPUs of a machine, each by itself: they are frozen where
/// they are, since moving the process would take them, and those of its other threads, from libvirt. `None`
/// if it does not keep them so.
fn groups_of_libvirt(
    request: &ReservationRequest,
    root: &Path,
    members: &TargetMembers,
    view: &dyn KernelView,
) -> Result<Option<Vec<ManagedGroup>>, PlanError> {
    if !matches!(request.target, Target::Machine(_)) {
        return Ok(None);
    }
    let mut groups = Vec::new();
    for (place, &tid) in members.threads.iter().enumerate() {
        let Ok(cgroup) = view.cgroup_of(tid, root) else {
            return Ok(None);
        };
        let inside = view
            .threads_in(&cgroup)
            .map_err(|error| reading(request, &cgroup, &error))?;
        if inside != [tid] {
            return Ok(None);
        }
        groups.extend(request.interface.cpus.iter().nth(place).map(|&cpu| {
            let manager = Manager::of_one_cpu(cpu, cgroup);
            (manager, vec![tid])
        }));
    }
    match groups.len() == members.threads.len() {
        true => Ok(Some(groups)),
        false => Err(not_supported(
            request,
            "freezes the cgroups in which libvirt keeps the virtual CPUs, each on a CPU of its own",
            "name as many CPUs as virtual CPUs, or set `cgroup_controllers = []` in libvirt's qemu.conf \
             and start the machine anew",
        )),
    }
}
