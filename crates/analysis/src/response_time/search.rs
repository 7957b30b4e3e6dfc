//! About where a distribution function reaches a probability, in few and cheap evaluations.

use super::continuous::ContinuousResponses;

/// While searching, F may be wrong by this part of the lesser of a probability and its complement.
const ROUGHLY: f64 = 0.01;
/// The search is over where F is this near, in the same terms.
const NEAR: f64 = 0.02;
/// Bisections and the like, at most.
const MOST_TURNS: usize = 100;
/// A quantile is corrected at most so often.
const CORRECTIONS: usize = 5;
/// Where the slope is not known yet, it is taken over this relative distance.
const ASIDE: f64 = 1e-3;

/// A search for the quantile of a probability.
pub(super) struct QuantileSearch<'a> {
    pub(super) responses: &'a ContinuousResponses<'a>,
    pub(super) probability: f64,
}

impl QuantileSearch<'_> {
    /// How far F is from the probability at r, on a scale on which a tail that falls exponentially is
    /// straight; negative below.
    fn lack(&self, value: f64) -> f64 {
        let above = (1.0 - value).max(1e-300);
        ((1.0 - self.probability) / above).ln()
    }

    /// About where F reaches the probability, from the shortest response and F there; and how far
    /// along the axis of time the error of F, and what may still be missing, reach.
    pub(super) fn near(&self, shortest: (f64, f64)) -> (f64, f64) {
        let (mut at, mut slope) = self.roughly(shortest);
        let (mut before, mut reach) = (None, f64::INFINITY);
        for _ in 0..CORRECTIONS {
            let (value, error) = self.responses.cdf(at);
            if let Some((earlier, earlier_value)) = before {
                let measured = (value - earlier_value) / (at - earlier);
                if measured > 0.0 {
                    slope = measured;
                }
            }
            let shift = (self.probability - value) / slope;
            reach = error / slope + shift.abs();
            if shift.abs() > 0.1 * at || at + shift <= shortest.0 {
                break;
            }
            let far = before.map_or(f64::INFINITY, |(earlier, _): (f64, f64)| {
                (at - earlier).abs()
            });
            before = Some((at, value));
            at += shift;
            // A secant misses by about the product of its two distances to the root, per time.
            let missed = shift.abs() * (shift.abs() + far) / at;
            reach = error / slope + missed.min(shift.abs());
            if missed * slope < error || shift == 0.0 {
                break;
            }
        }
        (at, reach)
    }

    /// A place where F is about the probability, and its slope there: bracketed by doubling, then by
    /// regula falsi, in which an end that stays counts for less each time (Illinois).
    fn roughly(&self, (shortest, at_shortest): (f64, f64)) -> (f64, f64) {
        let rare = self.probability.min(1.0 - self.probability);
        let value = |r: f64| self.responses.cdf_within(r, ROUGHLY * rare).0;
        let (mut low, mut at_low) = (shortest, self.lack(at_shortest));
        let mut high = low * 2.0;
        let mut at_high = self.lack(value(high));
        while at_high < 0.0 && high < 1e15 {
            (low, at_low) = (high, at_high);
            high *= 2.0;
            at_high = self.lack(value(high));
        }
        let (mut kept, mut length) = (0_i32, high - low);
        let mut slope = None;
        let mut last = 0.5 * (low + high);
        for turn in 0..MOST_TURNS {
            let guess = low + (high - low) * at_low / (at_low - at_high);
            // Every third time the bracket has to be half as long at least.
            let slow = turn % 3 == 2 && high - low > 0.5 * length;
            if turn % 3 == 2 {
                length = high - low;
            }
            last = if slow || !(guess > low && guess < high) {
                0.5 * (low + high)
            } else {
                guess
            };
            let reached = value(last);
            let lack = self.lack(reached);
            if (reached - self.probability).abs() < NEAR * rare || high - low < 1e-9 * high {
                let steepness = (at_high - at_low) / (high - low);
                slope = (steepness > 0.0).then_some(steepness * (1.0 - self.probability));
                break;
            }
            if lack < 0.0 {
                (low, at_low) = (last, lack);
                kept = kept.min(0) - 1;
                at_high *= if kept < -1 { 0.5 } else { 1.0 };
            } else {
                (high, at_high) = (last, lack);
                kept = kept.max(0) + 1;
                at_low *= if kept > 1 { 0.5 } else { 1.0 };
            }
        }
        let slope = slope.filter(|slope| slope.is_finite()).unwrap_or_else(|| {
            let rise = self.responses.cdf(last * (1.0 + ASIDE)).0 - self.responses.cdf(last).0;
            rise.max(1e-30) / (ASIDE * last)
        });
        (last, slope)
    }
}
