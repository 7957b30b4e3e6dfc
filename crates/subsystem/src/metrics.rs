//! Metrics as they are at one instant, in terms of the registry's encoder.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// `MetricKind` says whether a number only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows; the name of the metric ends with `_total`, which the encoder adds.
    Counter,
    /// It goes up and down.
    Gauge,
}

impl MetricKind {
    /// Writes a metric with a sample for each set of labels.
    ///
    /// # Errors
    /// If the text cannot take more.
    pub fn encode<'a, const N: usize>(
        self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        samples: impl IntoIterator<Item = ([(&'a str, &'a str); N], f64)>,
    ) -> fmt::Result {
        let kind = match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
        };
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in samples {
            if N == 0 {
                self.sample(&mut metric, value)?;
            } else {
                self.sample(&mut metric.encode_family(&labels)?, value)?;
            }
        }
        Ok(())
    }

    /// Writes one sample; a whole number without a point.
    fn sample(self, metric: &mut MetricEncoder<'_>, value: f64) -> fmt::Result {
        let whole =
            (value >= 0.0 && value.fract() == 0.0 && value < 2f64.powi(53)).then_some(value as u64);
        match (self, whole) {
            (Self::Counter, Some(whole)) => {
                metric.encode_counter::<NoLabelSet, _, u64>(&whole, None)
            }
            (Self::Counter, None) => metric.encode_counter::<NoLabelSet, _, f64>(&value, None),
            (Self::Gauge, Some(whole)) => metric.encode_gauge(&whole),
            (Self::Gauge, None) => metric.encode_gauge(&value),
        }
    }
}

/// Writes a metric that encodes itself, with a sample for each set of labels.
///
/// # Errors
/// If the text cannot take more.
pub fn encode_each<'a, const N: usize, M: EncodeMetric + 'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, kind): (&str, &str, MetricType),
    samples: impl IntoIterator<Item = ([(&'a str, &'a str); N], &'a M)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in samples {
        value.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
