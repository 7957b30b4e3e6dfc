//! A described service as one queue.

use std::collections::BTreeMap;

use rayon::prelude::*;

use tailbound_distribution::{Distribution, Evidence, Interval};
use tailbound_model::{Arrivals, ExecutionTime, ReservationServer, Scheduling, Service, Task};
use tailbound_time::{Duration, Rate};

use super::lattice::{self, BracketSide, JobStream, LatticeEstimate, Law};
use super::queue::{PRECISE, PoissonQueue};
use super::{ServiceQuery, jobs_per_second, laws, laws_of, predict_poisson};
use crate::batches::BatchLaw;
use crate::slotted::{ExecutionLaw, SlottedPrediction};
use crate::{AnalysisError, Prediction, ProvedBracket, SearchWatch, SharpPoints, Unwatched};

/// The exact method is asked where each task has at most so many execution times; its effort grows with them.
const MOST_VALUES: usize = 16;

impl PoissonQueue {
    /// The queue of a service all of whose tasks are Poisson: their jobs in one stream, first come,
    /// first served, with the longest of the given execution times, or of the described ones for
    /// tasks without. Where these are known as a bracket the longer end counts, and a continuous law is cut into cells of
    /// which the longer end does, so that no response is longer than the queue's.
    ///
    /// # Errors
    /// [`AnalysisError::NotAnalysed`] for other arrivals and other orders of service,
    /// [`AnalysisError::ExecutionTimeUnknown`], and [`AnalysisError::Invalid`] for a service
    /// without tasks.
    pub fn of_service(
        name: &str,
        service: &Service,
        execution_times: &BTreeMap<String, Distribution>,
        server: ReservationServer,
    ) -> Result<Self, AnalysisError> {
        let refused = |reason: String| Err(AnalysisError::NotAnalysed { reason });
        let laws = laws_of((name, service), execution_times)?;
        for (task, described) in &service.tasks {
            if !matches!(described.arrivals, Arrivals::Poisson { .. }) {
                return refused(format!(
                    "task \"{task}\" is not Poisson, and budgets of promises are found for \
                     services with Poisson tasks only"
                ));
            }
        }
        if service.scheduling != Scheduling::Fifo && service.tasks.len() > 1 {
            return refused(
                "several Poisson tasks under priorities; first come, first served is".into(),
            );
        }
        let rates: Vec<f64> = service
            .tasks
            .values()
            .map(|task| jobs_per_second(task).unwrap_or(0.0))
            .collect();
        let sum: f64 = rates.iter().sum();
        let rate = Rate::per_second(sum).ok_or_else(|| AnalysisError::Invalid {
            what: format!("the tasks of service \"{name}\" come {sum} times a second"),
        })?;
        Ok(Self {
            rate,
            execution_times: mixture(&laws, &rates, BracketSide::Pessimistic),
            batches: vec![(1, 1.0)],
            server,
        })
    }
}

impl PoissonQueue {
    /// The response times of the queue, called `name`, as sharp as can be at these points: the answer that
    /// [`predict_at`](super::predict_at) gives for a service with one such task.
    ///
    /// # Errors
    /// As of [`PoissonQueue::solve`].
    pub fn predict(&self, name: &str, points: &SharpPoints) -> Result<Prediction, AnalysisError> {
        self.predict_watched(name, points, &Unwatched)
    }

    /// The prediction of [`Self::predict`], whose progress `watch` hears.
    ///
    /// # Errors
    /// As of [`PoissonQueue::solve`].
    pub fn predict_watched(
        &self,
        name: &str,
        points: &SharpPoints,
        watch: &dyn SearchWatch,
    ) -> Result<Prediction, AnalysisError> {
        self.check()?;
        let task = Task::of(
            Arrivals::Poisson { rate: self.rate },
            ExecutionTime::Calibrated { expected: None },
        );
        let times = Some(self.execution_law()?);
        let batches = BatchLaw::new(&self.batches);
        predict_one_task(
            (name, task, times),
            (&batches, self.server),
            (points, watch),
        )
    }
}

/// The name of the task of a service that has one alone.
pub(super) const TASK: &str = "job";

/// The prediction for a service, called `name`, of one Poisson task whose jobs come in `batches`, with the execution
/// times that are given, or else the task's own.
pub(super) fn predict_one_task(
    (name, task, times): (&str, Task, Option<Distribution>),
    (batches, server): (&BatchLaw, ReservationServer),
    (points, watch): (&SharpPoints, &dyn SearchWatch),
) -> Result<Prediction, AnalysisError> {
    let service = Service::of(name, "", [(TASK, task)]);
    let times = times.map(|times| (TASK.to_owned(), times));
    let query = ServiceQuery {
        name,
        service: &service,
        execution_times: times.into_iter().collect(),
        server,
        dispatch_overhead: Duration::ZERO,
    };
    predict_poisson(&query, batches, (points, watch))
}

