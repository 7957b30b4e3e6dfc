//! The types of a description, as a file spells them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::aperiodic::Aperiodic;
use crate::health::Health;
use crate::host::{Host, Placement, Window};
use crate::interface::{
    BudgetScope, CpuSet, PercentagePoints, Percentile, Priority, ResourceInterface, ServerKind,
    WhenEmpty,
};
use crate::interrupts::InterruptSource;
use crate::isolation::Isolation;
use crate::locks::{CriticalSection, LockProtocol};
use crate::machine::Machine;
use crate::mode::{LocalMode, Mode};
use crate::mode_changes::AgentDescription;
use crate::schema::{NameSchema, is_default};
use crate::section::{Section, Sections};
use crate::users::Users;
use crate::web::{HttpVersion, ServiceTls};
pub use crate::workload::{Arrivals, Bin, ExecutionTime, Gaps, LaterDistance, PoissonState};
use crate::{BackendKind, BackendOptions};

/// The version of the file format that this crate reads and writes.
pub const SCHEMA_VERSION: u32 = 1;

/// The description of a whole system.
// The keys that serde does not know are those of `sections`; the schema refuses all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Description {
    /// The version of the format; 1.
    #[schemars(range(min = 1, max = 1))]
    pub schema_version: u32,
    /// The name of the system, used in reports and for what is made in the kernel.
    #[schemars(with = "NameSchema")]
    pub name: String,
    /// A text about the system, for a reader.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The seed of everything random: arrivals, drawn execution times, simulations.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// The machines, by name.
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))]
    pub hosts: BTreeMap<String, Host>,
    /// The domains, which are isolated from each other, by name.
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))]
    pub domains: BTreeMap<String, Domain>,
    /// The services, which answer requests, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))]
    pub services: BTreeMap<String, Service>,
    /// The modes of the system, by name; left out if the system has only one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))]
    pub modes: BTreeMap<String, Mode>,
    /// The mode that the system starts in; needed if the system has modes.
    #[serde(default)]
    pub initial_mode: Option<String>,
    /// The experiment that puts the promises to the test.
    #[serde(default)]
    pub experiment: Experiment,
    /// The tables of subsystems.
    #[serde(flatten)]
    #[schemars(skip)]
    pub sections: Sections,
}

impl Description {
    /// A system of this name and text without hosts or anything on them.
    pub fn named(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            name: name.into(),
            description: description.into(),
            seed: default_seed(),
            hosts: BTreeMap::new(),
            domains: BTreeMap::new(),
            services: BTreeMap::new(),
            modes: BTreeMap::new(),
            initial_mode: None,
            experiment: Experiment::default(),
            sections: Sections::default(),
        }
    }

    /// The windows of other time partitions in which a domain may run while those leave CPU time, in order.
    pub fn slack_of(&self, receiver: &str) -> Vec<Window> {
        let donors = self.domains.values();
        let donors = donors.filter_map(|domain| domain.reservation.as_ref());
        let donors = donors.filter(|donor| donor.slack.iter().any(|name| name == receiver));
        let windows = donors.flat_map(|donor| donor.windows.iter().copied());
        let mut windows: Vec<Window> = windows.collect();
        windows.sort_by_key(|window| window.offset);
        windows
    }

    /// The table of a subsystem; its default where the description has none.
    pub fn section<S: Section>(&self) -> S {
        self.sections.get()
    }
}

fn default_seed() -> u64 {
    1
}

