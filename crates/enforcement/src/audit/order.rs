//! The order that the threads of a domain keep among themselves: which priority each has in the domain's band.
//!
//! A reservation makes every thread of a domain a real-time one. What they were before still says who of them is to
//! come first: those that were real-time threads already, in their order; below them the ordinary ones, which take
//! turns. A decision without a kernel or a clock.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use tailbound_linux::process::RunTimes;
use tailbound_time::Duration;

/// An ordinary thread is busy that used at least one part in so many of what the domain was due, and otherwise kept
/// waiting if it was ready to run for such a part.
const NOTED_PART: u64 = 4;
/// The widest band, the domain's own priority included.
const WIDEST: u8 = 8;
/// Levels for ordinary threads: one for those that seldom run and for one whose turn it is, and below it one for the
/// others.
const ORDINARY_LEVELS: u8 = 2;

/// The priorities that the threads of a domain may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// The highest: that of the domain.
    pub highest: u8,
    /// The lowest.
    pub lowest: u8,
}

impl Band {
    /// The band of a domain of priority `highest`, where domains of the priorities `others` have a CPU in common with
    /// it: it ends above the next lower one, so that no thread of a domain waits for one of a lower domain.
    pub fn below(highest: u8, others: impl IntoIterator<Item = u8>) -> Self {
        let widest = highest.saturating_sub(WIDEST - 1).max(1);
        let next = others.into_iter().filter(|other| *other < highest).max();
        let lowest = next.map_or(widest, |next| widest.max(next + 1));
        Self { highest, lowest }
    }

    fn width(self) -> u8 {
        self.highest - self.lowest + 1
    }
}

/// What speaks for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is a real-time thread of this priority by itself.
    RealTime(u8),
    /// It is an ordinary thread.
    Ordinary(CpuDemand),
}

/// What an ordinary thread wants of the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuDemand {
    /// It seldom runs.
    #[default]
    Seldom,
    /// It has just used a good part of the budget.
    Met,
    /// It has been kept waiting so long.
    Waiting(Duration),
}

impl CpuDemand {
    /// The demand of a thread that used and waited for so much since the last look, in which the domain was due so much.
    pub fn after(self, since: RunTimes, due: Duration) -> Self {
        let is_noted = |time: Duration| time > Duration::ZERO && time * NOTED_PART >= due;
        let before = match self {
            Self::Waiting(time) => time,
            Self::Seldom | Self::Met => Duration::ZERO,
        };
        if is_noted(since.used) {
            Self::Met
        } else if is_noted(since.waited) {
            Self::Waiting(before.saturating_add(since.waited))
        } else {
            Self::Seldom
        }
    }
}

/// The priority of each thread, in the order of `claims`.
///
/// Of the ordinary threads that were kept waiting, the one that waited longest comes before those that ran, so that busy
/// threads take turns of the time between two looks. It cannot be left to the queue of a priority: who is stopped and
/// continued is queued anew, in the same order each time. Where the band is too narrow for all, the ordinary threads
/// share a level first, and then the lowest of the real-time ones.
pub fn priorities(band: Band, claims: &[Claim]) -> Vec<u8> {
    let real_time: BTreeSet<u8> = claims.iter().filter_map(own_priority).collect();
    let ordinary = claims
        .iter()
        .filter(|claim| own_priority(claim).is_none())
        .count();
    // One has nobody to take turns with.
    let wanted = ORDINARY_LEVELS.min(u8::try_from(ordinary).unwrap_or(u8::MAX));
    let kept_for_real_time = u8::from(!real_time.is_empty());
    let for_ordinary = wanted.min(band.width().saturating_sub(kept_for_real_time));
    let for_real_time = u8::try_from(real_time.len()).unwrap_or(u8::MAX);
    let for_real_time = for_real_time.min(band.width() - for_ordinary);
    let waiting = claims.iter().map(|claim| match claim {
        Claim::Ordinary(CpuDemand::Waiting(time)) => Some(*time),
        _ => None,
    });
    let next = waiting.enumerate().filter(|(_, time)| time.is_some());
    // The first of those that waited equally long.
    let next = next.max_by_key(|(place, time)| (*time, Reverse(*place)));
    let next = next.map(|(place, _)| place);
    let level = |(place, claim): (usize, &Claim)| match *claim {
        Claim::RealTime(own) => {
            let above = real_time.iter().filter(|one| **one > own).count();
            let above = u8::try_from(above).unwrap_or(u8::MAX);
            above.min(for_real_time.saturating_sub(1))
        }
        Claim::Ordinary(demand) => {
            let comes_first = demand == CpuDemand::Seldom || Some(place) == next;
            let lowered = !comes_first && for_ordinary == ORDINARY_LEVELS;
            (for_real_time + u8::from(lowered)).min(band.width() - 1)
        }
    };
    let claims = claims.iter().enumerate();
    let priorities: Vec<u8> = claims.map(|claim| band.highest - level(claim)).collect();
    debug_assert!(
        priorities
            .iter()
            .all(|one| (band.lowest..=band.highest).contains(one)),
        "every thread stays in the domain's band"
    );
    priorities
}

