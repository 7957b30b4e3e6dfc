//! One transition from mode to mode, as a state machine without I/O.
//!
//! Per domain (thesis, section 2.3.2, steps 3 and 4): one whose bandwidth grows gets its interface
//! first and then its tasks, every other one its tasks first and then its interface, so that at no
//! instant its tasks ask for more than its reservation. A domain that shrinks gives its share back
//! when the smaller interface is in force, which is at its next replenishment and not when it was
//! accepted; what others get of it is asked for from then on. So at no instant the bandwidths in
//! force on a CPU add up to more than its limit.
//!
//! Feed a [`Transition`] with [`Event`]s, carry out the [`Action`]s that it returns, and wake it at
//! [`Transition::next_wake`]. Everything that happens is in its [`Timeline`].

mod capacity;
mod domain;
mod events;
mod outcome;
mod policy;
mod state_machine;
mod timeline;

pub(crate) use capacity::share;
pub use capacity::{Holdings, Limits, Overload};
pub use domain::{Direction, DomainChange, LocalMode};
pub use events::{Action, Event, Options};
pub use outcome::{Cause, Ending, Held, Outcome, Settled};
pub use state_machine::{Transition, TransitionError};
pub use timeline::{Step, StepKind, Timeline};
