//! Random streams that depend on nothing but a seed, a name (of a task) and a number (of a client).

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_time::Duration;

/// What a stream is drawn for; the streams of one task are independent of each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Release times.
    Arrival,
    /// Execution times that the description defines.
    Execution,
    /// Execution times drawn from a given distribution.
    Redraw,
    /// Utilisations of a generated set of tasks.
    Utilisations,
    /// Their periods.
    Periods,
    /// Their deadlines.
    Deadlines,
    /// Their offsets.
    Offsets,
    /// How long after their arrival jobs become ready.
    Jitter,
    /// How long users think.
    Thought,
    /// Which sessions users choose.
    Session,
}

/// A random stream. The conversions from raw words are written out here, since those of a
/// library may change with its version, and with them every recorded run.
#[derive(Clone, Debug)]
pub(crate) struct RandomStream(ChaCha8Rng);

impl RandomStream {
    /// The stream of a task's client, or of a numbered set of tasks, for a purpose.
    pub(crate) fn of(seed: u64, name: &str, number: u32, purpose: Purpose) -> Self {
        let mut key = [0_u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&fnv1a(name.as_bytes()).to_le_bytes());
        key[16..20].copy_from_slice(&number.to_le_bytes());
        key[20] = purpose as u8;
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Uniform in (0, 1), never its ends: 53 random bits and half a step.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Exponential with mean 1, by inversion.
    pub(crate) fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Uniform from `low` to `high`, both included; `low` if they are reversed.
    pub(crate) fn uniform(&mut self, low: Duration, high: Duration) -> Duration {
        let span = high.saturating_sub(low).as_nanos();
        Duration::from_nanos(low.as_nanos() + self.scaled(u128::from(span) + 1))
    }

    /// Uniform below `count`; 0 if that is 0.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.scaled(u128::from(count))
    }

    /// Uniform below `count`, at most 2^64: multiplication and shift, whose bias of
    /// `count` / 2^64 is far below anything that a run can show.
    fn scaled(&mut self, count: u128) -> u64 {
        ((u128::from(self.0.next_u64()) * count) >> 64) as u64
    }
}

/// The 64-bit FNV-1a hash: stable across builds, unlike the standard library's.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
