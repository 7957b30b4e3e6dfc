//! The one description of a system.
//!
//! A description names hosts, the domains on them, the services and tasks in the domains, what is
//! promised about them (SLOs), the modes the system can be in, and the experiment that puts the
//! promise to the test. Every verb of Tailbound reads this and nothing else.

mod aperiodic;
mod arrival_curve;
mod axis;
mod backend;
mod continuous_law;
pub mod description;
mod exposition;
mod health;
pub mod host;
mod in_mode;
mod inputs;
pub mod interface;
mod interference;
mod interrupts;
mod isolation;
pub mod kernel_trace;
mod locks;
mod machine;
mod members;
mod mode;
mod mode_changes;
mod named_files;
mod on_host;
mod parameter_table;
mod parser;
mod problem;
mod request_log;
pub mod rt_app;
mod schema;
mod section;
mod users;
mod validation;
mod web;
mod workload;
mod writer;

pub use aperiodic::{Aperiodic, AperiodicCosts, AperiodicPolicy, Gain, PolicyConflict};
pub use arrival_curve::ArrivalCurve;
pub use axis::{Axis, AxisError};
pub use backend::{
    BackendKind, BackendOption, BackendOptions, BackendTraits, CpuPromise, CpuWeight, NiceValue,
    Precedence, UnknownBackend,
};
pub use continuous_law::ContinuousLaw;
pub use description::*;
pub use exposition::parse_exposition;
pub use health::{Health, HealthResponse};
pub use host::{Host, HostOverheads, HostScheduling, HostTick, Placement, Window};
pub use in_mode::ReservedBy;
pub use inputs::{
    InputFiles, SampleCount, TracedJob, load_inputs, parse_histogram, parse_jobs, parse_samples,
    parse_trace,
};
pub use interface::{
    Bandwidth, BudgetScope, Cpu, CpuSet, InterfaceInNanoseconds, Percent, PercentagePoints,
    Percentile, Priority, ReservationServer, ResourceInterface, ServerAnswers, ServerKind,
    WhenEmpty,
};
pub use interference::{Interference, InterferenceKind};
pub use interrupts::{InterruptHandling, InterruptSource, ReceiveContext, interrupt_domain};
pub use isolation::{IsolatedNamespace, Isolation, MemorySize, MemorySizeError};
pub use locks::{CriticalSection, LockProtocol};
pub use machine::{AgentLink, AgentListeners, Machine, TlsListener};
pub use members::Members;
pub use mode::{LocalMode, Metric, Mode, Trigger};
pub use mode_changes::{
    AgentDescription, AgentPlace, ChangePolicy, ChangeProtocol, ModeChanges, RequestsMeanwhile,
    TaskProcesses, TaskStart,
};
pub use named_files::{FilePurpose, files_named};
pub use parameter_table::{ParameterTable, parse_parameters};
pub use parser::{
    Checked, DescriptionFormat, Extended, KeyPath, LoadError, LoadedDescription, MissingKey, check,
    find_varied_key, parse,
};
pub use problem::{Problem, Problems, Severity};
pub use request_log::{LoggedRequest, RequestLog, parse_request_log};
pub use section::{Section, SectionKind, Sections};
pub use users::{LONGEST_SESSION, ThinkTime, UserChange, UserStep, Users};
pub use validation::Check;
pub use web::{HttpVersion, ServiceTls};
pub use writer::{NotWritable, interference_to_toml, overheads_to_toml, to_toml};
