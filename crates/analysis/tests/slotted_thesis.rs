//! The thesis's discretisation against the brackets of `predict` and a simulation of its slots.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_analysis::slotted::thesis::{ThesisQuery, ThesisResponses, discretised};
use tailbound_model::ReservationServer;
use tailbound_time::Rate;

use crate::slotted_load::{ends, predicted, us};

/// The thesis's example of section 4.3: λ = 0.4, d = 1, P = 4, W = 0.7, in ms.
fn example(slots_per_execution: u32) -> ThesisResponses {
    discretised(&ThesisQuery {
        rate: Rate::per_second(400.0).unwrap(),
        execution_time: us(1_000),
        budget: us(2_800),
        period: us(4_000),
        slots_per_execution,
        workloads: 20 * slots_per_execution,
        tolerance: 1e-10,
    })
    .unwrap()
}

#[test]
fn twenty_slots_yield_the_number_of_the_thesis() {
    let responses = example(20);
    assert!(
        (responses.cdf(us(3_000)) - 0.9008).abs() < 5e-5,
        "{}",
        responses.cdf(us(3_000))
    );
    assert!(responses.lost < 1e-6, "{}", responses.lost);
    let quantile = responses.distribution().unwrap().quantile(0.9).unwrap();
    assert_eq!(quantile.exact(), Some(us(3_000)));
}

/// Its error is of the first order, and what it converges to lies inside the bracket.
#[test]
fn it_converges_into_the_bracket_from_the_optimistic_side() {
    let server = ReservationServer::Deferrable {
        budget: us(2_800),
        period: us(4_000),
    };
    let bracket = predicted(400.0, us(1_000), server);
    let (optimistic, pessimistic) = ends(&bracket);
    let [coarse, middle, fine] = [20, 40, 80].map(example);
    for at in [1_600, 2_000, 3_000, 4_600, 6_200].map(us) {
        let [coarse, middle, fine] = [&coarse, &middle, &fine].map(|responses| responses.cdf(at));
        assert!(coarse > middle && middle > fine, "{at}");
        let ratio = (coarse - middle) / (middle - fine);
        assert!((1.8..2.2).contains(&ratio), "{at}: {ratio}");
        assert!(fine > pessimistic.value(at), "{at}");
        let limit = 2.0 * fine - middle;
        assert!(
            pessimistic.value(at) <= limit && limit <= optimistic.value(at),
            "{at}: {} {limit} {}",
            pessimistic.value(at),
            optimistic.value(at)
        );
    }
    assert!((2.0 * fine.cdf(us(3_000)) - middle.cdf(us(3_000)) - 0.892).abs() < 1e-3);
}

/// B/D(DS)/1 slot by slot, from its words: an arrival just after the boundary, then a slot of
/// service if there is work and budget.
#[test]
fn a_simulation_of_the_slots_agrees() {
    for (execution, budget, period, arrival) in [(3, 5, 9, 0.13), (1, 2, 4, 0.4), (4, 3, 5, 0.1)] {
        let responses = discretised(&ThesisQuery {
            rate: Rate::per_second(arrival * 1_000.0).unwrap(),
            execution_time: us(1_000 * execution),
            budget: us(1_000 * budget),
            period: us(1_000 * period),
            slots_per_execution: execution as u32,
            workloads: 300,
            tolerance: 1e-12,
        })
        .unwrap();
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let slots = 4_000_000_u64;
        let (mut queue, mut left) = (std::collections::VecDeque::new(), 0);
        let mut counts = vec![0_u64; 2_000];
        let mut jobs = 0_u64;
        for now in 0..slots {
            if now % period == 0 {
                left = budget;
            }
            if random.random::<f64>() < arrival {
                queue.push_back((now, execution));
            }
            let Some((came, work)) = queue.front_mut().filter(|_| left > 0) else {
                continue;
            };
            left -= 1;
            *work -= 1;
            if *work == 0 {
                counts[(now + 1 - *came) as usize] += 1;
                jobs += 1;
                queue.pop_front();
            }
        }
        let (mut seen, mut expected) = (0.0, 0.0);
        for (slot, count) in counts.iter().enumerate() {
            seen += *count as f64 / jobs as f64;
            expected += responses.probabilities.get(slot).copied().unwrap_or(0.0);
            assert!(
                (seen - expected).abs() < 0.005,
                "{execution} {budget} {period} {arrival}: {slot}: {seen} {expected}"
            );
        }
    }
}