fn own_priority(claim: &Claim) -> Option<u8> {
    match claim {
        Claim::RealTime(own) => Some(*own),
        Claim::Ordinary(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WIDE: Band = Band {
        highest: 50,
        lowest: 43,
    };
    const SELDOM: Claim = Claim::Ordinary(CpuDemand::Seldom);
    const MET: Claim = Claim::Ordinary(CpuDemand::Met);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn waiting(count: u64) -> Claim {
        Claim::Ordinary(CpuDemand::Waiting(ms(count)))
    }

    #[test]
    fn a_thread_alone_has_the_priority_of_the_domain() {
        for claim in [SELDOM, MET, waiting(4), Claim::RealTime(10)] {
            assert_eq!(priorities(WIDE, &[claim]), [50]);
        }
    }

    #[test]
    fn real_time_threads_come_before_ordinary_ones_in_their_own_order() {
        let claims = [
            MET,
            Claim::RealTime(10),
            Claim::RealTime(80),
            SELDOM,
            Claim::RealTime(10),
        ];
        assert_eq!(priorities(WIDE, &claims), [47, 49, 50, 48, 49]);
    }

    #[test]
    fn who_waited_longest_is_next() {
        assert_eq!(
            priorities(WIDE, &[MET, waiting(4), waiting(8), SELDOM]),
            [49, 49, 50, 50]
        );
        assert_eq!(
            priorities(WIDE, &[waiting(4), waiting(4), MET]),
            [50, 49, 49]
        );
        assert_eq!(priorities(WIDE, &[MET, MET]), [49, 49]);
    }

    #[test]
    fn a_demand_is_met_or_waits_or_is_seldom() {
        let since = |used, waited| RunTimes {
            used: ms(used),
            waited: ms(waited),
        };
        let after = |before: CpuDemand, used, waited| before.after(since(used, waited), ms(8));
        assert_eq!(after(CpuDemand::Seldom, 2, 8), CpuDemand::Met);
        assert_eq!(after(CpuDemand::Seldom, 1, 1), CpuDemand::Seldom);
        assert_eq!(after(CpuDemand::Met, 1, 7), CpuDemand::Waiting(ms(7)));
        assert_eq!(
            after(CpuDemand::Waiting(ms(7)), 0, 8),
            CpuDemand::Waiting(ms(15))
        );
        assert_eq!(
            after(CpuDemand::Waiting(ms(7)), 0, 1),
            CpuDemand::Seldom,
            "it does not want to run any more"
        );
        // Nothing was due, and nothing used.
        assert_eq!(
            CpuDemand::Met.after(since(0, 0), Duration::ZERO),
            CpuDemand::Seldom
        );
    }

    #[test]
    fn a_narrow_band_keeps_what_order_it_can() {
        let claims = [Claim::RealTime(30), Claim::RealTime(20), SELDOM, MET];
        let of_width = |width: u8| {
            priorities(
                Band {
                    highest: 50,
                    lowest: 51 - width,
                },
                &claims,
            )
        };
        assert_eq!(of_width(4), [50, 49, 48, 47]);
        assert_eq!(
            of_width(3),
            [50, 50, 49, 48],
            "real-time threads share a level"
        );
        assert_eq!(of_width(2), [50, 50, 49, 49], "and so do ordinary ones");
        assert_eq!(of_width(1), [50, 50, 50, 50]);
    }

    #[test]
    fn a_band_ends_above_the_next_lower_domain() {
        assert_eq!(Band::below(50, []), WIDE);
        assert_eq!(
            Band::below(50, [20, 60, 50, 47]),
            Band {
                highest: 50,
                lowest: 48
            }
        );
        assert_eq!(
            Band::below(50, [49]),
            Band {
                highest: 50,
                lowest: 50
            }
        );
        assert_eq!(
            Band::below(3, []),
            Band {
                highest: 3,
                lowest: 1
            }
        );
    }

    fn any_claim() -> impl Strategy<Value = Claim> {
        prop_oneof![
            (1_u8..=99).prop_map(Claim::RealTime),
            Just(SELDOM),
            Just(MET),
            (0_u64..=8).prop_map(waiting),
        ]
    }

    proptest! {
        #[test]
        fn no_order_is_ever_turned_round(
            claims in prop::collection::vec(any_claim(), 0..12), width in 1_u8..=8,
        ) {
            let band = Band { highest: 50, lowest: 51 - width };
            let given = priorities(band, &claims);
            for (one, of_one) in claims.iter().zip(&given) {
                prop_assert!((band.lowest..=band.highest).contains(of_one));
                for (other, of_other) in claims.iter().zip(&given) {
                    let comes_first = match (one, other) {
                        (Claim::RealTime(one), Claim::RealTime(other)) => one > other,
                        (Claim::RealTime(_), Claim::Ordinary(_)) => true,
                        (Claim::Ordinary(one), Claim::Ordinary(other)) => match (one, other) {
                            (CpuDemand::Waiting(one), CpuDemand::Waiting(other)) => one > other,
                            (CpuDemand::Seldom, _) | (_, CpuDemand::Met) => true,
                            _ => false,
                        },
                        (Claim::Ordinary(_), Claim::RealTime(_)) => false,
                    };
                    if comes_first {
                        prop_assert!(of_one >= of_other, "{one:?} {of_one} {other:?} {of_other}");
                    }
                    let mixed = matches!((one, other), (Claim::RealTime(_), Claim::Ordinary(_)));
                    prop_assert!(!mixed || width == 1 || of_one > of_other);
                }
            }
        }

        /// Whatever order a stopped group is queued in, each of its busy threads has its turn.
        #[test]
        fn every_busy_thread_has_its_turn(count in 2_usize..12, queued in any::<prop::sample::Index>()) {
            let due = ms(8);
            let mut demands = vec![CpuDemand::Seldom; count];
            let mut runs = vec![0_usize; count];
            for _ in 0..count * 3 {
                let claims: Vec<Claim> = demands.iter().copied().map(Claim::Ordinary).collect();
                let given = priorities(WIDE, &claims);
                let highest = given.iter().max().copied().unwrap_or_default();
                // The one queued first of those of the highest priority.
                let rotated = (0..count).map(|place| (place + queued.index(count)) % count);
                let running = rotated.into_iter().find(|place| given[*place] == highest).unwrap_or_default();
                runs[running] += 1;
                for (place, demand) in demands.iter_mut().enumerate() {
                    let (used, waited) = match place == running {
                        true => (due, Duration::ZERO),
                        false => (Duration::ZERO, due),
                    };
                    *demand = demand.after(RunTimes { used, waited }, due);
                }
            }
            prop_assert!(runs.iter().all(|runs| *runs >= 2), "{runs:?}");
        }
    }
}
