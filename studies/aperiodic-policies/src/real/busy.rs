//! Work that takes a given CPU time.

use serde::{Deserialize, Serialize};
use tailbound_linux::clock::{Monotonic, thread_cpu_time};
use tailbound_time::{Clock, Duration, Instant};

/// The thread's CPU clock is read after at most so much work: a job ends at most this late when the
/// time is over, and a stall is seen.
const CHUNK: Duration = Duration::from_micros(50);
/// A chunk that takes so much more CPU time than it should was held up by what the thread's CPU clock
/// does not see: the hypervisor, or interrupts.
const STALL: Duration = Duration::from_micros(500);
/// What is no farther apart was one stay on the CPU: reading two clocks takes a moment, too.
const APART: Duration = Duration::from_micros(5);
/// How often the loop is timed; the shortest counts, for whatever else there is only prolongs it.
const CALIBRATIONS: u32 = 30;
/// The iterations of one timing.
const CALIBRATION_ITERATIONS: u64 = 200_000;

/// How long the loop takes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct BusyWork {
    /// Iterations per microsecond.
    pub iterations_per_us: f64,
    /// What it takes to read the thread's CPU clock.
    pub clock: Duration,
}

/// Time that was charged to a thread in which it did not get on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// All together.
    pub lost_ns: u64,
}

impl Stalls {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            lost_ns: self.lost_ns + other.lost_ns,
        }
    }
}

/// What a thread leaves behind of its work.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    /// What held it up on the CPU.
    pub stalls: Stalls,
    /// When it had the CPU, on CLOCK_MONOTONIC, in order of time. Where it lost the CPU within a chunk, the
    /// chunk's CPU time counts as the last of it.
    pub on_cpu: Vec<(u64, u64)>,
}

impl Trail {
    fn ran(&mut self, from: Instant, until: Instant, used: Duration) {
        let until_ns = until.as_nanos();
        let from_ns = from
            .as_nanos()
            .max(until_ns.saturating_sub(used.as_nanos()));
        match self.on_cpu.last_mut() {
            Some(last) if last.1 + APART.as_nanos() >= from_ns => last.1 = until_ns,
            _ => self.on_cpu.push((from_ns, until_ns)),
        }
    }
}

impl BusyWork {
    /// Times the loop on the calling thread, whose CPU and priority are to be those of the work.
    pub fn calibrate() -> Self {
        let mut shortest = (Duration::MAX, Duration::MAX);
        for _ in 0..CALIBRATIONS {
            let begin = thread_cpu_time();
            spin(CALIBRATION_ITERATIONS);
            let spun = thread_cpu_time();
            for _ in 0..16 {
                std::hint::black_box(thread_cpu_time());
            }
            let clocks = thread_cpu_time().saturating_sub(spun);
            shortest.0 = shortest.0.min(spun.saturating_sub(begin));
            shortest.1 = shortest.1.min(clocks / 17);
        }
        let (spun, clock) = shortest;
        Self {
            iterations_per_us: CALIBRATION_ITERATIONS as f64
                / spun.saturating_sub(clock).as_micros_f64(),
            clock,
        }
    }

    /// Works until the calling thread has used `work` more of the CPU, or it is `end`
    /// (CLOCK_MONOTONIC). Returns when it was done; nothing if the time was over before.
    pub fn run(&self, work: Duration, end: Instant, trail: &mut Trail) -> Option<Instant> {
        let begin = thread_cpu_time();
        let (mut before, mut from) = (begin, Monotonic.now());
        loop {
            let left = work.saturating_sub(before.saturating_sub(begin));
            if left <= self.clock {
                return Some(from);
            }
            if from >= end {
                return None;
            }
            let chunk = left.saturating_sub(self.clock).min(CHUNK);
            spin((chunk.as_micros_f64() * self.iterations_per_us) as u64);
            let (now, until) = (thread_cpu_time(), Monotonic.now());
            let used = now.saturating_sub(before);
            trail.ran(from, until, used);
            let longer = used.saturating_sub(chunk);
            if longer >= STALL {
                trail.stalls.count += 1;
                trail.stalls.lost_ns += longer.as_nanos();
            }
            (before, from) = (now, until);
        }
    }
}

fn spin(iterations: u64) {
    let mut value = iterations;
    for _ in 0..iterations {
        value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005) | 1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn work_takes_its_cpu_time_and_stops_when_time_is_over() {
        let busy = BusyWork::calibrate();
        assert!(busy.iterations_per_us > 0.0 && busy.clock > Duration::ZERO);
        let mut trail = Trail::default();
        let begin = thread_cpu_time();
        let work = Duration::from_millis(5);
        let far = Instant::from_nanos(u64::MAX);
        busy.run(work, far, &mut trail).unwrap();
        assert!(thread_cpu_time().saturating_sub(begin) + busy.clock >= work);
        let over = Monotonic.now();
        assert_eq!(busy.run(work, over, &mut trail), None);
    }

    #[test]
    fn a_trail_has_no_time_without_the_cpu() {
        let at = |us: u64| Instant::from_nanos(1000 * us);
        let used = Duration::from_micros(50);
        let mut trail = Trail::default();
        trail.ran(at(100), at(150), used);
        // The second begins where the first ends; before the third another one had the CPU.
        trail.ran(at(150), at(201), used);
        trail.ran(at(201), at(400), used);
        assert_eq!(trail.on_cpu, [(100_000, 201_000), (350_000, 400_000)]);
    }
}
