//! Numbers as people read them. Machine output never goes through here.

use tailbound_distribution::Interval;
use tailbound_time::Duration;

/// What stands for a value that nobody knows.
pub const UNKNOWN: &str = "\u{2014}";

/// A duration to three significant digits with its unit: `1.20 ms`, `985 µs`, `0`.
pub fn readable(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos() as f64;
    if duration.is_zero() {
        return "0".into();
    }
    // Half a unit of the last digit below a limit rounds up to the next unit.
    let (value, unit) = if nanoseconds < 999.5 {
        return format!("{nanoseconds} ns");
    } else if nanoseconds < 999.5e3 {
        (nanoseconds / 1e3, "\u{b5}s")
    } else if nanoseconds < 999.5e6 {
        (nanoseconds / 1e6, "ms")
    } else {
        (nanoseconds / 1e9, "s")
    };
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// A duration with all its digits: `6 ms`, `1.25 s`, `0`. For tidy values, such as budgets and the
/// marks of an axis.
pub(crate) fn exactly(duration: Duration) -> String {
    if duration.is_zero() {
        return "0".into();
    }
    let text = duration.to_string();
    let unit = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    format!("{number} {}", unit.replace("us", "\u{b5}s"))
}

/// An interval: one value where both ends are the same, `low – high` else, `≥ low` without an
/// upper end.
pub fn readable_interval(interval: Interval) -> String {
    let low = readable(interval.low);
    match interval.high {
        None => format!("\u{2265} {low}"),
        Some(high) => {
            let high = readable(high);
            if low == high {
                return low;
            }
            // 1.20 ms – 1.35 ms reads better as 1.20–1.35 ms.
            match (low.rsplit_once(' '), high.rsplit_once(' ')) {
                (Some((value, unit)), Some((_, same))) if unit == same => {
                    format!("{value}\u{2013}{high}")
                }
                _ => format!("{low} \u{2013} {high}"),
            }
        }
    }
}

/// The same, or a dash for nothing.
pub(crate) fn readable_option(interval: Option<Interval>) -> String {
    interval.map_or_else(|| UNKNOWN.into(), readable_interval)
}

/// A signed difference: `+1.20 ms`, `−30.0 µs`, `0`.
pub(crate) fn readable_difference(difference_ns: i64) -> String {
    let size = readable(Duration::from_nanos(difference_ns.unsigned_abs()));
    match difference_ns.signum() {
        1 => format!("+{size}"),
        -1 => format!("\u{2212}{size}"),
        _ => size,
    }
}

/// How many times one is the other, with a digit after the point where it matters.
pub(crate) fn readable_ratio(ratio: f64) -> String {
    let decimals = usize::from(ratio < 99.95);
    format!("{ratio:.decimals$} \u{d7}")
}

/// A share in percent, to one decimal.
pub(crate) fn readable_share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return UNKNOWN.into();
    }
    format!("{:.1} %", part as f64 / whole as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: fn(u64) -> Duration = Duration::from_nanos;

    #[test]
    fn three_digits_and_a_unit() {
        let cases = [
            (0, "0"),
            (7, "7 ns"),
            (999, "999 ns"),
            (1_200, "1.20 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (9_994_000, "9.99 ms"),
            (9_996_000, "10.0 ms"),
            (99_960_000, "100 ms"),
            (12_345_678_901, "12.3 s"),
            (7_200_000_000_000, "7200 s"),
        ];
        for (nanoseconds, text) in cases {
            assert_eq!(readable(NS(nanoseconds)), text);
        }
    }

    #[test]
    fn intervals_share_their_unit() {
        let interval = |low, high: Option<u64>| {
            readable_interval(Interval {
                low: NS(low),
                high: high.map(NS),
            })
        };
        assert_eq!(interval(1_200_000, Some(1_350_000)), "1.20–1.35 ms");
        assert_eq!(interval(900_000, Some(1_350_000)), "900 µs – 1.35 ms");
        assert_eq!(interval(1_200_000, Some(1_200_001)), "1.20 ms");
        assert_eq!(interval(1_200_000, None), "≥ 1.20 ms");
        assert_eq!(readable_difference(-30_000), "−30.0 µs");
        assert_eq!(readable_difference(30), "+30 ns");
        assert_eq!(exactly(NS(1_250_000)), "1.25 ms");
        assert_eq!(exactly(NS(250_000)), "250 \u{b5}s");
    }
}
