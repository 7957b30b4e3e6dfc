//! Recipes as they are typed: `log-uniform:1ms..1s`, `constrained`, `bimodal:medium`.

use std::str::FromStr;

use tailbound_time::Duration;

use super::{Bimodal, Deadlines, GenerateError, Offsets, Periods, Utilisations};

/// Why a law cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LawNotationError {
    /// It is none of the laws.
    #[error("{text:?} says no {what}; write {right}")]
    Law {
        /// What was written.
        text: String,
        /// What it was to say.
        what: &'static str,
        /// What would be right.
        right: &'static str,
    },
    /// A time in it cannot be read.
    #[error("{0}")]
    Time(String),
}

/// What the periods are written as.
const PERIODS: &str = "log-uniform:1ms..1s, log-uniform:1ms..1s,1ms (multiples of 1ms), \
                       harmonic:10ms..1280ms, harmonic:1ms..1s,10 (each ten times the one before) \
                       or divisors-of:1s,1ms..100ms";

impl FromStr for Periods {
    type Err = LawNotationError;

    /// Reads `log-uniform:FROM..TO[,GRANULARITY]` (1 ns if left out), `harmonic:FROM..TO[,FACTOR]`
    /// (2 if left out) or `divisors-of:HYPERPERIOD,FROM..TO`.
    fn from_str(text: &str) -> Result<Self, LawNotationError> {
        let other = || law(text, "periods", PERIODS);
        let (name, rest) = text.split_once(':').ok_or_else(other)?;
        match name {
            "log-uniform" => {
                let (ends, granularity) = with_option(rest);
                let (shortest, longest) = range(ends)?;
                Ok(Self::LogUniform {
                    shortest,
                    longest,
                    granularity: granularity.map_or(Ok(Duration::from_nanos(1)), duration)?,
                })
            }
            "harmonic" => {
                let (ends, factor) = with_option(rest);
                let (shortest, longest) = range(ends)?;
                let whole = |factor: &str| {
                    let right = "a factor that is a whole number, such as 2";
                    factor.parse().map_err(|_| law(factor, "factor", right))
                };
                let factor = factor.map_or(Ok(2), whole);
                Ok(Self::Harmonic {
                    shortest,
                    longest,
                    factor: factor?,
                })
            }
            "divisors-of" => {
                let (hyperperiod, ends) = rest.split_once(',').ok_or_else(other)?;
                let (shortest, longest) = range(ends)?;
                Ok(Self::DivisorsOf {
                    hyperperiod: duration(hyperperiod)?,
                    shortest,
                    longest,
                })
            }
            _ => Err(other()),
        }
    }
}

impl FromStr for Deadlines {
    type Err = LawNotationError;

    /// Reads `implicit`, `constrained` or `arbitrary:PERIODS`.
    fn from_str(text: &str) -> Result<Self, LawNotationError> {
        let right = "implicit, constrained or arbitrary:4 (up to 4 periods)";
        let other = || law(text, "deadlines", right);
        match text.split_once(':') {
            None if text == "implicit" => Ok(Self::Implicit),
            None if text == "constrained" => Ok(Self::Constrained),
            Some(("arbitrary", periods)) => {
                let most_periods = periods.parse().map_err(|_| other())?;
                Ok(Self::Arbitrary { most_periods })
            }
            _ => Err(other()),
        }
    }
}

impl FromStr for Offsets {
    type Err = LawNotationError;

    /// Reads `zero` or `uniform`.
    fn from_str(text: &str) -> Result<Self, LawNotationError> {
        match text {
            "zero" => Ok(Self::Zero),
            "uniform" => Ok(Self::Uniform),
            _ => Err(law(text, "offsets", "zero or uniform")),
        }
    }
}

/// The law of utilisations as it is typed; how many tasks there are is told apart from it.
#[derive(Clone, Debug, PartialEq)]
pub enum UtilisationLaw {
    /// UUniFast-discard, up to a greatest utilisation of one task.
    UUniFast {
        /// The bound.
        most: f64,
    },
    /// RandFixedSum within bounds.
    RandFixedSum {
        /// The lower bound.
        least: f64,
        /// The upper bound.
        most: f64,
    },
    /// Each task within a range of its own.
    WithinEach {
        /// The ranges, as many as there are tasks.
        ranges: Vec<(f64, f64)>,
    },
    /// A bimodal law, which decides how many tasks there are.
    Bimodal(Bimodal),
}

impl UtilisationLaw {
    /// The law for sets of so many tasks.
    ///
    /// # Errors
    /// The number is not told, or told under a law by which it is an outcome, or not that of the
    /// ranges.
    pub fn of_tasks(self, tasks: Option<u32>) -> Result<Utilisations, GenerateError> {
        match (self, tasks) {
            (Self::UUniFast { most }, Some(tasks)) => {
                Ok(Utilisations::UUniFastDiscard { tasks, most })
            }
            (Self::RandFixedSum { least, most }, Some(tasks)) => {
                Ok(Utilisations::RandFixedSum { tasks, least, most })
            }
            (Self::WithinEach { ranges }, Some(tasks)) if ranges.len() != tasks as usize => {
                let ranges = ranges.len();
                Err(GenerateError::TasksWithoutRanges { tasks, ranges })
            }
            (Self::WithinEach { ranges }, _) => Ok(Utilisations::WithinEach { ranges }),
            (Self::Bimodal(law), None) => Ok(Utilisations::Bimodal(law)),
            (Self::Bimodal(_), Some(_)) => Err(GenerateError::TasksAreAnOutcome),
            (_, None) => Err(GenerateError::TasksUntold),
        }
    }
}

