//! Recording the kernel's events while a variant is measured.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;

use tailbound_enforcement::{ReservationRequest, Target};
use tailbound_linux::cgroup::{cgroups_below, hierarchies, processes_in};
use tailbound_linux::host_facts::HostFacts;
use tailbound_linux::process::{process_of, with_descendants};
use tailbound_measurement::{
    LOOK_DISTANCE, Measurement, Progress, RecordOutcome, SupplyTrace, fingerprint,
};
use tailbound_recorder::{EventRecorder, RecordedLocks, RecorderError, RecorderOptions};
use tailbound_time::Duration;
use tailbound_trace::explain::{ExplainOptions, Explanation, PICTURED_QUANTILES, explain};
use tailbound_trace::recording::{
    KernelRecording, KernelRecordingError, RecordedConnection, RecordedDomain, RecordedInterface,
    RecordedLoad, RecordingEnd, RequestRow, SamplerDelay,
};

use crate::ExperimentError;

/// KiB of the kernel's buffer for each CPU, where nobody asks for another size: some hundred thousand events.
const BUFFER_KIB: u64 = 16 << 10;
/// KiB of all CPUs together: on hosts with more than 32 CPUs each has less.
const ALL_BUFFERS_KIB: u64 = 512 << 10;

/// KiB of the kernel's buffer for each of so many CPUs, where nobody asks for another size.
pub fn buffer_kib(cpus: usize) -> u64 {
    BUFFER_KIB.min(ALL_BUFFERS_KIB / (cpus.max(1) as u64))
}

/// The recordings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingPlan {
    /// The folder that they are written to.
    pub folder: PathBuf,
    /// When the run begins, RFC 3339 in UTC.
    pub started_at: String,
}

/// A variant's recording while it is measured.
#[derive(Debug)]
pub struct RunRecording {
    recorder: EventRecorder,
    path: PathBuf,
    serving: BTreeSet<u32>,
    has_seen_sockets: bool,
    /// Whether the connections could be noted.
    noted: Result<(), RecorderError>,
}

/// A recording that has ended.
#[derive(Clone, Debug)]
pub struct EndedRecording {
    /// The variant and the repetition.
    pub run: String,
    /// The file.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// What the recorder says of it.
    pub end: RecordingEnd,
}

impl RunRecording {
    /// Begins a recording of the CPUs of this host, with a name in its folder; the system calls of the domains' processes are in it.
    ///
    /// # Errors
    /// The kernel's events cannot be recorded, or the file not be written.
    pub fn begin(
        plan: &RecordingPlan,
        name: &str,
        domains: Vec<RecordedDomain>,
        own_cpu: Option<u32>,
    ) -> Result<Self, ExperimentError> {
        let path = plan.folder.join(format!("{name}.trace"));
        let failed = |cause: &dyn std::fmt::Display| ExperimentError::Write {
            file: path.display().to_string(),
            cause: cause.to_string(),
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|cause| failed(&cause))?;
        }
        let file = File::create(&path).map_err(|cause| failed(&cause))?;
        let serving: BTreeSet<u32> = domains
            .iter()
            .flat_map(|domain| domain.pids.clone())
            .collect();
        let cpus = HostFacts::of_this_host().online_cpus();
        let options = RecorderOptions {
            started_at: plan.started_at.clone(),
            host: fingerprint(),
            buffer_kib: buffer_kib(cpus.len()),
            cpus,
            call_pids: serving.clone(),
            domains,
            own_cpu,
            looks_apart: Some(LOOK_DISTANCE),
            locks: RecordedLocks::Nothing,
        };
        let recorder = EventRecorder::start(options, file)?;
        Ok(Self {
            recorder,
            path,
            serving,
            has_seen_sockets: false,
            noted: Ok(()),
        })
    }

    /// The load goes on. Once it has begun, all its connections are there, and the processes that a service makes for them.
    /// Where they cannot be noted, [`RunRecording::end`] says so.
    pub fn note_progress(&mut self, progress: &Progress) {
        let has_begun = !progress.elapsed.is_zero();
        if has_begun && !std::mem::replace(&mut self.has_seen_sockets, true) {
            self.noted = self.recorder.note_sockets(&self.serving);
        }
    }

    /// Writes the requests of a load into the recording.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note_load(
        &self,
        measured: &Measurement,
        domain: &str,
        run: &str,
        calibrated: Option<Duration>,
    ) -> Result<(), ExperimentError> {
        let connections = measured
            .connections
            .iter()
            .map(|connection| RecordedConnection {
                task: connection.task,
                client: connection.client,
                end: connection.end.clone(),
            });
        let load = RecordedLoad {
            service: measured.service.clone(),
            domain: domain.to_string(),
            run: run.to_string(),
            tasks: measured.tasks.clone(),
            connections: connections.collect(),
            generator: measured.generator_thread,
            calibrated,
            requests: measured.records.len() as u64,
        };
        let rows = measured.records.iter().map(|record| RequestRow {
            task: record.task,
            client: record.client,
            intended: record.intended,
            taken_up: record.taken_up,
            sent: record.sent,
            replied: record.replied,
            answered: record.outcome == RecordOutcome::Answered,
            warm_up: record.warm_up,
        });
        let rows: Vec<RequestRow> = rows.collect();
        Ok(self.recorder.note_load(&load, &rows)?)
    }

    /// Ends the recording, with the supply of CPUs that was sampled meanwhile.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(self, run: &str, supply: &[SupplyTrace]) -> Result<EndedRecording, ExperimentError> {
        self.noted?;
        for trace in supply {
            self.recorder
                .note_delays(trace.cpu.0, &sampler_delays(trace))?;
        }
        let end = self.recorder.stop(Vec::new())?;
        let bytes = std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
        Ok(EndedRecording {
            run: run.to_string(),
            path: self.path,
            bytes,
            end,
        })
    }
}

