//! Whatever is a valid description, however odd, is simulated or refused: nothing panics, overflows or
//! goes on for ever.
#![allow(clippy::unwrap_used, clippy::expect_used)]

// What soups of scraps are for is tested where they are read.
#[allow(dead_code)]
#[path = "../../model/tests/mutation/mod.rs"]
mod mutation;

use mutation::mutated;
use proptest::prelude::*;
use tailbound_analysis::resolution::Deployment;
use tailbound_model::{Bin, Description, InputFiles, SampleCount, TracedJob, Variant, check};
use tailbound_simulator::host::{HostQuery, HostSimulation, Kept, promises, simulate_host};
use tailbound_time::Duration;

const GOOD: [&str; 16] = [
    include_str!("../../model/tests/good/workloads.toml"),
    include_str!("../../model/tests/good/redis.toml"),
    include_str!("../../model/tests/good/modes.toml"),
    include_str!("../../model/tests/good/derived.toml"),
    include_str!("../../model/tests/good/http.toml"),
    include_str!("../../model/tests/good/host.toml"),
    include_str!("../../model/tests/good/soft.toml"),
    include_str!("../../model/tests/good/local-modes.toml"),
    include_str!("../../simulator/tests/scenarios/boost.toml"),
    include_str!("../../simulator/tests/scenarios/guest_queue.toml"),
    include_str!("../../simulator/tests/scenarios/dual_priority.toml"),
    include_str!("../../simulator/tests/scenarios/slack_stealing.toml"),
    include_str!("../../simulator/tests/scenarios/priority_exchange.toml"),
    include_str!("../../simulator/tests/scenarios/locks.toml"),
    include_str!("../../simulator/tests/scenarios/nested.toml"),
    include_str!("../../simulator/tests/scenarios/rtds.toml"),
];

/// The most things that happen in one simulation: what takes some milliseconds.
const FEW: f64 = 20_000.0;

/// What the files that the good descriptions name could say; that mutated ones name others has to be
/// refused as well.
fn inputs() -> InputFiles {
    let ms = Duration::from_millis;
    let mut inputs = InputFiles::default();
    for file in ["jobs.csv", "releases.txt"] {
        let job = |at| TracedJob {
            release: ms(at),
            execution: Some(ms(1)),
        };
        inputs.insert_trace(file, vec![job(3), job(10), job(10), job(150)]);
    }
    let (from, to) = (ms(1), ms(2));
    inputs.insert_histogram("histogram.csv", vec![Bin { from, to, count: 3 }]);
    let sample = |value, count| SampleCount { value, count };
    inputs.insert_samples("execution.csv", vec![sample(from, 2), sample(to, 1)]);
    inputs
}

/// A domain with work of its own is in the results.
fn nothing_is_left_out(
    hosted: &Description,
    simulation: &HostSimulation,
) -> Result<(), TestCaseError> {
    for (name, domain) in &hosted.domains {
        let host = hosted.host_of(domain).map(|(host, _)| host);
        if host == Some(simulation.host.as_str()) && !domain.tasks.is_empty() {
            let count = simulation
                .domains
                .get(name)
                .map_or(0, |domain| domain.tasks.len());
            prop_assert!(count >= domain.tasks.len(), "{} has lost tasks", name);
        }
    }
    Ok(())
}

/// Simulates each host in each mode and variant; says how many were simulated.
fn simulated(description: &Description) -> Result<usize, TestCaseError> {
    let inputs = inputs();
    let modes = description.modes.keys().map(|name| Some(name.as_str()));
    let as_described = Variant::as_described();
    let variants = std::iter::once(&as_described).chain(&description.experiment.variants);
    let mut count = 0;
    for mode in std::iter::once(None).chain(modes) {
        for variant in variants.clone() {
            let Ok(deployment) = Deployment::of(description, mode, variant) else {
                continue;
            };
            let hosted = deployment.description;
            let mut simulations = Vec::new();
            for host in hosted.hosts.keys() {
                let outcome = simulate_host(&HostQuery {
                    description: &hosted,
                    host,
                    inputs: &inputs,
                    seed: hosted.seed,
                    warm_up: Duration::from_millis(1),
                    duration: Duration::from_millis(200),
                    kept: Kept::Classes,
                    most_events: FEW,
                });
                // Whatever is refused is refused in words.
                match outcome {
                    Ok(host) => simulations.push(host),
                    Err(error) => prop_assert!(!error.to_string().is_empty()),
                }
            }
            for host in &simulations {
                nothing_is_left_out(&hosted, host)?;
            }
            if simulations.len() == hosted.hosts.len() {
                promises(&hosted, &simulations);
            }
            count += simulations.len();
        }
    }
    Ok(count)
}

/// As they are they are simulated, or else the mutated ones would tell nothing; but for one that has yet
/// to be calibrated.
#[test]
fn descriptions_as_they_are_are_simulated() {
    let refused = GOOD.iter().filter(|text| {
        let description = check(text, "good.toml").description.unwrap();
        simulated(&description).unwrap() == 0
    });
    let refused: Vec<&&str> = refused.collect();
    assert!(refused.len() <= 1, "{refused:#?}");
    assert!(refused.iter().all(|text| text.contains("calibrated")));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2048),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn mutated_descriptions_are_simulated_or_refused(text in mutated(&GOOD)) {
        if let Some(description) = check(&text, "fuzz.toml").description {
            simulated(&description)?;
        }
    }
}
