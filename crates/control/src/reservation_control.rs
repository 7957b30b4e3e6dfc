//! How reservations that are in force are changed without being taken back.

use std::sync::{Arc, Mutex};

use tailbound_enforcement::{Changed, Enforcer};
use tailbound_model::ResourceInterface;
use tailbound_time::{Duration, Instant};

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

    /// Changes what an active reservation gives, in force no earlier than an instant.
    ///
    /// # Errors
    /// Why the old one still holds.
    fn change_from(
        &mut self,
        domain: &str,
        interface: &ResourceInterface,
        not_before: Instant,
    ) -> Result<Changed, Refusal>;

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

    fn change_from(
        &mut self,
        domain: &str,
        interface: &ResourceInterface,
        not_before: Instant,
    ) -> Result<Changed, Refusal> {
        Ok(Enforcer::change_from(self, domain, interface, not_before)?)
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
