//! What can be typed.

mod analyze;
mod annotations;
mod busy_host;
mod calibrated_run;
mod container_annotations;
mod descriptions;
mod file_part;
mod frequency;
mod history;
mod interface;
mod modes;
mod program_trace;
mod reservation;
mod route;
mod sample;
mod subject;
mod trace;
mod values;

#[cfg(test)]
mod flag_names;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tailbound_analysis::notation::{PeriodRange, percentile};
use tailbound_analysis::{CpuLimit, LimitStanza, Promise, SearchWatch};
use tailbound_assessment::prediction::PredictionQuery;
use tailbound_model::Percentile;
use tailbound_reservation::Rule;
use tailbound_time::{Duration, Rate};

pub use analyze::{AnalyzeArguments, TaskOrder};
pub use annotations::{ANNOTATION_PREFIX, AnnotatedReservation};
pub use busy_host::BusyHostArguments;
pub use calibrated_run::CalibratedRunArguments;
pub use container_annotations::{ContainerLimitArguments, NriPluginArguments, OciHookArguments};
pub use descriptions::{
    GenerateArguments, ImportArguments, ImportTool, KernelTraceArguments, SweepArguments,
};
pub use file_part::FilePart;
pub use frequency::{
    FrequencyArguments, FrequencyChoice, FrequencyModelArguments, ModelArguments, ModelWhat,
};
pub use history::HistoryArguments;
pub use interface::{ComponentScheduling, InterfaceArguments, ModelName};
pub use modes::{
    ChangeExportArguments, ModeAddArguments, ModeArguments, ModeLastArguments, ModeSetArguments,
    ModeWhat,
};
pub use program_trace::{LockTraceArguments, TriggerArguments, TriggerRequest};
pub use reservation::{OptionPlace, ReservationArguments};
pub use route::RouteArguments;
pub use sample::{ModelFormName, SampleArguments};
pub use subject::AnswerSubject;
pub use trace::{
    ExplainArguments, ThreadJobs, TraceArguments, TraceExportArguments, TraceFileFormat,
    TraceModelArguments, TraceRecordArguments, TraceReportArguments, TraceWhat,
};
use values::{limit_stanza, listen_address, probability, scale, scheduling, server_rule};

/// Predict, enforce and measure the latency of time-sensitive services on shared Linux hosts.
///
/// Exit status: 0 fine; 1 error, bad usage too; 2 the verdict failed (a promise was missed); 3 `size` or `predict` was
/// stopped by Ctrl-C or SIGTERM, and printed the best answer so far.
#[derive(Debug, Parser)]
#[command(
    name = "tailbound",
    version = version(),
    propagate_version = true,
    max_term_width = 100
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// How it is said.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// How a verb speaks, whichever it is.
#[derive(Debug, Args)]
pub struct OutputArguments {
    /// Form of the data on standard output.
    #[arg(long, global = true, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Say less: errors only.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// Release and engine: results are reproducible where both are the same.
fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let engine = tailbound_simulator::ENGINE;
        format!("{} (engine {engine})", env!("CARGO_PKG_VERSION"))
    });
    &VERSION
}

