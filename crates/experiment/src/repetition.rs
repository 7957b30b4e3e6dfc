//! One repetition of one variant: reserve, drive, measure, take back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time;

use tailbound_daemon::{Client, Lease, Selection, StartOptions};
use tailbound_enforcement::{LedgerSummary, ReservationRequest};
use tailbound_measurement::{Measurement, Progress};
use tailbound_model::{BackendKind, InputFiles, LoadedDescription, Variant};
use tailbound_time::Duration;

use crate::driving::{Drive, generator_cpu};
use crate::resolve::ResolvedDomain;
use crate::testbed::Testbed;
use crate::{ExperimentError, Observer, Step};

/// How often a wait looks whether the user wants to end.
const LOOK_EVERY: time::Duration = time::Duration::from_millis(50);

/// What one repetition yields, by service.
#[derive(Debug, Default)]
pub struct Repetition {
    /// The latencies.
    pub measured: BTreeMap<String, Measurement>,
    /// What the reservation's manager has seen, where there is one.
    pub ledgers: BTreeMap<String, LedgerSummary>,
}

/// What all repetitions share.
pub struct Bench<'a> {
    /// The description and its folder.
    pub loaded: &'a LoadedDescription,
    /// The files that it names.
    pub inputs: &'a InputFiles,
    /// How long releases count.
    pub duration: Duration,
    /// What is released before and counts for nothing.
    pub warm_up: Duration,
    /// The seed of the arrivals: the same in every repetition, so that they are paired.
    pub seed: u64,
    /// Raised when the user wants to end.
    pub stop: &'a AtomicBool,
}

