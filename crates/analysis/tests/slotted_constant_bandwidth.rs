//! The constant-bandwidth server on the grid against closed forms and the simulator.

use std::num::NonZeroU32;

use proptest::prelude::*;
use tailbound_analysis::AnalysisError;
use tailbound_analysis::slotted::{
    ExecutionLaw, Resolution, SlottedPrediction, SlottedQuery, constant_bandwidth, polling,
};
use tailbound_distribution::Evidence;
use tailbound_simulator::hierarchy::{
    Completion, HierarchyPlan, Job, Level, LevelMember, PlannedReservation, PlannedTask, Rank,
    Rule, ServerKind, simulate_plan,
};
use tailbound_time::{Duration, Instant, Rate};

use crate::slotted_load::{
    assert_narrow, ends, excess, law, one, own_cpu, poisson_jobs, query, same_cases, small_queries,
    us,
};

/// The response times of so many jobs, by the simulator, in the order of release.
fn simulated(query: &SlottedQuery, count: usize, seed: u64) -> Vec<Duration> {
    served(query.budget, query.period, poisson_jobs(query, count, seed))
}

/// The response times of jobs on a constant-bandwidth server, in the order of release.
fn served(
    budget: Duration,
    period: Duration,
    jobs: impl IntoIterator<Item = (Instant, Duration)>,
) -> Vec<Duration> {
    let level = |member| Level::of(vec![member]);
    let plan = HierarchyPlan::on_one_cpu(level(LevelMember::Reservation(PlannedReservation {
        rank: Rank::Fixed(0),
        rule: Rule::Server(ServerKind::ConstantBandwidth),
        budget,
        period,
        phase: Duration::ZERO,
        inside: level(LevelMember::Task(PlannedTask::of_rank(Rank::Fixed(0)))),
    })));
    let job = |(number, (at, work)): (usize, (Instant, Duration))| Job {
        delay_ns: 0,
        task: 0,
        number: number as u64,
        release: at.as_nanos(),
        work: work.as_nanos(),
    };
    let jobs: Vec<Job> = jobs.into_iter().enumerate().map(job).collect();
    let mut completions: Vec<Completion> = Vec::new();
    simulate_plan(&plan, &mut jobs.as_slice(), &mut completions, None).unwrap();
    let responses = completions.iter().map(|it| it.end - it.release);
    responses.map(Duration::from_nanos).collect()
}

#[test]
fn the_simulator_lies_inside_the_bracket() {
    let mixed = law(&[(250, 0.5), (1_000, 0.3), (4_000, 0.2)]);
    let cases = [
        query(400.0, one(1_000), 2_800, 4_000),
        query(400.0, one(1_000), 1_200, 2_000),
        // A period shorter than a job, and one that is no whole number of slots.
        query(400.0, one(1_000), 500, 1_000),
        query(400.0, one(1_000), 600, 1_309),
        // Many jobs to a budget.
        query(1_500.0, one(200), 2_000, 4_000),
        query(300.0, mixed, 3_000, 6_100),
    ];
    for (index, query) in cases.iter().enumerate() {
        let predicted = constant_bandwidth(query).unwrap();
        assert_eq!(predicted.distribution.provenance.evidence, Evidence::Bound);
        assert_narrow(&predicted);
        let responses = simulated(query, 1_000_000, 7);
        let excess = excess(&predicted.distribution, &responses);
        assert!(excess < 5.0, "{index}: {excess} standard errors");
    }
}

#[test]
fn with_a_full_budget_it_is_a_cpu_of_its_own() {
    // Erlang's formula for M/D/1, in nothing but its own terms.
    let erlang = |load: f64, waits: f64| {
        let mut sum = 0.0;
        for k in 0..=waits.floor() as u32 {
            let x = load * (f64::from(k) - waits);
            sum += (1..=k).fold((-x).exp(), |term, i| term * x / f64::from(i));
        }
        (1.0 - load) * sum
    };
    for (load, period) in [(0.3, 2_500), (0.8, 700), (0.8, 4_000)] {
        let query = query(load * 1_000.0, one(1_000), period, period);
        let predicted = constant_bandwidth(&query).unwrap();
        let (optimistic, pessimistic) = ends(&predicted.distribution);
        for step in 0..1_200 {
            let at = us(1_000 + step * 7);
            let exact = erlang(load, step as f64 * 0.007);
            assert!(
                pessimistic.value(at) <= exact && exact <= optimistic.value(at),
                "{load} {period} {at}: {} {exact} {}",
                pessimistic.value(at),
                optimistic.value(at)
            );
        }
        assert_narrow(&predicted);
    }
}

