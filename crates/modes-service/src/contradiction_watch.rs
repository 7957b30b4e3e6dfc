//! Looks at the tasks that agents say are stopped.
//!
//! Between changes, and no more often than the thread of the modes wakes anyway: a system call or a small file
//! for each task that is said to be stopped, and nothing for the others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tailbound_linux::cgroup::{hierarchies, read_control};
use tailbound_linux::clock::cpu_time_of_process;
use tailbound_linux::process::process_started;
use tailbound_model::TaskProcesses;
use tailbound_modes::change_phases::contradiction;
use tailbound_modes::contradictions::{
    Contradiction, ContradictionNews, ContradictionPatience, Contradictions, TaskSight,
};
use tailbound_modes::manager::Report;
use tailbound_modes::table::ModeTable;
use tailbound_modes::transition::StepKind;
use tailbound_subsystem::process_identity::{StartTimes, is_same};
use tailbound_time::{Duration, Instant};
use tracing::{info, warn};

/// Between two looks, at least.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The tasks that the host can look at.
pub(crate) struct ContradictionWatch {
    tasks: Vec<OneTask>,
    contradictions: Contradictions,
    /// How often a task of each domain was found to run.
    counts: BTreeMap<String, u64>,
    next: Instant,
}

/// A task, and what runs it.
struct OneTask {
    domain: String,
    task: String,
    patience: ContradictionPatience,
    /// With the times at which they started, since numbers are given anew.
    processes: BTreeMap<u32, u64>,
    /// The directory of its cgroup.
    cgroup: Option<PathBuf>,
}

impl ContradictionWatch {
    /// At the tasks of a table, whose processes were started then where that is known already.
    pub(crate) fn of(table: &ModeTable, started: &StartTimes) -> Self {
        let root = unified_root();
        let domains = table.seen().iter();
        let tasks = domains.flat_map(|(domain, tasks)| {
            let starts = started.get(domain);
            let root = &root;
            let patience = ContradictionPatience::of(
                table.longest_period(domain),
                table.longest_offset(domain),
            );
            tasks.iter().map(move |(task, what)| OneTask {
                domain: domain.clone(),
                task: task.clone(),
                patience,
                processes: processes(what, starts),
                cgroup: what
                    .cgroup
                    .as_ref()
                    .zip(root.as_ref())
                    .map(|(path, root)| root.join(path)),
            })
        });
        let tasks: Vec<OneTask> = tasks.collect();
        let counts = tasks.iter().map(|one| (one.domain.clone(), 0));
        Self {
            counts: counts.collect(),
            tasks,
            contradictions: Contradictions::default(),
            next: Instant::ORIGIN,
        }
    }

    /// What was found, of each domain with tasks to look at.
    pub(crate) fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    /// The tasks that run though they are said to be stopped.
    pub(crate) fn contradictions(&self) -> Vec<Contradiction> {
        self.contradictions.all()
    }

    /// Looks once more, if it is time; whether something is otherwise than before. `said_stopped` tells since
    /// when the agent of a domain says that a task is stopped. What is found belongs to the last change, if
    /// the agent said it in that one.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        said_stopped: impl Fn(&str, &str) -> Option<Instant>,
        last: Option<&mut Report>,
    ) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now.saturating_add(LOOK_AGAIN_AFTER);
        let mut shown = Vec::new();
        for one in &self.tasks {
            let sight = said_stopped(&one.domain, &one.task).map(|said_at| TaskSight {
                said_at,
                used: one.used(),
            });
            let name = (one.domain.as_str(), one.task.as_str());
            shown.extend(self.contradictions.look(now, name, one.patience, sight));
        }
        for one in &shown {
            tell(one);
            if let ContradictionNews::Runs(contradiction) = one {
                *self.counts.entry(contradiction.domain.clone()).or_default() += 1;
            }
        }
        if let Some(report) = last {
            add(report, &shown);
        }
        !shown.is_empty()
    }
}

