//! The rule by which capacities follow matching values.

use tailbound_time::Duration;

use crate::division::{Portion, divide};
use crate::matching_value::MatchingValue;

/// One, in millionths.
const ONE: i128 = MatchingValue::ONE as i128;

/// The matching value up to which an application lends nothing: its longest latency is then 0.7 of its deadline. Without this
/// reserve, a lender is in need again at its next burst of requests.
pub const RESERVE: MatchingValue = MatchingValue::from_millionths(300_000);
/// The part of its spare capacity that an application lends in a step is one by this number.
const LENT_PARTS: u64 = 4;

/// The CPU time per period that an application may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityTerms {
    /// The least capacity.
    pub least: Duration,
    /// The capacity that the application's promise needs, by prediction.
    pub promised: Option<Duration>,
    /// The most.
    pub most: Duration,
    /// The weight, at least 1: an overload leaves capacities in proportion to weights.
    pub weight: u32,
}

/// Why there is no such rule.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum RuleError {
    /// A step could take more than an application has.
    #[error(
        "a gain of {gain} lets {applications} applications overshoot: at most {limit} is stable"
    )]
    Gain {
        /// The gain.
        gain: f64,
        /// The number of applications.
        applications: usize,
        /// One by that number.
        limit: f64,
    },
    /// The least capacities are more than there is.
    #[error(
        "the least capacities of the applications are {least} together, more than the {whole} that there are"
    )]
    Least {
        /// Their sum.
        least: Duration,
        /// The capacity that is divided.
        whole: Duration,
    },
    /// A least capacity lies above the most, or a weight is zero.
    #[error("an application's least capacity is above its most, or its weight is zero")]
    Terms,
}

/// `CapacityRule` divides a whole among applications by their matching values. Its decisions depend on these values, and on
/// nothing else.
///
/// With capacities c of a whole, weights w of mean 1, and matching values f, a step is
/// c' = c - gain (w f - c sum(w f)), which keeps the sum. The published rule has these corrections:
///
/// - Positive values count together at most as much as the negative ones: surplus goes to those that ask for it, and where
///   nobody asks, all capacities stay. Without this, equal positive values drive capacities apart.
/// - Each application has a guarantee: its fair share, the whole by weights, as far as bounds let it. What it has less is
///   lent. An application in need, that is with a negative value, loses nothing of its guarantee, and gets the part of its loan
///   back at once that its value says: all of it at -1. Those above their guarantees pay for that, and nobody else.
/// - An application above need lends slowly: a quarter of its capacity times what its value is above [`RESERVE`].
/// - An application without a matching value keeps its capacity, and the others divide the rest. Only what it has above
///   its guarantee can be called back.
/// - Capacities keep their bounds, by [`divide`], and their sum is the whole, to the nanosecond.
#[derive(Clone, Debug)]
pub struct CapacityRule {
    /// The nanoseconds per period that are divided.
    whole: u64,
    gain_millionths: i128,
    hysteresis: Duration,
    terms: Vec<CapacityTerms>,
    /// The least capacity of each, with promises.
    floors: Vec<u64>,
    /// The fair share of each, as far as bounds let it; their sum is the whole.
    guaranteed: Vec<u64>,
    /// The capacities by the rule, which small steps move.
    exact: Vec<u64>,
    /// The capacities that are given out.
    given: Vec<Duration>,
}

