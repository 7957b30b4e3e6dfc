//! CPU reservations on one host.
//!
//! A [`Backend`] turns a request into a [`Plan`]: a list of [`Change`]s of the kernel's state,
//! each with what it replaces, and perhaps a manager thread. Planning changes nothing; one
//! executor carries plans out, writes every change to a journal first, and takes them back in
//! reverse.

pub mod backend;
pub mod change;

pub use backend::{
    Backend, Capabilities, Manager, MissingRequirement, Plan, ReservationRequest, Target,
};
pub use change::{Change, SchedulingSetting};
