//! The periodic tick in the gaps of a busy thread: a pure function of the gaps.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_time::{Duration, Instant, nanoseconds};

use super::series::Spread;

/// The rates that Linux can be built for (CONFIG_HZ of all its architectures), the fastest first.
const RATES_HZ: [u64; 14] = [
    1200, 1024, 1000, 512, 500, 300, 256, 250, 200, 128, 100, 64, 48, 24,
];
/// A tick is late by at most this share of its period, or this time if that is less.
const LATE_SHARE: u64 = 20;
const LATE_MOST: Duration = Duration::from_micros(50);
/// So many per cent of all ticks that a period predicts must be there.
const LEAST_COVERAGE_PER_CENT: u64 = 80;
/// Fewer predicted ticks say nothing.
const FEWEST_TICKS: u64 = 10;

/// A time in which a thread could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The last instant before.
    pub begin: Instant,
    /// To the first one after.
    pub length: Duration,
}

/// A time in which a thread looked for gaps without pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its begin.
    pub begin: Instant,
    /// Its end.
    pub end: Instant,
    /// Its gaps, in order.
    pub gaps: Vec<Gap>,
}

/// A tick that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PeriodicTick {
    /// From one tick to the next.
    #[serde(rename = "period_ns", with = "nanoseconds")]
    pub period: Duration,
    /// The lengths of the gaps that ticks made.
    pub gaps: Spread,
    /// How many ticks there should have been. The others were hidden by longer gaps, or are missing.
    pub expected: u64,
}

/// The tick with the shortest period of which at least 80% of the ticks are seen; `None` where there is
/// none.
///
/// A tick that falls into a gap that began before it, such as those that a hypervisor makes, is not
/// expected: it cannot be seen. Other gaps only matter where they are as regular as a tick. The phase is
/// looked for in each stretch by itself, so clocks may drift apart between stretches.
pub fn find_tick(stretches: &[Stretch]) -> Option<PeriodicTick> {
    RATES_HZ.iter().find_map(|rate_hz| {
        let period = Duration::from_nanos(1_000_000_000 / rate_hz);
        let mut lengths = Vec::new();
        let mut expected = 0;
        for stretch in stretches {
            let Some(grid) = best_grid(stretch, period) else {
                // Where nothing is seen, all that could be is missing.
                expected += grid_points(stretch, Duration::ZERO, period).len() as u64;
                continue;
            };
            let ticks = grid.ticks(stretch);
            expected += ticks.len() as u64 + grid.missing(stretch, &ticks);
            lengths.extend(ticks.into_values());
        }
        let seen = lengths.len() as u64;
        let enough = expected >= FEWEST_TICKS && seen * 100 >= expected * LEAST_COVERAGE_PER_CENT;
        let gaps = enough.then(|| Spread::of(lengths)).flatten()?;
        Some(PeriodicTick {
            period,
            gaps,
            expected,
        })
    })
}

/// Where the ticks of one stretch would be.
struct Grid {
    /// From the begin of the stretch to its first point.
    phase: Duration,
    period: Duration,
}

impl Grid {
    /// By the number of the point: the length of the gap that begins there; of several, the longest.
    fn ticks(&self, stretch: &Stretch) -> BTreeMap<u64, Duration> {
        let mut ticks = BTreeMap::new();
        for gap in &stretch.gaps {
            let since = gap.begin.saturating_since(stretch.begin);
            let Some(behind) = since.as_nanos().checked_sub(self.phase.as_nanos()) else {
                continue;
            };
            if behind % self.period.as_nanos() <= late(self.period).as_nanos() {
                let length = ticks.entry(behind / self.period.as_nanos()).or_default();
                *length = gap.length.max(*length);
            }
        }
        ticks
    }

    /// How many points have no tick although no gap hides them.
    fn missing(&self, stretch: &Stretch, ticks: &BTreeMap<u64, Duration>) -> u64 {
        let hidden = |at: Instant| {
            let before = stretch.gaps.partition_point(|gap| gap.begin < at);
            let gap = before.checked_sub(1).map(|place| &stretch.gaps[place]);
            gap.is_some_and(|gap| gap.begin.saturating_add(gap.length) >= at)
        };
        let points = grid_points(stretch, self.phase, self.period);
        let missing = (0..)
            .zip(points)
            .filter(|(number, at)| !ticks.contains_key(number) && !hidden(*at));
        missing.count() as u64
    }
}

fn late(period: Duration) -> Duration {
    period.scaled_down(1, LATE_SHARE).min(LATE_MOST)
}

/// The points of a grid in a stretch.
fn grid_points(stretch: &Stretch, phase: Duration, period: Duration) -> Vec<Instant> {
    let first = stretch.begin.saturating_add(phase);
    std::iter::successors(Some(first), |at| Some(at.saturating_add(period)))
        .take_while(|at| *at < stretch.end)
        .collect()
}

/// The grid of that period of which most points have a gap that begins there; of several, one with the
/// fewest that should and do not.
fn best_grid(stretch: &Stretch, period: Duration) -> Option<Grid> {
    let seen = points_seen(stretch, period);
    let most = seen.iter().map(|(_, points)| *points).max()?;
    let best = seen.iter().filter(|(_, points)| *points == most);
    let grids = best.map(|(phase, _)| Grid {
        phase: *phase,
        period,
    });
    grids.min_by_key(|grid| grid.missing(stretch, &grid.ticks(stretch)))
}

