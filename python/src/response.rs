//! Response times of one queue.

use std::sync::Arc;

use pyo3::prelude::*;
use tailbound_analysis::notation::ExecutionNotation;
use tailbound_analysis::response_time::{DescribedQueue, PoissonQueue, QueueResponses};
use tailbound_analysis::{AnalysisError as Refused, SharpPoints, Unwatched};
use tailbound_assessment::prediction::{
    PredictedResponses, PredictionQuery, ProvedAnswers, QUEUE, TimeBounds,
};
use tailbound_distribution::{Distribution, Evidence, Interval};
use tailbound_model::ReservationServer;
use tailbound_time::{Duration, Rate};

use crate::interruption::interruptible;
use crate::refusal::{invalid, refused};
use crate::sizing::kind;

/// Nothing is known.
const UNKNOWN: Interval = Interval {
    low: Duration::ZERO,
    high: None,
};

/// The lower ends of some times, and their upper ends where there are any.
pub type Ends = (Vec<u64>, Vec<Option<u64>>);

/// Response times that answer questions.
#[pyclass(frozen, module = "tailbound._native")]
pub struct Answer {
    source: Arc<Source>,
    /// The queue that was asked about, if its execution times are listed.
    queue: Option<PoissonQueue>,
}

/// What answers.
pub enum Source {
    /// The queue of `analysis::response_time`.
    Queue(Box<QueueResponses>),
    /// A service of a description, or a queue whose execution times have a law.
    Service(Box<PredictedResponses>),
    /// A distribution as a whole: simulated times, or those of a chain.
    Whole(Box<Distribution>),
    /// The bracket that is proved, beside a sharper estimate.
    Proved(Box<ProvedAnswers>),
}

impl Answer {
    /// Times with a distribution of their own, such as simulated ones.
    pub fn of_distribution(distribution: Distribution) -> Self {
        Self::of(Source::Whole(Box::new(distribution)))
    }

    /// Predicted response times of a service.
    pub fn predicted(responses: PredictedResponses) -> Self {
        Self::of(Source::Service(Box::new(responses)))
    }

    fn of(source: Source) -> Self {
        Self {
            source: Arc::new(source),
            queue: None,
        }
    }

    /// The source, to be asked from another thread.
    pub fn source(&self) -> Arc<Source> {
        Arc::clone(&self.source)
    }
}

impl Source {
    /// The distribution as others compare it, where it is no bracket already by its quantiles at
    /// `probabilities`.
    pub fn distribution(&self, probabilities: &[f64]) -> Result<Distribution, Refused> {
        match self {
            Self::Queue(queue) => queue.distribution("response time", probabilities),
            Self::Service(service) => Ok(service.distribution.clone()),
            Self::Whole(distribution) => Ok((**distribution).clone()),
            Self::Proved(proved) => Ok(proved.distribution.clone()),
        }
    }

    /// The bounds of the quantiles at `probabilities`.
    pub fn ends(&self, probabilities: &[f64]) -> Result<Ends, Refused> {
        let one = |probability: &f64| match self {
            Self::Queue(queue) => queue.quantile(*probability),
            _ if !(*probability > 0.0 && *probability < 1.0) => Err(Refused::Invalid {
                what: format!("a quantile's probability is {probability}; choose one in (0, 1)"),
            }),
            Self::Service(service) => {
                let quantile = service.distribution.quantile(*probability);
                Ok(quantile.unwrap_or(UNKNOWN))
            }
            // Beyond what was simulated nothing bounds it from above.
            Self::Whole(distribution) => Ok(distribution.quantile(*probability).unwrap_or(UNKNOWN)),
            Self::Proved(proved) => {
                let quantile = proved.distribution.quantile(*probability);
                Ok(quantile.unwrap_or(UNKNOWN))
            }
        };
        let intervals: Vec<Interval> = probabilities.iter().map(one).collect::<Result<_, _>>()?;
        Ok(split(&intervals))
    }
}

/// Whether the server of a queue has a proved bracket beside its estimates, as all have but a polling one.
fn has_proved_bracket(queue: &PoissonQueue) -> bool {
    !matches!(queue.server.in_effect(), ReservationServer::Polling { .. })
}

/// A time between bounds that may not be known.
fn between(bounds: TimeBounds) -> Interval {
    Interval {
        low: bounds.low.unwrap_or(Duration::ZERO),
        high: bounds.high,
    }
}

/// The lower and the upper ends of intervals, apart.
pub fn split(intervals: &[Interval]) -> Ends {
    let ends = |interval: &Interval| {
        let high_ns = interval.high.map(Duration::as_nanos);
        (interval.low.as_nanos(), high_ns)
    };
    intervals.iter().map(ends).unzip()
}

