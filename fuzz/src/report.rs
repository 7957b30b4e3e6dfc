//! Reports of runs, which `tailbound report` and `compare` read.

use tailbound_report::{RunReport, plots, render_html, tables};

/// A report that was read can be written, is read as the same, and can be shown.
pub fn check(bytes: &[u8]) {
    let Some(text) = crate::text(bytes) else {
        return;
    };
    let Ok(report) = RunReport::from_json(text) else {
        return;
    };
    let written = report.to_json().expect("what was read can be written");
    let again = RunReport::from_json(&written).expect("our own JSON");
    assert_eq!(again.to_json().unwrap(), written);
    let _shown = (
        tables(&report, &[]),
        plots(&report),
        render_html(&report, &[], &[]),
    );
}
