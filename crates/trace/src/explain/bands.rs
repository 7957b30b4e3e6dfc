//! Sums of parts by bands of quantiles.

use tailbound_time::Duration;

use super::cause::PartTable;
use super::explanation::{LatencyPart, QuantileBand};

/// The bounds of bands, where nobody asks for others.
pub const DEFAULT_QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// The bounds of bands for a picture: the bounds above are among them, so that its bands can be merged into those.
pub const PICTURED_QUANTILES: [f64; 22] = [
    0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85,
    0.9, 0.95, 0.975, 0.99, 0.999,
];

/// Bands of quantiles, filled with sums.
#[derive(Clone, Debug)]
pub(crate) struct BandSums {
    /// The bands with their greatest latencies, ascending; empty ones are left out.
    bands: Vec<(QuantileBand, u64)>,
    sums: Vec<Vec<u64>>,
}

impl BandSums {
    /// The bands of latencies. Of equal latencies at a bound, all are in the lower band.
    pub(crate) fn new(mut latencies: Vec<u64>, quantiles: &[f64]) -> Self {
        latencies.sort_unstable();
        let mut bands: Vec<(QuantileBand, u64)> = Vec::new();
        let mut from = 0.0;
        for to in quantiles.iter().copied().chain([1.0]) {
            let rank = (to * latencies.len() as f64).ceil() as usize;
            let Some(greatest) = rank.checked_sub(1).and_then(|rank| latencies.get(rank)) else {
                continue;
            };
            if let Some((band, last)) = bands.last_mut()
                && last == greatest
            {
                band.to = to;
                from = to;
                continue;
            }
            let band = QuantileBand {
                from,
                to,
                ..QuantileBand::default()
            };
            bands.push((band, *greatest));
            from = to;
        }
        let sums = vec![Vec::new(); bands.len()];
        Self { bands, sums }
    }

    /// Adds a request of a latency_ns, by its parts.
    pub(crate) fn add(&mut self, latency_ns: u64, parts: &[u64]) {
        let place = self
            .bands
            .partition_point(|(_, greatest)| *greatest < latency_ns);
        let place = place.min(self.bands.len().saturating_sub(1));
        let Some((band, _)) = self.bands.get_mut(place) else {
            return;
        };
        let length = Duration::from_nanos(latency_ns);
        band.least = if band.requests == 0 {
            length
        } else {
            band.least.min(length)
        };
        band.greatest = band.greatest.max(length);
        band.requests += 1;
        band.total = band.total.saturating_add(length);
        let sums = &mut self.sums[place];
        if sums.len() < parts.len() {
            sums.resize(parts.len(), 0);
        }
        for (sum, part) in sums.iter_mut().zip(parts) {
            *sum += part;
        }
    }

    /// The bands with the names of their parts.
    pub(crate) fn finish(self, table: &PartTable) -> Vec<QuantileBand> {
        let bands = self.bands.into_iter().zip(self.sums);
        let finished = bands.map(|((mut band, _), sums)| {
            let parts = sums.into_iter().enumerate().filter(|(_, sum)| *sum > 0);
            band.parts = parts
                .map(|(number, sum)| {
                    let (cause, detail) = table.part(super::cause::PartId(number as u32));
                    LatencyPart {
                        cause,
                        detail: detail.to_string(),
                        total: Duration::from_nanos(sum),
                    }
                })
                .collect();
            band.parts.sort_by_key(|part| std::cmp::Reverse(part.total));
            band
        });
        finished.filter(|band| band.requests > 0).collect()
    }
}
