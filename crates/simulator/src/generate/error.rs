//! Why there is no set of tasks.

use tailbound_time::Duration;

/// Why there is no set of tasks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// No task, or more than a set may have.
    #[error("{tasks} tasks; a set has from 1 to {most}")]
    Tasks {
        /// How many were asked for.
        tasks: u32,
        /// The most.
        most: u32,
    },
    /// Nobody says how many tasks a set has.
    #[error(
        "how many tasks a set has is not told; give their number, such as 10: only bimodal laws find \
         it themselves"
    )]
    TasksUntold,
    /// Somebody says how many tasks a set has, and the law does, too.
    #[error(
        "under a bimodal law the number of tasks is an outcome; leave it out, or take uunifast or \
         rand-fixed-sum"
    )]
    TasksAreAnOutcome,
    /// A reservation that is none.
    #[error(
        "a budget of {budget} does not fit in a period of {period}; a budget lies above zero and at \
         most at its period"
    )]
    Reservation {
        /// The budget.
        budget: Duration,
        /// Its period.
        period: Duration,
    },
    /// The utilisation is no number above zero.
    #[error("a utilisation of {utilisation}; it is a number above 0, such as 0.7")]
    Utilisation {
        /// What was asked for.
        utilisation: f64,
    },
    /// The bounds of a task's utilisation are no range within 0 to 1.
    #[error(
        "utilisations of one task from {least} to {most}; the range lies within 0 to 1, the \
         smaller number first"
    )]
    UtilisationRange {
        /// The lower bound.
        least: f64,
        /// The upper bound.
        most: f64,
    },
    /// The wanted sum is out of reach of that many tasks within their bounds.
    #[error(
        "{tasks} tasks with utilisations from {least} to {most} have a sum from {lowest} to \
         {highest}, never {utilisation}; change the bounds, the number of tasks or the sum"
    )]
    ImpossibleSum {
        /// How many tasks.
        tasks: u32,
        /// The lower bound of each.
        least: f64,
        /// The upper bound of each.
        most: f64,
        /// The least possible sum.
        lowest: f64,
        /// The greatest possible sum.
        highest: f64,
        /// The wanted sum.
        utilisation: f64,
    },
    /// The wanted sum is out of reach of tasks within ranges of their own.
    #[error(
        "tasks within these ranges have a sum from {lowest} to {highest}, never {utilisation}; change \
         the ranges or the sum"
    )]
    ImpossibleSumOfRanges {
        /// The least possible sum.
        lowest: f64,
        /// The greatest possible sum.
        highest: f64,
        /// The wanted sum.
        utilisation: f64,
    },
    /// No draw within ranges of their own has the wanted sum: it lies within rounding of an end.
    #[error(
        "no draw within these ranges has the wanted sum, which lies at the very end of what is \
         possible; change it a little"
    )]
    NoDrawFits,
    /// A number of tasks that is not that of their ranges.
    #[error(
        "{tasks} tasks, and ranges for {ranges}; leave the number of tasks out, or give each task a range"
    )]
    TasksWithoutRanges {
        /// How many tasks were asked for.
        tasks: u32,
        /// How many ranges there are.
        ranges: usize,
    },
    /// Nearly every draw breaks the bound.
    #[error(
        "{attempts} draws in a row had a task above {most}; take rand-fixed-sum, which draws from \
         the same law without discarding"
    )]
    DiscardedTooOften {
        /// How many draws there were.
        attempts: u32,
        /// The bound that they broke.
        most: f64,
    },
    /// The share of light tasks is no probability.
    #[error("a share of {share} light tasks; a share lies from 0 to 1")]
    Share {
        /// What was asked for.
        share: f64,
    },
    /// The ends of a range of periods are in the wrong order, or it begins at zero.
    #[error("periods from {low} to {high}; a range begins above zero, with the shorter one")]
    PeriodRange {
        /// The lower end.
        low: Duration,
        /// The upper end.
        high: Duration,
    },
    /// The shortest period is no multiple of the granularity.
    #[error(
        "periods from {low} in multiples of {granularity}; the shortest period is to be such a \
         multiple, and the granularity above zero"
    )]
    Granularity {
        /// The lower end.
        low: Duration,
        /// What every period is to be a multiple of.
        granularity: Duration,
    },
    /// Harmonic periods need a factor.
    #[error("harmonic periods that grow by the factor {factor}; it is at least 2")]
    Factor {
        /// The factor.
        factor: u64,
    },
    /// No period in the range divides the hyperperiod.
    #[error(
        "no period from {low} to {high} divides the hyperperiod {hyperperiod}; widen the range, or \
         choose a hyperperiod with more divisors, such as 10s"
    )]
    UnreachableHyperperiod {
        /// The hyperperiod.
        hyperperiod: Duration,
        /// The lower end.
        low: Duration,
        /// The upper end.
        high: Duration,
    },
    /// The hyperperiod is zero or too long to look for its divisors.
    #[error("a hyperperiod of {hyperperiod}; it lies above zero and within {longest}")]
    Hyperperiod {
        /// The hyperperiod.
        hyperperiod: Duration,
        /// The longest.
        longest: Duration,
    },
    /// Arbitrary deadlines end below the period.
    #[error("deadlines of up to {factor} periods; arbitrary deadlines reach at least 1 period")]
    DeadlineFactor {
        /// The factor.
        factor: u64,
    },
    /// A set whose tasks a description cannot hold.
    #[error("a description of {what}; {remedy}")]
    NotDescribed {
        /// What is asked for.
        what: String,
        /// What would be right.
        remedy: String,
    },
}