#[pymethods]
impl Answer {
    /// Bounds of the shares of responses within each of the times.
    fn cdf(&self, python: Python<'_>, at_ns: Vec<u64>) -> (Vec<f64>, Vec<f64>) {
        let one = |at_ns: &u64| {
            let at = Duration::from_nanos(*at_ns);
            match &*self.source {
                Source::Queue(queue) => {
                    let bounds = queue.cdf(at);
                    (bounds.lower, bounds.upper)
                }
                Source::Service(service) => service.distribution.cdf(at),
                Source::Whole(distribution) => distribution.cdf(at),
                Source::Proved(proved) => proved.distribution.cdf(at),
            }
        };
        python.detach(|| at_ns.iter().map(one).unzip())
    }

    /// Bounds of the quantiles, in nanoseconds.
    fn quantile(&self, python: Python<'_>, probabilities: Vec<f64>) -> PyResult<Ends> {
        let source = self.source();
        interruptible(python, move || source.ends(&probabilities))?
            .map_err(|error| refused(python, &error))
    }

    /// Bounds of the mean, in nanoseconds.
    fn mean(&self, python: Python<'_>) -> (u64, Option<u64>) {
        let mean = python.detach(|| match &*self.source {
            Source::Queue(queue) => queue.mean(),
            Source::Service(service) => between(service.mean),
            Source::Whole(distribution) => distribution.mean().unwrap_or(UNKNOWN),
            Source::Proved(proved) => between(proved.mean),
        });
        (mean.low.as_nanos(), mean.high.map(Duration::as_nanos))
    }

    /// The method by name, with its source.
    #[getter]
    fn method(&self) -> &str {
        match &*self.source {
            Source::Queue(queue) => &queue.method,
            Source::Service(service) => &service.method,
            Source::Whole(distribution) => &distribution.provenance.method,
            Source::Proved(proved) => &proved.distribution.provenance.method,
        }
    }

    /// What the method takes for granted.
    #[getter]
    fn assumptions(&self) -> Vec<String> {
        match &*self.source {
            Source::Queue(queue) => queue.assumptions.clone(),
            Source::Service(service) => service.assumptions.clone(),
            Source::Whole(distribution) => distribution.provenance.assumptions.clone(),
            Source::Proved(proved) => proved.distribution.provenance.assumptions.clone(),
        }
    }

    /// `bound` or `estimate`.
    #[getter]
    fn evidence(&self) -> String {
        let evidence = match &*self.source {
            Source::Queue(queue) => queue.evidence(),
            Source::Service(service) => service.evidence,
            Source::Whole(simulated) => simulated.provenance.evidence,
            Source::Proved(proved) => proved.distribution.provenance.evidence,
        };
        evidence.to_string()
    }

    /// The load, in CPUs, of a predicted queue.
    #[getter]
    fn utilisation(&self) -> Option<f64> {
        match &*self.source {
            Source::Queue(queue) => Some(queue.utilisation),
            Source::Service(service) => Some(service.utilisation),
            Source::Whole(_) | Source::Proved(_) => None,
        }
    }

    /// The reservation, in CPUs, of a predicted queue.
    #[getter]
    fn bandwidth(&self) -> Option<f64> {
        match &*self.source {
            Source::Queue(queue) => Some(queue.bandwidth),
            Source::Service(service) => Some(service.bandwidth),
            Source::Whole(_) | Source::Proved(_) => None,
        }
    }

    /// The bracket that is proved, where the answers are a sharper estimate of the same response times.
    fn proved(&self, python: Python<'_>) -> PyResult<Option<Self>> {
        match &*self.source {
            Source::Service(service) => {
                let proved = service.proved.clone();
                Ok(proved.map(|proved| Self::of(Source::Proved(Box::new(proved)))))
            }
            Source::Queue(solved) if solved.evidence() == Evidence::Estimate => {
                let Some(queue) = self.queue.clone().filter(has_proved_bracket) else {
                    return Ok(None);
                };
                let bracket = interruptible(python, move || queue.on_a_lattice())?;
                let bracket = bracket.map_err(|error| refused(python, &error))?;
                Ok(Some(Self::of(Source::Queue(Box::new(bracket)))))
            }
            Source::Queue(_) | Source::Whole(_) | Source::Proved(_) => Ok(None),
        }
    }
}

/// Execution times as Python gives them: nanoseconds with probabilities, or a law as the command line has it.
#[derive(FromPyObject)]
pub enum GivenTimes {
    /// Nanoseconds with probabilities.
    Values(Vec<(u64, f64)>),
    /// A law, such as `exponential:mean=2ms`.
    Law(String),
}

/// A queue that is asked about: with listed execution times, or with those of a law.
pub enum GivenQueue {
    /// The execution times that occur.
    Listed(PoissonQueue),
    /// Execution times of a law.
    Described(DescribedQueue),
}

