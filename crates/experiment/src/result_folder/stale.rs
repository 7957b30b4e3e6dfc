//! What an earlier result left in the folder that the new one has no file for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tailbound_report::{RunReport, report_plots};

use super::raw_name;
use crate::SECTIONS;

/// Every plot and raw file that [`super::write`] and the campaign make for `report`, relative to
/// the result folder. The names are made here, never taken from a document's text.
fn files(report: &RunReport) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    for plot in report_plots(report, &SECTIONS) {
        for suffix in ["share.svg", "share.png", "tail.svg", "tail.png"] {
            files.insert(Path::new("plots").join(format!("{}-{suffix}", plot.id)));
        }
    }
    for result in &report.variants {
        for index in 0..result.measured.len() {
            let name = raw_name(result, index);
            for suffix in [".csv", ".hdr", "-requests.csv"] {
                files.insert(Path::new("raw").join(format!("{name}{suffix}")));
            }
        }
    }
    files
}

/// Removes what the result document in `out` stands for and `report` does not: a reader of the
/// folder would take it for part of the new result. Without a readable document nothing is
/// removed.
pub(super) fn remove_stale(report: &RunReport, out: &Path) {
    let earlier = std::fs::read_to_string(out.join("report.json"));
    let Some(earlier) = earlier
        .ok()
        .and_then(|text| RunReport::from_json(&text).ok())
    else {
        return;
    };
    for file in files(&earlier).difference(&files(report)) {
        // Gone already is as good.
        let _gone = std::fs::remove_file(out.join(file));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use tailbound_distribution::{Distribution, Evidence, Provenance};
    use tailbound_model::BackendKind;
    use tailbound_report::{MeasuredRun, VariantResult};
    use tailbound_time::Duration;

    use super::*;

    fn run() -> MeasuredRun {
        let provenance = Provenance::new(Evidence::Sample, "latency", "measured");
        let some = Distribution::from_samples(provenance, vec![Duration::from_millis(1)]);
        MeasuredRun {
            overall: some.clone(),
            per_task: Default::default(),
            per_mode: Default::default(),
            lateness: some,
            sent: 1,
            answered: 1,
            failed: 0,
            connections: None,
            ledger: None,
            interrupted: None,
        }
    }

    fn report(variants: &[(&str, usize)]) -> RunReport {
        let result = |(variant, runs): &(&str, usize)| VariantResult {
            service: "redis".into(),
            variant: (*variant).into(),
            backend: BackendKind::None,
            interface: None,
            neighbours: false,
            predicted: Vec::new(),
            simulated: None,
            measured: vec![run(); *runs],
            intervals: Vec::new(),
            verdicts: Vec::new(),
        };
        RunReport {
            variants: variants.iter().map(result).collect(),
            ..RunReport::default()
        }
    }

    #[test]
    fn what_an_earlier_result_left_goes_and_all_else_stays() {
        let out = tempfile::tempdir().unwrap();
        let raw = |name: &str| out.path().join("raw").join(name);
        std::fs::create_dir(out.path().join("raw")).unwrap();
        let old = report(&[("reserved", 2), ("gone", 1)]);
        std::fs::write(out.path().join("report.json"), old.to_json().unwrap()).unwrap();
        let names = [
            ("reserved-redis-1.csv", true),
            ("reserved-redis-2.csv", false),
            ("reserved-redis-2-requests.csv", false),
            ("gone-redis-1.hdr", false),
            ("notes-of-mine.csv", true),
        ];
        for (name, _) in names {
            std::fs::write(raw(name), "x").unwrap();
        }
        remove_stale(&report(&[("reserved", 1)]), out.path());
        for (name, stays) in names {
            assert_eq!(raw(name).exists(), stays, "{name}");
        }
    }

    #[test]
    fn without_a_document_nothing_is_removed() {
        let out = tempfile::tempdir().unwrap();
        std::fs::create_dir(out.path().join("raw")).unwrap();
        let file = out.path().join("raw/reserved-redis-1.csv");
        std::fs::write(&file, "x").unwrap();
        remove_stale(&report(&[]), out.path());
        std::fs::write(out.path().join("report.json"), "{\"half\":").unwrap();
        remove_stale(&report(&[]), out.path());
        assert!(file.exists());
    }
}
