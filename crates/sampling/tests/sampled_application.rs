//! Applications that can be measured at any point, and campaigns over them.

use std::collections::BTreeMap;

use tailbound_sampling::{
    AdaptiveDesign, PointRecord, PromiseRecord, QuantileRecord, SampleGrid, SampledVerdict,
    ServiceRecord, answers,
};
use tailbound_time::Duration;

/// The bandwidth that does not matter, in percent of a CPU.
pub const TOLERANCE: f64 = 5.0;
/// The full factorial has so many times as many points.
pub const LESS: usize = 8;

pub fn grid(axes: &[&str]) -> SampleGrid {
    SampleGrid::new(axes.iter().map(|text| text.parse().unwrap()).collect())
}

/// An application that can be measured at any point, each time a little different.
pub trait Application {
    /// The promised quantile in seconds.
    fn quantile(&self, grid: &SampleGrid, point: usize, measurement: u64) -> f64;
    /// The promised latency in seconds.
    fn limit(&self) -> f64;
    /// Half the width of the intervals, as a part of the quantile.
    fn half_width(&self) -> f64;
}

/// The record of a measurement.
pub fn measure(
    application: &dyn Application,
    grid: &SampleGrid,
    point: usize,
    seed: u64,
) -> PointRecord {
    let quantile = application.quantile(grid, point, seed);
    let time = |seconds: f64| Duration::from_secs_f64_nearest(seconds.min(1e6));
    let half = application.half_width();
    let promise = PromiseRecord {
        task: None,
        limit: time(application.limit()),
        percentile: 99.0,
        quantile: Some(QuantileRecord {
            percentile: 99.0,
            value: time(quantile),
            low: time(quantile * (1.0 - half)),
            high: Some(time(quantile * (1.0 + half))),
        }),
    };
    let service = ServiceRecord {
        promises: vec![promise],
        ..ServiceRecord::default()
    };
    PointRecord {
        point,
        services: BTreeMap::from([("service".to_owned(), service)]),
        ..PointRecord::default()
    }
}

/// The cheapest share of each condition by measuring every point once.
pub fn factorial(application: &dyn Application, grid: &SampleGrid, seed: u64) -> Vec<Option<f64>> {
    let records: Vec<PointRecord> = (0..grid.len())
        .map(|point| measure(application, grid, point, seed))
        .collect();
    shares(grid, &records)
}

pub fn shares(grid: &SampleGrid, records: &[PointRecord]) -> Vec<Option<f64>> {
    let answers = answers(grid, records, None, TOLERANCE);
    let each = answers.iter().map(|answer| match answer.verdict {
        SampledVerdict::Cheapest { point, .. } => grid.share(point),
        _ => None,
    });
    each.collect()
}

/// The records of an adaptive campaign that ends by itself, or after `most` measurements.
pub fn adaptive(
    application: &dyn Application,
    grid: &SampleGrid,
    seed: u64,
    most: usize,
) -> (Vec<PointRecord>, bool) {
    let design = AdaptiveDesign {
        grid: grid.clone(),
        confidence: 0.95,
        tolerance: TOLERANCE,
        repeats: 1,
        control_distance: 0,
        seed,
    };
    let mut records = Vec::new();
    while records.len() < most {
        let Some(turn) = design.next(&records) else {
            return (records, true);
        };
        let number = records.len() as u64;
        let mut record = measure(application, grid, turn.point, seed ^ (number << 20));
        record.is_control = turn.is_control;
        records.push(record);
    }
    (records, false)
}

/// Whether an adaptive campaign is as good as the factorial, within the tolerance.
pub fn is_as_good(own: &[Option<f64>], best: &[Option<f64>]) -> bool {
    own.iter().zip(best).all(|pair| match pair {
        (Some(own), Some(best)) => *own <= best + TOLERANCE + 1e-9,
        (None, None) => true,
        _ => false,
    })
}
