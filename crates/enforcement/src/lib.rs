//! CPU reservations on one host.
//!
//! A [`Backend`] turns a request into a [`Plan`]: a list of [`Change`]s of the kernel's state,
//! each with what it replaces, and perhaps a manager thread. Planning changes nothing; the
//! [`Enforcer`] admits requests, carries plans out, writes every change to a journal first, and
//! takes them back in reverse. [`recover`] takes back what an enforcer that died left behind.

pub mod admission;
pub mod audit;
pub mod backend;
pub mod backends;
pub mod binding;
pub mod change;
pub mod ds_freeze;
pub mod enforcer;
pub mod error;
pub mod journal;
pub mod kernel;
pub mod linux_kernel;
pub mod managers;
pub mod recovery;
pub mod registry;
pub mod virtual_machine;

mod change_interface;
mod confinement;
mod executor;
mod interrupts;
mod newcomers;
mod packet_table;
mod thaw;

pub use audit::AuditSummary;
pub use backend::{
    Backend, CgroupName, GuardedTopics, Inheritance, InterruptTarget, MachineThreads, Manager,
    MissingRequirement, NamedCgroup, Plan, ReservationRequest, Site, Target,
};
pub use change::Change;
pub use enforcer::{
    Changed, DomainStatus, EnforcementStatus, Enforcer, Probe, ReservationChange, Sight,
};
pub use error::{AdmissionError, AdmissionRefusal, EnforcementError, PlanError};
pub use journal::{SYSTEM_STATE_DIRECTORY, state_directory};
pub use kernel::{KernelState, KernelView};
pub use linux_kernel::LinuxKernel;
pub use managers::{FreezeManagers, LedgerSummary, Managers, first_budget};
pub use packet_table::{DroppedDatagrams, TopicTables};
pub use recovery::{Recovery, recover, standing_reservations};
pub use registry::HostRegistry;
pub use tailbound_analysis::interference::HostInterference;
pub use tailbound_linux::scheduling::SchedulingSetting;
