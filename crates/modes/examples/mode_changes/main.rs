//! How long mode changes take on this host, by policy and number of domains, with real processes under
//! `ds-freeze`. `bench/modes` runs it; needs root.
//!
//! ```text
//! cargo run --release -p tailbound-modes --example mode_changes -- [--quick] [--export-json FILE]
//!     [--domains 2,4,8,12] [--switches N] [--seed N]
//! ```
//!
//! As in the thesis (section 2.5.4): two modes with the same total bandwidth and other shares for each
//! domain, every domain uses up what it gets, so that most have no budget when a request comes, and the
//! system is switched to and fro. All domains are on one CPU, with agents inside; once more with agents
//! beside them. The journal is kept as the daemon keeps it, but where a row says otherwise. Policies take
//! turns, so that a stall of the host meets all of them alike.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod domain;
mod journal;
mod rows;
mod stage;

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

struct Wishes {
    export: Option<String>,
    domains: Vec<usize>,
    switches: usize,
    seed: u64,
}

fn wishes(arguments: &[String]) -> Wishes {
    let value = |name: &str| {
        let place = arguments.iter().position(|one| one == name)?;
        arguments.get(place + 1).cloned()
    };
    let quick = arguments.iter().any(|one| one == "--quick");
    let domains = value("--domains").unwrap_or_else(|| match quick {
        true => "4,12".to_owned(),
        false => "2,4,6,8,10,12".to_owned(),
    });
    let number = |name: &str, otherwise: usize| {
        value(name).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    Wishes {
        export: value("--export-json"),
        domains: domains
            .split(',')
            .map(|one| one.parse().expect("a number"))
            .collect(),
        switches: number("--switches", if quick { 40 } else { 100 }),
        seed: number("--seed", 1) as u64,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if domain::be_one_if_told(&arguments) {
        return;
    }
    let wishes = wishes(&arguments);
    // The manager is on a CPU without domains, above everything but the managers of budgets.
    pin_current_thread(stage::MANAGER_CPU).expect("CPU 0");
    make_current_thread_fifo(96).expect("CAP_SYS_NICE");
    let mut rows = Vec::new();
    for &domains in &wishes.domains {
        let mut stages = [
            Stage::set(domains, Place::Inside, wishes.seed),
            Stage::set(domains, Place::Outside, wishes.seed),
        ];
        let mut found: Vec<rows::Samples> =
            VARIANTS.iter().map(|_| rows::Samples::default()).collect();
        for place in [Place::Inside, Place::Outside] {
            let stage = &mut stages[place as usize];
            stage.begin();
            for _ in 0..wishes.switches.div_ceil(2) {
                for (variant, samples) in VARIANTS.iter().zip(&mut found) {
                    if variant.place != place {
                        continue;
                    }
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
        rows.extend(
            VARIANTS
                .iter()
                .zip(found)
                .map(|(variant, samples)| samples.row(variant, domains)),
        );
    }
    rows::print(&rows);
    if let Some(file) = &wishes.export {
        let text = serde_json::to_string_pretty(&rows).expect("JSON");
        std::fs::write(file, text + "\n").expect("a file that can be written");
    }
}