#[test]
fn with_a_full_budget_the_mean_is_that_of_pollaczek_and_khinchine() {
    let mixed = law(&[(200, 0.4), (1_000, 0.5), (3_000, 0.1)]);
    let square: f64 = mixed
        .atoms()
        .iter()
        .map(|(d, p)| d.as_secs_f64().powi(2) * p)
        .sum();
    for period in [800, 5_000] {
        let rate = 600.0;
        let query = query(rate, mixed.clone(), period, period);
        let predicted = constant_bandwidth(&query).unwrap();
        let mean = mixed.mean_seconds();
        let exact = mean + rate * square / (2.0 * (1.0 - rate * mean));
        let (low, high) = (predicted.mean.low, predicted.mean.high.unwrap());
        assert!(low.as_secs_f64() <= exact && exact <= high.as_secs_f64());
        let width = high.saturating_sub(low).as_nanos();
        assert!(width <= 3 * predicted.slot.as_nanos());
    }
}

/// Every response is no shorter than on a CPU of its own, and no longer than on a processor of
/// the bandwidth, so the distribution functions are in that order.
#[test]
fn it_lies_between_a_cpu_and_a_processor_of_its_bandwidth() {
    for (rate, d, budget, period) in [(400.0, 1_000, 1_200, 2_000), (120.0, 3_000, 700, 1_400)] {
        let predicted = constant_bandwidth(&query(rate, one(d), budget, period)).unwrap();
        let (optimistic, pessimistic) = ends(&predicted.distribution);
        let fast = own_cpu(rate, us(d));
        let slow = own_cpu(rate, us(d * period / budget));
        let (fast, slow) = (ends(&fast).0, ends(&slow).1);
        for step in 1..2_000 {
            let at = us(step * 20);
            assert!(pessimistic.value(at) <= fast.value(at), "{at}");
            assert!(slow.value(at) <= optimistic.value(at), "{at}");
        }
    }
}

#[test]
fn brackets_of_all_resolutions_overlap_and_finer_ones_are_narrower() {
    let mut query = query(400.0, one(1_000), 1_200, 2_000);
    let mut predictions: Vec<SlottedPrediction> = Vec::new();
    for slots in [6, 12, 36, 96] {
        query.resolution = Resolution::SlotsPerBudget(NonZeroU32::new(slots).unwrap());
        let predicted = constant_bandwidth(&query).unwrap();
        assert_eq!(predicted.distribution.provenance.evidence, Evidence::Bound);
        assert_narrow(&predicted);
        for other in &predictions {
            let (a, b) = (ends(&predicted.distribution), ends(&other.distribution));
            for step in 0..500 {
                let at = us(step * 40);
                assert!(a.1.value(at) <= b.0.value(at) && b.1.value(at) <= a.0.value(at));
            }
            assert!(predicted.mean.low <= other.mean.high.unwrap());
            assert!(other.mean.low <= predicted.mean.high.unwrap());
        }
        predictions.push(predicted);
    }
}

/// Settings as a calibration yields them, in nanoseconds that have no common divisor.
fn settings_off_the_lattice() -> [SlottedQuery; 4] {
    let ns = Duration::from_nanos;
    let setting = |per_second, atoms: &[(u64, f64)], budget, period| {
        let atoms = atoms.iter().map(|(value, p)| (ns(*value), *p)).collect();
        let law = ExecutionLaw::new(atoms).unwrap();
        SlottedQuery::new(
            Rate::per_second(per_second).unwrap(),
            law,
            ns(budget),
            ns(period),
        )
    };
    [
        setting(
            400.0,
            &[(912_347, 0.7), (1_703_459, 0.3)],
            2_800_000,
            4_000_000,
        ),
        setting(16.58, &[(7_716_026, 1.0)], 21_503_152, 34_812_900),
        setting(34.9, &[(20_035_000, 1.0)], 93_413_987, 100_000_000),
        setting(
            151.3,
            &[(411_239, 0.2), (2_200_567, 0.7), (9_314_851, 0.1)],
            4_127_393,
            7_919_111,
        ),
    ]
}

#[test]
fn execution_times_off_the_lattice_have_proved_bounds() {
    for (index, query) in settings_off_the_lattice().iter().enumerate() {
        let predicted = constant_bandwidth(query).unwrap();
        assert_eq!(predicted.distribution.provenance.evidence, Evidence::Bound);
        let responses = simulated(query, 1_000_000, 3);
        let excess = excess(&predicted.distribution, &responses);
        assert!(excess < 5.0, "{index}: {excess} standard errors");
        // Nothing is answered sooner than it can be carried out.
        assert!(predicted.quantile(1e-6).low >= query.execution_times.atoms()[0].0);
        let median = predicted.quantile(0.5);
        let width = median.high.unwrap().saturating_sub(median.low);
        // Grains that fit one execution time are found sooner than grains that fit three.
        let part = if query.execution_times.atoms().len() > 2 {
            2
        } else {
            20
        };
        assert!(
            width.as_nanos() * part < median.low.as_nanos(),
            "{index}: {median:?}"
        );
        let mean = responses.iter().map(|r| r.as_secs_f64()).sum::<f64>() / 1e6;
        let (low, high) = (predicted.mean.low, predicted.mean.high.unwrap());
        assert!(low.as_secs_f64() < 1.01 * mean && 0.99 * mean < high.as_secs_f64());
    }
}

