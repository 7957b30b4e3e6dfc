//! Execution times in one line.

use std::collections::BTreeMap;
use std::str::FromStr;

use tailbound_model::ExecutionTime;
use tailbound_time::Duration;

use super::{NotationError, time};

/// Execution times as text: a time, times with probabilities, or a law with its times.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecutionNotation {
    /// `2ms`, or `1ms:0.5,3ms:0.5`. That the probabilities add up to one is checked where the times are used.
    Values(Vec<(Duration, f64)>),
    /// `exponential:mean=2ms`, `lognormal:median=2ms,p99=9ms` or `uniform:min=1ms,max=3ms`: a law of which a
    /// description may say the same, with the same keys.
    Law(ExecutionTime),
}

impl FromStr for ExecutionNotation {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some((kind @ ("exponential" | "lognormal" | "uniform"), times)) => {
                execution_law(kind, times).map(Self::Law)
            }
            Some((word, _)) if word.trim().starts_with(|c: char| c.is_ascii_alphabetic()) => {
                let what = format!("\"{}\" is no law of execution times", word.trim());
                Err(NotationError::new(what, EXECUTION))
            }
            _ => execution_times(text).map(Self::Values),
        }
    }
}

/// How execution times are written.
const EXECUTION: &str = "write a time such as 2ms, times with probabilities such as 1ms:0.5,3ms:0.5, or a law: \
                         exponential:mean=2ms, lognormal:median=2ms,p99=9ms or uniform:min=1ms,max=3ms";

/// A law by its times, such as `mean=2ms,max=40ms`.
fn execution_law(kind: &str, text: &str) -> Result<ExecutionTime, NotationError> {
    let mut times = BTreeMap::new();
    for part in text.split(',') {
        let (key, value) = part.split_once('=').ok_or_else(|| {
            NotationError::new(format!("\"{}\" has no =", part.trim()), EXECUTION)
        })?;
        if times.insert(key.trim(), time(value, EXECUTION)?).is_some() {
            let what = format!("the {kind} law has \"{}\" twice", key.trim());
            return Err(NotationError::new(what, EXECUTION));
        }
    }
    let missing = |key: &str| NotationError::new(format!("the {kind} law has no {key}"), EXECUTION);
    let min = times.remove("min");
    let max = times.remove("max");
    let least = min.unwrap_or(Duration::ZERO);
    let mut taken = |key: &str| times.remove(key).ok_or_else(|| missing(key));
    let law = match kind {
        "exponential" => ExecutionTime::Exponential {
            min: least,
            mean: taken("mean")?,
            max,
        },
        "lognormal" => ExecutionTime::Lognormal {
            min: least,
            median: taken("median")?,
            p99: taken("p99")?,
            max,
        },
        _ => ExecutionTime::Uniform {
            min: least,
            max: max.ok_or_else(|| missing("max"))?,
        },
    };
    if let Some(key) = times.keys().next() {
        let what = format!("the {kind} law has no \"{key}\"");
        return Err(NotationError::new(what, EXECUTION));
    }
    match law.reversals().first() {
        None => Ok(law),
        Some(reversal) => Err(NotationError::new(
            format!("the {kind} law is none: {}", reversal.message()),
            EXECUTION,
        )),
    }
}

/// Execution times with their probabilities: `2ms`, or `1ms:0.5,3ms:0.5`.
fn execution_times(text: &str) -> Result<Vec<(Duration, f64)>, NotationError> {
    if !text.contains([':', ',']) {
        return Ok(vec![(time(text, EXECUTION)?, 1.0)]);
    }
    let one = |part: &str| {
        let (value, probability) = part.split_once(':').ok_or_else(|| {
            NotationError::new(format!("\"{}\" has no probability", part.trim()), EXECUTION)
        })?;
        let share = probability.trim().parse::<f64>().ok();
        let share = share.filter(|share| *share > 0.0 && *share <= 1.0);
        let share = share.ok_or_else(|| {
            let what = format!("\"{}\" is no probability", probability.trim());
            NotationError::new(what, EXECUTION)
        })?;
        Ok((time(value, EXECUTION)?, share))
    };
    text.split(',').map(one).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn law(text: &str) -> ExecutionTime {
        match text.parse().unwrap() {
            ExecutionNotation::Law(law) => law,
            ExecutionNotation::Values(values) => panic!("{values:?}"),
        }
    }

    #[test]
    fn execution_times_have_probabilities_where_there_are_several() {
        let values = |text: &str| text.parse::<ExecutionNotation>();
        let one = ExecutionNotation::Values(vec![(ms(2), 1.0)]);
        assert_eq!(values("2ms"), Ok(one));
        let two = ExecutionNotation::Values(vec![(ms(1), 0.5), (ms(3), 0.5)]);
        assert_eq!(values("1ms:0.5, 3ms:0.5"), Ok(two));
    }

    #[test]
    fn laws_have_the_keys_of_a_description() {
        let exponential = ExecutionTime::Exponential {
            min: Duration::ZERO,
            mean: ms(2),
            max: None,
        };
        assert_eq!(law("exponential:mean=2ms"), exponential);
        let lognormal = ExecutionTime::Lognormal {
            min: ms(1),
            median: ms(2),
            p99: ms(9),
            max: Some(ms(30)),
        };
        let text = "lognormal:min=1ms, median=2ms, p99=9ms, max=30ms";
        assert_eq!(law(text), lognormal);
        let uniform = ExecutionTime::Uniform {
            min: ms(1),
            max: ms(3),
        };
        assert_eq!(law("uniform:min=1ms,max=3ms"), uniform);
    }

    #[test]
    fn other_texts_are_refused_by_their_part() {
        for (text, part) in [
            ("1ms,3ms", "\"1ms\" has no probability"),
            ("1ms:half", "\"half\" is no probability"),
            ("1ms:1.5", "\"1.5\" is no probability"),
            ("1ms:NaN", "\"NaN\" is no probability"),
            ("1:1", "\"1\" is no time"),
            ("pareto:mean=2ms", "\"pareto\" is no law"),
            ("exponential:2ms", "\"2ms\" has no ="),
            ("exponential:median=2ms", "the exponential law has no mean"),
            (
                "exponential:mean=2ms,p99=9ms",
                "the exponential law has no \"p99\"",
            ),
            ("exponential:mean=2ms,mean=3ms", "has \"mean\" twice"),
            (
                "exponential:mean=2ms,max=1ms",
                "max 1ms is not longer than mean 2ms",
            ),
            (
                "lognormal:median=2ms,p99=2ms",
                "p99 2ms is not longer than median 2ms",
            ),
            (
                "lognormal:median=2ms,p99=9ms,max=1ms",
                "max 1ms is not longer than median 2ms",
            ),
            ("uniform:min=3ms,max=1ms", "max 1ms is shorter than min 3ms"),
            ("lognormal:median=2ms,p99=9", "\"9\" is no time"),
            ("uniform:min=1ms", "the uniform law has no max"),
        ] {
            let error = text.parse::<ExecutionNotation>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
