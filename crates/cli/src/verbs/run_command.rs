//! `tailbound run -b BUDGET -p PERIOD -- COMMAND`: one command under a reservation.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration as Pause;

use tailbound_daemon::{Client, Lease, Selection, StartOptions};
use tailbound_enforcement::{ReservationRequest, Target, state_directory};
use tailbound_linux::spawn;
use tailbound_model::{Cpu, Priority, ResourceInterface};
use tailbound_time::Duration;

use crate::arguments::RunArguments;
use crate::failure::Failure;
use crate::interrupts;
use crate::output::Output;

/// How often the command is looked at; its end is noticed this late at most.
const LOOK_EVERY: Pause = Pause::from_millis(5);

/// Starts the command, puts it under the reservation, waits, and ends as it ended.
pub fn carry_out(arguments: &RunArguments, output: &Output) -> Result<(), Failure> {
    let (budget, period) = lengths(arguments)?;
    let name = format!("run-{}", std::process::id());
    if arguments.dry_run {
        let own = std::process::id();
        return super::apply::dry_run(&[request(arguments, name, budget, period, own)], output);
    }
    let stop = interrupts::watch()?;
    let mut client = Client::connect_or_start(&state_directory(), &StartOptions::default())
        .map_err(Failure::from_error)?;
    let program = &arguments.command[0];
    let mut command = Command::new(program);
    command.args(&arguments.command[1..]);
    let mut child =
        spawn::spawn_on(&mut command, &BTreeSet::from([arguments.cpus])).map_err(|error| {
            Failure::with_help(
                format!("cannot start {program}: {error}"),
                "name a program on the PATH, and a CPU that exists",
            )
        })?;
    let request = request(arguments, name.clone(), budget, period, child.id());
    if let Err(refused) = client.apply(&[request], Lease::Connection) {
        let _gone = spawn::kill_group(&child);
        let _reaped = child.wait();
        return Err(Failure::from_error(refused));
    }
    let mut told = false;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(Failure::from_error)? {
            break status;
        }
        if stop.load(Ordering::SeqCst) && !told {
            told = true;
            let _gone = spawn::terminate_group(&child);
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let seen = client.ledger().map_err(Failure::from_error)?;
    client
        .revert(Selection::Domain(name.clone()))
        .map_err(Failure::from_error)?;
    if let Some(ledger) = seen.get(&name) {
        output.note(format!(
            "{} periods, budget used up in {}, {} of CPU time, overrun p99 {}",
            ledger.periods,
            ledger.depletions,
            ledger.consumed,
            super::status::told(ledger.overrun_p99)
        ));
    }
    if status.success() {
        return Ok(());
    }
    Err(Failure::error(format!("{program} ended with {status}")))
}

fn lengths(arguments: &RunArguments) -> Result<(Duration, Duration), Failure> {
    match (arguments.budget, arguments.period) {
        (Some(budget), Some(period)) if budget.is_zero() || budget > period => {
            Err(Failure::with_help(
                format!("a budget of {budget} every {period} is none"),
                "it lies above zero and at most at the period",
            ))
        }
        (Some(budget), Some(period)) => Ok((budget, period)),
        _ => Err(Failure::with_help(
            "a command needs a budget and a period",
            "for example: tailbound run -b 2ms -p 10ms -- COMMAND",
        )),
    }
}

fn request(
    arguments: &RunArguments,
    domain: String,
    budget: Duration,
    period: Duration,
    pid: u32,
) -> ReservationRequest {
    ReservationRequest {
        domain,
        target: Target::Processes(vec![pid]),
        interface: ResourceInterface {
            budget,
            period,
            priority: Priority(arguments.priority),
            cpus: [Cpu(arguments.cpus)].into(),
        },
        backend: arguments.backend,
    }
}
