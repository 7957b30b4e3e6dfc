//! The commands of Tailbound, as anyone would type them.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// Why a step of the demonstration failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A program cannot be started, or a file not be used.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// A command did not end as it should.
    #[error("`{command}` has ended with {status}: {said}")]
    Command {
        /// The command.
        command: String,
        /// Its status.
        status: String,
        /// What it has printed.
        said: String,
    },
    /// Something does not happen in time.
    #[error("{0} does not come; given up")]
    Late(String),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// Says what was tried.
pub fn tried<T>(result: io::Result<T>, what: impl FnOnce() -> String) -> Result<T, StepError> {
    result.map_err(|source| StepError::System {
        what: what(),
        source,
    })
}

/// The programs beside this one, and the state folder of their daemon.
#[derive(Clone, Debug)]
pub struct Tailbound {
    programs: PathBuf,
    state: PathBuf,
}

/// What a command has said.
#[derive(Clone, Debug)]
pub struct Said {
    /// Its exit status.
    pub status: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub errors: String,
}

impl Tailbound {
    /// The programs of a folder, with a daemon of our own.
    pub fn new(programs: PathBuf, state: PathBuf) -> Self {
        Self { programs, state }
    }

    /// Where a program is.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Those of `names` that were not built.
    pub fn missing(&self, names: &[&str]) -> Vec<String> {
        let paths = names.iter().map(|name| self.program(name));
        let missing = paths.filter(|path| !path.is_file());
        missing.map(|path| path.display().to_string()).collect()
    }

    /// Runs `tailbound` with any outcome.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn ask(&self, arguments: &[&str]) -> Result<Said, StepError> {
        let output = Command::new(self.program("tailbound"))
            .args(arguments)
            .env("TAILBOUND_STATE_DIR", &self.state)
            .output();
        let Output {
            status,
            stdout,
            stderr,
        } = tried(output, || "tailbound cannot be started".into())?;
        Ok(Said {
            status: status.code(),
            out: String::from_utf8_lossy(&stdout).into_owned(),
            errors: String::from_utf8_lossy(&stderr).into_owned(),
        })
    }

    /// Runs `tailbound`, which is to succeed.
    ///
    /// # Errors
    /// It cannot be started, or fails.
    pub fn run(&self, arguments: &[&str]) -> Result<String, StepError> {
        let said = self.ask(arguments)?;
        if said.status == Some(0) {
            return Ok(said.out);
        }
        Err(StepError::Command {
            command: format!("tailbound {}", arguments.join(" ")),
            status: said
                .status
                .map_or_else(|| "a signal".into(), |status| format!("status {status}")),
            said: said.out + &said.errors,
        })
    }

    /// What the modes and agents are now.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn modes(&self) -> Result<Value, StepError> {
        let out = self.run(&["-q", "mode", "list", "--format", "json"])?;
        let parsed: Result<Value, _> = serde_json::from_str(&out);
        tried(parsed.map_err(io::Error::from), || {
            "`tailbound mode list` is no JSON".into()
        })
    }
}
