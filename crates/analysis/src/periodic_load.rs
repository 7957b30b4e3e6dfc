//! Periodic and sporadic tasks: their hyperperiod, utilisation and supply function.

use std::collections::BTreeMap;

use tailbound_distribution::Distribution;
use tailbound_model::{Arrivals, ExecutionTime, Service};
use tailbound_time::Duration;

use crate::AnalysisError;

/// The longest hyperperiod that is taken: beyond it, neighbours would starve for as long.
pub const LONGEST_HYPERPERIOD: Duration = Duration::from_secs(3_600);
/// The most jobs that a schedule is followed for.
pub(crate) const MOST_JOBS: u64 = 4_000_000;

/// A task of the thesis's model (section 3.2.1): offset A, worst-case execution time C, period T.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodicTask {
    /// The first release; `None` for a sporadic task, which may be released at any time.
    pub offset: Option<Duration>,
    /// The worst-case execution time.
    pub execution: Duration,
    /// The period, or the minimal inter-arrival time.
    pub period: Duration,
}

/// A set of periodic and sporadic tasks on one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeriodicLoad {
    /// The tasks, one per client.
    pub tasks: Vec<PeriodicTask>,
}

impl PeriodicLoad {
    /// The tasks of `service`, with the longest of the given execution times, or of the described
    /// ones for tasks without.
    ///
    /// # Errors
    /// [`AnalysisError::NotPeriodic`] for a Poisson task or a trace,
    /// [`AnalysisError::ExecutionTimeUnknown`] for a task that is neither described nor measured.
    pub fn of(
        service: &Service,
        execution_times: &BTreeMap<String, Distribution>,
    ) -> Result<Self, AnalysisError> {
        let mut tasks = Vec::new();
        for (name, task) in &service.tasks {
            let (offset, period) = match &task.arrivals {
                Arrivals::Periodic { period, offset } => (Some(*offset), *period),
                Arrivals::Sporadic { min_gap, .. } => (None, *min_gap),
                Arrivals::Poisson { .. } | Arrivals::Trace { .. } => {
                    return Err(AnalysisError::NotPeriodic { task: name.clone() });
                }
            };
            if period.is_zero() {
                return Err(AnalysisError::Invalid {
                    what: format!("task \"{name}\" has a period of zero; it must be above zero"),
                });
            }
            let execution = match execution_times.get(name) {
                Some(distribution) => distribution.quantile(1.0).and_then(|longest| longest.high),
                None => described_longest(&task.execution_time),
            };
            let execution = execution
                .ok_or_else(|| AnalysisError::ExecutionTimeUnknown { task: name.clone() })?;
            let one = PeriodicTask {
                offset,
                execution,
                period,
            };
            tasks.extend((0..task.clients).map(|_| one.clone()));
        }
        Ok(Self { tasks })
    }

