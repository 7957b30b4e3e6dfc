//! The load that a log of requests shows.

use std::collections::BTreeMap;

use tailbound_model::{Bin, LoggedRequest, RequestLog};
use tailbound_time::{Duration, Rate};

use crate::AssessmentError;

/// The share of requests that may end before an earlier one.
const MOST_OVERTAKING: f64 = 0.01;
/// Arrivals are counted in windows that hold so many of them in the mean.
const IN_A_WINDOW: f64 = 10.0;
/// So many windows tell something.
const LEAST_WINDOWS: u64 = 20;
/// Counts differ from those of a Poisson process if they are so many standard errors away.
const STANDARD_ERRORS: f64 = 4.0;

/// `ObservedLoad` is the load of a service as a log of its requests shows it, if the service works on one request at a time,
/// in the order of their arrival, and had the CPU to itself while the log was written. The execution time of a request is then
/// the time from its arrival, or from the end of the one before it if that is later, to its own end (Lindley's recursion, read
/// backwards).
#[derive(Clone, Debug)]
pub struct ObservedLoad {
    /// The mean rate of arrivals.
    pub rate: Rate,
    /// The execution times, each within the bounds that the log's resolution leaves.
    pub bins: Vec<Bin>,
    /// How many requests there are.
    pub requests: usize,
    /// How many of them ended before an earlier one, and have no execution time here.
    pub overtaking: usize,
    /// How much arrivals come in bursts; `None` where they are too few to tell.
    pub dispersion: Option<Dispersion>,
}

/// `Dispersion` is the variance of the number of arrivals in a window by its mean: 1 for a Poisson process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dispersion {
    /// The quotient.
    pub index: f64,
    /// How long each window is.
    pub window: Duration,
    /// How many windows were counted.
    pub windows: u64,
}

impl Dispersion {
    /// The distance from a Poisson process in standard errors, above zero where arrivals come in bursts.
    fn standard_errors(&self) -> f64 {
        (self.index - 1.0) / (2.0 / (self.windows - 1) as f64).sqrt()
    }
}

impl ObservedLoad {
    /// The load of a log.
    ///
    /// # Errors
    /// Fewer than two requests, or all at the same instant; more than a hundredth of them that end before an earlier one.
    pub fn of(log: &RequestLog) -> Result<Self, AssessmentError> {
        let requests = &log.requests;
        let span = match (requests.first(), requests.last()) {
            (Some(first), Some(last)) => last.start.saturating_sub(first.start),
            _ => Duration::ZERO,
        };
        let gaps = requests.len().saturating_sub(1) as f64;
        let rate = Rate::per_second(gaps / span.as_secs_f64());
        let Some(rate) = rate.filter(|_| span > Duration::ZERO) else {
            return Err(AssessmentError::Unobserved {
                what: format!(
                    "the log has {} requests at one instant or fewer than two, which tell no rate",
                    requests.len()
                ),
            });
        };
        let (bins, overtaking) = execution_times(requests, log.resolution);
        if overtaking as f64 > MOST_OVERTAKING * requests.len() as f64 {
            return Err(AssessmentError::Unobserved {
                what: format!(
                    "{overtaking} of {} requests end before an earlier one, so the service works on several at a time and \
                     the log does not tell how long each of them needs the CPU; take a log with one worker, or give \
                     execution times",
                    requests.len()
                ),
            });
        }
        Ok(Self {
            rate,
            bins,
            requests: requests.len(),
            overtaking,
            dispersion: dispersion(requests, rate),
        })
    }

    /// Remarks on the load, without which no answer is to be relied on.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![format!(
            "{} requests in the log, {:.4} a second; an execution time is what a request took after the one before it had \
             ended, as if the service had worked on one at a time and had the CPU to itself",
            self.requests,
            self.rate.as_per_second()
        )];
        if self.overtaking > 0 {
            remarks.push(format!(
                "{} of them ended before an earlier one and have no execution time here",
                self.overtaking
            ));
        }
        match self.dispersion {
            None => remarks.push(format!(
                "they are too few to tell whether they come as a Poisson process does: at least {} are needed",
                LEAST_WINDOWS as f64 * IN_A_WINDOW
            )),
            Some(dispersion) => remarks.extend(remark(&dispersion)),
        }
        remarks
    }
}

