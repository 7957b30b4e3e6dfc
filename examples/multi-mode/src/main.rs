//! A system with two modes: three domains with real periodic tasks, one of them a virtual machine, through
//! changes of the mode under each policy, beside what static reservations do; after section 2.5.2 of
//! Haoran Li's thesis. And how many CPUs random systems need with and without modes, as its figure 2.4.

mod case;
mod commands;
mod counts;
mod cpus;
mod description;
mod generate;
mod output;
mod phases;
mod restorer;
mod system;
mod witness;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use tailbound_linux::process::effective_uid;
use tailbound_linux::scheduling::affinity_of;
use tailbound_time::Duration;

use crate::case::{Case, Kind};
use crate::commands::{StepError, Tailbound};
use crate::description::SetUp;
use crate::output::{Checked, Checks, Executed, Results};
use crate::phases::{Plan, Stage};
use crate::restorer::{Restorer, state_of};
use crate::system::{Stop, System};
use crate::witness::Witness;

const POLICIES: [&str; 5] = ["sequential", "batch", "greedy", "boost", "prompt"];
const PROGRAMS: [&str; 4] = ["tailbound", "tailboundd", "tailbound-agent", "periodic"];

/// Takes a system of three domains through changes of its mode, and counts missed deadlines
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Where results go
    #[arg(long, value_name = "DIR", default_value = "out/multi-mode")]
    out: PathBuf,
    /// The seed of all cases
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only one policy, there and back, in short phases
    #[arg(long)]
    quick: bool,
    /// Only count CPUs; nothing is executed, and no privilege needed
    #[arg(long)]
    analysis_only: bool,
    /// Random cases for the count of CPUs
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1000))]
    cases: u32,
    /// Changes there and back under each policy
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How many seconds each phase between changes lasts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// The CPU of the domains; the last one if not given
    #[arg(long)]
    cpu: Option<u32>,
    /// The folder of tailbound's programs; that of this one if not given
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// What another process of this program does for it
    #[arg(long, hide = true)]
    restore: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn programs(arguments: &Arguments) -> Result<PathBuf, Box<dyn Error>> {
    if let Some(folder) = &arguments.programs {
        return Ok(folder.clone());
    }
    let own = std::env::current_exe()?;
    Ok(own.parent().unwrap_or(Path::new(".")).to_path_buf())
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let programs = programs(arguments)?;
    if let Some(folder) = &arguments.restore {
        return restorer::restore(programs, folder);
    }
    let rows = cpus::rows(arguments.seed, arguments.cases)?;
    output::print_cpus(&rows);
    let not_executed = not_executed(arguments, &programs)?;
    let executed = match &not_executed {
        Some(why) => {
            println!("\nSKIP the executed part: {why}");
            None
        }
        None => Some(execute(arguments, &programs)?),
    };
    if let Some(executed) = &executed {
        output::print_executed(executed);
    }
    let results = Results {
        schema_version: 1,
        seed: arguments.seed,
        cpus: rows,
        executed,
        not_executed,
    };
    output::write(&arguments.out, &results)?;
    println!("\nwritten to {}", arguments.out.display());
    Ok(())
}

/// Why nothing can be executed, if so.
fn not_executed(arguments: &Arguments, programs: &Path) -> Result<Option<String>, Box<dyn Error>> {
    if arguments.analysis_only {
        return Ok(Some("only the analysis was asked for".into()));
    }
    if effective_uid() != 0 {
        return Ok(Some("it needs root".into()));
    }
    if affinity_of(std::process::id())?.len() < 2 {
        return Ok(Some("it needs two CPUs".into()));
    }
    let tailbound = Tailbound::new(programs.to_path_buf(), PathBuf::new());
    let missing = tailbound.missing(&PROGRAMS);
    Ok((!missing.is_empty()).then(|| {
        format!(
            "{} is not built; `cargo build --workspace --bins`",
            missing.join(", ")
        )
    }))
}

