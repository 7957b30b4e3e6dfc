//! How a verb can end other than well, and how that looks.

use std::process::ExitCode;

use tailbound_assessment::AssessmentError;
use tailbound_enforcement::binding::BindingError;
use tailbound_model::{KeyPath, LoadedDescription, Problems};

/// Why a verb did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Something is wrong: exit status 1.
    #[error("{message}")]
    Error {
        /// What is wrong.
        message: String,
        /// What would be right, if known.
        help: Option<String>,
    },
    /// A description is malformed: exit status 1.
    #[error("{problems}")]
    Description {
        /// All that is wrong with it.
        problems: Problems,
        /// The file's text, for the excerpts.
        text: String,
    },
    /// Everything worked, the answer is no: exit status 2.
    #[error("{0}")]
    Verdict(String),
    /// An analysis was stopped, and the best answer so far is printed: exit status 3.
    #[error("{0}")]
    Stopped(String),
    /// The command that was run under a reservation ended so: its own exit status, or 128 and the number of
    /// the signal that ended it, as shells have it. It has said itself what there is to say.
    #[error("the command ended with status {0}")]
    Command(u8),
    /// A command was not run to its end under a reservation: exit status 125, as `timeout` and `nice` have it,
    /// since 1 and 2 may be the command's.
    #[error("{0}")]
    NotRun(Box<Self>),
}

/// The exit status of [`Failure::NotRun`].
const NOT_RUN: u8 = 125;

/// The exit status of [`Failure::Stopped`].
const STOPPED: u8 = 3;

impl Failure {
    /// An error without a known remedy.
    pub fn error(message: impl ToString) -> Self {
        Self::Error {
            message: message.to_string(),
            help: None,
        }
    }

    /// An error with its remedy.
    pub fn with_help(message: impl ToString, help: impl ToString) -> Self {
        Self::Error {
            message: message.to_string(),
            help: Some(help.to_string()),
        }
    }

    /// An error of a library, with all its causes.
    pub fn from_error(error: impl std::error::Error) -> Self {
        Self::error(chain(&error))
    }

    /// Why a description is nothing of this host, at the line that says so.
    pub fn from_binding(error: BindingError, loaded: &LoadedDescription) -> Self {
        let BindingError::Name {
            domain,
            key,
            source,
        } = error
        else {
            return Self::from_error(error);
        };
        let place = KeyPath::root().key("domains").key(domain).key(key);
        let problem = loaded.problem(&place, source.to_string(), source.remedy().to_owned());
        Self::Description {
            problems: Problems::new(vec![problem]),
            text: loaded.text.clone(),
        }
    }

    /// Why a question about a description has no answer, and what would be right.
    pub fn from_assessment(error: AssessmentError) -> Self {
        match error {
            AssessmentError::Unknown {
                kind,
                name,
                present,
            } => {
                let owner = match kind {
                    "variant" => "experiment",
                    _ => "description",
                };
                let help = format!("the {owner} has: {present}");
                Self::with_help(format!("there is no {kind} \"{name}\""), help)
            }
            AssessmentError::OnlySimulated { why } => Self::with_help(
                format!("not analysed: {why}"),
                "`tailbound simulate` answers for it",
            ),
            error => Self::from_error(error),
        }
    }

    /// The failure of a command's wrapper, told from the command's own.
    pub fn of_wrapper(self) -> Self {
        match self {
            Self::Command(_) | Self::NotRun(_) => self,
            other => Self::NotRun(Box::new(other)),
        }
    }

    /// The exit status: 1 for errors, 2 for a failed verdict, 3 for a stopped analysis; of a command under a reservation the
    /// command's own, or 125.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Error { .. } | Self::Description { .. } => ExitCode::from(1),
            Self::Verdict(_) => ExitCode::from(2),
            Self::Stopped(_) => ExitCode::from(STOPPED),
            Self::Command(status) => ExitCode::from(*status),
            Self::NotRun(_) => ExitCode::from(NOT_RUN),
        }
    }

    /// Prints the failure to standard error, with excerpts where a file is at fault.
    pub fn render(&self) {
        match self {
            Self::Error { message, help } => {
                eprintln!("tailbound: error: {message}");
                if let Some(help) = help {
                    eprintln!("  help: {help}");
                }
            }
            Self::Description { problems, text } => crate::excerpt::render(problems, text),
            Self::Verdict(message) | Self::Stopped(message) => eprintln!("tailbound: {message}"),
            Self::Command(_) => {}
            Self::NotRun(failure) => failure.render(),
        }
    }
}

impl From<AssessmentError> for Failure {
    fn from(error: AssessmentError) -> Self {
        Self::from_assessment(error)
    }
}

/// An error with all its causes, as one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
