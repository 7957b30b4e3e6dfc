//! How long mode changes take on this host, by policy and number of domains, with real processes under
//! `ds-freeze`. `bench/modes` runs it; needs root.
//!
//! ```text
//! cargo run --release -p tailbound-modes --example mode_changes -- [--quick] [--export-json FILE]
//!     [--domains 2,4,8,12] [--totals 533,600,800] [--cases N] [--switches N] [--seed N] [--folder DIR]
//! ```
//!
//! As in the thesis (section 2.5.4): two modes with the same total bandwidth and other shares for each
//! domain, drawn anew for each case, every domain uses up what it gets, so that most have no budget when a
//! request comes, and the system is switched to and fro. Totals are in thousandths of the CPU: 8.0 and 9.0 of
//! the thesis's 15 CPUs, and one that leaves less. `--switches` are those of a number of domains and a total, in
//! all its cases together. All domains are on one CPU, with agents inside; once more with agents
//! beside them. The journal is kept as the daemon keeps it, but where a row says otherwise. Policies take
//! turns, so that a stall of the host meets all of them alike.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod domain;
mod journal;
mod rows;
mod stage;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, value_parser};
use stage::{Place, Stage};
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_model::{ChangePolicy, TaskStart};
use tailbound_modes::transition::Options;
use tailbound_time::Duration;

/// A policy as it is measured.
#[derive(Clone, Copy)]
pub struct Variant {
    pub name: &'static str,
    pub policy: ChangePolicy,
    pub start: TaskStart,
    pub place: Place,
    /// Whether each step is noted before it is made, as the daemon does.
    pub with_journal: bool,
}

/// Agents inside first, as in the thesis; the baseline stands twice.
const VARIANTS: [Variant; 10] = [
    of("sequential", ChangePolicy::Sequential, Place::Inside),
    of("batch", ChangePolicy::Batch, Place::Inside),
    of("greedy", ChangePolicy::Greedy, Place::Inside),
    of("greedy again", ChangePolicy::Greedy, Place::Inside),
    of("boost", ChangePolicy::Boost, Place::Inside),
    of("prompt", ChangePolicy::Prompt, Place::Inside),
    without_journal("prompt, no journal", Place::Inside),
    of(
        "greedy, agents beside",
        ChangePolicy::Greedy,
        Place::Outside,
    ),
    of(
        "prompt, agents beside",
        ChangePolicy::Prompt,
        Place::Outside,
    ),
    without_journal("prompt, beside, no journal", Place::Outside),
];

const fn of(name: &'static str, policy: ChangePolicy, place: Place) -> Variant {
    Variant {
        name,
        policy,
        start: TaskStart::Accepted,
        place,
        with_journal: true,
    }
}

const fn without_journal(name: &'static str, place: Place) -> Variant {
    Variant {
        with_journal: false,
        ..of(name, ChangePolicy::Prompt, place)
    }
}

/// How long mode changes take on this host, by policy, number of domains and their bandwidth. Needs root.
#[derive(Parser)]
#[command(name = "mode_changes")]
struct Wishes {
    /// The short form: fewer domains and totals, one case, 40 switches
    #[arg(long)]
    quick: bool,
    /// Where to write all that was measured
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// Numbers of domains
    #[arg(long, value_delimiter = ',', value_parser = value_parser!(u8).range(1..=16))]
    domains: Vec<u8>,
    /// Bandwidths of all domains together, in thousandths of the CPU
    #[arg(long, value_delimiter = ',', value_parser = value_parser!(u64).range(1..=900))]
    totals: Vec<u64>,
    /// How often other shares are drawn, for each number of domains and total
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    cases: Option<u64>,
    /// Changes of the mode, for each number of domains and total, in all cases together
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    switches: Option<u64>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where reservations are noted while they are in force: on a file system in memory, as the daemon does
    #[arg(long, default_value = "/run")]
    folder: PathBuf,
}

impl Wishes {
    /// The combinations of a number of domains and a total, or what is wrong with one.
    fn settings(&self) -> Result<Vec<(usize, u64)>, String> {
        let or = |given: &[u64], quick: &[u64], full: &[u64]| match (given, self.quick) {
            ([], true) => quick.to_vec(),
            ([], false) => full.to_vec(),
            (given, _) => given.to_vec(),
        };
        let domains: Vec<u64> = self.domains.iter().copied().map(u64::from).collect();
        let domains = or(&domains, &[4, 12], &[2, 4, 6, 8, 10, 12]);
        let mut settings = Vec::new();
        for total in or(&self.totals, &[800], &[533, 600, 800]) {
            for domains in domains.iter().map(|domains| *domains as usize) {
                let least = stage::least_total_permille(domains);
                if total <= least {
                    return Err(format!(
                        "{domains} domains cannot have {total} thousandths together; give more than {least}"
                    ));
                }
                settings.push((domains, total));
            }
        }
        Ok(settings)
    }

    fn cases(&self) -> u64 {
        self.cases.unwrap_or(if self.quick { 1 } else { 5 })
    }

    /// Changes to and fro in each case, at least one.
    fn rounds(&self) -> u64 {
        let switches = self.switches.unwrap_or(if self.quick { 40 } else { 100 });
        switches.div_ceil(2 * self.cases())
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if domain::be_one_if_told(&arguments) {
        return;
    }
    let wishes = Wishes::parse();
    let settings = wishes.settings().unwrap_or_else(|wrong| {
        Wishes::command()
            .error(ErrorKind::ValueValidation, wrong)
            .exit()
    });
    let export = wishes.export_json.as_deref().map(created);
    // The manager is on a CPU without domains, above everything but the managers of budgets.
    pin_current_thread(stage::MANAGER_CPU).expect("CPU 0");
    make_current_thread_fifo(96).expect("CAP_SYS_NICE");
    let each = settings.into_iter();
    let rows: Vec<rows::Row> = each
        .flat_map(|setting| measured(setting, &wishes))
        .collect();
    rows::print(&rows);
    if let Some(mut file) = export {
        let text = serde_json::to_string_pretty(&rows).expect("JSON");
        writeln!(file, "{text}").expect("a file that can be written");
    }
}

/// All variants with so many domains, in all cases.
fn measured(setting: (usize, u64), wishes: &Wishes) -> Vec<rows::Row> {
    let mut samples: Vec<rows::Samples> =
        VARIANTS.iter().map(|_| rows::Samples::default()).collect();
    for case in 0..wishes.cases() {
        samples.iter_mut().for_each(rows::Samples::begin_case);
        let seed = wishes.seed + 100 * case;
        for place in [Place::Inside, Place::Outside] {
            let mut stage = Stage::set(setting, place, seed, &wishes.folder);
            stage.begin();
            for _ in 0..wishes.rounds() {
                let all = VARIANTS.iter().zip(&mut samples);
                for (variant, samples) in all.filter(|(variant, _)| variant.place == place) {
                    let options = Options {
                        policy: variant.policy,
                        start: variant.start,
                        timeout: Duration::from_millis(500),
                    };
                    // To and fro, since the way back has other domains that grow.
                    samples.take(&stage.switch(options, variant.with_journal));
                    samples.take(&stage.switch(options, variant.with_journal));
                }
            }
            stage.end();
        }
    }
    let all = VARIANTS.iter().zip(samples);
    all.map(|(variant, samples)| samples.row(variant, setting))
        .collect()
}

/// The file to write to, before anything is measured for it.
fn created(path: &Path) -> File {
    File::create(path).unwrap_or_else(|error| {
        eprintln!(
            "--export-json: cannot write {}: {error}; name a file in a folder that exists",
            path.display()
        );
        std::process::exit(1)
    })
}
