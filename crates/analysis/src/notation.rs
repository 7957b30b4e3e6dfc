//! How tasks, servers, promises, periods, shares of a CPU and execution times are written in one line: on
//! the command line and in Python, read here for both.

mod execution;

use std::fmt;
use std::str::FromStr;

use tailbound_model::{Percentile, ServerKind};
use tailbound_time::Duration;

use crate::{AnalysisError, Promise, SporadicTask};
pub use execution::ExecutionNotation;

/// A text that is not what it should be: what is wrong with it, and how it is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {right}")]
pub struct NotationError {
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub right: &'static str,
}

impl NotationError {
    pub(crate) fn new(what: impl Into<String>, right: &'static str) -> Self {
        let what = what.into();
        Self { what, right }
    }
}

pub(crate) fn time(text: &str, right: &'static str) -> Result<Duration, NotationError> {
    text.parse().map_err(|error| {
        let text = text.trim();
        NotationError::new(format!("\"{text}\" is no time: {error}"), right)
    })
}

/// A task as text: `10ms/100ms` is an execution time every period, `10ms/100ms/80ms` has a deadline
/// as well, and `10ms/100ms+30ms` a first release; `,jitter=2ms` and `,blocking=1ms` follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskNotation {
    /// The worst-case execution time.
    pub execution: Duration,
    /// The period, above zero.
    pub period: Duration,
    /// The deadline, if it is not the period.
    pub deadline: Option<Duration>,
    /// The first release, if one is given.
    pub offset: Option<Duration>,
    /// The longest time from a job's arrival to its readiness, if one is given.
    pub jitter: Option<Duration>,
    /// The longest time that lower priorities keep a job waiting, if one is given.
    pub blocking: Option<Duration>,
}

/// How a task is written.
const TASK: &str = "a task is execution/period, such as 10ms/100ms, 10ms/100ms/80ms with a \
                    deadline, 10ms/100ms+30ms with an offset, or 10ms/100ms,jitter=2ms,blocking=1ms";

impl FromStr for TaskNotation {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(',');
        let mut task = Self::of_times(parts.next().unwrap_or_default())?;
        for part in parts {
            let what = |text: String| NotationError::new(text, TASK);
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| what(format!("\"{}\" has no =", part.trim())))?;
            let field = match key.trim() {
                "jitter" => &mut task.jitter,
                "blocking" => &mut task.blocking,
                other => {
                    let text = format!("a task has no \"{other}\", but jitter and blocking");
                    return Err(what(text));
                }
            };
            if field.is_some() {
                return Err(what(format!("{} is given twice", key.trim())));
            }
            *field = Some(time(value, TASK)?);
        }
        Ok(task)
    }
}

impl TaskNotation {
    /// What stands before the first comma.
    fn of_times(text: &str) -> Result<Self, NotationError> {
        let (times, offset) = match text.split_once('+') {
            Some((times, offset)) => (times, Some(time(offset, TASK)?)),
            None => (text, None),
        };
        let parts: Vec<&str> = times.split('/').collect();
        let (execution, period, deadline) = match parts[..] {
            [execution, period] => (execution, period, None),
            [execution, period, deadline] => (execution, period, Some(time(deadline, TASK)?)),
            _ => {
                let what = format!("\"{times}\" is not two or three times with a / between them");
                return Err(NotationError::new(what, TASK));
            }
        };
        let task = Self {
            execution: time(execution, TASK)?,
            period: time(period, TASK)?,
            deadline,
            offset,
            jitter: None,
            blocking: None,
        };
        if task.period.is_zero() {
            return Err(NotationError::new("a period lies above zero", TASK));
        }
        Ok(task)
    }

    /// The task as analyses take it; its deadline is its period if none is given.
    ///
    /// # Errors
    /// As of [`SporadicTask::new`].
    pub fn sporadic(&self) -> Result<SporadicTask, AnalysisError> {
        let deadline = self.deadline.unwrap_or(self.period);
        let task = SporadicTask::new(self.execution, self.period, deadline)?;
        task.with_jitter(self.jitter.unwrap_or_default())
    }
}

