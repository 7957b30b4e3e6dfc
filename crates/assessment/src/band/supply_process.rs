//! The supply of a CPU as a process in time: when the host took the CPU away, and for how long.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Gamma};
use serde::{Deserialize, Serialize};
use tailbound_simulator::Stall;
use tailbound_time::{Duration, Instant, nanoseconds};

/// The longest stretch of recorded supply that is repeated as a whole: stalls within it keep their
/// distances, so that clusters stay clusters.
const BLOCK: Duration = Duration::from_secs(5);
/// The least number of blocks that a record is cut into.
const BLOCKS: u64 = 4;
/// Stalls with less than this between them are one cluster when it is counted how often they come.
const CLUSTER: Duration = Duration::from_millis(200);

/// A look at the clock that came late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateLook {
    /// When the look was due, since the begin of the record.
    #[serde(rename = "due_ns", with = "nanoseconds")]
    pub due: Duration,
    /// By how much it was late.
    #[serde(rename = "late_ns", with = "nanoseconds")]
    pub late: Duration,
}

/// The record of a sampler that looks at the clock at a fixed distance, above everything else on its CPU: a
/// look is late if the CPU was taken away when the look was due.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupplyProcess {
    /// How long the sampler looked.
    #[serde(rename = "span_ns", with = "nanoseconds")]
    pub span: Duration,
    /// The distance between looks.
    #[serde(rename = "distance_ns", with = "nanoseconds")]
    pub distance: Duration,
    /// The looks that came late, in order of time.
    pub late: Vec<LateLook>,
}

impl SupplyProcess {
    /// How often a stall comes that was seen at one look, and how long it is.
    ///
    /// A stall of length l is seen with probability min(1, l / d) at looks d apart, and what is left of it is
    /// uniform. So a look that is late by r stands for d / 2r stalls of 2r if 2r is shorter than d, else for
    /// one of r + d/2; the time lost is right on average in both cases (Horvitz and Thompson, JASA 47, 1952).
    fn stalls_behind(&self, look: &LateLook) -> (f64, Duration) {
        let twice = look.late * 2;
        if twice < self.distance {
            let weight = self.distance.as_secs_f64() / twice.as_secs_f64().max(1e-9);
            (weight, twice)
        } else {
            (1.0, look.late.saturating_add(self.distance / 2))
        }
    }

    /// The share of the time in which the CPU was taken away, from 0 to 1.
    pub fn lost_share(&self) -> f64 {
        if self.span.is_zero() {
            return 0.0;
        }
        let lost = self.late.iter().map(|look| {
            let (weight, length) = self.stalls_behind(look);
            weight * length.as_secs_f64()
        });
        // The sum of nothing is -0.0, which would be printed with its sign.
        (lost.sum::<f64>() / self.span.as_secs_f64()).clamp(0.0, 1.0) + 0.0
    }

    /// The longest delay of a look.
    pub fn longest(&self) -> Duration {
        let late = self.late.iter().map(|look| look.late);
        late.max().unwrap_or(Duration::ZERO)
    }

    /// Whether the CPU was taken away at some time between two instants, as far as it was seen; both since
    /// the begin of the record.
    pub fn lost_between(&self, from: Duration, until: Duration) -> bool {
        let first = self
            .late
            .partition_point(|look| look.due.saturating_add(look.late) < from);
        let next = self.late.get(first);
        next.is_some_and(|look| look.due <= until)
    }

    /// How many clusters of stalls there are.
    fn clusters(&self) -> usize {
        let mut end = None::<Duration>;
        let mut clusters = 0;
        for look in &self.late {
            if end.is_none_or(|end| look.due > end.saturating_add(CLUSTER)) {
                clusters += 1;
            }
            end = Some(look.due.saturating_add(look.late));
        }
        clusters
    }

    /// The stalls of a run up to `horizon` that was drawn: stretches of the record one after the other, and the
    /// intensity of all times a factor that is as uncertain as so few clusters leave it (gamma, by the
    /// prior of Jeffreys).
    pub(super) fn draw(&self, horizon: Duration, random: &mut ChaCha8Rng) -> Vec<Stall> {
        let clusters = self.clusters() as f64;
        if self.late.is_empty() || self.span.is_zero() {
            return Vec::new();
        }
        let intensity = Gamma::new(clusters + 0.5, 1.0 / clusters);
        let intensity = intensity.map_or(1.0, |gamma| gamma.sample(random));
        let block = BLOCK.min(self.span / BLOCKS).max(Duration::from_nanos(1));
        let mut stalls = Vec::new();
        let mut begin = Duration::ZERO;
        while begin < horizon {
            let latest = self.span.saturating_sub(block).as_nanos();
            let from = Duration::from_nanos(random.random_range(0..=latest));
            let until = from.saturating_add(block);
            let first = self.late.partition_point(|look| look.due < from);
            let inside = self.late[first..]
                .iter()
                .take_while(|look| look.due < until);
            for look in inside {
                let at = begin.saturating_add(look.due.saturating_sub(from));
                self.repeat(look, at, intensity, (begin, block), random, &mut stalls);
            }
            begin = begin.saturating_add(block);
        }
        stalls.sort_unstable();
        stalls
    }

    /// Adds the stalls that stand behind a look: one where it was, the others anywhere in the block.
    fn repeat(
        &self,
        look: &LateLook,
        at: Duration,
        intensity: f64,
        (begin, block): (Duration, Duration),
        random: &mut ChaCha8Rng,
        stalls: &mut Vec<Stall>,
    ) {
        let (weight, length) = self.stalls_behind(look);
        let expected = weight * intensity;
        let extra = random.random_bool(expected.fract());
        let count = expected.floor() as u64 + u64::from(extra);
        for index in 0..count {
            let at = match index {
                0 => at,
                _ => {
                    let offset = random.random_range(0..block.as_nanos().max(1));
                    begin.saturating_add(Duration::from_nanos(offset))
                }
            };
            let begin = Instant::ORIGIN.saturating_add(at);
            stalls.push(Stall { begin, length });
        }
    }
}
