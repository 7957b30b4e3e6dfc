//! What the daemon and its subsystems owe each other.
//!
//! A subsystem is what lives in the daemon beside reservations: modes are one. It has a crate of its own
//! that implements [`Subsystem`] over what the daemon gives it ([`ReservationHost`]), and a
//! [`Registration`] in the daemon's one list. The daemon's core knows neither its requests nor its files.

pub mod log;
pub mod metrics;
pub mod process_identity;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prometheus_client::collector::Collector;
use serde_json::Value;
use tailbound_control::{HeldBy, Refusal, SharedControl, SubsystemRequest};
use tailbound_enforcement::{EnforcementStatus, LedgerSummary, ReservationRequest};
use tailbound_time::Duration;

use crate::process_identity::StartTimes;

/// `Subsystem` is a part of the daemon with requests, a section of the status, metrics and a journal of its
/// own. The daemon calls it from the threads of connections and from its own, so a subsystem locks what it
/// has; the daemon holds no lock meanwhile.
pub trait Subsystem: Send + Sync {
    /// The name under which it is asked, and under which its section of the status stands.
    fn name(&self) -> &'static str;

    /// Whether any user may ask this of it. What cannot be read is open to nobody.
    fn is_open_to_everyone(&self, request: &Value) -> bool;

    /// Carries a request out.
    ///
    /// # Errors
    /// Why not, or that the request cannot be read.
    fn answer(&self, request: Value) -> Result<Value, Refusal>;

    /// Its section of the status; none while there is nothing to say.
    fn status(&self) -> Option<Value>;

    /// Its metrics as they are now; none while there is nothing to count.
    fn metrics(&self) -> Option<Box<dyn Collector>>;

    /// The domains whose reservations nobody else may change.
    fn claimed_domains(&self) -> BTreeSet<String>;

    /// The domains whose reservations are not released when they have no members: those that are claimed, unless
    /// a subsystem says otherwise.
    fn kept_domains(&self) -> BTreeSet<String> {
        self.claimed_domains()
    }

    /// Why nobody else may change the reservation of a claimed domain.
    fn refusal_to_change(&self, domain: &str) -> Refusal;

    /// Makes again what was in force when another daemon died, before anybody can ask for something.
    fn resume(&self);

    /// Claimed domains are about to be taken back: if the daemon dies meanwhile, they are not made again.
    fn before_revert(&self);

    /// They were taken back, or not all of them.
    fn after_revert(&self);

    /// Reservations have got other owners or none.
    fn owners_changed(&self);

    /// Nothing is to be made again if the daemon dies from here on: nobody guards it.
    fn forget_journal(&self);

    /// Ends; reservations stay as they are.
    fn end(&self);
}

/// `ReservationHost` is what a subsystem gets of the daemon: the reservations, and who answers for them.
pub trait ReservationHost: Send + Sync {
    /// How reservations that are in force are changed.
    fn control(&self) -> SharedControl;

    /// What is in force.
    fn standing(&self) -> EnforcementStatus;

    /// What the manager of a domain has seen, where there is one.
    fn ledger(&self, domain: &str) -> Option<LedgerSummary>;

    /// Who answers for the reservation of a domain; none if it has none.
    fn holder(&self, domain: &str) -> Option<HeldBy>;

    /// When the processes of the reserved domains were started.
    fn start_times(&self) -> StartTimes;

    /// Makes reservations again that stay until they are reverted, for processes that were started then.
    ///
    /// # Errors
    /// Why none is made.
    fn restore(&self, requests: &[ReservationRequest], started: &StartTimes)
    -> Result<(), Refusal>;

    /// Takes the reservation of a domain without members back.
    ///
    /// # Errors
    /// If it has none, or something could not be restored.
    fn release(&self, domain: &str) -> Result<(), Refusal>;

    /// Takes everything back.
    ///
    /// # Errors
    /// What could not be restored.
    fn revert_all(&self) -> Result<(), Refusal>;
}

/// `Place` is where a subsystem keeps its files, and what the next daemon is started with.
#[derive(Clone, Debug)]
pub struct Place {
    /// The state directory of the daemon.
    pub directory: PathBuf,
    /// How long the daemon may be idle, for the one that is started if this one dies.
    pub exit_when_idle: Option<Duration>,
}

/// `Remains` is what a dead daemon left of a subsystem that makes its reservations again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// How long the daemon may be idle that makes it again.
    pub exit_when_idle: Option<Duration>,
}

/// `Registration` is a subsystem in the daemon's list.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// Makes the subsystem of a daemon that starts.
    pub start: fn(Arc<dyn ReservationHost>, Place) -> Box<dyn Subsystem>,
    /// Looks into the state directory of a dead daemon for what is to be made again.
    pub remains: fn(&Path) -> Option<Remains>,
}

/// Whether any user may ask this of a subsystem with requests of type `R`.
pub fn is_open_to_everyone<R: SubsystemRequest>(request: &Value) -> bool {
    serde_json::from_value::<R>(request.clone()).is_ok_and(|request| request.is_open_to_everyone())
}

/// Answers a request of type `R` by a function.
///
/// # Errors
/// What the function refuses, or that there is no such request.
pub fn answer<R: SubsystemRequest>(
    request: Value,
    carry_out: impl FnOnce(R) -> Result<R::Response, Refusal>,
) -> Result<Value, Refusal> {
    let bad = |error: serde_json::Error| {
        let kind = tailbound_control::RefusalKind::BadRequest;
        Refusal::new(kind, format!("a request to {}: {error}", R::SUBSYSTEM))
    };
    let request = serde_json::from_value(request).map_err(bad)?;
    serde_json::to_value(carry_out(request)?).map_err(bad)
}