impl fmt::Display for TaskNotation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.execution, self.period)?;
        if let Some(deadline) = self.deadline {
            write!(formatter, "/{deadline}")?;
        }
        if let Some(offset) = self.offset {
            write!(formatter, "+{offset}")?;
        }
        for (key, value) in [("jitter", self.jitter), ("blocking", self.blocking)] {
            if let Some(value) = value {
                write!(formatter, ",{key}={value}")?;
            }
        }
        Ok(())
    }
}

/// A reservation server as text: `deferrable:2ms/6ms` is a rule, a budget and a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerNotation {
    /// The rule of the server.
    pub kind: ServerKind,
    /// The budget.
    pub budget: Duration,
    /// The period.
    pub period: Duration,
}

impl FromStr for ServerNotation {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let right = "a server is a rule, a budget and a period, such as deferrable:2ms/6ms; rules \
                     are deferrable, periodic, polling, sporadic and constant-bandwidth";
        let what = |text: String| NotationError::new(text, right);
        let parts = text
            .split_once(':')
            .and_then(|(rule, times)| Some((rule, times.split_once('/')?)));
        let (rule, (budget, period)) =
            parts.ok_or_else(|| what(format!("\"{text}\" has no : or no /")))?;
        let kinds = [
            ServerKind::Deferrable,
            ServerKind::Periodic,
            ServerKind::Polling,
            ServerKind::Sporadic,
            ServerKind::ConstantBandwidth,
        ];
        let kind = kinds
            .into_iter()
            .find(|kind| kind.answers().name == rule.trim())
            .ok_or_else(|| what(format!("there is no rule \"{}\"", rule.trim())))?;
        Ok(Self {
            kind,
            budget: time(budget, right)?,
            period: time(period, right)?,
        })
    }
}

/// One period, `10ms`, or a range of them, `1ms..100ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodRange {
    /// The shortest, above zero.
    pub low: Duration,
    /// The longest, not below.
    pub high: Duration,
}

impl FromStr for PeriodRange {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let right = "a period is a time such as 10ms, or a range such as 1ms..100ms";
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let (low, high) = (time(low, right)?, time(high, right)?);
        if low.is_zero() {
            return Err(NotationError::new("a period lies above zero", right));
        }
        if low > high {
            let what = format!("the range from {low} to {high} falls");
            return Err(NotationError::new(what, right));
        }
        Ok(Self { low, high })
    }
}

/// One share of a CPU, `40%`, or a range of shares, `30%..90%`, in parts of [`PARTS_OF_A_CPU`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandwidthRange {
    /// The least, above zero.
    pub low: u64,
    /// The largest, not below, and at most a whole CPU.
    pub high: u64,
}

/// The parts of a CPU that shares are counted in: billionths of one percent.
pub const PARTS_OF_A_CPU: u64 = 100_000_000_000;

impl FromStr for BandwidthRange {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let (low, high) = (share(low)?, share(high)?);
        if low > high {
            let what = format!("the range {text} falls");
            return Err(NotationError::new(what, SHARE));
        }
        Ok(Self { low, high })
    }
}

impl BandwidthRange {
    /// Shares from the least to the largest as numerators and denominators: so many, but for a range of
    /// one. They are evenly spread and rounded up, so that no answer is of less than it says.
    #[must_use]
    pub fn spread(self, points: u32) -> Vec<(u64, u64)> {
        let last = u64::from(points.saturating_sub(1));
        if self.low == self.high || last == 0 {
            return vec![(self.low, PARTS_OF_A_CPU)];
        }
        let width = u128::from(self.high - self.low);
        let at = |index: u64| {
            let above = (width * u128::from(index)).div_ceil(u128::from(last));
            let above = u64::try_from(above).unwrap_or(self.high - self.low);
            (self.low + above, PARTS_OF_A_CPU)
        };
        (0..=last).map(at).collect()
    }
}

/// How a share of a CPU is written.
const SHARE: &str =
    "write a percentage above 0% and up to 100%, such as 37.5%, or a range such as 30%..90%";

