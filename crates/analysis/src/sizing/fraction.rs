//! Simple fractions: the exact method's effort grows with the denominator of the ratio of a budget to the execution
//! times, so each budget that a search tries is the simplest one near where it wants to look.

use num_rational::Ratio;

/// Beyond this a denominator is of no use to any solver.
const LARGEST_DENOMINATOR: f64 = 1e9;

/// The fraction with the least denominator above `low` and not above `high`, both at least zero; `None` where it has
/// a denominator beyond all use, or the range is empty. Ends count to the rounding of floating point.
///
/// The descent is that of continued fractions: what is between two whole numbers is the lower one and the reciprocal
/// of a fraction between the reciprocals of what is left.
pub(super) fn simplest_between(low: f64, high: f64) -> Option<Ratio<u64>> {
    if !(0.0..high).contains(&low) {
        return None;
    }
    let whole = low.floor();
    if whole + 1.0 <= high {
        let whole = whole + 1.0;
        return (whole <= LARGEST_DENOMINATOR).then(|| Ratio::from_integer(whole as u64));
    }
    let upper = 1.0 / (low - whole);
    let lower = 1.0 / (high - whole);
    if lower > LARGEST_DENOMINATOR {
        return None;
    }
    // A reciprocal turns the range around: its lower end belongs to it, its upper one does not.
    let inner = simplest_from(lower, upper)?;
    let (above, below) = (*inner.denom(), *inner.numer());
    let whole_parts = (whole as u64).checked_mul(below)?;
    Some(Ratio::new(whole_parts.checked_add(above)?, below))
}

/// The same at or above `low` and below `high`.
fn simplest_from(low: f64, high: f64) -> Option<Ratio<u64>> {
    let whole = low.ceil();
    if whole < high {
        return (whole <= LARGEST_DENOMINATOR).then(|| Ratio::from_integer(whole as u64));
    }
    let whole = low.floor();
    let inner = simplest_between(1.0 / (high - whole), 1.0 / (low - whole))?;
    let (above, below) = (*inner.denom(), *inner.numer());
    let whole_parts = (whole as u64).checked_mul(below)?;
    Some(Ratio::new(whole_parts.checked_add(above)?, below))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_simplest_fractions_of_some_ranges() {
        let simplest = |low, high| {
            let fraction: Ratio<u64> = simplest_between(low, high).unwrap();
            (*fraction.numer(), *fraction.denom())
        };
        assert_eq!(simplest(0.0, 2.5), (1, 1));
        assert_eq!(simplest(0.3, 0.4), (1, 3));
        assert_eq!(simplest(0.5, 0.61), (3, 5));
        assert_eq!(simplest(0.4, 0.5), (1, 2));
        assert_eq!(simplest(3.28, 3.29), (23, 7));
        assert!(simplest_between(0.5, 0.5).is_none());
        assert!(simplest_between(0.0, 1e-12).is_none());
    }

    proptest! {
        #[test]
        fn no_denominator_is_less(low in 0.0..20.0_f64, width in 1e-3..0.5_f64) {
            let high = low + width;
            let fraction = simplest_between(low, high).unwrap();
            let value = *fraction.numer() as f64 / *fraction.denom() as f64;
            prop_assert!(value > low && value <= high);
            for denominator in 1..*fraction.denom() {
                let next = (low * denominator as f64).floor() + 1.0;
                prop_assert!(next / denominator as f64 > high);
            }
        }
    }
}