/// Form of machine-readable and human output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// JSON with a schema version and integer nanoseconds.
    Json,
    /// Comma-separated values with a header.
    Csv,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// What works on this host, why the rest does not, and what to do about it.
    Doctor(DoctorArguments),
    /// Whether a description is well-formed, fits its hosts, and is schedulable.
    Check(CheckArguments),
    /// The response times that the reservations of a description will give, or those of one queue.
    Predict(Box<PredictArguments>),
    /// The reservations that keep the promises of a description, or of one queue.
    Size(Box<SizeArguments>),
    /// Whether the tasks of a description, or those named, meet their deadlines; what CPUs can hold.
    Analyze(AnalyzeArguments),
    /// The least reservations on which tasks meet their deadlines, of a description or those named.
    Interface(InterfaceArguments),
    /// What becomes of every domain and task of a host, by discrete-event simulation.
    Simulate(SimulateArguments),
    /// Simulate a description with keys of it varied, on all cores.
    Sweep(SweepArguments),
    /// Measure an application under many reservations, and find the cheapest that keep its promises.
    Sample(SampleArguments),
    /// Put the reservations of a description, or that of a unit or container, into force until `revert`.
    Apply(ApplyArguments),
    /// Take reservations back and restore what they changed.
    Revert(RevertArguments),
    /// What is in force, and what it gave out.
    Status,
    /// The counts of the daemon, for Prometheus: once, or to whoever asks over HTTP.
    Metrics(MetricsArguments),
    /// Run a description's whole experiment, or one command under a reservation.
    Run(RunArguments),
    /// Pass messages on between data spaces, as the routes of a description say.
    Route(RouteArguments),
    /// Drive a service with open-loop load and measure its latency.
    Measure(MeasureArguments),
    /// How far two measured distributions are apart.
    Compare(CompareArguments),
    /// Record the kernel's events, the locks and the triggers of programs, and look into recordings.
    Trace(TraceArguments),
    /// What every slow request of a run waited for.
    Explain(ExplainArguments),
    /// Fit a model of execution times to recorded runs.
    Model(ModelArguments),
    /// Render a result document again: HTML, SVG, PNG or tables.
    Report(ReportArguments),
    /// Print the JSON Schema of the description file.
    Schema,
    /// Translate another tool's file into a description.
    Import(ImportArguments),
    /// Draw random sets of tasks, as descriptions or as rows.
    Generate(GenerateArguments),
    /// Reserve for a container as its annotations ask: the hook that OCI runtimes run.
    OciHook(OciHookArguments),
    /// Reserve for the containers of containerd or CRI-O as annotations of their pods ask, as their plugin.
    NriPlugin(NriPluginArguments),
    /// Programs of ours that run inside domains, and the one that makes manual pages.
    #[command(hide = true)]
    Internal(InternalArguments),
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// Sample the noise of these CPUs (such as `0` or `0,1`); all online ones if left out. Overheads are
    /// measured on the first one, and between it and the second.
    #[arg(short, long, value_delimiter = ',')]
    pub cpus: Vec<u32>,
    /// How long each CPU's noise is sampled, and each of five kinds of overheads.
    #[arg(short, long, default_value = "500ms")]
    pub duration: Duration,
    /// Measure what context switches, the scheduler, timer interrupts, the tick and migrations cost.
    #[arg(long)]
    pub measure_overheads: bool,
    /// Write the measured overheads as a table for a description (TOML).
    #[arg(long, value_name = "FILE", requires = "measure_overheads")]
    pub export_toml: Option<PathBuf>,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// The description (TOML).
    pub file: PathBuf,
    /// The description is for other machines: take its word for the CPUs that there are, and the limits of a kernel as
    /// it is installed.
    #[arg(long)]
    pub elsewhere: bool,
    /// The host of the description that this machine is; without it, the only one. Each other one is judged by its
    /// description alone.
    #[arg(long, value_name = "NAME", conflicts_with = "elsewhere")]
    pub host: Option<String>,
}

/// What else `predict` predicts.
#[derive(Debug, Subcommand)]
pub enum PredictWhat {
    /// How long a ZooKeeper ensemble recovers from a failed leader, against measured recoveries.
    Recovery(RecoveryArguments),
}

/// Arguments of `predict recovery`.
#[derive(Debug, Args)]
pub struct RecoveryArguments {
    /// The recovery breakdown (JSON) of our ZooKeeper server or of `bench/recovery`.
    pub breakdown: PathBuf,
    /// Percent added to what is estimated from measured recoveries.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub margin: u32,
    /// The CPU time on a busy host.
    #[command(flatten)]
    pub busy: BusyHostArguments,
    /// Where the answer is written to.
    #[command(flatten)]
    pub export: ExportArguments,
}

