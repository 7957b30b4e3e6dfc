//! The response times that analysis predicts for the services of a description.

use serde::Serialize;
use tailbound_analysis::resolution::{Deployment, only_simulated};
use tailbound_analysis::response_time::{DescribedQueue, PoissonQueue};
use tailbound_analysis::{
    AnalysisError, CapAssumption, Outlook, Prediction, Promise, SearchWatch, ServiceQuery,
    SharpPoints, predict_watched,
};
use tailbound_distribution::{Distribution, Evidence, Interval};
use tailbound_model::{
    Description, InputFiles, Percentile, ReservationServer, Service, Slo, Variant,
};
use tailbound_time::{Duration, nanoseconds};

use crate::AssessmentError;
use crate::error::named;
use crate::execution_times::{ServiceTimes, execution_times};
use crate::interfered_times::InterferedTimes;
use crate::predicted_supply::{
    BURST_ALWAYS_WHOLE, BURST_LEFT_OUT, ONE_THREAD, PredictedSupply, assumption_of_precedence,
};
use crate::schedulability::{CpuVerdict, refused_cpus};

/// The predictions for one service in one variant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServicePrediction {
    /// The predictions with their labels, the most faithful first.
    pub cases: Vec<(&'static str, Prediction)>,
    /// Why there is none.
    pub refused: Option<NoPrediction>,
}

impl ServicePrediction {
    /// No prediction, for this reason.
    fn without(why: String) -> Self {
        Self {
            cases: Vec::new(),
            refused: Some(why.into()),
        }
    }
}

/// The reason for which a service has no predicted response times.
#[derive(Clone, Debug, PartialEq)]
pub struct NoPrediction {
    /// The reason, with what would be right.
    pub why: String,
    /// The load and the reservation, where the one is not below the other: response times grow without end.
    pub overload: Option<ExcessLoad>,
}

/// A load that is not below its reservation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExcessLoad {
    /// The load, in CPUs.
    pub utilisation: f64,
    /// The reservation, in CPUs.
    pub bandwidth: f64,
}

impl From<String> for NoPrediction {
    fn from(why: String) -> Self {
        Self {
            why,
            overload: None,
        }
    }
}

impl From<&AnalysisError> for NoPrediction {
    fn from(error: &AnalysisError) -> Self {
        let overload = match error {
            AnalysisError::Overloaded {
                utilisation,
                bandwidth,
                ..
            } => Some(ExcessLoad {
                utilisation: *utilisation,
                bandwidth: *bandwidth,
            }),
            _ => None,
        };
        Self {
            why: error.to_string(),
            overload,
        }
    }
}

/// The label of the prediction from the whole distribution of execution times.
pub const FAITHFUL: &str = "execution times as known";

/// The label of the prediction on a quota whose burst is whole in every period.
pub const WITH_BURST: &str = "whole burst in every period";

/// Predicts the response times of a service of a deployment: from all that is known of the execution times, and,
/// where they vary, from their mean and their maximum alone (thesis, section 4.4: approximation and lower bound of
/// the distribution function). The methods know one domain on its CPUs; what they leave out is an assumption of the
/// answer, which is an estimate then.
///
/// # Errors
/// The description itself makes no sense to the analysis.
pub fn predict_service(
    (name, service): (&str, &Service),
    times: &ServiceTimes,
    deployment: &Deployment,
    (points, watch): (&SharpPoints, &dyn SearchWatch),
) -> Result<ServicePrediction, AssessmentError> {
    let on = |server| predict_on_server((name, service), times, server, (points, watch));
    let (mut prediction, assumed) = match PredictedSupply::of(deployment, service) {
        PredictedSupply::Unknown(why) => return Ok(ServicePrediction::without(why)),
        PredictedSupply::Guaranteed {
            server,
            behind,
            is_shared,
        } => {
            let of_threads = is_shared.then(|| ONE_THREAD.to_owned());
            let of_others = assumption_of_precedence(&behind);
            let assumed: Vec<String> = of_others.into_iter().chain(of_threads).collect();
            (on(server)?, Some(assumed))
        }
        PredictedSupply::Capped { server, with_burst } => {
            let least = on(server)?;
            let most = with_burst.map(on).transpose()?;
            (between_bursts(least, most), None)
        }
    };
    for (_, case) in &mut prediction.cases {
        match &assumed {
            None => case.assume_of_cap(),
            Some(assumed) => case.assume(assumed),
        }
    }
    Ok(prediction)
}

