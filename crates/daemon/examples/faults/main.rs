//! Faults at random instants: whoever dies, stops or finds its disk full, and whenever, the host is as it
//! was before. `bench/faults` runs it; needs root.
//!
//! ```text
//! cargo run --release -p tailbound-daemon --example faults -- [--trials N] [--first N] [--seed N]
//!     [--back-end NAME]... [--fault NAME]... [--for SECONDS] [--export-json FILE]
//! ```
//!
//! A trial draws, from the seed and its number alone, a back end, a fault, what the daemon does meanwhile
//! (applying, holding, changing budgets, changing modes with agents, reverting) and the instant; so
//! `--first N --trials 1` with the same other options repeats trial N. Two domains of two processes each are reserved on one CPU; after
//! the fault, the host is compared with what it was before: policy, priority, affinity and cgroups of every
//! thread, cgroups, real-time throttling, processes of ours, journals, and whether the domains run and the CPU
//! can be reserved again. Exit status 2 if a trial failed.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod host;
mod inject;
mod stage;
mod summary;
mod trial;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use tailbound_linux::HostCapabilities;
use tailbound_model::BackendKind;

use crate::summary::Summary;
use crate::trial::{BackEnd, Fault, Outcome, Trial};

/// Kills and other faults at random instants; what is left of them.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many trials.
    #[arg(long, default_value_t = 60)]
    trials: u64,
    /// The number of the first one.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// What trials are drawn from.
    #[arg(long, default_value_t = 20_071_121)]
    seed: u64,
    /// Only this back end; may be repeated.
    #[arg(long)]
    back_end: Vec<BackEnd>,
    /// Only this fault; may be repeated.
    #[arg(long)]
    fault: Vec<Fault>,
    /// No trial begins after so many seconds.
    #[arg(long = "for", value_name = "SECONDS")]
    limit_s: Option<u64>,
    /// How long the host may take to be as before, in seconds.
    #[arg(long = "within", value_name = "SECONDS", default_value_t = 15)]
    within_s: u64,
    /// Writes the figures as JSON.
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// Prints each trial.
    #[arg(short, long)]
    verbose: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if tailbound_linux::process::effective_uid() != 0 {
        eprintln!("SKIP faults: needs root; run it with sudo");
        return ExitCode::SUCCESS;
    }
    let capabilities = HostCapabilities::probe();
    let back_ends = back_ends(&arguments.back_end, &capabilities);
    let faults = faults(&arguments.fault);
    if back_ends.is_empty() || faults.is_empty() {
        eprintln!("SKIP faults: nothing of what was asked for can be had on this host");
        return ExitCode::SUCCESS;
    }
    let mut summary = Summary::new(arguments.seed, capabilities.kernel_release);
    let began = Instant::now();
    for number in arguments.first..arguments.first + arguments.trials {
        if arguments
            .limit_s
            .is_some_and(|limit_s| began.elapsed() >= Duration::from_secs(limit_s))
        {
            eprintln!("faults: the time is up before trial {number}");
            break;
        }
        let trial = Trial::draw(arguments.seed, number, &back_ends, &faults);
        let outcome = stage::run(&trial, Duration::from_secs(arguments.within_s));
        if arguments.verbose || matches!(outcome, Outcome::Failed { .. }) {
            eprintln!("{}", summary::shortened(&format!("{trial}: {outcome}")));
        }
        summary.add(&trial, outcome);
    }
    print!("{}", summary.table());
    if let Some(file) = &arguments.export_json {
        let json = summary.json();
        std::fs::write(file, format!("{json:#}\n")).expect("the file can be written");
    }
    match summary.failures() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(2),
    }
}

/// The back ends that were asked for, or all, of those that the host has; says which it has not.
fn back_ends(wanted: &[BackEnd], host: &HostCapabilities) -> Vec<BackEnd> {
    let all = BackEnd::ALL.into_iter();
    let wanted = all.filter(|one| wanted.is_empty() || wanted.contains(one));
    wanted
        .filter(|one| {
            let missing = match one.kind() {
                BackendKind::None => Vec::new(),
                kind => tailbound_enforcement::backends::backend(kind).missing(host),
            };
            for one_missing in &missing {
                let (needed, state) = (&one_missing.needed, &one_missing.state);
                eprintln!("SKIP {one}: needs {needed}, found {state}");
            }
            missing.is_empty()
        })
        .collect()
}

/// The faults that were asked for, or all that harm nobody else, of those that the host can have.
fn faults(wanted: &[Fault]) -> Vec<Fault> {
    let all = Fault::ALL.into_iter();
    all.filter(|fault| match wanted.is_empty() {
        true if fault.harms_others() => {
            eprintln!(
                "SKIP {fault}: it reaches all programs of the host; ask for it: --fault {fault}"
            );
            false
        }
        true => true,
        false => wanted.contains(fault),
    })
    .filter(|fault| match inject::missing(*fault) {
        Some(missing) => {
            eprintln!("SKIP {fault}: needs {missing}");
            false
        }
        None => true,
    })
    .collect()
}
