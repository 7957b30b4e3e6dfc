//! What can go wrong, saying what would be right.

use std::io;
use std::path::PathBuf;

pub use tailbound_analysis::admission::AdmissionRefusal;
use tailbound_linux::named_cgroup::NameError;
use tailbound_model::{BackendKind, Cpu};
use tailbound_time::Duration;

use crate::{Change, MissingRequirement};

/// Why a reservation is not made, changed or taken back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnforcementError {
    /// The host lacks what the back end needs.
    #[error("the {} back end does not work on this host: {}", .backend, list(.missing))]
    Missing {
        /// The back end.
        backend: BackendKind,
        /// What is missing, and what can be done.
        missing: Vec<MissingRequirement>,
    },
    /// More is asked for than there is.
    #[error(transparent)]
    Refused(#[from] AdmissionError),
    /// The back end cannot do this for this target.
    #[error(transparent)]
    Unplannable(#[from] PlanError),
    /// The kernel refused a change; what was made before it has been taken back.
    #[error("domain \"{domain}\": the kernel refused `{command}`: {source}{}", in_brackets(.hint))]
    Refusal {
        /// The domain whose plan it is in.
        domain: String,
        /// The change.
        change: Box<Change>,
        /// The change in the kernel's words.
        command: String,
        /// What is known about this refusal; may be empty.
        hint: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The thread that enforces a budget did not start.
    #[error("domain \"{domain}\": its manager did not start: {reason}")]
    Manager {
        /// The domain.
        domain: String,
        /// Why.
        reason: String,
    },
    /// Nobody of that name holds a reservation.
    #[error("no active reservation is named \"{domain}\"; active: {}", names(.active))]
    NotActive {
        /// The name asked for.
        domain: String,
        /// Those there are.
        active: Vec<String>,
    },
    /// Something could not be put back; everything else was.
    #[error("not everything was restored: {}", .failures.join("; "))]
    NotRestored {
        /// What was tried and why it failed.
        failures: Vec<String>,
    },
    /// Something failed, and taking back what had been done before failed in part, too.
    #[error("{cause}; and then: {also}")]
    RollBack {
        /// What failed first.
        cause: Box<EnforcementError>,
        /// What could not be taken back.
        also: Box<EnforcementError>,
    },
    /// A reservation takes root.
    #[error(
        "reservations are made by root alone, and this process runs as uid {uid}: real-time policies and the cgroups of others take root, and whatever another user reserved would count for nobody; run it as root (sudo)"
    )]
    NotRoot {
        /// The user.
        uid: u32,
    },
    /// A reservation takes the root of the host.
    #[error(
        "reservations are made by the root of the host alone, and this process is in a user namespace, as those of rootless containers are: its root is an ordinary user of the host; run it outside, as root (sudo)"
    )]
    NotRootOfHost,
    /// Another daemon runs on this host and keeps another registry.
    #[error(
        "tailboundd (process {pid}) has another /run than this process, so neither would count what the other reserves; end it (kill {pid} takes back what it reserved), or start it where it sees this /run: nsenter --target 1 --mount tailboundd, or bind-mount /run into its container"
    )]
    Stranger {
        /// Its process.
        pid: u32,
    },
    /// It is not our turn on this host.
    #[error("the lock of this host's reservations, {}: {source}; try again once that one has made its changes, or end it", .path.display())]
    HostBusy {
        /// The lock.
        path: PathBuf,
        /// Who has it, or why it cannot be opened.
        source: io::Error,
    },
    /// The host's registry cannot be used.
    #[error("the registry of this host's reservations, {}: {source}; it must be a directory that root can make and that nobody else can write to", .path.display())]
    Registry {
        /// Its directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The journal cannot be made so long that whatever is changed can be taken back.
    #[error(
        "the state directory {} has no room for the journal: {} more are needed before anything is changed ({source}); free as much there, or set TAILBOUND_STATE_DIR to a directory that has it", .directory.display(), kilobytes(*.bytes)
    )]
    NoRoom {
        /// The state directory.
        directory: PathBuf,
        /// How much is needed.
        bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// The journal cannot be written or read.
    #[error("the journal {}: {source}; set TAILBOUND_STATE_DIR to a writable directory", .path.display())]
    Journal {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl EnforcementError {
    /// The same, and what could not be taken back after it.
    pub(crate) fn and_then(self, also: Self) -> Self {
        Self::RollBack {
            cause: Box::new(self),
            also: Box::new(also),
        }
    }
}

/// More is asked for than there is, or what is asked for makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// Windows that cannot be served.
    #[error("domain \"{domain}\" is no time partition: {reason}")]
    Windows {
        /// The domain.
        domain: String,
        /// What is wrong with its windows.
        reason: String,
    },
    /// There is no room for it.
    #[error(transparent)]
    NoRoom(#[from] AdmissionRefusal),
    /// A name that would not be one directory.
    #[error(
        "\"{0}\" cannot name a domain: use 1 to 64 letters, digits, '-', '_' or '.', not starting with '.'"
    )]
    BadName(String),
    /// The CPU does not exist or is off.
    #[error("domain \"{domain}\": CPU {cpu} is not online; online: {online}")]
    CpuNotOnline {
        /// The domain.
        domain: String,
        /// The CPU.
        cpu: Cpu,
        /// Those that are.
        online: String,
    },
    /// A group of processes is stopped as a whole, and several CPUs are named.
    #[error(
        "domain \"{domain}\": {backend} stops its processes as a group, so it gives them no budget on each of the CPUs {cpus}; let these share one (budget_scope = \"all-cpus\", or --budget-scope all-cpus), make a domain for each CPU, or use rt-group"
    )]
    GroupOnCpus {
        /// The domain.
        domain: String,
        /// The back end.
        backend: BackendKind,
        /// Those that are named.
        cpus: String,
    },
    /// Under global EDF it is not shown that the virtual CPUs of a pool of Xen's get their budgets in time.
    #[error(
        "domain \"{domain}\": the virtual CPUs in Xen's pool {pool} would have {sum_percent} of a CPU together, which fits into its {cpus} CPUs; but with more virtual CPUs than CPUs that does not show that each gets its budget within its period (RTDS is global EDF); lower the largest shares, give dom0 fewer virtual CPUs (dom0_max_vcpus), or put the domain into a pool of its own (xl cpupool-create): {holders}"
    )]
    PoolNotShown {
        /// The domain.
        domain: String,
        /// The pool.
        pool: String,
        /// How many CPUs it has.
        cpus: u32,
        /// The shares together.
        sum_percent: String,
        /// Who has what.
        holders: String,
    },
    /// The virtual CPUs of a pool of Xen's would have more than its CPUs.
    #[error(
        "domain \"{domain}\": the virtual CPUs in Xen's pool {pool} would have {sum_percent} of a CPU together, and it has {cpus} CPUs; lower a budget, or set others' by xl sched-rtds: {holders}"
    )]
    PoolTooFull {
        /// The domain.
        domain: String,
        /// The pool.
        pool: String,
        /// How many CPUs it has.
        cpus: u32,
        /// What is asked of it.
        sum_percent: String,
        /// Who has how much then.
        holders: String,
    },
    /// The interface names no CPU.
    #[error("domain \"{0}\": no CPU is named; a reservation holds on at least one")]
    NoCpu(String),
    /// CPUs with one budget, and a back end that gives each CPU its own.
    #[error(
        "domain \"{domain}\": {backend} gives each CPU a budget of its own, so that they cannot share one; leave the budget's scope out, or choose {}",
        BackendKind::names(|kind| kind.traits().cpus_share_budget)
    )]
    SharedBudget {
        /// The domain.
        domain: String,
        /// The back end.
        backend: BackendKind,
    },
    /// CPUs with one budget for single threads.
    #[error(
        "domain \"{domain}\": single threads, such as virtual CPUs, have a budget each on CPUs of their own; reserve the whole process, or leave the budget's scope out"
    )]
    SharedBySingleThreads {
        /// The domain.
        domain: String,
    },
    /// A budget of nothing, or longer than its period.
    #[error(
        "domain \"{domain}\": a budget of {budget} in a period is none: it lies above 0, and its CPUs can give at most {longest}"
    )]
    BudgetOutOfRange {
        /// The domain.
        domain: String,
        /// Its budget.
        budget: Duration,
        /// The longest that its CPUs can give in its period.
        longest: Duration,
    },
    /// A priority that the managers or the kernel do not allow.
    #[error("domain \"{domain}\": priority {priority} is not within 1 to 90")]
    PriorityOutOfRange {
        /// The domain.
        domain: String,
        /// Its priority.
        priority: u8,
    },
    /// Shorter than the back end can do.
    #[error(
        "domain \"{domain}\": {} takes {what} of {least} and more here, not {asked}: {reason}", .backend
    )]
    TooShort {
        /// The domain.
        domain: String,
        /// The back end.
        backend: BackendKind,
        /// "a budget" or "a period".
        what: &'static str,
        /// What was asked for.
        asked: Duration,
        /// The least that works.
        least: Duration,
        /// Why.
        reason: String,
    },
    /// Longer than the back end can do.
    #[error(
        "domain \"{domain}\": {} takes {what} of at most {most}, not {asked}: {reason}", .backend
    )]
    TooLong {
        /// The domain.
        domain: String,
        /// The back end.
        backend: BackendKind,
        /// "a budget" or "a period".
        what: &'static str,
        /// What was asked for.
        asked: Duration,
        /// The most that works.
        most: Duration,
        /// Why.
        reason: String,
    },
    /// The kernel file counts in microseconds.
    #[error(
        "domain \"{domain}\": {} counts in whole microseconds; {asked} is none", .backend
    )]
    NotWholeMicroseconds {
        /// The domain.
        domain: String,
        /// The back end.
        backend: BackendKind,
        /// The length asked for.
        asked: Duration,
    },
    /// A change of an interface keeps the CPUs.
    #[error("domain \"{0}\": the CPUs of an active reservation stay; revert it and apply it anew")]
    CpusChanged(String),
}

