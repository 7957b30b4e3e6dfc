//! Distributions as CSV, JSON and HdrHistogram logs.

use tailbound_distribution::{Distribution, read_hdr_log, write_hdr_log};

/// What was read can be written, and is then read as the same.
pub fn check(bytes: &[u8]) {
    if let Ok(series) = read_hdr_log(bytes) {
        assert!(!series.is_empty());
    }
    if let Ok(found) = serde_json::from_slice::<Distribution>(bytes) {
        let json = serde_json::to_vec(&found).unwrap();
        let again: Distribution = serde_json::from_slice(&json).expect("our own JSON");
        assert_eq!(again, found);
        asked(&found);
    }
    let Some(text) = crate::text(bytes) else {
        return;
    };
    if let Ok(found) = Distribution::from_csv(text) {
        let csv = found.to_csv();
        assert_eq!(Distribution::from_csv(&csv).expect("our own CSV"), found);
        asked(&found);
        if let Ok(log) = write_hdr_log(&[(None, &found)], 3) {
            read_hdr_log(log.as_bytes()).expect("our own log");
        }
    }
}

/// Questions that every distribution answers.
fn asked(found: &Distribution) {
    let mut last = None;
    for probability in [0.0, 0.5, 0.99, 1.0] {
        let quantile = found.quantile(probability);
        if let (Some(last), Some(now)) = (last, quantile) {
            let (last, now): (tailbound_distribution::Interval, _) = (last, now);
            assert!(last.low <= now.low, "{last:?} {now:?}");
        }
        last = quantile.or(last);
    }
    let _any = (found.mean(), found.min(), found.max());
    if let Some(max) = found.max() {
        let (low, high) = found.cdf(max.low);
        assert!(low <= high + 1e-9, "{low} {high}");
    }
    let _fewer = found.decimate(16);
}
