//! `tailbound revert`: take reservations back.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use tailbound_control::takeover::end_stopped;
use tailbound_control::{Client, ClientError, HeldBy, ReservationStatus, Selection};
use tailbound_enforcement::{recover, state_directory};
use tailbound_linux::process::effective_uid;

use crate::arguments::RevertArguments;
use crate::failure::Failure;
use crate::output::Output;

/// Reverts the domains named, or what one `apply` of this user's put into force, or everything;
/// without a daemon, what a dead one left behind.
pub fn carry_out(arguments: &RevertArguments, output: &Output) -> Result<(), Failure> {
    let state = state_directory();
    match Client::connect(&state) {
        Ok(mut client) => {
            let Some(selection) = selection(arguments, &mut client)? else {
                output.note("nothing is taken back");
                return Ok(());
            };
            let reverted = client.revert(selection).map_err(Failure::from_error)?;
            if reverted.is_empty() {
                output.note("nothing was in force");
            } else {
                output.note(format!("taken back: {}", reverted.join(", ")));
            }
            Ok(())
        }
        Err(ClientError::NotRunning { .. } | ClientError::Ended(_)) => {
            take_back(&state, "no daemon is running", output)
        }
        Err(ClientError::Slow(standstill)) if standstill.is_for_good() => {
            if !arguments.domains.is_empty() {
                return Err(Failure::with_help(
                    standstill,
                    "single reservations cannot be taken back from a daemon that is stopped; revert all of \
                     them (--all), or continue it (kill -CONT)",
                ));
            }
            output.note(standstill.to_string());
            take_back(&state, "the stopped daemon was ended", output)
        }
        Err(error) => Err(Failure::from_error(error)),
    }
}

/// What is to be taken back; nothing if the user thinks better of it.
fn selection(
    arguments: &RevertArguments,
    client: &mut Client,
) -> Result<Option<Selection>, Failure> {
    if arguments.all {
        return Ok(Some(Selection::All));
    }
    if let [domain] = arguments.domains.as_slice() {
        return Ok(Some(Selection::Domain(domain.clone())));
    }
    if !arguments.domains.is_empty() {
        return Ok(Some(Selection::Domains(arguments.domains.clone())));
    }
    let status = client.status().map_err(Failure::from_error)?;
    let reservations = status.reservations;
    // No more than was seen is taken back: somebody may apply more meanwhile.
    let names = reservations.iter();
    let names = names.map(|one| one.enforced.domain.clone()).collect();
    let selection = Selection::Domains(names);
    if are_of_one_apply(&reservations, effective_uid()) {
        return Ok(Some(selection));
    }
    let list = list(&reservations);
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::with_help(
            format!("not all that is in force comes from one `apply` of yours:\n{list}"),
            "name the domains to take back, or give --all for all of it",
        ));
    }
    eprint!("{list}\nTake all of this back? [y/N] ");
    let mut answer = String::new();
    io::stderr()
        .flush()
        .and_then(|()| io::stdin().read_line(&mut answer).map(|_| ()))
        .map_err(|error| Failure::error(format!("cannot ask: {error}")))?;
    let agreed = ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
    Ok(agreed.then_some(selection))
}

/// Whether all of them were asked for together by this user, to stay until they are reverted.
fn are_of_one_apply(reservations: &[ReservationStatus], uid: u32) -> bool {
    let mut numbers = reservations.iter().map(|one| {
        let origin = one.origin.as_ref();
        let origin = origin.filter(|origin| origin.peer.uid == uid);
        let origin = origin.filter(|_| one.held_by != HeldBy::Connection);
        origin.map(|origin| origin.number)
    });
    let Some(first) = numbers.next() else {
        return true;
    };
    // What is half made and to be taken back anyway has no origin.
    let is_half_made = |one: &ReservationStatus| one.held_by == HeldBy::Daemon;
    (first.is_some() && numbers.all(|number| number == first))
        || reservations.iter().all(is_half_made)
}

/// The reservations, by whom they come from.
fn list(reservations: &[ReservationStatus]) -> String {
    let mut by_origin: BTreeMap<(u64, String), Vec<&str>> = BTreeMap::new();
    for one in reservations {
        let number = one.origin.as_ref().map_or(0, |origin| origin.number);
        let key = (number, origin(one));
        by_origin.entry(key).or_default().push(&one.enforced.domain);
    }
    let lines = by_origin.into_iter();
    let lines = lines.map(|((_, origin), domains)| format!("  {}: {origin}", domains.join(", ")));
    lines.collect::<Vec<_>>().join("\n")
}

/// Whom a reservation comes from, and how long it stays.
pub fn origin(reservation: &ReservationStatus) -> String {
    let from = match &reservation.origin {
        Some(origin) => format!("from {}", origin.peer),
        None => "half made".into(),
    };
    match reservation.held_by {
        HeldBy::Nobody => from,
        HeldBy::Connection => format!("{from}, for as long as that runs"),
        HeldBy::Daemon => format!("{from}, about to be taken back"),
    }
}

/// Takes back from the journals what no daemon answers for any more, once whoever of a daemon and its
/// watchdog is left and stopped has been ended.
fn take_back(state: &Path, why: &str, output: &Output) -> Result<(), Failure> {
    match end_stopped(state) {
        Ok(_) => {}
        // A watchdog that is taking everything back already; recovery waits for its turn.
        Err(tailbound_control::takeover::TakeoverError::AtWork(_)) => {}
        Err(error) => return Err(Failure::from_error(error)),
    }
    let recovery = recover(state).map_err(Failure::from_error)?;
    let taken_back = match recovery.reverted.as_slice() {
        [] => "nothing was left behind".to_owned(),
        domains => format!("taken back: {}", domains.join(", ")),
    };
    output.note(format!("{why}; {taken_back}"));
    match recovery.failures.as_slice() {
        [] => Ok(()),
        failures => Err(Failure::error(failures.join("; "))),
    }
}
