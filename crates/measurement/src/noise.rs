//! How much CPU time a busy thread loses on a CPU.

use serde::{Serialize, Serializer};
use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_linux::clock::{Monotonic, MonotonicRaw, sleep_until};
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_model::Cpu;
use tailbound_time::{Clock, Duration, Instant, nanoseconds};

use crate::{MeasurementError, fingerprint, fingerprint_line};

/// The shortest gap between two readings of the clock that counts as lost time. Reading takes
/// some 30 ns; what lasts longer than this was an interrupt, another thread or the hypervisor.
const THRESHOLD: Duration = Duration::from_micros(2);
/// The sampler's FIFO priority: the highest that a domain may have.
const FIFO_PRIORITY: u8 = 90;
/// The kernel lets FIFO threads run 95% of a second; stretches with pauses stay well below.
const STRETCH: Duration = Duration::from_millis(160);
/// The pause after each stretch.
const PAUSE: Duration = Duration::from_millis(40);
/// The longest sampling that is taken on.
const LONGEST: Duration = Duration::from_secs(600);
/// The most gaps that are kept one by one; the rest only counts in the sum.
const MOST_GAPS: usize = 1_000_000;

/// What a busy thread lost on one CPU.
#[derive(Clone, Debug, Serialize)]
pub struct Noise {
    /// The CPU.
    pub cpu: Cpu,
    /// How long it was sampled, pauses left out.
    #[serde(rename = "sampled_ns", with = "nanoseconds")]
    pub sampled: Duration,
    /// Whether the sampler ran at SCHED_FIFO, so that ordinary load does not count as noise.
    #[serde(skip)]
    pub fifo: bool,
    /// The shortest gap that counts.
    #[serde(skip)]
    pub threshold: Duration,
    /// The time lost in all.
    #[serde(rename = "lost_ns", with = "nanoseconds")]
    pub lost: Duration,
    /// The longest gap.
    #[serde(rename = "longest_ns", with = "nanoseconds")]
    pub longest: Duration,
    /// The gaps; their number in machine output.
    #[serde(serialize_with = "count")]
    pub gaps: Distribution,
}

fn count<S: Serializer>(gaps: &Distribution, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u64(gaps.count().unwrap_or(0))
}

impl Noise {
    /// The share of the time that was lost, from 0 to 1.
    pub fn share(&self) -> f64 {
        if self.sampled.is_zero() {
            return 0.0;
        }
        self.lost.as_secs_f64() / self.sampled.as_secs_f64()
    }
}

/// Reads the clock in a loop on `cpu` for `length` and counts the gaps, at FIFO where allowed, in
/// stretches short enough for real-time throttling not to show. Takes a quarter longer than
/// `length`, for the pauses.
///
/// # Errors
/// The CPU does not exist or is not ours to run on; `length` is zero or above ten minutes.
pub fn noise(cpu: Cpu, length: Duration) -> Result<Noise, MeasurementError> {
    if length.is_zero() || length > LONGEST {
        return Err(MeasurementError::BadPlan {
            what: format!("noise cannot be sampled for {length}"),
            remedy: format!("choose a length above zero, up to {LONGEST}"),
        });
    }
    // A thread of its own, so that pinning and priority end with it.
    let sampler = std::thread::Builder::new()
        .name("noise".into())
        .spawn(move || sample(cpu, length))
        .map_err(|cause| MeasurementError::Host {
            what: "start the noise sampler's thread".into(),
            cause,
            remedy: "raise the limit of threads".into(),
        })?;
    match sampler.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn sample(cpu: Cpu, length: Duration) -> Result<Noise, MeasurementError> {
    pin_current_thread(cpu.0).map_err(|cause| MeasurementError::BadPlan {
        what: format!("noise: {cause}"),
        remedy: "name an online CPU of this host".into(),
    })?;
    let fifo = make_current_thread_fifo(FIFO_PRIORITY).is_ok();
    let mut tally = LossTally::default();
    while tally.sampled < length {
        let left = length.saturating_sub(tally.sampled);
        tally.stretch(&MonotonicRaw, left.min(STRETCH));
        let _no_pause_at_worst = sleep_until(Monotonic.now() + PAUSE);
    }
    let policy = if fifo {
        "SCHED_FIFO"
    } else {
        "the default policy"
    };
    let mut provenance = Provenance::new(
        Evidence::Sample,
        format!("time lost at once on CPU {cpu}"),
        format!("a thread at {policy} reads the clock; gaps above {THRESHOLD}"),
    );
    provenance.clock = Some(MonotonicRaw.id());
    provenance.host = Some(fingerprint_line(&fingerprint()));
    Ok(Noise {
        cpu,
        sampled: tally.sampled,
        fifo,
        threshold: THRESHOLD,
        lost: tally.lost,
        longest: tally.longest,
        gaps: Distribution::from_samples(provenance, tally.gaps),
    })
}

/// What was lost so far.
#[derive(Debug, Default)]
struct LossTally {
    sampled: Duration,
    lost: Duration,
    longest: Duration,
    gaps: Vec<Duration>,
}

impl LossTally {
    /// Reads `clock` until `length` has passed on it.
    fn stretch(&mut self, clock: &impl Clock, length: Duration) {
        let begin = clock.now();
        let end = begin.saturating_add(length);
        let mut last: Instant = begin;
        while last < end {
            let now = clock.now();
            let gap = now.saturating_since(last);
            if gap > THRESHOLD {
                self.note(gap);
            }
            last = now;
        }
        self.sampled = self.sampled.saturating_add(last.saturating_since(begin));
    }

    fn note(&mut self, gap: Duration) {
        self.lost = self.lost.saturating_add(gap);
        self.longest = self.longest.max(gap);
        if self.gaps.len() < MOST_GAPS {
            self.gaps.push(gap);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::cell::RefCell;

    use tailbound_time::ClockId;

    use super::*;

    /// Tells one given time after the other.
    struct Script(RefCell<std::vec::IntoIter<u64>>);

    impl Clock for Script {
        fn id(&self) -> ClockId {
            ClockId::Virtual
        }

        fn now(&self) -> Instant {
            Instant::from_nanos(self.0.borrow_mut().next().unwrap())
        }
    }

    #[test]
    fn counts_gaps_above_the_threshold_only() {
        let readings = vec![0, 30, 60, 5_060, 5_090, 7_090, 7_120, 10_200];
        let mut tally = LossTally::default();
        let script = Script(RefCell::new(readings.into_iter()));
        tally.stretch(&script, Duration::from_micros(10));
        assert_eq!(tally.sampled, Duration::from_nanos(10_200));
        assert_eq!(tally.lost, Duration::from_nanos(5_000 + 3_080));
        assert_eq!(tally.longest, Duration::from_micros(5));
        assert_eq!(tally.gaps.len(), 2);
    }

    #[test]
    fn samples_this_host_and_refuses_what_cannot_be() {
        let cpu = Cpu(tailbound_linux::thread::current_cpu().unwrap());
        let noise = noise(cpu, Duration::from_millis(20)).unwrap();
        assert!(noise.sampled >= Duration::from_millis(20));
        assert!(noise.longest <= noise.lost && noise.lost <= noise.sampled);
        assert!((0.0..=1.0).contains(&noise.share()));
        assert!(super::noise(cpu, Duration::ZERO).is_err());
        assert!(super::noise(Cpu(100_000), Duration::from_millis(1)).is_err());
    }
}