/// A part of the system that is isolated from the rest of its host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// The host that the domain runs on; may be left out if there is only one.
    #[serde(default)]
    pub host: Option<String>,
    /// The outer domain, in whose reservation this domain is scheduled: a virtual machine for its
    /// containers. Only simulation knows nested domains.
    #[serde(default)]
    #[schemars(with = "NameSchema")]
    pub inside: Option<String>,
    /// The kind of the domain.
    pub kind: DomainKind,
    /// The program and its arguments, started by `tailbound run` (kind `process`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// A program of ours in place of a command (kind `process`).
    #[serde(default)]
    pub builtin: Option<Builtin>,
    /// Processes that already run (kind `process`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(range(min = 1, max = 4_194_304)))]
    pub pids: Vec<u32>,
    /// The cgroup of a running container, relative to the cgroup v2 root (kind `container`).
    #[serde(default)]
    pub cgroup: Option<PathBuf>,
    /// The running unit of systemd, such as "redis.service", in place of `cgroup` (kind `container`). A name without
    /// a type is that of a service.
    #[serde(default)]
    pub unit: Option<String>,
    /// The running container, in place of `cgroup`: its name or identifier in podman, docker, nerdctl, runc or crun,
    /// or the beginning of an identifier (kind `container`).
    #[serde(default)]
    pub container: Option<String>,
    /// The label of the one running container that has it, in place of `container`: `key=value`, or `key` for any
    /// value (kind `container`). A label of docker, podman, containerd or the pod, or an annotation of the container in
    /// runc or crun.
    #[serde(default)]
    pub container_label: Option<String>,
    /// The container of a pod of Kubernetes, in place of `container`: `namespace/pod` for a pod with one container, or
    /// `namespace/pod/container` (kind `container`).
    #[serde(default)]
    pub pod: Option<String>,
    /// The virtual machine that runs already (kinds `qemu-vm` and `libvirt-vm`); without it such a domain
    /// is only simulated.
    #[serde(default)]
    pub machine: Option<Machine>,
    /// The named network namespace, as `ip netns add` makes them, in which the command or built-in runs; left out, that
    /// of `tailbound run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_namespace: Option<String>,
    /// The isolation of the command or built-in in space, with all four namespaces if it is empty; left out, it sees and
    /// reaches what `tailbound run` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// The response of `run` to the end of a program, and to windows that are overrun or missed. Left out, these are
    /// counted, and a run ends early when a program ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// The number of copies of the command or built-in that are started.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 1024), extend("default" = 1))]
    pub instances: u32,
    /// The CPUs of a domain without a reservation.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub cpus: CpuSet,
    /// Whether simulation assumes that the domain's programs use all the CPU time that they get.
    /// Otherwise, a domain whose load is not described is assumed to be idle.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpu_bound: bool,
    /// The CPU time that the domain gets; without a reservation it is best effort.
    #[serde(default)]
    pub reservation: Option<Reservation>,
    /// The order in which the domain's own tasks run.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "fifo"))]
    pub scheduling: Scheduling,
    /// Whether each of the domain's own tasks is on one virtual CPU, or all tasks share one queue
    /// for all virtual CPUs, from which the first tasks run wherever a virtual CPU is free.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "partitioned"))]
    pub placement: Placement,
    /// The length of a turn (scheduling `round-robin`).
    #[serde(default)]
    pub quantum: Option<Duration>,
    /// Whether a job of the domain's own tasks may be interrupted by another job of them.
    #[serde(default = "yes", skip_serializing_if = "is_so")]
    pub preemptive: bool,
    /// The soft ones among the domain's own tasks, and the rule by which they run before the
    /// others. Only simulation knows this.
    #[serde(default)]
    pub aperiodic: Option<Aperiodic>,
    /// The domain's own tasks, by name, which run without requests, such as control loops. They are
    /// analysed and simulated; `run` sends nothing for them, and carries them out where the domain is the built-in program
    /// `own-tasks`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))]
    pub tasks: BTreeMap<String, Task>,
    /// The locks that the domain's own tasks share, by name. Only simulation knows locks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))]
    pub locks: BTreeMap<String, LockProtocol>,
    /// The local modes of the domain, by name: the differences from the keys above in each. The
    /// modes of the system choose among them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))]
    pub modes: BTreeMap<String, LocalMode>,
    /// The agent that switches the domain's tasks at mode changes; without an agent, nothing does.
    #[serde(default)]
    pub agent: Option<AgentDescription>,
    /// The interrupts whose work the domain is; no file describes such a domain.
    #[serde(skip)]
    pub interrupts: Option<InterruptSource>,
}

