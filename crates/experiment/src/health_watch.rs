//! Health monitoring of the programs of a run: looks at programs and ledgers, records each event, and carries out the
//! responses of the [`HealthMonitor`]s.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration as Pause;

use serde::Serialize;
use tailbound_control::RefusalKind;
use tailbound_enforcement::binding::name_of_topics;
use tailbound_enforcement::{LedgerSummary, ReservationRequest, Target};
use tailbound_linux::clock::Monotonic;
use tailbound_linux::network_interface::NetworkPlace;
use tailbound_model::{Description, HealthResponse};
use tailbound_time::{Clock, Duration, Instant};

use crate::health_monitor::{HealthCounts, HealthEvent, HealthMonitor, HealthVerdict};
use crate::reservation_lease::ReservationLease;
use crate::testbed::Testbed;
use crate::{ExperimentError, Observer};

/// The time between two looks.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often it is attempted to reserve for a program that was started anew: children that it has while it begins may end
/// in between.
const ATTEMPTS: u32 = 10;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

/// The events of a domain's health in one repetition, and the responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthTotals {
    /// Programs that ended.
    pub exits: u64,
    /// Windows that were overrun.
    pub overruns: u64,
    /// Windows that were missed.
    pub missed_windows: u64,
    /// Restarts of the domain.
    pub restarts: u64,
    /// Why the domain was stopped, if it was.
    pub stop: Option<&'static str>,
}

impl HealthTotals {
    /// The totals as a sentence of a warning; none without an event.
    pub fn in_words(&self) -> Option<String> {
        let counted = [
            (self.exits, "exits"),
            (self.overruns, "overrun windows"),
            (self.missed_windows, "missed windows"),
            (self.restarts, "restarts"),
        ];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        let mut parts: Vec<String> = counted
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        parts.extend(self.stop.map(|why| format!("stopped: {why}")));
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn add(&mut self, verdict: &HealthVerdict) {
        for (event, count) in &verdict.events {
            *match event {
                HealthEvent::Exit => &mut self.exits,
                HealthEvent::Overrun => &mut self.overruns,
                HealthEvent::MissedWindow => &mut self.missed_windows,
            } += count;
        }
        match (verdict.response, verdict.is_exhausted) {
            (HealthResponse::Ignore, _) => {}
            (HealthResponse::Restart, _) => self.restarts += 1,
            (HealthResponse::Stop, false) => self.stop = Some("an event asks for it"),
            (HealthResponse::Stop, true) => self.stop = Some("it was restarted too often"),
        }
    }
}

/// A line of the log of health.
#[derive(Debug, Serialize)]
struct HealthEntry<'a> {
    variant: &'a str,
    repetition: usize,
    domain: &'a str,
    /// The time since the reservations were made.
    after: Duration,
    event: HealthEvent,
    count: u64,
    response: HealthResponse,
    /// Whether the response is a stop since there were too many restarts.
    too_many_restarts: bool,
    /// How programs ended.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    endings: &'a [String],
}

#[derive(Debug)]
struct MonitoredDomain {
    monitor: HealthMonitor,
    /// The reservation that it had at first.
    request: Option<ReservationRequest>,
    /// The contracts of its topics that are in force in networks which end with its programs.
    topics: Option<ReservationRequest>,
    totals: HealthTotals,
}

/// The health monitors of one repetition.
#[derive(Debug)]
pub struct HealthWatch<'a> {
    run: (&'a str, usize),
    domains: BTreeMap<String, MonitoredDomain>,
    log: PathBuf,
    begun: Instant,
    next_look: Instant,
}

/// The domains whose programs are monitored, with the names under which their topics are held.
pub fn monitored_domains(description: &Description) -> BTreeSet<String> {
    let domains = description.domains.iter();
    let monitored = domains.filter(|(_, domain)| domain.health.is_some());
    let names = monitored.flat_map(|(name, _)| [name.clone(), name_of_topics(name)]);
    names.collect()
}

