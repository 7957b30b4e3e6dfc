//! The bounds of mode changes against changes carried out step by step, with replenishments and
//! answers at arbitrary times.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tailbound_analysis::transitions::{
    BandwidthChange, DomainBandwidths, DomainBound, HostCpu, TransitionBound, steps, transitions,
};
use tailbound_model::{Bandwidth, ChangePolicy, Cpu, ModeChanges, TaskStart};
use tailbound_time::Duration;

/// All periods divide it, so that bandwidths are whole parts of it.
const WHOLE: u64 = 120;
const PERIODS: [u64; 6] = [4, 5, 6, 8, 10, 12];
const CPUS: u32 = 2;
/// What the agents take of each CPU, in parts of the whole.
const OF_AGENTS: u64 = 6;
const POLICIES: [ChangePolicy; 5] = [
    ChangePolicy::Sequential,
    ChangePolicy::Batch,
    ChangePolicy::Greedy,
    ChangePolicy::Boost,
    ChangePolicy::Prompt,
];

/// A domain in ticks of a nanosecond, and what chance makes of it.
#[derive(Clone, Debug)]
struct Drawn {
    cpus: Vec<u32>,
    before: (u64, u64),
    after: (u64, u64),
    tasks_change: bool,
    has_agent: bool,
    /// The phase of its replenishments.
    phase: u64,
    /// How long its agent takes.
    answer: u64,
}

impl Drawn {
    fn parts(&self) -> (u64, u64) {
        let parts = |(budget, period): (u64, u64)| budget * WHOLE / period;
        (parts(self.before), parts(self.after))
    }

    fn direction(&self) -> Option<BandwidthChange> {
        let (before, after) = self.parts();
        match after.cmp(&before) {
            _ if self.before == self.after => {
                self.tasks_change.then_some(BandwidthChange::TasksOnly)
            }
            std::cmp::Ordering::Less => Some(BandwidthChange::Decrease),
            std::cmp::Ordering::Greater => Some(BandwidthChange::Increase),
            std::cmp::Ordering::Equal => Some(BandwidthChange::SameBandwidth),
        }
    }

    fn change(&self, number: usize) -> DomainBandwidths {
        let bandwidth = |(budget, period)| Bandwidth::new(ns(budget), ns(period));
        let direction = self.direction();
        let moves = direction.is_some_and(|direction| direction != BandwidthChange::TasksOnly);
        DomainBandwidths {
            domain: number.to_string(),
            cpus: self.cpus.iter().map(|cpu| on(*cpu)).collect(),
            before: bandwidth(self.before),
            after: bandwidth(self.after),
            direction: direction.unwrap_or(BandwidthChange::TasksOnly),
            period: if moves {
                ns(self.before.1)
            } else {
                Duration::ZERO
            },
            has_agent: self.has_agent && direction.is_some(),
        }
    }

    /// The first replenishment after an instant.
    fn replenished(&self, after: u64) -> u64 {
        let period = self.before.1;
        let phase = self.phase % period;
        (0..)
            .map(|k| phase + k * period)
            .find(|at| *at > after)
            .unwrap()
    }
}

fn ns(ticks: u64) -> Duration {
    Duration::from_nanos(ticks)
}

fn on(cpu: u32) -> HostCpu {
    ("here".into(), Cpu(cpu))
}

/// When a domain is begun with, free of what it gives up, and done with.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    begun: Option<u64>,
    in_force: Option<u64>,
    done: Option<u64>,
}

/// Carries out a change tick by tick. Panics if a CPU is ever above 1.
struct Rehearsal<'a> {
    domains: &'a [Drawn],
    start: TaskStart,
    times: Vec<Times>,
}

