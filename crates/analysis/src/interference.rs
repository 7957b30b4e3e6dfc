//! Interference as tasks of the highest priority with arbitrary arrival curves.
//!
//! A source takes the CPU for at most C each time, and at most e(w) times in any half-open window of length w; e is its
//! arrival curve. So all sources take at most I(w) = sum of e(w) C in the window, and a job below them is complete at
//! the least w with w = its own demand + I(w) + the demand of higher priorities in w: the response-time equation of
//! Joseph and Pandya 1986 and Audsley et al. 1993, with the arrival curve in place of ceil((w + J) / T). The equation
//! holds for any request bound: the busy period begins at an instant before which nothing of the level waits, and no
//! curve lets more come in a window that begins there (Tindell, Burns and Wellings 1994; Thiele, Chakraborty and
//! Naedele, *Real-time calculus*, 2000, for arbitrary curves).

mod host_interference;

use std::collections::BTreeMap;

pub use host_interference::HostInterference;
use serde::{Deserialize, Serialize};
use tailbound_model::{ArrivalCurve, Cpu, Host, Interference};
use tailbound_time::{Duration, Fraction};

use crate::interfaces::SupplyBound;

/// The method, with its sources.
pub const METHOD: &str = "interference as tasks of the highest priority by arrival curves (Audsley et al. 1993; Tindell, \
     Burns and Wellings 1994)";

/// Rates are rounded to parts of this.
const RATE_PARTS: u64 = 1 << 32;

/// The longest window that is followed: beyond it nothing is bounded.
const LONGEST_WINDOW_NS: u64 = 1 << 60;

/// The longest delay that is told: no horizon follows from a longer one.
const LONGEST_DELAY_NS: u64 = 1 << 56;

/// The most steps towards a fixed point.
const MOST_STEPS: u32 = 1_000_000;

/// `InterferenceBound` is what is known of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterferenceBound {
    /// The source, as the description names it.
    pub source: String,
    /// How many events there are in a window at most.
    pub curve: ArrivalCurve,
    /// How long an event takes the CPU at most.
    pub longest: Duration,
    /// Whether its time may be charged to the budget of the domain that runs meanwhile.
    pub may_use_budget: bool,
}

impl InterferenceBound {
    /// The bound of a described source.
    ///
    /// # Errors
    /// The source has none: what to describe.
    pub fn of(source: &Interference) -> Result<Self, String> {
        let name = &source.source;
        let curve = source.curve().ok_or_else(|| {
            format!(
                "the events of interference \"{name}\" may come arbitrarily close together; give its arrivals \
                 minimum distances"
            )
        })?;
        let longest = source.longest_event().ok_or_else(|| {
            format!(
                "how long an event of interference \"{name}\" takes at most is not known; give `longest`"
            )
        })?;
        Ok(Self {
            source: name.clone(),
            curve,
            longest,
            may_use_budget: source.kind.may_use_budget(),
        })
    }

    fn taken_in(&self, window: Duration) -> u128 {
        u128::from(self.curve.most_events(window)) * u128::from(self.longest.as_nanos())
    }

    /// In parts of [`RATE_PARTS`], rounded up.
    fn taken_rate(&self) -> u128 {
        let (events, length) = self.curve.rate();
        let taken = u128::from(events) * u128::from(self.longest.as_nanos());
        taken
            .saturating_mul(u128::from(RATE_PARTS))
            .div_ceil(u128::from(length.as_nanos()))
    }

    /// One event, and as many as one list of distances has.
    fn burst(&self) -> u128 {
        let (events, _) = self.curve.rate();
        u128::from(events) * u128::from(self.longest.as_nanos())
    }
}

/// `InterferenceSource` is a source of interference by every bound that descriptions give for it. Which of them is right
/// is not known, so the largest counts in each window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct InterferenceSource(Vec<InterferenceBound>);

impl InterferenceSource {
    fn name(&self) -> &str {
        self.0.first().map_or("", |bound| &bound.source)
    }

    fn largest(&self, of: impl Fn(&InterferenceBound) -> u128) -> u128 {
        self.0.iter().map(of).max().unwrap_or(0)
    }
}

/// `InterferenceLoad` is the interference on one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InterferenceLoad {
    sources: Vec<InterferenceSource>,
}

impl InterferenceLoad {
    /// The load of sources that are all on one CPU.
    pub fn of(sources: Vec<InterferenceBound>) -> Self {
        let sources = sources.into_iter();
        Self {
            sources: sources.map(|one| InterferenceSource(vec![one])).collect(),
        }
    }

    fn on(host: &Host, cpu: Cpu) -> Result<Self, String> {
        let sources = host.interference_on(cpu).map(InterferenceBound::of);
        Ok(Self::of(sources.collect::<Result<_, _>>()?))
    }

    /// The described interference on every CPU that has any, or why no bound of it is known.
    pub fn of_host(host: &Host) -> BTreeMap<Cpu, Result<Self, String>> {
        let cpus = host.interference.iter().map(|source| source.cpu);
        cpus.map(|cpu| (cpu, Self::on(host, cpu))).collect()
    }