impl<'a> HealthWatch<'a> {
    /// Monitors for a repetition (variant and number) under its reservations; the log is in the folder of the results.
    pub fn begin(
        description: &Description,
        requests: &[ReservationRequest],
        run: (&'a str, usize),
        out: &Path,
    ) -> Self {
        let domains = description.domains.iter().filter_map(|(name, domain)| {
            let request_of = |name: &str| requests.iter().find(|one| one.domain == name).cloned();
            let watched = MonitoredDomain {
                monitor: HealthMonitor::new(domain.health?),
                request: request_of(name),
                topics: request_of(&name_of_topics(name)).filter(ends_with_programs),
                totals: HealthTotals::default(),
            };
            Some((name.clone(), watched))
        });
        let begun = Monotonic.now();
        Self {
            run,
            domains: domains.collect(),
            log: out.join("logs").join("health.jsonl"),
            begun,
            next_look: begun,
        }
    }

    /// Looks at all monitored domains, if it is time to, and does what the monitors ask for.
    ///
    /// # Errors
    /// A program that cannot be started again, a reservation that is refused, or a log that cannot be written.
    pub fn look(
        &mut self,
        testbed: &mut Testbed<'_>,
        lease: &mut ReservationLease,
        observer: &mut dyn Observer,
    ) -> Result<(), ExperimentError> {
        let now = Monotonic.now();
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now.saturating_add(LOOK_EVERY);
        self.look_now(testbed, lease, observer)
    }

    /// The same, whatever the time.
    ///
    /// # Errors
    /// As [`HealthWatch::look`].
    pub fn look_now(
        &mut self,
        testbed: &mut Testbed<'_>,
        lease: &mut ReservationLease,
        observer: &mut dyn Observer,
    ) -> Result<(), ExperimentError> {
        if self.domains.is_empty() || lease.loss().is_some() {
            return Ok(());
        }
        // A daemon that does not answer is the business of the lease.
        let ledgers = lease.ledgers().unwrap_or_default();
        let running = self.domains.iter();
        let running = running.filter(|(_, domain)| !domain.monitor.is_stopped());
        let names: Vec<String> = running.map(|(name, _)| name.clone()).collect();
        for name in names {
            let attended = (&mut *testbed, &mut *lease);
            self.look_at(&name, ledgers.get(&name), attended, observer)?;
        }
        Ok(())
    }

    fn look_at(
        &mut self,
        name: &str,
        ledger: Option<&LedgerSummary>,
        (testbed, lease): (&mut Testbed<'_>, &mut ReservationLease),
        observer: &mut dyn Observer,
    ) -> Result<(), ExperimentError> {
        let endings = testbed.take_endings(name);
        let Some(domain) = self.domains.get_mut(name) else {
            return Ok(());
        };
        let counts = ledger.and_then(HealthCounts::of);
        let now = Monotonic.now();
        let verdict = domain.monitor.observe(endings.len() as u64, counts, now);
        domain.totals.add(&verdict);
        let requests = (domain.request.clone(), domain.topics.clone());
        self.record(name, &verdict, &endings, now)?;
        match verdict.response {
            HealthResponse::Ignore => {}
            HealthResponse::Restart => {
                observer.remark(&format!(
                    "domain \"{name}\" is started anew: {}",
                    reason(&verdict, &endings)
                ));
                testbed.kill(name);
                lease.end(name)?;
                testbed.start_again(name)?;
                renew(name, requests, (testbed, lease))?;
            }
            HealthResponse::Stop => {
                let why = match verdict.is_exhausted {
                    true => "it was restarted too often; ",
                    false => "",
                };
                observer.remark(&format!(
                    "domain \"{name}\" is stopped: {why}{}",
                    reason(&verdict, &endings)
                ));
                testbed.kill(name);
                lease.end(name)?;
            }
        }
        Ok(())
    }

    /// Writes the events of a domain to the log.
    fn record(
        &self,
        domain: &str,
        verdict: &HealthVerdict,
        endings: &[String],
        now: Instant,
    ) -> Result<(), ExperimentError> {
        let mut text = String::new();
        for (event, count) in &verdict.events {
            let entry = HealthEntry {
                variant: self.run.0,
                repetition: self.run.1,
                domain,
                after: now.saturating_since(self.begun),
                event: *event,
                count: *count,
                response: verdict.response,
                too_many_restarts: verdict.is_exhausted,
                endings: if *event == HealthEvent::Exit {
                    endings
                } else {
                    &[]
                },
            };
            let line = serde_json::to_string(&entry).map_err(|error| self.unwritten(&error))?;
            text.push_str(&line);
            text.push('\n');
        }
        if text.is_empty() {
            return Ok(());
        }
        let written = self.log.parent().map_or(Ok(()), std::fs::create_dir_all);
        let file = written.and_then(|()| File::options().create(true).append(true).open(&self.log));
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| self.unwritten(&error))
    }

    fn unwritten(&self, cause: &dyn std::fmt::Display) -> ExperimentError {
        ExperimentError::Write {
            file: self.log.display().to_string(),
            cause: cause.to_string(),
        }
    }

    /// The totals of each domain, at the end.
    pub fn into_totals(self) -> BTreeMap<String, HealthTotals> {
        let domains = self.domains.into_iter();
        domains
            .map(|(name, domain)| (name, domain.totals))
            .collect()
    }
}

/// Whether the contracts of a request are in force in networks that end with the programs of its domain.
fn ends_with_programs(request: &ReservationRequest) -> bool {
    let Target::Topics(topics) = &request.target else {
        return false;
    };
    let mut networks = topics.networks.iter();
    networks.any(|network| matches!(network, NetworkPlace::OfProcess(_)))
}

/// Reserves again for a domain that was started anew, and has the contracts of its topics enforced again in its new networks.
fn renew(
    name: &str,
    (reservation, topics): (Option<ReservationRequest>, Option<ReservationRequest>),
    attended: (&mut Testbed<'_>, &mut ReservationLease),
) -> Result<(), ExperimentError> {
    let (testbed, lease) = attended;
    if let (Some(request), Some(target)) = (reservation, testbed.started_target(name)?) {
        let request = ReservationRequest { target, ..request };
        renew_one(name, &request, testbed, lease)?;
    }
    let Some(mut request) = topics else {
        return Ok(());
    };
    lease.end(&request.domain)?;
    if let Target::Topics(topics) = &mut request.target {
        topics.networks = testbed.networks(name);
    }
    renew_one(name, &request, testbed, lease)
}

fn renew_one(
    name: &str,
    request: &ReservationRequest,
    testbed: &mut Testbed<'_>,
    lease: &mut ReservationLease,
) -> Result<(), ExperimentError> {
    let mut left = ATTEMPTS;
    loop {
        let Err(error) = lease.renew(request) else {
            return Ok(());
        };
        if testbed.has_ended(name) {
            // That is for the next look.
            return Ok(());
        }
        left -= 1;
        let of_target = match &error {
            ExperimentError::Daemon(error) => error.refusal_kind() == Some(RefusalKind::Target),
            _ => false,
        };
        if left == 0 || !of_target {
            return Err(error);
        }
        std::thread::sleep(Pause::from_nanos(BETWEEN_ATTEMPTS.as_nanos()));
    }
}

/// The events of a verdict in words.
fn reason(verdict: &HealthVerdict, endings: &[String]) -> String {
    let events = verdict.events.iter().map(|(event, count)| match event {
        HealthEvent::Exit => endings.join(", "),
        HealthEvent::Overrun => format!("{count} overrun windows"),
        HealthEvent::MissedWindow => format!("{count} missed windows"),
    });
    let events: Vec<String> = events.collect();
    events.join(", ")
}
