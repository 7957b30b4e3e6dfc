//! HdrHistogram interval logs (format version 1.3, V2 payloads), in nanoseconds.
//!
//! HdrHistogram's own tools read what is written here, and the logs of others are read. A
//! histogram keeps values to a number of significant decimal digits, not exactly: with 3 digits a
//! value may be off by one part in a thousand. What is read is rounded up to the end of its
//! bucket, so that no latency is told shorter than it was, and the provenance says so.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use tailbound_time::Duration;

use crate::{Distribution, Evidence, Provenance, Shape};

const LEGEND: &str =
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"";

/// More values than this in one series are refused: each becomes a sample.
const MOST_VALUES: u64 = 50_000_000;

/// The longest histogram that is read, inflated; the largest that 5 digits can need is 57 MB.
const LONGEST_PAYLOAD: u64 = 64 << 20;

/// The first four bytes of a compressed V2 histogram, and of the one inside.
const COMPRESSED_COOKIE: u32 = 0x1c84_9314;
const PLAIN_COOKIE: u32 = 0x1c84_9313;

/// Bytes of a V2 histogram before its counts.
const HEADER_LENGTH: usize = 40;

/// Why a log cannot be written or read; lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HdrError {
    /// A curve has no values to count.
    #[error(
        "\"{tag}\" is a curve or has censored values; an HdrHistogram log holds known samples only"
    )]
    NotSamples {
        /// Which series.
        tag: String,
    },
    /// A tag cannot be written.
    #[error("\"{0}\" is no tag: leave out spaces, commas and line breaks")]
    Tag(String),
    /// The digits are out of range.
    #[error("{0} significant digits cannot be kept; choose 0 to 5")]
    Digits(u8),
    /// A value is too large for the format.
    #[error("{0} is longer than the format can hold, 292 years")]
    TooLong(Duration),
    /// The log cannot be encoded.
    #[error("the histogram cannot be encoded: {0}")]
    Encoding(String),
    /// The log is no text.
    #[error("line {line} is no UTF-8 text; an interval log is a text file")]
    NotText {
        /// Where.
        line: usize,
    },
    /// A line does not have the cells of an interval.
    #[error(
        "line {line} is no interval; write [Tag=NAME,]start,length,maximum,histogram in base 64"
    )]
    NotAnInterval {
        /// Where.
        line: usize,
    },
    /// A histogram cannot be decoded.
    #[error("line {line}: the histogram cannot be decoded: {why}")]
    Histogram {
        /// Where.
        line: usize,
        /// Why not.
        why: String,
    },
    /// More values than can be held.
    #[error("line {line}: more than {MOST_VALUES} values in one series; split the log")]
    TooMany {
        /// Where.
        line: usize,
    },
    /// The log has no interval at all.
    #[error("the log has no interval; is it an HdrHistogram interval log?")]
    Empty,
}

/// One series of a log: all intervals with the same tag.
#[derive(Clone, Debug, PartialEq)]
pub struct HdrSeries {
    /// Its tag, if it has one.
    pub tag: Option<String>,
    /// Its values, each rounded up to the end of its bucket.
    pub distribution: Distribution,
    /// The fewest significant digits that its histograms kept.
    pub significant_digits: u8,
}

/// Writes distributions of samples as one interval log, an interval each, in nanoseconds, with
/// `significant_digits` (0 to 5; 3 is usual) kept of each value. A tag is needed where there are
/// several.
///
/// # Errors
/// [`HdrError`] names the series or value that the format cannot hold.
pub fn write_hdr_log(
    series: &[(Option<&str>, &Distribution)],
    significant_digits: u8,
) -> Result<String, HdrError> {
    let mut out = String::from("#[Histogram log format version 1.3]\n#[Unit: nanoseconds]\n");
    out.push_str(&format!(
        "#[Values are kept to {significant_digits} significant decimal digits]\n{LEGEND}\n"
    ));
    for (tag, distribution) in series {
        let name = tag.unwrap_or_default();
        let Shape::Samples(samples) = &distribution.shape else {
            return Err(HdrError::NotSamples { tag: name.into() });
        };
        if name.contains([' ', ',', '\n', '\r']) || (tag.is_some() && name.is_empty()) {
            return Err(HdrError::Tag(name.into()));
        }
        if let Some(tag) = tag {
            out.push_str(&format!("Tag={tag},"));
        }
        let longest = samples.last().copied().unwrap_or(Duration::ZERO);
        let encoded = encode(samples, longest, significant_digits)?;
        // The start and length of the interval are not known here; tools want numbers above zero.
        out.push_str(&format!(
            "0.000,1.000,{:.6},{encoded}\n",
            longest.as_millis_f64()
        ));
    }
    Ok(out)
}

