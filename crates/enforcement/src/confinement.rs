//! Confinement of a domain by a cpuset: the kernel then keeps the domain's threads on its CPUs, whatever
//! affinity they ask for (sched_setaffinity(2) masks by the cpuset, also for root).
//!
//! A cpuset is planned where a thread that leaves its CPU takes a real-time priority along: for `ds-freeze`,
//! `rt-group` and `hcbs`, and targets that are processes or single threads. `deadline` has exclusive cpusets of its
//! own, and `cfs-quota` and `dedicated` raise no priority. Containers and virtual machines keep the cpusets
//! of their runtimes, which expect to find them as they left them. Where no cpuset confines a domain, the
//! [audit](crate::audit) alone brings its threads back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tailbound_linux::scheduling::parse_cpu_list;
use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::{Cpu, CpuSet};

use crate::change::cpu_list;
use crate::kernel::KernelView;
use crate::{Change, Plan, Target};

/// How the names of the cpusets of domains start; unlike those of the `deadline` back end.
const PREFIX: &str = "tailbound-domain-";

/// The same plan, with a cpuset around what it pins where there can be one; a line of the mapping says
/// which one, or why there is none.
pub(crate) fn with_cpuset(mut plan: Plan, host: &HostCapabilities, view: &dyn KernelView) -> Plan {
    if !plan.request.backend.raises_priority() {
        return plan;
    }
    let line = match plan.request.target {
        // Only their manager and the kernel move threads of the kernel.
        Target::Interrupts(_) | Target::Topics(_) => return plan,
        Target::Processes(_) | Target::Threads(_) => match confine(&mut plan, host, view) {
            Ok(line) => line,
            Err(reason) => unconfined(&reason),
        },
        _ => unconfined("the cpusets of containers and virtual machines belong to their runtimes"),
    };
    plan.mapping.push(line);
    plan
}

fn unconfined(reason: &str) -> String {
    format!("no cpuset ({reason}): the audit of its members brings threads back to their CPUs")
}

/// Whether a change of a plan that stands puts a domain into a cpuset.
pub(crate) fn is_of_cpuset(change: &Change) -> bool {
    matches!(change, Change::WriteFile { file, .. }
        if file.file_name().is_some_and(|name| name == "cpuset.cpus"))
}

fn confine(
    plan: &mut Plan,
    host: &HostCapabilities,
    view: &dyn KernelView,
) -> Result<String, String> {
    let v1_root = host.cgroup_v1_roots.get("cpuset");
    if let Some(root) = v1_root.filter(|_| host.has(Feature::CpusetV1)) {
        return confine_in_v1(plan, root, view);
    }
    let v2_root = host.cgroup_v2_root.as_deref();
    let v2_root = v2_root.filter(|_| host.has(Feature::CpusetV2));
    let v2_root = v2_root.ok_or("no cgroup hierarchy here has the cpuset controller")?;
    confine_in_v2(plan, v2_root)
}

/// A cpuset that is to be made, below the one that its members are in now, so that its limits go on
/// holding.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Cpuset {
    home: PathBuf,
    cpus: CpuSet,
}

fn confine_in_v1(plan: &mut Plan, root: &Path, view: &dyn KernelView) -> Result<String, String> {
    let single = plan.request.target.single_threads().is_some();
    let mut members: BTreeMap<Cpuset, Vec<u32>> = BTreeMap::new();
    let mut homes: BTreeMap<u32, PathBuf> = BTreeMap::new();
    for (tid, cpus) in pinned_threads(plan) {
        // A thread that ends meanwhile need not be confined.
        let (Ok(pid), Ok(at)) = (view.process_of(tid), view.cgroup_of(tid, root)) else {
            continue;
        };
        let home = home_of(at);
        if !single && *homes.entry(pid).or_insert_with(|| home.clone()) != home {
            return Err(format!(
                "the threads of process {pid} are in several cpusets"
            ));
        }
        let subject = if single { tid } else { pid };
        let inside = members.entry(Cpuset { home, cpus }).or_default();
        if inside.last() != Some(&subject) && !inside.contains(&subject) {
            inside.push(subject);
        }
    }
    let several = members.len() > 1;
    let (mut changes, mut lines) = (Vec::new(), Vec::new());
    for (cpuset, subjects) in members {
        let nodes = check_room(&cpuset, view)?;
        let list = cpu_list(&cpuset.cpus);
        let name = match several {
            true => format!("{PREFIX}{}@{list}", plan.request.domain),
            false => format!("{PREFIX}{}", plan.request.domain),
        };
        let directory = cpuset.home.join(name);
        lines.push(format!(
            "CPUs {list} -> {}/cpuset.cpus",
            directory.display()
        ));
        changes.push(Change::mkdir(&directory));
        changes.push(Change::write(&directory, "cpuset.cpus", list));
        changes.push(Change::write(&directory, "cpuset.mems", nodes));
        changes.extend(subjects.into_iter().map(|id| enter(single, id, &directory)));
    }
    // After the affinities, so that what they were is put back once the cpuset is left.
    let pinning = |change: &Change| matches!(change, Change::SetAffinity { .. });
    let place = plan.changes.iter().rposition(pinning);
    let place = place.map_or(plan.changes.len(), |last| last + 1);
    plan.changes.splice(place..place, changes);
    Ok(format!(
        "{}; its threads cannot leave them",
        lines.join("; ")
    ))
}

