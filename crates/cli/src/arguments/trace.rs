//! What can be recorded of the kernel, and asked of a recording.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, Command, FromArgMatches, Subcommand, ValueEnum};
use tailbound_time::Duration;

use super::{ExportArguments, LockTraceArguments, RunArguments, TriggerArguments};
use crate::failure::Failure;

/// Record what the kernel schedules, and look into recordings.
#[derive(Debug, Args)]
pub struct TraceArguments {
    /// What is asked.
    #[command(subcommand)]
    pub what: TraceWhat,
}

/// What is asked of recordings.
#[derive(Debug, Subcommand)]
pub enum TraceWhat {
    /// Record the kernel's events while a command or processes run, or the experiment of a description.
    Record(TraceRecordArguments),
    /// What a recording holds: events, CPU time of threads and domains, interrupts, stalls, losses.
    Report(TraceReportArguments),
    /// Write a recording in a format that other tools read.
    Export(TraceExportArguments),
    /// How a command uses the locks of POSIX threads: nesting, hold times, waits, by lock and by place.
    ///
    /// The command is started with a library (LD_PRELOAD) that records mutexes, read-write locks, condition variables
    /// and spin locks of the command and of programs that it starts. Programs without libc, and locks that a program
    /// makes of atomics and futexes on its own, are not seen. The exit status is the command's.
    Locks(LockTraceArguments),
    /// The triggers of a running process, and to switch them on or off.
    Triggers(TriggerArguments),
    /// A description of what a recording holds: tasks that do what threads did, and interference.
    Model(TraceModelArguments),
}

/// Arguments of `trace record`.
#[derive(Debug, Args)]
pub struct TraceRecordArguments {
    /// A description (TOML): its experiment is run and recorded, as by `tailbound run --trace`.
    #[arg(conflicts_with_all = ["command", "pid", "output", "domains", "duration"])]
    pub file: Option<PathBuf>,
    /// The file of the recording.
    #[arg(short, long, default_value = "tailbound.trace", value_name = "FILE")]
    pub output: PathBuf,
    /// Only these of the domains that are in force have their system calls recorded; all if left out.
    #[arg(long, value_delimiter = ',', value_name = "DOMAIN,...")]
    pub domains: Vec<String>,
    /// A process that runs already; its system calls and those of its children are recorded. May be repeated.
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Vec<u32>,
    /// How long; until the command or the processes end, or Ctrl-C, if left out.
    #[arg(short, long)]
    pub duration: Option<Duration>,
    /// KiB of the kernel's buffer for each CPU; 16384 if left out, and on hosts with more than 32 CPUs less.
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(64..=4_194_304))]
    pub buffer: Option<u64>,
    /// Do not sample stalls: no real-time thread of ours runs, and stalls of the host are not told from execution.
    #[arg(long)]
    pub no_stalls: bool,
    /// Record waits for locks of the kernel, too, which may be many.
    #[arg(long)]
    pub contention: bool,
    /// Record every lock that the kernel takes, too, for `trace locks FILE`: millions of events a second, which slow
    /// the kernel down. Needs probes of the kernel's functions (CONFIG_KPROBE_EVENTS).
    #[arg(long)]
    pub kernel_locks: bool,
    /// The command and its arguments.
    #[arg(last = true)]
    pub command: Vec<String>,
}

/// Arguments of `trace report`.
#[derive(Debug, Args)]
pub struct TraceReportArguments {
    /// The recording.
    pub file: PathBuf,
    /// Where the answer is written to.
    #[command(flatten)]
    pub export: ExportArguments,
}

/// Arguments of `trace model`.
#[derive(Debug, Args)]
pub struct TraceModelArguments {
    /// The recording, or the text of ftrace, trace-cmd report or perf script --show-lost-events.
    pub file: PathBuf,
    /// The threads that tasks are made of, by number; all but the kernel's own if neither number nor name is given.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// The threads that tasks are made of, by name.
    #[arg(long)]
    pub comm: Option<String>,
    /// The name of the host in the description.
    #[arg(long, default_value = "local")]
    pub host: String,
    /// Print only the interference of the host, to be put into a description.
    #[arg(long)]
    pub interference: bool,
    /// Where the answer is written to.
    #[command(flatten)]
    pub export: ExportArguments,
}

/// Arguments of `trace export`.
#[derive(Debug, Args)]
pub struct TraceExportArguments {
    /// The recording.
    pub file: PathBuf,
    /// The format.
    #[arg(long, value_enum)]
    pub to: TraceFileFormat,
    /// The file, or for CTF the folder, that is written.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// A schedule of the same description (HOST.cpuN.perfetto-trace of `tailbound simulate --export-schedule`), beside
    /// the recording; for Perfetto alone. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub simulated: Vec<PathBuf>,
    /// Events that a program recorded of itself meanwhile (`tailbound trace triggers PID record --format json`), beside
    /// the kernel's; not for trace-dat. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub triggers: Vec<PathBuf>,
}

/// Formats of other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFileFormat {
    /// For ui.perfetto.dev and Perfetto's trace processor.
    Perfetto,
    /// A line for each event.
    Csv,
    /// The Common Trace Format 1.8, for babeltrace2 and Trace Compass.
    Ctf,
    /// trace.dat of version 6, for trace-cmd and KernelShark.
    TraceDat,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// A recording, or the results of `tailbound run --trace`.
    pub path: PathBuf,
    /// Bounds of the bands of quantiles, in percent, ascending.
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,...")]
    pub bands: Vec<f64>,
    /// Explain the jobs of threads with this name, too: from waking up to sleeping. May be repeated. A described task that
    /// the threads do is named behind `=`; if left out, it is the only one that is called like the threads.
    #[arg(long, value_name = "NAME[=DOMAIN.TASK]")]
    pub thread: Vec<ThreadJobs>,
    /// The description whose simulation stands beside the jobs of threads; that of the run if left out.
    #[arg(long, value_name = "FILE", requires = "thread")]
    pub description: Option<PathBuf>,
    /// Where the answer is written to.
    #[command(flatten)]
    pub export: ExportArguments,
}

/// Threads whose jobs are explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadJobs {
    /// The name of the threads.
    pub thread: String,
    /// The described task whose jobs they do, as `DOMAIN.TASK`, where it is named.
    pub task: Option<String>,
}

impl FromStr for ThreadJobs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (thread, task) = match text.split_once('=') {
            None => (text, None),
            Some((thread, task)) => (thread, Some(task)),
        };
        if thread.is_empty() {
            return Err("no name of a thread; write one, such as control-loop".into());
        }
        if let Some(task) = task.filter(|task| !task.contains('.')) {
            return Err(format!(
                "\"{task}\" is no task of a domain; write DOMAIN.TASK, such as {thread}=loop.step"
            ));
        }
        Ok(Self {
            thread: thread.to_owned(),
            task: task.map(Into::into),
        })
    }
}

impl RunArguments {
    /// The arguments of `run FILE --trace`.
    ///
    /// # Errors
    /// None for a path that was an argument itself.
    pub fn of_traced_file(file: &Path) -> Result<Self, Failure> {
        let run = Self::augment_args(Command::new("run"));
        let words = [OsStr::new("run"), OsStr::new("--trace"), file.as_os_str()];
        let matches = run
            .try_get_matches_from(words)
            .map_err(Failure::from_error)?;
        Self::from_arg_matches(&matches).map_err(Failure::from_error)
    }
}
