//! Where a latency axis has its marks.

use tailbound_time::Duration;

use crate::Scale;
use crate::wording::exactly;

/// A mark on a latency axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    /// Where.
    pub at: Duration,
    /// What stands there, if anything.
    pub label: Option<String>,
}

/// With fewer powers of ten than this on a logarithmic axis, twos and fives have labels too.
const FEW_POWERS: usize = 4;

/// The marks from `shortest` to `longest`.
pub(crate) fn ticks(scale: Scale, shortest: Duration, longest: Duration) -> Vec<Tick> {
    match scale {
        Scale::Linear => {
            let step = tick_step(longest);
            let multiples = (0..=longest.as_nanos() / step).map(|index| index * step);
            multiples.map(|at| tick(at, true)).collect()
        }
        Scale::Logarithmic => logarithmic(shortest, longest),
    }
}

fn tick(at_ns: u64, labelled: bool) -> Tick {
    let at = Duration::from_nanos(at_ns);
    Tick {
        at,
        label: labelled.then(|| exactly(at)),
    }
}

/// The instants with marks on an axis from one instant to another, in nanoseconds.
pub(crate) fn marks_between(from: u64, until: u64) -> impl Iterator<Item = u64> {
    let step = tick_step(Duration::from_nanos(until.saturating_sub(from)));
    let first = from.div_ceil(step);
    (first..=until / step).map(move |index| index * step)
}

/// The step of a tidy axis: 1, 2 or 5 times a power of ten, with four to eight steps to `longest`.
fn tick_step(longest: Duration) -> u64 {
    let longest = longest.as_nanos();
    let mut decade = 1_u64;
    loop {
        for factor in [1, 2, 5] {
            let step = decade.saturating_mul(factor);
            if longest / step <= 8 {
                return step;
            }
        }
        decade = decade.saturating_mul(10);
    }
}

/// Every digit times every power of ten; the powers are labelled.
fn logarithmic(shortest: Duration, longest: Duration) -> Vec<Tick> {
    let range = shortest.as_nanos()..=longest.as_nanos();
    let powers: Vec<u64> = (0..=19).map(|exponent| 10_u64.pow(exponent)).collect();
    let shown = powers.iter().filter(|power| range.contains(power)).count();
    let few = shown < FEW_POWERS;
    let digits =
        |power: u64| (1..=9).filter_map(move |digit| Some((digit, power.checked_mul(digit)?)));
    powers
        .into_iter()
        .flat_map(digits)
        .filter(|(_, at)| range.contains(at))
        .map(|(digit, at)| tick(at, digit == 1 || (few && (digit == 2 || digit == 5))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, shortest_ns: u64, longest_ns: u64) -> Vec<String> {
        let (shortest, longest) = (
            Duration::from_nanos(shortest_ns),
            Duration::from_nanos(longest_ns),
        );
        let all = ticks(scale, shortest, longest);
        all.into_iter().filter_map(|tick| tick.label).collect()
    }

    #[test]
    fn linear_marks_are_tidy_and_few() {
        assert_eq!(
            labels(Scale::Linear, 0, 26_000_000),
            ["0", "5 ms", "10 ms", "15 ms", "20 ms", "25 ms"]
        );
        for longest in [1, 7, 99, 12_345, u64::MAX] {
            let count = labels(Scale::Linear, 0, longest).len();
            assert!((2..=9).contains(&count), "{longest}: {count}");
        }
    }

    #[test]
    fn marks_of_a_window_are_multiples_of_a_tidy_step() {
        let marks: Vec<u64> = marks_between(1_003, 1_052).collect();
        assert_eq!(marks, [1_010, 1_020, 1_030, 1_040, 1_050]);
        assert_eq!(marks_between(7, 8).collect::<Vec<_>>(), [7, 8]);
    }

    #[test]
    fn logarithmic_marks_are_powers_of_ten() {
        assert_eq!(
            labels(Scale::Logarithmic, 900_000, 7_400_000_000),
            ["1 ms", "10 ms", "100 ms", "1 s"]
        );
        assert_eq!(
            labels(Scale::Logarithmic, 1_500_000, 60_000_000),
            ["2 ms", "5 ms", "10 ms", "20 ms", "50 ms"]
        );
        assert_eq!(labels(Scale::Logarithmic, 1, u64::MAX).len(), 20);
        let all = ticks(
            Scale::Logarithmic,
            Duration::from_nanos(10),
            Duration::from_nanos(100),
        );
        assert_eq!(all.len(), 10);
    }
}