/// With the phase of each gap as a grid's, the number of its points that have a gap up to `late` behind.
fn points_seen(stretch: &Stretch, period: Duration) -> Vec<(Duration, usize)> {
    let places = stretch.gaps.iter().map(|gap| {
        let since_ns = gap.begin.saturating_since(stretch.begin).as_nanos();
        (since_ns % period.as_nanos(), since_ns / period.as_nanos())
    });
    let mut places: Vec<(u64, u64)> = places.collect();
    places.sort_unstable();
    let count = places.len();
    // Twice round, since what is behind the end of a period belongs to the point before.
    let place = |turn: usize| match turn < count {
        true => (places[turn].0, places[turn].1 + 1),
        false => {
            let (phase_ns, number) = places[turn - count];
            (phase_ns + period.as_nanos(), number)
        }
    };
    let mut within: BTreeMap<u64, usize> = BTreeMap::new();
    let mut next = 0;
    let mut seen = Vec::with_capacity(count);
    for first in 0..count {
        let (phase_ns, number) = place(first);
        while next < first + count && place(next).0 - phase_ns <= late(period).as_nanos() {
            *within.entry(place(next).1).or_default() += 1;
            next += 1;
        }
        seen.push((Duration::from_nanos(phase_ns), within.len()));
        match within.get_mut(&number) {
            Some(gaps) if *gaps > 1 => *gaps -= 1,
            _ => {
                within.remove(&number);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// Ticks of one stretch, with what else a machine does.
    struct Machine<'a> {
        rate_hz: u64,
        phase_ns: u64,
        cost_ns: u64,
        /// How late and how much longer each tick is, in turns.
        scatter_ns: &'a [u64],
        /// Begin and length of what else takes the CPU.
        others_ns: &'a [(u64, u64)],
    }

    impl Machine<'_> {
        fn stretch(&self, begin_ns: u64, length_ns: u64) -> Stretch {
            let period_ns = 1_000_000_000 / self.rate_hz;
            let end_ns = begin_ns + length_ns;
            let first = begin_ns.saturating_sub(self.phase_ns).div_ceil(period_ns);
            let ticks = (first..)
                .map(|number| self.phase_ns + number * period_ns)
                .take_while(|at| *at < end_ns);
            let scatter = self.scatter_ns.iter().cycle();
            let mut gaps_ns: Vec<(u64, u64)> = ticks
                .zip(scatter)
                .map(|(at, scatter)| (at + scatter, self.cost_ns + scatter / 4))
                .chain(
                    self.others_ns
                        .iter()
                        .map(|(at, length)| (begin_ns + at, *length)),
                )
                .collect();
            gaps_ns.sort_unstable();
            // What falls into a gap makes it longer; there is no gap in a gap.
            let mut merged: Vec<(u64, u64)> = Vec::new();
            for (at, length) in gaps_ns {
                match merged.last_mut() {
                    Some((begin, lasts)) if at < *begin + *lasts => *lasts += length,
                    _ => merged.push((at, length)),
                }
            }
            let gap = |(at, length): (u64, u64)| Gap {
                begin: Instant::from_nanos(at),
                length: Duration::from_nanos(length),
            };
            Stretch {
                begin: Instant::from_nanos(begin_ns),
                end: Instant::from_nanos(end_ns),
                gaps: merged.into_iter().map(gap).collect(),
            }
        }
    }

    #[test]
    fn without_a_tick_none_is_found() {
        let quiet = Stretch {
            begin: Instant::ORIGIN,
            end: Instant::from_nanos(500_000_000),
            gaps: Vec::new(),
        };
        assert_eq!(find_tick(std::slice::from_ref(&quiet)), None);
        assert_eq!(find_tick(&[]), None);
        let now_and_then = |place: u64| Gap {
            begin: Instant::from_nanos(place * place * 1_237_001),
            length: Duration::from_micros(3),
        };
        let irregular = Stretch {
            gaps: (1..20).map(now_and_then).collect(),
            ..quiet
        };
        assert_eq!(find_tick(&[irregular]), None);
    }

    proptest! {
        /// Whatever the rate, the phase and the cost, with jitter, with stalls that hide ticks and with
        /// other interrupts, the tick comes out: its period exactly, its cost within the jitter. (Of the
        /// slowest ticks a stretch has three or four, which a few other interrupts can look like.)
        #[test]
        fn a_known_tick_is_found(
            rate in proptest::sample::select(RATES_HZ[..11].to_vec()),
            phase_ns in 0_u64..10_000_000,
            cost_ns in 300_u64..20_000,
            scatter_ns in proptest::collection::vec(0_u64..4_000, 1..30),
            others in proptest::collection::vec((0_u64..160_000_000, 300_u64..30_000), 0..40),
            stall in (0_u64..100_000_000, 5_000_000_u64..50_000_000),
        ) {
            let mut others_ns = others;
            others_ns.push(stall);
            let machine = Machine {
                rate_hz: rate, phase_ns, cost_ns, scatter_ns: &scatter_ns, others_ns: &others_ns,
            };
            let stretches: Vec<Stretch> =
                (1..8).map(|turn| machine.stretch(turn * 203_000_001, 160_000_000)).collect();
            let tick = find_tick(&stretches).unwrap();
            prop_assert_eq!(tick.period.as_nanos(), 1_000_000_000 / rate);
            let median_ns = tick.gaps.median.as_nanos();
            prop_assert!((cost_ns..=cost_ns + 1_000).contains(&median_ns), "{median_ns}");
            prop_assert!(tick.gaps.count <= tick.expected);
        }
    }
}