/// The threads that the plan pins, with their CPUs.
fn pinned_threads(plan: &Plan) -> Vec<(u32, CpuSet)> {
    let pinned = plan.changes.iter().filter_map(|change| match change {
        Change::SetAffinity { tid, cpus } => Some((*tid, cpus.clone())),
        _ => None,
    });
    pinned.collect()
}

/// The cpuset to make another one in: where a thread is, unless that is one that was made for its domain.
fn home_of(at: PathBuf) -> PathBuf {
    let name = at.file_name().and_then(|name| name.to_str());
    let ours = name.is_some_and(|name| name.starts_with(PREFIX));
    match at.parent() {
        Some(above) if ours => above.to_owned(),
        _ => at,
    }
}

/// The memory nodes for a cpuset, if the kernel will take its CPUs.
fn check_room(cpuset: &Cpuset, view: &dyn KernelView) -> Result<String, String> {
    let shown = cpuset.home.display();
    let read = |directory: &Path, name: &str| {
        let text = view.read_file(&directory.join(name));
        text.map_err(|error| format!("{}/{name}: {error}", directory.display()))
    };
    let offered = cpus_of(&read(&cpuset.home, "cpuset.cpus")?);
    if !cpuset.cpus.is_subset(&offered) {
        return Err(format!("{shown} has only CPUs {}", cpu_list(&offered)));
    }
    let below = view.cgroups_below(&cpuset.home);
    for beside in below.map_err(|error| format!("{shown}: {error}"))? {
        let exclusive = read(&beside, "cpuset.cpu_exclusive").is_ok_and(|text| text.trim() == "1");
        let theirs = read(&beside, "cpuset.cpus").map(|text| cpus_of(&text));
        if exclusive && theirs.is_ok_and(|theirs| !theirs.is_disjoint(&cpuset.cpus)) {
            return Err(format!("{} has its CPUs to itself", beside.display()));
        }
    }
    read(&cpuset.home, "cpuset.mems")
}

fn cpus_of(text: &str) -> CpuSet {
    let listed = parse_cpu_list(text).unwrap_or_default();
    listed.into_iter().map(Cpu).collect()
}

fn enter(single: bool, id: u32, directory: &Path) -> Change {
    let directory = directory.to_owned();
    match single {
        true => Change::MoveThread {
            tid: id,
            directory,
            legacy: true,
        },
        false => Change::MoveProcess { pid: id, directory },
    }
}

/// Gives the domain's own group in cgroup v2 the cpuset controller.
fn confine_in_v2(plan: &mut Plan, root: &Path) -> Result<String, String> {
    let [manager] = plan.managers.as_slice() else {
        return Err("cgroup v2 confines groups of whole processes".into());
    };
    let directory = manager.cgroup.clone();
    let own = directory.parent().unwrap_or(root).to_owned();
    if own.parent() != Some(root) {
        // A group that has processes gives its groups no controllers.
        return Err(format!("{} is in the group of a service", own.display()));
    }
    let is_made = |change: &Change| matches!(change, Change::MakeCgroup { directory: made } if *made == directory);
    let made = plan.changes.iter().position(is_made);
    let (Some(made), Target::Processes(_)) = (made, &plan.request.target) else {
        return Err("cgroup v2 confines groups of whole processes".into());
    };
    let list = cpu_list(&plan.request.interface.cpus);
    let cpuset = [
        Change::write(root, "cgroup.subtree_control", "+cpuset"),
        Change::write(&own, "cgroup.subtree_control", "+cpuset"),
        Change::write(&directory, "cpuset.cpus", list.as_str()),
    ];
    plan.changes.splice(made + 1..made + 1, cpuset);
    // Before the moves, so that what the affinities were is put back once the cpuset is left.
    let changes = std::mem::take(&mut plan.changes);
    let pinning = |change: &Change| matches!(change, Change::SetAffinity { .. });
    let (pinned, others): (Vec<_>, Vec<_>) = changes.into_iter().partition(pinning);
    plan.changes = pinned.into_iter().chain(others).collect();
    Ok(format!(
        "CPUs {list} -> {}/cpuset.cpus; its threads cannot leave them",
        directory.display()
    ))
}