fn one() -> u32 {
    1
}

// serde passes references.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_one(count: &u32) -> bool {
    *count == 1
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_so(whether: &bool) -> bool {
    *whether
}

impl Domain {
    /// A domain of this kind, with nothing else said of it.
    pub fn of(kind: DomainKind) -> Self {
        Self {
            host: None,
            inside: None,
            kind,
            command: Vec::new(),
            builtin: None,
            pids: Vec::new(),
            cgroup: None,
            unit: None,
            container: None,
            container_label: None,
            pod: None,
            machine: None,
            network_namespace: None,
            isolation: None,
            health: None,
            instances: 1,
            cpus: CpuSet::new(),
            cpu_bound: false,
            reservation: None,
            scheduling: Scheduling::default(),
            quantum: None,
            placement: Placement::default(),
            preemptive: true,
            aperiodic: None,
            tasks: BTreeMap::new(),
            locks: BTreeMap::new(),
            modes: BTreeMap::new(),
            agent: None,
            interrupts: None,
        }
    }

    /// The local mode that it falls back to where its agent does not answer, with its name.
    pub fn fallback_mode(&self) -> Option<(&String, &LocalMode)> {
        let fallback = self.agent.as_ref()?.fallback.as_ref()?;
        self.modes.get_key_value(fallback)
    }

    /// Whether one of its own tasks is soft, by its aperiodic policy.
    pub fn has_soft(&self, task: &str) -> bool {
        let aperiodic = self.aperiodic.as_ref();
        aperiodic.is_some_and(|aperiodic| aperiodic.tasks.iter().any(|soft| soft == task))
    }
}

/// The kinds of domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DomainKind {
    /// A group of processes.
    Process,
    /// A container that something else runs.
    Container,
    /// A QEMU virtual machine; only simulated without `machine`.
    QemuVm,
    /// A virtual machine under libvirt; only simulated without `machine`.
    LibvirtVm,
    /// A Xen domain, named here as in `xl list`; enforced by back end `xen-rtds` alone.
    XenVm,
}

impl DomainKind {
    /// Whether a domain of this kind is whole processes, and not the virtual CPUs of a machine one by one.
    pub fn is_process_group(self) -> bool {
        matches!(self, Self::Process | Self::Container)
    }
}

/// Programs that come with Tailbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Builtin {
    /// A service that works for an exact time per request.
    SyntheticService,
    /// A loop that uses all the CPU it can get.
    CpuHog,
    /// A program that carries out the domain's own tasks, each on a thread: it releases their jobs, works for their
    /// execution times, and reads and publishes their topics.
    OwnTasks,
}

/// The CPU time that a domain gets, and the back end that enforces it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// The back end that enforces the reservation.
    #[serde(default)]
    pub backend: BackendKind,
    /// The rule by which the budget is spent and replenished; that of the back end if left out.
    /// Another rule serves only to predict and simulate: `check` refuses a rule that the back end
    /// does not enforce.
    #[serde(default)]
    pub server: Option<ServerKind>,
    /// CPU time per period; left out with `derive`.
    #[serde(default)]
    pub budget: Option<Duration>,
    /// Whether each of `cpus` has this budget, or all of them together have one, which any number of them may
    /// spend at the same time.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "each-cpu"))]
    pub budget_scope: BudgetScope,
    /// The distance between replenishments; left out with `derive`.
    #[serde(default)]
    pub period: Option<Duration>,
    /// The windows of a time partition in each major frame of its host, in which alone the domain runs (back end
    /// `time-partitions`, in place of budget and period).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// The time partitions that may run in these windows while this domain leaves CPU time, each at a lower priority; none if
    /// left out, so that what this domain leaves goes to no other partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slack: Vec<String>,
    /// The rule that takes budget and period from the domain's tasks.
    #[serde(default)]
    pub derive: Option<DerivationRule>,
    /// The bandwidth that is added to the result of `derive` (the thesis advises 5 points, section
    /// 3.3).
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = 0.0))]
    pub margin_points: PercentagePoints,
    /// The fixed priority; the higher number runs first.
    #[serde(default = "highest")]
    pub priority: Priority,
    /// The CPUs of the reservation: one virtual CPU is pinned to each (placement `partitioned`).
    pub cpus: CpuSet,
    /// The number of virtual CPUs, each of which has this budget (placement `global`); as many as
    /// `cpus` if left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1024))]
    pub vcpus: Option<u32>,
    /// The fate of the reservation under `apply` once the domain has no members; by default `keep`
    /// for a domain of kind `container`, which may come back under its path or name, and `release`
    /// for all others, which cannot.
    #[serde(default)]
    pub when_empty: Option<WhenEmpty>,
    /// The options that only some back ends have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub options: BackendOptions,
}

