//! Why recoveries cannot be predicted.

use tailbound_analysis::AnalysisError;

/// Why recoveries cannot be predicted.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// A file is something else.
    #[error("{name} is no recovery breakdown: {cause}")]
    NoBreakdown {
        /// The file.
        name: String,
        /// Why it cannot be read.
        cause: serde_json::Error,
    },
    /// A file of another version.
    #[error("{name} has schema_version {version}; this program reads {supported}")]
    Version {
        /// The file.
        name: String,
        /// Its version.
        version: u32,
        /// The version that can be read.
        supported: u32,
    },
    /// A recovery that contradicts itself.
    #[error(
        "{name}: the phases of recoveries[{index}] do not add up to its total_ns of {total_ns}"
    )]
    Sum {
        /// The file.
        name: String,
        /// The place of the recovery.
        index: usize,
        /// The total that the file states.
        total_ns: u64,
    },
    /// An ensemble that cannot recover.
    #[error(
        "{name}: recoveries[{index}] has {servers} servers; an ensemble that recovers has at least 2"
    )]
    TooFewServers {
        /// The file.
        name: String,
        /// The place of the recovery.
        index: usize,
        /// Its servers.
        servers: u32,
    },
    /// A file of first starts alone.
    #[error("{name} has no recovery from a failed leader")]
    NoFailure {
        /// The file.
        name: String,
    },
    /// Parameters are given for a variant without an equation.
    #[error("no equation is known for variant \"{variant}\"")]
    NoEquation {
        /// The variant.
        variant: String,
    },
    /// A bound cannot be computed.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
}

impl RecoveryError {
    /// The remedy, where there is one.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::NoBreakdown { .. } => Some("docs/concepts/recovery.md describes the file"),
            Self::NoFailure { .. } => {
                Some("recoveries with cause \"started\" are first starts and tell nothing")
            }
            Self::NoEquation { .. } => Some(
                "vanilla, vanilla-best, thesis-lite, thesis-full and tailbound have one; without \
                 `parameters` in the file any variant is estimated",
            ),
            _ => None,
        }
    }
}
