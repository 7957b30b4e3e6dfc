//! Chains and topics of a simulation as tables.

use tailbound_assessment::chain_simulation::{SimulatedChain, SimulatedTimes};
use tailbound_assessment::simulation::SimulationAnswer;
use tailbound_distribution::Distribution;
use tailbound_model::Percentile;
use tailbound_time::Duration;

use super::predict_answer::millisecond_range;
use super::simulate::quantiles;
use crate::output::table;

const TOPICS: [&str; 6] = [
    "topic",
    "subscriber",
    "published",
    "read",
    "dropped",
    "held back",
];

/// The tables of chains and of topics; nothing without topics.
pub fn tables_of(answer: &SimulationAnswer, percentiles: &[Percentile]) -> String {
    if answer.topics.is_empty() && answer.chains.is_empty() {
        return String::new();
    }
    let labels: Vec<String> = percentiles.iter().map(ToString::to_string).collect();
    let mut header = vec!["chain", "time", "outputs"];
    header.extend(labels.iter().map(String::as_str));
    header.extend(["max", "allowed"]);
    let chains = answer.chains.iter();
    let rows: Vec<Vec<String>> = chains
        .flat_map(|chain| chain_rows(chain, percentiles, header.len()))
        .collect();
    let chains = match rows.is_empty() {
        true => String::new(),
        false => format!("\n{}\n", table(&header, &rows)),
    };
    let topics = answer.topics.iter().map(|topic| {
        let counts = [topic.published, topic.read, topic.dropped, topic.held_back];
        let counts = counts.iter().map(ToString::to_string);
        let names = [topic.topic.clone(), topic.subscriber.clone()];
        names.into_iter().chain(counts).collect()
    });
    let topics: Vec<Vec<String>> = topics.collect();
    format!("{chains}\n{}\n", table(&TOPICS, &topics))
}

fn chain_rows(
    chain: &SimulatedChain,
    percentiles: &[Percentile],
    columns: usize,
) -> Vec<Vec<String>> {
    match &chain.outcome {
        Ok(times) => rows_of(chain, times, percentiles),
        Err(why) => {
            let mut row = vec![chain.chain.clone(), "-".into()];
            row.resize(columns - 1, "-".into());
            row.push(why.clone());
            vec![row]
        }
    }
}

fn rows_of(
    chain: &SimulatedChain,
    times: &SimulatedTimes,
    percentiles: &[Percentile],
) -> Vec<Vec<String>> {
    let row = |what: &str, time: &Distribution, limit: Option<Duration>| {
        let mut row = vec![
            chain.chain.clone(),
            what.to_owned(),
            times.outputs.to_string(),
        ];
        row.extend(quantiles(Some(time), percentiles));
        let longest = time.max().map(|max| max.low.as_nanos());
        row.push(millisecond_range(longest, longest));
        row.push(limit.map_or("-".into(), |limit| limit.to_string()));
        row
    };
    let mut rows = vec![
        row("data age", &times.data_age, chain.data_age_limit),
        row("data age at the output", &times.data_age_at_output, None),
        row(
            "reaction time",
            &times.reaction_time,
            chain.reaction_time_limit,
        ),
    ];
    rows.extend(
        times
            .parts
            .iter()
            .map(|part| row(&part.at, &part.time, None)),
    );
    rows
}
