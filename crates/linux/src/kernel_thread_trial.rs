//! A trial of what budgets for threads of the kernel need, on one of those threads.
//!
//! Everything is asked for as it is already: the policy that the thread has, the CPUs that it may run on, the cgroups that
//! it is in. The kernel checks each as any other request, and a request without a difference changes nothing.

use std::fs;
use std::io;

use serde::Serialize;

use crate::cgroup::Hierarchy;
use crate::interrupts::threads_named;
use crate::scheduling::{affinity_of, scheduling_of, set_affinity, set_scheduling};

/// Beginnings of the names of threads that are tried, the most telling first: threads of interrupts, and threads that every
/// kernel has and that interrupts do not need.
const TRIED: [&str; 5] = ["napi/", "irq/", "kcompactd", "khugepaged", "kswapd"];

/// What one thread of the kernel was found to allow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelThreadTrial {
    /// The name of the thread; `None` where no thread of the kernel is seen, such as in a container.
    pub thread: Option<String>,
    /// Why its policy or its CPUs cannot be set, if so.
    pub scheduling: Option<String>,
    /// Why it cannot be put into a group of cgroup v2, if so.
    pub unified_group: Option<String>,
    /// Why it cannot be put into a group of the v1 controller of CPU time, if so.
    pub cpu_group: Option<String>,
}

impl KernelThreadTrial {
    /// Tries the first thread that is there.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn carry_out(hierarchies: &[Hierarchy]) -> io::Result<Self> {
        for beginning in TRIED {
            let threads = threads_named(|name| name.starts_with(beginning))?;
            if let Some(&tid) = threads.first() {
                return Ok(Self::of(tid, hierarchies));
            }
        }
        Ok(Self::default())
    }

    fn of(tid: u32, hierarchies: &[Hierarchy]) -> Self {
        let name = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
        let unified = hierarchies.iter().find(|one| one.unified);
        let by_cpu = |one: &&Hierarchy| one.controllers.iter().any(|name| name == "cpu");
        let cpu = hierarchies.iter().find(by_cpu);
        let why = |outcome: io::Result<()>| outcome.err().map(|error| error.to_string());
        Self {
            thread: Some(name.trim_end().to_owned()),
            scheduling: why(schedule_as_before(tid)),
            unified_group: why(put_where_it_is(tid, unified, "cgroup.procs")),
            cpu_group: why(put_where_it_is(tid, cpu, "tasks")),
        }
    }

    /// Whether a thread of the kernel was seen and can be scheduled anew.
    pub fn allows_scheduling(&self) -> bool {
        self.thread.is_some() && self.scheduling.is_none()
    }
}

fn schedule_as_before(tid: u32) -> io::Result<()> {
    set_scheduling(tid, scheduling_of(tid)?)?;
    set_affinity(tid, &affinity_of(tid)?)
}

fn put_where_it_is(tid: u32, hierarchy: Option<&Hierarchy>, file: &str) -> io::Result<()> {
    let hierarchy =
        hierarchy.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is not mounted"))?;
    let file = hierarchy.cgroup_of(tid)?.join(file);
    fs::write(file, tid.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cgroup::hierarchies;
    use crate::interrupts::is_kernel_thread;

    /// A trial on our own thread, which may always be scheduled as it is, leaves it as it was.
    #[test]
    fn a_trial_changes_nothing() {
        let own = std::process::id();
        assert!(!is_kernel_thread(own));
        let before = (scheduling_of(own).unwrap(), affinity_of(own).unwrap());
        let trial = KernelThreadTrial::of(own, &hierarchies().unwrap());
        assert_eq!(trial.scheduling, None);
        assert!(trial.allows_scheduling());
        let after = (scheduling_of(own).unwrap(), affinity_of(own).unwrap());
        assert_eq!(before, after);
    }

    #[test]
    fn what_is_refused_is_told() {
        let trial = KernelThreadTrial::of(u32::MAX, &[]);
        assert!(trial.scheduling.is_some() && !trial.allows_scheduling());
        assert_eq!(trial.cpu_group.as_deref(), Some("it is not mounted"));
        assert!(!KernelThreadTrial::default().allows_scheduling());
    }
}
