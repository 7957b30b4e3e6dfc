//! The windows of a time partition, as the supply that they are for sure: the static resource partition of Mok, Feng and
//! Chen (RTAS 2001, section 2).
//!
//! The least supply of any window of length t begins where one of the partition's windows ends: to begin sooner adds
//! supply at the front, to begin later in the gap adds some at the back. So the bound is the least over as many curves as
//! there are windows, and exact for windows that nothing delays.

use tailbound_model::Window;
use tailbound_time::Duration;

use super::SupplyBound;
use crate::AnalysisError;

/// The windows of a time partition in each frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSupply {
    frame: Duration,
    /// From the end of each window on: the waits before the windows that follow in one frame, with their lengths.
    curves: Vec<Vec<(Duration, Duration)>>,
    /// All windows of a frame together.
    total: Duration,
}

impl WindowSupply {
    /// The supply of these windows.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] where there is no window, or windows are empty, out of order or beyond the frame.
    pub fn new(frame: Duration, windows: &[Window]) -> Result<Self, AnalysisError> {
        let mut end = Duration::ZERO;
        for window in windows {
            if window.offset < end || window.length.is_zero() || window.end() > frame {
                return Err(no_partition(frame));
            }
            end = window.end();
        }
        if windows.is_empty() {
            return Err(no_partition(frame));
        }
        let curve_after = |first: usize| {
            let in_turn = windows.iter().cycle().skip(first).take(windows.len() + 1);
            let pairs = in_turn.clone().zip(in_turn.skip(1));
            let following = pairs.map(|(before, next)| {
                let begin = match next.offset < before.end() {
                    true => frame.saturating_add(next.offset),
                    false => next.offset,
                };
                (begin.saturating_sub(before.end()), next.length)
            });
            following.collect()
        };
        Ok(Self {
            frame,
            curves: (0..windows.len()).map(curve_after).collect(),
            total: windows.iter().map(|window| window.length).sum(),
        })
    }
}

fn no_partition(frame: Duration) -> AnalysisError {
    AnalysisError::Invalid {
        what: format!(
            "the windows of a time partition are in order, last longer than nothing and end within the frame of {frame}"
        ),
    }
}

impl SupplyBound for WindowSupply {
    fn supplied_down(&self, window: Duration) -> Duration {
        let frames = window / self.frame;
        let rest = window % self.frame;
        let least = self.curves.iter().map(|curve| {
            let (mut left, mut supplied) = (rest, Duration::ZERO);
            for (wait, length) in curve {
                left = left.saturating_sub(*wait);
                supplied = supplied.saturating_add(left.min(*length));
                left = left.saturating_sub(*length);
            }
            supplied
        });
        let least = least.min().unwrap_or_default();
        (self.total * frames).saturating_add(least)
    }

    fn time_to_supply(&self, work: Duration) -> Duration {
        let Some(before_last) = work.as_nanos().checked_sub(1) else {
            return Duration::ZERO;
        };
        let frames = before_last / self.total.as_nanos();
        let Some(full) = self.frame.checked_mul(frames) else {
            return Duration::MAX;
        };
        let rest = work.saturating_sub(self.total * frames);
        let longest = self.curves.iter().map(|curve| {
            let (mut left, mut passed) = (rest, Duration::ZERO);
            for (wait, length) in curve {
                if left.is_zero() {
                    break;
                }
                passed = passed
                    .saturating_add(*wait)
                    .saturating_add(left.min(*length));
                left = left.saturating_sub(*length);
            }
            passed
        });
        full.checked_add(longest.max().unwrap_or_default())
            .unwrap_or(Duration::MAX)
    }

    fn rate(&self) -> (u64, u64) {
        (self.total.as_nanos(), self.frame.as_nanos())
    }

    /// The supply is furthest behind the rate where a window opens.
    fn delay_up(&self) -> Duration {
        let mut delay = Duration::ZERO;
        for curve in &self.curves {
            let (mut passed, mut supplied) = (Duration::ZERO, Duration::ZERO);
            for (wait, length) in curve {
                passed = passed.saturating_add(*wait);
                let by_rate = supplied.scaled_down(self.frame.as_nanos(), self.total.as_nanos());
                delay = delay.max(passed.saturating_sub(by_rate));
                passed = passed.saturating_add(*length);
                supplied = supplied.saturating_add(*length);
            }
        }
        delay
    }

    fn repeats_after(&self) -> Duration {
        self.frame
    }

    fn name(&self) -> &'static str {
        "windows of a static partition (Mok, Feng and Chen 2001)"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn ns(value: u64) -> Duration {
        Duration::from_nanos(value)
    }

    fn windows(pairs: &[(u64, u64)]) -> Vec<Window> {
        let each = pairs.iter().map(|(offset, length)| Window {
            offset: ns(*offset),
            length: ns(*length),
        });
        each.collect()
    }

    /// The supply by its definition: tick by tick, over all begins.
    fn by_definition(frame: u64, pairs: &[(u64, u64)], length: u64) -> u64 {
        let is_open = |tick: u64| {
            let into = tick % frame;
            pairs
                .iter()
                .any(|(offset, length)| (*offset..offset + length).contains(&into))
        };
        let given = |begin| {
            (begin..begin + length)
                .filter(|tick| is_open(*tick))
                .count() as u64
        };
        (0..frame).map(given).min().unwrap()
    }

    #[test]
    fn what_is_no_partition_is_refused() {
        for pairs in [&[][..], &[(0, 0)], &[(4, 2), (5, 1)], &[(9, 2)]] {
            assert!(
                WindowSupply::new(ns(10), &windows(pairs)).is_err(),
                "{pairs:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_bound_is_the_least_over_all_begins(
            gaps in prop::collection::vec((0_u64..5, 1_u64..5), 1..4), tail in 0_u64..5,
        ) {
            let (mut end, mut pairs) = (0, Vec::new());
            for (gap, length) in gaps {
                pairs.push((end + gap, length));
                end += gap + length;
            }
            let frame = end + tail;
            let supply = WindowSupply::new(ns(frame), &windows(&pairs)).unwrap();
            let (budget, period) = supply.rate();
            let delay = supply.delay_up().as_nanos();
            let mut least_for = std::collections::BTreeMap::new();
            for length in 0..3 * frame {
                let given = by_definition(frame, &pairs, length);
                prop_assert_eq!(supply.supplied_down(ns(length)), ns(given), "{}", length);
                least_for.entry(given).or_insert(length);
                prop_assert!(given * period >= budget * length.saturating_sub(delay), "{}", length);
            }
            for (work, length) in least_for {
                prop_assert_eq!(supply.time_to_supply(ns(work)), ns(length), "{}", work);
            }
        }
    }
}