fn encode(samples: &[Duration], longest: Duration, digits: u8) -> Result<String, HdrError> {
    if digits > 5 {
        return Err(HdrError::Digits(digits));
    }
    if longest.as_nanos() > i64::MAX as u64 {
        return Err(HdrError::TooLong(longest));
    }
    let failed = |error: &dyn std::fmt::Display| HdrError::Encoding(error.to_string());
    let mut histogram = Histogram::<u64>::new_with_bounds(1, longest.as_nanos().max(2), digits)
        .map_err(|error| failed(&error))?;
    for value in samples {
        histogram
            .record(value.as_nanos())
            .map_err(|error| failed(&error))?;
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(&histogram, &mut bytes)
        .map_err(|error| failed(&error))?;
    Ok(STANDARD.encode(bytes))
}

/// Reads an interval log in nanoseconds; the intervals of one tag make one series, in order of
/// their first appearance.
///
/// # Errors
/// [`HdrError`] with the line that cannot be read.
pub fn read_hdr_log(bytes: &[u8]) -> Result<Vec<HdrSeries>, HdrError> {
    let mut series: Vec<Collected> = Vec::new();
    for (index, raw) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = index + 1;
        let text = std::str::from_utf8(raw).map_err(|_| HdrError::NotText { line })?;
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') || text.starts_with('"') {
            continue;
        }
        let (tag, encoded) = interval(text).ok_or(HdrError::NotAnInterval { line })?;
        let position = series
            .iter()
            .position(|series| series.tag.as_deref() == tag);
        let series = match position {
            Some(position) => &mut series[position],
            None => {
                series.push(Collected {
                    tag: tag.map(str::to_owned),
                    samples: Vec::new(),
                    digits: 5,
                });
                let last = series.len() - 1;
                &mut series[last]
            }
        };
        series.add(encoded, line)?;
    }
    if series.is_empty() {
        return Err(HdrError::Empty);
    }
    Ok(series.into_iter().map(Collected::finished).collect())
}

/// The tag and the encoded histogram of an interval's line.
fn interval(text: &str) -> Option<(Option<&str>, &str)> {
    let (tag, rest) = match text.strip_prefix("Tag=") {
        Some(tagged) => {
            let (tag, rest) = tagged.split_once(',')?;
            (Some(tag), rest)
        }
        None => (None, text),
    };
    let cells: Vec<&str> = rest.split(',').collect();
    let [start, length, maximum, encoded] = cells[..] else {
        return None;
    };
    let numbers = [start, length, maximum]
        .iter()
        .all(|cell| cell.trim().parse::<f64>().is_ok());
    numbers.then_some((tag, encoded.trim()))
}

struct Collected {
    tag: Option<String>,
    samples: Vec<Duration>,
    digits: u8,
}

impl Collected {
    fn add(&mut self, encoded: &str, line: usize) -> Result<(), HdrError> {
        let failed = |why: String| HdrError::Histogram { line, why };
        let bytes = STANDARD
            .decode(encoded)
            .map_err(|error| failed(error.to_string()))?;
        let inflated = inflate(&bytes).map_err(|why| failed(why.into()))?;
        let held = counted(&inflated).map_err(|why| failed(why.into()))?;
        if held + self.samples.len() as u64 > MOST_VALUES {
            return Err(HdrError::TooMany { line });
        }
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut inflated.as_slice())
            .map_err(|error| failed(error.to_string()))?;
        self.digits = self.digits.min(histogram.sigfig());
        for bucket in histogram.iter_recorded() {
            let value =
                Duration::from_nanos(histogram.highest_equivalent(bucket.value_iterated_to()));
            let count = bucket.count_since_last_iteration() as usize;
            self.samples.extend(std::iter::repeat_n(value, count));
        }
        Ok(())
    }

    fn finished(self) -> HdrSeries {
        let subject = self.tag.clone().unwrap_or_default();
        let mut provenance = Provenance::new(
            Evidence::Sample,
            subject,
            "read from an HdrHistogram interval log",
        );
        provenance.assumptions.push(format!(
            "the log is in nanoseconds; values are rounded up to the end of their bucket, which \
             keeps {} significant decimal digits",
            self.digits
        ));
        HdrSeries {
            tag: self.tag,
            distribution: Distribution::from_samples(provenance, self.samples),
            significant_digits: self.digits,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

/// The plain histogram within a compressed one; a plain one as it is.
fn inflate(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    match word(bytes, 0) {
        Some(PLAIN_COOKIE) => Ok(bytes.to_vec()),
        Some(COMPRESSED_COOKIE) => {
            let payload = bytes.get(8..).ok_or("it is cut short")?;
            let mut inflated = Vec::new();
            flate2::read::ZlibDecoder::new(payload)
                .take(LONGEST_PAYLOAD + 1)
                .read_to_end(&mut inflated)
                .map_err(|_| "its compressed part is damaged")?;
            if inflated.len() as u64 > LONGEST_PAYLOAD {
                return Err("it is longer than a histogram can be");
            }
            Ok(inflated)
        }
        Some(_) => Err("it is not in the V2 format"),
        None => Err("it is cut short"),
    }
}

/// How many values a plain histogram holds. Checks what the decoder takes for granted: that the
/// stated length is there, and that the counts are counts.
fn counted(plain: &[u8]) -> Result<u64, &'static str> {
    if word(plain, 0) != Some(PLAIN_COOKIE) {
        return Err("it is not in the V2 format");
    }
    let length = word(plain, 4).ok_or("it is cut short")? as usize;
    let payload = plain
        .get(HEADER_LENGTH..HEADER_LENGTH.saturating_add(length))
        .ok_or("it is cut short")?;
    let mut total: u64 = 0;
    let mut rest = payload;
    while !rest.is_empty() {
        let (encoded, used) = variable_length(rest).ok_or("it is cut short")?;
        rest = &rest[used..];
        // Zig-zag: odd numbers are negative and count empty buckets.
        let magnitude = (encoded >> 1) + (encoded & 1);
        if encoded & 1 == 1 {
            if magnitude > u64::from(u32::MAX) {
                return Err("it skips more buckets than there can be");
            }
        } else {
            total = total.saturating_add(magnitude);
        }
    }
    Ok(total)
}

/// A number in LEB128 with at most nine bytes, the ninth used whole, and how many it took.
fn variable_length(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        if index == 8 {
            return Some((value | u64::from(*byte) << 56, 9));
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}