/// The predictions under a quota from those without what it saves up for bursts and, if it saves up anything, those with
/// a whole burst in every period.
///
/// On the grid of the periods a quota with a burst has at each instant of a period at least the budget left that a quota
/// alone has left after the same use, and at most that of a deferrable server whose budget is quota and burst. So
/// whichever of two serves first stops first: the one with less never overtakes the other in CPU time given, and where
/// requests are served in the order of their arrival, none is answered sooner by the one with less.
fn between_bursts(least: ServicePrediction, most: Option<ServicePrediction>) -> ServicePrediction {
    let (mut prediction, Some(most)) = (least.clone(), most) else {
        return least;
    };
    let mut most = most.cases.into_iter();
    let of_all_times = most.find(|(label, _)| *label == FAITHFUL);
    let of_all_times = of_all_times.filter(|_| prediction.refused.is_none());
    for (_, case) in &mut prediction.cases {
        case.assume(&[BURST_LEFT_OUT.to_owned()]);
    }
    if let Some((_, mut case)) = of_all_times {
        case.assume(&[BURST_ALWAYS_WHOLE.to_owned()]);
        prediction.cases.push((WITH_BURST, case));
    }
    prediction
}

/// The predictions for a service that has a reservation server for itself.
fn predict_on_server(
    (name, service): (&str, &Service),
    times: &ServiceTimes,
    server: ReservationServer,
    (points, watch): (&SharpPoints, &dyn SearchWatch),
) -> Result<ServicePrediction, AssessmentError> {
    let mut cases = vec![(FAITHFUL, times.clone())];
    if times.varies() {
        let mean = times.reduced("mean execution time", |times| {
            times
                .mean()
                .map(|interval| interval.high.unwrap_or(interval.low))
        });
        let worst = times.reduced("worst-case execution time", |times| {
            times
                .max()
                .map(|interval| interval.high.unwrap_or(interval.low))
        });
        cases.push(("mean execution time", mean));
        cases.push(("worst-case execution time", worst));
    }
    let mut prediction = ServicePrediction::default();
    for (label, case_times) in cases {
        let query = ServiceQuery {
            name,
            service,
            server: case_times.as_seen(server),
            execution_times: case_times.measured,
            dispatch_overhead: case_times.dispatch_overhead,
        };
        match predict_watched(&query, points, watch) {
            Ok(mut responses) => {
                let distribution = &mut responses.overall;
                if let Some((trip, execution)) = case_times.trip_and_execution {
                    distribution.provenance.assumptions.push(format!(
                        "one request at a time: of a round trip of {trip}, {execution} is \
                         execution and uses budget (means)"
                    ));
                }
                prediction.cases.push((label, responses));
            }
            Err(AnalysisError::Invalid { what }) => {
                return Err(AnalysisError::Invalid { what }.into());
            }
            Err(error) if label == FAITHFUL => prediction.refused = Some((&error).into()),
            // The worst case may overload a reservation that the real mixture does not.
            Err(_) => {}
        }
    }
    Ok(prediction)
}

/// The questions about the services of a description.
#[derive(Clone, Copy, Debug)]
pub struct PredictionQuery<'a> {
    /// Only this service.
    pub service: Option<&'a str>,
    /// Only this variant of the experiment.
    pub variant: Option<&'a str>,
    /// The percentiles that are told.
    pub percentiles: &'a [Percentile],
    /// The response times within which shares of all responses are told.
    pub times: &'a [Duration],
    /// The watch that hears of the progress, and may stop it.
    pub watch: &'a dyn SearchWatch,
}