fn highest() -> Priority {
    Priority::HIGHEST
}

impl Reservation {
    /// A reservation on these CPUs at the highest priority, whose budget has yet to be told.
    pub fn on(backend: BackendKind, cpus: CpuSet) -> Self {
        Self {
            backend,
            server: None,
            budget: None,
            budget_scope: BudgetScope::EachCpu,
            period: None,
            windows: Vec::new(),
            slack: Vec::new(),
            derive: None,
            margin_points: PercentagePoints::default(),
            priority: Priority::HIGHEST,
            cpus,
            vcpus: None,
            when_empty: None,
            options: BackendOptions::default(),
        }
    }

    /// The interface, if budget and period, or windows, are given and not derived. `frame`: the major frame of the host.
    pub fn explicit_interface(&self, frame: Option<Duration>) -> Option<ResourceInterface> {
        let (budget, period) = match self.windows.is_empty() {
            true => (self.budget?, self.period?),
            false => (total_of(&self.windows), frame?),
        };
        Some(ResourceInterface {
            budget,
            period,
            priority: self.priority,
            cpus: self.cpus.clone(),
            budget_scope: self.budget_scope,
            windows: self.windows.clone(),
            slack: Vec::new(),
        })
    }
}

/// The length of all windows together.
fn total_of(windows: &[Window]) -> Duration {
    let lengths = windows.iter().map(|window| window.length);
    lengths.fold(Duration::ZERO, Duration::saturating_add)
}

/// A rule that yields budget and period from tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DerivationRule {
    /// Period = hyperperiod, budget = period x utilisation (thesis, Theorem 2).
    VirtualizationAgnostic,
}

/// A service in a domain, which answers requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The domain that the service runs in.
    pub domain: String,
    /// The protocol of the service.
    pub protocol: Protocol,
    /// The address at which the service listens: `unix:PATH` or `ADDRESS:PORT`, where relative paths start at the file.
    /// For the synthetic service also `udp:ADDRESS:PORT`, each message a datagram, and `topic:TRANSPORT:ADDRESS`, where
    /// requests and replies are topics over that transport. For `icmp-echo` an IPv4 address alone.
    pub endpoint: String,
    /// The length of each request and each reply in bytes, where messages have bounds: `udp:`, `topic:` and `icmp-echo`;
    /// 64 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 32, max = 65507))]
    pub message_size: Option<u32>,
    /// The user who logs in there, for the protocol `postgresql`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<DatabaseLogin>,
    /// The certificates by which client and service know each other, for the protocol `http` over TLS; without it nothing is
    /// encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServiceTls>,
    /// The version of HTTP, for the protocol `http`. Version 2 is agreed on in the handshake of TLS (ALPN); without TLS the
    /// client speaks it from the first byte on ("prior knowledge").
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "1.1"))]
    pub http_version: HttpVersion,
    /// The order in which the service serves its tasks' jobs.
    #[serde(default)]
    pub scheduling: Scheduling,
    /// The number of requests that may be outstanding; the others wait at the client, and their
    /// latency counts from the intended send time all the same. If left out, there is no limit.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_in_flight: Option<u32>,
    /// The users of the service, who release its tasks with arrivals of the kind `users`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Users>,
    /// The request whose good answer shows that the service is ready, such as a path of HTTP that is answered with 503 before.
    /// If left out, a service is ready when it answers a request of its protocol that asks nothing (HTTP: when it accepts
    /// connections).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Request>,
    /// Requests sent once, in order, before anything is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Request>,
    /// The tasks of the service, by name.
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))]
    pub tasks: BTreeMap<String, Task>,
    /// The promises of the service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slos: Vec<Slo>,
}

