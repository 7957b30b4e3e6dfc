//! Response times at other set points of a platform: execution times stretched by a frequency model, and the set point
//! that keeps the promises with the least energy.

use serde::Serialize;
use tailbound_analysis::Outlook;
use tailbound_analysis::response_time::PoissonQueue;
use tailbound_execution_time::{
    CountedWorkload, CycleDemand, Fit, FrequencyModel, ModelError, Power, Premise, SetPoint,
};
use tailbound_model::{
    Arrivals, Bin, Description, ExecutionTime, InputFiles, Service, Slo, TracedJob,
};
use tailbound_time::Duration;

use crate::AssessmentError;
use crate::error::named;
use crate::prediction::{
    FAITHFUL, PredictionAnswer, PredictionQuery, QUEUE, QuantileBounds, QueueSupply, TimeBounds,
    predict, predict_queue,
};

/// A workload on the platform of a model.
#[derive(Clone, Debug)]
pub struct Platform<'a> {
    model: &'a FrequencyModel,
    workload: &'a CountedWorkload,
    demand: CycleDemand,
}

/// The basis of predictions at other set points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Basis {
    /// The recording behind the model.
    pub source: String,
    /// The comments of that recording: whether its times were measured or simulated.
    pub notes: Vec<String>,
    /// The workload whose counts are used.
    pub program: String,
    /// The set point at which its execution times hold; `None` for another host than the model's.
    pub measured_at: Option<SetPoint>,
    /// The regression: from the measured time, or from counts alone.
    pub premise: Premise,
    /// The mean relative error for programs that the regression has not seen.
    pub mean_error: f64,
    /// The relative error that 95% of those predictions do not exceed. A promise counts as kept if it is also kept with
    /// execution times that are longer by it, and as missed if it is also missed with shorter ones.
    pub p95_error: f64,
    /// The workload's cycles of each clock.
    pub demand: CycleDemand,
}

/// Whether the promises hold at a set point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SetPointVerdict {
    /// All are kept, also with the model's error against them.
    Kept,
    /// One is missed, also with the model's error in its favour.
    Missed,
    /// The model's error decides.
    TooClose,
    /// Nothing is promised, or no prediction is about a promise.
    NotJudged,
}

/// The response times at one set point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetPointPrediction {
    /// The set point.
    pub set_point: SetPoint,
    /// Execution times there, in multiples of those that are described.
    pub slowdown: f64,
    /// The same by the naive model, `T ∝ 1 / f_cpu`; `None` from another host.
    pub naive_slowdown: Option<f64>,
    /// Clocks outside of the range of the model's recording.
    pub extrapolated: Vec<String>,
    /// The load there, in CPUs.
    pub utilisation: Option<f64>,
    /// The mean response time.
    pub mean: Option<TimeBounds>,
    /// The percentiles that were asked for.
    pub quantiles: Vec<QuantileBounds>,
    /// Why there is no distribution.
    pub refused: Option<String>,
    /// Whether the promises hold.
    pub verdict: SetPointVerdict,
    /// The power that was stated.
    pub power: Option<Power>,
    /// The mean power of the platform under this load, in milliwatts.
    pub mean_power_mw: Option<f64>,
}

/// The predictions at several set points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetPointPredictions {
    /// What they rest on.
    pub basis: Basis,
    /// The service.
    pub service: String,
    /// The variant.
    pub variant: String,
    /// The set points in the order of the question.
    pub set_points: Vec<SetPointPrediction>,
    /// The one with the least mean power of those that keep every promise; `None` where no power is stated, nothing is
    /// promised, or none keeps the promises.
    pub least_energy: Option<SetPoint>,
}

impl<'a> Platform<'a> {
    /// A workload that was counted in `file`, on the platform of `model`.
    ///
    /// # Errors
    /// An event or a clock of the model is missing.
    pub fn new(
        model: &'a FrequencyModel,
        file: &str,
        workload: &'a CountedWorkload,
    ) -> Result<Self, ModelError> {
        let demand = model.demand(file, workload)?;
        Ok(Self {
            model,
            workload,
            demand,
        })
    }

    fn fit(&self) -> &Fit {
        self.model.fit_for(self.workload)
    }

    /// What predictions rest on.
    pub fn basis(&self) -> Basis {
        let errors = &self.fit().errors.model;
        Basis {
            source: self.model.source.file.clone(),
            notes: self.model.source.notes.clone(),
            program: self.workload.program.clone(),
            measured_at: self.workload.set_point.clone(),
            premise: self.fit().premise,
            mean_error: errors.mean,
            p95_error: errors.p95,
            demand: self.demand.clone(),
        }
    }

