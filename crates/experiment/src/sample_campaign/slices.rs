//! The measurements of a point, slice after slice, and what they say together.

use tailbound_distribution::{Arrival, Distribution, Provenance, merge};
use tailbound_measurement::{Measurement, RequestRecord};
use tailbound_model::{Service, Slo};
use tailbound_report::PERCENTILES;
use tailbound_sampling::{
    PointFlag, PromiseRecord, QuantileRecord, ServiceRecord, Trend, run_in, trend,
};
use tailbound_time::{Duration, Instant};

/// Batches in which a trend within a point is looked for.
const TREND_BATCHES: usize = 20;
/// A trend within a point is reported from this factor on, and where chance alone has a smaller probability than this:
/// latencies of a queue depend on each other, and rise for a while by themselves.
const TREND_FACTOR: f64 = 1.3;
const TREND_CHANCE: f64 = 1e-4;
/// A quantile this many times above its limit needs no narrow interval: the promise is broken. Where the verdict is all that
/// is wanted, neither does one so many times below.
const FAR_AWAY: f64 = 2.0;

/// `ServiceSlices` are the measurements of one service at a point.
pub(super) struct ServiceSlices<'a> {
    service: &'a Service,
    slices: Vec<Measurement>,
    /// The instant before which requests of the first slice belong to the run-in.
    counted_from: Option<Instant>,
    /// Requests of the run-in.
    run_in: u64,
    is_steady: bool,
}

/// The wanted width of intervals.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedPrecision {
    /// The distance of either end from the quantile, as a part of it.
    pub precision: f64,
    /// The confidence, between 0 and 1.
    pub confidence: f64,
    /// Whether the verdict of a promise is enough, however wide the interval is.
    pub verdict_suffices: bool,
}

impl<'a> ServiceSlices<'a> {
    pub(super) fn new(service: &'a Service) -> Self {
        Self {
            service,
            slices: Vec::new(),
            counted_from: None,
            run_in: 0,
            is_steady: true,
        }
    }

    /// Adds a slice. The first one shows how long the run-in is.
    pub(super) fn add(&mut self, slice: Measurement) {
        if self.slices.is_empty() {
            let counted: Vec<&RequestRecord> =
                slice.records.iter().filter(|one| !one.warm_up).collect();
            let latencies: Vec<f64> = counted
                .iter()
                .map(|one| one.latency().as_secs_f64())
                .collect();
            let run_in = run_in(&latencies);
            self.is_steady = run_in.is_steady;
            self.run_in = run_in.length as u64;
            self.counted_from = counted.get(run_in.length).map(|one| one.intended);
        }
        self.slices.push(slice);
    }

    /// The requests that count, in the order of their intended times within each slice.
    fn counted<'s>(&'s self, slice: usize, task: Option<&'s str>) -> Vec<&'s RequestRecord> {
        let measurement = &self.slices[slice];
        let from = self.counted_from.filter(|_| slice == 0);
        let names = &measurement.tasks;
        let of_task = move |one: &RequestRecord| {
            let name = names.get(one.task as usize).map(String::as_str);
            task.is_none() || name == task
        };
        let records = measurement.records.iter();
        records
            .filter(|one| !one.warm_up && from.is_none_or(|from| one.intended >= from))
            .filter(|one| of_task(one))
            .collect()
    }

    /// The latencies that count, of all slices.
    pub(super) fn latencies(&self, task: Option<&str>) -> Option<Distribution> {
        let each = (0..self.slices.len()).map(|slice| {
            let records = self.counted(slice, task).into_iter();
            let arrivals: Vec<Arrival> = records.filter_map(RequestRecord::arrival).collect();
            let provenance: Provenance = self.slices[slice].overall.provenance.clone();
            Distribution::from_arrivals(provenance, arrivals)
        });
        let parts: Vec<Distribution> = each.filter(|one| one.count().unwrap_or(0) > 0).collect();
        let parts: Vec<&Distribution> = parts.iter().collect();
        match parts.as_slice() {
            [] => None,
            [only] => Some((*only).clone()),
            several => merge(several).ok(),
        }
    }

    /// The promises, judged.
    pub(super) fn promises(&self, confidence: f64) -> Vec<PromiseRecord> {
        let slos = self.service.slos.iter();
        slos.map(|slo| self.promise(slo, confidence)).collect()
    }

    fn promise(&self, slo: &Slo, confidence: f64) -> PromiseRecord {
        let task = slo.task.as_deref();
        let all: usize = (0..self.slices.len())
            .map(|slice| self.counted(slice, task).len())
            .sum();
        let latencies = self.latencies(task);
        let valued = latencies
            .as_ref()
            .and_then(Distribution::count)
            .unwrap_or(0);
        // Requests that were refused have no latency; they are among those that the promise lets be late.
        let probability = slo.percentile.probability() * all as f64 / valued.max(1) as f64;
        let quantile = latencies
            .filter(|_| probability < 1.0)
            .and_then(|latencies| quantile(&latencies, probability, confidence));
        PromiseRecord {
            task: slo.task.clone(),
            limit: slo.latency,
            percentile: slo.percentile.0,
            quantile,
        }
    }

    /// Whether more measuring is of no use: every interval is narrow, or its promise is broken by far.
    pub(super) fn is_enough(&self, wanted: WantedPrecision) -> bool {
        let promises = self.promises(wanted.confidence);
        promises.iter().all(|promise| {
            let Some(quantile) = promise.quantile else {
                return true;
            };
            let limit = promise.limit.as_secs_f64();
            let is_far_below = |high: Duration| high.as_secs_f64() * FAR_AWAY < limit;
            quantile.low.as_secs_f64() > limit * FAR_AWAY
                || half_width(&quantile) <= wanted.precision
                || wanted.verdict_suffices && quantile.high.is_some_and(is_far_below)
        })
    }