/// The protocols of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// The Redis protocol (RESP2).
    Redis,
    /// Our synthetic service's protocol.
    Synthetic,
    /// HTTP, version 1.1 or 2, over TLS or without.
    Http,
    /// The protocol of PostgreSQL, version 3.0, with simple queries.
    Postgresql,
    /// Echo requests of ICMP, which the kernel at the other end answers: the floor below every service over a network.
    IcmpEcho,
}

/// A user of a database. Passwords do not stand in descriptions: they come from a file or from the environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseLogin {
    /// The user's name.
    pub user: String,
    /// The database; by default the one with the user's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The file whose first line is the password; relative paths start at the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<String>,
    /// The environment variable that has the password, in place of `password_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_variable: Option<String>,
}

/// The order in which jobs are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// First come, first served.
    #[default]
    Fifo,
    /// Preemptive, the task with the shorter period first.
    RateMonotonic,
    /// Preemptive, the task with the shorter relative deadline first; the period, or the minimal
    /// gap, stands for a deadline that is left out.
    DeadlineMonotonic,
    /// Preemptive, the job with the earliest absolute deadline first: its release plus the relative
    /// deadline, for which the period, or the minimal gap, stands if it is left out.
    EarliestDeadlineFirst,
    /// Preemptive, by the tasks' `priority`.
    FixedPriority,
    /// In turns of a `quantum`, for the tasks of a domain.
    RoundRobin,
}

/// Jobs of one kind, and when they come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The law by which jobs are released.
    pub arrivals: Arrivals,
    /// The execution time of a job on a CPU of its own.
    pub execution_time: ExecutionTime,
    /// The response time within which a job must end.
    #[serde(default)]
    pub deadline: Option<Duration>,
    /// The fixed priority within the service or domain; the higher number runs first.
    #[serde(default)]
    pub priority: Option<Priority>,
    /// The longest time from a job's arrival to its readiness, such as the wait for a message. Deadlines
    /// and response times count from the arrival. `analyze` and `interface` know jitter, and `simulate` draws each
    /// job's wait evenly up to it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub jitter: Duration,
    /// The longest time for which jobs of lower priorities keep a job waiting, such as by a critical
    /// section. Only `analyze` and `interface` know blocking.
    #[serde(default, skip_serializing_if = "is_default")]
    pub blocking: Duration,
    /// The request that is sent for one job; the synthetic service needs none.
    #[serde(default)]
    pub request: Option<Request>,
    /// The number of independent clients of the task.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1), extend("default" = 1))]
    pub clients: u32,
    /// The virtual CPU of the domain that the task runs on, from 0 (tasks of domains). Tasks
    /// without this key are placed worst-fit: in the order of their names, each where the least
    /// utilisation is.
    #[serde(default)]
    #[schemars(range(max = 1023))]
    pub vcpu: Option<u32>,
    /// The longest boost of a job's virtual CPU: until the job ends, and at most this long after
    /// its release, the virtual CPU comes before all others and neither waits for budget nor spends
    /// any (tasks of domains, such as the agent that answers a mode change). Only simulation knows
    /// boosts.
    #[serde(default)]
    pub boost: Option<Duration>,
    /// The parts of its execution during which a job holds a lock of its domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<CriticalSection>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Request {
    /// A Redis command and its arguments; `{random}` in an argument becomes a random number,
    /// `{busy:2ms}` a count of loop iterations calibrated to that time.
    Redis {
        /// The command and its arguments.
        command: Vec<String>,
        /// The number of times that the command is sent, with `{index}` in an argument counting
        /// from 0.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        #[schemars(range(min = 1), extend("default" = 1))]
        repeat: u32,
    },
    /// An HTTP GET.
    Http {
        /// The path.
        path: String,
    },
    /// A query of PostgreSQL; `{random}` in it becomes a random number.
    Postgresql {
        /// The SQL text. Several statements are one request, and one transaction.
        query: String,
        /// The number of times that the query is sent, with `{index}` in it counting from 0.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        #[schemars(range(min = 1), extend("default" = 1))]
        repeat: u32,
    },
}

