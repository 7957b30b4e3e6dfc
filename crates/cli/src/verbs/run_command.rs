//! `tailbound run -b BUDGET -p PERIOD -- COMMAND`: one command under a reservation.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as Pause, Instant};

use tailbound_control::{Client, Lease, RefusalKind, Selection, StartOptions};
use tailbound_enforcement::{LedgerSummary, ReservationRequest, Target, state_directory};
use tailbound_experiment::LossWatch;
use tailbound_model::{BackendOptions, ResourceInterface};

use crate::arguments::{OnLoss, OptionPlace, RunArguments};
use crate::failure::Failure;
use crate::held_command::HeldCommand;
use crate::interrupts;
use crate::output::Output;
use crate::transient_scope::TransientScope;

/// How often the command is looked at; its end is noticed this late at most.
const LOOK_EVERY: Pause = Pause::from_millis(5);

/// How long a command that got Ctrl-C from the terminal itself may take before we ask, too.
const GRACE: Pause = Pause::from_secs(1);

/// What shells add to the number of the signal that ended a command.
const ENDED_BY_SIGNAL: i32 = 128;

/// Starts the command held, puts it under the reservation, lets it go, and ends with its exit status.
pub fn carry_out(arguments: &RunArguments, output: &Output) -> Result<(), Failure> {
    let interface = arguments.reservation.interface(OptionPlace::CommandLine)?;
    let request = |pid| request(arguments, interface, pid);
    if arguments.dry_run {
        plan(arguments, request, output)
    } else {
        run(arguments, request, output).map_err(Failure::of_wrapper)
    }
}

/// Says what the reservation would change; the command does not run.
fn plan(
    arguments: &RunArguments,
    request: impl FnOnce(u32) -> ReservationRequest,
    output: &Output,
) -> Result<(), Failure> {
    let held = HeldCommand::start(&arguments.command, &cpus(arguments), None)?;
    output.note(format!(
        "nothing is changed and the command does not run: process {} stood for it",
        held.pid()
    ));
    if let Some(scope) = TransientScope::of_domain(&domain()) {
        output.note(format!("the command would run in {}", scope.unit()));
    }
    super::apply::dry_run(&[request(held.pid())], output)
}

fn cpus(arguments: &RunArguments) -> BTreeSet<u32> {
    arguments.reservation.cpus.iter().copied().collect()
}

/// The command, held on the CPUs of its reservation: where systemd gives one, in a scope of its own.
fn held(arguments: &RunArguments, output: &Output) -> Result<HeldCommand, Failure> {
    let cpus = cpus(arguments);
    let start = |scope| HeldCommand::start(&arguments.command, &cpus, scope);
    let Some(scope) = TransientScope::of_domain(&domain()) else {
        return start(None);
    };
    start(Some(&scope)).or_else(|failure| {
        // The command itself may be what cannot be started, which is the same without the scope.
        let held = start(None)?;
        output.warn(format!(
            "the command runs without {}: {failure}",
            scope.unit()
        ));
        Ok(held)
    })
}

fn run(
    arguments: &RunArguments,
    request: impl FnOnce(u32) -> ReservationRequest,
    output: &Output,
) -> Result<(), Failure> {
    let stop = interrupts::watch()?;
    let mut held = held(arguments, output)?;
    interrupts::kill_at_abort(&held);
    let mut client = Client::connect_or_start(&state_directory(), &StartOptions::default())
        .map_err(Failure::from_error)?;
    let request = request(held.pid());
    let name = request.domain.clone();
    client
        .apply(&[request], Lease::Connection)
        .map_err(Failure::from_error)?;
    let watch = watch_over(&name, arguments.on_loss, &held, output)?;
    let ended = wait(&mut held, &stop);
    // A command that did not come to its own end goes before its reservation does.
    drop(held);
    if let Some(loss) = watch.loss() {
        let status = ended?;
        return match arguments.on_loss {
            OnLoss::Stop => Err(Failure::error(format!("{loss}; the command was ended"))),
            OnLoss::Continue => pass_on(status),
        };
    }
    drop(watch);
    let seen = client.ledger().map_err(Failure::from_error)?;
    match client.revert(Selection::Domain(name.clone())) {
        // It was reverted as the command ended.
        Err(error) if error.refusal_kind() == Some(RefusalKind::NotActive) => {}
        reverted => drop(reverted.map_err(Failure::from_error)?),
    }
    let status = ended?;
    if let Some(ledger) = seen.get(&name) {
        output.note(ledger_in_words(ledger));
    }
    pass_on(status)
}

/// Says at once when the reservation ends before the command does, and by whom.
fn watch_over(
    name: &str,
    on_loss: OnLoss,
    held: &HeldCommand,
    output: &Output,
) -> Result<LossWatch, Failure> {
    let (ender, output) = (held.ender(), output.clone());
    let tell = move |loss: &str| {
        let then = match on_loss {
            OnLoss::Continue => "the command goes on unprotected",
            OnLoss::Stop => "the command is ended",
        };
        output.warn(format!("{loss}; {then}"));
        if on_loss == OnLoss::Stop {
            ender.terminate();
        }
    };
    LossWatch::begin(&state_directory(), vec![name.to_owned()], tell)
        .map_err(|error| Failure::error(format!("cannot watch over the reservation: {error}")))
}

/// The command's exit status as ours.
pub(in crate::verbs) fn pass_on(status: ExitStatus) -> Result<(), Failure> {
    if status.success() {
        return Ok(());
    }
    let by_signal = status.signal().map(|signal| ENDED_BY_SIGNAL + signal);
    let number = status.code().or(by_signal);
    let number = number.and_then(|number| u8::try_from(number).ok());
    Err(number.map_or_else(
        || Failure::error(format!("the command ended with {status}")),
        Failure::Command,
    ))
}

/// Lets the command go and waits for its end; asks it to end when the user wants to stop.
fn wait(held: &mut HeldCommand, stop: &AtomicBool) -> Result<ExitStatus, Failure> {
    if !stop.load(Ordering::SeqCst) {
        held.release()?;
    }
    until_ended(held, stop)
}

/// Waits for the end of a command; asks it to end when the user wants to stop.
pub(in crate::verbs) fn until_ended(
    held: &mut HeldCommand,
    stop: &AtomicBool,
) -> Result<ExitStatus, Failure> {
    let mut stopped_at = None;
    let mut is_terminated = false;
    loop {
        if let Some(status) = held.ended()? {
            return Ok(status);
        }
        if stop.load(Ordering::SeqCst) && !is_terminated {
            let since = stopped_at.get_or_insert_with(Instant::now).elapsed();
            if !held.hears_terminal() || since >= GRACE {
                is_terminated = true;
                held.ender().terminate();
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What the manager has seen, as people read it.
fn ledger_in_words(ledger: &LedgerSummary) -> String {
    if ledger.periods == 0 {
        return "it ended within its first period".into();
    }
    format!(
        "{} periods, budget used up in {}, {} of CPU time, overrun p99 {}",
        ledger.periods,
        ledger.depletions,
        ledger.consumed,
        super::status::length_in_words(ledger.overrun_p99)
    )
}

/// The domain of the command.
fn domain() -> String {
    format!("run-{}", std::process::id())
}

fn request(arguments: &RunArguments, interface: ResourceInterface, pid: u32) -> ReservationRequest {
    ReservationRequest {
        domain: domain(),
        target: Target::Processes(vec![pid]),
        interface,
        backend: arguments.reservation.backend,
        options: BackendOptions::default(),
        interference: Default::default(),
    }
}
