//! From a recording to a description: tasks that do what threads did, and the interference beside them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tailbound_time::{Duration, nanoseconds};

use super::domain;
use super::interruptions::RecordedInterference;
use super::job_statistics::{
    Autocorrelation, PeriodFit, bins_of, longest_distances, spaced_arrivals,
};
use super::reader::{RecordedJob, RecordedTrace};
use crate::description::{Description, Experiment, Scheduling, Service, Task};
use crate::host::Host;
use crate::interface::Cpu;
use crate::interference::{Interference, InterferenceKind};
use crate::schema::as_name;
use crate::workload::{Arrivals, Bin, ExecutionTime};
use crate::{BackendKind, Reservation};

/// A thread with fewer whole jobs makes no task.
const FEWEST_JOBS: usize = 3;

/// `ModelledTask` is what a recording says of one thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelledTask {
    /// The name of the task: the thread's, as a description can have it.
    pub name: String,
    /// The thread.
    pub pid: u32,
    /// The CPU that most of its jobs ended on.
    pub cpu: Cpu,
    /// The number of whole jobs.
    pub jobs: usize,
    /// The execution times.
    pub execution_times: Vec<Bin>,
    /// The arrivals, as the description has them.
    pub arrivals: Arrivals,
    /// The grid of the releases, where they keep to one.
    pub period: Option<PeriodFit>,
    /// The longest distances from one release to the next, to the one after it, and so on.
    #[serde(rename = "longest_distances_ns", serialize_with = "in_nanoseconds")]
    pub longest_distances: Vec<Duration>,
    /// The longest time from a wake-up to the begin of the execution.
    #[serde(rename = "longest_start_delay_ns", with = "nanoseconds")]
    pub longest_start_delay: Duration,
    /// The longest response time.
    #[serde(rename = "longest_response_ns", with = "nanoseconds")]
    pub longest_response: Duration,
    /// The autocorrelation of the execution times.
    pub autocorrelation: Autocorrelation,
}

/// `ModelledSource` is what a recording says of one source of interference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelledSource {
    /// The source as the description has it.
    #[serde(flatten)]
    pub interference: Interference,
    /// The number of events.
    pub events: usize,
    /// The share of the CPU that the source took.
    pub share: f64,
}

fn in_nanoseconds<S: serde::Serializer>(
    times: &[Duration],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(times.iter().map(|time| time.as_nanos()))
}

/// `TraceModel` is what a recording says of tasks and of interference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceModel {
    /// The tasks, by CPU and name.
    pub tasks: Vec<ModelledTask>,
    /// The sources of interference.
    pub interference: Vec<ModelledSource>,
    /// The length of the recording.
    #[serde(rename = "length_ns", with = "nanoseconds")]
    pub length: Duration,
    /// What is in no model, and why.
    pub left_out: Vec<String>,
}

impl TraceModel {
    /// The models of all chosen threads and of all sources.
    pub fn of(trace: &RecordedTrace) -> Self {
        let mut model = Self {
            tasks: Vec::new(),
            interference: Vec::new(),
            length: trace.length,
            left_out: Vec::new(),
        };
        let mut by_thread: BTreeMap<u32, Vec<&RecordedJob>> = BTreeMap::new();
        for job in &trace.jobs {
            by_thread.entry(job.pid).or_default().push(job);
        }
        let mut few = 0;
        for (pid, comm) in &trace.threads {
            let jobs = by_thread.remove(pid).unwrap_or_default();
            match ModelledTask::of((*pid, comm), &jobs) {
                Some(task) => model.tasks.push(task),
                None => few += 1,
            }
        }
        if few > 0 {
            model.left_out.push(format!(
                "{few} threads with fewer than {FEWEST_JOBS} whole jobs, from a wake-up to the next sleep"
            ));
        }
        model.name_apart();
        model
            .tasks
            .sort_by(|a, b| (a.cpu, &a.name).cmp(&(b.cpu, &b.name)));
        for source in &trace.interference {
            match ModelledSource::of(source, trace.length) {
                Some(source) => model.interference.push(source),
                None => model.left_out.push(format!(
                    "{} on CPU {}: too few events for distances between them",
                    source.source, source.cpu
                )),
            }
        }
        model
    }

    /// Threads of one name get their numbers as well.
    fn name_apart(&mut self) {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for task in &self.tasks {
            *counts.entry(task.name.clone()).or_default() += 1;
        }
        for task in &mut self.tasks {
            if counts.get(&task.name).is_some_and(|count| *count > 1) {
                task.name = format!("{}-{}", task.name, task.pid);
            }
        }
    }