/// Arguments of `predict`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PredictArguments {
    /// Something other than response times.
    #[command(subcommand)]
    pub what: Option<PredictWhat>,
    /// The description (TOML), or a manifest of Kubernetes or Docker Compose (YAML, JSON) with the CPU limit of the queue
    /// that the options describe; without it, that queue alone.
    #[arg(conflicts_with_all = ["budget", "limit"])]
    pub file: Option<PathBuf>,
    /// The queue.
    #[command(flatten)]
    pub queue: QueueArguments,
    /// With a FILE: only this variant of the experiment.
    #[arg(long, requires = "file")]
    pub variant: Option<String>,
    /// Percentiles of all responses to tell.
    #[arg(long, value_delimiter = ',', default_value = "50,90,95,99,99.9", value_parser = percentile)]
    pub percentiles: Vec<Percentile>,
    /// Times for which the share of responses within is told.
    #[arg(long, value_delimiter = ',', value_name = "TIMES")]
    pub at: Vec<Duration>,
    /// A promise to judge, such as p99=30ms. With a description: its SLOs are judged.
    #[arg(long = "slo", value_delimiter = ',')]
    pub slos: Vec<Promise>,
    /// The run on a calibrated host.
    #[command(flatten)]
    pub on_host: CalibratedRunArguments,
    /// With a FILE: predict by the model of a campaign, the model.json of `tailbound sample`.
    #[arg(long, value_name = "MODEL", requires = "file")]
    pub model: Option<PathBuf>,
    /// With the model of a campaign: the form that predicts, in place of the one that is nearer to points that were left out.
    #[arg(long, value_enum, value_name = "FORM", requires = "model")]
    pub model_form: Option<ModelFormName>,
    /// With a FILE: write each distribution as CSV into this folder.
    #[arg(long, value_name = "DIR", requires = "file")]
    pub export_distributions: Option<PathBuf>,
    /// Write the distributions, the promises and the methods as an HTML page that needs no network.
    #[arg(long, value_name = "FILE")]
    pub export_html: Option<PathBuf>,
    /// Where the answer is written to.
    #[command(flatten)]
    pub export: ExportArguments,
    /// Other clock frequencies.
    #[command(flatten)]
    pub clocks: FrequencyArguments,
}

impl PredictArguments {
    /// The question about a description or a queue, under a watch.
    pub fn query<'a>(&'a self, watch: &'a dyn SearchWatch) -> PredictionQuery<'a> {
        PredictionQuery {
            service: self.queue.load.service.as_deref(),
            variant: self.variant.as_deref(),
            percentiles: &self.percentiles,
            times: &self.at,
            watch,
        }
    }
}

/// A queue on a reservation server, without a file.
#[derive(Debug, Args)]
pub struct QueueArguments {
    /// Its load.
    #[command(flatten)]
    pub load: LoadArguments,
    /// Budget of the server.
    #[arg(short, long, requires = "load")]
    pub budget: Option<Duration>,
    /// Period of the server, or of the quota of a limit (100ms if left out).
    #[arg(short, long)]
    pub period: Option<Duration>,
    /// In place of a server, a CPU limit (a CFS quota) as Kubernetes, Docker, systemd or cpu.max has it: 130m, 0.13, 13%,
    /// 13ms/100ms or "13000 100000".
    #[arg(
        long,
        value_name = "LIMIT",
        requires = "load",
        conflicts_with_all = ["server", "budget", "frequency_model"]
    )]
    pub limit: Option<CpuLimit>,
}

