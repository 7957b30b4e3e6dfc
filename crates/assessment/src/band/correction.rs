//! The correction of bands by what earlier bands of the same host were worth.
//!
//! Each earlier run gives a score: how far the measured quantile lay from the predicted median, in
//! half-widths of its band. If runs are exchangeable, a band of s half-widths, where s is the
//! ceil((n + 1) c)-th smallest of n scores, holds the next one with probability c at least (split conformal
//! prediction: Vovk, Gammerman, Shafer, Algorithmic Learning in a Random World, 2005, section 2.2; Romano,
//! Patterson, Candes, NeurIPS 2019, with the half-widths of the band as the scale).
//!
//! With a dozen runs that s is the largest score or the second largest, so that a single bad run makes all bands
//! useless. So ten scores stand beside those of the host from the begin: of a host whose errors the band
//! describes rightly. They give way as runs come; the guarantee is theirs together, and how often such bands hold
//! is measured (`bench/bands`).

use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, nanoseconds};

/// The least half-width of a band, as a logarithm: a band without width has no scale.
const LEAST_HALF_WIDTH: f64 = 0.002;
/// A score counts for no more than this: one run on a broken host shall not make every band vacuous.
const MOST_SCORE: f64 = 1e3;

/// So many scores of a host as the band takes it stand beside those of this host.
const EXPECTED_SCORES: usize = 10;

/// A quantile of an earlier run: what was predicted before it, and what was measured in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastQuantile {
    /// The percentile.
    pub percentile: f64,
    /// The lower end of the band, as predicted without a correction.
    #[serde(rename = "low_ns", with = "nanoseconds")]
    pub low: Duration,
    /// The median of the simulated runs.
    #[serde(rename = "median_ns", with = "nanoseconds")]
    pub median: Duration,
    /// The upper end of the band.
    #[serde(rename = "high_ns", with = "nanoseconds")]
    pub high: Duration,
    /// The measured quantile.
    #[serde(rename = "measured_ns", with = "nanoseconds")]
    pub measured: Duration,
}

impl PastQuantile {
    /// How far the measured quantile lay from the median, in half-widths of the band on its side.
    pub fn score(&self) -> f64 {
        let apart = log_of(self.measured) - log_of(self.median);
        let half = match apart >= 0.0 {
            true => log_of(self.high) - log_of(self.median),
            false => log_of(self.median) - log_of(self.low),
        };
        (apart.abs() / half.max(LEAST_HALF_WIDTH)).min(MOST_SCORE)
    }

    /// Whether the band held it.
    pub fn held(&self) -> bool {
        (self.low..=self.high).contains(&self.measured)
    }
}

/// The factor on the half-widths of a band.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BandCorrection {
    /// The factor, on the logarithms; 1 where there is no correction.
    pub factor: f64,
    /// The number of earlier runs from which it comes.
    pub earlier: usize,
    /// The share of them that their bands held.
    pub held: f64,
}

impl BandCorrection {
    /// The correction for a `percentile` and a nominal `coverage` from earlier runs; `None` without any.
    pub fn of(earlier: &[PastQuantile], percentile: f64, coverage: f64) -> Option<Self> {
        let own = earlier
            .iter()
            .filter(|one| (one.percentile - percentile).abs() < 1e-9);
        let own: Vec<&PastQuantile> = own.collect();
        if own.is_empty() {
            return None;
        }
        let of_host = own.iter().map(|one| one.score());
        let mut scores: Vec<f64> = of_host.chain(expected_scores(coverage)).collect();
        scores.sort_by(f64::total_cmp);
        // What floating point adds to a whole number shall not ask for one run more.
        let rank = ((scores.len() as f64 + 1.0) * coverage - 1e-9).ceil() as usize;
        let factor = *scores.get(rank.clamp(1, scores.len()) - 1)?;
        let held = own.iter().filter(|one| one.held()).count();
        Some(Self {
            factor,
            earlier: own.len(),
            held: held as f64 / own.len() as f64,
        })
    }

    /// A value with its distance from the median stretched by the factor.
    pub(super) fn stretch(factor: f64, median: Duration, value: Duration) -> Duration {
        let apart = log_of(value) - log_of(median);
        let stretched = log_of(median) + factor * apart;
        Duration::from_secs_f64_nearest(stretched.min(20.0).exp())
    }
}

/// The scores of a host whose bands of this coverage hold as often as they say: logistic errors, at the middles of
/// equal shares of probability.
fn expected_scores(coverage: f64) -> impl Iterator<Item = f64> {
    let log_odds = |share: f64| ((1.0 + share) / (1.0 - share)).ln();
    let shares = (0..EXPECTED_SCORES).map(|index| (index as f64 + 0.5) / EXPECTED_SCORES as f64);
    shares.map(move |share| log_odds(share) / log_odds(coverage))
}

/// The natural logarithm of a time in seconds; of nothing, that of a nanosecond.
pub(super) fn log_of(time: Duration) -> f64 {
    time.max(Duration::from_nanos(1)).as_secs_f64().ln()
}
