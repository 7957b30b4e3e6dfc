//! Why there is no answer.

use tailbound_distribution::StepCdfError;
use tailbound_time::Duration;

/// Why an analysis has no answer, and what would give one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AnalysisError {
    /// The work outgrows the reservation (thesis, eq. 4.1: a stable system has U < W).
    #[error(
        "the load {utilisation:.4} is not below the bandwidth {bandwidth:.4}: work piles up without \
         end; {remedy}"
    )]
    Overloaded {
        /// The utilisation, in CPUs.
        utilisation: f64,
        /// The bandwidth of the reservation, in CPUs.
        bandwidth: f64,
        /// What bandwidth would do, or what else.
        remedy: String,
    },
    /// No analysis of ours holds for this system; simulation may.
    #[error("not analysed: {reason}; `tailbound simulate` answers for it")]
    NotAnalysed {
        /// What is outside the analyses.
        reason: String,
    },
    /// The execution times of a task are not known.
    #[error(
        "the execution time of task \"{task}\" is not known; calibrate it, or give `expected` in \
         its execution_time"
    )]
    ExecutionTimeUnknown {
        /// The task.
        task: String,
    },
    /// The tasks' common period is too long to reserve for.
    #[error(
        "the hyperperiod of the tasks is {hyperperiod}, longer than {limit}: no budget can be \
         planned over it; make the periods harmonic, or give budget and period yourself"
    )]
    HyperperiodTooLong {
        /// The hyperperiod, as text, since it may be beyond all durations.
        hyperperiod: String,
        /// The longest that is taken.
        limit: Duration,
    },
    /// No budget up to the whole of what may be had makes the deadlines.
    #[error(
        "no budget per {period} makes the deadlines, not even {most}: {shortage}; choose a \
         shorter period, or give the tasks less work or later deadlines"
    )]
    NoBudgetSuffices {
        /// The period of the reservation.
        period: Duration,
        /// The largest budget that was considered.
        most: Duration,
        /// What is missing even then.
        shortage: String,
    },
    /// A rate at which even a resource that is never late makes deadlines late.
    #[error(
        "no delay makes the deadlines at {rate:.4} of a CPU, not even zero: {shortage}; choose a \
         higher rate, or give the tasks less work or later deadlines"
    )]
    NoDelaySuffices {
        /// The rate, in CPUs.
        rate: f64,
        /// What is missing without any delay.
        shortage: String,
    },
    /// A rule needs periodic or sporadic tasks.
    #[error(
        "task \"{task}\" has no period: the rule is for periodic and sporadic tasks; give budget \
         and period, and `tailbound predict` tells the response times"
    )]
    NotPeriodic {
        /// The task.
        task: String,
    },
    /// A time is too long to calculate with.
    #[error("{quantity}, is beyond the {limit} that is calculated with; give shorter times")]
    OutOfRange {
        /// What is too long, and how long.
        quantity: String,
        /// The longest that is taken.
        limit: Duration,
    },
    /// An analysis would take too long.
    #[error(
        "{method} gave up after {limit} steps; a load further below the capacity, or harmonic periods, \
         need fewer"
    )]
    TooManySteps {
        /// The analysis.
        method: &'static str,
        /// The most steps that are taken.
        limit: u64,
    },
    /// A task with a delay that schedulability tests alone know.
    #[error(
        "task \"{task}\" has `{key}`, which only `tailbound analyze` and `interface` know; leave it out here"
    )]
    DelayedTask {
        /// The task.
        task: String,
        /// The key of the delay.
        key: &'static str,
    },
    /// The description does not make sense here.
    #[error("{what}")]
    Invalid {
        /// What is wrong and what would be right.
        what: String,
    },
}

impl AnalysisError {
    /// A computed distribution that is none.
    pub(crate) fn no_distribution(error: StepCdfError) -> Self {
        Self::Invalid {
            what: format!("the computed distribution is none: {error}; please report this"),
        }
    }

    /// A task with a delay that schedulability tests alone know: `jitter` or `blocking`.
    pub fn delayed(task: &str, key: &'static str) -> Self {
        let task = task.to_owned();
        Self::DelayedTask { task, key }
    }

    /// The rule of a reservation server for which there is no analysis here.
    pub fn only_simulated() -> Self {
        Self::NotAnalysed {
            reason: "sporadic and soft constant-bandwidth servers have no analysis of ours".into(),
        }
    }

    /// A solver that gave no answer though nobody could stop it: a mistake of ours.
    pub(crate) fn stopped_unwatched() -> Self {
        Self::Invalid {
            what: "a computation was stopped that nobody can stop; please report this".into(),
        }
    }
}
