//! Prediction of a description for the host that a recorded calibration has seen: what `run` says before it measures,
//! without running anything.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use tailbound_analysis::resolution::Deployment;
use tailbound_assessment::AssessmentError;
use tailbound_assessment::execution_times::ServiceTimes;
use tailbound_assessment::prediction::{PredictionAnswer, PredictionQuery, predict_from};
use tailbound_model::{InputFiles, LoadedDescription, Variant};
use tailbound_report::ServiceBand;
use tailbound_time::Duration;

use crate::ExperimentError;
use crate::band_history::BandHistory;
use crate::bands::{NoQueue, VariantBands};
use crate::calibration_record::CalibrationRecord;
use crate::campaign::known_times;
use crate::repetition::Bench;

/// What is predicted of a description on a calibrated host.
#[derive(Clone, Debug, Default)]
pub struct HostPrediction {
    /// The model's answers, with the calibrated execution times.
    pub answers: Vec<PredictionAnswer>,
    /// The bands of the described run, as `run` predicts them.
    pub bands: Vec<ServiceBand>,
    /// What is to be said of the host's history, and of services without a band.
    pub remarks: Vec<String>,
}

/// The run whose percentiles are predicted.
#[derive(Clone, Copy, Debug, Default)]
pub struct PredictedRun {
    /// How long releases count, in place of the described length.
    pub duration: Option<Duration>,
    /// What is released before, in place of the described warm-up.
    pub warm_up: Option<Duration>,
}

impl PredictedRun {
    /// The run with the description's seed, and its lengths where no others are given.
    pub(crate) fn bench<'a>(
        self,
        loaded: &'a LoadedDescription,
        inputs: &'a InputFiles,
        stop: &'a AtomicBool,
    ) -> Bench<'a> {
        let description = &loaded.description;
        Bench {
            recordings: None,
            loaded,
            inputs,
            duration: self.duration.unwrap_or(description.experiment.duration),
            warm_up: self.warm_up.unwrap_or(description.experiment.warm_up),
            seed: description.seed,
            stop,
            modes: None,
        }
    }
}

/// Predicts every chosen service of a description in every chosen variant from a recorded calibration. Bands are
/// corrected by the `history` of the calibrated host, where there is one.
///
/// # Errors
/// The description has no such service or variant, or makes no sense to analysis or simulation.
pub fn predict_on_host(
    loaded: &LoadedDescription,
    inputs: &InputFiles,
    (record, history): (&CalibrationRecord, Option<&Path>),
    run: PredictedRun,
    query: &PredictionQuery<'_>,
) -> Result<HostPrediction, ExperimentError> {
    let description = &loaded.description;
    let (history, remarks) = BandHistory::read_or_none(history, &record.host);
    let mut prediction = HostPrediction {
        remarks,
        ..HostPrediction::default()
    };
    let mut times: BTreeMap<&str, BTreeMap<String, ServiceTimes>> = BTreeMap::new();
    let variants = &description.experiment.variants;
    let chosen = |variant: &&Variant| query.variant.is_none_or(|name| variant.name == name);
    let stop = AtomicBool::new(false);
    let bench = run.bench(loaded, inputs, &stop);
    for variant in variants.iter().filter(chosen) {
        let deployment = Deployment::of_run(description, variant)?;
        let place = (variant, &deployment);
        let of_variant = known_times(loaded, inputs, place, Some(record))?;
        let bands = VariantBands::predict(place, &of_variant, (record, &history), &bench)?;
        prediction.add(variant, bands, query);
        times.insert(&variant.name, of_variant);
    }
    prediction.answers = predict_from(description, query, &|variant, service| {
        let of_service = times
            .get(variant)
            .and_then(|of_variant| of_variant.get(service));
        of_service
            .cloned()
            .ok_or_else(|| AssessmentError::NotCalibrated {
                task: service.into(),
            })
    })?;
    Ok(prediction)
}

impl From<Vec<PredictionAnswer>> for HostPrediction {
    fn from(answers: Vec<PredictionAnswer>) -> Self {
        Self {
            answers,
            ..Self::default()
        }
    }
}

impl HostPrediction {
    /// The band of a service in a variant.
    pub fn band(&self, service: &str, variant: &str) -> Option<&ServiceBand> {
        let mut bands = self.bands.iter();
        bands.find(|band| band.service == service && band.variant == variant)
    }

    /// Adds the bands of a variant that are asked for.
    fn add(&mut self, variant: &Variant, bands: VariantBands, query: &PredictionQuery<'_>) {
        let asked = |service: &str| query.service.is_none_or(|name| service == name);
        // Of a domain without a guarantee the answer says so.
        let missing = bands
            .missing
            .iter()
            .filter(|(service, why)| asked(service) && *why != NoQueue::NoGuarantee);
        for (service, why) in missing {
            self.remarks.push(format!(
                "{service} in variant {}: no band, since {why}",
                variant.name
            ));
        }
        let bands = bands.bands.into_iter().map(|(band, _)| band);
        self.bands.extend(bands.filter(|band| asked(&band.service)));
    }
}
