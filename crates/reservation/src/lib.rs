//! The rules of reservations: how a budget is spent, and when it comes back.
//!
//! All of them are state machines without a clock: whoever drives one says what has happened, and when.
//! [`Account`] follows any [`Rule`] exactly, to the nanosecond; the simulator spends from it.
//! [`window_server`] opens and closes the windows of a time partition for a manager; `time-partitions` serves by it, and
//! [`edge_delay`] says why an edge of a window came late.
//! [`metered_server`] is the deferrable rule for a manager that reads a meter of CPU time and comes a
//! little late; `ds-freeze` serves real domains by it. Both lie on the same [`ReplenishmentGrid`], and a test holds
//! one against the other.
//!
//! A rule is a variant of [`ServerKind`], a file in `rules`, and a row of the table of the questions that
//! are answered for it (`ServerKind::answers`).

mod account;
mod budget;
pub mod edge_delay;
mod grid;
pub mod metered_server;
mod rule;
mod rules;
pub mod window_server;

pub use account::Account;
pub use grid::ReplenishmentGrid;
pub use rule::{ReservationError, Rule};
pub use tailbound_model::{ServerKind, Window};

/// The instant that never comes, in nanoseconds; as a budget, one without a limit.
pub const NEVER: u64 = u64::MAX;