impl CapacityRule {
    /// A rule that begins with the fair shares, as far as bounds let it. Where the most of all applications together are less
    /// than `whole`, the rest stays with nobody.
    ///
    /// # Errors
    /// If the least capacities do not fit, or the gain is above 1 / the number of applications: up to there no step takes more
    /// from an application than the application has.
    pub fn new(
        whole: Duration,
        gain: f64,
        hysteresis: Duration,
        terms: Vec<CapacityTerms>,
    ) -> Result<Self, RuleError> {
        let limit = highest_gain(terms.len());
        if !(0.0..=limit).contains(&gain) {
            let applications = terms.len();
            return Err(RuleError::Gain {
                gain,
                applications,
                limit,
            });
        }
        if terms
            .iter()
            .any(|one| one.least > one.most || one.weight == 0)
        {
            return Err(RuleError::Terms);
        }
        let sum = |of: fn(&CapacityTerms) -> Duration| {
            let all = terms.iter().map(of);
            all.fold(Duration::ZERO, Duration::saturating_add)
        };
        let least = sum(|one| one.least);
        if least > whole {
            return Err(RuleError::Least { least, whole });
        }
        let whole = whole.min(sum(|one| one.most)).as_nanos();
        let floors = floors(whole, &terms);
        let fair = fair_shares(whole, &terms);
        let portions = terms
            .iter()
            .zip(&floors)
            .zip(&fair)
            .map(|((one, floor), fair)| Portion {
                wanted: i128::from(*fair),
                least: *floor,
                most: one.most.as_nanos(),
            });
        let exact = divide(whole, &portions.collect::<Vec<_>>()).ok_or(RuleError::Terms)?;
        Ok(Self {
            whole,
            gain_millionths: (gain * ONE as f64).round() as i128,
            hysteresis,
            floors,
            given: exact.iter().copied().map(Duration::from_nanos).collect(),
            guaranteed: exact.clone(),
            exact,
            terms,
        })
    }

    /// The capacities that hold now, in the order of the applications.
    pub fn capacities(&self) -> &[Duration] {
        &self.given
    }

    /// The terms of the applications.
    pub fn terms(&self) -> &[CapacityTerms] {
        &self.terms
    }

    /// The capacity that is divided.
    pub fn whole(&self) -> Duration {
        Duration::from_nanos(self.whole)
    }

    /// Takes a step by the matching values, none where an application's is not to be trusted, and returns whether the
    /// capacities that hold have changed: they do once one of them is off by the hysteresis.
    ///
    /// # Panics
    /// If there is not one value for each application.
    pub fn step(&mut self, values: &[Option<MatchingValue>]) -> bool {
        assert_eq!(
            values.len(),
            self.terms.len(),
            "one value for each application"
        );
        self.call_loans_back(values);
        let active: Vec<usize> = (0..values.len())
            .filter(|&one| values[one].is_some())
            .collect();
        let millionths =
            |one: &usize| i128::from(values[*one].map_or(0, MatchingValue::millionths));
        let asked: Vec<i128> = active.iter().map(millionths).collect();
        let moves = self.moves(&active, &limited(&asked, &active, &self.terms));
        let portions: Vec<Portion> = active
            .iter()
            .zip(asked.iter().zip(&moves))
            .map(|(&one, (asked, change))| Portion {
                wanted: i128::from(self.exact[one]) + change,
                least: self.kept(one, *asked),
                most: self.terms[one].most.as_nanos(),
            })
            .collect();
        let divided: u64 = active.iter().map(|&one| self.exact[one]).sum();
        if let Some(sizes) = divide(divided, &portions) {
            for (&one, size) in active.iter().zip(sizes) {
                self.exact[one] = size;
            }
        }
        self.give()
    }

    /// The guarantees: the fair shares as far as bounds let them.
    pub fn guarantees(&self) -> impl Iterator<Item = Duration> {
        self.guaranteed.iter().copied().map(Duration::from_nanos)
    }

    /// Gives applications in need the part of their guarantees back that their values say, from those above theirs.
    fn call_loans_back(&mut self, values: &[Option<MatchingValue>]) {
        let due = |one: usize| -> u64 {
            let need = values[one].map_or(0, |value| i128::from(value.millionths()).min(0).abs());
            let lent = self.guaranteed[one].saturating_sub(self.exact[one]);
            u64::try_from(i128::from(lent) * need / ONE).unwrap_or(lent)
        };
        let due: Vec<u64> = (0..values.len()).map(due).collect();
        let owing: Vec<usize> = (0..values.len())
            .filter(|&one| self.exact[one] > self.guaranteed[one])
            .collect();
        let portions = owing.iter().map(|&one| Portion {
            wanted: i128::from(self.exact[one]),
            least: self.guaranteed[one],
            most: self.exact[one],
        });
        let owned: u64 = owing.iter().map(|&one| self.exact[one]).sum();
        // Guarantees are the whole together, so that what is above them covers all that is below.
        let left = owned.saturating_sub(due.iter().sum());
        let Some(sizes) = divide(left, &portions.collect::<Vec<_>>()) else {
            return;
        };
        for (one, size) in owing.into_iter().zip(sizes) {
            self.exact[one] = size;
        }
        for (exact, due) in self.exact.iter_mut().zip(due) {
            *exact += due;
        }
    }