impl Request {
    /// The number of times that it is sent.
    pub fn repeat(&self) -> u32 {
        match self {
            Self::Redis { repeat, .. } | Self::Postgresql { repeat, .. } => *repeat,
            Self::Http { .. } => 1,
        }
    }
}

/// A promise: this share of responses within this latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// The share of the responses, in percent.
    pub percentile: Percentile,
    /// The latency within which these responses stay.
    pub latency: Duration,
    /// The task of the promise; all tasks of the service if left out.
    #[serde(default)]
    pub task: Option<String>,
}

/// The experiment that puts the promises to the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The time for which each variant is measured, after its warm-up.
    #[serde(default = "default_duration")]
    pub duration: Duration,
    /// The time for which the load runs before anything counts.
    #[serde(default = "default_warm_up")]
    pub warm_up: Duration,
    /// The variants that are compared; if left out: as described, dedicated twice, no reservation.
    #[serde(default = "default_variants")]
    pub variants: Vec<Variant>,
}

fn default_duration() -> Duration {
    Duration::from_secs(10)
}

fn default_warm_up() -> Duration {
    Duration::from_secs(1)
}

impl Default for Experiment {
    fn default() -> Self {
        Self {
            duration: default_duration(),
            warm_up: default_warm_up(),
            variants: default_variants(),
        }
    }
}

fn default_variants() -> Vec<Variant> {
    let variant = |name: &str, backend, neighbours, repetitions| Variant {
        name: name.into(),
        backend,
        neighbours,
        margin_points: None,
        repetitions,
    };
    vec![
        variant("reserved", None, true, 1),
        variant("dedicated", Some(BackendKind::WHOLE_CPUS), false, 2),
        variant("unreserved", Some(BackendKind::UNRESERVED), true, 1),
    ]
}

/// One way to run the system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// The label of the variant in results.
    #[schemars(with = "NameSchema")]
    pub name: String,
    /// The back end of every reservation, in place of the described one.
    #[serde(default)]
    pub backend: Option<BackendKind>,
    /// Whether the domains without a reservation run. If not, those around reserved domains stay,
    /// without work of their own.
    #[serde(default = "yes")]
    pub neighbours: bool,
    /// Bandwidth added to (or taken from) every reservation, in place of the described margin.
    #[serde(default)]
    pub margin_points: Option<PercentagePoints>,
    /// The number of measurements of the variant; repetitions of different variants are
    /// interleaved.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub repetitions: u32,
}

impl Variant {
    /// The variant in which everything is as described.
    pub fn as_described() -> Self {
        Self {
            name: "as described".into(),
            backend: None,
            neighbours: true,
            margin_points: None,
            repetitions: 1,
        }
    }

    /// Whether reservations are as described, so that modes hold in this variant: other back ends and
    /// other margins belong to no mode.
    pub fn has_modes(&self) -> bool {
        self.backend.is_none() && self.margin_points.is_none_or(|points| points.0 == 0.0)
    }
}

fn yes() -> bool {
    true
}