/// The load of a queue.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("load").args(["rate", "request_log"]).multiple(true))]
pub struct LoadArguments {
    /// Rate of the Poisson arrivals, such as 200/s.
    #[arg(short = 'R', long)]
    pub rate: Option<Rate>,
    /// Execution time of a request: 2ms, with probabilities 1ms:0.5,3ms:0.5, or a law: exponential:mean=2ms,
    /// lognormal:median=2ms,p99=9ms, uniform:min=1ms,max=3ms (each takes min= and max=).
    #[arg(long, value_name = "TIME", requires = "rate")]
    pub execution_time: Option<String>,
    /// Measured execution times, one per line, in place of --execution-time.
    #[arg(
        long,
        value_name = "FILE",
        requires = "rate",
        conflicts_with = "execution_time"
    )]
    pub execution_time_samples: Option<PathBuf>,
    /// A histogram of execution times in Prometheus's text format, and its name where the file has several, in place of
    /// --execution-time.
    #[arg(
        long,
        value_name = "FILE[:METRIC]",
        requires = "rate",
        conflicts_with_all = ["execution_time", "execution_time_samples"]
    )]
    pub execution_time_histogram: Option<FilePart>,
    /// A log of requests (an access log, or spans of OpenTelemetry) that tells rate and execution times, and the name of the
    /// service where the spans are of several; --rate replaces its rate.
    #[arg(
        long,
        value_name = "FILE[:SERVICE]",
        conflicts_with_all = ["execution_time", "execution_time_samples", "execution_time_histogram", "batch"]
    )]
    pub request_log: Option<FilePart>,
    /// With a FILE: only this service; of a manifest this container, or WORKLOAD/CONTAINER.
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// So many requests come at a time.
    #[arg(long, requires = "rate", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub batch: u32,
    /// The rule of the reservation server; deferrable if left out. With a FILE: in place of the rule
    /// of the back end.
    #[arg(long, value_parser = server_rule())]
    pub server: Option<Rule>,
}

/// Files that an answer is written to, beside standard output.
#[derive(Clone, Debug, Default, Args)]
pub struct ExportArguments {
    /// Write the answer as JSON.
    #[arg(long, value_name = "FILE")]
    pub export_json: Option<PathBuf>,
    /// Write the answer as CSV.
    #[arg(long, value_name = "FILE")]
    pub export_csv: Option<PathBuf>,
}

/// Arguments of `size`.
#[derive(Debug, Args)]
pub struct SizeArguments {
    /// The description (TOML), or a manifest of Kubernetes or Docker Compose (YAML, JSON) with the container whose load
    /// the options describe; without it, the queue that the options describe.
    pub file: Option<PathBuf>,
    /// The load.
    #[command(flatten)]
    pub load: LoadArguments,
    /// A promise, such as p99=30ms; several all have to hold. With a FILE: its SLOs are promised.
    #[arg(long = "slo", value_delimiter = ',')]
    pub slos: Vec<Promise>,
    /// The period of the reservation, or a range such as 1ms..100ms. With a FILE, if left out: a
    /// quarter to four times the described period.
    #[arg(short, long)]
    pub period: Option<PeriodRange>,
    /// The least CPU limit of a container (a CFS quota) in place of a reservation; its period is 100ms if left out. With
    /// a manifest it is what is asked for anyway.
    #[arg(long, conflicts_with = "server")]
    pub limit: bool,
    /// With a FILE: the major frame and the windows of a host's time partitions that meet the deadlines of tasks and chains,
    /// in place of budgets.
    #[arg(long, requires = "file", conflicts_with_all = ["limit", "slos", "period", "probability"])]
    pub frame: bool,
    /// With a FILE: the cheapest points of the model of a campaign, the model.json of `tailbound sample`.
    #[arg(long, value_name = "MODEL", requires = "file", conflicts_with_all = ["limit", "slos", "period", "probability", "frame"])]
    pub model: Option<PathBuf>,
    /// With the model of a campaign: the form that predicts, in place of the one that is nearer to points that were left out.
    #[arg(long, value_enum, value_name = "FORM", requires = "model")]
    pub model_form: Option<ModelFormName>,
    /// Of a frame: the step of frames, offsets and lengths of windows.
    #[arg(long, default_value = "500us", requires = "frame")]
    pub grid: Duration,
    /// Of a frame: the most windows of a partition in it, of any lengths and at any distances.
    #[arg(long, default_value_t = 1, value_name = "COUNT", requires = "frame",
        value_parser = clap::value_parser!(u64).range(1..=32))]
    pub most_windows: u64,
    /// Of a frame: the host, where several have time partitions.
    #[arg(long, value_name = "NAME", requires = "frame")]
    pub host: Option<String>,
    /// Of a limit: print only what sets it, with its margin.
    #[arg(long, value_name = "OF", value_parser = limit_stanza())]
    pub stanza: Option<LimitStanza>,
    /// How many periods of a range are looked at.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub points: u32,
    /// Percentage points that are added to the bandwidth for what the model leaves out.
    #[arg(long, default_value_t = 5.0, value_name = "POINTS")]
    pub margin_points: f64,
    /// With a FILE and a calibration: the share of runs of the described length in which every promise is kept at once,
    /// such as 0.97 or 97%, in place of keeping them in a run without end.
    #[arg(long, value_name = "SHARE", requires = "file", value_parser = probability)]
    pub probability: Option<f64>,
    /// The run on a calibrated host.
    #[command(flatten)]
    pub on_host: CalibratedRunArguments,
    /// Tell every period, not only those that nothing beats.
    #[arg(long)]
    pub all: bool,
    /// Write the whole grid of periods and bandwidths as an HTML page that needs no network.
    #[arg(long, value_name = "FILE")]
    pub export_html: Option<PathBuf>,
    /// Where the answer is written to.
    #[command(flatten)]
    pub export: ExportArguments,
}

