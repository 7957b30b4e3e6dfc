//! What a task's jobs are: when they come, and how long they run.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, Rate};

use crate::arrival_curve::ArrivalCurve;
use crate::continuous_law::ContinuousLaw;
use crate::description::{Protocol, Scheduling, Service, Task};
use crate::web::HttpVersion;

/// The laws by which the jobs of a task are released.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Arrivals {
    /// At `offset`, and every `period` after it.
    Periodic {
        /// The distance between releases.
        period: Duration,
        /// The first release.
        #[serde(default)]
        offset: Duration,
    },
    /// Gaps drawn uniformly from `min_gap` to `max_gap`.
    Sporadic {
        /// The minimal inter-arrival time.
        min_gap: Duration,
        /// The maximal inter-arrival time.
        max_gap: Duration,
        /// The earliest first release.
        #[serde(default)]
        offset: Duration,
    },
    /// A Poisson process.
    Poisson {
        /// Jobs per unit of time.
        rate: Rate,
    },
    /// A Poisson process whose rate depends on a hidden state (a Markov-modulated Poisson process): quiet and
    /// busy times in turn.
    MarkovModulatedPoisson {
        /// The states, 2 to 8 of them. After an exponentially distributed stay, each state is left
        /// for any of the others, all equally likely; the process is stationary from the start.
        #[schemars(length(min = 2, max = 8))]
        states: Vec<PoissonState>,
    },
    /// Gaps of `min_gap` and an exponentially distributed rest.
    SporadicExponential {
        /// The minimal inter-arrival time; not reached by the rest, which is above zero.
        min_gap: Duration,
        /// The mean inter-arrival time, above `min_gap`.
        mean_gap: Duration,
        /// The earliest first release.
        #[serde(default)]
        offset: Duration,
    },
    /// Several jobs close together, again and again.
    Bursts {
        /// The number of jobs of a burst; at least 2.
        #[schemars(range(min = 2))]
        jobs: u32,
        /// The distance between the jobs of a burst; all at once if left out.
        #[serde(default)]
        spacing: Duration,
        /// The gaps from the start of one burst to the start of the next, which comes after the
        /// last job of the one before.
        gaps: Gaps,
        /// The earliest start of the first burst.
        #[serde(default)]
        offset: Duration,
    },
    /// By an arrival curve: from a job to the k-th job after it, no less than the k-th distance passes.
    MinimumDistances {
        /// The least time from a job to the next one, to the one after it, and so on. They never fall. Where neither
        /// these nor `later` say a distance, it follows from those of fewer jobs.
        #[schemars(length(min = 1, max = 1024))]
        distances: Vec<Duration>,
        /// The least time from a job to those that come many jobs later.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schemars(length(max = 1024))]
        later: Vec<LaterDistance>,
        /// The mean inter-arrival time: jobs come by a Poisson process of that rate, each delayed until the distances
        /// allow it. Left out, every job comes as soon as the distances allow.
        #[serde(default)]
        mean_gap: Option<Duration>,
    },
    /// Release times from a file.
    Trace {
        /// The file; relative paths start at the description.
        file: PathBuf,
    },
    /// By the users of the service, each of whom waits for a reply before the next request. Only measurement and simulation
    /// know users.
    Users {},
}

/// The least time from a job to a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaterDistance {
    /// The number of jobs later; more than `distances` has.
    #[schemars(range(min = 1))]
    pub jobs: u64,
    /// The least time to it.
    pub distance: Duration,
}

/// A state of a Markov-modulated Poisson process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoissonState {
    /// Jobs per unit of time during the stay; no job comes if left out.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// The mean length of a stay in the state.
    pub mean_stay: Duration,
}

impl PoissonState {
    /// Jobs per second in the long run. Each state is entered equally often, since each leads to any of the
    /// others with the same probability; so each counts by its mean stay.
    fn mean_per_second(states: &[Self]) -> f64 {
        let (mut jobs, mut seconds) = (0.0, 0.0);
        for state in states {
            let stay = state.mean_stay.as_secs_f64();
            jobs += state.rate.map_or(0.0, Rate::as_per_second) * stay;
            seconds += stay;
        }
        jobs / seconds
    }
}

