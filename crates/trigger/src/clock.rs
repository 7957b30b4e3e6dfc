//! The clock of events, and its conversion to CLOCK_MONOTONIC, by which the kernel's events are stamped.

/// The clock that stamps events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClock {
    /// CLOCK_MONOTONIC, in nanoseconds.
    Monotonic,
    /// The time stamp counter of x86-64, where it runs at one rate in every state of the processor.
    TimeStampCounter,
}

impl EventClock {
    /// The fastest clock of this machine that keeps one rate.
    pub fn of_this_machine() -> Self {
        if has_invariant_counter() {
            Self::TimeStampCounter
        } else {
            Self::Monotonic
        }
    }

    /// Its number in a recording.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Monotonic => 0,
            Self::TimeStampCounter => 1,
        }
    }

    pub(crate) fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Monotonic),
            1 => Some(Self::TimeStampCounter),
            _ => None,
        }
    }

    /// The instant, in the unit of the clock.
    #[inline]
    pub fn now(self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 processor has the instruction.
            Self::TimeStampCounter => unsafe { std::arch::x86_64::_rdtsc() },
            _ => monotonic_ns(),
        }
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Whether the processor promises a time stamp counter of one rate (CPUID 8000_0007h, EDX bit 8).
fn has_invariant_counter() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The two clocks read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// The event clock.
    pub event: u64,
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub monotonic_ns: u64,
    /// The time between the readings of CLOCK_MONOTONIC around the event clock, in nanoseconds: neither clock is
    /// off by more than half of it.
    pub width_ns: u64,
}

impl ClockPair {
    /// The pair of least width of several readings.
    pub fn sample(clock: EventClock) -> Self {
        let reading = || {
            let before = monotonic_ns();
            let event = clock.now();
            let width_ns = monotonic_ns() - before;
            Self {
                event,
                monotonic_ns: before + width_ns / 2,
                width_ns,
            }
        };
        let first = reading();
        (0..16).fold(first, |best, _| {
            let next = reading();
            if next.width_ns < best.width_ns {
                next
            } else {
                best
            }
        })
    }
}

/// The conversion of instants of the event clock to CLOCK_MONOTONIC: a straight line between any two pairs that follow
/// each other, since the kernel may change the rate of CLOCK_MONOTONIC (adjtimex), and the lines at the ends beyond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockConversion {
    pairs: Vec<ClockPair>,
}

impl ClockConversion {
    /// The conversion by `pairs`, of which those that do not follow their predecessors on both clocks are left out.
    pub fn new(pairs: &[ClockPair]) -> Self {
        let mut conversion = Self { pairs: Vec::new() };
        for pair in pairs {
            conversion.add(*pair);
        }
        conversion
    }

    /// Adds a pair, unless one of its readings does not follow that of the last pair.
    pub fn add(&mut self, pair: ClockPair) {
        let follows =
            |last: &ClockPair| pair.event > last.event && pair.monotonic_ns > last.monotonic_ns;
        if self.pairs.last().is_none_or(follows) {
            self.pairs.push(pair);
        }
    }

    /// The instant on CLOCK_MONOTONIC, in nanoseconds; `event` itself without two pairs.
    pub fn monotonic_ns(&self, event: u64) -> u64 {
        let after = self.pairs.partition_point(|pair| pair.event <= event);
        let first = after
            .saturating_sub(1)
            .min(self.pairs.len().saturating_sub(2));
        match self.pairs.get(first..first + 2) {
            Some([from, to]) => between(*from, *to, event),
            _ => event,
        }
    }

    /// The bound of the error of [`Self::monotonic_ns`] between the first pair and the last one, in nanoseconds.
    ///
    /// Half of the greatest width, and the greatest distance of a pair from the line between its neighbours: how far
    /// the rates moved against each other within two intervals of pairs. The counters of different CPUs are assumed
    /// to agree, which the kernel checks where it keeps time by them. With two pairs the distance is not known.
    pub fn error_ns(&self) -> u64 {
        let width = self
            .pairs
            .iter()
            .map(|pair| pair.width_ns)
            .max()
            .unwrap_or(0);
        let distances = self.pairs.windows(3).map(|three| {
            between(three[0], three[2], three[1].event).abs_diff(three[1].monotonic_ns)
        });
        width
            .div_ceil(2)
            .saturating_add(distances.max().unwrap_or(0))
    }
}

fn between(from: ClockPair, to: ClockPair, event: u64) -> u64 {
    let rise = i128::from(to.monotonic_ns) - i128::from(from.monotonic_ns);
    let run = i128::from(to.event) - i128::from(from.event);
    let offset = i128::from(event) - i128::from(from.event);
    // Readings are far from the range; those of a garbled recording are not.
    let instant = i128::from(from.monotonic_ns) + offset.saturating_mul(rise) / run;
    instant.clamp(0, i128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(event: u64, monotonic_ns: u64, width_ns: u64) -> ClockPair {
        ClockPair {
            event,
            monotonic_ns,
            width_ns,
        }
    }

    #[test]
    fn instants_lie_on_the_lines_between_pairs() {
        let pairs = [
            pair(1_000, 500, 20),
            pair(3_000, 1_500, 40),
            pair(5_000, 2_700, 10),
        ];
        let conversion = ClockConversion::new(&pairs);
        for (event, expected) in [
            (0, 0),
            (2_000, 1_000),
            (3_000, 1_500),
            (4_000, 2_100),
            (6_000, 3_300),
        ] {
            assert_eq!(conversion.monotonic_ns(event), expected, "{event}");
        }
        // Half of 40, and 1,600 on the line from the first pair to the last one against 1,500.
        assert_eq!(conversion.error_ns(), 20 + 100);
    }

    #[test]
    fn a_pair_that_goes_back_is_left_out() {
        let pairs = [
            pair(10, 10, 0),
            pair(5, 20, 0),
            pair(20, 5, 0),
            pair(30, 30, 0),
        ];
        assert_eq!(ClockConversion::new(&pairs).pairs, [pairs[0], pairs[3]]);
    }

    #[test]
    fn this_machine_s_clock_goes_with_the_kernel_s() {
        let clock = EventClock::of_this_machine();
        let pairs: Vec<_> = (0..5).map(|_| ClockPair::sample(clock)).collect();
        let conversion = ClockConversion::new(&pairs);
        let before = monotonic_ns();
        let event = clock.now();
        let after = monotonic_ns();
        let last = ClockPair::sample(clock);
        let full = ClockConversion::new(&[pairs[0], last]);
        let (instant, slack) = (
            full.monotonic_ns(event),
            full.error_ns() + conversion.error_ns(),
        );
        assert!(
            before <= instant + slack && instant <= after + slack,
            "{before} {instant} {after}"
        );
    }

    proptest! {
        #[test]
        fn order_is_kept_and_any_pairs_are_taken(
            numbers in proptest::collection::vec(any::<[u64; 3]>(), 0..6),
            mut events in any::<[u64; 2]>(),
        ) {
            let pairs: Vec<_> = numbers.iter().map(|n| pair(n[0], n[1], n[2] >> 2)).collect();
            let conversion = ClockConversion::new(&pairs);
            events.sort_unstable();
            let [early, late] = events.map(|event| conversion.monotonic_ns(event));
            prop_assert!(early <= late);
            conversion.error_ns();
        }
    }
}
