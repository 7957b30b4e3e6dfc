//! Recorded schedules of the kernel as workloads: when each job of a thread was released, and how
//! long it ran.
//!
//! Read are the texts of ftrace (`/sys/kernel/tracing/trace`), `trace-cmd report` and
//! `perf script --show-lost-events` (without that option, perf does not tell that events were lost), of
//! the events `sched_switch` and `sched_wakeup` (also `sched_waking`, `sched_wakeup_new`), and entry and exit of
//! `irq_handler` and `softirq`; other events are passed over. A job is released when the thread is woken, the first time if it is woken
//! twice, and done when it goes to sleep; its execution time is what it had of a CPU in between,
//! less what recorded interrupts and softirqs took meanwhile.
//! Where a kernel does not record switches away from the idle thread of a CPU (seen on Linux 6.18 on
//! all CPUs but the first of a virtual machine), a thread that stops there began at its wake-up.

mod events;
mod interruptions;
mod job_statistics;
mod jobs;
mod reader;
mod trace_model;

use std::fmt::Write as _;
use std::path::PathBuf;

use tailbound_time::Duration;

pub use events::{TracedEvent, TracedEventKind, TracedInterrupt, TracedThread};
pub use interruptions::RecordedInterference;
pub use job_statistics::{Autocorrelation, PeriodFit};
pub use jobs::{Recorded, recorded_jobs, recorded_trace};
pub use reader::{RecordedJob, RecordedTrace, ThreadSelection, TraceReader};
pub use trace_model::{ModelledSource, ModelledTask, TraceModel};

use crate::BackendKind;
use crate::description::{
    Arrivals, Builtin, Description, Domain, DomainKind, ExecutionTime, Experiment, Reservation,
    Service, Task,
};
use crate::host::Host;
use crate::interface::Cpu;
use crate::schema::as_name;

/// The jobs as a CSV that [`crate::parse_jobs`] reads: `release_ns,execution_ns,response_ns`. It leaves
/// the recorded response times aside; they are there to compare others with.
pub fn jobs_csv(recorded: &Recorded) -> String {
    let mut text = String::from("release_ns,execution_ns,response_ns\n");
    for (job, response_time) in recorded.jobs.iter().zip(&recorded.response_times) {
        let _ = writeln!(
            text,
            "{},{},{}",
            job.release.as_nanos(),
            job.execution.unwrap_or(Duration::ZERO).as_nanos(),
            response_time.as_nanos()
        );
    }
    text
}

/// A description whose one task does what was recorded, on a CPU of its own; `jobs_file` is where the
/// jobs are, as seen from the description.
pub fn description(recorded: &Recorded, jobs_file: PathBuf) -> Description {
    let first = recorded.threads.values().next();
    let name = match first.map(|comm| as_name(comm)) {
        // The kernel has a file of the name `tasks` in every group.
        Some(name) if !name.is_empty() && name != "tasks" => name,
        _ => "recorded".into(),
    };
    let host = Host::of([Cpu(0)].into());
    let task = Task::of(Arrivals::Trace { file: jobs_file }, ExecutionTime::Trace {});
    let service = Service::of(name.clone(), "unix:recorded.sock", [("job", task)]);
    let threads: Vec<String> = recorded
        .threads
        .iter()
        .map(|(pid, comm)| format!("{comm} ({pid})"))
        .collect();
    let seconds = recorded.length.as_nanos().div_ceil(1_000_000_000).max(1);
    let about = format!("Recorded by the kernel: {}.", threads.join(", "));
    Description {
        hosts: [("local".to_string(), host)].into(),
        domains: [(name.clone(), domain())].into(),
        services: [(name.clone(), service)].into(),
        experiment: Experiment {
            duration: Duration::from_secs(seconds),
            // What was recorded begins at once.
            warm_up: Duration::from_nanos(1),
            ..Experiment::default()
        },
        ..Description::named(name, about)
    }
}

fn domain() -> Domain {
    Domain {
        builtin: Some(Builtin::SyntheticService),
        reservation: Some(Reservation::on(BackendKind::Dedicated, [Cpu(0)].into())),
        ..Domain::of(DomainKind::Process)
    }
}