    /// The prediction at a set point; `respond` answers for execution times that are a multiple of those described.
    ///
    /// # Errors
    /// The set point lacks a clock, or `respond` fails.
    fn predict_at(
        &self,
        set_point: &SetPoint,
        respond: &dyn Fn(f64) -> Result<PredictionAnswer, AssessmentError>,
    ) -> Result<SetPointPrediction, AssessmentError> {
        let slowdown = self
            .model
            .slowdown(self.workload, &self.demand, set_point)?;
        let answer = respond(slowdown)?;
        let verdict = self.verdict(slowdown, &answer, respond)?;
        let stated = self
            .model
            .set_points
            .iter()
            .find(|point| point.set_point == *set_point);
        let power = stated.and_then(|point| point.power);
        let responses = answer.responses;
        let utilisation = responses.as_ref().map(|responses| responses.utilisation);
        Ok(SetPointPrediction {
            set_point: set_point.clone(),
            slowdown,
            naive_slowdown: self.naive_slowdown(set_point),
            extrapolated: self
                .model
                .extrapolated(set_point)
                .map(str::to_owned)
                .collect(),
            utilisation,
            mean: responses.as_ref().map(|responses| responses.mean),
            quantiles: responses
                .map(|responses| responses.quantiles)
                .unwrap_or_default(),
            refused: answer.refused,
            verdict,
            power,
            mean_power_mw: power
                .zip(utilisation)
                .map(|(power, utilisation)| power.mean_mw(utilisation)),
        })
    }

    fn naive_slowdown(&self, set_point: &SetPoint) -> Option<f64> {
        let from = self.workload.set_point.as_ref()?.core();
        Some(from.as_hertz_f64() / set_point.core().as_hertz_f64())
    }

    /// The verdict with the model's error on the side that could change it: longer execution times make no response
    /// shorter.
    fn verdict(
        &self,
        slowdown: f64,
        answer: &PredictionAnswer,
        respond: &dyn Fn(f64) -> Result<PredictionAnswer, AssessmentError>,
    ) -> Result<SetPointVerdict, AssessmentError> {
        let error = self.fit().errors.model.p95;
        Ok(match answer.outlook() {
            None | Some(Outlook::NotPredicted) => SetPointVerdict::NotJudged,
            Some(Outlook::Kept) => match respond(slowdown * (1.0 + error))?.outlook() {
                Some(Outlook::Kept) => SetPointVerdict::Kept,
                _ => SetPointVerdict::TooClose,
            },
            Some(Outlook::Missed | Outlook::Undecided) => {
                let shorter = respond(slowdown * (1.0 - error).max(0.0))?;
                match shorter.outlook() {
                    Some(Outlook::Missed) => SetPointVerdict::Missed,
                    _ => SetPointVerdict::TooClose,
                }
            }
        })
    }

    /// Collects predictions, and chooses the one with the least energy.
    fn collect(
        &self,
        service: &str,
        variant: &str,
        set_points: Vec<SetPointPrediction>,
    ) -> SetPointPredictions {
        let keeping = set_points
            .iter()
            .filter(|point| point.verdict == SetPointVerdict::Kept);
        let with_power = keeping.filter_map(|point| Some((point.mean_power_mw?, &point.set_point)));
        let least = with_power.min_by(|left, right| left.0.total_cmp(&right.0));
        SetPointPredictions {
            basis: self.basis(),
            service: service.into(),
            variant: variant.into(),
            least_energy: least.map(|(_, set_point)| set_point.clone()),
            set_points,
        }
    }

    /// The response times of a service of a description at several set points; its described execution times hold
    /// where the workload was measured. The variant is the first one, unless the query names another.
    ///
    /// # Errors
    /// There is no such service or variant, or none is named where there are several; the description makes no sense
    /// to the analysis; a set point lacks a clock.
    pub fn predict_service(
        &self,
        description: &Description,
        inputs: &InputFiles,
        query: &PredictionQuery<'_>,
        set_points: &[SetPoint],
    ) -> Result<SetPointPredictions, AssessmentError> {
        let (name, _) = only_service(description, query.service)?;
        let first = description.experiment.variants.first();
        let variant = query.variant.or(first.map(|variant| variant.name.as_str()));
        let query = PredictionQuery {
            watch: query.watch,
            service: Some(name),
            variant,
            ..*query
        };
        let respond = |factor: f64| {
            let (description, inputs) = stretched(description, inputs, name, factor);
            let answers = predict(&description, &inputs, &query)?;
            let refusals =
                |answer: &PredictionAnswer| answer.from == FAITHFUL || answer.refused.is_some();
            let answer = answers.into_iter().find(refusals);
            answer.ok_or(AssessmentError::Empty {
                what: "no variant, so that there is nothing to predict",
            })
        };
        let points = set_points
            .iter()
            .map(|point| self.predict_at(point, &respond));
        let points = points.collect::<Result<Vec<_>, _>>()?;
        Ok(self.collect(name, variant.unwrap_or_default(), points))
    }

