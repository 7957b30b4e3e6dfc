//! The part of OpenTelemetry's metrics protocol that a run needs, as JSON (OTLP 1.x: names in lowerCamelCase,
//! enumerations as numbers, 64-bit integers as decimal strings).

use serde::{Serialize, Serializer};

/// Every data point holds for the time since the one before, not since a process began.
pub(super) const DELTA: u8 = 1;

/// A request to a collector: `ExportMetricsServiceRequest`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetricsExport {
    pub resource_metrics: Vec<ResourceMetrics>,
}

/// The metrics of one service.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceMetrics {
    pub resource: MetricSource,
    pub scope_metrics: [ScopeMetrics; 1],
}

/// A service, as attributes.
#[derive(Serialize)]
pub(super) struct MetricSource {
    pub attributes: Vec<MetricAttribute>,
}

/// The metrics that one program took.
#[derive(Serialize)]
pub(super) struct ScopeMetrics {
    pub scope: MetricScope,
    pub metrics: Vec<ExportedMetric>,
}

/// The program.
#[derive(Serialize)]
pub(super) struct MetricScope {
    pub name: &'static str,
    pub version: String,
}

/// A metric with its data points.
#[derive(Serialize)]
pub(super) struct ExportedMetric {
    pub name: &'static str,
    pub description: &'static str,
    pub unit: &'static str,
    #[serde(flatten)]
    pub data: MetricData,
}

/// The data points, by the kind of their metric.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum MetricData {
    #[serde(rename_all = "camelCase")]
    Gauge { data_points: Vec<NumberPoint> },
    #[serde(rename_all = "camelCase")]
    Sum {
        data_points: Vec<NumberPoint>,
        aggregation_temporality: u8,
        is_monotonic: bool,
    },
    #[serde(rename_all = "camelCase")]
    ExponentialHistogram {
        data_points: Vec<HistogramPoint>,
        aggregation_temporality: u8,
    },
}

impl MetricData {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Gauge { data_points } | Self::Sum { data_points, .. } => data_points.is_empty(),
            Self::ExponentialHistogram { data_points, .. } => data_points.is_empty(),
        }
    }
}

/// The time that a data point holds for, in nanoseconds since 1970.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PointTime {
    #[serde(serialize_with = "as_text")]
    pub start_time_unix_nano: u64,
    #[serde(serialize_with = "as_text")]
    pub time_unix_nano: u64,
}

/// A number.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NumberPoint {
    pub attributes: Vec<MetricAttribute>,
    #[serde(flatten)]
    pub time: PointTime,
    #[serde(flatten)]
    pub value: PointValue,
}

/// The value of a number.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum PointValue {
    AsDouble(f64),
    #[serde(serialize_with = "as_text")]
    AsInt(u64),
}

/// Latencies, in buckets whose bounds grow by a constant factor.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistogramPoint {
    pub attributes: Vec<MetricAttribute>,
    #[serde(flatten)]
    pub time: PointTime,
    #[serde(serialize_with = "as_text")]
    pub count: u64,
    pub sum: f64,
    pub min: f64,
    pub max: f64,
    pub scale: i32,
    #[serde(serialize_with = "as_text")]
    pub zero_count: u64,
    pub positive: Buckets,
}

/// The counts of neighbouring buckets: bucket `i` holds what is above base^(offset + i) and at most
/// base^(offset + i + 1), with base = 2^(2^-scale).
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Buckets {
    pub offset: i32,
    #[serde(serialize_with = "as_texts")]
    pub bucket_counts: Vec<u64>,
}

/// A name with its value.
#[derive(Clone, Serialize)]
pub(super) struct MetricAttribute {
    pub key: String,
    pub value: AttributeValue,
}

/// The value of an attribute.
#[derive(Clone, Serialize)]
pub(super) enum AttributeValue {
    #[serde(rename = "stringValue")]
    Text(String),
    #[serde(rename = "doubleValue")]
    Double(f64),
    #[serde(rename = "intValue", serialize_with = "as_text")]
    Integer(u64),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        Self::Double(number)
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl MetricAttribute {
    pub(super) fn new(key: &str, value: impl Into<AttributeValue>) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
        }
    }
}

fn as_text<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

fn as_texts<S: Serializer>(numbers: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(numbers.iter().map(u64::to_string))
}
