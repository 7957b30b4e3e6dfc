//! `tailbound trace record`: a recording of a command, of processes, of domains, or of everything.

use std::collections::BTreeSet;
use std::fs::File;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as Pause, Instant};

use tailbound_control::{Client, DaemonStatus};
use tailbound_enforcement::state_directory;
use tailbound_experiment::recorded_run::{
    buffer_kib, call_processes, overhead_lines, recorded_domain, sampler_delays,
};
use tailbound_linux::host_facts::HostFacts;
use tailbound_linux::process::state_letter;
use tailbound_measurement::{LOOK_DISTANCE, SupplySampler, fingerprint};
use tailbound_model::Cpu;
use tailbound_recorder::{EventRecorder, RecordedLocks, RecorderOptions};
use tailbound_time::Duration;
use tailbound_trace::recording::RecordedDomain;

use crate::arguments::{RunArguments, TraceRecordArguments};
use crate::failure::Failure;
use crate::held_command::HeldCommand;
use crate::interrupts;
use crate::output::Output;
use crate::verbs::{run_command, run_file};

/// How often it is looked whether the recording shall end.
const LOOK_EVERY: Pause = Pause::from_millis(20);
/// When a look at the sockets is due again.
const SOCKETS_EVERY: Pause = Pause::from_secs(1);

/// Records until the command has ended, the time is over, or the user wants to stop.
pub fn carry_out(arguments: &TraceRecordArguments, output: &Output) -> Result<(), Failure> {
    if let Some(file) = &arguments.file {
        return run_file::carry_out(&RunArguments::of_traced_file(file)?, output);
    }
    let domains = domains(&arguments.domains)?;
    let stop = interrupts::watch()?;
    let mut held = match arguments.command.is_empty() {
        true => None,
        false => Some(HeldCommand::start(
            &arguments.command,
            &BTreeSet::new(),
            None,
        )?),
    };
    check_processes(&arguments.pid)?;
    let mut pids = call_processes(&domains);
    pids.extend(&arguments.pid);
    pids.extend(held.as_ref().map(HeldCommand::pid));
    let cpus = HostFacts::of_this_host().online_cpus();
    let sampler = match arguments.no_stalls {
        true => None,
        false => Some(
            SupplySampler::start(&cpus.iter().copied().map(Cpu).collect())
                .map_err(Failure::from_error)?,
        ),
    };
    let mut recorder = begin(arguments, cpus, domains, pids)?;
    let status = match &mut held {
        Some(held) => follow_command(held, &mut recorder, arguments.duration, &stop)?,
        None => {
            let pids = &arguments.pid;
            let are_over = || !pids.is_empty() && pids.iter().all(|pid| has_ended(*pid));
            wait(&mut recorder, arguments.duration, &stop, || Ok(are_over()))?;
            None
        }
    };
    let bytes = recorder.bytes();
    let mut remarks = Vec::new();
    match sampler.map_or_else(|| Ok(Vec::new()), SupplySampler::finish) {
        Ok(supply) => {
            for trace in &supply {
                let delays = sampler_delays(trace);
                recorder
                    .note_delays(trace.cpu.0, &delays)
                    .map_err(Failure::from_error)?;
            }
        }
        Err(cause) => remarks.push(format!("stalls are not told from execution: {cause}")),
    }
    let end = recorder.stop(remarks).map_err(Failure::from_error)?;
    for line in overhead_lines(&end, bytes) {
        output.note(line);
    }
    output.note(format!("recording: {}", arguments.output.display()));
    status.map_or(Ok(()), run_command::pass_on)
}