    /// The response times of a queue at several set points.
    ///
    /// # Errors
    /// The queue makes no sense to the analysis; a set point lacks a clock.
    pub fn predict_queue(
        &self,
        queue: &PoissonQueue,
        slos: &[Slo],
        query: &PredictionQuery<'_>,
        set_points: &[SetPoint],
    ) -> Result<SetPointPredictions, AssessmentError> {
        let respond = |factor: f64| {
            let times = queue.execution_times.iter();
            let stretched = PoissonQueue {
                execution_times: times
                    .map(|&(time, share)| (multiple(time, factor), share))
                    .collect(),
                ..queue.clone()
            };
            let guaranteed = (&stretched, QueueSupply::Guaranteed);
            Ok(predict_queue(guaranteed, slos, query)?)
        };
        let points = set_points
            .iter()
            .map(|point| self.predict_at(point, &respond));
        let points = points.collect::<Result<Vec<_>, _>>()?;
        let (service, variant) = QUEUE;
        Ok(self.collect(service, variant, points))
    }
}

/// The named service, or the only one.
fn only_service<'a>(
    description: &'a Description,
    name: Option<&str>,
) -> Result<(&'a str, &'a Service), AssessmentError> {
    let services = &description.services;
    let chosen = match name {
        Some(chosen) => named(
            "service",
            chosen,
            services.get_key_value(chosen),
            services.keys(),
        )?,
        None => match services.first_key_value() {
            Some(only) if services.len() == 1 => only,
            Some(_) => {
                let present: Vec<&str> = services.keys().map(String::as_str).collect();
                return Err(AssessmentError::Ambiguous {
                    kind: "service",
                    present: present.join(", "),
                });
            }
            None => return Err(AssessmentError::Empty { what: "no service" }),
        },
    };
    Ok((chosen.0.as_str(), chosen.1))
}

/// A multiple of a time, to the nearest nanosecond.
fn multiple(time: Duration, factor: f64) -> Duration {
    Duration::from_secs_f64_nearest(time.as_secs_f64() * factor)
}

/// Multiplies the times of a law.
fn stretch<const N: usize>(times: [&mut Duration; N], max: &mut Option<Duration>, factor: f64) {
    for time in times.into_iter().chain(max) {
        *time = multiple(*time, factor);
    }
}

/// The description with all execution times of a service multiplied by `factor`, each to the nearest nanosecond, and
/// the contents of the files that it names then.
pub fn stretched(
    description: &Description,
    inputs: &InputFiles,
    service: &str,
    factor: f64,
) -> (Description, InputFiles) {
    let (mut description, mut inputs) = (description.clone(), inputs.clone());
    let tasks = description
        .services
        .get_mut(service)
        .map(|service| &mut service.tasks);
    for (name, task) in tasks.into_iter().flatten() {
        // A file of this task alone: another task may read the file that it had.
        let own = |file: &std::path::Path| format!("{}#{service}.{name}", file.display());
        match &mut task.execution_time {
            ExecutionTime::Constant { value } => *value = multiple(*value, factor),
            ExecutionTime::Uniform { min, max } => {
                *min = multiple(*min, factor);
                *max = multiple(*max, factor);
            }
            ExecutionTime::Exponential { min, mean, max } => {
                stretch([min, mean], max, factor);
            }
            ExecutionTime::Lognormal {
                min,
                median,
                p99,
                max,
            } => stretch([min, median, p99], max, factor),
            ExecutionTime::Calibrated { expected } => {
                *expected = expected.map(|expected| multiple(expected, factor));
            }
            ExecutionTime::Histogram { bins, file: None } => *bins = stretched_bins(bins, factor),
            ExecutionTime::Histogram {
                file: Some(file), ..
            } => {
                let bins = stretched_bins(inputs.histogram(file).unwrap_or_default(), factor);
                *file = own(file).into();
                inputs.insert_histogram(file.clone(), bins);
            }
            ExecutionTime::Samples { file } => {
                let mut samples = inputs.samples(file).unwrap_or_default().to_vec();
                for sample in &mut samples {
                    sample.value = multiple(sample.value, factor);
                }
                *file = own(file).into();
                inputs.insert_samples(file.clone(), samples);
            }
            ExecutionTime::Trace {} => {
                if let Arrivals::Trace { file } = &mut task.arrivals {
                    let jobs = inputs.trace(file).unwrap_or_default().iter();
                    let jobs = jobs.map(|job| TracedJob {
                        execution: job.execution.map(|time| multiple(time, factor)),
                        ..*job
                    });
                    let jobs = jobs.collect();
                    *file = own(file).into();
                    inputs.insert_trace(file.clone(), jobs);
                }
            }
        }
    }
    (description, inputs)
}

