//! Periodic and sporadic tasks: their hyperperiod, utilisation and supply function.

mod busy;
mod window;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use num_bigint::BigUint;
use num_traits::ToPrimitive;
use tailbound_distribution::Distribution;
use tailbound_model::{Arrivals, Service};
use tailbound_time::Duration;

use crate::AnalysisError;
use crate::rational::{common_multiple, compare_sum};
use busy::BusyCycle;
use window::TaskStream;

/// The longest hyperperiod that is taken: beyond it, neighbours would starve for as long.
pub const LONGEST_HYPERPERIOD: Duration = Duration::from_secs(3_600);
/// The most jobs that a schedule is followed for.
pub(crate) const MOST_JOBS: u64 = 4_000_000;
/// The most jobs of a hyperperiod for which its busy intervals are laid out at once; for longer
/// ones the worst phases are searched for first.
const FEW_JOBS: u128 = 100_000;

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
    /// [`AnalysisError::NotPeriodic`] for a Poisson task or a trace, [`AnalysisError::DelayedTask`] for one with release
    /// jitter, [`AnalysisError::ExecutionTimeUnknown`] for a task that is neither described nor measured.
    pub fn of(
        service: &Service,
        execution_times: &BTreeMap<String, Distribution>,
    ) -> Result<Self, AnalysisError> {
        let mut tasks = Vec::new();
        for (name, task) in &service.tasks {
            let not_periodic = || AnalysisError::NotPeriodic { task: name.clone() };
            let period = task.least_gap().ok_or_else(not_periodic)?;
            let offset = match task.arrivals {
                Arrivals::Periodic { offset, .. } => Some(offset),
                _ => None,
            };
            if !task.jitter.is_zero() {
                return Err(AnalysisError::delayed(name, "jitter"));
            }
            if period.is_zero() {
                return Err(AnalysisError::Invalid {
                    what: format!("task \"{name}\" has a period of zero; it must be above zero"),
                });
            }
            let execution = match execution_times.get(name) {
                Some(distribution) => distribution.quantile(1.0).and_then(|longest| longest.high),
                None => task.execution_time.longest(),
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
    /// [`AnalysisError::HyperperiodTooLong`] beyond [`LONGEST_HYPERPERIOD`], with how long it is
    /// and the period that lengthens it most; [`AnalysisError::Invalid`] for a period of zero.
    pub fn hyperperiod(&self) -> Result<Duration, AnalysisError> {
        self.check_periods()?;
        let multiple = common_multiple(self.periods());
        match multiple.to_u64().map(Duration::from_nanos) {
            Some(hyperperiod) if hyperperiod <= LONGEST_HYPERPERIOD => Ok(hyperperiod),
            _ => Err(AnalysisError::HyperperiodTooLong {
                hyperperiod: self.described_hyperperiod(&multiple),
                limit: LONGEST_HYPERPERIOD,
            }),
        }
    }

    /// How long a hyperperiod beyond the limit is, and without which period it would be shortest.
    fn described_hyperperiod(&self, multiple: &BigUint) -> String {
        let without =
            |left_out_ns: u64| common_multiple(self.periods().filter(|one| *one != left_out_ns));
        let shortest = self
            .periods()
            .map(|period| (without(period), period))
            .min_by(|a, b| a.0.cmp(&b.0));
        let whole = in_seconds(multiple);
        match shortest {
            Some((rest, period)) if rest < *multiple => format!(
                "{whole} ({} without the period {})",
                in_seconds(&rest),
                Duration::from_nanos(period)
            ),
            _ => whole,
        }
    }

    fn periods(&self) -> impl Iterator<Item = u64> + Clone {
        self.tasks.iter().map(|task| task.period.as_nanos())
    }

    fn check_periods(&self) -> Result<(), AnalysisError> {
        match self.periods().position(|period| period == 0) {
            None => Ok(()),
            Some(index) => Err(AnalysisError::Invalid {
                what: format!("task {index} has a period of zero; it must be above zero"),
            }),
        }
    }

    /// How the utilisation, the sum of C / T, compares with one CPU, exactly and whatever the
    /// hyperperiod.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for a period of zero, [`AnalysisError::Overloaded`] above one.
    fn check_one_cpu_suffices(&self) -> Result<Ordering, AnalysisError> {
        self.check_periods()?;
        let shares = self
            .tasks
            .iter()
            .map(|task| (task.execution.as_nanos(), task.period.as_nanos()));
        match compare_sum(shares, (1, 1)) {
            Ordering::Greater => Err(AnalysisError::Overloaded {
                utilisation: self.utilisation(),
                bandwidth: 1.0,
                remedy: "one CPU does not suffice; send fewer or shorter requests".into(),
            }),
            below_or_equal => Ok(below_or_equal),
        }
    }

    /// The sum of C / T, in CPUs, for printing; verdicts compare exactly.
    pub fn utilisation(&self) -> f64 {
        let share = |task: &PeriodicTask| task.execution.as_secs_f64() / task.period.as_secs_f64();
        self.tasks.iter().map(share).sum()
    }

    /// The budget demand D(t) (thesis, eq. 3.2): the execution time of all jobs released up to
    /// and at `at`, with every sporadic task released at zero and from then on as often as it may
    /// be. Saturates.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for a period of zero.
    pub fn demanded(&self, at: Duration) -> Result<Duration, AnalysisError> {
        self.check_periods()?;
        let demand = |task: &PeriodicTask| match at.checked_sub(task.offset.unwrap_or_default()) {
            Some(since) => {
                u128::from(since / task.period + 1) * u128::from(task.execution.as_nanos())
            }
            None => 0,
        };
        let sum: u128 = self.tasks.iter().map(demand).sum();
        Ok(Duration::from_nanos(u64::try_from(sum).unwrap_or(u64::MAX)))
    }

    /// The budget supply S(t) (thesis, eq. 3.5): the time that a CPU of its own has worked before
    /// `at`, under any work-conserving order (Lemma 3), with sporadic tasks as in
    /// [`demanded`](Self::demanded).
    ///
    /// # Errors
    /// [`AnalysisError::Overloaded`] above one CPU, [`AnalysisError::Invalid`] for a period of
    /// zero, [`AnalysisError::NotAnalysed`] where the load is so close to one CPU that too many
    /// releases would have to be looked at.
    pub fn supplied(&self, at: Duration) -> Result<Duration, AnalysisError> {
        self.check_one_cpu_suffices()?;
        let offset = |task: &PeriodicTask| task.offset.unwrap_or_default().as_nanos();
        let phases: Vec<u64> = self.tasks.iter().map(offset).collect();
        window::worked(&self.streams(), &phases, at.as_nanos(), &mut 0)
            .map(Duration::from_nanos)
            .ok_or_else(|| AnalysisError::NotAnalysed {
                reason: format!(
                    "the load of {:.6} of a CPU may leave work behind over too many releases",
                    self.utilisation()
                ),
            })
    }

    fn streams(&self) -> Vec<TaskStream> {
        self.tasks.iter().map(TaskStream::of).collect()
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
    /// section 3.2.2; divided by P it is the thesis's W(P)). Exact for every period, which need
    /// not divide anything, and without a limit on the hyperperiod.
    ///
    /// Sporadic tasks may be released at any time, no closer than their period; periodic ones by
    /// their offsets. See docs/concepts/interfaces.md.
    ///
    /// # Errors
    /// [`AnalysisError::Overloaded`] above one CPU, [`AnalysisError::Invalid`] for a period of
    /// zero, [`AnalysisError::NotAnalysed`] where the worst phases of a very long hyperperiod are
    /// not found in reasonable time, with bounds.
    pub fn least_budget(&self, period: Duration) -> Result<Duration, AnalysisError> {
        LeastBudgets::of(self)?.of_period(period)
    }

    /// How many jobs a hyperperiod has, where that is a number of 64 bits.
    fn jobs_per_hyperperiod(&self) -> Option<u128> {
        let hyperperiod = common_multiple(self.periods()).to_u64()?;
        Some(
            self.periods()
                .map(|period| u128::from(hyperperiod / period))
                .sum(),
        )
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

/// What answers for the least budgets of a load at many periods.
#[derive(Debug)]
pub(crate) struct LeastBudgets<'a> {
    load: &'a PeriodicLoad,
    /// Of a short hyperperiod, its busy intervals.
    cycle: Option<BusyCycle>,
    /// The whole CPU is needed, sooner or later for any time.
    whole: bool,
}

impl<'a> LeastBudgets<'a> {
    /// Prepares for `load`.
    ///
    /// # Errors
    /// [`AnalysisError::Overloaded`] above one CPU, [`AnalysisError::Invalid`] for a period of
    /// zero.
    pub(crate) fn of(load: &'a PeriodicLoad) -> Result<Self, AnalysisError> {
        let whole = load.check_one_cpu_suffices()? == Ordering::Equal;
        let direct = whole
            || load.tasks.iter().any(|task| task.offset.is_none())
            || window::ever_together(&load.streams());
        let cycle = match load.jobs_per_hyperperiod() {
            Some(jobs) if !direct && jobs <= FEW_JOBS => BusyCycle::of(load),
            _ => None,
        };
        Ok(Self { load, cycle, whole })
    }

    /// As of [`PeriodicLoad::least_budget`].
    pub(crate) fn of_period(&self, period: Duration) -> Result<Duration, AnalysisError> {
        if self.whole {
            return Ok(period);
        }
        if let Some(cycle) = &self.cycle {
            return Ok(Duration::from_nanos(cycle.most_in(period.as_nanos())));
        }
        let load = self.load;
        let unsettled = match window::most_worked(&load.streams(), period.as_nanos()) {
            Ok(most) => {
                debug_assert!(
                    most <= period.as_nanos(),
                    "one CPU works no more than the window"
                );
                return Ok(Duration::from_nanos(most));
            }
            Err(unsettled) => unsettled,
        };
        // The long way round, where there is one.
        let sporadic = load.tasks.iter().any(|task| task.offset.is_none());
        let jobs = load.jobs_per_hyperperiod();
        let cycle = jobs.filter(|jobs| !sporadic && *jobs <= u128::from(MOST_JOBS));
        match cycle.and_then(|_| BusyCycle::of(load)) {
            Some(cycle) => Ok(Duration::from_nanos(cycle.most_in(period.as_nanos()))),
            None => Err(AnalysisError::NotAnalysed {
                reason: format!(
                    "the least budget per {period} depends on too many combinations of offsets; \
                     it is between {} and {}, of which the latter suffices",
                    Duration::from_nanos(unsettled.at_least),
                    Duration::from_nanos(unsettled.at_most),
                ),
            }),
        }
    }
}

/// A length in nanoseconds as text, whatever its size.
fn in_seconds(nanoseconds: &BigUint) -> String {
    // The leading 64 bits, and how many there are besides.
    let besides = nanoseconds.bits().saturating_sub(64);
    let leading = (nanoseconds >> besides).to_f64().unwrap_or(f64::MAX);
    let digits = leading.log10() + besides as f64 * f64::log10(2.0) - 9.0;
    if digits < 6.0 {
        return format!("about {:.1} s", 10_f64.powf(digits));
    }
    let mantissa = 10_f64.powf(digits - digits.floor());
    // 9.96 would be printed as 10.0.
    let (mantissa, exponent) = match mantissa {
        above if above >= 9.95 => (1.0, digits.floor() + 1.0),
        mantissa => (mantissa, digits.floor()),
    };
    format!("about {mantissa:.1}e{exponent} s")
}