impl Rehearsal<'_> {
    fn begin(&mut self, index: usize, now: u64) {
        let drawn = &self.domains[index];
        let answer = if drawn.has_agent { drawn.answer } else { 0 };
        let (in_force, done) = match (drawn.direction().unwrap(), self.start) {
            (BandwidthChange::TasksOnly, _) => (now, now + answer),
            (BandwidthChange::Decrease | BandwidthChange::SameBandwidth, _) => {
                let at = drawn.replenished(now + answer);
                (at, at)
            }
            (BandwidthChange::Increase, TaskStart::InForce) => {
                let at = drawn.replenished(now);
                (at, at + answer)
            }
            (BandwidthChange::Increase, TaskStart::Accepted) => {
                let at = drawn.replenished(now);
                (at, at.max(now + answer))
            }
        };
        self.times[index] = Times {
            begun: Some(now),
            in_force: Some(in_force),
            done: Some(done),
        };
    }

    /// What a domain counts with at an instant.
    fn counts(&self, index: usize, now: u64) -> u64 {
        let (before, after) = self.domains[index].parts();
        let times = self.times[index];
        let is_told = times.begun.is_some();
        let is_in_force = times.in_force.is_some_and(|at| at <= now);
        let is_new = if after > before { is_told } else { is_in_force };
        if is_new { after } else { before }
    }

    fn sum(&self, cpu: u32, now: u64) -> u64 {
        let here = (0..self.domains.len()).filter(|i| self.domains[*i].cpus.contains(&cpu));
        OF_AGENTS + here.map(|index| self.counts(index, now)).sum::<u64>()
    }

    fn has_room(&self, index: usize, now: u64) -> bool {
        let (before, after) = self.domains[index].parts();
        let mut cpus = self.domains[index].cpus.iter();
        cpus.all(|cpu| self.sum(*cpu, now) - before + after <= WHOLE)
    }

    fn is_done(&self, index: usize, now: u64) -> bool {
        self.times[index].done.is_some_and(|at| at <= now)
    }

    /// Which of the domains that wait may be begun with now, the first one.
    fn next(&self, policy: ChangePolicy, order: &[usize], now: u64) -> Option<usize> {
        let waits = |index: &usize| self.times[*index].begun.is_none();
        let grows =
            |index: usize| self.domains[index].direction() == Some(BandwidthChange::Increase);
        let others_done = || {
            let mut others = order.iter().filter(|index| !grows(**index));
            others.all(|index| self.is_done(*index, now))
        };
        let mut waiting = order.iter().copied().filter(waits);
        match policy {
            ChangePolicy::Sequential | ChangePolicy::Boost => {
                let mut begun = order.iter().filter(|index| !waits(index));
                waiting
                    .next()
                    .filter(|_| begun.all(|index| self.is_done(*index, now)))
            }
            ChangePolicy::Batch => waiting.find(|index| !grows(*index) || others_done()),
            ChangePolicy::Greedy | ChangePolicy::Prompt => {
                waiting.find(|index| !grows(*index) || self.has_room(*index, now))
            }
        }
    }
}

fn rehearse(domains: &[Drawn], policy: ChangePolicy, start: TaskStart) -> Vec<Times> {
    let mut rehearsal = Rehearsal {
        domains,
        start,
        times: vec![Times::default(); domains.len()],
    };
    let changing = |index: &usize| {
        let drawn = &domains[*index];
        drawn
            .direction()
            .is_some_and(|direction| direction != BandwidthChange::TasksOnly || drawn.has_agent)
    };
    let mut order: Vec<usize> = (0..domains.len()).filter(changing).collect();
    order.sort_by_key(|index| {
        let (before, after) = domains[*index].parts();
        after as i64 - before as i64
    });
    for now in 0..10_000 {
        while let Some(index) = rehearsal.next(policy, &order, now) {
            rehearsal.begin(index, now);
        }
        for cpu in 0..CPUS {
            assert!(
                rehearsal.sum(cpu, now) <= WHOLE,
                "CPU {cpu} at {now}: {domains:?}"
            );
        }
        if order.iter().all(|index| rehearsal.is_done(*index, now)) {
            return rehearsal.times;
        }
    }
    panic!("it never ends: {domains:?}");
}

/// Those of the domains with which both modes fit.
fn fitting(drawn: Vec<Drawn>) -> Vec<Drawn> {
    let mut kept: Vec<Drawn> = Vec::new();
    for one in drawn {
        let fits = |of: fn(&Drawn) -> u64| {
            let sum = |cpu: &u32| {
                let here = kept.iter().filter(|other| other.cpus.contains(cpu));
                here.map(of).sum::<u64>() + of(&one)
            };
            one.cpus.iter().all(|cpu| sum(cpu) + OF_AGENTS <= WHOLE)
        };
        if fits(|one| one.parts().0) && fits(|one| one.parts().1) {
            kept.push(one);
        }
    }
    kept
}