fn stretched_bins(bins: &[Bin], factor: f64) -> Vec<Bin> {
    let bins = bins.iter().map(|bin| Bin {
        from: multiple(bin.from, factor),
        to: multiple(bin.to, factor),
        count: bin.count,
    });
    bins.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::PathBuf;

    use tailbound_model::SampleCount;

    use super::*;

    const DESCRIPTION: &str = r#"
schema_version = 1
name = "kinds"
seed = 1
[hosts.here]
cpus = [0]
[domains.one]
kind = "process"
builtin = "synthetic-service"
cpus = [0]
[services.one]
domain = "one"
protocol = "synthetic"
endpoint = "unix:/tmp/one.sock"
[services.one.tasks.constant]
arrivals = { kind = "poisson", rate = "1/s" }
execution_time = { kind = "constant", value = "2ms" }
[services.one.tasks.uniform]
arrivals = { kind = "poisson", rate = "1/s" }
execution_time = { kind = "uniform", min = "1ms", max = "3ms" }
[services.one.tasks.exponential]
arrivals = { kind = "poisson", rate = "1/s" }
execution_time = { kind = "exponential", min = "1ms", mean = "3ms", max = "20ms" }
[services.one.tasks.lognormal]
arrivals = { kind = "poisson", rate = "1/s" }
execution_time = { kind = "lognormal", median = "3ms", p99 = "9ms" }
[services.one.tasks.calibrated]
arrivals = { kind = "poisson", rate = "1/s" }
execution_time = { kind = "calibrated", expected = "4ms" }
[services.one.tasks.samples]
arrivals = { kind = "poisson", rate = "1/s" }
execution_time = { kind = "samples", file = "times.csv" }
[services.one.tasks.bins]
arrivals = { kind = "poisson", rate = "1/s" }
execution_time = { kind = "histogram", bins = [{ from = "1ms", to = "2ms", count = 3 }] }
[services.other]
domain = "one"
protocol = "synthetic"
endpoint = "unix:/tmp/other.sock"
[services.other.tasks.samples]
arrivals = { kind = "poisson", rate = "1/s" }
execution_time = { kind = "samples", file = "times.csv" }
"#;

    #[test]
    fn every_kind_of_execution_time_is_stretched_and_other_services_are_not() {
        let description: Description = toml::from_str(DESCRIPTION).unwrap();
        let mut inputs = InputFiles::default();
        let value = Duration::from_micros(1_001);
        inputs.insert_samples("times.csv", vec![SampleCount { value, count: 7 }]);
        let (longer, files) = stretched(&description, &inputs, "one", 1.5);
        let us = Duration::from_micros;
        let of = |task: &str| longer.services["one"].tasks[task].execution_time.clone();
        assert_eq!(of("constant"), ExecutionTime::Constant { value: us(3_000) });
        assert_eq!(
            of("uniform"),
            ExecutionTime::Uniform {
                min: us(1_500),
                max: us(4_500)
            }
        );
        assert_eq!(
            of("exponential"),
            ExecutionTime::Exponential {
                min: us(1_500),
                mean: us(4_500),
                max: Some(us(30_000))
            }
        );
        assert_eq!(
            of("lognormal"),
            ExecutionTime::Lognormal {
                min: us(0),
                median: us(4_500),
                p99: us(13_500),
                max: None
            }
        );
        assert_eq!(
            of("calibrated"),
            ExecutionTime::Calibrated {
                expected: Some(us(6_000))
            }
        );
        let ExecutionTime::Histogram { bins, .. } = of("bins") else {
            panic!()
        };
        assert_eq!(
            bins,
            [Bin {
                from: us(1_500),
                to: us(3_000),
                count: 3
            }]
        );
        let ExecutionTime::Samples { file } = of("samples") else {
            panic!()
        };
        assert_eq!(
            files.samples(&file).unwrap()[0].value,
            Duration::from_nanos(1_501_500)
        );
        assert_eq!(longer.services["other"], description.services["other"]);
        assert_eq!(
            files.samples(&PathBuf::from("times.csv")).unwrap()[0].value,
            value
        );
    }
}