/// The law of the gaps between bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Gaps {
    /// Drawn uniformly from `min` to `max`; always the same if these are equal.
    Uniform {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// `min` and an exponentially distributed rest.
    Exponential {
        /// No gap is shorter.
        min: Duration,
        /// The mean, above `min`.
        mean: Duration,
    },
}

impl Gaps {
    /// The shortest gap that there can be.
    pub fn least(&self) -> Duration {
        match self {
            Self::Uniform { min, .. } | Self::Exponential { min, .. } => *min,
        }
    }

    /// The mean gap, rounded down to a nanosecond.
    pub fn mean(&self) -> Duration {
        match self {
            Self::Uniform { min, max } => middle(*min, *max),
            Self::Exponential { mean, .. } => *mean,
        }
    }
}

fn middle(a: Duration, b: Duration) -> Duration {
    let (low, high) = (a.min(b), a.max(b));
    low.saturating_add(high.saturating_sub(low) / 2)
}

/// The execution time of a job on a CPU of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum ExecutionTime {
    /// Always `value`.
    Constant {
        /// The execution time.
        value: Duration,
    },
    /// Drawn uniformly from `min` to `max`.
    Uniform {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// `min` and an exponentially distributed rest.
    Exponential {
        /// No job is shorter.
        #[serde(default)]
        min: Duration,
        /// The mean, above `min`.
        mean: Duration,
        /// No job is longer: where the law would have it so, a job takes just that. Left out, it is what one job in
        /// 10^12 would exceed, 27.6 times the mean (above `min`).
        #[serde(default)]
        max: Option<Duration>,
    },
    /// `min` and a rest whose logarithm is normally distributed, known by two percentiles.
    Lognormal {
        /// No job is shorter.
        #[serde(default)]
        min: Duration,
        /// The time that half of the jobs take at most, above `min`.
        median: Duration,
        /// The time that 99% of the jobs take at most, above `median`.
        p99: Duration,
        /// No job is longer: where the law would have it so, a job takes just that. Left out, it is what one job in
        /// 10^12 would exceed.
        #[serde(default)]
        max: Option<Duration>,
    },
    /// Drawn from measured samples: a CSV of a distribution.
    Samples {
        /// The file; relative paths start at the description.
        file: PathBuf,
    },
    /// Drawn from a histogram: a bin by its count, then uniformly within it. Either `bins` or `file`.
    Histogram {
        /// The bins.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        bins: Vec<Bin>,
        /// A CSV of bins; relative paths start at the description.
        #[serde(default)]
        file: Option<PathBuf>,
    },
    /// Job by job from the file of the task's `trace` arrivals.
    Trace {},
    /// Measured on a dedicated CPU before the run.
    Calibrated {
        /// The execution time that prediction assumes until a calibration is there.
        #[serde(default)]
        expected: Option<Duration>,
    },
}

/// One bin of a histogram of execution times.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Bin {
    /// The shortest execution time in the bin.
    pub from: Duration,
    /// The longest; not shorter than `from`.
    pub to: Duration,
    /// The number of jobs in the bin.
    pub count: u64,
}

impl Arrivals {
    /// The mean gap between two releases of a client, rounded down to a nanosecond; `None` for a
    /// trace, which says so only in its file, and where no job ever comes.
    pub fn mean_gap(&self) -> Option<Duration> {
        match self {
            Self::Periodic { period, .. } => Some(*period),
            Self::Sporadic {
                min_gap, max_gap, ..
            } => Some(middle(*min_gap, *max_gap)),
            Self::SporadicExponential { mean_gap, .. } => Some(*mean_gap),
            Self::Bursts { jobs, gaps, .. } => Some(gaps.mean() / u64::from((*jobs).max(1))),
            Self::Poisson { rate } => Some(rate.mean_gap()),
            Self::MarkovModulatedPoisson { states } => {
                Rate::per_second(PoissonState::mean_per_second(states)).map(Rate::mean_gap)
            }
            Self::MinimumDistances { mean_gap, .. } => mean_gap.or_else(|| {
                let (jobs, length) = ArrivalCurve::of(self)?.rate();
                Some(length / jobs)
            }),
            Self::Trace { .. } | Self::Users {} => None,
        }
    }

