//! Who is meant by a target: its processes and threads as they are now.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Component, Path, PathBuf};

use tailbound_model::CpuSet;

use super::own_group;
use crate::backend::{NamedCgroup, ReservationRequest, Target};
use crate::error::PlanError;
use crate::kernel::KernelView;
use crate::{Change, SchedulingSetting};

/// The processes and threads of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TargetMembers {
    /// The processes; for single threads, those that they belong to.
    pub processes: Vec<u32>,
    /// The threads that the reservation is for.
    pub threads: Vec<u32>,
    /// The groups that hold them, if the target is a cgroup: that one, or some below it.
    pub groups: Vec<PathBuf>,
    /// The cgroup, absolute, if the target is one.
    pub cgroup: Option<PathBuf>,
}

impl TargetMembers {
    /// The changes that keep the threads on these CPUs.
    pub fn affinity_changes(&self, cpus: &CpuSet) -> impl Iterator<Item = Change> {
        self.threads.iter().map(|&tid| Change::SetAffinity {
            tid,
            cpus: cpus.clone(),
        })
    }

    /// The changes that put them into a group: single threads into one of cgroup v1, or whole processes.
    pub fn moves(&self, single: bool, directory: &Path) -> Vec<Change> {
        let directory = || directory.to_owned();
        let move_thread = |&tid: &u32| Change::MoveThread {
            tid,
            directory: directory(),
            legacy: true,
        };
        let move_process = |&pid: &u32| Change::MoveProcess {
            pid,
            directory: directory(),
        };
        match single {
            true => self.threads.iter().map(move_thread).collect(),
            false => self.processes.iter().map(move_process).collect(),
        }
    }

    /// The changes that give the threads a policy.
    pub fn policy_changes(&self, setting: SchedulingSetting) -> impl Iterator<Item = Change> {
        self.policy_changes_where(setting, |_| true)
    }

    /// The changes that give a policy to those threads of which something is true.
    pub fn policy_changes_where(
        &self,
        setting: SchedulingSetting,
        chosen: impl Fn(u32) -> bool,
    ) -> impl Iterator<Item = Change> {
        let threads = self.threads.iter().filter(move |&&tid| chosen(tid));
        threads.map(move |&tid| Change::SetScheduling { tid, setting })
    }

    /// The processes whose later threads belong to the domain: none where it has single threads.
    pub fn heirs(self, request: &ReservationRequest) -> Vec<u32> {
        match request.target.single_threads() {
            Some(_) => Vec::new(),
            None => self.processes,
        }
    }

    /// The cgroups of v2 in which the processes are, or were before `domain` was reserved: a reservation that is being
    /// changed has moved them below.
    pub fn homes(&self, domain: &str, root: &Path, view: &dyn KernelView) -> BTreeSet<PathBuf> {
        let groups = self.processes.iter();
        let groups = groups.filter_map(|&pid| view.cgroup_of(pid, root).ok());
        let homes = groups.map(|at| {
            let before = at.parent().and_then(Path::parent);
            let before = before.filter(|before| own_group(before).join(domain) == at);
            before.map_or_else(|| at.clone(), Path::to_path_buf)
        });
        homes.collect()
    }

    /// Looks them up, and the descendants that processes of the target have already.
    pub fn with_descendants(
        request: &ReservationRequest,
        v2_root: Option<&Path>,
        view: &dyn KernelView,
    ) -> Result<Self, PlanError> {
        let mut members = Self::of(request, v2_root, view)?;
        if !matches!(request.target, Target::Processes(_)) {
            return Ok(members);
        }
        for (pid, _) in descendants(&members.processes, view) {
            // It may end meanwhile.
            let listed = view.threads_of(pid).unwrap_or_default();
            if !listed.is_empty() && view.started(pid).is_ok() {
                members.threads.extend(listed);
                members.processes.push(pid);
            }
        }
        members.processes.sort_unstable();
        members.threads.sort_unstable();
        Ok(members)
    }

