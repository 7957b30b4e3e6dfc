//! Quantiles, and ratios of ways that took turns.

use serde_json::{Value, json};

/// The samples of a way, in nanoseconds, turn by turn.
#[derive(Debug, Default)]
pub struct Turns {
    turns: Vec<Vec<u64>>,
    pub lost: u64,
}

impl Turns {
    pub fn add(&mut self, samples_ns: Vec<u64>) {
        if !samples_ns.is_empty() {
            self.turns.push(samples_ns);
        }
    }

    fn all(&self) -> Vec<u64> {
        let mut samples_ns = self.turns.concat();
        samples_ns.sort_unstable();
        samples_ns
    }

    fn medians(&self) -> Vec<f64> {
        let median = |turn: &Vec<u64>| {
            let mut sorted = turn.clone();
            sorted.sort_unstable();
            quantile(&sorted, 0.5)
        };
        self.turns.iter().map(median).collect()
    }

    /// The row of a way, compared with the bare one.
    pub fn row(&self, bare: &Self) -> Value {
        let all = self.all();
        let ratios = self.medians().into_iter().zip(bare.medians());
        let mut ratios = ratios.map(|(own, bare)| own / bare).collect::<Vec<_>>();
        ratios.sort_unstable_by(f64::total_cmp);
        let ratio = |share: f64| {
            let place = (ratios.len().saturating_sub(1) as f64 * share).round();
            ratios.get(place as usize).copied()
        };
        json!({
            "samples": all.len(),
            "lost": self.lost,
            "p50_ns": quantile(&all, 0.5),
            "p99_ns": quantile(&all, 0.99),
            "ratio": ratio(0.5),
            "ratio_p25": ratio(0.25),
            "ratio_p75": ratio(0.75),
        })
    }
}

/// A quantile of sorted samples.
pub fn quantile(sorted: &[u64], share: f64) -> f64 {
    let place = (sorted.len().saturating_sub(1) as f64 * share).round();
    sorted
        .get(place as usize)
        .map_or(f64::NAN, |sample| *sample as f64)
}
