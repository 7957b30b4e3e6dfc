//! Predictions of a domain that others may come before on its CPU.

use tailbound_assessment::prediction::{PredictionAnswer, PredictionQuery, predict};
use tailbound_distribution::Evidence;
use tailbound_model::{Description, InputFiles, Percentile};

/// A control loop of 1 ms every 10 ms, beside a domain of this priority that is guaranteed 4 ms in every 20 ms on `cpu`.
fn description(other_priority: u8, cpu: u32) -> Description {
    let text = format!(
        r#"
schema_version = 1
name = "two"

[hosts.here]
cpus = [0, 1]

[domains.other]
kind = "process"
builtin = "cpu-hog"
reservation = {{ budget = "4ms", period = "20ms", priority = {other_priority}, cpus = [{cpu}] }}

[domains.control]
kind = "process"
builtin = "synthetic-service"
reservation = {{ budget = "2ms", period = "10ms", priority = 50, cpus = [0] }}

[services.control]
domain = "control"
protocol = "synthetic"
endpoint = "unix:/tmp/none.sock"

[services.control.tasks.loop]
arrivals = {{ kind = "periodic", period = "10ms" }}
execution_time = {{ kind = "constant", value = "1ms" }}

[[services.control.slos]]
percentile = 99
latency = "5ms"
"#
    );
    tailbound_model::parse(&text, "two.toml").unwrap()
}

fn answer(description: &Description) -> PredictionAnswer {
    let query = PredictionQuery {
        watch: &tailbound_analysis::Unwatched,
        service: None,
        variant: None,
        percentiles: &[Percentile(99.0)],
        times: &[],
    };
    let mut answers = predict(description, &InputFiles::default(), &query).unwrap();
    answers.swap_remove(0)
}

#[test]
fn what_others_may_hold_up_is_no_bound() {
    for (other_priority, cpu, is_bound) in
        [(60, 0, false), (50, 0, false), (40, 0, true), (60, 1, true)]
    {
        let description = description(other_priority, cpu);
        let answer = answer(&description);
        let responses = answer.responses.as_ref().unwrap();
        let expected = match is_bound {
            true => Evidence::Bound,
            false => Evidence::Estimate,
        };
        let case = format!("priority {other_priority}, CPU {cpu}: {responses:#?}");
        assert_eq!(responses.evidence, expected, "{case}");
        assert_eq!(answer.promises[0].evidence, Some(expected), "{case}");
        let named = responses
            .assumptions
            .iter()
            .any(|all| all.contains("other may come before"));
        assert_eq!(named, !is_bound, "{case}");
    }
}
