//! How reservations that are in force are changed without being taken back.

use std::sync::{Arc, Mutex};

use tailbound_enforcement::{Changed, Enforcer, ReservationChange};
use tailbound_time::Duration;

use crate::protocol::Refusal;

/// `ReservationControl` changes reservations that are in force: the enforcer, or what decides who may use it.
pub trait ReservationControl: Send {
    /// Changes by [`ReservationControl::change_from`] follow, one soon after another.
    ///
    /// # Errors
    /// Why each will be made by itself.
    fn begin_changes(&mut self) -> Result<(), Refusal>;

    /// For now there are no more.
    ///
    /// # Errors
    /// Why not all is written yet.
    fn end_changes(&mut self) -> Result<(), Refusal>;

    /// Changes what an active reservation gives.
    ///
    /// # Errors
    /// Why the old one still holds.
    fn change_from(&mut self, change: ReservationChange<'_>) -> Result<Changed, Refusal>;

    /// Lets a domain run without budget for so long at most, if its back end can.
    ///
    /// # Errors
    /// Why not.
    fn boost(&mut self, domain: &str, at_most: Duration, if_exhausted: bool)
    -> Result<(), Refusal>;

    /// Ends a boost.
    ///
    /// # Errors
    /// Why that is not known; it ends by itself then.
    fn unboost(&mut self, domain: &str) -> Result<(), Refusal>;
}

/// A control that several threads use.
pub type SharedControl = Arc<Mutex<dyn ReservationControl>>;

impl ReservationControl for Enforcer {
    fn begin_changes(&mut self) -> Result<(), Refusal> {
        Ok(Enforcer::begin_changes(self)?)
    }

    fn end_changes(&mut self) -> Result<(), Refusal> {
        Ok(Enforcer::end_changes(self)?)
    }

    fn change_from(&mut self, change: ReservationChange<'_>) -> Result<Changed, Refusal> {
        Ok(Enforcer::change_from(self, change)?)
    }

    fn boost(
        &mut self,
        domain: &str,
        at_most: Duration,
        if_exhausted: bool,
    ) -> Result<(), Refusal> {
        Ok(Enforcer::boost(self, domain, at_most, if_exhausted)?)
    }

    fn unboost(&mut self, domain: &str) -> Result<(), Refusal> {
        Ok(Enforcer::unboost(self, domain)?)
    }
}
