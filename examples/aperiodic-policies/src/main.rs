//! Soft jobs beside hard tasks under fixed priorities: the two experiments of Búrdalo, Espinosa, Terrasa
//! and García-Fornes, *Experimental results of aperiodic fixed-priority preemptive policies in RT-Linux*,
//! OSPERT 2007, in simulation, with and without what scheduling costs.

mod application;
mod chart;
mod curves;
mod feasibility;
mod figures;
mod findings;
mod output;
mod settings;
mod study;
mod variants;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
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
    let progress = ProgressBar::new(0);
    progress.set_style(ProgressStyle::with_template(
        "{bar:40} {pos}/{len} applications, {eta} left",
    )?);
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
    let mut found = Vec::new();
    for experiment in [1, 2] {
        for overheads in [false, true] {
            let compared = Compared::of(rows, experiment, overheads);
            for policy in ALL {
                found.push(Overall {
                    experiment,
                    overheads,
                    policy,
                    response_ratio: compared.mean(policy, Metric::Response, |_| true),
                    deadline_misses: compared.deadline_misses(policy),
                });
            }
        }
    }
    found
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
