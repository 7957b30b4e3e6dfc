//! Distributions as CSV, JSON and HdrHistogram logs.

use tailbound_distribution::{Distribution, read_hdr_log, write_hdr_log};

/// What was read can be written, and is then read as the same.
pub fn check(bytes: &[u8]) {
    if let Ok(series) = read_hdr_log(bytes) {
        assert!(!series.is_empty());
    }
    if let Ok(distribution) = serde_json::from_slice::<Distribution>(bytes) {
        let json = serde_json::to_vec(&distribution).unwrap();
        let again: Distribution = serde_json::from_slice(&json).expect("our own JSON");
        assert_eq!(again, distribution);
        asked(&distribution);
    }
    let Some(text) = crate::text(bytes) else {
        return;
    };
    if let Ok(distribution) = Distribution::from_csv(text) {
        let csv = distribution.to_csv();
        assert_eq!(
            Distribution::from_csv(&csv).expect("our own CSV"),
            distribution
        );
        asked(&distribution);
        if let Ok(log) = write_hdr_log(&[(None, &distribution)], 3) {
            read_hdr_log(log.as_bytes()).expect("our own log");
        }
    }
}

/// Questions that every distribution answers.
fn asked(distribution: &Distribution) {
    let mut last = None;
    for probability in [0.0, 0.5, 0.99, 1.0] {
        let quantile = distribution.quantile(probability);
        if let (Some(last), Some(now)) = (last, quantile) {
            let (last, now): (tailbound_distribution::Interval, _) = (last, now);
            assert!(last.low <= now.low, "{last:?} {now:?}");
        }
        last = quantile.or(last);
    }
    let _any = (distribution.mean(), distribution.min(), distribution.max());
    if let Some(max) = distribution.max() {
        let (low, high) = distribution.cdf(max.low);
        assert!(low <= high + 1e-9, "{low} {high}");
    }
    let _fewer = distribution.decimate(16);
}
