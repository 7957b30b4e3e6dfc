//! What is asked and what is answered.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_distribution::{Distribution, Evidence, Interval};
use tailbound_model::{ReservationServer, Service};
use tailbound_time::Duration;

use crate::CapAssumption;

/// A question: how long do this service's responses take under that reservation?
#[derive(Clone, Debug)]
pub struct ServiceQuery<'a> {
    /// The service's name, for the subject of the answer.
    pub name: &'a str,
    /// The service: its tasks, their arrivals, and the order of service.
    pub service: &'a Service,
    /// Execution times by task, such as measured ones; a task left out has its described one.
    pub execution_times: BTreeMap<String, Distribution>,
    /// The rule by which the CPU time is given.
    pub server: ReservationServer,
    /// A constant added to every response: the way from client to service and back.
    pub dispatch_overhead: Duration,
}

/// Where an answer is to be as sharp as the methods allow.
///
/// A distribution is bracketed on a lattice everywhere; where the exact method holds, these points get its
/// bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct SharpPoints {
    /// Probabilities whose quantiles are asked for; each above 0 and below 1.
    pub probabilities: Vec<f64>,
    /// Response times whose cumulative probabilities are asked for.
    pub times: Vec<Duration>,
}

impl Default for SharpPoints {
    /// The percentiles that reports show.
    fn default() -> Self {
        Self {
            probabilities: vec![0.5, 0.9, 0.95, 0.99, 0.999],
            times: Vec::new(),
        }
    }
}

/// A proved bracket of response times.
#[derive(Clone, Debug, PartialEq)]
pub struct ProvedBracket {
    /// The response times of all jobs together.
    pub overall: Distribution,
    /// The mean response time of all jobs, where it is known more sharply than from the distribution.
    pub mean: Option<Interval>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The response times of all jobs together.
    pub overall: Distribution,
    /// The bracket that is proved, where `overall` is a sharper estimate.
    #[serde(skip)]
    pub proved: Option<ProvedBracket>,
    /// The response times by task.
    pub per_task: BTreeMap<String, Distribution>,
    /// The method by name, with its source.
    pub method: String,
    /// The assumptions of the method.
    pub assumptions: Vec<String>,
    /// The assumptions about a cap, where the domain has no more than one; in words they stand among the
    /// assumptions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cap_assumptions: Vec<CapAssumption>,
    /// Whether the computation was stopped, so that the distributions are wider brackets than it would have given.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
    /// The mean response time, where it is known more sharply than from the distribution.
    #[serde(skip)]
    pub(crate) sharp_mean: Option<Interval>,
    /// The load, in CPUs.
    pub utilisation: f64,
    /// The reservation, in CPUs.
    pub bandwidth: f64,
}

impl ProvedBracket {
    /// Bounds of the mean response time of all jobs.
    pub fn mean(&self) -> Option<Interval> {
        self.mean.or_else(|| self.overall.mean())
    }
}

impl Prediction {
    /// Rests the prediction on what is taken for granted of a cap, which the host may break: it is an estimate then,
    /// and no proved bound.
    pub fn assume_of_cap(&mut self) {
        self.cap_assumptions = CapAssumption::ALL.to_vec();
        let words = CapAssumption::ALL.iter().map(ToString::to_string);
        self.assume(&words.collect::<Vec<_>>());
    }

    /// Rests the prediction on what is not shown to hold, if there is any: it is an estimate then, and no proved bound.
    pub fn assume(&mut self, assumptions: &[String]) {
        if assumptions.is_empty() {
            return;
        }
        self.proved = None;
        self.assumptions.extend(assumptions.iter().cloned());
        for distribution in std::iter::once(&mut self.overall).chain(self.per_task.values_mut()) {
            let provenance = &mut distribution.provenance;
            provenance.evidence = Evidence::Estimate;
            provenance.assumptions.extend(assumptions.iter().cloned());
        }
    }

    /// Bounds of the mean response time of all jobs.
    pub fn mean(&self) -> Option<Interval> {
        self.sharp_mean.or_else(|| self.overall.mean())
    }
}