impl PredictionQuery<'_> {
    /// Where answers are to be sharp.
    pub fn points(&self) -> SharpPoints {
        let percentiles = self.percentiles.iter();
        SharpPoints {
            probabilities: percentiles.map(|one| one.probability()).collect(),
            times: self.times.to_vec(),
        }
    }

    /// The percentiles that are told.
    fn quantiles(&self, responses: &Distribution) -> Vec<QuantileBounds> {
        let percentiles = self.percentiles.iter();
        let quantiles = percentiles.map(|percentile| QuantileBounds {
            percentile: percentile.0,
            bounds: responses.quantile(percentile.probability()).into(),
        });
        quantiles.collect()
    }

    /// The shares of all responses within the times that are told.
    fn shares(&self, responses: &Distribution) -> Vec<ShareBounds> {
        let shares = self.times.iter().map(|&at| {
            let (low, high) = responses.cdf(at);
            ShareBounds { at, low, high }
        });
        shares.collect()
    }
}

/// One predicted distribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictionAnswer {
    /// The service.
    pub service: String,
    /// The variant.
    pub variant: String,
    /// The source of the execution times.
    pub from: String,
    /// Why there is no distribution.
    pub refused: Option<String>,
    /// The load and the reservation of a service that has too little.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload: Option<ExcessLoad>,
    /// The outlook of every promise; none on a row about reduced execution times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub promises: Vec<PromiseAnswer>,
    /// Whether the computation was stopped, so that the answers are wider than they would have been.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
    /// The answers about the response times.
    #[serde(flatten)]
    pub responses: Option<PredictedResponses>,
}

/// A promise and its outlook.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PromiseAnswer {
    /// The percentile that is promised.
    pub percentile: f64,
    /// The latency that is promised.
    #[serde(rename = "latency_ns", with = "nanoseconds")]
    pub latency: Duration,
    /// The task of the promise; all tasks of the service if left out.
    pub task: Option<String>,
    /// The outlook.
    pub outlook: Outlook,
    /// The evidence of the outlook; none where nothing is predicted.
    pub evidence: Option<Evidence>,
    /// The predicted response time at the percentile.
    pub predicted: TimeBounds,
    /// The predicted share of responses within the latency.
    pub share: ShareEnds,
}

/// The two ends of a share of all responses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ShareEnds {
    /// At least this share.
    pub low: f64,
    /// At most this share.
    pub high: f64,
}

impl PromiseAnswer {
    /// The outlook of a promise under predicted response times.
    ///
    /// Where an estimate tells more than what is `proved`, but no other outlook, the outlook is proved.
    pub fn of(slo: &Slo, responses: &Distribution, proved: Option<&Distribution>) -> Self {
        let promise = Promise::from(slo);
        let outlook = promise.outlook(responses);
        let (low, high) = responses.cdf(slo.latency);
        let sure = proved.filter(|bracket| promise.outlook(bracket) == outlook);
        Self {
            outlook,
            evidence: Some(sure.unwrap_or(responses).provenance.evidence),
            predicted: responses.quantile(promise.probability).into(),
            share: ShareEnds { low, high },
            ..Self::unknown(slo)
        }
    }

    /// The outlook of a promise on response times that are not predicted, or grow without end.
    pub fn without_prediction(slo: &Slo, refusal: &NoPrediction) -> Self {
        match refusal.overload {
            None => Self::unknown(slo),
            Some(_) => Self {
                outlook: Outlook::Missed,
                evidence: Some(Evidence::Bound),
                share: ShareEnds {
                    low: 0.0,
                    high: 0.0,
                },
                ..Self::unknown(slo)
            },
        }
    }

    fn unknown(slo: &Slo) -> Self {
        Self {
            percentile: slo.percentile.0,
            latency: slo.latency,
            task: slo.task.clone(),
            outlook: Outlook::NotPredicted,
            evidence: None,
            predicted: None.into(),
            share: ShareEnds {
                low: 0.0,
                high: 1.0,
            },
        }
    }
}

