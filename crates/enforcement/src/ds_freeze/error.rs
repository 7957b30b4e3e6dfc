//! What can go wrong with a manager.

use std::io;
use std::path::PathBuf;

use tailbound_linux::perf::AlarmError;
use tailbound_linux::thread::ThreadError;
use tailbound_reservation::ReservationError;
use tailbound_time::Duration;

/// Why a manager did not start, or did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// Windows of a frame of another length than that which all partitions of the host have.
    #[error(
        "domain \"{domain}\" has windows in a frame of {frame}; windows of a frame of {asked} need a new reservation"
    )]
    Frame {
        /// The domain.
        domain: String,
        /// Its frame.
        frame: Duration,
        /// The other one.
        asked: Duration,
    },
    /// Windows that cannot be served.
    #[error("domain \"{domain}\": {cause}")]
    Windows {
        /// The domain.
        domain: String,
        /// What is wrong with them.
        cause: ReservationError,
    },
    /// The thread could not be pinned or given its priority.
    #[error("the manager of CPU {cpu} cannot run as it must: {cause}")]
    Thread {
        /// The CPU that it should serve.
        cpu: u32,
        /// What was refused.
        #[source]
        cause: ThreadError,
    },
    /// The thread could not be created.
    #[error("cannot start a thread for the manager of CPU {cpu}: {cause}")]
    Spawn {
        /// The CPU that it should serve.
        cpu: u32,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// Memory could not be locked.
    #[error(
        "cannot lock memory for the manager: {cause}; it takes root, CAP_IPC_LOCK or a larger \
         RLIMIT_MEMLOCK"
    )]
    MemoryLock {
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
    /// An event descriptor could not be made.
    #[error("cannot make an event descriptor for the manager: {cause}")]
    Descriptor {
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
    /// A control file of the domain's cgroup could not be opened or used.
    #[error(
        "cannot use {file}: {cause}; ds-freeze needs a cgroup v2 other than the root one, with \
         cgroup.freeze (Linux 5.2) and cpu.stat, and the right to write there"
    )]
    Cgroup {
        /// The control file.
        file: PathBuf,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
    /// Alarms were insisted on and there are none.
    #[error(
        "no depletion alarm for domain \"{domain}\": {cause}; timed polling needs no privilege"
    )]
    Alarm {
        /// The domain.
        domain: String,
        /// Why.
        #[source]
        cause: AlarmError,
    },
    /// The use of several CPUs cannot be counted.
    #[error(
        "domain \"{domain}\" cannot share a budget among CPUs, since its use of CPU {cpu} cannot be counted: {cause}"
    )]
    Counter {
        /// The domain.
        domain: String,
        /// The CPU.
        cpu: u32,
        /// Why.
        #[source]
        cause: AlarmError,
    },
    /// Budget and period do not go together.
    #[error(
        "domain \"{domain}\" cannot have {budget} every {period}: the budget has to be at least \
         {smallest} and at most {longest}"
    )]
    Parameters {
        /// The domain.
        domain: String,
        /// What was asked for.
        budget: Duration,
        /// What was asked for.
        period: Duration,
        /// The smallest budget that is served.
        smallest: Duration,
        /// The longest that its CPUs can give in the period.
        longest: Duration,
    },
    /// Two domains of one manager have the same name.
    #[error("the manager of CPU {cpu} already serves a domain \"{domain}\"; names are unique")]
    Duplicate {
        /// The domain.
        domain: String,
        /// The manager's CPU.
        cpu: u32,
    },
    /// The manager does not serve such a domain.
    #[error("the manager of CPU {cpu} serves no domain \"{domain}\"")]
    Unknown {
        /// The domain.
        domain: String,
        /// The manager's CPU.
        cpu: u32,
    },
    /// Too many domains on one CPU.
    #[error("the manager of CPU {cpu} already serves {limit} domains, as many as it can")]
    Full {
        /// The manager's CPU.
        cpu: u32,
        /// How many it can serve.
        limit: usize,
    },
    /// Too many changes of a domain are not in force yet.
    #[error(
        "domain \"{domain}\": {limit} changes of its reservation are not in force yet, and no more can \
         wait; ask again when one of them is"
    )]
    Pending {
        /// The domain.
        domain: String,
        /// How many can wait.
        limit: usize,
    },
    /// Too many boosts were begun or ended that the manager has not looked at yet.
    #[error(
        "the manager of CPU {cpu} has {limit} notes to read already; it is kept from running, or boosts \
         are asked for faster than it reads"
    )]
    Flooded {
        /// The manager's CPU.
        cpu: u32,
        /// How many there is room for.
        limit: usize,
    },
    /// The manager did not take up a request or did not end.
    #[error(
        "the manager of CPU {cpu} did not answer within {waited}; it may be dead or kept from \
         running, its domains may be frozen or unbounded"
    )]
    Unresponsive {
        /// The manager's CPU.
        cpu: u32,
        /// How long was waited.
        waited: Duration,
    },
}
