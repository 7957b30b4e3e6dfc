//! The section of causes, in the document and on the page.
#![allow(clippy::unwrap_used)]

use tailbound_causes_report::{CausesSection, LatencyCauses};
use tailbound_report::{ReportSection, RunReport, check_sections, render_html, tables};
use tailbound_time::Duration;
use tailbound_trace::explain::{
    CourseStretch, Explanation, LatencyCause, LatencyPart, QuantileBand, SlowRequest,
};

const SECTIONS: [&dyn ReportSection; 1] = [&CausesSection];

fn explanation(run: &str, queued_us: u64) -> Explanation {
    let part = |cause, micros| LatencyPart {
        cause,
        detail: String::new(),
        total: Duration::from_micros(micros),
    };
    let band = QuantileBand {
        from: 0.0,
        to: 1.0,
        requests: 2,
        total: Duration::from_micros(100 + queued_us),
        parts: vec![
            part(LatencyCause::Execution, 100),
            part(LatencyCause::Queued, queued_us),
        ],
        ..QuantileBand::default()
    };
    let course = vec![CourseStretch {
        cause: LatencyCause::Preempted,
        detail: "<hog>".into(),
        start: Duration::ZERO,
        length: Duration::from_micros(70),
    }];
    Explanation {
        subject: "store".into(),
        run: run.into(),
        requests: 2,
        bands: vec![band],
        slowest: vec![SlowRequest {
            number: 17,
            task: "get".into(),
            latency: Duration::from_micros(70),
            course,
            ..SlowRequest::default()
        }],
        ..Explanation::default()
    }
}

fn report() -> RunReport {
    let mut report = RunReport::default();
    let causes = LatencyCauses {
        measured: vec![explanation("reserved, repetition 1", 300)],
        simulated: vec![explanation("dedicated", 0), explanation("reserved", 100)],
    };
    CausesSection::put(&mut report, &causes).unwrap();
    report
}

#[test]
fn measured_shares_stand_beside_those_of_the_simulation_of_the_same_variant() {
    let table = &tables(&report(), &SECTIONS)[0];
    let queued = table
        .rows
        .iter()
        .find(|row| row[2].text == "queued behind others");
    let cell = &queued.unwrap()[3];
    assert_eq!(cell.text, "75.0 %");
    assert_eq!(cell.detail.as_deref(), Some("simulated 50.0 %"));
}

#[test]
fn causes_survive_the_document_and_are_drawn_without_markup_of_names() {
    let written = report().to_json().unwrap();
    let read = RunReport::from_json(&written).unwrap();
    assert_eq!(read, report());
    check_sections(&read, &SECTIONS).unwrap();
    let page = render_html(&read, &SECTIONS, &[]);
    assert!(page.contains("request 17") && page.contains("id=\"latency-causes\""));
    assert!(page.contains("&lt;hog&gt;") && !page.contains("<hog>"));
    assert!(
        CausesSection
            .check(&serde_json::json!({"measured": 1}))
            .is_err()
    );
}

#[test]
fn a_run_without_recordings_has_no_section() {
    let mut report = RunReport::default();
    let causes = LatencyCauses {
        simulated: vec![explanation("reserved", 0)],
        ..LatencyCauses::default()
    };
    CausesSection::put(&mut report, &causes).unwrap();
    assert!(report.sections.is_empty());
    assert!(tables(&report, &SECTIONS).is_empty());
}