impl PredictionAnswer {
    /// The outlook of all promises together; `None` where nothing is promised. One miss outweighs all that is not
    /// known.
    pub fn outlook(&self) -> Option<Outlook> {
        let any = |outlook| self.promises.iter().any(|one| one.outlook == outlook);
        let worst = [Outlook::Missed, Outlook::NotPredicted, Outlook::Undecided];
        let worst = worst.into_iter().find(|outlook| any(*outlook));
        worst.or_else(|| (!self.promises.is_empty()).then_some(Outlook::Kept))
    }

    /// The answer that there are no response times.
    pub fn refusal((service, variant): (&str, &str), refusal: NoPrediction, slos: &[Slo]) -> Self {
        let promises = slos.iter();
        Self {
            service: service.into(),
            variant: variant.into(),
            from: "prediction".into(),
            promises: promises
                .map(|slo| PromiseAnswer::without_prediction(slo, &refusal))
                .collect(),
            refused: Some(refusal.why),
            overload: refusal.overload,
            is_stopped: false,
            responses: None,
        }
    }

    /// The answer of a prediction from what `from` names, which judges the promises.
    pub fn of(
        (service, variant): (&str, &str),
        from: &str,
        prediction: Prediction,
        slos: &[Slo],
        query: &PredictionQuery<'_>,
    ) -> Self {
        // A task that is alone has the response times of all jobs.
        let alone = prediction.per_task.len() == 1;
        let proved = prediction.proved.as_ref().map(|bracket| &bracket.overall);
        let judged = slos.iter().map(|slo| {
            let proved = proved.filter(|_| alone || slo.task.is_none());
            let responses = match &slo.task {
                None => Some(&prediction.overall),
                Some(task) => prediction.per_task.get(task),
            };
            responses.map_or_else(
                || PromiseAnswer::unknown(slo),
                |responses| PromiseAnswer::of(slo, responses, proved),
            )
        });
        Self {
            service: service.into(),
            variant: variant.into(),
            from: from.into(),
            refused: None,
            overload: None,
            promises: judged.collect(),
            is_stopped: prediction.is_stopped,
            responses: Some(PredictedResponses::of(prediction, query)),
        }
    }
}

/// The answers about predicted response times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictedResponses {
    /// What kind of knowledge the answers are: proved bounds, or an estimate.
    pub evidence: Evidence,
    /// The load, in CPUs.
    pub utilisation: f64,
    /// The reservation, in CPUs.
    pub bandwidth: f64,
    /// The mean.
    pub mean: TimeBounds,
    /// The percentiles that were asked for.
    pub quantiles: Vec<QuantileBounds>,
    /// The shares of all responses within the times that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<ShareBounds>,
    /// The same answers as they are proved, where these are a sharper estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proved: Option<ProvedAnswers>,
    /// The method by name, with its source.
    pub method: String,
    /// The assumptions of the method.
    pub assumptions: Vec<String>,
    /// The assumptions about a cap, where the domain has no more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cap_assumptions: Vec<CapAssumption>,
    /// The distribution's provenance and values.
    pub distribution: Distribution,
}

/// Bounds that are proved for response times which an estimate answers more sharply.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProvedAnswers {
    /// The mean.
    pub mean: TimeBounds,
    /// The percentiles that were asked for.
    pub quantiles: Vec<QuantileBounds>,
    /// The shares of all responses within the times that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<ShareBounds>,
    /// The bracket itself.
    #[serde(skip)]
    pub distribution: Distribution,
}

/// A time between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimeBounds {
    /// At least this; `None` where nothing is known.
    #[serde(rename = "low_ns", with = "nanoseconds::optional")]
    pub low: Option<Duration>,
    /// At most this, where that is known.
    #[serde(rename = "high_ns", with = "nanoseconds::optional")]
    pub high: Option<Duration>,
}

/// A percentile of the response times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QuantileBounds {
    /// The percentile.
    pub percentile: f64,
    /// The response time at the percentile.
    #[serde(flatten)]
    pub bounds: TimeBounds,
}