/// The remark on arrivals that are no Poisson process.
fn remark(dispersion: &Dispersion) -> Option<String> {
    let errors = dispersion.standard_errors();
    let (how, so) = match errors {
        errors if errors > STANDARD_ERRORS => ("come in bursts", "longer"),
        errors if errors < -STANDARD_ERRORS => {
            ("come more regularly than a Poisson process", "shorter")
        }
        _ => return None,
    };
    Some(format!(
        "the requests {how}: the variance of their number in {} is {:.2} times its mean (1 of a Poisson process, which the \
         answer takes for granted), so responses are {so} than it says",
        dispersion.window, dispersion.index
    ))
}

/// The execution times, and how many requests have none. An instant of the log is at most `resolution` early, so the
/// difference of two is at most that much away from the true one.
fn execution_times(requests: &[LoggedRequest], resolution: Duration) -> (Vec<Bin>, usize) {
    let mut counted: BTreeMap<(Duration, Duration), u64> = BTreeMap::new();
    let mut overtaking = 0;
    let mut free = Duration::ZERO;
    for request in requests {
        if request.end.saturating_add(resolution) < free {
            overtaking += 1;
            continue;
        }
        let time = request.end.saturating_sub(request.start.max(free));
        let from = time.saturating_sub(resolution);
        // No request needs nothing.
        let to = time.saturating_add(resolution).max(Duration::from_nanos(1));
        *counted.entry((from, to)).or_default() += 1;
        free = free.max(request.end);
    }
    let bin = |((from, to), count)| Bin { from, to, count };
    (counted.into_iter().map(bin).collect(), overtaking)
}

