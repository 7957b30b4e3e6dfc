//! Soft jobs beside hard tasks under fixed priorities: the two experiments of Búrdalo, Espinosa, Terrasa
//! and García-Fornes, *Experimental results of aperiodic fixed-priority preemptive policies in RT-Linux*,
//! OSPERT 2007, in simulation, with and without what scheduling costs; and the policies that this kernel
//! has means for in real execution, for a few small sets.

mod application;
mod chart;
mod curves;
mod feasibility;
mod figures;
mod findings;
mod outcome;
mod output;
mod real;
mod settings;
mod study;
mod variants;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use indicatif::style::TemplateError;
use indicatif::{ProgressBar, ProgressStyle};
use tailbound_time::Duration;

use crate::curves::{Compared, Metric};
use crate::output::{Overall, Summary};
use crate::settings::Settings;
use crate::study::{AS_IN_THE_PAPER, Plan, Row, SHORTENED};
use crate::variants::{ALL, Variant};

/// Compares policies for soft jobs beside hard tasks, in simulation
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Where results go
    #[arg(long, value_name = "DIR", default_value = "out/aperiodic-policies")]
    out: PathBuf,
    /// The seed of all applications
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What scheduling costs; those of costs/rtlinux.toml if not given
    #[arg(long, value_name = "FILE")]
    overheads: Option<PathBuf>,
    /// Run a part of the combinations, for a look
    #[arg(long)]
    quick: bool,
    /// End with status 2 if a conclusion of the paper does not hold that does for every seed
    #[arg(long)]
    check: bool,
    /// Execute small sets on the real kernel instead, beside their simulation; needs CAP_SYS_NICE
    #[arg(long, conflicts_with_all = ["quick", "check", "overheads"])]
    real: bool,
    /// With --real: the number of sets
    #[arg(long, requires = "real", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    sets: u32,
    /// With --real: how many seconds each set is executed under each policy
    #[arg(long, requires = "real", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// With --real: the CPU; the last one if not given
    #[arg(long, requires = "real")]
    cpu: Option<u32>,
    /// What another process of this program does for it
    #[arg(long, hide = true)]
    role: Option<real::Role>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.role {
        Some(role) => role.play().map(|()| true).map_err(Into::into),
        None if arguments.real => execute(&arguments).map(|()| true),
        None => run(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Executes small sets on the kernel.
fn execute(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let request = real::Request {
        sets: arguments.sets,
        length: Duration::from_secs(arguments.seconds),
        cpu: arguments.cpu,
        seed: arguments.seed,
        out: arguments.out.clone(),
    };
    real::run(&request, &progress("executions")?)?;
    println!("\nwritten to {}", arguments.out.display());
    Ok(())
}

fn progress(what: &str) -> Result<ProgressBar, TemplateError> {
    let template = format!("{{bar:40}} {{pos}}/{{len}} {what}, {{eta}} left");
    let style = ProgressStyle::with_template(&template)?;
    Ok(ProgressBar::new(0).with_style(style))
}

/// Runs the study; whether it shows what was asked to be checked.
fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let plan = Plan {
        extent: if arguments.quick {
            SHORTENED
        } else {
            AS_IN_THE_PAPER
        },
        seed: arguments.seed,
        settings: Settings::read(arguments.overheads.as_deref())?,
    };
    let progress = progress("applications")?;
    let rows = study::run(&plan, &progress)?;
    progress.finish_and_clear();
    let summary = Summary {
        schema_version: 1,
        seed: plan.seed,
        quick: arguments.quick,
        applications: study::requests(&plan.extent).len(),
        overheads: plan.settings,
        findings: findings::all(&rows),
        overall: overall(&rows),
        figures: figures::draw(&rows),
    };
    if let Some(error) = output::write(&arguments.out, &rows, &summary)? {
        eprintln!("no PNG files: {error}");
    }
    print(&summary);
    println!("written to {}", arguments.out.display());
    let mut robust = summary.findings.iter().filter(|finding| finding.robust);
    let all_hold = robust.all(|finding| finding.holds);
    Ok(all_hold || !arguments.check)
}

fn overall(rows: &[Row]) -> Vec<Overall> {
    let mut overall = Vec::new();
    for experiment in [1, 2] {
        for overheads in [false, true] {
            let compared = Compared::of(rows, experiment, overheads);
            for policy in ALL {
                overall.push(Overall {
                    experiment,
                    overheads,
                    policy,
                    response_ratio: compared.mean(policy, Metric::Response, |_| true),
                    deadline_misses: compared.deadline_misses(policy),
                });
            }
        }
    }
    overall
}

fn print(summary: &Summary) {
    println!(
        "Mean response time of soft jobs relative to the background, by experiment, without and\n         with overheads; hard deadlines missed with overheads"
    );
    for policy in ALL.into_iter().filter(|one| *one != Variant::Background) {
        print!("{:22}", policy.label());
        for experiment in [1, 2] {
            print!("  {experiment}:");
            for overall in &summary.overall {
                if overall.policy == policy && overall.experiment == experiment {
                    print!(" {:.4}", overall.response_ratio);
                    if overall.overheads {
                        print!(" {:6}", overall.deadline_misses);
                    }
                }
            }
        }
        println!();
    }
    for finding in &summary.findings {
        let verdict = if finding.holds {
            "holds"
        } else {
            "DOES NOT HOLD"
        };
        println!("{}: {verdict}: {}", finding.id, finding.claim);
        println!("    {}", finding.evidence);
    }
}