/// The share of all responses within a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ShareBounds {
    /// The time.
    #[serde(rename = "at_ns", with = "nanoseconds")]
    pub at: Duration,
    /// At least this share is within it.
    pub low: f64,
    /// At most this share is within it.
    pub high: f64,
}

impl From<Option<Interval>> for TimeBounds {
    fn from(interval: Option<Interval>) -> Self {
        Self {
            low: interval.map(|interval| interval.low),
            high: interval.and_then(|interval| interval.high),
        }
    }
}

impl PredictedResponses {
    /// The answers at the percentiles and times that were asked for.
    pub fn of(prediction: Prediction, query: &PredictionQuery<'_>) -> Self {
        let mean = prediction.mean().into();
        let proved = prediction.proved.map(|bracket| ProvedAnswers {
            mean: bracket.mean().into(),
            quantiles: query.quantiles(&bracket.overall),
            shares: query.shares(&bracket.overall),
            distribution: bracket.overall,
        });
        let distribution = prediction.overall;
        Self {
            evidence: distribution.provenance.evidence,
            utilisation: prediction.utilisation,
            bandwidth: prediction.bandwidth,
            mean,
            quantiles: query.quantiles(&distribution),
            shares: query.shares(&distribution),
            proved,
            method: prediction.method,
            assumptions: prediction.assumptions,
            cap_assumptions: prediction.cap_assumptions,
            distribution,
        }
    }
}

/// The name of a queue and of its only variant, where services and variants have names.
pub const QUEUE: (&str, &str) = ("queue", "as given");

/// `QueueSupply` is the kind of CPU time that the server of a queue stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueSupply {
    /// A reservation gives it, whatever else runs.
    Guaranteed,
    /// A limit caps it.
    Capped,
}

/// Predicts a queue, and judges promises about it. A load that is too much is an answer, too.
///
/// # Errors
/// The queue makes no sense, or no method holds for it.
pub fn predict_queue(
    (queue, supply): (&PoissonQueue, QueueSupply),
    slos: &[Slo],
    query: &PredictionQuery<'_>,
) -> Result<PredictionAnswer, AnalysisError> {
    let mut points = query.points();
    let promised = slos.iter().map(|slo| slo.percentile.probability());
    points.probabilities.extend(promised);
    let from = "execution times as given";
    let prediction = queue.predict_watched(QUEUE.0, &points, query.watch);
    answer_of_queue(prediction, (from, supply), slos, query)
}

/// The answer of what was found for a queue. A load that is too much is an answer, too.
fn answer_of_queue(
    prediction: Result<Prediction, AnalysisError>,
    (from, supply): (&str, QueueSupply),
    slos: &[Slo],
    query: &PredictionQuery<'_>,
) -> Result<PredictionAnswer, AnalysisError> {
    match prediction {
        Ok(mut prediction) => {
            if supply == QueueSupply::Capped {
                prediction.assume_of_cap();
            }
            Ok(PredictionAnswer::of(QUEUE, from, prediction, slos, query))
        }
        Err(error @ AnalysisError::Overloaded { .. }) => {
            Ok(PredictionAnswer::refusal(QUEUE, (&error).into(), slos))
        }
        Err(error) => Err(error),
    }
}

/// Predicts a queue whose execution times are `from` a formula, or from a histogram or a log, whose response times lie
/// between those that are told whatever the law within the bins. Judges promises about it.
///
/// # Errors
/// The queue makes no sense, or no method holds for it.
pub fn predict_described_queue(
    (queue, from): (&DescribedQueue, &str),
    supply: QueueSupply,
    slos: &[Slo],
    query: &PredictionQuery<'_>,
) -> Result<PredictionAnswer, AnalysisError> {
    let mut points = query.points();
    let promised = slos.iter().map(|slo| slo.percentile.probability());
    points.probabilities.extend(promised);
    let prediction = queue.predict_watched(QUEUE.0, &points, query.watch);
    answer_of_queue(prediction, (from, supply), slos, query)
}

