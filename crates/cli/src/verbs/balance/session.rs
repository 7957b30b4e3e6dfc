//! A division in force: reservations of the applications, and a manager that changes their budgets until it is told to end.

use std::collections::BTreeSet;

use tailbound_balance::BalancePlan;
use tailbound_balance_manager::{CapacityManager, prefer_this_thread};
use tailbound_control::{Client, Lease, StartOptions};
use tailbound_enforcement::{ReservationRequest, state_directory};
use tailbound_linux::clock::Monotonic;
use tailbound_linux::signal_queue::{ServiceSignal, SignalQueue};
use tailbound_model::LoadedDescription;
use tailbound_time::{Clock, Duration, Instant};

use super::BalanceArguments;
use super::division_state::DivisionState;
use super::interval_log::IntervalLog;
use crate::failure::Failure;
use crate::interrupts;
use crate::output::Output;

/// Puts the first division into force, and divides anew in every interval until the time is over or a signal comes.
pub fn carry_out(
    plan: BalancePlan,
    loaded: &LoadedDescription,
    arguments: &BalanceArguments,
    output: &Output,
) -> Result<(), Failure> {
    let mut requests = requests(&plan, loaded)?;
    let manager = CapacityManager::begin(plan, &mut requests).map_err(Failure::from_error)?;
    let log = arguments.log.as_deref().map(IntervalLog::create);
    let log = log.transpose()?;
    let mut client = Client::connect_or_start(&state_directory(), &StartOptions::default())
        .map_err(Failure::from_error)?;
    // After a daemon is started, which is not to hold signals back, and before threads that are.
    let signals = SignalQueue::open()
        .map_err(|error| Failure::error(format!("cannot hold signals back: {error}")))?;
    let mut when_empty = crate::verbs::apply::when_empty(&loaded.description);
    when_empty.retain(|domain, _| requests.iter().any(|request| request.domain == *domain));
    client
        .apply_with(&requests, Lease::Connection, when_empty)
        .map_err(Failure::from_error)?;
    if !prefer_this_thread() {
        output.warn("the manager has no fixed priority, and may be late in an overload");
    }
    output.note(format!(
        "{} among {} until this command ends, every {}",
        manager.whole(),
        manager.names().collect::<Vec<_>>().join(", "),
        manager.interval()
    ));
    let begun = Monotonic.now();
    let end = arguments
        .duration
        .map(|length| begun.saturating_add(length));
    let mut session = BalanceSession {
        balance: DivisionState::of(&manager),
        manager,
        client,
        log,
        output,
        begun,
    };
    let outcome = session.serve(&signals, end);
    interrupts::abort_at_the_next(signals);
    // The reservations end with the connection.
    let BalanceSession {
        client, balance, ..
    } = session;
    drop(client);
    balance.print(output)?;
    outcome
}

/// The requests of the balanced domains.
fn requests(
    plan: &BalancePlan,
    loaded: &LoadedDescription,
) -> Result<Vec<ReservationRequest>, Failure> {
    let deployment = crate::verbs::apply::deployed(&loaded.description, None)?;
    let balanced: BTreeSet<&str> = plan
        .applications
        .iter()
        .flat_map(|one| one.domains.iter().map(|domain| domain.name.as_str()))
        .collect();
    let mut requests = crate::verbs::apply::requests(&deployment, loaded)?;
    requests.retain(|request| balanced.contains(request.domain.as_str()));
    Ok(requests)
}

/// A manager at work.
struct BalanceSession<'a> {
    manager: CapacityManager,
    client: Client,
    balance: DivisionState,
    log: Option<IntervalLog>,
    output: &'a Output,
    begun: Instant,
}

impl BalanceSession<'_> {
    /// Passes intervals until a signal says to end, or the time is over.
    fn serve(&mut self, signals: &SignalQueue, end: Option<Instant>) -> Result<(), Failure> {
        let mut next = self.begun.saturating_add(self.manager.interval());
        loop {
            let now = Monotonic.now();
            if end.is_some_and(|end| end <= now) {
                return Ok(());
            }
            if next <= now {
                self.pass_interval(now.saturating_since(self.begun))?;
                // An interval that was slept through is left out.
                while next <= now {
                    next = next.saturating_add(self.manager.interval());
                }
                continue;
            }
            let until = end.map_or(next, |end| end.min(next));
            let signal = signals.take(until.saturating_since(now));
            let signal = signal
                .map_err(|error| Failure::error(format!("cannot wait for signals: {error}")))?;
            match signal {
                Some(ServiceSignal::End) => return Ok(()),
                Some(ServiceSignal::Report) => self.balance.print(self.output)?,
                Some(ServiceSignal::Reload) => self
                    .output
                    .warn("the description is not read again; end the command and start it anew"),
                None => {}
            }
        }
    }

    fn pass_interval(&mut self, at: Duration) -> Result<(), Failure> {
        let held: Vec<Duration> = self.manager.capacities().to_vec();
        let outcome = self.manager.pass_interval(&mut self.client);
        let outcome = outcome.map_err(Failure::from_error)?;
        if let Some(log) = &mut self.log {
            let names: Vec<&str> = self.manager.names().collect();
            log.write(at, &names, &held, &outcome.reports)?;
        }
        for domain in &outcome.ended {
            self.output
                .warn(format!("the reservation of `{domain}` has ended"));
        }
        for news in self.balance.enter(&held, &outcome) {
            self.output.note(news);
        }
        Ok(())
    }
}
