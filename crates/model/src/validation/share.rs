//! Shares of a CPU in a description.

use tailbound_time::{Duration, Fraction};

use crate::interface::PercentagePoints;

/// `part / whole`; nothing if `whole` is zero, which is complained about elsewhere.
pub(super) fn ratio(part: Duration, whole: Duration) -> Fraction {
    match whole.is_zero() {
        true => Fraction::ZERO,
        false => Fraction::new(part.as_nanos(), whole.as_nanos()),
    }
}

/// Percentage points as a share; nothing if they are negative.
pub(super) fn points(points: PercentagePoints) -> Fraction {
    // A millionth of a point is finer than anybody writes one.
    let millionths = (points.0.clamp(0.0, 100.0) * 1e6).round() as u64;
    Fraction::new(millionths, 100_000_000)
}

/// In percent of a CPU, with as many digits as tell a share from a whole one and from nothing.
pub(super) fn in_percent(share: Fraction) -> String {
    let percent = share.as_f64() * 100.0;
    let is_plain = share == Fraction::WHOLE || share == Fraction::ZERO;
    let tells = |digits: &usize| {
        let digits = *digits;
        let rounded = format!("{percent:.digits$}").parse();
        is_plain || (rounded != Ok(100.0) && rounded != Ok(0.0))
    };
    match (1..=9).find(tells) {
        Some(digits) => format!("{percent:.digits$}%"),
        None if percent < 1.0 => "just over 0%".into(),
        None if share > Fraction::WHOLE => "just over 100%".into(),
        None => "just under 100%".into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_share_just_beside_a_whole_is_told_from_it() {
        let ns = Duration::from_nanos;
        let told = |part, whole| in_percent(ratio(ns(part), ns(whole)));
        assert_eq!(told(1, 1), "100.0%");
        assert_eq!(told(0, 7), "0.0%");
        assert_eq!(told(1, 16), "6.2%");
        assert_eq!(told(99_999, 100_000), "99.999%");
        assert_eq!(told(u64::MAX - 1, u64::MAX), "just under 100%");
        assert_eq!(told(1, u64::MAX), "just over 0%");
        assert_eq!(in_percent(points(PercentagePoints(-5.0))), "0.0%");
        assert_eq!(in_percent(points(PercentagePoints(12.5))), "12.5%");
    }

    proptest! {
        #[test]
        fn never_panics(
            parts in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u32>()), 0..40),
        ) {
            let shares = parts.iter().map(|(part, whole, times)| {
                ratio(Duration::from_nanos(*part), Duration::from_nanos(*whole)).times(*times)
            });
            let sum = shares.fold(Fraction::ZERO, |sum, share| sum + share);
            prop_assert!(in_percent(sum).ends_with('%'));
        }
    }
}