impl Bench<'_> {
    /// Runs `variant` once. Whatever happens, its reservations are taken back and its neighbours
    /// ended before this returns: by us, or by the daemon when our connection closes.
    ///
    /// # Errors
    /// The reservation is refused, or a program or service fails before anything is measured.
    pub fn repeat(
        &self,
        testbed: &mut Testbed<'_>,
        variant: &Variant,
        resolved: &BTreeMap<String, ResolvedDomain>,
        observer: &mut dyn Observer,
        done: (f64, f64),
    ) -> Result<Repetition, ExperimentError> {
        if variant.neighbours {
            testbed.start_neighbours()?;
        }
        let outcome = self.under_reservation(testbed, variant, resolved, observer, done);
        testbed.stop_neighbours();
        outcome
    }

    fn under_reservation(
        &self,
        testbed: &mut Testbed<'_>,
        variant: &Variant,
        resolved: &BTreeMap<String, ResolvedDomain>,
        observer: &mut dyn Observer,
        done: (f64, f64),
    ) -> Result<Repetition, ExperimentError> {
        let requests = requests(testbed, resolved)?;
        let mut client = None;
        if !requests.is_empty() {
            let mut connected = Client::connect_or_start(
                &tailbound_enforcement::state_directory(),
                &StartOptions::default(),
            )?;
            connected.apply(&requests, Lease::Connection)?;
            client = Some(connected);
            await_first_budget(resolved, self.stop);
        }
        let mut measured = self.drive_all(testbed, variant, observer, done)?;
        let mut ledgers = BTreeMap::new();
        if let Some(mut client) = client {
            match self.take_back(&mut client, &requests) {
                Ok(seen) => ledgers = seen,
                // What was measured stays worth telling, though not as a whole run.
                Err(error) => {
                    for one in measured.values_mut() {
                        let why = format!("the reservation did not last to the end: {error}");
                        one.interrupted.get_or_insert(why);
                    }
                }
            }
        }
        Ok(Repetition { measured, ledgers })
    }

    /// Takes the reservations back; tells what their managers have seen, by service. Where this is
    /// not reached, the daemon does it when the connection closes.
    fn take_back(
        &self,
        client: &mut Client,
        requests: &[ReservationRequest],
    ) -> Result<BTreeMap<String, LedgerSummary>, ExperimentError> {
        let seen = client.ledger()?;
        let mut ledgers = BTreeMap::new();
        for (name, service) in &self.loaded.description.services {
            if let Some(ledger) = seen.get(&service.domain) {
                ledgers.insert(name.clone(), ledger.clone());
            }
        }
        for request in requests {
            client.revert(Selection::Domain(request.domain.clone()))?;
        }
        Ok(ledgers)
    }

    /// Drives every service at the same time, each from its own generator.
    fn drive_all(
        &self,
        testbed: &Testbed<'_>,
        variant: &Variant,
        observer: &mut dyn Observer,
        done: (f64, f64),
    ) -> Result<BTreeMap<String, Measurement>, ExperimentError> {
        let description = &self.loaded.description;
        let (sender, received) = mpsc::channel();
        let results = std::thread::scope(|scope| {
            let mut running = Vec::new();
            for (index, (name, service)) in description.services.iter().enumerate() {
                let drive = Drive {
                    description,
                    base: self.loaded.base(),
                    inputs: self.inputs,
                    name,
                    service,
                    duration: self.duration,
                    warm_up: self.warm_up,
                    seed: self.seed,
                    cpu: generator_cpu(description, service),
                    busy: testbed.calibrations.get(name).and_then(|found| found.busy),
                };
                let (stop, sender) = (self.stop, sender.clone());
                running.push(scope.spawn(move || {
                    let measured = drive.carry_out(stop, &mut |progress| {
                        // The first generator speaks for all; nobody listening is no harm.
                        let _heard = if index == 0 {
                            sender.send(progress)
                        } else {
                            Ok(())
                        };
                    });
                    (name.clone(), measured)
                }));
            }
            drop(sender);
            for (index, progress) in received.iter().enumerate() {
                tell(observer, &variant.name, progress, index == 0, done);
            }
            running
                .into_iter()
                .map(std::thread::ScopedJoinHandle::join)
                .collect::<Vec<_>>()
        });
        let mut all = BTreeMap::new();
        for result in results {
            match result {
                Ok((name, measured)) => {
                    all.insert(name, measured?);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(all)
    }
}

/// Waits until every reservation has begun: a budget is first given at a point of its grid, up to
/// a period away, and what is released before that would wait for it.
fn await_first_budget(resolved: &BTreeMap<String, ResolvedDomain>, stop: &AtomicBool) {
    let interfaces = resolved
        .values()
        .filter_map(ResolvedDomain::enforced_interface);
    let longest = interfaces
        .map(|interface| interface.period)
        .max()
        .unwrap_or(Duration::ZERO);
    let until = time::Instant::now() + time::Duration::from_nanos(longest.as_nanos());
    while time::Instant::now() < until && !stop.load(Ordering::SeqCst) {
        let left = until.saturating_duration_since(time::Instant::now());
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}

/// The reservations that a variant needs; domains that get none are left out.
fn requests(
    testbed: &mut Testbed<'_>,
    resolved: &BTreeMap<String, ResolvedDomain>,
) -> Result<Vec<ReservationRequest>, ExperimentError> {
    let mut requests = Vec::new();
    for (domain, resolved) in resolved {
        if resolved.backend == BackendKind::None {
            continue;
        }
        requests.push(ReservationRequest {
            domain: domain.clone(),
            target: testbed.resident(domain)?.target(),
            interface: resolved.interface.clone(),
            backend: resolved.backend,
        });
    }
    Ok(requests)
}

/// Tells the observer how far the first generator is, as part of the whole from `done.0` on.
fn tell(
    observer: &mut dyn Observer,
    variant: &str,
    progress: Progress,
    begins: bool,
    done: (f64, f64),
) {
    let share = progress.elapsed.as_secs_f64() / progress.total.as_secs_f64().max(1e-9);
    observer.step(&Step {
        what: format!("measuring {variant}: {} answered", progress.answered),
        done: done.0 + (done.1 - done.0) * share.min(1.0),
        begins,
    });
}