/// The execution times of the jobs of all tasks together, with probabilities, towards one side of what is known.
fn mixture(laws: &[Law], rates: &[f64], side: BracketSide) -> Vec<(Duration, f64)> {
    let sum: f64 = rates.iter().sum();
    let mut values: BTreeMap<Duration, f64> = BTreeMap::new();
    for (law, of_task) in laws.iter().zip(rates) {
        for (time, p) in law.atoms(side) {
            *values.entry(time).or_insert(0.0) += p * of_task / sum;
        }
    }
    values.into_iter().collect()
}

/// What the exact method knows of a service's response times at single points.
pub(super) struct Sharp {
    quantiles: Vec<(f64, Interval)>,
    shares: Vec<(Duration, (f64, f64))>,
    mean: Interval,
    evidence: Evidence,
    method: String,
    assumptions: Vec<String>,
}

impl Sharp {
    /// The prediction with this in the lattice's bracket, which stays beside it, as it is proved and this is not.
    /// Jobs of several tasks differ, so only all of them together are known, or those of a task that is alone.
    pub(super) fn sharpen(self, mut prediction: Prediction) -> Prediction {
        prediction.proved = Some(ProvedBracket {
            overall: prediction.overall.clone(),
            mean: prediction.sharp_mean,
        });
        let add = |distribution: &mut Distribution| {
            *distribution = distribution
                .clone()
                .tightened(&self.quantiles, &self.shares);
            let provenance = &mut distribution.provenance;
            provenance.evidence = self.evidence;
            provenance.method = format!("{}; at single points: {}", provenance.method, self.method);
            for assumption in &self.assumptions {
                if !provenance.assumptions.contains(assumption) {
                    provenance.assumptions.push(assumption.clone());
                }
            }
        };
        add(&mut prediction.overall);
        if prediction.per_task.len() == 1 {
            prediction.per_task.values_mut().for_each(add);
        }
        let mean = prediction.sharp_mean.unwrap_or(self.mean);
        prediction.sharp_mean = Some(Interval {
            low: mean.low.max(self.mean.low),
            high: mean.high.into_iter().chain(self.mean.high).min(),
        });
        prediction
            .method
            .clone_from(&prediction.overall.provenance.method);
        let assumptions = &prediction.overall.provenance.assumptions;
        prediction.assumptions.clone_from(assumptions);
        prediction
    }
}

/// The answers about a service within the lattice's bracket: by the exact method where it holds, for few execution times
/// that are known exactly, and by an estimate from lattices for formulas. Between few values the distribution function
/// jumps, of which such an estimate would know nothing.
pub(super) fn sharp(
    query: &ServiceQuery<'_>,
    laws: &[Law],
    (streams, server): (&[JobStream], ReservationServer),
    points: &SharpPoints,
) -> Option<Sharp> {
    let mut points = points.clone();
    let promises = query.service.slos.iter();
    let promised = promises.map(|slo| slo.percentile.probability());
    points.probabilities.extend(promised);
    points.probabilities.sort_by(f64::total_cmp);
    points.probabilities.dedup();
    if laws.iter().all(|law| matches!(law, Law::Continuous(_))) {
        return Sharp::estimated(streams, server, query.dispatch_overhead, &points);
    }
    Sharp::exact(query, laws, (streams, server), &points)
}

impl Sharp {
    fn exact(
        query: &ServiceQuery<'_>,
        laws: &[Law],
        (streams, server): (&[JobStream], ReservationServer),
        points: &SharpPoints,
    ) -> Option<Self> {
        let are_few = |law: &Law| law.exact_values().is_some_and(|count| count <= MOST_VALUES);
        if !laws.iter().all(are_few) {
            return None;
        }
        let (name, times) = (query.name, &query.execution_times);
        let queue = PoissonQueue {
            batches: streams.first()?.batches.jobs().to_vec(),
            ..PoissonQueue::of_service(name, query.service, times, server).ok()?
        };
        let responses = queue.exactly(PRECISE).ok()?;
        let overhead = query.dispatch_overhead;
        let later = |at: Interval| Interval {
            low: at.low.saturating_add(overhead),
            high: at.high.map(|high| high.saturating_add(overhead)),
        };
        // Each is an integration of its own over all places in a period.
        let quantiles = points.probabilities.par_iter().filter_map(|&probability| {
            Some((probability, later(responses.quantile(probability).ok()?)))
        });
        let (quantiles, mean) = rayon::join(|| quantiles.collect(), || later(responses.mean()));
        let within = points.times.iter().filter(|at| **at >= overhead);
        let shares = within.map(|at| {
            let bounds = responses.cdf(at.saturating_sub(overhead));
            (*at, (bounds.lower, bounds.upper))
        });
        Some(Self {
            quantiles,
            shares: shares.collect(),
            mean,
            evidence: responses.evidence(),
            method: responses.method.clone(),
            assumptions: responses.assumptions.clone(),
        })
    }

