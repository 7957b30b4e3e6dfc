//! Reservations, held for as long as something is measured under them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time;

use tailbound_control::{Client, Lease, RefusalKind, Selection, StartOptions};
use tailbound_enforcement::{LedgerSummary, ReservationRequest, first_budget};
use tailbound_linux::clock::Monotonic;
use tailbound_modes::control::ModesClient;
use tailbound_modes::table::ModeTable;
use tailbound_time::{Clock, Duration};

use crate::ExperimentError;
use crate::loss_watch::LossWatch;

/// How often a wait looks whether the user wants to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Reservations that stand. Whatever happens, they are taken back: by [`ReservationLease::release`], or by
/// the daemon when the connection in here closes.
#[derive(Debug)]
pub struct ReservationLease {
    /// None where nothing is reserved.
    client: Option<Client>,
    domains: Vec<String>,
    /// Those of them whose reservations may end with their programs.
    monitored: BTreeSet<String>,
    /// Whether they are still there.
    watch: Option<LossWatch>,
}

impl ReservationLease {
    /// Reserves all of `requests`, or nothing, and waits until every budget has been given once: a
    /// budget first comes at a point of its grid, up to a period away. Then the daemon knows the modes,
    /// until the reservations are taken back. Those of `monitored` domains may end with their programs.
    ///
    /// # Errors
    /// The daemon refuses, or cannot be reached, or knows the modes of another description.
    pub fn take(
        requests: &[ReservationRequest],
        monitored: BTreeSet<String>,
        modes: Option<&ModeTable>,
        stop: &AtomicBool,
    ) -> Result<Self, ExperimentError> {
        if requests.is_empty() {
            return Ok(Self {
                client: None,
                domains: Vec::new(),
                monitored,
                watch: None,
            });
        }
        let mut client = Client::connect_or_start(
            &tailbound_enforcement::state_directory(),
            &StartOptions::default(),
        )?;
        if modes.is_some()
            && let Some(status) = client.modes()?
        {
            let mode = status.state.mode;
            return Err(ExperimentError::ModesKnown { mode });
        }
        client.apply(requests, Lease::Connection)?;
        let domains: Vec<String> = requests.iter().map(|one| one.domain.clone()).collect();
        let state = tailbound_enforcement::state_directory();
        // Whoever measures looks at it meanwhile.
        let watch = LossWatch::begin_beside_monitors(&state, domains.clone(), monitored.clone());
        let watch = watch.map_err(|source| ExperimentError::NoWatch { source })?;
        await_first_budget(requests, stop);
        if let Some(modes) = modes {
            client.load_modes(modes.clone(), None)?;
        }
        Ok(Self {
            client: Some(client),
            domains,
            monitored,
            watch: Some(watch),
        })
    }

    /// Which reservation was lost, and why, if one was.
    pub fn loss(&self) -> Option<String> {
        self.watch.as_ref().and_then(LossWatch::loss)
    }

    /// What the managers of the reservations have seen so far, by domain.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub fn ledgers(&mut self) -> Result<BTreeMap<String, LedgerSummary>, ExperimentError> {
        match &mut self.client {
            Some(client) => Ok(client.ledger()?),
            None => Ok(BTreeMap::new()),
        }
    }

    /// Takes the reservation of a domain back, whose programs have ended. The daemon may have done so already.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub fn end(&mut self, domain: &str) -> Result<(), ExperimentError> {
        let Some(client) = &mut self.client else {
            return Ok(());
        };
        self.domains.retain(|one| one != domain);
        revert_if_active(client, domain)
    }

    /// Reserves again for a domain whose programs were started anew.
    ///
    /// # Errors
    /// The daemon refuses, or does not answer.
    pub fn renew(&mut self, request: &ReservationRequest) -> Result<(), ExperimentError> {
        let Some(client) = &mut self.client else {
            return Ok(());
        };
        client.apply(std::slice::from_ref(request), Lease::Connection)?;
        self.domains.push(request.domain.clone());
        Ok(())
    }

    /// Takes the reservations back.
    ///
    /// # Errors
    /// The daemon does not answer, or no longer has them.
    pub fn release(mut self) -> Result<(), ExperimentError> {
        let Some(mut client) = self.client.take() else {
            return Ok(());
        };
        for domain in &self.domains {
            match self.monitored.contains(domain) {
                true => revert_if_active(&mut client, domain)?,
                false => drop(client.revert(Selection::Domain(domain.clone()))?),
            }
        }
        Ok(())
    }
}

fn revert_if_active(client: &mut Client, domain: &str) -> Result<(), ExperimentError> {
    match client.revert(Selection::Domain(domain.to_owned())) {
        Err(error) if error.refusal_kind() == Some(RefusalKind::NotActive) => Ok(()),
        reverted => reverted.map(drop).map_err(ExperimentError::from),
    }
}

fn await_first_budget(requests: &[ReservationRequest], stop: &AtomicBool) {
    let now = Monotonic.now();
    let given = requests.iter().map(|request| first_budget(request, now));
    let until = given.max().unwrap_or(now);
    while !stop.load(Ordering::SeqCst) {
        let left = until.saturating_since(Monotonic.now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(time::Duration::from_nanos(left.min(LOOK_EVERY).as_nanos()));
    }
}