impl FromStr for UtilisationLaw {
    type Err = LawNotationError;

    /// Reads `uunifast[:MOST]`, `rand-fixed-sum[:LEAST..MOST]`, `within:RANGE,RANGE,...` with a
    /// `[LEAST..]MOST` for each task, or `bimodal:light|medium|heavy`.
    fn from_str(text: &str) -> Result<Self, LawNotationError> {
        let right = "uunifast, uunifast:0.5 (no task above), rand-fixed-sum:0.05..0.5, \
                     within:0.5,0.1..0.4,0.2 (a range or a bound for each task), bimodal:light, bimodal:medium or bimodal:heavy";
        let other = || law(text, "utilisations", right);
        let number = |text: &str| text.parse::<f64>().map_err(|_| other());
        match text.split_once(':') {
            None if text == "uunifast" => Ok(Self::UUniFast { most: 1.0 }),
            None if text == "rand-fixed-sum" => Ok(Self::RandFixedSum {
                least: 0.0,
                most: 1.0,
            }),
            Some(("uunifast", most)) => Ok(Self::UUniFast {
                most: number(most)?,
            }),
            Some(("rand-fixed-sum", ends)) => {
                let (least, most) = ends.split_once("..").ok_or_else(other)?;
                Ok(Self::RandFixedSum {
                    least: number(least)?,
                    most: number(most)?,
                })
            }
            Some(("within", ranges)) => {
                let range = |text: &str| match text.split_once("..") {
                    Some((least, most)) => Ok((number(least)?, number(most)?)),
                    None => Ok((0.0, number(text)?)),
                };
                let ranges: Result<_, LawNotationError> = ranges.split(',').map(range).collect();
                Ok(Self::WithinEach { ranges: ranges? })
            }
            Some(("bimodal", "light")) => Ok(Self::Bimodal(Bimodal::LIGHT)),
            Some(("bimodal", "medium")) => Ok(Self::Bimodal(Bimodal::MEDIUM)),
            Some(("bimodal", "heavy")) => Ok(Self::Bimodal(Bimodal::HEAVY)),
            _ => Err(other()),
        }
    }
}

/// What stands before the last comma, and what behind it, if there is one.
fn with_option(text: &str) -> (&str, Option<&str>) {
    match text.split_once(',') {
        Some((before, option)) => (before, Some(option)),
        None => (text, None),
    }
}

fn range(text: &str) -> Result<(Duration, Duration), LawNotationError> {
    let (low, high) = text
        .split_once("..")
        .ok_or_else(|| law(text, "range of times", "1ms..1s"))?;
    Ok((duration(low)?, duration(high)?))
}

fn duration(text: &str) -> Result<Duration, LawNotationError> {
    let read = text.parse::<Duration>();
    read.map_err(|error| LawNotationError::Time(error.to_string()))
}

fn law(text: &str, what: &'static str, right: &'static str) -> LawNotationError {
    let text = text.to_owned();
    LawNotationError::Law { text, what, right }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn laws_are_read_as_they_are_written() {
        let ms = Duration::from_millis;
        assert_eq!(
            "log-uniform:1ms..1s,1ms".parse(),
            Ok(Periods::LogUniform {
                shortest: ms(1),
                longest: ms(1_000),
                granularity: ms(1)
            })
        );
        assert_eq!(
            "harmonic:10ms..1280ms".parse(),
            Ok(Periods::Harmonic {
                shortest: ms(10),
                longest: ms(1_280),
                factor: 2
            })
        );
        assert_eq!(
            "divisors-of:1s,1ms..100ms".parse(),
            Ok(Periods::DivisorsOf {
                hyperperiod: ms(1_000),
                shortest: ms(1),
                longest: ms(100)
            })
        );
        assert_eq!(
            "arbitrary:4".parse(),
            Ok(Deadlines::Arbitrary { most_periods: 4 })
        );
        assert_eq!("uniform".parse(), Ok(Offsets::Uniform));
        assert_eq!(
            "rand-fixed-sum:0.1..0.5".parse(),
            Ok(UtilisationLaw::RandFixedSum {
                least: 0.1,
                most: 0.5
            })
        );
        let ranges = vec![(0.0, 0.5), (0.1, 0.4)];
        assert_eq!(
            "within:0.5,0.1..0.4".parse(),
            Ok(UtilisationLaw::WithinEach { ranges })
        );
    }

    #[test]
    fn what_cannot_be_read_is_answered_with_what_could() {
        for text in [
            "",
            "log-uniform",
            "harmonic:10ms",
            "harmonic:10..20",
            "divisors-of:1s",
        ] {
            assert!(
                text.parse::<Periods>()
                    .unwrap_err()
                    .to_string()
                    .contains("write"),
                "{text}"
            );
        }
        assert!(
            "bimodal"
                .parse::<UtilisationLaw>()
                .unwrap_err()
                .to_string()
                .contains("bimodal:medium")
        );
        assert!(
            "arbitrary"
                .parse::<Deadlines>()
                .unwrap_err()
                .to_string()
                .contains("arbitrary:4")
        );
        assert!(
            "some"
                .parse::<Offsets>()
                .unwrap_err()
                .to_string()
                .contains("uniform")
        );
    }
}