/// A percentage with up to nine decimals.
fn share(text: &str) -> Result<u64, NotationError> {
    let wrong = || NotationError::new(format!("\"{text}\" is no share of a CPU"), SHARE);
    let digits = text.trim().strip_suffix('%').ok_or_else(wrong)?.trim_end();
    let parts = decimal(digits, 9).ok_or_else(wrong)?;
    (1..=PARTS_OF_A_CPU)
        .contains(&parts)
        .then_some(parts)
        .ok_or_else(wrong)
}

/// A decimal number with up to nine digits before the point and `decimals` after it, as a count of its last place.
pub(crate) fn decimal(text: &str, decimals: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let all_digits =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(part) || whole.len() > 9 || part.len() > decimals {
        return None;
    }
    format!("{whole}{part:0<decimals$}").parse().ok()
}

/// A percentile as text: `99.9`.
///
/// # Errors
/// What is no number above 0 and below 100.
pub fn percentile(text: &str) -> Result<Percentile, NotationError> {
    let right = "a percentile is a number above 0 and below 100, such as 99.9";
    match text.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number < 100.0 => Ok(Percentile(number)),
        Ok(number) => Err(NotationError::new(
            format!("{number} is out of range"),
            right,
        )),
        Err(_) => Err(NotationError::new(
            format!("\"{text}\" is no number"),
            right,
        )),
    }
}

impl FromStr for Promise {
    type Err = NotationError;