/// Arguments of `simulate`.
#[derive(Debug, Args)]
pub struct SimulateArguments {
    /// The description (TOML).
    pub file: PathBuf,
    /// How much time is simulated and counted.
    #[arg(short, long, default_value = "1000s")]
    pub duration: Duration,
    /// How much is simulated before anything counts.
    #[arg(long, default_value = "0s")]
    pub warm_up: Duration,
    /// The mode that the system is in; the initial one if left out.
    #[arg(long)]
    pub mode: Option<String>,
    /// As in this variant of the experiment; as described if left out.
    #[arg(long)]
    pub variant: Option<String>,
    /// The seed, in place of the description's.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Percentiles to tell.
    #[arg(long, value_delimiter = ',', default_value = "50,99", value_parser = percentile)]
    pub percentiles: Vec<Percentile>,
    /// Write the response times of each task and service as CSV into this folder.
    #[arg(long, value_name = "DIR")]
    pub export_distributions: Option<PathBuf>,
    /// Write the schedule into this folder: a table of jobs and a trace for Perfetto for each plan
    /// (a CPU, or all of them), and a picture.
    #[arg(long, value_name = "DIR")]
    pub export_schedule: Option<PathBuf>,
    /// Where the picture of the schedule begins; after the warm-up if left out.
    #[arg(long, requires = "export_schedule", value_name = "TIME")]
    pub from: Option<Duration>,
    /// Where the picture of the schedule ends; 100 ms after its begin if left out.
    #[arg(long, requires = "export_schedule", value_name = "TIME")]
    pub until: Option<Duration>,
    /// Where the answer is written to.
    #[command(flatten)]
    pub export: ExportArguments,
}

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub struct ApplyArguments {
    /// The description (TOML); its reserved domains need `pids`, or a `unit`, `container` or `cgroup`.
    #[arg(required_unless_present = "subject", conflicts_with = "subject")]
    pub file: Option<PathBuf>,
    /// In place of a description, a unit of systemd that runs: a service, scope or slice.
    #[arg(long, value_name = "NAME", group = "subject")]
    pub unit: Option<String>,
    /// In place of a description, a container that runs, by its name or identifier.
    #[arg(long, value_name = "NAME", group = "subject")]
    pub container: Option<String>,
    /// In place of a description, the one container that runs and has a label, such as `app=redis`.
    #[arg(long, value_name = "LABEL", group = "subject")]
    pub container_label: Option<String>,
    /// In place of a description, the container of a pod of Kubernetes that runs: NAMESPACE/POD, or
    /// NAMESPACE/POD/CONTAINER where the pod has several.
    #[arg(long, value_name = "NAMESPACE/POD", group = "subject")]
    pub pod: Option<String>,
    /// The reservation of the unit or container.
    #[command(flatten)]
    pub reservation: ReservationArguments,
    /// What `status` and `revert` call the reservation; like the unit or container if left out.
    #[arg(long, value_name = "DOMAIN", requires = "subject")]
    pub name: Option<String>,
    /// The host of the description that this machine is; what is on its other hosts is left alone.
    #[arg(long, value_name = "NAME", conflicts_with = "subject")]
    pub host: Option<String>,
    /// Stay, as a service of systemd does, and take the reservations back at the end (SIGTERM, Ctrl-C, or whatever
    /// ends the command); exit status 1 if they end before.
    #[arg(long, conflicts_with = "dry_run")]
    pub hold: bool,
    /// Change nothing; print every change in the kernel's words.
    #[arg(long)]
    pub dry_run: bool,
    /// Change nothing; print a unit of systemd by which the reservation comes and goes with the unit. PROGRAM is the path
    /// of the installed `tailbound`; this one if left out.
    #[arg(
        long,
        value_name = "PROGRAM",
        num_args = 0..=1,
        requires = "unit",
        conflicts_with_all = ["file", "container", "container_label", "dry_run", "hold"]
    )]
    pub print_unit_file: Option<Option<PathBuf>>,
}

