//! What earlier bands of this host were worth: each measured run with what was predicted of it, a line a run in one
//! file. Bands are corrected by it (see [`tailbound_assessment::band::BandCorrection`]).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tailbound_assessment::band::PastQuantile;
use tailbound_model::BackendKind;
use tailbound_time::{Duration, nanoseconds};

/// The version of a line.
const LINE_VERSION: u32 = 1;
/// So many runs of the same service and back end correct a band alone; with fewer all runs of the host do.
const OWN_RUNS: usize = 3;
/// The latest runs that count: a host changes over the months.
const LATEST_RUNS: usize = 100;

/// A measured run, with what was predicted of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryRun {
    /// The version of the line.
    pub schema_version: u32,
    /// The host, in a line: a new kernel makes another host of it.
    pub host: String,
    /// When the campaign began, RFC 3339 in UTC.
    pub started_at: String,
    /// The name of the description.
    pub description: String,
    /// The service.
    pub service: String,
    /// What enforced its reservation.
    pub backend: BackendKind,
    /// The length of the run.
    #[serde(rename = "duration_ns", with = "nanoseconds")]
    pub duration: Duration,
    /// The percentiles, as predicted without a correction and as measured.
    pub quantiles: Vec<PastQuantile>,
}

/// The runs of a host so far.
#[derive(Clone, Debug, Default)]
pub struct BandHistory {
    file: Option<PathBuf>,
    host: String,
    runs: Vec<HistoryRun>,
}

impl BandHistory {
    /// The history in a file, of runs of `host`; without a file, or where it does not exist, an empty one. Lines that
    /// are no run of this version are told, and left alone.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(file: Option<&Path>, host: &str) -> io::Result<(Self, Vec<String>)> {
        let mut history = Self {
            file: file.map(Path::to_owned),
            host: host.into(),
            runs: Vec::new(),
        };
        let mut remarks = Vec::new();
        let text = match file.map(std::fs::read_to_string) {
            None => return Ok((history, remarks)),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((history, remarks));
            }
            Some(text) => text?,
        };
        for (index, line) in text.lines().enumerate() {
            match serde_json::from_str::<HistoryRun>(line) {
                Ok(run) if run.schema_version == LINE_VERSION => history.runs.push(run),
                Ok(_) | Err(_) => remarks.push(format!(
                    "{}, line {}: no measured run of version {LINE_VERSION}; it does not count, and can be deleted",
                    file.unwrap_or(Path::new("")).display(),
                    index + 1
                )),
            }
        }
        history.runs.retain(|run| run.host == host);
        Ok((history, remarks))
    }

    /// The history in a file, and what is to be said of it: a file that cannot be read leaves bands uncorrected, and is
    /// left alone.
    pub fn read_or_none(file: Option<&Path>, host: &str) -> (Self, Vec<String>) {
        Self::read(file, host).unwrap_or_else(|error| {
            let file = file.unwrap_or(Path::new("")).display();
            let remark = format!(
                "bands are not corrected: cannot read {file}: {error}; name another file with --history"
            );
            (Self::default(), vec![remark])
        })
    }

    /// The file.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The runs that correct the bands of a service: its own on this back end, or all of this host while there are too
    /// few of those; the latest hundred.
    pub fn earlier(
        &self,
        description: &str,
        service: &str,
        backend: BackendKind,
    ) -> Vec<&HistoryRun> {
        let is_own = |run: &&HistoryRun| {
            run.description == description && run.service == service && run.backend == backend
        };
        let own: Vec<&HistoryRun> = self.runs.iter().filter(is_own).collect();
        let all = match own.len() >= OWN_RUNS {
            true => own,
            false => self.runs.iter().collect(),
        };
        let left_out = all.len().saturating_sub(LATEST_RUNS);
        all[left_out..].to_vec()
    }

    /// Adds runs of this host to the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&self, runs: &[HistoryRun]) -> io::Result<()> {
        let (Some(file), false) = (&self.file, runs.is_empty()) else {
            return Ok(());
        };
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut text = String::new();
        for run in runs {
            text.push_str(&serde_json::to_string(run)?);
            text.push('\n');
        }
        let mut file: File = OpenOptions::new().create(true).append(true).open(file)?;
        // One write, so that lines of commands at the same time stay whole.
        file.write_all(text.as_bytes())
    }

    /// The entry of a run on this host.
    pub fn entry(
        &self,
        (started_at, description): (&str, &str),
        (service, backend): (&str, BackendKind),
        duration: Duration,
        quantiles: Vec<PastQuantile>,
    ) -> HistoryRun {
        HistoryRun {
            schema_version: LINE_VERSION,
            host: self.host.clone(),
            started_at: started_at.into(),
            description: description.into(),
            service: service.into(),
            backend,
            duration,
            quantiles,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn quantile() -> PastQuantile {
        PastQuantile {
            percentile: 99.0,
            low: Duration::from_millis(8),
            median: Duration::from_millis(10),
            high: Duration::from_millis(12),
            measured: Duration::from_millis(11),
        }
    }

    fn runs(history: &BandHistory, service: &str, count: usize) -> Vec<HistoryRun> {
        let run = |index| {
            let started_at = format!("2026-01-01T00:00:{index:02}Z");
            history.entry(
                (&started_at, "store"),
                (service, BackendKind::DsFreeze),
                Duration::from_secs(20),
                vec![quantile()],
            )
        };
        (0..count).map(run).collect()
    }

    fn read(file: &Path, host: &str) -> (BandHistory, Vec<String>) {
        BandHistory::read(Some(file), host).unwrap()
    }

    #[test]
    fn runs_of_this_host_come_back_and_those_of_another_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made/on/demand.jsonl");
        let (history, _) = read(&file, "here");
        history.append(&runs(&history, "redis", 2)).unwrap();
        history.append(&runs(&history, "nginx", 1)).unwrap();
        let (again, remarks) = read(&file, "here");
        assert_eq!(again.runs.len(), 3);
        assert_eq!(again.runs[..2], runs(&history, "redis", 2));
        assert!(remarks.is_empty());
        assert!(read(&file, "another kernel").0.runs.is_empty());
    }

    #[test]
    fn a_line_that_is_no_run_is_told_and_the_others_count() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history.jsonl");
        let (history, _) = read(&file, "here");
        history.append(&runs(&history, "redis", 1)).unwrap();
        let whole = std::fs::read_to_string(&file).unwrap();
        let newer = whole.replace("\"schema_version\":1", "\"schema_version\":2");
        std::fs::write(&file, format!("{{\"schema\n{newer}{whole}")).unwrap();
        let (history, remarks) = read(&file, "here");
        assert_eq!(history.runs.len(), 1);
        assert_eq!(remarks.len(), 2);
        assert!(remarks[0].contains("history.jsonl, line 1"), "{remarks:?}");
    }

    #[test]
    fn runs_of_the_same_service_count_alone_once_there_are_enough() {
        let (mut history, _) = BandHistory::read(None, "here").unwrap();
        history.runs = runs(&history, "redis", OWN_RUNS - 1);
        history.runs.extend(runs(&history, "nginx", 3));
        let count = |history: &BandHistory| {
            let earlier = history.earlier("store", "redis", BackendKind::DsFreeze);
            earlier.len()
        };
        assert_eq!(count(&history), OWN_RUNS + 2);
        history.runs.extend(runs(&history, "redis", 1));
        assert_eq!(count(&history), OWN_RUNS);
        history.runs.extend(runs(&history, "redis", 200));
        assert_eq!(count(&history), LATEST_RUNS);
        // Without a file nothing is kept.
        history.append(&history.runs).unwrap();
    }
}