/// The dispersion of the arrivals in all whole windows from the first one on.
fn dispersion(requests: &[LoggedRequest], rate: Rate) -> Option<Dispersion> {
    let first = requests.first()?.start;
    let span = requests.last()?.start.saturating_sub(first);
    let window = Duration::from_secs_f64_nearest(IN_A_WINDOW / rate.as_per_second());
    let windows = span.as_nanos() / window.as_nanos().max(1);
    if windows < LEAST_WINDOWS {
        return None;
    }
    let mut counts = vec![0_u64; usize::try_from(windows).ok()?];
    for request in requests {
        let index = request.start.saturating_sub(first).as_nanos() / window.as_nanos();
        if let Some(count) = usize::try_from(index)
            .ok()
            .and_then(|at| counts.get_mut(at))
        {
            *count += 1;
        }
    }
    let mean = counts.iter().sum::<u64>() as f64 / windows as f64;
    let squares = counts.iter().map(|count| (*count as f64 - mean).powi(2));
    let variance = squares.sum::<f64>() / (windows - 1) as f64;
    Some(Dispersion {
        index: variance / mean,
        window,
        windows,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::Exp1;

    use super::*;

    /// The log of a service that works on requests in their order, one at a time.
    fn served(gaps: &[u64], times: &[u64], resolution: u64) -> RequestLog {
        let (mut arrival, mut free) = (1_000_000, 0);
        let cut_off = |instant: u64| Duration::from_nanos(instant / resolution * resolution);
        let requests = gaps.iter().zip(times).map(|(gap, time)| {
            arrival += gap;
            free = free.max(arrival) + time;
            LoggedRequest {
                start: cut_off(arrival),
                end: cut_off(free),
            }
        });
        RequestLog {
            requests: requests.collect(),
            resolution: Duration::from_nanos(resolution - 1),
        }
    }

    proptest! {
        /// Waiting is taken out of the log again, whatever the load.
        #[test]
        fn the_execution_times_are_those_that_were_served(
            jobs in proptest::collection::vec((1_u64..3_000, 1_u64..3_000), 2..60),
        ) {
            let (gaps, mut times): (Vec<u64>, Vec<u64>) = jobs.into_iter().unzip();
            let load = ObservedLoad::of(&served(&gaps, &times, 1)).unwrap();
            times.sort_unstable();
            let all = load.bins.iter().flat_map(|bin| {
                assert_eq!(bin.from, bin.to);
                vec![bin.from.as_nanos(); bin.count as usize]
            });
            prop_assert_eq!(all.collect::<Vec<u64>>(), times);
            prop_assert_eq!(load.overtaking, 0);
        }

        /// Of instants that are cut off, the bounds hold the true times: as many are below each bound as may be.
        #[test]
        fn bounds_hold_the_true_times_where_instants_are_cut_off(
            jobs in proptest::collection::vec((1_u64..3_000, 1_u64..3_000), 2..60),
            resolution in 2_u64..1_000,
        ) {
            let (gaps, mut times): (Vec<u64>, Vec<u64>) = jobs.into_iter().unzip();
            let log = served(&gaps, &times, resolution);
            prop_assume!(log.requests.first().unwrap().start < log.requests.last().unwrap().start);
            let load = ObservedLoad::of(&log).unwrap();
            times.sort_unstable();
            let all = |end: fn(&Bin) -> Duration| {
                let ends = load.bins.iter().flat_map(|bin| vec![end(bin).as_nanos(); bin.count as usize]);
                let mut ends: Vec<u64> = ends.collect();
                ends.sort_unstable();
                ends
            };
            let (from, to) = (all(|bin| bin.from), all(|bin| bin.to));
            prop_assert_eq!(from.len(), times.len());
            for ((from, to), time) in from.iter().zip(&to).zip(&times) {
                prop_assert!(from <= time && time <= to, "{from} {time} {to}");
            }
        }
    }

    fn dispersion_of(gaps: &[u64]) -> (Dispersion, Vec<String>) {
        let load = ObservedLoad::of(&served(gaps, &vec![10; gaps.len()], 1)).unwrap();
        (load.dispersion.unwrap(), load.remarks())
    }

    #[test]
    fn bursts_and_regular_arrivals_are_told_from_a_poisson_process() {
        let random = ChaCha8Rng::seed_from_u64(1);
        let gaps = random
            .sample_iter::<f64, _>(Exp1)
            .map(|gap| (gap * 1e6) as u64 + 1);
        let poisson: Vec<u64> = gaps.take(20_000).collect();
        let (dispersion, remarks) = dispersion_of(&poisson);
        assert!((dispersion.index - 1.0).abs() < 0.15, "{dispersion:?}");
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        let bursts: Vec<u64> = poisson.iter().flat_map(|gap| [4 * gap, 1, 1, 1]).collect();
        let (dispersion, remarks) = dispersion_of(&bursts);
        assert!(dispersion.index > 3.0, "{dispersion:?}");
        assert!(remarks[1].contains("come in bursts"), "{remarks:?}");
        let (dispersion, remarks) = dispersion_of(&[1_000_000; 1_000]);
        assert!(dispersion.index < 0.1, "{dispersion:?}");
        assert!(remarks[1].contains("more regularly"), "{remarks:?}");
        let few = ObservedLoad::of(&served(&poisson[..150], &[10; 150], 1)).unwrap();
        assert!(few.remarks()[1].contains("too few"), "{few:?}");
    }

    #[test]
    fn a_log_of_a_service_that_works_on_several_at_a_time_is_refused() {
        let ns = Duration::from_nanos;
        let request = |start, length| LoggedRequest {
            start: ns(start),
            end: ns(start + length),
        };
        let requests = (0..200).map(|index| request(index * 10, if index == 0 { 25 } else { 9 }));
        let mut log = RequestLog {
            requests: requests.collect(),
            resolution: Duration::ZERO,
        };
        let load = ObservedLoad::of(&log).unwrap();
        assert_eq!(load.overtaking, 1);
        assert!(load.remarks()[1].contains("1 of them ended before"));
        for index in [50, 100, 150] {
            log.requests[index].end = ns(index as u64 * 10 + 25);
        }
        let refused = ObservedLoad::of(&log).unwrap_err().to_string();
        assert!(refused.contains("works on several at a time"), "{refused}");
        log.requests.truncate(1);
        let refused = ObservedLoad::of(&log).unwrap_err().to_string();
        assert!(refused.contains("no rate"), "{refused}");
    }
}