    /// How many times as long as so far the measurement must be for narrow intervals, roughly.
    pub(super) fn wanted_length(&self, wanted: WantedPrecision) -> f64 {
        let promises = self.promises(wanted.confidence);
        let factors = promises.iter().filter_map(|promise| {
            let width = half_width(&promise.quantile?);
            Some((width / wanted.precision).powi(2))
        });
        factors.fold(1.0, f64::max)
    }

    /// The record of the service, and its oddities.
    pub(super) fn record(&self, wanted: WantedPrecision) -> (ServiceRecord, Vec<PointFlag>) {
        let mut record = ServiceRecord {
            run_in: self.run_in,
            promises: self.promises(wanted.confidence),
            ..ServiceRecord::default()
        };
        for slice in &self.slices {
            record.released += slice.counts.released;
            record.answered += slice.counts.answered;
            record.refused += slice.counts.refused;
            record.unanswered += slice.counts.unanswered;
        }
        let seconds: f64 = self
            .slices
            .iter()
            .map(|slice| slice.span().as_secs_f64())
            .sum();
        record.rate_per_second = match seconds > 0.0 {
            true => record.answered as f64 / seconds,
            false => 0.0,
        };
        if let Some(latencies) = self.latencies(None) {
            (record.mean, record.deviation) = moments(latencies.samples());
            let promised = self.service.slos.iter().map(|slo| slo.percentile.0 / 100.0);
            let mut shares: Vec<f64> = PERCENTILES.iter().map(|(_, share)| *share).collect();
            shares.extend(promised);
            shares.sort_by(f64::total_cmp);
            shares.dedup_by(|one, other| (*one - *other).abs() < 1e-9);
            let each = shares.into_iter();
            record.quantiles = each
                .filter_map(|share| quantile(&latencies, share, wanted.confidence))
                .collect();
        }
        let flags = self.flags(&record, wanted);
        (record, flags)
    }

    fn flags(&self, record: &ServiceRecord, wanted: WantedPrecision) -> Vec<PointFlag> {
        let late = self.slices.iter().filter_map(|slice| {
            let lateness = slice.lateness.quantile(0.99)?.low;
            Some(lateness.as_secs_f64())
        });
        let late = late.fold(0.0, f64::max);
        let quantiles = record.promises.iter().filter_map(|one| one.quantile);
        let least = quantiles
            .map(|one| one.value.as_secs_f64())
            .fold(f64::INFINITY, f64::min);
        let conditions = [
            (PointFlag::Errors, record.refused > 0),
            (PointFlag::Unanswered, record.unanswered > 0),
            (PointFlag::NotSteady, !self.is_steady),
            (PointFlag::WideInterval, !self.is_enough(wanted)),
            (PointFlag::LateGenerator, late > least * wanted.precision),
            (PointFlag::Slowing, self.trend().is_some_and(is_rise)),
            (
                PointFlag::Failed,
                self.slices.iter().any(|slice| slice.interrupted.is_some()),
            ),
        ];
        let set = conditions.into_iter().filter(|(_, holds)| *holds);
        set.map(|(flag, _)| flag).collect()
    }

    /// The trend of the latencies that count, batch by batch.
    fn trend(&self) -> Option<Trend> {
        let latencies: Vec<f64> = (0..self.slices.len())
            .flat_map(|slice| self.counted(slice, None))
            .map(|one| one.latency().as_secs_f64())
            .collect();
        let size = latencies.len() / TREND_BATCHES;
        if size == 0 {
            return None;
        }
        let batches = latencies.chunks_exact(size);
        let means: Vec<f64> = batches
            .map(|batch| batch.iter().sum::<f64>() / size as f64)
            .collect();
        trend(&means)
    }

    /// Why a slice ended early, if one did.
    pub(super) fn interruption(&self) -> Option<&str> {
        let mut slices = self.slices.iter();
        slices.find_map(|slice| slice.interrupted.as_deref())
    }
}

fn is_rise(trend: Trend) -> bool {
    trend.factor >= TREND_FACTOR && trend.chance <= TREND_CHANCE
}

/// The greater distance of either end from the quantile, as a part of it; infinite without an upper end.
fn half_width(quantile: &QuantileRecord) -> f64 {
    let (value, low) = (quantile.value.as_secs_f64(), quantile.low.as_secs_f64());
    let Some(high) = quantile.high.map(Duration::as_secs_f64) else {
        return f64::INFINITY;
    };
    (high - value).max(value - low) / value.max(1e-9)
}

fn quantile(latencies: &Distribution, share: f64, confidence: f64) -> Option<QuantileRecord> {
    let value = latencies.quantile(share)?.low;
    let interval = latencies.quantile_interval(share, confidence)?;
    Some(QuantileRecord {
        percentile: share * 100.0,
        value,
        low: interval.low,
        high: interval.high,
    })
}

/// Mean and standard deviation.
fn moments(samples: &[Duration]) -> (Option<Duration>, Option<Duration>) {
    if samples.is_empty() {
        return (None, None);
    }
    let count = samples.len() as f64;
    let mean = samples.iter().map(|one| one.as_secs_f64()).sum::<f64>() / count;
    let squares: f64 = samples
        .iter()
        .map(|one| (one.as_secs_f64() - mean).powi(2))
        .sum();
    let deviation = (samples.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
    (
        Some(Duration::from_secs_f64_nearest(mean)),
        deviation.map(Duration::from_secs_f64_nearest),
    )
}
