//! Why a question about a description has no answer.

/// Why a question about a description has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AssessmentError {
    /// Something that the caller named is not in the description.
    #[error("there is no {kind} \"{name}\"; there are: {present}")]
    Unknown {
        /// The kind of thing.
        kind: &'static str,
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        present: String,
    },
    /// Something has to be named, since there are several.
    #[error("there are several {kind}s: {present}; name one of them")]
    Ambiguous {
        /// The kind of thing.
        kind: &'static str,
        /// The names that there are.
        present: String,
    },
    /// The description has nothing that the question is about.
    #[error("the description has {what}")]
    Empty {
        /// The missing part, without which there is no answer.
        what: &'static str,
    },
    /// Only simulation answers for the description.
    #[error("not analysed: {why}; simulation answers for it")]
    OnlySimulated {
        /// The part that only simulation covers.
        why: String,
    },
    /// The CPUs of a domain share a budget, and the question is for budgets of one CPU.
    #[error(
        "domain \"{domain}\": several CPUs share its budget, and the least budgets of a description are searched for one \
         CPU each; name tasks with --task for --model multiprocessor"
    )]
    SharedBudget {
        /// The domain.
        domain: String,
    },
    /// An execution time is not known without a calibration.
    #[error(
        "the execution time of {task} is calibrated, so it is not known before a run; give \
         `expected = \"5ms\"` in the description, or use `tailbound run`"
    )]
    NotCalibrated {
        /// The task, as `service.task`.
        task: String,
    },
    /// A log of requests does not tell the load of a service.
    #[error("{what}")]
    Unobserved {
        /// The reason, and what would do.
        what: String,
    },
    /// A reservation could not be derived.
    #[error(transparent)]
    Resolution(#[from] tailbound_analysis::resolution::ResolutionError),
    /// The analysis refused.
    #[error(transparent)]
    Analysis(#[from] tailbound_analysis::AnalysisError),
    /// A frequency model has no answer.
    #[error(transparent)]
    FrequencyModel(#[from] tailbound_execution_time::ModelError),
    /// A host could not be simulated.
    #[error(transparent)]
    Simulation(#[from] tailbound_simulator::host::HostError),
}

/// Looks a name up among those that a description has.
pub(crate) fn named<'a, T>(
    kind: &'static str,
    name: &str,
    entry: Option<T>,
    present: impl Iterator<Item = &'a String>,
) -> Result<T, AssessmentError> {
    entry.ok_or_else(|| {
        let present: Vec<&str> = present.map(String::as_str).collect();
        AssessmentError::Unknown {
            kind,
            name: name.into(),
            present: match present.is_empty() {
                true => "none".into(),
                false => present.join(", "),
            },
        }
    })
}
