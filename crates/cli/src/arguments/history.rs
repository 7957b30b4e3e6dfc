//! The options of the host's history of prediction bands.

use std::path::{Path, PathBuf};

use clap::Args;

/// The variable that names the file with the host's history of prediction bands.
const HISTORY_VARIABLE: &str = "TAILBOUND_HISTORY";

/// The history of prediction bands of a host, by which later ones are corrected.
#[derive(Debug, Args)]
pub struct HistoryArguments {
    /// The file with what earlier prediction bands of the host were worth, by which bands are corrected; a file of its
    /// own below /var/lib for root, below ~/.local/state for others, or TAILBOUND_HISTORY, if left out.
    #[arg(long, value_name = "FILE", conflicts_with = "no_history")]
    pub history: Option<PathBuf>,
    /// Do not correct prediction bands by earlier runs, and keep nothing.
    #[arg(long)]
    pub no_history: bool,
}

impl HistoryArguments {
    /// Whether nothing was said of it.
    pub fn is_default(&self) -> bool {
        self.history.is_none() && !self.no_history
    }

    /// The file; none where bands are not corrected.
    pub fn file(&self) -> Option<PathBuf> {
        if self.no_history {
            return None;
        }
        let named = self.history.clone();
        let named = named.or_else(|| std::env::var_os(HISTORY_VARIABLE).map(PathBuf::from));
        named.or_else(|| {
            let folder = match tailbound_linux::process::effective_uid() {
                0 => Some(PathBuf::from("/var/lib")),
                _ => std::env::var_os("XDG_STATE_HOME")
                    .map(PathBuf::from)
                    .or_else(|| {
                        let home = std::env::var_os("HOME")?;
                        Some(Path::new(&home).join(".local/state"))
                    }),
            };
            Some(folder?.join("tailbound/predictions.jsonl"))
        })
    }
}
