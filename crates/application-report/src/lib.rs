//! Reports that applications make of themselves: their addresses, and values in JSON, XML and the text format of
//! Prometheus. Bytes in, values out; `tailbound-measurement` fetches the bytes.

mod address;
mod fault;
mod place;
mod prometheus;
mod xml_path;

pub use address::ReportAddress;
pub use fault::ReportFault;
pub use place::{ReportPlace, finite_number, refuse_future};
pub use prometheus::{MetricSample, SeriesName, metric_samples};
pub use xml_path::{XmlPath, XmlPathError};

/// The first letters of a text, on one line.
fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(60).collect()
}
