//! When the jobs of one client are released, one after the other.

use std::path::Path;

use tailbound_model::{ArrivalCurve, Arrivals, Gaps, InputFiles, PoissonState, Task};
use tailbound_time::{Duration, Rate};

use super::spaced_releases::SpacedReleases;
use super::streams::RandomStream;
use super::{WorkloadError, check_range};

/// The release times of one client of a task, in order.
pub(super) enum ClientReleases {
    /// Each a period after the one before.
    Periodic { next: u64, period_ns: u64 },
    /// Each after a gap drawn from a law.
    Sporadic {
        next: u64,
        gaps: Gaps,
        stream: RandomStream,
    },
    /// Several close together, the bursts after gaps drawn from a law.
    Bursts {
        burst: Burst,
        gaps: Gaps,
        stream: RandomStream,
    },
    /// A Poisson process. The sum of the gaps is kept as a float, so that rounding each release to
    /// nanoseconds does not add up to another rate.
    Poisson {
        next: f64,
        mean_gap_ns: f64,
        stream: RandomStream,
    },
    /// A Poisson process that goes from state to state.
    Modulated(Modulated),
    /// By an arrival curve.
    Spaced(SpacedReleases),
    /// From a list, the first of them next.
    Trace { times: Vec<u64>, next: usize },
}

/// Where a task is in its bursts.
pub(super) struct Burst {
    start: u64,
    spacing_ns: u64,
    jobs: u64,
    released: u64,
}

/// A Poisson process in one of its states. Times are floats, as those of a plain one.
pub(super) struct Modulated {
    states: Vec<PoissonState>,
    /// The present state, and when it ends.
    state: usize,
    end_ns: f64,
    next: f64,
    stream: RandomStream,
}

impl Modulated {
    /// The process as it is when it has gone on for ever: in a state with the probability of its share of the
    /// time. How long the state has lasted does not matter to how long it lasts on.
    fn new(states: &[PoissonState], mut stream: RandomStream) -> Self {
        let stay_ns = |state: &PoissonState| state.mean_stay.as_nanos() as f64;
        let mut drawn = stream.unit() * states.iter().map(stay_ns).sum::<f64>();
        let passed = |state: &PoissonState| {
            drawn -= stay_ns(state);
            drawn < 0.0
        };
        let state = states.iter().position(passed).unwrap_or(0);
        let end_ns = stay_ns(&states[state]) * stream.exponential();
        let mut process = Self {
            states: states.to_vec(),
            state,
            end_ns,
            next: 0.0,
            stream,
        };
        process.advance();
        process
    }

    fn advance(&mut self) {
        loop {
            let rate = self.states[self.state].rate;
            let gap_ns = rate.map_or(f64::INFINITY, |rate| {
                1e9 / rate.as_per_second() * self.stream.exponential()
            });
            if self.next + gap_ns < self.end_ns {
                self.next += gap_ns;
                return;
            }
            // What is left of the gap is as long as a whole one: it is drawn anew in the next state.
            self.next = self.end_ns;
            let others = self.states.len() - 1;
            let step = 1 + self.stream.below(others as u64) as usize;
            self.state = (self.state + step) % self.states.len();
            let stay = self.states[self.state].mean_stay;
            self.end_ns += stay.as_nanos() as f64 * self.stream.exponential();
        }
    }
}

/// A gap of that law.
fn draw_gap(gaps: &Gaps, stream: &mut RandomStream) -> u64 {
    match gaps {
        Gaps::Uniform { min, max } => stream.uniform(*min, *max).as_nanos(),
        Gaps::Exponential { min, mean } => {
            let mean_rest_ns = mean.saturating_sub(*min).as_nanos() as f64;
            let rest = (mean_rest_ns * stream.exponential()).round() as u64;
            min.as_nanos().saturating_add(rest)
        }
    }
}

impl ClientReleases {
    pub(super) fn new(
        name: &str,
        task: &Task,
        stream: RandomStream,
        inputs: &InputFiles,
    ) -> Result<Self, WorkloadError> {
        let zero_gap = |key| WorkloadError::ZeroGap {
            task: name.into(),
            key,
        };
        match &task.arrivals {
            Arrivals::Periodic { period, .. } if period.is_zero() => Err(zero_gap("period")),
            Arrivals::Periodic { period, offset } => Ok(Self::Periodic {
                next: offset.as_nanos(),
                period_ns: period.as_nanos(),
            }),
            Arrivals::Sporadic {
                min_gap,
                max_gap,
                offset,
            } => {
                let ends = (("min_gap", *min_gap), ("max_gap", *max_gap));
                let gaps = Gaps::Uniform {
                    min: *min_gap,
                    max: *max_gap,
                };
                Self::sporadic_between(name, ends, gaps, *offset, stream)
            }
            Arrivals::SporadicExponential {
                min_gap,
                mean_gap,
                offset,
            } => {
                let ends = (("min_gap", *min_gap), ("mean_gap", *mean_gap));
                let gaps = Gaps::Exponential {
                    min: *min_gap,
                    mean: *mean_gap,
                };
                Self::sporadic_between(name, ends, gaps, *offset, stream)
            }
            Arrivals::Bursts { gaps, .. } if gaps.mean().is_zero() => Err(zero_gap("gaps")),
            Arrivals::Bursts {
                jobs,
                spacing,
                gaps,
                offset,
            } => Self::bursts(name, (*jobs, *spacing), *gaps, *offset, stream),
            Arrivals::Poisson { rate } => Ok(Self::poisson(*rate, stream)),
            Arrivals::MarkovModulatedPoisson { states } => {
                let stays = !states.iter().any(|state| state.mean_stay.is_zero());
                let modulated = stays.then(|| Self::modulated(states, stream));
                modulated.ok_or_else(|| zero_gap("mean_stay"))
            }
            curve @ Arrivals::MinimumDistances { mean_gap, .. } => {
                let spaced = ArrivalCurve::of(curve);
                let spaced = spaced.map(|curve| SpacedReleases::new(&curve, *mean_gap, stream));
                spaced
                    .map(Self::Spaced)
                    .ok_or_else(|| zero_gap("distances"))
            }
            Arrivals::Trace { file } => Self::trace(name, file, inputs),
            // They come by what users are answered, not by a law of their own.
            Arrivals::Users {} => Ok(Self::none()),
        }
    }

