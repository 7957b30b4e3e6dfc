//! The rate of a loop: how many iterations take how long.

use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::MeasurementError;

/// The execution time at which a count of iterations is large enough to be measured.
const TARGET: Duration = Duration::from_millis(2);
/// Pairs of requests per count while a count is looked for, which need not be exact.
const PAIRS_TO_SEARCH: usize = 3;
/// Pairs of requests that the rate is taken from.
const PAIRS: usize = 15;
/// The largest count of iterations tried.
const MOST_ITERATIONS: u64 = 1 << 32;

/// How many iterations of the loop in a `{busy:...}` request take how long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusyRate {
    /// Iterations per millisecond of the service's CPU time.
    pub iterations_per_millisecond: f64,
}

impl BusyRate {
    /// The iterations that take `length`, to the nearest; at least one.
    pub fn iterations_for(&self, length: Duration) -> u64 {
        let iterations = self.iterations_per_millisecond * length.as_millis_f64();
        (iterations.round() as u64).max(1)
    }

    /// Finds the rate: doubles the count until the loop is most of what a request takes, then takes the
    /// slope between that and twice as many, which leaves out what every request costs. `time_of`
    /// answers with what one request with so many iterations takes.
    ///
    /// A loop always takes as long, and whatever else there is on the machine can only prolong it: the
    /// shortest counts. The two counts take turns, so that a slow phase of the machine is one for both.
    ///
    /// # Errors
    /// The errors of `time_of`, and a bad plan if no count makes a request longer. One count
    /// that does not is no evidence: a disturbance, or work besides the loop, can be longer than a
    /// short loop, but not than one of ever more iterations.
    pub(super) fn find(
        task: &str,
        mut time_of: impl FnMut(u64) -> Result<Duration, MeasurementError>,
    ) -> Result<Self, MeasurementError> {
        let mut iterations = 1_000;
        while iterations <= MOST_ITERATIONS {
            // Most counts are out of the question after few requests.
            let mut slope = None;
            for pairs in [PAIRS_TO_SEARCH, PAIRS] {
                slope = slope_at(iterations, pairs, &mut time_of)?;
                if slope.is_none() {
                    break;
                }
            }
            if let Some(slope) = slope {
                return Ok(Self {
                    iterations_per_millisecond: iterations as f64 / slope.as_millis_f64(),
                });
            }
            iterations *= 2;
        }
        Err(without_effect(task))
    }
}

/// The time that `iterations` more than as many take, the shortest of `pairs` each, if that is most of what a
/// request takes and long enough to be measured.
fn slope_at(
    iterations: u64,
    pairs: usize,
    mut time_of: impl FnMut(u64) -> Result<Duration, MeasurementError>,
) -> Result<Option<Duration>, MeasurementError> {
    let (mut once, mut twice) = (Duration::MAX, Duration::MAX);
    for _ in 0..pairs {
        once = once.min(time_of(iterations)?);
        if once < TARGET {
            return Ok(None);
        }
        twice = twice.min(time_of(iterations * 2)?);
    }
    let slope = twice.saturating_sub(once);
    Ok((slope > once / 2).then_some(slope))
}

fn without_effect(task: &str) -> MeasurementError {
    MeasurementError::BadPlan {
        what: format!("the {{busy:...}} of task {task} does not change how long its request takes"),
        remedy: "let the request loop so many times, such as EVAL \"for i = 1, ARGV[1] do end\" 0 \
                 {busy:2ms}"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A loop of 50 ns an iteration in requests that cost 40 us.
    fn loop_time(iterations: u64) -> Duration {
        Duration::from_micros(40) + Duration::from_nanos(50) * iterations
    }

    fn rate(time_of: impl FnMut(u64) -> Result<Duration, MeasurementError>) -> f64 {
        let busy = BusyRate::find("t", time_of).unwrap();
        busy.iterations_per_millisecond
    }

    #[test]
    fn what_a_request_costs_is_not_of_the_rate() {
        assert_eq!(rate(|iterations| Ok(loop_time(iterations))), 20_000.0);
    }

    #[test]
    fn a_slow_phase_does_not_change_it() {
        // Wherever the phase begins: all that is asked in the phase takes three times as long.
        for begin in 0..70 {
            let mut asked = 0;
            let per_millisecond = rate(|iterations| {
                asked += 1;
                let slow = (begin..begin + 20).contains(&asked);
                Ok(loop_time(iterations) * if slow { 3 } else { 1 })
            });
            assert_eq!(per_millisecond, 20_000.0, "phase from request {begin}");
        }
    }

    #[test]
    fn a_disturbed_machine_is_not_a_request_without_a_loop() {
        // Every request waits for a CPU at first, for longer than a short loop takes.
        for waiting in [3, 36, 60, 300] {
            let mut asked = 0;
            let per_millisecond = rate(|iterations| {
                asked += 1;
                let wait = if asked <= waiting { 5 } else { 0 };
                Ok(loop_time(iterations) + Duration::from_millis(wait))
            });
            assert_eq!(per_millisecond, 20_000.0, "{waiting} requests waited");
        }
    }

    #[test]
    fn work_besides_the_loop_is_not_of_the_rate() {
        let slow = |iterations| Ok(loop_time(iterations) + Duration::from_millis(30));
        assert_eq!(rate(slow), 20_000.0);
    }

    #[test]
    fn a_request_that_does_not_loop_is_refused() {
        for time in [Duration::from_micros(40), Duration::from_millis(3)] {
            let error = BusyRate::find("t", |_| Ok(time)).unwrap_err().to_string();
            assert!(
                error.contains("does not change how long its request takes"),
                "{error}"
            );
        }
    }
}
