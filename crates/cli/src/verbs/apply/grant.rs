//! Reservations that `tailbound apply` puts into force: until somebody takes them back or, with `--hold`, for as long
//! as the command runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as Pause;

use sd_notify::NotifyState;
use tailbound_control::{Client, Lease, RefusalKind, Selection, StartOptions};
use tailbound_enforcement::{ReservationRequest, state_directory};
use tailbound_experiment::LossWatch;
use tailbound_model::WhenEmpty;

use crate::failure::Failure;
use crate::interrupts;
use crate::output::Output;

/// The time between two looks whether the command is to end.
const LOOK_EVERY: Pause = Pause::from_millis(100);

/// A connection over which reservations are put into force.
pub(super) struct Grant {
    pub client: Client,
    /// Whether the command is to end, where it holds the reservations.
    stop: Option<Arc<AtomicBool>>,
}

impl Grant {
    /// A connection to the daemon, which is started if need be.
    pub fn begin(hold: bool) -> Result<Self, Failure> {
        let stop = hold.then(interrupts::watch).transpose()?;
        let client = Client::connect_or_start(&state_directory(), &StartOptions::default())
            .map_err(Failure::from_error)?;
        Ok(Self { client, stop })
    }

    /// Puts all of `requests` into force, or none. What is held goes back with the connection, however the command
    /// ends.
    pub fn apply(
        &mut self,
        requests: &[ReservationRequest],
        when_empty: BTreeMap<String, WhenEmpty>,
        output: &Output,
    ) -> Result<(), Failure> {
        let lease = match self.stop {
            Some(_) => Lease::Connection,
            None => Lease::Persistent,
        };
        let plans = self.client.apply_with(requests, lease, when_empty);
        let plans = plans.map_err(Failure::from_error)?;
        // The reservations in the kernel's words.
        for line in plans.iter().flat_map(|plan| &plan.mapping) {
            output.detail(line);
        }
        Ok(())
    }

    /// Says how long the reservations of `requests` hold; where the command holds them, waits for its end.
    ///
    /// # Errors
    /// The reservations are not there any more before the command is to end, or cannot be taken back then.
    pub fn end(self, requests: &[ReservationRequest], output: &Output) -> Result<(), Failure> {
        let domains = requests.iter().map(|request| request.domain.clone());
        let domains: Vec<String> = domains.collect();
        let Some(stop) = self.stop else {
            let domains = domains.join(", ");
            output.note(format!("in force until `tailbound revert`: {domains}"));
            return Ok(());
        };
        hold(self.client, &domains, &stop, output)
    }
}

fn hold(
    mut client: Client,
    domains: &[String],
    stop: &AtomicBool,
    output: &Output,
) -> Result<(), Failure> {
    let watch = LossWatch::begin(&state_directory(), domains.to_vec(), |_| {})
        .map_err(|error| Failure::error(format!("cannot watch over the reservations: {error}")))?;
    // Without a service manager nobody is told.
    sd_notify::notify(&[NotifyState::Ready])
        .map_err(|error| Failure::error(format!("the service manager hears nothing: {error}")))?;
    let names = domains.join(", ");
    output.note(format!("in force until this command ends: {names}"));
    while !stop.load(Ordering::SeqCst) {
        if let Some(loss) = watch.loss() {
            return Err(Failure::error(loss));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    drop(watch);
    match client.revert(Selection::Domains(domains.to_vec())) {
        // Somebody was faster.
        Err(error) if error.refusal_kind() == Some(RefusalKind::NotActive) => Ok(()),
        reverted => {
            let reverted = reverted.map_err(Failure::from_error)?;
            output.note(format!("taken back: {}", reverted.join(", ")));
            Ok(())
        }
    }
}