    fn poisson(rate: Rate, mut stream: RandomStream) -> Self {
        let mean_gap_ns = 1e9 / rate.as_per_second();
        Self::Poisson {
            next: mean_gap_ns * stream.exponential(),
            mean_gap_ns,
            stream,
        }
    }

    /// No release at all.
    fn none() -> Self {
        let times = Vec::new();
        Self::Trace { times, next: 0 }
    }

    fn trace(name: &str, file: &Path, inputs: &InputFiles) -> Result<Self, WorkloadError> {
        let missing = || WorkloadError::InputMissing {
            task: name.into(),
            file: file.into(),
        };
        let trace = inputs.trace(file).ok_or_else(missing)?;
        let times = trace.iter().map(|job| job.release.as_nanos()).collect();
        Ok(Self::Trace { times, next: 0 })
    }

    /// No release at all where there is no other state or no rate, in a description that nobody has checked.
    fn modulated(states: &[PoissonState], stream: RandomStream) -> Self {
        let rates = states.iter().filter(|state| state.rate.is_some());
        match (states.len(), rates.count()) {
            (0 | 1, _) | (_, 0) => Self::none(),
            _ => Self::Modulated(Modulated::new(states, stream)),
        }
    }

    /// The first burst starts within the shortest gap after the offset.
    fn bursts(
        name: &str,
        (jobs, spacing): (u32, Duration),
        gaps: Gaps,
        offset: Duration,
        mut stream: RandomStream,
    ) -> Result<Self, WorkloadError> {
        let length = spacing.checked_mul(u64::from(jobs.saturating_sub(1)));
        let length = length.unwrap_or(Duration::MAX);
        check_range(
            name,
            ("(jobs - 1) x spacing", length),
            ("gap", gaps.least()),
        )?;
        let first = stream.uniform(Duration::ZERO, gaps.least());
        Ok(Self::Bursts {
            burst: Burst {
                start: offset.saturating_add(first).as_nanos(),
                spacing_ns: spacing.as_nanos(),
                jobs: u64::from(jobs),
                released: 0,
            },
            gaps,
            stream,
        })
    }

    /// Sporadic releases whose gaps have these ends, or this least and mean one.
    fn sporadic_between(
        name: &str,
        (low, high): ((&'static str, Duration), (&'static str, Duration)),
        gaps: Gaps,
        offset: Duration,
        stream: RandomStream,
    ) -> Result<Self, WorkloadError> {
        if high.1.is_zero() {
            return Err(WorkloadError::ZeroGap {
                task: name.into(),
                key: high.0,
            });
        }
        check_range(name, low, high)?;
        Ok(Self::sporadic(gaps, offset, stream))
    }

    /// The first release lies within the shortest gap after the offset.
    fn sporadic(gaps: Gaps, offset: Duration, mut stream: RandomStream) -> Self {
        let first = stream.uniform(Duration::ZERO, gaps.least());
        Self::Sporadic {
            next: offset.saturating_add(first).as_nanos(),
            gaps,
            stream,
        }
    }

    /// The next release; `None` if there is none.
    #[inline]
    pub(super) fn next(&self) -> Option<u64> {
        match self {
            Self::Periodic { next, .. } | Self::Sporadic { next, .. } => Some(*next),
            Self::Bursts { burst, .. } => {
                let since = burst.spacing_ns.saturating_mul(burst.released);
                Some(burst.start.saturating_add(since))
            }
            Self::Poisson { next, .. } => Some(*next as u64),
            Self::Modulated(process) => Some(process.next as u64),
            Self::Spaced(process) => Some(process.next()),
            Self::Trace { times, next } => times.get(*next).copied(),
        }
    }

    /// Goes on to the release after the next one.
    #[inline]
    pub(super) fn advance(&mut self) {
        match self {
            Self::Periodic { next, period_ns } => *next = next.saturating_add(*period_ns),
            Self::Sporadic { next, gaps, stream } => {
                *next = next.saturating_add(draw_gap(gaps, stream));
            }
            Self::Bursts {
                burst,
                gaps,
                stream,
            } => {
                burst.released += 1;
                if burst.released >= burst.jobs {
                    burst.released = 0;
                    burst.start = burst.start.saturating_add(draw_gap(gaps, stream));
                }
            }
            Self::Poisson {
                next,
                mean_gap_ns,
                stream,
            } => *next += *mean_gap_ns * stream.exponential(),
            Self::Modulated(process) => process.advance(),
            Self::Spaced(process) => process.advance(),
            Self::Trace { next, .. } => *next += 1,
        }
    }
}
