//! One transition from mode to mode, as a state machine without I/O.
//!
//! Per domain (thesis, section 2.3.2, steps 3 and 4): one whose bandwidth grows gets its interface
//! first and then its tasks, every other one its tasks first and then its interface, so that at no
//! instant its tasks ask for more than its reservation. A domain that shrinks gives its share back
//! when the smaller interface is in force, which is at its next replenishment and not when it was
//! accepted; what others get of it is asked for from then on. So at no instant the bandwidths in
//! force on a CPU add up to more than its limit.
//!
//! Feed a [`Transition`] with [`TransitionEvent`]s, carry out the [`TransitionAction`]s that it returns, and wake it at
//! [`Transition::next_wake`]. Everything that happens is in its [`Timeline`].

mod capacity;
mod domain;
mod events;
mod outcome;
mod policy;
mod state_machine;
mod timeline;

pub(crate) use capacity::share;
pub use capacity::{CapacityOverload, Holdings, Limits};
pub use domain::{Direction, DomainChange, DomainMode};
pub use events::{Options, TransitionAction, TransitionEvent};
pub use outcome::{Cause, Ending, HeldMode, Settled, TransitionOutcome};
pub use state_machine::{Transition, TransitionError};
pub use timeline::{Step, StepKind, Timeline};
