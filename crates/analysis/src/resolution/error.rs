//! Why it is not known what a domain gets.

use tailbound_model::BackendKind;
use tailbound_time::Duration;

use crate::AnalysisError;

/// Why it is not known what a domain gets.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ResolutionError {
    /// The description has no such mode.
    #[error("there is no mode \"{name}\"; the description has {modes}")]
    UnknownMode {
        /// What was asked for.
        name: String,
        /// What there is.
        modes: String,
    },
    /// A reservation without a budget and without a rule for it.
    #[error(
        "domain \"{domain}\": its reservation has neither budget and period nor a rule; give `budget` \
         and `period`, or `derive`"
    )]
    NoBudget {
        /// The domain.
        domain: String,
    },
    /// A time partition, such as that of a variant, whose reservation has no windows.
    #[error(
        "domain \"{domain}\" is to be a time partition, and its reservation has no `windows`, or its host no `major_frame`"
    )]
    NoWindows {
        /// The domain.
        domain: String,
    },
    /// A budget with its margin fell to zero or grew beyond the period.
    #[error(
        "domain \"{domain}\": a margin of {points:+} points makes the budget {budget_ns} ns of a period \
         of {period}; choose a margin that leaves it above zero and below the period"
    )]
    Margin {
        /// Which domain.
        domain: String,
        /// The margin.
        points: f64,
        /// The budget that came out, signed.
        budget_ns: i128,
        /// The period.
        period: Duration,
    },
    /// One budget for all CPUs, and a back end that keeps one for each.
    #[error(
        "domain \"{domain}\": its CPUs share one budget, and the back end {backend} gives each CPU a budget of its \
         own; leave `budget_scope` out, or choose {}",
        BackendKind::names(|kind| kind.traits().cpus_share_budget)
    )]
    BudgetScope {
        /// Which domain.
        domain: String,
        /// The back end.
        backend: BackendKind,
    },
    /// The derivation has no answer.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
}
