//! The section of mode changes, in the document and on the page.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use tailbound_modes_report::{ModeChange, ModesSection};
use tailbound_report::{ReportSection, RunReport, check_sections, render_html, tables};
use tailbound_simulator::traces::{TimelineSlice, TimelineTrack};

const SECTIONS: [&dyn ReportSection; 1] = [&ModesSection];

fn change(to: &str) -> ModeChange {
    let mut track = TimelineTrack::named("arm");
    track.slices.push(TimelineSlice {
        name: "send".into(),
        from_ns: 1_000,
        until_ns: 3_000,
        remark: String::new(),
    });
    ModeChange {
        variant: "reserved".into(),
        repetition: 1,
        from: "run".into(),
        to: to.into(),
        ending: "completed".into(),
        began_after_ns: 1_000_000,
        latency_ns: Some(2_000),
        in_force_after_ns: None,
        tracks: vec![track],
    }
}

fn report(count: usize) -> RunReport {
    let mut report = RunReport::default();
    let changes = vec![change("<rest>"); count];
    ModesSection::put(&mut report, &changes).unwrap();
    report
}

#[test]
fn changes_survive_the_document() {
    let written = report(2).to_json().unwrap();
    let read = RunReport::from_json(&written).unwrap();
    assert_eq!(read, report(2));
    assert_eq!(ModesSection::changes(&read), vec![change("<rest>"); 2]);
    check_sections(&read, &SECTIONS).unwrap();
    let value: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(value["mode_changes"][1]["began_after_ns"], 1_000_000);
}

#[test]
fn a_document_of_before_has_no_changes_and_one_with_nonsense_is_refused() {
    assert_eq!(ModesSection::changes(&RunReport::default()), Vec::new());
    let mut nonsense = RunReport::default();
    nonsense
        .sections
        .insert("mode_changes".into(), Value::Bool(true));
    let error = check_sections(&nonsense, &SECTIONS).unwrap_err();
    assert!(error.to_string().contains("no result of a run"), "{error}");
}

#[test]
fn the_page_has_the_table_and_the_first_pictures() {
    let page = render_html(&report(8), &SECTIONS, &[]);
    assert!(page.contains("id=\"table-mode-changes\"") && page.contains("id=\"mode-courses\""));
    assert_eq!(page.matches("aria-label=\"Timeline: ").count(), 6);
    assert!(page.contains("2 later ones are in the table") && !page.contains("<rest>"));
    let rows = &tables(&report(8), &SECTIONS)[0].rows;
    assert_eq!((rows.len(), rows[0][5].text.as_str()), (8, "2.00 \u{b5}s"));
    assert!(!render_html(&report(0), &SECTIONS, &[]).contains("mode-courses"));
}
