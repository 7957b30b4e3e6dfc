//! The chains of a description, predicted and simulated, and the frames of its time partitions.

use pyo3::prelude::*;
use tailbound_assessment::analysis::refuse_what_is_only_simulated;
use tailbound_assessment::chain_prediction::{self, ChainPrediction};
use tailbound_assessment::chain_simulation::{SimulatedChain, SimulatedTimes, SimulatedTopic};
use tailbound_assessment::frame_sizing::{self, FrameQuery, FrameSizingError};
use tailbound_time::Duration;

use crate::assessment::{inputs, unanswered};
use crate::description::Description;
use crate::interruption::interruptible;
use crate::refusal::{invalid, raised};
use crate::response::Answer;

/// Name, limit in nanoseconds, the share within it, and the distribution.
type PredictedTime = (&'static str, Option<u64>, Option<f64>, Answer);
/// Chain, variant, why there is no answer, and the times.
type PredictedChain = (String, String, Option<String>, Vec<PredictedTime>);
/// The outputs that were followed; data ages, those at the output, and reaction times; the parts of the way.
type ChainTimes = (usize, [Answer; 3], Vec<(String, Answer)>);
/// Chain, both limits in nanoseconds, the times or why there are none, and what stands against it.
pub type ChainRow = (
    String,
    (Option<u64>, Option<u64>),
    (Option<ChainTimes>, Option<String>),
    Vec<String>,
);
/// Topic, subscriber, and messages that were published, dropped, held back and read.
pub type TopicRow = (String, String, [u64; 4]);

/// Predicts every chain in the chosen variants.
///
/// # Errors
/// All that is wrong with the description, its files or the name.
#[pyfunction]
pub fn predict_chains(
    python: Python<'_>,
    description: PyRef<'_, Description>,
    variant: Option<String>,
) -> PyResult<Vec<PredictedChain>> {
    let inputs = inputs(python, &description)?;
    let description = description.loaded.description.clone();
    let predictions = interruptible(python, move || {
        chain_prediction::predict_chains(&description, &inputs, variant.as_deref())
    })?;
    let predictions = predictions.map_err(|error| unanswered(python, &error))?;
    Ok(predictions.into_iter().map(predicted).collect())
}

fn predicted(prediction: ChainPrediction) -> PredictedChain {
    let times = prediction.times.into_iter().map(|time| {
        let limit_ns = time.limit.map(Duration::as_nanos);
        let distribution = Answer::of_distribution(time.distribution);
        (time.name, limit_ns, time.within_limit, distribution)
    });
    let times = times.collect();
    (
        prediction.chain,
        prediction.variant,
        prediction.refused,
        times,
    )
}

/// A simulated chain as it crosses.
pub fn simulated(chain: SimulatedChain) -> ChainRow {
    let objections = chain.objections();
    let limits = [chain.data_age_limit, chain.reaction_time_limit];
    let [data_age_ns, reaction_time_ns] = limits.map(|limit| limit.map(Duration::as_nanos));
    let outcome = match chain.outcome {
        Ok(times) => (Some(times_of(times)), None),
        Err(why) => (None, Some(why)),
    };
    let limits_ns = (data_age_ns, reaction_time_ns);
    (chain.chain, limits_ns, outcome, objections)
}

fn times_of(times: SimulatedTimes) -> ChainTimes {
    let whole = [
        times.data_age,
        times.data_age_at_output,
        times.reaction_time,
    ];
    let parts = times.parts.into_iter();
    let parts = parts.map(|part| (part.at, Answer::of_distribution(part.time)));
    let whole = whole.map(Answer::of_distribution);
    (times.outputs, whole, parts.collect())
}

/// The messages of a topic as they cross.
pub fn counted(topic: SimulatedTopic) -> TopicRow {
    let counts = [topic.published, topic.dropped, topic.held_back, topic.read];
    (topic.topic, topic.subscriber, counts)
}

/// The frame and the windows of a host, as the JSON of the command line, and as a part of a description.
///
/// # Errors
/// All that is wrong with the description, or why there is no frame.
#[pyfunction]
pub fn size_frame(
    python: Python<'_>,
    description: PyRef<'_, Description>,
    host: Option<String>,
    grid_ns: u64,
    most_windows: u64,
) -> PyResult<(String, String)> {
    let inputs = inputs(python, &description)?;
    let description = description.loaded.description.clone();
    let checked = refuse_what_is_only_simulated(&description);
    checked.map_err(|error| unanswered(python, &error))?;
    let sizing = interruptible(python, move || {
        frame_sizing::size_frame(&FrameQuery {
            description: &description,
            inputs: &inputs,
            host: host.as_deref(),
            grid: Duration::from_nanos(grid_ns),
            most_windows,
            most_placements: frame_sizing::MOST_PLACEMENTS,
        })
    })?;
    let sizing = sizing.map_err(|error| match &error {
        FrameSizingError::Assessment(error) => unanswered(python, error),
        FrameSizingError::Infeasible { .. } => {
            raised(python, "no-frame-suffices", error.to_string())
        }
        FrameSizingError::Exhausted { .. } | FrameSizingError::Choices { .. } => {
            raised(python, "too-many-steps", error.to_string())
        }
        _ => invalid(python, error),
    })?;
    let document = serde_json::to_string(&sizing).map_err(|error| invalid(python, error))?;
    Ok((document, sizing.to_toml()))
}