impl GivenQueue {
    /// The queue of batches that come so often on a server.
    ///
    /// # Errors
    /// A rate that is none, and a text that is no law.
    pub fn new(
        python: Python<'_>,
        (per_second, batches): (f64, Vec<(u32, f64)>),
        times: GivenTimes,
        server: ReservationServer,
    ) -> PyResult<Self> {
        let rate = rate(python, per_second)?;
        let values = match times {
            GivenTimes::Values(values) => execution_times(&values),
            GivenTimes::Law(text) => {
                let parsed: Result<ExecutionNotation, _> = text.parse();
                match parsed.map_err(|error| invalid(python, error))? {
                    ExecutionNotation::Values(values) => values,
                    ExecutionNotation::Law(execution_time) => {
                        return Ok(Self::Described(DescribedQueue {
                            rate,
                            execution_time,
                            batches,
                            server,
                        }));
                    }
                }
            }
        };
        Ok(Self::Listed(PoissonQueue {
            rate,
            execution_times: values,
            batches,
            server,
        }))
    }

    /// The queue with listed execution times, none of them shorter than it is.
    ///
    /// # Errors
    /// What the analysis refuses.
    pub fn listed(self) -> Result<PoissonQueue, Refused> {
        match self {
            Self::Listed(queue) => Ok(queue),
            Self::Described(queue) => queue.with_listed_times(QUEUE.0),
        }
    }

    fn solve(&self) -> Result<Source, Refused> {
        match self {
            Self::Listed(queue) => Ok(Source::Queue(Box::new(queue.solve()?))),
            Self::Described(queue) => {
                let watch = &Unwatched;
                let prediction = queue.predict_watched(QUEUE.0, &SharpPoints::default(), watch)?;
                let query = PredictionQuery {
                    service: None,
                    variant: None,
                    percentiles: &[],
                    times: &[],
                    watch,
                };
                let responses = PredictedResponses::of(prediction, &query);
                Ok(Source::Service(Box::new(responses)))
            }
        }
    }
}

/// The response times of a queue on the reservation server of that name.
///
/// # Errors
/// What the analysis refuses; a budget or period that is missing, or is there without a server.
#[pyfunction]
#[pyo3(signature = (per_second, execution_time, batches, server, budget_ns, period_ns))]
pub fn predict(
    python: Python<'_>,
    per_second: f64,
    execution_time: GivenTimes,
    batches: Vec<(u32, f64)>,
    server: &str,
    budget_ns: Option<u64>,
    period_ns: Option<u64>,
) -> PyResult<Answer> {
    let server = match reservation(python, server, budget_ns, period_ns)? {
        None => ReservationServer::Dedicated,
        Some((budget, period)) => kind(python, server)?.with(budget, period),
    };
    let queue = GivenQueue::new(python, (per_second, batches), execution_time, server)?;
    let listed = match &queue {
        GivenQueue::Listed(queue) => Some(queue.clone()),
        GivenQueue::Described(_) => None,
    };
    let solved = interruptible(python, move || queue.solve())?;
    let source = solved.map_err(|error| refused(python, &error))?;
    Ok(Answer {
        source: Arc::new(source),
        queue: listed,
    })
}

/// Budget and period where the server of that name has them; `None` for a CPU of its own.
fn reservation(
    python: Python<'_>,
    server: &str,
    budget_ns: Option<u64>,
    period_ns: Option<u64>,
) -> PyResult<Option<(Duration, Duration)>> {
    if !SERVERS.contains(&server) {
        let what = format!("there is no server \"{server}\"; choose one of {SERVERS:?}");
        return Err(invalid(python, what));
    }
    match (server, budget_ns, period_ns) {
        ("dedicated", None, None) => Ok(None),
        ("dedicated", ..) => {
            let what = "a dedicated CPU has no budget and no period; leave them out";
            Err(invalid(python, what))
        }
        (_, Some(budget_ns), Some(period_ns)) => {
            let both = (
                Duration::from_nanos(budget_ns),
                Duration::from_nanos(period_ns),
            );
            Ok(Some(both))
        }
        _ => {
            let what = "a server needs a budget and a period; give both, or server=\"dedicated\"";
            Err(invalid(python, what))
        }
    }
}

/// The servers by name.
const SERVERS: [&str; 5] = [
    "deferrable",
    "periodic",
    "polling",
    "constant-bandwidth",
    "dedicated",
];

/// The rate of so many events per second.
pub fn rate(python: Python<'_>, per_second: f64) -> PyResult<Rate> {
    Rate::per_second(per_second).ok_or_else(|| {
        invalid(
            python,
            format!("a rate of {per_second}/s is none; it must be above zero"),
        )
    })
}

/// Execution times with probabilities, as the analysis takes them.
pub fn execution_times(execution_time_ns: &[(u64, f64)]) -> Vec<(Duration, f64)> {
    let one = |(time_ns, probability): &(u64, f64)| (Duration::from_nanos(*time_ns), *probability);
    execution_time_ns.iter().map(one).collect()
}
