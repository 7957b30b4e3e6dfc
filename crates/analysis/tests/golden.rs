//! The response times of `golden/response_times.toml`, whose numbers come from oracles of their own.

use std::collections::BTreeSet;

use tailbound_analysis::response_time::QueueResponses;
use tailbound_distribution::Interval;
use tailbound_time::Duration;

use crate::golden_settings::{Expected, Setting, golden};

/// The promise for the bounds of a quantile, relative (SPECIFICATION.md).
const APART: f64 = 1e-5;
/// An oracle of probabilities that may be more wrong than this shows nothing, and so many of them are
/// to be much better.
const VAGUE: f64 = 1.5e-2;
const PRECISE: f64 = 1e-7;
const PRECISE_COUNT: usize = 150;

/// The ends of an interval in seconds.
fn ends(interval: Interval) -> (f64, f64) {
    let high = interval.high.map_or(f64::INFINITY, Duration::as_secs_f64);
    (interval.low.as_secs_f64(), high)
}

/// How far an oracle's value lies outside of the bounds, beyond its error; `slack` is what whole
/// nanoseconds may do.
fn outside(expected: &Expected, (low, high): (f64, f64), slack: f64) -> Option<String> {
    let allowed = expected.error + slack;
    let inside = low - allowed <= expected.value && expected.value <= high + allowed;
    (!inside).then(|| format!("{expected:?} is not in [{low}, {high}]"))
}

/// What of the oracles' numbers the bounds of a setting do not hold.
fn disagreements(setting: &Setting, responses: &QueueResponses) -> Vec<String> {
    let mut wrong = Vec::new();
    for share in &setting.cdf {
        let bounds = responses.cdf(share.at);
        let disagreement = outside(&share.expected, (bounds.lower, bounds.upper), 1e-11);
        wrong.extend(
            disagreement.map(|words| format!("{}, F({}): {words}", setting.name, share.at)),
        );
    }
    for quantile in &setting.quantiles_s {
        let bounds = ends(responses.quantile(quantile.share).unwrap());
        let disagreement = outside(&quantile.expected, bounds, 2e-9);
        wrong.extend(
            disagreement.map(|words| format!("{}, {}: {words}", setting.name, quantile.share)),
        );
    }
    let disagreement = outside(&setting.mean_s, ends(responses.mean()), 2e-9);
    wrong.extend(disagreement.map(|words| format!("{}, mean: {words}", setting.name)));
    wrong
}

/// The bounds of the quantiles that are farther apart than the setting accepts, and by how much the
/// widest ones are apart.
fn too_wide(setting: &Setting, responses: &QueueResponses) -> (Vec<String>, f64) {
    let (mut wrong, mut widest) = (Vec::new(), 0.0_f64);
    for quantile in &setting.quantiles_s {
        let (low, high) = ends(responses.quantile(quantile.share).unwrap());
        let apart = (high - low) / low;
        widest = widest.max(apart);
        if apart > setting.apart {
            wrong.push(format!("{}, {}: {apart:.1e}", setting.name, quantile.share));
        }
    }
    (wrong, widest)
}

#[test]
fn the_bounds_hold_what_the_oracles_say_and_are_narrow() {
    let settings = golden();
    assert!(settings.len() >= 40, "only {} settings", settings.len());
    let (mut wrong, mut behind) = (Vec::new(), Vec::new());
    for setting in &settings {
        let responses = setting.solved();
        wrong.extend(disagreements(setting, &responses));
        let (wide, widest) = too_wide(setting, &responses);
        wrong.extend(wide);
        if widest > APART {
            behind.push(format!("{}: {widest:.1e}", setting.name));
        } else if setting.apart > APART {
            wrong.push(format!(
                "{} reaches {widest:.1e}: its `apart` of {} is not needed any more",
                setting.name, setting.apart
            ));
        }
    }
    eprintln!(
        "bounds of quantiles more than {APART:e} apart:\n  {}",
        behind.join("\n  ")
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// So that the other test can fail: oracles with small errors, of three kinds, for settings that all
/// differ, and values that leave the bounds once they are moved by little.
#[test]
fn the_oracles_are_sharp_and_of_several_kinds() {
    let settings = golden();
    let names: BTreeSet<&str> = settings
        .iter()
        .map(|setting| setting.name.as_str())
        .collect();
    assert_eq!(names.len(), settings.len());
    let (mut oracles, mut precise) = (BTreeSet::new(), 0);
    for setting in &settings {
        for share in &setting.cdf {
            assert!(
                share.expected.error < VAGUE,
                "{}: {:?}",
                setting.name,
                share.expected
            );
            oracles.insert(share.expected.oracle.as_str());
            precise += usize::from(share.expected.error < PRECISE);
        }
        for quantile in &setting.quantiles_s {
            let relative = quantile.expected.error / quantile.expected.value;
            assert!(
                relative < 5.0 * VAGUE,
                "{}: {:?}",
                setting.name,
                quantile.expected
            );
        }
    }
    assert_eq!(oracles.len(), 3, "{oracles:?}");
    assert!(precise >= PRECISE_COUNT, "{precise}");
    let base = settings.first().unwrap();
    let responses = base.solved();
    assert!(disagreements(base, &responses).is_empty());
    let mut moved = golden().remove(0);
    for share in &mut moved.cdf {
        share.expected.value += 1e-6;
    }
    assert_eq!(disagreements(&moved, &responses).len(), moved.cdf.len());
}