    /// The sources of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.sources.extend(other.sources);
        self
    }

    /// Adds what another description says of the same CPU. Sources of the same name are the same source.
    fn include(&mut self, other: &Self) {
        for theirs in &other.sources {
            let mut own = self.sources.iter_mut();
            match own.find(|own| own.name() == theirs.name()) {
                None => self.sources.push(theirs.clone()),
                Some(own) => {
                    let new = theirs.0.iter().filter(|bound| !own.0.contains(bound));
                    let new: Vec<InterferenceBound> = new.cloned().collect();
                    own.0.extend(new);
                }
            }
        }
    }

    /// Whether there is no source.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// The names of the sources.
    pub fn names(&self) -> Vec<&str> {
        let sources = self.sources.iter();
        sources.map(InterferenceSource::name).collect()
    }

    /// The most CPU time that all sources take in a half-open window of that length; saturates.
    pub fn taken_in(&self, window: Duration) -> Duration {
        saturated(self.sum(|bound| bound.taken_in(window)))
    }

    /// The part of [`taken_in`](Self::taken_in) that may be charged to budgets.
    pub fn charged_in(&self, window: Duration) -> Duration {
        saturated(self.sum(|bound| match bound.may_use_budget {
            true => bound.taken_in(window),
            false => 0,
        }))
    }

    /// The sum over all sources of the largest value of the bounds of each; saturates.
    fn sum(&self, of: impl Fn(&InterferenceBound) -> u128) -> u128 {
        let each = self.sources.iter().map(|source| source.largest(&of));
        each.fold(0, u128::saturating_add)
    }

    /// The share of the CPU that sources leave in the long run, rounded down.
    pub fn left(&self) -> Fraction {
        Fraction::new(self.left_of(RATE_PARTS), RATE_PARTS)
    }

    /// The share of the CPU that it takes in the long run at most.
    pub fn share(&self) -> f64 {
        self.taken_rate() as f64 / RATE_PARTS as f64
    }

    /// In parts of [`RATE_PARTS`], rounded up.
    fn taken_rate(&self) -> u64 {
        u64::try_from(self.sum(InterferenceBound::taken_rate)).unwrap_or(u64::MAX)
    }

    /// The remainder of so many parts of [`RATE_PARTS`].
    fn left_of(&self, rate: u64) -> u64 {
        rate.saturating_sub(self.taken_rate())
    }

    /// Time that sources may take in a window beyond their rate: one event of each, and as many as one list of distances
    /// has.
    fn burst(&self) -> u128 {
        self.sum(InterferenceBound::burst)
    }
}