    /// This load and another on the same CPU.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.tasks.extend(other.tasks);
        self
    }

    /// The least common multiple of the periods.
    ///
    /// # Errors
    /// [`AnalysisError::HyperperiodTooLong`] beyond [`LONGEST_HYPERPERIOD`].
    pub fn hyperperiod(&self) -> Result<Duration, AnalysisError> {
        let mut multiple: u128 = 1;
        for task in &self.tasks {
            let period = u128::from(task.period.as_nanos());
            let too_long = |hyperperiod: String| AnalysisError::HyperperiodTooLong {
                hyperperiod,
                limit: LONGEST_HYPERPERIOD,
            };
            multiple = (multiple / gcd(multiple, period))
                .checked_mul(period)
                .ok_or_else(|| too_long("beyond all bounds".into()))?;
            if multiple > u128::from(LONGEST_HYPERPERIOD.as_nanos()) {
                let hours = multiple as f64 / 3.6e12;
                return Err(too_long(format!("at least {hours:.1} hours")));
            }
        }
        // Within the limit, so that it fits.
        Ok(Duration::from_nanos(multiple as u64))
    }

    /// The work per hyperperiod, exactly: the utilisation times the hyperperiod.
    ///
    /// # Errors
    /// As of [`hyperperiod`](Self::hyperperiod), and [`AnalysisError::Overloaded`] where the work
    /// exceeds the hyperperiod.
    pub fn work_per_hyperperiod(&self) -> Result<(Duration, Duration), AnalysisError> {
        let hyperperiod = self.hyperperiod()?;
        let jobs = |task: &PeriodicTask| {
            u128::from(hyperperiod.as_nanos() / task.period.as_nanos())
                * u128::from(task.execution.as_nanos())
        };
        let work: u128 = self.tasks.iter().map(jobs).sum();
        match u64::try_from(work) {
            Ok(work) if work <= hyperperiod.as_nanos() => {
                Ok((Duration::from_nanos(work), hyperperiod))
            }
            _ => Err(AnalysisError::Overloaded {
                utilisation: work as f64 / hyperperiod.as_nanos() as f64,
                bandwidth: 1.0,
                remedy: "one CPU does not suffice; send fewer or shorter requests".into(),
            }),
        }
    }

    /// The least budget of a deferrable server with this period that the load never uses up
    /// before the next replenishment, wherever the replenishments lie: the maximum over t of
    /// S(t + P) - S(t), with S the time that a CPU of its own has worked (thesis, eq. 3.5 and
    /// section 3.2.2; divided by P it is the thesis's W(P)).
    ///
    /// For sporadic tasks the synchronous periodic load bounds every sequence of releases; see
    /// docs/concepts/response-time.md.
    ///
    /// # Errors
    /// As of [`hyperperiod`](Self::hyperperiod); [`AnalysisError::NotAnalysed`] where a
    /// hyperperiod holds too many jobs.
    pub fn least_budget(&self, period: Duration) -> Result<Duration, AnalysisError> {
        let (_, hyperperiod) = self.work_per_hyperperiod()?;
        let sporadic = self.tasks.iter().any(|task| task.offset.is_none());
        let start = if sporadic {
            Duration::ZERO
        } else {
            self.last_offset()
        };
        // From the last offset and a hyperperiod on, all repeats.
        let starts_until = start.saturating_add(hyperperiod);
        let until = starts_until.saturating_add(period);
        let busy = BusyIntervals::of(&self.releases(until, sporadic)?);
        Ok(Duration::from_nanos(
            busy.most_in(period.as_nanos(), starts_until.as_nanos()),
        ))
    }

    pub(crate) fn last_offset(&self) -> Duration {
        let offsets = self.tasks.iter().filter_map(|task| task.offset);
        offsets.max().unwrap_or(Duration::ZERO)
    }

    /// All releases up to `until`, as time, task index and execution time, in order; without
    /// offsets if `synchronous`.
    pub(crate) fn releases(
        &self,
        until: Duration,
        synchronous: bool,
    ) -> Result<Vec<(u64, usize, u64)>, AnalysisError> {
        let until = until.as_nanos();
        let count: u64 = self
            .tasks
            .iter()
            .map(|t| until / t.period.as_nanos() + 1)
            .sum();
        if count > MOST_JOBS {
            return Err(AnalysisError::NotAnalysed {
                reason: format!(
                    "the hyperperiods to follow hold {count} jobs, more than the {MOST_JOBS} that a schedule \
                     is followed for"
                ),
            });
        }
        let mut releases = Vec::with_capacity(count as usize);
        for (index, task) in self.tasks.iter().enumerate() {
            let first = match task.offset {
                Some(offset) if !synchronous => offset.as_nanos(),
                _ => 0,
            };
            let mut at = first;
            while at <= until {
                releases.push((at, index, task.execution.as_nanos()));
                at = at.saturating_add(task.period.as_nanos());
            }
        }
        releases.sort_unstable();
        Ok(releases)
    }
}

fn described_longest(time: &ExecutionTime) -> Option<Duration> {
    match time {
        ExecutionTime::Constant { value } => Some(*value),
        ExecutionTime::Uniform { max, .. } => Some(*max),
        ExecutionTime::Calibrated { expected } => *expected,
        ExecutionTime::Samples { .. } => None,
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// When a CPU of its own works, under any work-conserving order (thesis, Lemma 3).
struct BusyIntervals {
    /// Start, end, and the time worked before the start.
    intervals: Vec<(u64, u64, u64)>,
}

impl BusyIntervals {
    fn of(releases: &[(u64, usize, u64)]) -> Self {
        let mut intervals: Vec<(u64, u64, u64)> = Vec::new();
        for (at, _, execution) in releases {
            match intervals.last_mut() {
                Some((_, end, _)) if *at <= *end => *end += execution,
                last => {
                    let worked = last.map_or(0, |(start, end, before)| *before + (*end - *start));
                    intervals.push((*at, at + execution, worked));
                }
            }
        }
        Self { intervals }
    }

    /// The time worked before `at`: S(at).
    fn worked(&self, at: u64) -> u64 {
        let after = self.intervals.partition_point(|(start, _, _)| *start <= at);
        match after
            .checked_sub(1)
            .and_then(|index| self.intervals.get(index))
        {
            Some((start, end, before)) => before + at.min(*end) - start,
            None => 0,
        }
    }

    /// The maximum of S(t + length) - S(t) over t up to `starts_until`. The difference is linear
    /// between the points where t or t + length meets an end of a busy interval, and can only be
    /// highest where t meets a start or t + length an end.
    fn most_in(&self, length: u64, starts_until: u64) -> u64 {
        let gained = |t: u64| self.worked(t.saturating_add(length)) - self.worked(t);
        let candidates = self.intervals.iter().flat_map(|(start, end, _)| {
            [Some(*start), end.checked_sub(length)]
                .into_iter()
                .flatten()
        });
        candidates
            .filter(|t| *t <= starts_until)
            .chain([0])
            .map(gained)
            .max()
            .unwrap_or(0)
    }
}
