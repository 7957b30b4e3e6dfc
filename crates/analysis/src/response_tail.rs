//! `ResponseTail` bounds the probabilities of responses that are longer than any that was computed.

use tailbound_time::Duration;

/// The tail is followed until so small a share is left,
const LEAST_REST: f64 = 1e-13;
/// in steps from one share to this part of it.
const STEP: f64 = 0.9;

/// A bound on the tail: Pr(response > r) <= `factor` e^(-`per_second` (r - `from_seconds`)).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseTail {
    pub factor: f64,
    pub per_second: f64,
    pub from_seconds: f64,
}

impl ResponseTail {
    /// The share of responses above `seconds`, at most.
    pub(crate) fn above(self, seconds: f64) -> f64 {
        let exponent = self.per_second * (seconds - self.from_seconds).max(0.0);
        (self.factor * (-exponent).exp()).min(1.0)
    }

    /// The mean of what a response exceeds `seconds` by, at most.
    pub(crate) fn mean_beyond(self, seconds: f64) -> f64 {
        let early = (self.from_seconds - seconds).max(0.0);
        early
            + self.factor * (-self.per_second * (seconds - self.from_seconds).max(0.0)).exp()
                / self.per_second
    }

    /// A time that no more than the share `rest` of the responses exceeds.
    pub(crate) fn reached_seconds(self, rest: f64) -> f64 {
        self.from_seconds + (self.factor / rest).ln().max(1.0) / self.per_second
    }

    /// Goes on with a distribution function that is known up to somewhere, until nearly all responses are within.
    /// `overhead` is what every response takes longer than the tail says.
    pub(crate) fn follow(self, steps: &mut Vec<(Duration, f64)>, overhead: Duration) {
        let mut rest = steps.last().map_or(1.0, |(_, value)| 1.0 - value);
        while rest > LEAST_REST {
            rest *= STEP;
            let at = Duration::from_secs_f64_nearest(self.reached_seconds(rest));
            let rounding = Duration::from_nanos(1);
            let at = at.saturating_add(rounding).saturating_add(overhead);
            match steps.last_mut() {
                Some(last) if last.0 >= at => last.1 = last.1.max(1.0 - rest),
                _ => steps.push((at, 1.0 - rest)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_beyond_a_reached_time_is_small_enough() {
        let tail = ResponseTail {
            factor: 3.0,
            per_second: 20.0,
            from_seconds: 0.5,
        };
        for rest in [0.5, 1e-3, 1e-12] {
            assert!(tail.above(tail.reached_seconds(rest)) <= rest * (1.0 + 1e-12));
        }
        let mut steps = vec![(Duration::from_millis(600), 0.25)];
        tail.follow(&mut steps, Duration::ZERO);
        assert!(steps.is_sorted_by(|one, other| one.0 < other.0 && one.1 < other.1));
        let last = steps[steps.len() - 1];
        assert!(1.0 - last.1 <= LEAST_REST * (1.0 + STEP));
        for (at, value) in &steps[1..] {
            assert!(*value <= 1.0 - tail.above(at.as_secs_f64()) + 1e-15);
        }
        // The integral of the bound, by rectangles.
        let step = 1e-4;
        let sum: f64 = (0..20_000)
            .map(|index| step * tail.above(0.4 + step * f64::from(index)))
            .sum();
        assert!(sum <= tail.mean_beyond(0.4) && tail.mean_beyond(0.4) < 0.1 + 3.1 / 20.0);
    }
}
