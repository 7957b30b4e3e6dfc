//! Why a host cannot be simulated.

use tailbound_model::{BackendKind, CpuPromise};
use tailbound_time::Duration;

use crate::aperiodic::AperiodicError;
use crate::hierarchy::HierarchyError;
use crate::workload::WorkloadError;

/// Why a host cannot be simulated, where in its description, and what would be right.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HostError {
    /// No such host.
    #[error("there is no host `{host}`; the description has: {hosts}")]
    UnknownHost {
        /// The name.
        host: String,
        /// Those that there are.
        hosts: String,
    },
    /// A description that still has modes.
    #[error("the system has modes, and each is another host; say in which it is: {modes}")]
    SeveralModes {
        /// The modes.
        modes: String,
    },
    /// A reservation whose budget has yet to be derived.
    #[error(
        "domains.{domain}.reservation: budget and period are not told; give them, or derive them \
         before the simulation"
    )]
    NoBudget {
        /// The domain.
        domain: String,
    },
    /// A back end, or an option of one, that simulation does not follow.
    #[error("{place}: {why}; leave it out, or measure instead")]
    NotSimulated {
        /// The key.
        place: String,
        /// Why.
        why: &'static str,
    },
    /// A recording of interference that exceeds what is described of it.
    #[error("{place}: {excess}; correct the description, such as by `tailbound trace model`")]
    Recording {
        /// The key.
        place: String,
        /// What is more than described.
        excess: String,
    },
    /// A delay of a task's jobs that simulation does not follow.
    #[error(
        "{place}: only `tailbound analyze` and `interface` know this key here, and a simulation without it would show \
         jobs that are done too early; leave it out to simulate"
    )]
    DelayedTask {
        /// The key.
        place: String,
    },
    /// A time partition on a host without a cycle.
    #[error("hosts.{host}.major_frame: the host has time partitions and no major frame; add it")]
    NoFrame {
        /// The host.
        host: String,
    },
    /// A server without a deadline under an order by deadlines.
    #[error(
        "domains.{domain}.reservation.server: a sporadic server has no deadline, by which reservations \
         are ordered here; choose another server, or fixed priorities"
    )]
    NoDeadline {
        /// The domain.
        domain: String,
    },
    /// Something that an aperiodic policy does not go with.
    #[error("{place}: {message}; {remedy}")]
    Aperiodic {
        /// The key.
        place: String,
        /// What is wrong.
        message: String,
        /// What would be right.
        remedy: String,
    },
    /// Domains inside of each other in a circle.
    #[error(
        "domains.{domain}.inside: the domain is inside of itself; leave it out for one of them"
    )]
    Circle {
        /// One of them.
        domain: String,
    },
    /// A domain inside of one that there is not.
    #[error(
        "domains.{domain}.inside: there is no domain `{outer}`; name one of {others}, or leave it out"
    )]
    NoOuter {
        /// The domain.
        domain: String,
        /// What it is said to be inside of.
        outer: String,
        /// The domains that there are.
        others: String,
    },
    /// A speed that is none.
    #[error("hosts.{host}.speeds: {percent}% is no speed; give 1 to 1000 for each of `cpus`")]
    Speed {
        /// The host.
        host: String,
        /// What is given.
        percent: u32,
    },
    /// A host whose CPUs are all for housekeeping.
    #[error("hosts.{host}.cpus: there is no CPU that domains may use; name one")]
    NoCpu {
        /// The host.
        host: String,
    },
    /// A virtual CPU that there is not.
    #[error("{place}: there is no virtual CPU {vcpu}; the domain has {vcpus}, which count from 0")]
    NoVcpu {
        /// The key.
        place: String,
        /// Which.
        vcpu: u32,
        /// How many there are.
        vcpus: usize,
    },
    /// A CPU that the host does not have.
    #[error("domains.{domain}.reservation.cpus: `{host}` has no CPU {cpu}; name CPUs of the host")]
    NotOfHost {
        /// The domain.
        domain: String,
        /// Its host.
        host: String,
        /// The CPU.
        cpu: u32,
    },
    /// A guest that is not guaranteed anything.
    #[error(
        "domains.{domain}.placement: one queue for several virtual CPUs is simulated for domains with \
         a guarantee; reserve CPU time by another back end than {}, or leave it out",
        BackendKind::names(|kind| kind.promise() == CpuPromise::Nothing)
    )]
    GuestWithoutReservation {
        /// The domain.
        domain: String,
    },
    /// A lock that virtual CPUs share.
    #[error(
        "{place}: lock `{lock}` is used on another virtual CPU of the domain, too, and a virtual CPU \
         without budget would stop the other; give the tasks that share it the same `vcpu`"
    )]
    LockAcrossVcpus {
        /// The later of the tasks.
        place: String,
        /// The lock.
        lock: String,
    },
    /// A time beyond what is calculated with.
    #[error("{place}: {length} is longer than the {limit} that are simulated; shorten it")]
    TooLong {
        /// The key, or what else is too long.
        place: String,
        /// How long.
        length: Duration,
        /// The longest.
        limit: Duration,
    },
    /// Nothing to count.
    #[error("the simulated duration is zero; give some time, such as 10s")]
    NoTime,
    /// So many things to do that it would not end.
    #[error(
        "some {events:.1e} things would happen in {length}, {what} the most of them; simulate less \
         time (at most {limit:.1e} are taken on)"
    )]
    TooMuch {
        /// About how many.
        events: f64,
        /// In what time.
        length: Duration,
        /// What happens so often.
        what: String,
        /// The most that are taken on.
        limit: f64,
    },
    /// More clients than memory is for.
    #[error("{place}: there would be {clients} clients; at most {limit} are simulated")]
    TooManyClients {
        /// The task with the most of them.
        place: String,
        /// How many in all.
        clients: u64,
        /// The most.
        limit: u64,
    },
    /// The jobs cannot be drawn.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The plan is none.
    #[error("{places}: {error}")]
    Plan {
        /// What runs on the CPUs of the plan.
        places: String,
        /// What is wrong with it.
        error: HierarchyError,
    },
    /// An aperiodic policy and its hard tasks are none.
    #[error("{places}: {error}")]
    AperiodicSystem {
        /// What runs on the CPU.
        places: String,
        /// What is wrong with it.
        error: AperiodicError,
    },
}