/// The CPU of the domains, and the one for everything else.
fn cpus(arguments: &Arguments) -> Result<(u32, u32), Box<dyn Error>> {
    let allowed = affinity_of(std::process::id())?;
    let last = allowed.last().copied().ok_or("no CPU is allowed")?;
    let cpu = arguments.cpu.unwrap_or(last);
    if !allowed.contains(&cpu) {
        return Err(format!("--cpu {cpu}: not among the allowed ones, {allowed:?}").into());
    }
    let other = allowed.iter().copied().find(|one| *one != cpu);
    Ok((cpu, other.ok_or("there is no second CPU")?))
}

fn execute(arguments: &Arguments, programs: &Path) -> Result<Executed, Box<dyn Error>> {
    let stop: Stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The second one ends us at once; the restorer takes everything back.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let missing = system::missing_for_machines()?;
    if !missing.is_empty() {
        println!(
            "\nSKIP the virtual machine: needs {}; its domain runs as processes",
            missing.join(", ")
        );
    }
    let first = match missing.is_empty() {
        true => Kind::Machine,
        false => Kind::Processes,
    };
    let case = Case::draw(arguments.seed, first)?;
    // Removed by the restorer.
    let folder = tempfile::Builder::new()
        .prefix("multi-mode-")
        .tempdir()?
        .keep();
    let tailbound = Tailbound::new(programs.to_path_buf(), state_of(&folder));
    let _restorer = Restorer::start(programs, &folder)?;
    let mut system = System::start(&case, &tailbound, &folder, cpus(arguments)?, &stop)
        .map_err(|error| with_console(error, &folder))?;
    let witness = Witness::start(cpus(arguments)?.0)?;
    let stage = Stage {
        witness: &witness,
        case: &case,
        tailbound: &tailbound,
        folder: &folder,
        stop: &stop,
    };
    let checked = |set_up| checked(&stage, &system, set_up);
    let checks = Checks {
        initial_mode: checked(SetUp::InitialMode)?,
        worst_case: checked(SetUp::WorstCase)?,
        modes: checked(SetUp::Modes)?,
    };
    let runs = run_all(arguments, &stage, &mut system).map_err(|error| {
        // Before the tasks end, which are in its reservations.
        let _said = tailbound.ask(&["-q", "revert"]);
        with_console(error, &folder)
    })?;
    drop(system);
    Ok(Executed {
        virtual_machine: first == Kind::Machine,
        checks,
        worst_case_cpus: case.worst_case_cpus(),
        runs,
        case,
    })
}

fn with_console(error: StepError, folder: &Path) -> Box<dyn Error> {
    match (error, system::console(folder)) {
        (StepError::Interrupted, _) => StepError::Interrupted.into(),
        (error, Some(console)) => format!("{error}; the machine's console: {console}").into(),
        (error, None) => error.into(),
    }
}

fn run_all(
    arguments: &Arguments,
    stage: &Stage<'_>,
    system: &mut System<'_>,
) -> Result<Vec<phases::Run>, StepError> {
    let plan = match arguments.quick {
        true => Plan {
            phase: Duration::from_secs(1),
            rounds: 1,
        },
        false => Plan {
            phase: Duration::from_secs(arguments.seconds),
            rounds: arguments.rounds,
        },
    };
    let policies = match arguments.quick {
        true => &POLICIES[4..],
        false => &POLICIES[..],
    };
    let initial = (SetUp::InitialMode, "initial mode");
    let mut runs = vec![stage.run(system, plan, initial, "prompt")?];
    for policy in policies {
        eprintln!("changes under {policy}");
        runs.push(stage.run(system, plan, (SetUp::Modes, "of each mode"), policy)?);
    }
    Ok(runs)
}

/// What `tailbound check` says of each set-up.
fn checked(stage: &Stage<'_>, system: &System<'_>, set_up: SetUp) -> Result<Checked, StepError> {
    let path = stage.describe(system, set_up, "prompt")?;
    let said = stage.tailbound.ask(&["check", &path])?;
    // The folder is another one each time, and gone afterwards.
    let folder = format!("{}/", stage.folder.display());
    Ok(Checked {
        fits: said.status == Some(0),
        said: said.errors.trim().replace(&folder, ""),
    })
}
