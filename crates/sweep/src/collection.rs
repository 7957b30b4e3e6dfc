//! What of a sweep is finished.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::journal::SweepJournal;
use crate::{Sweep, SweepError};

/// The rows of the units that are finished, in memory and in a journal beside the results. While it
/// lives, no other process collects for the same results.
pub struct Collection {
    journal: SweepJournal,
    out: PathBuf,
    header: String,
    units: usize,
    rows: BTreeMap<usize, String>,
}

impl Collection {
    /// What is finished of `sweep`, whose results are to be in `out`: from the journal `out.journal`,
    /// where there is one.
    ///
    /// # Errors
    /// The journal is another sweep's, another process collects for `out`, or a file cannot be
    /// written.
    pub fn open(sweep: &Sweep, out: &Path) -> Result<Self, SweepError> {
        let units = sweep.units();
        let (journal, rows) = SweepJournal::open(out, sweep.fingerprint, units)?;
        Ok(Self {
            journal,
            out: out.to_owned(),
            header: sweep.header(),
            units,
            rows,
        })
    }

    /// How many units are finished.
    pub fn finished(&self) -> usize {
        self.rows.len()
    }

    /// The units that are not finished, in their order.
    pub fn missing(&self) -> Vec<usize> {
        (0..self.units)
            .filter(|unit| !self.rows.contains_key(unit))
            .collect()
    }

    /// Adds the rows of a unit, which go to the journal first.
    ///
    /// # Errors
    /// The journal cannot be written, or there is no such unit.
    pub fn add(&mut self, unit: usize, rows: String) -> Result<(), SweepError> {
        let units = self.units;
        if unit >= units {
            return Err(SweepError::NoUnit { unit, units });
        }
        self.journal.add(unit, &rows)?;
        self.rows.insert(unit, rows);
        Ok(())
    }

    /// The results so far, with the first line, in the order of the units.
    pub fn text(&self) -> String {
        let mut text = self.header.clone();
        text.extend(self.rows.values().map(String::as_str));
        text
    }

    /// Writes the results, whole or not at all, and takes the journal away.
    ///
    /// # Errors
    /// Units are missing, or a file cannot be written.
    pub fn write(self) -> Result<(), SweepError> {
        self.check_whole()?;
        self.journal
            .write(&self.out, &self.header, self.rows.values())?;
        self.journal.remove()
    }

    /// Takes the journal away: the results are kept elsewhere.
    ///
    /// # Errors
    /// Units are missing, or the journal cannot be removed.
    pub fn close(self) -> Result<(), SweepError> {
        self.check_whole()?;
        self.journal.remove()
    }

    fn check_whole(&self) -> Result<(), SweepError> {
        let (finished, units) = (self.finished(), self.units);
        match finished == units {
            true => Ok(()),
            false => Err(SweepError::Unfinished { finished, units }),
        }
    }
}
