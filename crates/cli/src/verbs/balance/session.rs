//! A division in force: reservations of the applications, whose budgets the daemon changes, until the command ends or until
//! they are reverted.

use std::collections::{BTreeMap, BTreeSet};

use tailbound_balance::BalancePlan;
use tailbound_balance_manager::DivisionState;
use tailbound_balance_manager::control::BalanceClient;
use tailbound_control::{Client, Lease, Selection, StartOptions};
use tailbound_enforcement::{ReservationRequest, state_directory};
use tailbound_linux::clock::Monotonic;
use tailbound_linux::signal_queue::{ServiceSignal, SignalQueue};
use tailbound_model::LoadedDescription;
use tailbound_time::{Clock, Duration, Instant};

use super::interval_log::IntervalLog;
use super::step_picture::IntervalRecord;
use super::{BalanceArguments, division_table};
use crate::failure::{Failure, chain};
use crate::interrupts;
use crate::output::Output;

/// The longest time between two looks at the division.
const LOOK_AT_MOST_EVERY: Duration = Duration::from_secs(1);

/// Has the daemon divide until the time is over or a signal comes; with `--detach`, until the reservations are reverted.
pub fn carry_out(
    plan: BalancePlan,
    loaded: &LoadedDescription,
    arguments: &BalanceArguments,
    output: &Output,
) -> Result<(), Failure> {
    let requests = requests(&plan, loaded)?;
    let log = arguments.log.as_deref().map(IntervalLog::create);
    let log = log.transpose()?;
    let mut client = Client::connect_or_start(&state_directory(), &StartOptions::default())
        .map_err(Failure::from_error)?;
    if arguments.detach {
        let state = begin(&mut client, plan, loaded, (&requests, Lease::Persistent))?;
        output.note(in_words(&state, "`tailbound revert`"));
        return Ok(());
    }
    // After a daemon is started, which is not to hold signals back.
    let signals = SignalQueue::open()
        .map_err(|error| Failure::error(format!("cannot hold signals back: {error}")))?;
    let state = begin(&mut client, plan, loaded, (&requests, Lease::Connection))?;
    output.note(in_words(&state, "this command ends"));
    let end = arguments
        .duration
        .map(|length| Monotonic.now().saturating_add(length));
    let picture = &arguments.picture;
    let mut session = BalanceSession {
        steps: picture
            .is_asked_for()
            .then(|| IntervalRecord::of_division(&state)),
        state,
        client,
        log,
        output,
    };
    let outcome = session.serve(&signals, end);
    interrupts::abort_at_the_next(signals);
    // The reservations end with the connection.
    drop(session.client);
    division_table::print(&session.state, output)?;
    if let Some(steps) = &session.steps {
        picture.write(steps, &format!("Division of \"{}\"", session.state.name))?;
    }
    outcome
}

/// Who shares what, and until when.
fn in_words(state: &DivisionState, until: &str) -> String {
    let names = state.applications.iter().map(|one| one.name.as_str());
    format!(
        "{} among {} until {until}, every {}",
        Duration::from_nanos(state.whole_ns),
        names.collect::<Vec<_>>().join(", "),
        Duration::from_nanos(state.interval_ns)
    )
}

/// The requests of the balanced domains, with the budgets of the first division.
fn requests(
    plan: &BalancePlan,
    loaded: &LoadedDescription,
) -> Result<Vec<ReservationRequest>, Failure> {
    let rule = plan.rule().map_err(Failure::from_error)?;
    let first: BTreeMap<String, Duration> = plan.budgets(rule.capacities()).into_iter().collect();
    let deployment = crate::verbs::apply::deployed(&loaded.description, None)?;
    let mut requests = crate::verbs::apply::requests(&deployment, loaded)?;
    requests.retain(|request| first.contains_key(&request.domain));
    for request in &mut requests {
        request.interface.budget = first[&request.domain];
    }
    Ok(requests)
}

/// Makes the reservations, and has the daemon divide; without a division none of them stays.
fn begin(
    client: &mut Client,
    plan: BalancePlan,
    loaded: &LoadedDescription,
    (requests, lease): (&[ReservationRequest], Lease),
) -> Result<DivisionState, Failure> {
    let domains = requests.iter().map(|request| request.domain.clone());
    let domains: BTreeSet<String> = domains.collect();
    let mut when_empty = crate::verbs::apply::when_empty(&loaded.description);
    when_empty.retain(|domain, _| domains.contains(domain));
    let applied = client.apply_with(requests, lease, when_empty);
    applied.map_err(Failure::from_error)?;
    let error = match client.begin_division(&loaded.description.name, plan) {
        Ok(state) => return Ok(state),
        Err(error) => error,
    };
    let mut message = format!("nothing is divided: {}", chain(&error));
    match client.revert(Selection::Domains(domains.into_iter().collect())) {
        Ok(_) => message += "; the reservations are taken back",
        Err(error) => message += &format!("; reservations are not taken back: {}", chain(&error)),
    }
    Err(Failure::error(message))
}

/// A view of a division.
struct BalanceSession<'a> {
    state: DivisionState,
    client: Client,
    log: Option<IntervalLog>,
    /// What is drawn at the end.
    steps: Option<IntervalRecord>,
    output: &'a Output,
}

impl BalanceSession<'_> {
    /// Shows intervals until a signal says to end, or the time is over.
    fn serve(&mut self, signals: &SignalQueue, end: Option<Instant>) -> Result<(), Failure> {
        let every = Duration::from_nanos(self.state.interval_ns / 2).min(LOOK_AT_MOST_EVERY);
        loop {
            self.look()?;
            let now = Monotonic.now();
            if end.is_some_and(|end| end <= now) {
                return Ok(());
            }
            let wait = end.map_or(every, |end| every.min(end.saturating_since(now)));
            let signal = signals.take(wait);
            let signal = signal
                .map_err(|error| Failure::error(format!("cannot wait for signals: {error}")))?;
            match signal {
                Some(ServiceSignal::End) => return self.look(),
                Some(ServiceSignal::Report) => division_table::print(&self.state, self.output)?,
                Some(ServiceSignal::Reload) => self
                    .output
                    .warn("the description is not read again; end the command and start it anew"),
                None => {}
            }
        }
    }

    /// Takes in the intervals that have passed since the last look.
    fn look(&mut self) -> Result<(), Failure> {
        let division = self
            .client
            .division(self.state.number, self.state.intervals);
        let Some(view) = division.map_err(Failure::from_error)? else {
            return Err(Failure::error(
                "the reservations of all balanced domains have ended",
            ));
        };
        self.state = view.state;
        for passed in &view.passed {
            if let Some(log) = &mut self.log {
                log.write(&self.state, passed)?;
            }
            if let Some(steps) = &mut self.steps {
                steps.add(passed);
            }
            for domain in &passed.ended {
                self.output
                    .warn(format!("the reservation of `{domain}` has ended"));
            }
            for news in &passed.news {
                self.output.note(news);
            }
        }
        Ok(())
    }
}
