//! CPU reservations on one host.
//!
//! A [`Backend`] turns a request into a [`Plan`]: a list of [`Change`]s of the kernel's state,
//! each with what it replaces, and perhaps a manager thread. Planning changes nothing; the
//! [`Enforcer`] admits requests, carries plans out, writes every change to a journal first, and
//! takes them back in reverse. [`recover`] takes back what an enforcer that died left behind.

pub mod backend;
pub mod change;

pub mod ds_freeze;
pub mod enforcer;
pub mod error;
pub mod journal;
pub mod kernel;
pub mod managers;

pub use backend::{
    Backend, Capabilities, Inheritance, Manager, MissingRequirement, Plan, ReservationRequest,
    Target,
};
pub use change::{Change, SchedulingSetting};
pub use enforcer::{DomainStatus, EnforcementStatus, Enforcer};
pub use error::{AdmissionError, EnforcementError, PlanError};
pub use journal::{Recovery, recover, state_directory};
pub use kernel::{KernelState, KernelView};
pub use managers::{LedgerSummary, Managers};