fn tell(shown: &ContradictionNews) {
    match shown {
        ContradictionNews::Runs(Contradiction {
            domain,
            task,
            used,
            within,
            ..
        }) => warn!(
            "the agent of \"{domain}\" {}; its reservation bounds it",
            contradiction(task, *used, *within)
        ),
        ContradictionNews::Ends { domain, task } => {
            info!("task `{task}` of \"{domain}\" no longer runs against its agent's word")
        }
    }
}

/// Adds what was found to the course of the change in which it was said.
fn add(report: &mut Report, shown: &[ContradictionNews]) {
    let Some(began_at) = report.timeline.began_at else {
        return;
    };
    for one in shown {
        if let ContradictionNews::Runs(contradiction) = one
            && contradiction.said_at >= began_at
        {
            let kind = StepKind::Contradicted {
                task: contradiction.task.clone(),
                used: contradiction.used,
                within: contradiction.within,
            };
            report
                .timeline
                .note(contradiction.seen_at, &contradiction.domain, kind);
        }
    }
}

/// Its processes, but those that are not there.
fn processes(what: &TaskProcesses, starts: Option<&BTreeMap<u32, u64>>) -> BTreeMap<u32, u64> {
    let start_of = |pid: &u32| starts.and_then(|them| them.get(pid)).copied();
    let pids = what.pids.iter();
    let started = |pid: &u32| start_of(pid).or_else(|| process_started(*pid).ok());
    pids.filter_map(|pid| Some((*pid, started(pid)?))).collect()
}

fn unified_root() -> Option<PathBuf> {
    let hierarchies = hierarchies().ok()?;
    let unified = hierarchies
        .into_iter()
        .find(|hierarchy| hierarchy.unified)?;
    Some(unified.root)
}

impl OneTask {
    /// The CPU time of all that is there of it.
    fn used(&self) -> Option<Duration> {
        let there = self.processes.keys();
        let there = there.filter(|pid| is_same(**pid, &self.processes));
        let processes = there.filter_map(|pid| cpu_time_of_process(*pid).ok());
        let group = self
            .cgroup
            .iter()
            .filter_map(|directory| cpu_time_of_group(directory));
        processes.chain(group).reduce(Duration::saturating_add)
    }
}

/// The CPU time of all that is and was in a cgroup v2, and below it; none if there is no such cgroup.
fn cpu_time_of_group(directory: &Path) -> Option<Duration> {
    let text = read_control(&directory.join("cpu.stat")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "))?;
    line.trim().parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn own(started: Option<u64>) -> OneTask {
        let pid = std::process::id();
        let starts = started.map(|at| [(pid, at)].into());
        let what = TaskProcesses {
            pids: vec![pid],
            cgroup: None,
        };
        OneTask {
            domain: "arm".into(),
            task: "move".into(),
            patience: ContradictionPatience::of(Duration::ZERO, Duration::ZERO),
            processes: processes(&what, starts.as_ref()),
            cgroup: None,
        }
    }

    #[test]
    fn the_time_of_a_process_is_that_of_no_other_one_of_its_number() {
        let before = own(None).used().unwrap();
        assert!(before > Duration::ZERO);
        let at = process_started(std::process::id()).unwrap();
        assert!(own(Some(at)).used().unwrap() >= before);
        assert_eq!(own(Some(at + 1)).used(), None);
    }

    #[test]
    fn the_time_of_a_cgroup_is_its_usage() {
        let directory = tempfile::tempdir().unwrap();
        let group = directory.path();
        assert_eq!(cpu_time_of_group(group), None);
        let stat = group.join("cpu.stat");
        std::fs::write(&stat, "nice_usec 5\nusage_usec 1234\nuser_usec 1000\n").unwrap();
        assert_eq!(cpu_time_of_group(group), Some(Duration::from_micros(1_234)));
        let both = OneTask {
            cgroup: Some(group.to_owned()),
            processes: BTreeMap::new(),
            ..own(None)
        };
        assert_eq!(both.used(), Some(Duration::from_micros(1_234)));
        std::fs::write(&stat, "user_usec 1000\n").unwrap();
        assert_eq!(cpu_time_of_group(group), None);
    }
}