    /// Looks them up. `v2_root` is needed for a target that is a cgroup.
    pub fn of(
        request: &ReservationRequest,
        v2_root: Option<&Path>,
        view: &dyn KernelView,
    ) -> Result<Self, PlanError> {
        let members = match &request.target {
            Target::Processes(pids) => Self::of_processes(request, pids, view)?,
            Target::Threads(tids) => Self::of_threads(request, tids, view)?,
            Target::Machine(machine) => Self::of_threads(request, &machine.vcpus, view)?,
            Target::Interrupts(interrupts) => Self::of_threads(request, &interrupts.threads, view)?,
            Target::Cgroup(path) | Target::NamedCgroup(NamedCgroup { cgroup: path, .. }) => {
                Self::of_cgroup(request, path, v2_root, view)?
            }
            Target::Topics(_) => {
                return Err(not_supported(
                    request,
                    "gives datagrams no CPU time",
                    "leave the back end to `none`",
                ));
            }
            Target::XenDomain(name) => {
                return Err(not_supported(
                    request,
                    format!("cannot reach into the Xen domain \"{name}\""),
                    "choose back end xen-rtds for it",
                ));
            }
        };
        if members.threads.is_empty() {
            return Err(PlanError::EmptyTarget(request.domain.clone()));
        }
        let own = view.own_process();
        if members.processes.contains(&own) {
            return Err(PlanError::Ourselves {
                domain: request.domain.clone(),
                pid: own,
            });
        }
        Ok(members)
    }

    fn of_processes(
        request: &ReservationRequest,
        pids: &[u32],
        view: &dyn KernelView,
    ) -> Result<Self, PlanError> {
        let (mut processes, mut threads) = (Vec::new(), Vec::new());
        for &pid in pids {
            let listed = view
                .threads_of(pid)
                .and_then(|listed| view.started(pid).map(|_| listed));
            threads.extend(listed.map_err(|error| unreadable(request, pid, &error))?);
            processes.push(pid);
        }
        processes.sort_unstable();
        processes.dedup();
        threads.sort_unstable();
        threads.dedup();
        Ok(Self {
            processes,
            threads,
            groups: Vec::new(),
            cgroup: None,
        })
    }

    fn of_threads(
        request: &ReservationRequest,
        tids: &[u32],
        view: &dyn KernelView,
    ) -> Result<Self, PlanError> {
        let (mut processes, mut threads) = (Vec::new(), Vec::new());
        for &tid in tids {
            let process = view
                .process_of(tid)
                .and_then(|process| view.started(tid).map(|_| process));
            processes.push(process.map_err(|error| unreadable(request, tid, &error))?);
            // In the order given: the first thread goes with the first CPU.
            if !threads.contains(&tid) {
                threads.push(tid);
            }
        }
        processes.sort_unstable();
        processes.dedup();
        Ok(Self {
            processes,
            threads,
            groups: Vec::new(),
            cgroup: None,
        })
    }

    fn of_cgroup(
        request: &ReservationRequest,
        path: &Path,
        v2_root: Option<&Path>,
        view: &dyn KernelView,
    ) -> Result<Self, PlanError> {
        let refuse = |reason: &str, remedy: &str| not_supported(request, reason, remedy);
        let root = v2_root
            .ok_or_else(|| refuse("finds no cgroup v2 here", "name the processes instead"))?;
        let below = path.strip_prefix("/").unwrap_or(path);
        let plain = below
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !plain || below.as_os_str().is_empty() {
            return Err(refuse(
                "takes no root cgroup and no \"..\"",
                "name the container's cgroup, relative to the cgroup v2 root",
            ));
        }
        let cgroup = root.join(below);
        if !view.has_directory(&cgroup) {
            return Err(refuse(
                &format!("finds no cgroup {}", cgroup.display()),
                "is the container running? see /proc/PID/cgroup",
            ));
        }
        let (mut unread, mut groups, mut threads) = (vec![cgroup.clone()], Vec::new(), Vec::new());
        while let Some(group) = unread.pop() {
            let refusal = |error| reading(request, &group, &error);
            let inside = view.threads_in(&group).map_err(refusal)?;
            unread.extend(view.cgroups_below(&group).map_err(refusal)?);
            if !inside.is_empty() {
                threads.extend(inside);
                groups.push(group);
            }
        }
        threads.sort_unstable();
        let mut processes: Vec<u32> = threads
            .iter()
            .filter_map(|&tid| view.process_of(tid).ok())
            .collect();
        processes.sort_unstable();
        processes.dedup();
        Ok(Self {
            processes,
            threads,
            groups,
            cgroup: Some(cgroup),
        })
    }

