//! The file of a histogram, and which one of it.

use std::path::PathBuf;
use std::str::FromStr;

/// `HistogramFile` is a file in Prometheus's text format, and the name of a histogram in it: `FILE` or `FILE:METRIC`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramFile {
    /// The file.
    pub file: PathBuf,
    /// The histogram; without it, the only one of the file.
    pub metric: Option<String>,
}

impl FromStr for HistogramFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let folder_ends = text.rfind('/').map_or(0, |at| at + 1);
        let (file, metric) = match text[folder_ends..].split_once(':') {
            Some((name, metric)) => (&text[..folder_ends + name.len()], Some(metric)),
            None => (text, None),
        };
        if file.is_empty() || metric.is_some_and(str::is_empty) {
            return Err(
                "name a file, or a file and a histogram of it: metrics.txt:request_seconds".into(),
            );
        }
        Ok(Self {
            file: file.into(),
            metric: metric.map(Into::into),
        })
    }
}