/// Predicts every chosen service of a description in every chosen variant, from its described execution times.
///
/// # Errors
/// The description has no such service or variant, or makes no sense to the analysis; an execution time is
/// not known before a run.
pub fn predict(
    description: &Description,
    inputs: &InputFiles,
    query: &PredictionQuery<'_>,
) -> Result<Vec<PredictionAnswer>, AssessmentError> {
    let interfered = InterferedTimes::of(description, inputs);
    let description = &interfered.description;
    let times = |_: &str, name: &str| {
        let service = &description.services[name];
        execution_times(name, service, &interfered.inputs, None)
    };
    predict_each(description, query, &times, &|service| {
        interfered.assumption(service).cloned()
    })
}

/// The same from `times`, by variant and service. What was measured on a host has its interference in it.
///
/// # Errors
/// As of [`predict`], and what `times` fails with.
pub fn predict_from(
    description: &Description,
    query: &PredictionQuery<'_>,
    times: &dyn Fn(&str, &str) -> Result<ServiceTimes, AssessmentError>,
) -> Result<Vec<PredictionAnswer>, AssessmentError> {
    predict_each(description, query, times, &|_| None)
}

/// The same with what the times of each service take for granted.
fn predict_each(
    description: &Description,
    query: &PredictionQuery<'_>,
    times: &dyn Fn(&str, &str) -> Result<ServiceTimes, AssessmentError>,
    assumption: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<PredictionAnswer>, AssessmentError> {
    if let Some(name) = query.service {
        let services = &description.services;
        named("service", name, services.get(name), services.keys())?;
    }
    let mut answers = Vec::new();
    for variant in chosen_variants(description, query.variant)? {
        let deployment = Deployment::of_run(description, variant)?;
        let refused_cpus = refused_cpus(&deployment.description)?;
        for (name, service) in &description.services {
            if query.service.is_some_and(|chosen| chosen != name) {
                continue;
            }
            let place = (name.as_str(), variant.name.as_str());
            if let Some(why) = only_simulated(description, &service.domain) {
                let why = format!("not analysed: {why}; `tailbound simulate` answers for it");
                answers.push(PredictionAnswer::refusal(place, why.into(), &service.slos));
                continue;
            }
            let (service_times, points) = (times(&variant.name, name)?, query.points());
            let asked = (&points, query.watch);
            let prediction = predict_service((name, service), &service_times, &deployment, asked)?;
            let refused = prediction.refused.into_iter();
            answers.extend(refused.map(|why| PredictionAnswer::refusal(place, why, &service.slos)));
            let cases = prediction.cases.into_iter();
            let of_domain = |cpu: &&CpuVerdict| cpu.domains.contains(&service.domain);
            let not_admitted = refused_cpus.iter().filter(of_domain).map(|cpu| {
                let why = cpu.failures.join("; ");
                format!("the domain gets its budget in time, which no admission shows: {why}")
            });
            let assumed: Vec<String> = not_admitted.chain(assumption(name)).collect();
            answers.extend(cases.map(|(from, mut prediction)| {
                prediction.assume(&assumed);
                let slos: &[Slo] = if from == FAITHFUL { &service.slos } else { &[] };
                PredictionAnswer::of(place, from, prediction, slos, query)
            }));
        }
    }
    Ok(answers)
}

/// The variant of a name, or all of them.
pub(crate) fn chosen_variants<'a>(
    description: &'a Description,
    name: Option<&str>,
) -> Result<Vec<&'a Variant>, AssessmentError> {
    let all = &description.experiment.variants;
    match name {
        None => Ok(all.iter().collect()),
        Some(name) => Ok(vec![variant_named(description, name)?]),
    }
}

/// The variant of a name.
///
/// # Errors
/// The experiment has no such variant.
pub fn variant_named<'a>(
    description: &'a Description,
    name: &str,
) -> Result<&'a Variant, AssessmentError> {
    let all = &description.experiment.variants;
    let variant = all.iter().find(|variant| variant.name == name);
    named(
        "variant",
        name,
        variant,
        all.iter().map(|variant| &variant.name),
    )
}
