//! The settings of `golden/response_times.toml`, simulated: the share of the responses within a time lies
//! inside of the analysis's bounds, as far as so many jobs can tell.

use rayon::prelude::*;
use tailbound_analysis::response_time::QueueResponses;

use crate::golden_settings::{Setting, golden};
use crate::simulated_queue::{BATCHES, BatchMean, shares_within, simulated};

/// How many standard errors a share may lie outside. There are 307 shares, and errors of dependent
/// batches are underestimated somewhat. Seeds are fixed, so a test that passes once passes always.
const ERRORS: f64 = 5.0;

/// What simulations say of the analysis.
#[derive(Default)]
struct Verdict {
    wrong: Vec<String>,
    /// How many shares so many jobs could tell something of.
    compared: usize,
    /// The greatest standard error among them.
    greatest: f64,
}

/// Compares the shares of so many simulated jobs with bounds.
fn compare(setting: &Setting, bounds: &QueueResponses, jobs: usize, seed: u64) -> Verdict {
    let responses = simulated(&setting.queue(), jobs, seed);
    let mut verdict = Verdict::default();
    for at in setting.cdf.iter().map(|share| share.at) {
        let shares = shares_within(&responses, at);
        let mixed = shares.iter().filter(|share| **share > 0.0 && **share < 1.0);
        // Where most batches are all within, or all beyond, they say nothing of how rare the other
        // is: at 95 % load it comes in few long busy periods.
        if mixed.count() < BATCHES * 3 / 4 {
            continue;
        }
        let BatchMean { value, error } = BatchMean::of(&shares);
        verdict.compared += 1;
        verdict.greatest = verdict.greatest.max(error);
        let share = bounds.cdf(at);
        if value < share.lower - ERRORS * error || value > share.upper + ERRORS * error {
            verdict.wrong.push(format!(
                "{}, F({at}): {value} +- {error} simulated, {} to {} by analysis",
                setting.name, share.lower, share.upper
            ));
        }
    }
    verdict
}

fn check_all(jobs: usize, least_compared: usize) {
    let settings = golden();
    let verdicts: Vec<Verdict> = settings
        .par_iter()
        .enumerate()
        .map(|(seed, setting)| compare(setting, &setting.solved(), jobs, seed as u64))
        .collect();
    let wrong: Vec<&String> = verdicts.iter().flat_map(|it| &it.wrong).collect();
    let compared: usize = verdicts.iter().map(|it| it.compared).sum();
    let greatest = verdicts.iter().map(|it| it.greatest).fold(0.0, f64::max);
    eprintln!("{compared} shares, standard errors up to {greatest:.1e}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(compared >= least_compared, "{compared}");
}

/// `TAILBOUND_GOLDEN_JOBS=1724138 cargo test --release -p tailbound-analysis --test analysis golden_simulation`
/// simulates 10^8 jobs in all, in place of some millions.
#[test]
fn simulated_shares_lie_in_the_bounds() {
    let jobs = std::env::var("TAILBOUND_GOLDEN_JOBS").ok();
    let jobs = jobs.map_or(100_000, |jobs| jobs.parse().unwrap());
    check_all(jobs, 200);
}

/// So that the test above can fail: jobs that come two in a hundred more often are found out.
#[test]
fn a_wrong_rate_is_found_out() {
    let right = golden().remove(0);
    let bounds = right.solved();
    let mut wrong = golden().remove(0);
    wrong.rate_per_s *= 1.02;
    assert!(compare(&right, &bounds, 1_000_000, 7).wrong.is_empty());
    assert!(!compare(&wrong, &bounds, 1_000_000, 7).wrong.is_empty());
}
