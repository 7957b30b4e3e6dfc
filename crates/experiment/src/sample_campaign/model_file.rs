//! The model of a campaign in a file, and the place of a description in it.

use std::collections::BTreeMap;
use std::path::Path;

use tailbound_model::LoadedDescription;
use tailbound_sampling::{PERIOD, SHARE, SampledModel, described_bandwidth};
use tailbound_sweep::VariedDescription;
use tailbound_time::Duration;

use super::SampleError;
use super::fitted_queue::FittedQueue;
use super::result::SampledCampaign;
use crate::result_folder::{failed, write_file};

/// The model in the folder of a campaign.
pub(super) const MODEL_FILE: &str = "model.json";

/// The model of a campaign, with the queues that are fitted to the same points.
pub(super) fn model_of(sampled: &SampledCampaign) -> SampledModel {
    let mut model = SampledModel::of(
        &sampled.name,
        sampled.domains(),
        &sampled.grid,
        &sampled.records,
    );
    for promise in &mut model.promises {
        let is_same = |one: &&FittedQueue| {
            one.service == promise.service
                && one.task == promise.task
                && one.percentile == promise.percentile
                && one.limit == promise.limit
        };
        let queue = sampled.queues.iter().find(is_same);
        promise.queue = queue.and_then(|one| one.in_model.clone());
    }
    model
}

/// Writes the model of a campaign into its folder.
pub(super) fn write_model(sampled: &SampledCampaign, out: &Path) -> Result<(), SampleError> {
    let path = out.join(MODEL_FILE);
    let text = serde_json::to_string(&model_of(sampled)).map_err(|cause| failed(&path, &cause))?;
    write_file(&path, format!("{text}\n").as_bytes())?;
    Ok(())
}

/// Reads a model that [`super::write_data_set`] wrote.
///
/// # Errors
/// The file cannot be read, or is no model.
pub fn read_model(path: &Path) -> Result<SampledModel, SampleError> {
    let wrong = |cause: String| SampleError::Model {
        file: path.to_owned(),
        cause,
    };
    let text = std::fs::read_to_string(path).map_err(|cause| wrong(cause.to_string()))?;
    serde_json::from_str(&text).map_err(|cause| wrong(cause.to_string()))
}

/// The value of each axis of a model in a description: its reservations' share and period, and its other keys.
///
/// # Errors
/// The description lacks a reservation of the model, or its reservations have different periods.
pub fn axis_values(
    loaded: &LoadedDescription,
    model: &SampledModel,
) -> Result<BTreeMap<String, String>, SampleError> {
    let file = loaded.path.display().to_string();
    let document = VariedDescription::parse(&loaded.text, &file)?;
    let mut values = BTreeMap::new();
    for axis in &model.axes {
        let value = match axis.key.as_str() {
            SHARE => Some(share(loaded, model)?.to_string()),
            PERIOD => Some(period(loaded, model)?.to_string()),
            key => document.value(key),
        };
        if let Some(value) = value {
            values.insert(axis.key.clone(), value);
        }
    }
    Ok(values)
}

/// The share of a CPU that the domains of the model have together, in percent.
fn share(loaded: &LoadedDescription, model: &SampledModel) -> Result<f64, SampleError> {
    let mut share = 0.0;
    for name in &model.domains {
        let domain = loaded.description.domains.get(name);
        let reservation = domain.and_then(|domain| domain.reservation.as_ref());
        let bandwidth = reservation.and_then(described_bandwidth);
        share += 100.0 * bandwidth.ok_or_else(|| lacking(name))?;
    }
    // Sums of fractions end in digits that nobody wrote.
    Ok((share * 1e6).round() / 1e6)
}

fn period(loaded: &LoadedDescription, model: &SampledModel) -> Result<Duration, SampleError> {
    let mut common = None;
    for name in &model.domains {
        let domain = loaded.description.domains.get(name);
        let reservation = domain.and_then(|domain| domain.reservation.as_ref());
        let period = reservation.and_then(|reservation| reservation.period);
        let period = period.ok_or_else(|| lacking(name))?;
        if *common.get_or_insert(period) != period {
            return Err(SampleError::Question {
                what: format!("domain \"{name}\" has another period than the domains before it"),
                remedy: "the campaign had one period for all; give them one".into(),
            });
        }
    }
    common.ok_or_else(|| lacking(""))
}

fn lacking(domain: &str) -> SampleError {
    SampleError::Question {
        what: format!(
            "domain \"{domain}\" has no reservation with a budget and a period, on which the model depends"
        ),
        remedy: "ask with the description of the campaign".into(),
    }
}