    /// `p99=30ms`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let right = "a promise is a percentile and a latency, such as p99=30ms";
        let (percent, latency) = text
            .trim()
            .strip_prefix('p')
            .and_then(|rest| rest.split_once('='))
            .ok_or_else(|| {
                NotationError::new(format!("\"{text}\" has no p at its start, or no ="), right)
            })?;
        Ok(Self {
            probability: percentile(percent)?.probability(),
            latency: time(latency, right)?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn refused<T: FromStr<Err = NotationError> + fmt::Debug>(text: &str) -> String {
        text.parse::<T>().unwrap_err().to_string()
    }

    #[test]
    fn a_task_is_two_or_three_times_and_an_offset() {
        let task = |deadline, offset| TaskNotation {
            execution: ms(10),
            period: ms(100),
            deadline,
            offset,
            jitter: None,
            blocking: None,
        };
        let late = TaskNotation {
            jitter: Some(ms(2)),
            blocking: Some(ms(1)),
            ..task(Some(ms(90)), None)
        };
        for (text, expected) in [
            ("10ms/100ms/90ms, blocking=1ms ,jitter=2ms", late.clone()),
            ("10ms/100ms", task(None, None)),
            (" 10ms / 0.1s ", task(None, None)),
            ("10ms/100ms/90ms", task(Some(ms(90)), None)),
            ("10ms/100ms+30ms", task(None, Some(ms(30)))),
            ("10ms/100ms/90ms + 0s", task(Some(ms(90)), Some(ms(0)))),
        ] {
            assert_eq!(text.parse::<TaskNotation>().unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_task_says_which_part_is_wrong() {
        for (text, part) in [
            ("", "\"\" is not two or three times"),
            ("10ms", "\"10ms\" is not two or three times"),
            ("1ms/2ms/3ms/4ms", "is not two or three times"),
            ("10/100ms", "\"10\" is no time: \"10\" has no unit"),
            ("10ms/", "\"\" is no time"),
            ("10ms/100ms+", "\"\" is no time"),
            ("10ms/100ms+1ms+2ms", "\"1ms+2ms\" is no time"),
            ("10ms/0ms", "a period lies above zero"),
            ("10ms/100ms,jitter", "\"jitter\" has no ="),
            ("10ms/100ms,lag=1ms", "a task has no \"lag\""),
            ("10ms/100ms,jitter=1", "\"1\" is no time"),
            ("10ms/100ms,jitter=1ms,jitter=2ms", "jitter is given twice"),
        ] {
            let error = refused::<TaskNotation>(text);
            assert!(error.contains(part), "{text}: {error}");
            assert!(error.contains("a task is execution/period"), "{error}");
        }
    }

    #[test]
    fn a_server_is_a_rule_a_budget_and_a_period() {
        let server: ServerNotation = "deferrable:2ms/6ms".parse().unwrap();
        assert_eq!(server.kind, ServerKind::Deferrable);
        assert_eq!((server.budget, server.period), (ms(2), ms(6)));
        for (text, part) in [
            ("2ms/6ms", "has no : or no /"),
            ("deferrable:2ms", "has no : or no /"),
            ("lazy:2ms/6ms", "there is no rule \"lazy\""),
            ("burstable:2ms/6ms", "there is no rule \"burstable\""),
            ("polling:2/6ms", "\"2\" is no time"),
        ] {
            let error = refused::<ServerNotation>(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn periods_rise_from_above_zero() {
        let range = |low, high| PeriodRange { low, high };
        assert_eq!("10ms".parse(), Ok(range(ms(10), ms(10))));
        assert_eq!("1ms..0.1s".parse(), Ok(range(ms(1), ms(100))));
        assert!(refused::<PeriodRange>("0s").contains("above zero"));
        assert!(refused::<PeriodRange>("2ms..1ms").contains("from 2ms to 1ms falls"));
        assert!(refused::<PeriodRange>("1ms..").contains("\"\" is no time"));
    }

    #[test]
    fn shares_of_a_cpu_are_percentages() {
        let range: BandwidthRange = "37.5%".parse().unwrap();
        assert_eq!(range.spread(7), [(37_500_000_000, PARTS_OF_A_CPU)]);
        let range: BandwidthRange = "30% .. 40%".parse().unwrap();
        let shares: Vec<u64> = range.spread(4).into_iter().map(|(part, _)| part).collect();
        let expected = [
            30_000_000_000,
            33_333_333_334,
            36_666_666_667,
            40_000_000_000,
        ];
        assert_eq!(shares, expected);
        for (text, part) in [
            ("40", "\"40\" is no share"),
            ("0%", "\"0%\" is no share"),
            ("101%", "\"101%\" is no share"),
            ("1.0123456789%", "is no share"),
            ("9%..1%", "the range 9%..1% falls"),
        ] {
            let error = refused::<BandwidthRange>(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_promise_is_a_percentile_and_a_latency() {
        let promise: Promise = "p99.9=30ms".parse().unwrap();
        assert_eq!(promise.latency, ms(30));
        assert!((promise.probability - 0.999).abs() < 1e-12);
        for (text, part) in [
            ("99=30ms", "no p at its start"),
            ("p99", "no ="),
            ("p100=30ms", "100 is out of range"),
            ("pNaN=30ms", "out of range"),
            ("px=30ms", "\"x\" is no number"),
            ("p99=30", "\"30\" is no time"),
        ] {
            let error = refused::<Promise>(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_task_reads_as_it_is_written(
            execution_ns in 0_u64..u64::MAX,
            period_ns in 1_u64..u64::MAX,
            deadline_ns in proptest::option::of(0_u64..u64::MAX),
            offset_ns in proptest::option::of(0_u64..u64::MAX),
            jitter_ns in proptest::option::of(0_u64..u64::MAX),
            blocking_ns in proptest::option::of(0_u64..u64::MAX),
        ) {
            let task = TaskNotation {
                execution: Duration::from_nanos(execution_ns),
                period: Duration::from_nanos(period_ns),
                deadline: deadline_ns.map(Duration::from_nanos),
                offset: offset_ns.map(Duration::from_nanos),
                jitter: jitter_ns.map(Duration::from_nanos),
                blocking: blocking_ns.map(Duration::from_nanos),
            };
            prop_assert_eq!(task.to_string().parse::<TaskNotation>(), Ok(task));
        }

        #[test]
        fn no_text_is_a_reason_to_panic(text in "\\PC{0,24}|[0-9.pmsu:,/+=%]{0,24}") {
            let _ = text.parse::<TaskNotation>();
            let _ = text.parse::<PeriodRange>();
            let _ = text.parse::<BandwidthRange>();
            let _ = text.parse::<ServerNotation>();
            let _ = text.parse::<Promise>();
            let _ = text.parse::<ExecutionNotation>();
        }
    }
}