impl EndedRecording {
    /// The name of its file.
    pub fn file_name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// What it has cost, and what it lost.
    pub fn overhead(&self) -> Vec<String> {
        let lines = overhead_lines(&self.end, self.bytes).into_iter();
        lines
            .map(|line| format!("recording of {}: {line}", self.run))
            .collect()
    }

    /// What the requests of its loads waited for, in bands for a picture.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn explain(&self) -> Result<Vec<Explanation>, KernelRecordingError> {
        let recording = KernelRecording::open(File::open(&self.path)?)?;
        let options = ExplainOptions {
            quantiles: PICTURED_QUANTILES.to_vec(),
            ..ExplainOptions::default()
        };
        explain(&recording, &options)
    }
}

/// What recording has cost, and what it lost.
pub fn overhead_lines(end: &RecordingEnd, bytes: u64) -> Vec<String> {
    let lost = end.lost + end.dropped;
    let mut lines = vec![format!(
        "{} events, {} KiB; lost {lost}",
        end.events,
        bytes / 1024
    )];
    if let Some(cost) = end.event_cost {
        let events = Duration::from_nanos(cost.as_nanos().saturating_mul(end.events));
        lines.push(format!(
            "overhead: {cost} an event on this host, so {events} of CPU time in the recorded threads; {} in the \
             recorder's",
            end.recorder
        ));
    }
    if let Some(error) = end.clock_error {
        lines.push(format!(
            "clock: an event of the kernel lies within {} of a program's reading ({} pairs)",
            error.bound, error.samples
        ));
    }
    lines.extend(end.remarks.iter().cloned());
    lines
}

/// The late looks of a sampler, as a recording has them.
pub fn sampler_delays(trace: &SupplyTrace) -> Vec<SamplerDelay> {
    let gaps = trace.gaps.iter();
    gaps.map(|gap| SamplerDelay {
        cpu: trace.cpu.0,
        due: gap.due,
        woke: gap.due.saturating_add(gap.late),
    })
    .collect()
}

/// The domain of a recording that `target` is, under the reservation of `request`, if it has one.
pub fn recorded_domain(
    name: &str,
    target: Option<&Target>,
    request: Option<&ReservationRequest>,
) -> RecordedDomain {
    let traits = request.map(|request| request.backend.traits());
    let with_budget = traits.filter(|traits| traits.has_budget);
    let interface = request
        .filter(|_| with_budget.is_some())
        .map(|request| RecordedInterface {
            budget: request.interface.budget,
            period: request.interface.period,
        });
    RecordedDomain {
        name: name.to_string(),
        pids: target.map(processes_of).unwrap_or_default(),
        threads: target
            .and_then(Target::single_threads)
            .unwrap_or_default()
            .to_vec(),
        interface,
        frozen: with_budget.is_some_and(|traits| traits.has_manager),
        has_windows: request.is_some_and(|request| request.backend.has_windows()),
        replenished_by: with_budget
            .and_then(|traits| traits.replenishing_timer)
            .map(String::from),
    }
}

/// The processes of a target, with their descendants; of single threads, none.
fn processes_of(target: &Target) -> Vec<u32> {
    let processes = match target {
        Target::Processes(pids) => pids.clone(),
        Target::Cgroup(_) | Target::NamedCgroup(_) => {
            let unified = hierarchies().unwrap_or_default();
            let unified = unified.into_iter().find(|hierarchy| hierarchy.unified);
            let directory = unified
                .zip(target.cgroup())
                .map(|(unified, path)| unified.root.join(path));
            directory.map(processes_of_group).unwrap_or_default()
        }
        Target::Threads(_)
        | Target::Machine(_)
        | Target::XenDomain(_)
        | Target::Interrupts(_)
        | Target::Topics(_) => Vec::new(),
    };
    let processes: BTreeSet<u32> = processes.into_iter().collect();
    let all = with_descendants(&processes).unwrap_or(processes);
    all.into_iter().collect()
}

/// The processes of a cgroup and of those below it: a reserved container's are in a group of its own.
fn processes_of_group(group: PathBuf) -> Vec<u32> {
    let (mut processes, mut open) = (Vec::new(), vec![group]);
    while let Some(group) = open.pop() {
        processes.extend(processes_in(&group).unwrap_or_default());
        open.extend(cgroups_below(&group).unwrap_or_default());
    }
    processes
}

/// The processes whose system calls tell of domains: those of single threads, too.
pub fn call_processes(domains: &[RecordedDomain]) -> BTreeSet<u32> {
    let processes = domains.iter().flat_map(|domain| domain.pids.clone());
    let of_threads = domains.iter().flat_map(|domain| &domain.threads);
    let of_threads = of_threads.filter_map(|tid| process_of(*tid).ok());
    processes.chain(of_threads).collect()
}

/// The domains of a run, by their names.
pub type RecordedDomains = BTreeMap<String, RecordedDomain>;