/// Arguments of `metrics`.
#[derive(Debug, Args)]
pub struct MetricsArguments {
    /// Serve them at http://ADDRESS/metrics until SIGTERM or Ctrl-C, such as 127.0.0.1:9464. There is neither encryption
    /// nor a password.
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
}

/// Arguments of `revert`.
#[derive(Debug, Args)]
pub struct RevertArguments {
    /// The domains; if left out, all that one `apply` put into force. It asks, or without a terminal
    /// refuses, where there is more than that.
    pub domains: Vec<String>,
    /// Everything that is in force, whoever asked for it, running commands' reservations too.
    #[arg(long, conflicts_with = "domains")]
    pub all: bool,
}

/// What becomes of a command without its reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnLoss {
    /// It goes on unprotected.
    Continue,
    /// It is ended, and the exit status is 1.
    Stop,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The description (TOML) whose experiment is run.
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    pub file: Option<PathBuf>,
    /// The reservation of the command.
    #[command(flatten)]
    pub reservation: ReservationArguments,
    /// What becomes of the command if its reservation ends before it does, by somebody else's `revert`
    /// or with the daemon: it is said either way.
    #[arg(long, requires = "command", value_enum, default_value_t = OnLoss::Continue)]
    pub on_loss: OnLoss,
    /// The host of the description that this machine is; what is on its other hosts is left alone.
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub host: Option<String>,
    /// Where results are written; `out/NAME` beside the description if left out.
    #[arg(short, long)]
    pub out: Option<PathBuf>,
    /// Multiply the experiment's duration and warm-up by this (a shortened run says so, and measures
    /// execution times for a shorter time, too).
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = scale)]
    pub duration_scale: f64,
    /// The seed, in place of the description's.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The history of the host's prediction bands.
    #[command(flatten)]
    pub history: HistoryArguments,
    /// Print every change in the kernel's words, and stop.
    #[arg(long)]
    pub dry_run: bool,
    /// Predict and simulate only: nothing is started, enforced or measured.
    #[arg(long)]
    pub simulate_only: bool,
    /// Record the kernel's events while it is measured, into raw/ of the results, for `tailbound explain`.
    #[arg(long, conflicts_with_all = ["command", "simulate_only", "dry_run"])]
    pub trace: bool,
    /// The command and its arguments.
    #[arg(last = true, group = "subject")]
    pub command: Vec<String>,
}