    /// Checks that moving each process within the hierarchy of `like` can be taken back: all its
    /// threads are in one cgroup.
    pub fn check_unsplit(
        &self,
        request: &ReservationRequest,
        like: &Path,
        view: &dyn KernelView,
    ) -> Result<(), PlanError> {
        for &pid in &self.processes {
            let home = view
                .cgroup_of(pid, like)
                .map_err(|error| unreadable(request, pid, &error))?;
            for tid in view.threads_of(pid).unwrap_or_default() {
                match view.cgroup_of(tid, like) {
                    Ok(at) if at != home => {
                        return Err(PlanError::SplitProcess {
                            domain: request.domain.clone(),
                            pid,
                        });
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// The living descendants of `pids`, each with its parent, parents first. A child in another cgroup than
/// its parent was put there by somebody, such as a container's runtime: neither it nor its descendants
/// belong to the domain.
pub(crate) fn descendants(pids: &[u32], view: &dyn KernelView) -> Vec<(u32, u32)> {
    let root = view.unified_root();
    let group = |pid| {
        root.as_deref()
            .and_then(|root| view.cgroup_of(pid, root).ok())
    };
    descendants_that(pids, view, |child, parent| group(child) == group(parent))
}

/// The living descendants of `pids` of whom, and of whose parents, `belongs` is true. We are none, whoever
/// started us.
pub(crate) fn descendants_that(
    pids: &[u32],
    view: &dyn KernelView,
    belongs: impl Fn(u32, u32) -> bool,
) -> Vec<(u32, u32)> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, parent) in view.parents().unwrap_or_default() {
        children.entry(parent).or_default().push(pid);
    }
    let mut seen: BTreeSet<u32> = pids.iter().copied().collect();
    seen.insert(view.own_process());
    let mut parents: VecDeque<u32> = pids.iter().copied().collect();
    let mut descendants = Vec::new();
    while let Some(parent) = parents.pop_front() {
        for child in children.remove(&parent).unwrap_or_default() {
            if !seen.contains(&child) && belongs(child, parent) {
                seen.insert(child);
                parents.push_back(child);
                descendants.push((child, parent));
            }
        }
    }
    descendants
}

fn unreadable(request: &ReservationRequest, id: u32, error: &io::Error) -> PlanError {
    if error.kind() == io::ErrorKind::NotFound {
        return PlanError::Gone {
            domain: request.domain.clone(),
            id,
        };
    }
    PlanError::Unreadable {
        domain: request.domain.clone(),
        what: format!("process or thread {id}"),
        reason: error.to_string(),
    }
}

pub(crate) fn reading(request: &ReservationRequest, path: &Path, error: &io::Error) -> PlanError {
    PlanError::Unreadable {
        domain: request.domain.clone(),
        what: path.display().to_string(),
        reason: error.to_string(),
    }
}

/// The error that a back end does not take such a target.
pub(crate) fn not_supported(
    request: &ReservationRequest,
    reason: impl Into<String>,
    remedy: impl Into<String>,
) -> PlanError {
    PlanError::TargetNotSupported {
        domain: request.domain.clone(),
        backend: request.backend,
        reason: reason.into(),
        remedy: remedy.into(),
    }
}
