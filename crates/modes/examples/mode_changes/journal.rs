//! The journal of mode changes as the daemon keeps it: a line of JSON for each step, in a file.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tailbound_modes::manager::{StepJournal, StepRecord};

/// After so many bytes the file begins anew, as the daemon's does.
const LONGEST: u64 = 1 << 20;

/// A journal that can be left out for a change, for comparison.
pub struct BenchJournal {
    file: File,
    bytes: u64,
    is_kept: Arc<AtomicBool>,
}

impl BenchJournal {
    /// A journal in a folder, kept while `is_kept` says so.
    pub fn new(folder: &Path, is_kept: Arc<AtomicBool>) -> Self {
        let path = folder.join("modes.state");
        let file = OpenOptions::new().create(true).append(true).open(path);
        Self {
            file: file.expect("a journal"),
            bytes: 0,
            is_kept,
        }
    }
}

impl StepJournal for BenchJournal {
    fn note(&mut self, record: &StepRecord) {
        if !self.is_kept.load(Ordering::Relaxed) {
            return;
        }
        let mut line = serde_json::to_vec(record).expect("JSON");
        line.push(b'\n');
        if self.bytes > LONGEST {
            self.file.set_len(0).expect("a journal");
            self.bytes = 0;
        }
        self.file.write_all(&line).expect("a journal");
        self.bytes += line.len() as u64;
    }
}