/// Arguments of `measure`.
#[derive(Debug, Args)]
pub struct MeasureArguments {
    /// The description (TOML); the service must be running already.
    pub file: PathBuf,
    /// Only this service.
    #[arg(long)]
    pub service: Option<String>,
    /// How long, in place of the description's duration.
    #[arg(short, long)]
    pub duration: Option<Duration>,
    /// What is left out at the start, in place of the description's.
    #[arg(long)]
    pub warm_up: Option<Duration>,
    /// Rate of the Poisson arrivals, in place of the description's.
    #[arg(short = 'R', long)]
    pub rate: Option<Rate>,
    /// The seed, in place of the description's.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The CPU of the load generator, in place of the host's first housekeeping CPU.
    #[arg(short = 'H', long)]
    pub housekeeping: Option<u32>,
    /// Write the latencies as CSV.
    #[arg(long, value_name = "FILE")]
    pub export_csv: Option<PathBuf>,
    /// Write the latencies as JSON.
    #[arg(long, value_name = "FILE")]
    pub export_json: Option<PathBuf>,
    /// Write the latencies as an HdrHistogram V2 log.
    #[arg(long, value_name = "FILE")]
    pub export_hdr: Option<PathBuf>,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// A distribution (CSV, JSON or HdrHistogram log).
    pub left: PathBuf,
    /// Another.
    pub right: PathBuf,
    /// A second run of the left one's set-up: its distance to the left one is the noise floor.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Fail (exit 2) if the distance exceeds this multiple of the noise floor.
    #[arg(short = 'T', long, requires = "baseline", value_name = "RATIO")]
    pub threshold: Option<f64>,
    /// Fail (exit 2) if one of these percentiles is longer in the right one, as far as their intervals tell.
    #[arg(long, value_delimiter = ',', value_name = "PERCENTILES", value_parser = percentile)]
    pub not_longer: Vec<Percentile>,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// The result document, `report.json`.
    pub file: PathBuf,
    /// Write the HTML report.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the results as metrics of OpenTelemetry (OTLP as JSON), for a collector.
    #[arg(long, value_name = "FILE")]
    pub otlp: Option<PathBuf>,
    /// Write each plot as SVG into this folder.
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Write each plot as PNG into this folder.
    #[arg(long, value_name = "DIR")]
    pub png: Option<PathBuf>,
}

/// Arguments of `internal`.
#[derive(Debug, Args)]
pub struct InternalArguments {
    /// Which program.
    #[command(subcommand)]
    pub program: InternalProgram,
}

/// Programs that run inside domains, and the one that makes manual pages.
#[derive(Debug, Subcommand)]
pub enum InternalProgram {
    /// The synthetic service.
    SyntheticService {
        /// Where it listens.
        #[arg(long)]
        endpoint: String,
        /// The order in which it serves jobs.
        #[arg(long, value_parser = scheduling)]
        scheduling: tailbound_model::Scheduling,
        /// The length of a message in bytes, where requests are messages.
        #[arg(long, default_value_t = tailbound_measurement::endpoint::MESSAGE_BYTES)]
        message_size: usize,
    },
    /// Write the manual pages and the completions of all our programs.
    Manual {
        /// The folder, such as /usr/local/share: pages go into man, completions to where each shell looks.
        folder: PathBuf,
        /// The date of the pages, such as 2026-11-26; the release has it, so that its files are the same anywhere.
        #[arg(long)]
        date: String,
    },
    /// A loop that uses all the CPU that it gets.
    CpuHog,
    /// The own tasks of a domain.
    OwnTasks {
        /// The domain.
        #[arg(long)]
        domain: String,
        /// The folder of the logs of jobs, one file a task.
        #[arg(long)]
        jobs: PathBuf,
        /// The description.
        file: PathBuf,
    },
    /// A program with namespaces of its own, and the process that waits for it.
    Isolated {
        /// The namespaces that it has for itself: mount, pid, ipc, network.
        #[arg(long, value_delimiter = ',')]
        namespaces: Vec<tailbound_linux::isolation::OwnNamespace>,
        /// The directory of the group whose memory is limited.
        #[arg(long, requires = "memory_limit_bytes")]
        memory_group: Option<PathBuf>,
        /// The limit of that group, in bytes.
        #[arg(long)]
        memory_limit_bytes: Option<u64>,
        /// A folder or file that stays where it is.
        #[arg(long = "keep")]
        kept: Vec<PathBuf>,
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// A process that waits for the parent's word and then becomes a command.
    Hold {
        /// The abstract Unix socket on which the parent gives the word.
        #[arg(long)]
        socket: String,
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}