/// So few slots that execution times rounded up would be more work than there is time for.
#[test]
fn where_rounding_up_would_overload_a_slower_processor_bounds_the_responses() {
    let mut query = settings_off_the_lattice()[1].clone();
    query.rate = Rate::per_second(75.0).unwrap();
    query.resolution = Resolution::SlotsPerBudget(NonZeroU32::new(4).unwrap());
    let predicted = constant_bandwidth(&query).unwrap();
    let said = predicted.assumptions.join("\n");
    assert!(said.contains("a processor of the same bandwidth"), "{said}");
    let responses = simulated(&query, 1_000_000, 5);
    assert!(excess(&predicted.distribution, &responses) < 5.0);
    assert!(predicted.quantile(0.99).high.is_some());
}

#[test]
fn the_overhead_moves_every_response() {
    let mut query = query(400.0, one(1_000), 1_200, 2_000);
    let without = constant_bandwidth(&query).unwrap();
    query.dispatch_overhead = us(50);
    let with = constant_bandwidth(&query).unwrap();
    assert_eq!(without.quantile(0.9).low + us(50), with.quantile(0.9).low);
    assert_eq!(without.mean.low + us(50), with.mean.low);
    assert!(
        with.assumptions
            .iter()
            .any(|text| text.contains("50us longer"))
    );
}

#[test]
fn what_has_no_answer_says_what_would() {
    let overload = constant_bandwidth(&query(700.0, one(1_000), 1_200, 2_000)).unwrap_err();
    assert!(matches!(overload, AnalysisError::Overloaded { .. }));
    assert!(overload.to_string().contains("1.4ms"), "{overload}");
    for (budget, period) in [(0, 1_000), (2_000, 1_000), (0, 0)] {
        let none = constant_bandwidth(&query(1.0, one(10), budget, period)).unwrap_err();
        assert!(matches!(none, AnalysisError::Invalid { .. }), "{none}");
    }
    let many = constant_bandwidth(&query(1e6, law(&[(0x1, 1.0)]), 1_800_000, 1_000_000_000));
    assert!(many.is_err());
    let long = constant_bandwidth(&query(1e-4, one(1_000_000_000), 500, 1_000)).unwrap_err();
    assert!(matches!(long, AnalysisError::NotAnalysed { .. }), "{long}");
}

/// The example of docs/concepts/response-time-grid.md: why rounding execution times up is no bound.
#[test]
fn more_work_can_shorten_a_response() {
    let last_response = |jobs: &[(u64, u64)]| {
        let jobs = jobs
            .iter()
            .map(|(at, work)| (Instant::from_nanos(at * 1_000), us(*work)));
        let responses = served(us(5_000), us(10_000), jobs);
        *responses.last().unwrap()
    };
    assert_eq!(last_response(&[(1_900, 9_000)]), us(14_000));
    assert_eq!(last_response(&[(0, 1_000), (1_900, 9_000)]), us(13_100));
    assert_eq!(last_response(&[(1_900, 5_000)]), us(5_000));
    assert_eq!(last_response(&[(0, 1_000), (1_900, 5_000)]), us(9_100));
}

proptest! {
    #![proptest_config(same_cases(12))]

    #[test]
    fn random_servers_are_bracketed(query in small_queries(), seed in any::<u64>()) {
        let predicted = constant_bandwidth(&query).unwrap();
        prop_assert_eq!(predicted.distribution.provenance.evidence, Evidence::Bound);
        let responses = simulated(&query, 200_000, seed);
        let excess = excess(&predicted.distribution, &responses);
        prop_assert!(excess < 6.0, "{} standard errors", excess);
    }

    /// Whatever the numbers, the ends are in order and the mean lies between its ends.
    #[test]
    fn any_load_has_an_orderly_answer_or_none(
        budget in 1_u64..5_000_000,
        beyond in 0_u64..5_000_000,
        short in 1_u64..3_000_000,
        longer in 0_u64..3_000_000,
        load in 0.01_f64..0.8,
        slots in 1_u32..40,
    ) {
        let ns = Duration::from_nanos;
        let times = ExecutionLaw::new(vec![(ns(short), 0.5), (ns(short + longer), 0.5)]).unwrap();
        let bandwidth = budget as f64 / (budget + beyond) as f64;
        let rate = Rate::per_second(load * bandwidth / times.mean_seconds()).unwrap();
        let mut query = SlottedQuery::new(rate, times, ns(budget), ns(budget + beyond));
        query.resolution = Resolution::SlotsPerBudget(NonZeroU32::new(slots).unwrap());
        if budget > short / 10 {
            for answer in [constant_bandwidth(&query), polling(&query)] {
                let Ok(predicted) = answer else { continue };
                let (optimistic, pessimistic) = ends(&predicted.distribution);
                for (at, value) in pessimistic.steps() {
                    prop_assert!(*value <= optimistic.value(*at) + 1e-9);
                }
                prop_assert!(predicted.mean.low <= predicted.mean.high.unwrap());
                prop_assert!(predicted.mean.high.unwrap() >= ns(short));
            }
        }
    }
}