/// A back end cannot do this for this target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The process or thread is not there.
    #[error("domain \"{domain}\": there is no process or thread {id}")]
    Gone {
        /// The domain.
        domain: String,
        /// The process or thread.
        id: u32,
    },
    /// The name of the target is not that of one cgroup.
    #[error("domain \"{domain}\": {source}; {}", .source.remedy())]
    Name {
        /// The domain.
        domain: String,
        /// Why not.
        source: NameError,
    },
    /// The target names nobody.
    #[error("domain \"{0}\": its target names no process, thread or cgroup with members")]
    EmptyTarget(String),
    /// The kernel has no thread for the work of an interrupt.
    #[error(
        "domain \"{domain}\": the kernel has no thread for the interrupts of \"{source_name}\"; boot it with threadirqs, or \
         leave out receive = \"thread\""
    )]
    NoInterruptThread {
        /// The domain.
        domain: String,
        /// The device or interrupt.
        source_name: String,
    },
    /// The kernel cannot enforce the contract of a topic.
    #[error(
        "domain \"{domain}\": the kernel cannot enforce the contract of topic `{topic}`: {reason}; install nftables on a kernel that \
         has them, or leave out guard = \"kernel\""
    )]
    NoPacketTable {
        /// The domain.
        domain: String,
        /// The topic.
        topic: String,
        /// The reason.
        reason: String,
    },
    /// The enforcing process is part of the domain.
    #[error(
        "domain \"{domain}\": process {pid} is Tailbound itself, which must not wait for its own reservation"
    )]
    Ourselves {
        /// The domain.
        domain: String,
        /// Our process.
        pid: u32,
    },
    /// The back end does not take such a target.
    #[error("domain \"{domain}\": the {} back end {reason}; {remedy}", .backend)]
    TargetNotSupported {
        /// The domain.
        domain: String,
        /// The back end.
        backend: BackendKind,
        /// What it cannot do.
        reason: String,
        /// What can be done.
        remedy: String,
    },
    /// A thread belongs to another reservation.
    #[error("domain \"{domain}\": thread {tid} belongs to domain \"{other}\" already{}", in_brackets(.place))]
    ReservedAlready {
        /// The domain.
        domain: String,
        /// The thread.
        tid: u32,
        /// The other domain.
        other: String,
        /// Where the other one is from, if that is another state directory.
        place: String,
    },
    /// A virtual CPU of Xen's belongs to another reservation.
    #[error(
        "domain \"{domain}\": virtual CPU {vcpu} of Xen's domain {id} belongs to domain \"{other}\" already; describe each Xen domain once"
    )]
    VcpuReservedAlready {
        /// The domain.
        domain: String,
        /// The number of the Xen domain.
        id: u32,
        /// The number of the virtual CPU.
        vcpu: u32,
        /// The other domain.
        other: String,
    },
    /// The threads of a process lie in several cgroups of one hierarchy.
    #[error(
        "domain \"{domain}\": the threads of process {pid} lie in several cgroups, which moving the process would merge; reserve their cgroup (target cgroup) instead"
    )]
    SplitProcess {
        /// The domain.
        domain: String,
        /// The process.
        pid: u32,
    },
    /// The kernel's state could not be read.
    #[error("domain \"{domain}\": cannot read {what}: {reason}")]
    Unreadable {
        /// The domain.
        domain: String,
        /// What was to be read.
        what: String,
        /// Why it could not.
        reason: String,
    },
}

fn list(missing: &[MissingRequirement]) -> String {
    let texts: Vec<String> = missing
        .iter()
        .map(|m| format!("needs {}, found {}; {}", m.needed, m.state, m.remedy))
        .collect();
    texts.join(" | ")
}

fn in_brackets(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" ({text})")
    }
}

fn names(active: &[String]) -> String {
    if active.is_empty() {
        "none".into()
    } else {
        active.join(", ")
    }
}

/// A number of bytes in the unit that `df` shows, rounded up.
fn kilobytes(bytes: u64) -> String {
    format!("{} kB", bytes.div_ceil(1024).max(4))
}