    /// The description of a host of that name with the interference, and a service on each CPU with the tasks that were
    /// there, on a CPU of its own. Rates decide the order of tasks where all have one.
    pub fn description(&self, name: &str, host: &str) -> Description {
        let of_tasks = self.tasks.iter().map(|task| task.cpu);
        let of_sources = self.interference.iter().map(|one| one.interference.cpu);
        let cpus: BTreeSet<Cpu> = of_tasks.chain(of_sources).collect();
        let mut described = Host::of(cpus);
        let sources = self.interference.iter();
        described.interference = sources.map(|one| one.interference.clone()).collect();
        let mut description = Description::named(name, "Derived from a recording of the kernel.");
        description.hosts = [(host.to_owned(), described)].into();
        let of_cpus: BTreeSet<Cpu> = self.tasks.iter().map(|task| task.cpu).collect();
        for cpu in of_cpus {
            let name = format!("cpu{cpu}");
            let here = self.tasks.iter().filter(|task| task.cpu == cpu);
            let tasks = here.map(|task| (task.name.clone(), task.task()));
            let mut service = Service::of(name.clone(), format!("unix:{name}.sock"), tasks);
            let mut all = service.tasks.values();
            if all.all(|task| task.least_gap().is_some()) {
                service.scheduling = Scheduling::RateMonotonic;
            }
            let mut domain = domain();
            domain.reservation = Some(Reservation::on(BackendKind::Dedicated, [cpu].into()));
            description.domains.insert(name.clone(), domain);
            description.services.insert(name, service);
        }
        let seconds = self.length.as_nanos().div_ceil(1_000_000_000).max(1);
        description.experiment = Experiment {
            duration: Duration::from_secs(seconds),
            ..Experiment::default()
        };
        description
    }
}

impl ModelledTask {
    fn of((pid, comm): (u32, &str), jobs: &[&RecordedJob]) -> Option<Self> {
        if jobs.len() < FEWEST_JOBS {
            return None;
        }
        let releases: Vec<u64> = jobs.iter().map(|job| job.release_ns).collect();
        let lengths: Vec<u64> = jobs.iter().map(|job| job.used_ns).collect();
        if lengths.iter().all(|length| *length == 0) {
            return None;
        }
        let period = PeriodFit::of(&releases);
        let arrivals = match period {
            Some(fit) => Arrivals::Periodic {
                period: fit.period,
                offset: Duration::ZERO,
            },
            None => spaced_arrivals(&releases)?,
        };
        let longest = |time: fn(&RecordedJob) -> u64| {
            let times = jobs
                .iter()
                .map(|job| time(job).saturating_sub(job.release_ns));
            Duration::from_nanos(times.max().unwrap_or(0))
        };
        let name = as_name(comm);
        Some(Self {
            // The kernel has a file of the name `tasks` in every group.
            name: match name.is_empty() || name == "tasks" {
                true => format!("thread-{pid}"),
                false => name,
            },
            pid,
            cpu: most_frequent(jobs.iter().filter_map(|job| job.cpu)),
            jobs: jobs.len(),
            execution_times: bins_of(&lengths),
            arrivals,
            period,
            longest_distances: longest_distances(&releases),
            longest_start_delay: longest(|job| job.start_ns),
            longest_response: longest(|job| job.completion_ns),
            autocorrelation: Autocorrelation::of(&lengths),
        })
    }

    /// The task of a description.
    pub fn task(&self) -> Task {
        let execution_time = ExecutionTime::Histogram {
            bins: self.execution_times.clone(),
            file: None,
        };
        let mut task = Task::of(self.arrivals.clone(), execution_time);
        task.jitter = self.period.map_or(Duration::ZERO, |fit| fit.jitter);
        task
    }
}

/// The CPU that comes most often; 0 where none is known.
fn most_frequent(cpus: impl Iterator<Item = u32>) -> Cpu {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for cpu in cpus {
        *counts.entry(cpu).or_default() += 1;
    }
    let most = counts
        .into_iter()
        .max_by_key(|(cpu, count)| (*count, u32::MAX - cpu));
    Cpu(most.map_or(0, |(cpu, _)| cpu))
}

impl ModelledSource {
    fn of(source: &RecordedInterference, length: Duration) -> Option<Self> {
        let instants: Vec<u64> = source
            .events
            .iter()
            .map(|event| event.release.as_nanos())
            .collect();
        let lengths = source.events.iter().filter_map(|event| event.execution);
        let lengths: Vec<u64> = lengths.map(Duration::as_nanos).collect();
        let longest = lengths
            .iter()
            .copied()
            .max()
            .filter(|longest| *longest > 0)?;
        let taken: u64 = lengths.iter().sum();
        Some(Self {
            interference: Interference {
                source: source.source.clone(),
                kind: source.kind,
                cpu: source.cpu,
                arrivals: spaced_arrivals(&instants)?,
                execution_time: ExecutionTime::Histogram {
                    bins: bins_of(&lengths),
                    file: None,
                },
                longest: Some(Duration::from_nanos(longest)),
                recorded: None,
            },
            events: source.events.len(),
            share: taken as f64 / length.as_nanos().max(1) as f64,
        })
    }

    /// The kind of the source.
    pub fn kind(&self) -> InterferenceKind {
        self.interference.kind
    }
}