    fn estimated(
        streams: &[JobStream],
        server: ReservationServer,
        overhead: Duration,
        points: &SharpPoints,
    ) -> Option<Self> {
        let LatticeEstimate {
            quantiles,
            shares,
            mean,
        } = lattice::estimate(streams, server, overhead, points)?;
        Some(Self {
            quantiles,
            shares,
            mean,
            evidence: Evidence::Estimate,
            method: "lattices that keep the mean execution time, extrapolated to none".into(),
            assumptions: vec![
                "the error of the lattice is estimated from that of one twice as coarse, and added"
                    .into(),
            ],
        })
    }
}

/// The prediction for a service on a server that follows the arrivals, of all its jobs together;
/// `None` for other servers. By task only where there is only one. On a rough grid where `watch` stops the computation.
pub(super) fn predict_on_grid(
    query: &ServiceQuery<'_>,
    batches: &BatchLaw,
    watch: &dyn SearchWatch,
) -> Option<Result<Prediction, AnalysisError>> {
    let follows = matches!(
        query.server.in_effect(),
        ReservationServer::Polling { .. } | ReservationServer::ConstantBandwidth { .. }
    );
    if !follows {
        return None;
    }
    let (name, service, times) = (query.name, query.service, &query.execution_times);
    let queue = PoissonQueue::of_service(name, service, times, query.server);
    let question = queue.and_then(|queue| Ok((queue, law_of_jobs(query)?)));
    match question {
        Ok((queue, law)) => {
            let queue = PoissonQueue {
                batches: batches.jobs().to_vec(),
                ..queue
            };
            let slotted = queue.on_a_grid(law, (query.dispatch_overhead, watch))?;
            Some(slotted.map(|slotted| prediction(query, slotted)))
        }
        Err(error) => Some(Err(error)),
    }
}

/// The law of the execution times of all jobs together.
fn law_of_jobs(query: &ServiceQuery<'_>) -> Result<ExecutionLaw, AnalysisError> {
    let laws = laws(query)?;
    let tasks = query.service.tasks.values();
    let rates: Vec<f64> = tasks
        .map(|task| jobs_per_second(task).unwrap_or(0.0))
        .collect();
    if laws.iter().all(|law| law.exact_values().is_some()) {
        return ExecutionLaw::new(mixture(&laws, &rates, BracketSide::Pessimistic));
    }
    let exact_means: Option<Vec<f64>> = laws.iter().map(Law::exact_mean_seconds).collect();
    let mean = exact_means.map(|means| {
        let weighted: f64 = means
            .iter()
            .zip(&rates)
            .map(|(mean, rate)| mean * rate)
            .sum();
        weighted / rates.iter().sum::<f64>()
    });
    ExecutionLaw::between(
        mixture(&laws, &rates, BracketSide::Optimistic),
        mixture(&laws, &rates, BracketSide::Pessimistic),
        mean,
    )
}

fn prediction(query: &ServiceQuery<'_>, slotted: SlottedPrediction) -> Prediction {
    let sharp_mean = Some(slotted.mean);
    let mut overall = slotted.distribution;
    overall.provenance.subject = format!("response time of {}", query.name);
    let assumptions = slotted.assumptions;
    overall.provenance.assumptions.clone_from(&assumptions);
    let mut per_task = BTreeMap::new();
    if let (Some(task), 1) = (query.service.tasks.keys().next(), query.service.tasks.len()) {
        let mut alone = overall.clone();
        alone.provenance.subject = format!("response time of {}.{task}", query.name);
        per_task.insert(task.clone(), alone);
    }
    Prediction {
        overall,
        proved: None,
        cap_assumptions: Vec::new(),
        per_task,
        method: slotted.method,
        assumptions,
        sharp_mean,
        is_stopped: slotted.is_stopped,
        utilisation: slotted.utilisation,
        bandwidth: slotted.bandwidth,
    }
}