fn bounds(domains: &[Drawn], changes: ModeChanges, answer: u64) -> Vec<DomainBound> {
    let each = domains.iter().enumerate();
    let each: Vec<DomainBandwidths> = each.map(|(number, drawn)| drawn.change(number)).collect();
    let of_agents = Bandwidth::new(ns(OF_AGENTS), ns(WHOLE)).unwrap();
    let agents: BTreeMap<HostCpu, Vec<Bandwidth>> =
        (0..CPUS).map(|cpu| (on(cpu), vec![of_agents])).collect();
    steps(&each, &agents, changes, ns(answer))
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let share = || {
        let period = prop::sample::select(PERIODS.to_vec());
        period.prop_flat_map(|period| (1..=period, Just(period)))
    };
    let cpus = prop::sample::subsequence(vec![0, 1], 1..=2);
    let booleans = (any::<bool>(), any::<bool>(), any::<bool>());
    (cpus, share(), share(), booleans, 0..WHOLE, 0..=7_u64).prop_map(
        |(cpus, before, after, (stays, tasks_change, has_agent), phase, answer)| Drawn {
            cpus,
            before,
            after: if stays && tasks_change { before } else { after },
            tasks_change,
            has_agent,
            phase,
            answer,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_change_takes_longer_and_no_cpu_is_overloaded(
        drawn in prop::collection::vec(drawn(), 1..9),
        policy in prop::sample::select(POLICIES.to_vec()),
        start in prop::sample::select(vec![TaskStart::Accepted, TaskStart::InForce]),
    ) {
        let domains = fitting(drawn);
        let longest = domains.iter().map(|one| one.answer).max().unwrap_or(0);
        let changes = ModeChanges { policy, start, ..ModeChanges::default() };
        let bounds = bounds(&domains, changes, longest);
        let times = rehearse(&domains, policy, start);
        let changed = times.iter().filter(|times| times.begun.is_some()).count();
        prop_assert_eq!(bounds.len(), changed);
        let all_done = times.iter().filter_map(|times| times.done).max().unwrap_or(0);
        let bound = bounds.iter().map(|step| step.in_force.as_nanos()).max().unwrap_or(0);
        prop_assert!(all_done <= bound, "{all_done} > {bound}: {domains:?}");
        if matches!(policy, ChangePolicy::Sequential | ChangePolicy::Boost) {
            return Ok(());
        }
        for step in &bounds {
            let times = times[step.domain.parse::<usize>().unwrap()];
            prop_assert!(times.begun.unwrap() <= step.begun.as_nanos(), "{step:?} {domains:?}");
            prop_assert!(times.done.unwrap() <= step.in_force.as_nanos(), "{step:?} {domains:?}");
        }
    }
}

/// One decrease and two increases, told just after their replenishments.
fn worst() -> Vec<Drawn> {
    let one = |before, after, phase| Drawn {
        cpus: vec![0],
        before,
        after,
        tasks_change: true,
        has_agent: true,
        phase,
        answer: 3,
    };
    vec![
        // Stops its tasks by 3, and is replenished then and 10 later.
        one((6, 10), (1, 10), 3),
        one((1, 12), (5, 12), 1),
        one((1, 8), (2, 8), 1),
    ]
}

#[test]
fn the_bounds_are_reached() {
    let domains = worst();
    let last = |policy, start| {
        let changes = ModeChanges {
            policy,
            start,
            ..ModeChanges::default()
        };
        let bounds = bounds(&domains, changes, 3);
        let times = rehearse(&domains, policy, start);
        let done = times.iter().filter_map(|times| times.done).max().unwrap();
        (
            bounds
                .iter()
                .map(|step| step.in_force.as_nanos())
                .max()
                .unwrap(),
            done,
        )
    };
    // Decrease 3 + 10, then 12 until in force and 3 until the tasks have started.
    assert_eq!(last(ChangePolicy::Prompt, TaskStart::InForce), (28, 28));
    assert_eq!(last(ChangePolicy::Batch, TaskStart::InForce), (28, 28));
    assert_eq!(last(ChangePolicy::Greedy, TaskStart::Accepted), (25, 25));
}

#[test]
fn what_fits_in_any_case_does_not_wait() {
    let mut domains = worst();
    let begun = |domains: &[Drawn]| {
        let steps = bounds(domains, ModeChanges::default(), 3);
        steps
            .iter()
            .map(|step| step.begun.as_nanos())
            .collect::<Vec<_>>()
    };
    assert_eq!(begun(&domains), [0, 13, 13]);
    domains[0].before = (3, 10);
    // 6 + 36 + 50 + 30 of 120 is too much still, by 2; without the agents' share it would not be.
    assert_eq!(begun(&domains), [0, 13, 13]);
    domains[0].before = (2, 10);
    assert_eq!(begun(&domains), [0, 0, 0]);
    // On another CPU it gives nothing up that the others could wait for.
    domains[0] = Drawn {
        cpus: vec![1],
        ..worst().remove(0)
    };
    assert_eq!(begun(&domains), [0, 0, 0]);
}

#[test]
fn each_pair_of_modes_of_a_description_has_its_bound() {
    let text = include_str!("../../model/tests/good/local-modes.toml");
    let cell = tailbound_model::parse(text, "local-modes.toml").unwrap();
    let transitions = transitions(&cell).unwrap();
    let pairs: BTreeSet<(&str, &str)> = transitions
        .iter()
        .map(|one| (one.from.as_str(), one.to.as_str()))
        .collect();
    assert_eq!((transitions.len(), pairs.len()), (6, 6));
    let of = |from: &str, to: &str| -> &TransitionBound {
        let mut each = transitions.iter();
        each.find(|one| one.from == from && one.to == to).unwrap()
    };
    let times = |from: &str, to: &str| {
        let one = of(from, to);
        let ms = |time: Duration| time.as_nanos() / 1_000_000;
        (ms(one.bound), ms(one.bound_with_slow_agents))
    };
    // The arm gives up 20% at its next replenishment (10 ms, its agent within 50 ms), and the camera,
    // which would be too much before that, gets 30% more at its own (20 ms).
    assert_eq!(times("run", "calibrate"), (30, 80));
    // The camera has no agent and gives 30% up within 50 ms; then the arm is told (10 ms), and starts
    // tasks as soon as that is accepted (50 ms).
    assert_eq!(times("calibrate", "run"), (60, 100));
    let steps = &of("run", "calibrate").steps;
    let directions: Vec<(&str, BandwidthChange)> = steps
        .iter()
        .map(|step| (step.domain.as_str(), step.direction))
        .collect();
    let expected = [
        ("arm", BandwidthChange::Decrease),
        ("box", BandwidthChange::TasksOnly),
        ("camera", BandwidthChange::Increase),
    ];
    assert_eq!(directions, expected);
}