    /// What rate-monotonic order compares: the period or the minimal gap, or else the mean gap; the
    /// longest of all for a trace.
    pub fn rate_monotonic_gap(&self) -> Duration {
        let least = self.least_gap().or_else(|| self.mean_gap());
        least.unwrap_or(Duration::MAX)
    }

    /// The least time between two releases of a client, where the description promises one.
    pub fn least_gap(&self) -> Option<Duration> {
        match self {
            Self::Periodic { period, .. } => Some(*period),
            Self::Sporadic { min_gap, .. } | Self::SporadicExponential { min_gap, .. } => {
                Some(*min_gap)
            }
            Self::MinimumDistances { distances, .. } => {
                distances.first().copied().filter(|first| !first.is_zero())
            }
            Self::Bursts { .. }
            | Self::Poisson { .. }
            | Self::MarkovModulatedPoisson { .. }
            | Self::Trace { .. }
            | Self::Users {} => None,
        }
    }
}

/// Two times of a law that stand in the wrong order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeReversal {
    /// The key of the time that has to be the shorter one, and its value.
    pub lower: (&'static str, Duration),
    /// The key of the time that has to be the longer one, and its value.
    pub upper: (&'static str, Duration),
    /// Whether the two may be equal.
    may_be_equal: bool,
}

impl TimeReversal {
    /// The message, such as "p99 2ms is not longer than median 2ms".
    pub fn message(&self) -> String {
        let ((lower_key, lower), (upper_key, upper)) = (self.lower, self.upper);
        match self.may_be_equal {
            true => format!("{upper_key} {upper} is shorter than {lower_key} {lower}"),
            false => format!("{upper_key} {upper} is not longer than {lower_key} {lower}"),
        }
    }

    /// The remedy.
    pub fn remedy(&self) -> String {
        match self.may_be_equal {
            true => "exchange them, or correct one".into(),
            false => format!("make {} longer than {}", self.upper.0, self.lower.0),
        }
    }
}

impl ExecutionTime {
    /// The times of a law that do not rise as their meaning has it: none, if the law is one.
    pub fn reversals(&self) -> Vec<TimeReversal> {
        let pairs = match *self {
            Self::Uniform { min, max } => {
                let (lower, upper) = (("min", min), ("max", max));
                let reversal = TimeReversal {
                    lower,
                    upper,
                    may_be_equal: true,
                };
                return (max < min).then_some(reversal).into_iter().collect();
            }
            Self::Exponential { min, mean, max } => vec![
                (("min", min), ("mean", Some(mean))),
                (("mean", mean), ("max", max)),
            ],
            Self::Lognormal {
                min,
                median,
                p99,
                max,
            } => vec![
                (("min", min), ("median", Some(median))),
                (("median", median), ("p99", Some(p99))),
                (("median", median), ("max", max)),
            ],
            _ => Vec::new(),
        };
        let pairs = pairs.into_iter();
        let pairs = pairs.filter_map(|(lower, (key, upper))| Some((lower, (key, upper?))));
        let reversed = pairs.filter(|(lower, upper)| upper.1 <= lower.1);
        let reversals = reversed.map(|(lower, upper)| TimeReversal {
            lower,
            upper,
            may_be_equal: false,
        });
        reversals.collect()
    }

    /// The longest execution time that the description itself gives.
    pub fn longest(&self) -> Option<Duration> {
        match self {
            Self::Constant { value } => Some(*value),
            Self::Uniform { max, .. } => Some(*max),
            Self::Exponential { .. } | Self::Lognormal { .. } => {
                ContinuousLaw::of(self).map(|law| law.longest())
            }
            Self::Histogram { bins, .. } => bins.iter().map(|bin| bin.to).max(),
            Self::Calibrated { expected } => *expected,
            Self::Samples { .. } | Self::Trace {} => None,
        }
    }

    /// The mean execution time that the description itself gives, rounded down to a nanosecond.
    pub fn mean(&self) -> Option<Duration> {
        match self {
            Self::Uniform { min, max } => Some(middle(*min, *max)),
            Self::Exponential { .. } | Self::Lognormal { .. } => {
                ContinuousLaw::of(self).map(|law| Duration::from_nanos(law.mean_ns() as u64))
            }
            Self::Histogram { bins, .. } => mean_of_bins(bins),
            other => other.longest(),
        }
    }
}

fn mean_of_bins(bins: &[Bin]) -> Option<Duration> {
    let (mut weighted, mut all) = (0_u128, 0_u128);
    for bin in bins {
        let middle = u128::from(middle(bin.from, bin.to).as_nanos());
        weighted = weighted.checked_add(middle.checked_mul(u128::from(bin.count))?)?;
        all += u128::from(bin.count);
    }
    let mean = weighted.checked_div(all)?;
    u64::try_from(mean).ok().map(Duration::from_nanos)
}

impl Service {
    /// A synthetic service of these tasks, first in, first out, of which nothing else is said.
    pub fn of<Name: Into<String>>(
        domain: impl Into<String>,
        endpoint: impl Into<String>,
        tasks: impl IntoIterator<Item = (Name, Task)>,
    ) -> Self {
        let tasks = tasks.into_iter().map(|(name, task)| (name.into(), task));
        Self {
            domain: domain.into(),
            protocol: Protocol::Synthetic,
            endpoint: endpoint.into(),
            login: None,
            tls: None,
            http_version: HttpVersion::default(),
            message_size: None,
            scheduling: Scheduling::default(),
            max_in_flight: None,
            users: None,
            ready: None,
            setup: Vec::new(),
            tasks: tasks.collect(),
            slos: Vec::new(),
        }
    }
}

impl Service {
    /// The first task with a delay that schedulability tests alone know, and the key of the delay.
    pub fn delayed_task(&self) -> Option<(&str, &'static str)> {
        let mut tasks = self.tasks.iter();
        tasks.find_map(|(name, task)| Some((name.as_str(), task.delay_key()?)))
    }
}

impl Task {
    /// A task with one client, of which nothing else is said.
    pub fn of(arrivals: Arrivals, execution_time: ExecutionTime) -> Self {
        Self {
            arrivals,
            execution_time,
            deadline: None,
            priority: None,
            jitter: Duration::ZERO,
            blocking: Duration::ZERO,
            request: None,
            clients: 1,
            vcpu: None,
            boost: None,
            sections: Vec::new(),
        }
    }

    /// The key of a delay of the task's jobs that schedulability tests alone know, if it has one.
    pub fn delay_key(&self) -> Option<&'static str> {
        match self {
            _ if !self.jitter.is_zero() => Some("jitter"),
            _ if !self.blocking.is_zero() => Some("blocking"),
            _ => None,
        }
    }

    /// The least time between two releases of a client, where there is one.
    pub fn least_gap(&self) -> Option<Duration> {
        self.arrivals.least_gap()
    }

    /// How long after its release a job is to be done: the deadline, or else the least time between
    /// two releases (an implicit deadline).
    pub fn relative_deadline(&self) -> Option<Duration> {
        self.deadline.or_else(|| self.least_gap())
    }

    /// How many jobs are released in the long run, all clients together; `None` for a trace, which
    /// says so only in its file, and for users, who wait for the service.
    pub fn mean_rate(&self) -> Option<Rate> {
        let each = match &self.arrivals {
            Arrivals::Periodic { period, .. } => 1.0 / period.as_secs_f64(),
            Arrivals::Sporadic {
                min_gap, max_gap, ..
            } => 2.0 / (min_gap.as_secs_f64() + max_gap.as_secs_f64()),
            Arrivals::SporadicExponential { mean_gap, .. } => 1.0 / mean_gap.as_secs_f64(),
            Arrivals::Bursts { jobs, gaps, .. } => f64::from(*jobs) / gaps.mean().as_secs_f64(),
            Arrivals::Poisson { rate } => rate.as_per_second(),
            Arrivals::MarkovModulatedPoisson { states } => PoissonState::mean_per_second(states),
            Arrivals::MinimumDistances { .. } => 1.0 / self.arrivals.mean_gap()?.as_secs_f64(),
            Arrivals::Trace { .. } | Arrivals::Users {} => return None,
        };
        Rate::per_second(each * f64::from(self.clients))
    }
}