    /// The capacity that an application with this value, in millionths, keeps in a step.
    fn kept(&self, one: usize, value: i128) -> u64 {
        let (has, guaranteed) = (self.exact[one], self.guaranteed[one]);
        if value <= 0 {
            return has.min(guaranteed);
        }
        let spare = (value - i128::from(RESERVE.millionths())).max(0);
        let lent = i128::from(has / LENT_PARTS) * spare / ONE;
        let kept = has.saturating_sub(u64::try_from(lent).unwrap_or(has));
        kept.max(self.floors[one]).min(guaranteed).min(has)
    }

    /// The change of each active application by the rule, in nanoseconds; the sum is zero but for rounding.
    fn moves(&self, active: &[usize], asked: &[i128]) -> Vec<i128> {
        let weights: i128 = active
            .iter()
            .map(|&one| i128::from(self.terms[one].weight))
            .sum();
        let divided: i128 = active.iter().map(|&one| i128::from(self.exact[one])).sum();
        let count = active.len() as i128;
        let weighted = active.iter().zip(asked);
        let weighted: Vec<i128> = weighted
            .map(|(&one, value)| count * i128::from(self.terms[one].weight) * value)
            .collect();
        let sum: i128 = weighted.iter().sum();
        let moves = active.iter().zip(&weighted).map(|(&one, value)| {
            let pull = value * divided - i128::from(self.exact[one]) * sum;
            -self.gain_millionths * pull / (weights.max(1) * ONE * ONE)
        });
        moves.collect()
    }

    /// Gives out the exact capacities, if one of those that hold is off by the hysteresis.
    fn give(&mut self) -> bool {
        let off = self
            .exact
            .iter()
            .zip(&self.given)
            .map(|(exact, given)| exact.abs_diff(given.as_nanos()));
        let most_off = off.max().unwrap_or(0);
        if most_off == 0 || most_off < self.hysteresis.as_nanos() {
            return false;
        }
        self.given = self
            .exact
            .iter()
            .copied()
            .map(Duration::from_nanos)
            .collect();
        true
    }
}

/// The highest stable gain among so many applications.
pub(crate) fn highest_gain(applications: usize) -> f64 {
    1.0 / applications.max(1) as f64
}

/// The whole by weights, rounded down.
fn fair_shares(whole: u64, terms: &[CapacityTerms]) -> Vec<u64> {
    let weights: u128 = terms.iter().map(|one| u128::from(one.weight)).sum();
    let share = |one: &CapacityTerms| u128::from(whole) * u128::from(one.weight) / weights.max(1);
    terms
        .iter()
        .map(|one| u64::try_from(share(one)).unwrap_or(whole))
        .collect()
}

/// The least capacities with promises: all of each promise if they fit together, and otherwise as much as there is.
fn floors(whole: u64, terms: &[CapacityTerms]) -> Vec<u64> {
    let promised = terms.iter().map(|one| {
        let promised = one
            .promised
            .unwrap_or(one.least)
            .min(one.most)
            .max(one.least);
        Portion {
            wanted: i128::from(promised.as_nanos()),
            least: one.least.as_nanos(),
            most: promised.as_nanos(),
        }
    });
    let promised: Vec<Portion> = promised.collect();
    // Without a sum above the whole, no division is there, and each has all of its promise.
    divide(whole, &promised).unwrap_or_else(|| promised.iter().map(|one| one.most).collect())
}

/// Matching values in millionths, with positive ones cut so that together they weigh no more than the negative ones.
fn limited(values: &[i128], active: &[usize], terms: &[CapacityTerms]) -> Vec<i128> {
    let weighted = |wanted: fn(i128) -> bool| -> i128 {
        let each = values
            .iter()
            .zip(active)
            .filter(|(value, _)| wanted(**value));
        each.map(|(value, &one)| value.abs() * i128::from(terms[one].weight))
            .sum()
    };
    let (surplus, need) = (weighted(|value| value > 0), weighted(|value| value < 0));
    let cut = |value: &i128| match *value > 0 && surplus > need {
        true => *value * need / surplus,
        false => *value,
    };
    values.iter().map(cut).collect()
}
