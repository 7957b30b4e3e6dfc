//! What the simulation of a host found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailbound_distribution::Distribution;

/// What the simulation of a host found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostSimulation {
    /// The host.
    pub host: String,
    /// The seed of arrivals and execution times.
    pub seed: u64,
    /// What was simulated first and does not count.
    pub warm_up_ns: u64,
    /// What counts after it.
    pub duration_ns: u64,
    /// When the last job was done, or no more were waited for.
    pub ended_ns: u64,
    /// The domains, by name.
    pub domains: BTreeMap<String, DomainResult>,
    /// The services, by name: the response times of all their tasks together; none if no job of
    /// theirs was done.
    pub services: BTreeMap<String, Option<Distribution>>,
    /// The CPUs on which domains run.
    pub cpus: Vec<CpuResult>,
    /// What the simulation takes for granted.
    pub assumptions: Vec<String>,
    /// The times of all jobs of the domains' own tasks that publish or subscribe topics, by `domain/task`, each in the order
    /// of their begin, those of the warm-up included.
    #[serde(skip)]
    pub job_times: BTreeMap<String, Vec<JobTime>>,
}

/// The times of a job that is done, from the begin of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobTime {
    /// The release.
    pub release_ns: u64,
    /// The instant at which the job first ran.
    pub begin_ns: u64,
    /// The end.
    pub end_ns: u64,
}

/// What became of a domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DomainResult {
    /// The CPU time that it used, with the domains inside of it.
    pub used_ns: u64,
    /// The same as a share of one CPU.
    pub cpu_share: f64,
    /// How often work had to wait because a budget was used up.
    pub depletions: u64,
    /// Whether it runs below all reservations.
    pub background: bool,
    /// Whether its work piles up, and how that is known.
    pub growth: Option<Growth>,
    /// Its tasks, by service and name.
    pub tasks: Vec<TaskResult>,
}

/// How it is known that work piles up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Growth {
    /// The tasks need more in the long run than the reservation can give.
    Demand {
        /// What they need, as a share of a CPU.
        needed: f64,
        /// The most that they can get.
        given: f64,
    },
    /// More and more jobs waited in the second half of the time that counts.
    Measured {
        /// The fewest that waited in the second half's first quarter.
        before: u64,
        /// The fewest that waited in its last quarter.
        after: u64,
    },
    /// So many jobs waited that no more were released.
    CutOff {
        /// When.
        at_ns: u64,
    },
}

/// What became of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// Its service, if it has one.
    pub service: Option<String>,
    /// Its name.
    pub name: String,
    /// The virtual CPU of its domain.
    pub vcpu: Option<usize>,
    /// Jobs that were released in the time that counts.
    pub released: u64,
    /// Those of them that were not done at the end, long after that time.
    pub unfinished: u64,
    /// The deadline, or else the least distance between releases.
    pub deadline_ns: Option<u64>,
    /// Jobs that were done after it, or not at all.
    pub missed: u64,
    /// The share of one CPU that it used.
    pub cpu_share: f64,
    /// The longest response time.
    pub longest_ns: Option<u64>,
    /// The response times; none if no job was done.
    pub response_times: Option<Distribution>,
}

/// What became of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuResult {
    /// The CPU.
    pub cpu: u32,
    /// The share of the time in which jobs ran.
    pub busy_share: f64,
    /// The share of the time that the operating system took.
    pub overhead_share: f64,
    /// How often another job came onto the CPU than the one that was there last.
    pub context_switches: u64,
}

impl HostSimulation {
    /// Whether all deadlines were met and nothing piles up.
    pub fn is_fine(&self) -> bool {
        self.domains.values().all(|domain| {
            domain.growth.is_none() && domain.tasks.iter().all(|task| task.missed == 0)
        })
    }
}