fn saturated(nanoseconds: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

/// `InterferedCpu` is what interference leaves of a CPU: sbf(t) is the largest value of w - I(w) over windows w up to t,
/// since in a window w all sources take I(w) at most.
///
/// The bound is for a CPU of its own, on which what sources take is lost and nothing else is. A reservation server, whose
/// budget passes unused, has its response time to the interference in place of it ([`crate::admission`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterferedCpu(pub InterferenceLoad);

impl SupplyBound for InterferedCpu {
    fn supplied_down(&self, window: Duration) -> Duration {
        let taken = self.0.taken_in(window);
        let (mut low, mut high) = (window.saturating_sub(taken).as_nanos(), window.as_nanos());
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match self.time_to_supply(Duration::from_nanos(middle)) <= window {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        Duration::from_nanos(low)
    }

    fn time_to_supply(&self, work: Duration) -> Duration {
        let mut window = work;
        for _ in 0..MOST_STEPS {
            let next = work.saturating_add(self.0.taken_in(window));
            if next <= window {
                return window;
            }
            if next.as_nanos() > LONGEST_WINDOW_NS {
                break;
            }
            window = next;
        }
        Duration::MAX
    }

    fn rate(&self) -> (u64, u64) {
        (self.0.left_of(RATE_PARTS), RATE_PARTS)
    }

    /// I(t) <= u t + b, so that sbf(t) >= (1 - u) t - b.
    fn delay_up(&self) -> Duration {
        let (left, parts) = self.rate();
        let burst = self.0.burst().saturating_mul(u128::from(parts));
        let delay = burst.div_ceil(u128::from(left.max(1)));
        Duration::from_nanos(
            u64::try_from(delay)
                .unwrap_or(u64::MAX)
                .min(LONGEST_DELAY_NS),
        )
    }

    /// No repetition is counted on: curves have periods of their own.
    fn repeats_after(&self) -> Duration {
        Duration::MAX
    }

    fn name(&self) -> &'static str {
        "what interference leaves of a CPU"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::SporadicTask;
    use crate::interfaces::response_bound::{of_lowest_priority, of_lowest_priority_blocked};
    use crate::interfaces::{ResponseBound, Workload};
    use crate::schedulability::PriorityOrder;
    use crate::schedulability::response_time::response_times;
    use proptest::prelude::*;

    fn ns(value: u64) -> Duration {
        Duration::from_nanos(value)
    }

    fn source(longest: u64, distances: &[u64]) -> InterferenceBound {
        let distances: Vec<Duration> = distances.iter().copied().map(ns).collect();
        InterferenceBound {
            source: "irq".into(),
            curve: ArrivalCurve::of_distances(&distances).unwrap(),
            longest: ns(longest),
            may_use_budget: true,
        }
    }

    fn load(sources: &[(u64, Vec<u64>)]) -> InterferenceLoad {
        let sources = sources.iter();
        InterferenceLoad::of(
            sources
                .map(|(longest, list)| source(*longest, list))
                .collect(),
        )
    }

    /// Everything as early as the curve allows after a common start, a tick at a time: when `work` is done.
    fn done_at(load: &InterferenceLoad, work: u64) -> u64 {
        let (mut left, mut waiting, mut at) = (work, 0, 0);
        while left > 0 {
            let come = |window| load.taken_in(ns(window)).as_nanos();
            waiting += come(at + 1) - come(at);
            match waiting {
                0 => left -= 1,
                _ => waiting -= 1,
            }
            at += 1;
        }
        at
    }

    proptest! {
        /// Periodic sources are tasks of the highest priority: the bound is the classic response time.
        #[test]
        fn periodic_sources_are_classic_tasks(
            sources in prop::collection::vec((1_u64..4, 10_u64..40), 1..4),
            own in (1_u64..12, 30_u64..80),
            blocking in 0_u64..5,
        ) {
            let described: Vec<_> = sources.iter().map(|(c, t)| (*c, vec![*t])).collect();
            let load = load(&described);
            let supply = InterferedCpu(load.clone());
            let task = SporadicTask::implicit(ns(own.0), ns(own.1)).unwrap();
            let bound = of_lowest_priority_blocked(
                &Workload::new(vec![task]).unwrap(), ns(blocking), &supply);
            let mut tasks: Vec<SporadicTask> = sources.iter()
                .map(|(c, t)| SporadicTask::implicit(ns(*c), ns(*t)).unwrap()).collect();
            tasks.push(task);
            let mut blocked = vec![Duration::ZERO; sources.len()];
            blocked.push(ns(blocking));
            let order = PriorityOrder::as_given(tasks.len());
            let classic = response_times(&tasks, &order, &blocked).unwrap();
            match (bound, classic.tasks.last().unwrap().response_time) {
                (Ok(ResponseBound::AtMost(bound)), Ok(exact)) => prop_assert_eq!(bound, exact),
                // A load of just the whole CPU is rounded away from it.
                (Ok(ResponseBound::Overloaded), _) | (Err(_), _) => {
                    let share: f64 = tasks.iter().map(|task| {
                        task.execution().as_secs_f64() / task.period().as_secs_f64()
                    }).sum();
                    prop_assert!(share > 0.999, "{}", share);
                }
                (bound, classic) => prop_assert!(false, "{:?} {:?}", bound, classic),
            }
        }

        #[test]
        fn supply_and_time_are_inverse_and_reached(
            sources in prop::collection::vec(
                (1_u64..5, prop::collection::vec(0_u64..40, 1..4)), 1..3),
            work in 1_u64..60,
        ) {
            let rising = |gaps: &Vec<u64>| {
                let mut at = 0;
                let mut list: Vec<u64> = gaps.iter().map(|gap| { at += gap; at }).collect();
                *list.last_mut().unwrap() += 20 * gaps.len() as u64;
                list
            };
            let sources: Vec<_> = sources.iter().map(|(c, gaps)| (*c, rising(gaps))).collect();
            let load = load(&sources);
            let supply = InterferedCpu(load.clone());
            let time = supply.time_to_supply(ns(work));
            prop_assert_eq!(time.as_nanos(), done_at(&load, work));
            prop_assert!(supply.supplied_down(time) >= ns(work));
            prop_assert!(supply.supplied_down(time - ns(1)) < ns(work));
            // The linear bound lies below.
            let (rate, parts) = supply.rate();
            let after = time.saturating_sub(supply.delay_up());
            let linear = u128::from(after.as_nanos()) * u128::from(rate) / u128::from(parts);
            prop_assert!(linear <= u128::from(supply.supplied_down(time).as_nanos()));
        }
    }

    #[test]
    fn a_source_that_fills_the_cpu_leaves_no_bound() {
        let load = load(&[(10, vec![10])]);
        let supply = InterferedCpu(load.clone());
        assert_eq!(supply.time_to_supply(ns(1)), Duration::MAX);
        let task = SporadicTask::implicit(ns(1), ns(100)).unwrap();
        let workload = Workload::new(vec![task]).unwrap();
        let bound = of_lowest_priority(&workload, &supply).unwrap();
        assert_eq!(bound, ResponseBound::Overloaded);
    }
}