/// The domains in force, with their processes; those that were not asked for have no processes to follow.
fn domains(wanted: &[String]) -> Result<Vec<RecordedDomain>, Failure> {
    let status = match Client::connect(&state_directory()) {
        Ok(mut client) => Some(client.status().map_err(Failure::from_error)?),
        // Without a daemon nothing is in force.
        Err(_) => None,
    };
    let in_force = status.as_ref().map_or_else(Vec::new, in_force);
    for name in wanted {
        if !in_force.iter().any(|domain| domain.name == *name) {
            let there: Vec<&str> = in_force.iter().map(|domain| domain.name.as_str()).collect();
            let there = match there.is_empty() {
                true => "no domain is in force".to_string(),
                false => format!("in force are {}", there.join(", ")),
            };
            return Err(Failure::with_help(
                format!("domain {name} is not in force; {there}"),
                "`tailbound apply` puts a description into force",
            ));
        }
    }
    let kept = |domain: &RecordedDomain| wanted.is_empty() || wanted.contains(&domain.name);
    Ok(in_force.into_iter().filter(kept).collect())
}

fn in_force(status: &DaemonStatus) -> Vec<RecordedDomain> {
    let reservations = status.reservations.iter();
    let domain = reservations.map(|reservation| {
        let request = reservation.enforced.request();
        recorded_domain(&request.domain, Some(&request.target), Some(&request))
    });
    domain.collect()
}

/// Whether a process is no more, or waits for its parent to notice its end.
fn has_ended(pid: u32) -> bool {
    matches!(state_letter(pid), Err(_) | Ok('Z'))
}

fn check_processes(pids: &[u32]) -> Result<(), Failure> {
    match pids.iter().find(|pid| has_ended(**pid)) {
        None => Ok(()),
        Some(pid) => Err(Failure::with_help(
            format!("there is no process {pid}"),
            "give the number of a process that runs, as ps(1) tells it",
        )),
    }
}

fn begin(
    arguments: &TraceRecordArguments,
    cpus: Vec<u32>,
    domains: Vec<RecordedDomain>,
    call_pids: BTreeSet<u32>,
) -> Result<EventRecorder, Failure> {
    let path = &arguments.output;
    let file = File::create(path);
    let file =
        file.map_err(|cause| Failure::error(format!("cannot write {}: {cause}", path.display())))?;
    let options = RecorderOptions {
        started_at: run_file::utc_now()?,
        host: fingerprint(),
        buffer_kib: arguments.buffer.unwrap_or(buffer_kib(cpus.len())),
        cpus,
        call_pids,
        domains,
        own_cpu: None,
        looks_apart: (!arguments.no_stalls).then_some(LOOK_DISTANCE),
        locks: match (arguments.kernel_locks, arguments.contention) {
            (true, _) => RecordedLocks::Sections,
            (false, true) => RecordedLocks::Waits,
            (false, false) => RecordedLocks::Nothing,
        },
    };
    EventRecorder::start(options, file).map_err(Failure::from_error)
}

/// Lets the command go, and records until it has ended.
fn follow_command(
    held: &mut HeldCommand,
    recorder: &mut EventRecorder,
    duration: Option<Duration>,
    stop: &AtomicBool,
) -> Result<Option<ExitStatus>, Failure> {
    held.release()?;
    let mut status = None;
    wait(recorder, duration, stop, || {
        status = held.ended()?;
        Ok(status.is_some())
    })?;
    if status.is_none() {
        // The time is over, or the user wants to stop: that the command ends so says nothing of it.
        run_command::until_ended(held, &AtomicBool::new(true))?;
    }
    Ok(status)
}

/// Waits until the time is over, the user wants to stop, or `is_over`.
fn wait(
    recorder: &mut EventRecorder,
    duration: Option<Duration>,
    stop: &AtomicBool,
    mut is_over: impl FnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let started = Instant::now();
    let length = duration.map(|length| Pause::from_nanos(length.as_nanos()));
    let mut looked: Option<Instant> = None;
    while !stop.load(Ordering::SeqCst) && !is_over()? {
        if length.is_some_and(|length| started.elapsed() >= length) {
            break;
        }
        if looked.is_none_or(|at| at.elapsed() >= SOCKETS_EVERY) {
            looked = Some(Instant::now());
            recorder
                .note_sockets(&BTreeSet::new())
                .map_err(Failure::from_error)?;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
