//! The result document, its tables and its pictures, without a browser.

use proptest::prelude::*;
use serde_json::{Value, json};
use tailbound_assessment::band::MeasuredInterval;
use tailbound_distribution::{Distribution, Evidence, IntervalMethod, Provenance, StepCdf};
use tailbound_report::{
    Outcome, ReportError, RunReport, Scale, Theme, VerticalAxis, plots, render_html, render_svg,
    render_svg_on, tables,
};
use tailbound_time::Duration;

use crate::sample;

#[test]
fn json_round_trips_with_integers_of_nanoseconds() {
    let report = sample::sample_report();
    let text = report.to_json().unwrap();
    assert_eq!(RunReport::from_json(&text).unwrap(), report);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["schema_version"], 1);
    let reserved = &value["variants"][0];
    assert_eq!(reserved["interface"]["budget_ns"], 6_000_000);
    assert_eq!(reserved["verdicts"][0]["slo"]["latency_ns"], 10_000_000);
    assert!(reserved["verdicts"][0]["measured"]["low_ns"].is_u64());
    assert!(reserved["measured"][0]["overall"]["shape"]["samples_ns"][0].is_u64());
    assert!(value["comparisons"][0]["wasserstein1_ns"].is_u64());
    durations_are_never_text(&value);
}

/// No key ends in `_ns` without integers behind it.
fn durations_are_never_text(value: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if name.ends_with("_ns") {
                    assert!(!field.is_string(), "{name} is text: {field}");
                }
                durations_are_never_text(field);
            }
        }
        Value::Array(items) => items.iter().for_each(durations_are_never_text),
        _ => {}
    }
}

#[test]
fn versions_are_told_apart() {
    let mut value: Value =
        serde_json::from_str(&sample::sample_report().to_json().unwrap()).unwrap();
    value["schema_version"] = json!(2);
    let newer = RunReport::from_json(&value.to_string());
    assert!(matches!(newer, Err(ReportError::Newer { version: 2 })));
    assert!(newer.unwrap_err().to_string().contains("at least as new"));
    value["schema_version"] = json!(0);
    let zero = RunReport::from_json(&value.to_string());
    assert!(matches!(
        zero,
        Err(ReportError::NoSuchVersion { version: 0 })
    ));
    for text in [
        "",
        "[]",
        "{}",
        "{\"schema_version\":1}",
        "{\"schema_version\":\"1\"}",
    ] {
        let refused = RunReport::from_json(text);
        assert!(matches!(refused, Err(ReportError::Document(_))), "{text}");
    }
}

#[test]
fn fields_that_came_later_may_be_missing() {
    let mut value: Value =
        serde_json::from_str(&sample::sample_report().to_json().unwrap()).unwrap();
    value.as_object_mut().unwrap().remove("raw_data");
    let comparison = value["comparisons"][0].as_object_mut().unwrap();
    comparison.remove("covered");
    comparison.remove("wasserstein1_bounds");
    let read = RunReport::from_json(&value.to_string()).unwrap();
    assert_eq!(read.comparisons[0].covered, 1.0);
}

#[test]
fn every_row_has_a_cell_for_every_column() {
    let tables = tables(&sample::sample_report(), &[]);
    let ids: Vec<&str> = tables.iter().map(|table| table.id).collect();
    assert_eq!(
        ids,
        [
            "verdicts",
            "latencies",
            "tasks",
            "distances",
            "load",
            "ledger"
        ]
    );
    for table in &tables {
        for row in &table.rows {
            assert_eq!(row.len(), table.columns.len(), "{}", table.title);
        }
    }
    let outcomes: Vec<Outcome> = tables[0]
        .rows
        .iter()
        .filter_map(|row| row[3].outcome)
        .collect();
    assert_eq!(outcomes[..2], [Outcome::Met, Outcome::Met]);
    assert_eq!(outcomes[4..], [Outcome::Missed, Outcome::Missed]);
}

#[test]
fn the_page_names_nothing_outside_itself() {
    let page = render_html(&sample::sample_report(), &[], &[]);
    let without_names = page
        .replace("http://www.w3.org/2000/svg", "")
        .replace("https://github.com/leeoniya/uPlot", "");
    assert!(!without_names.contains("http:") && !without_names.contains("https:"));
    assert!(!page.contains("@import") && !page.contains("url("));
    assert_eq!(page.matches("<script").count(), 3);
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn an_empty_report_is_still_a_page() {
    let page = render_html(&RunReport::default(), &[], &[]);
    assert!(page.contains("promises nothing") && page.ends_with("</html>\n"));
    assert!(tables(&RunReport::default(), &[]).is_empty());
    let mut report = sample::sample_report();
    for result in &mut report.variants {
        result.measured.clear();
        result.simulated = None;
        result.predicted.clear();
    }
    assert!(plots(&report).is_empty());
    assert!(render_html(&report, &[], &[]).contains("Variants"));
}

#[test]
fn every_task_has_its_own_row() {
    let report = sample::sample_report();
    let rendered = tables(&report, &[]);
    let tasks = rendered.iter().find(|table| table.id == "tasks").unwrap();
    let names: Vec<(&str, &str)> = tasks
        .rows
        .iter()
        .map(|row| (row[1].text.as_str(), row[2].text.as_str()))
        .collect();
    let variants = ["reserved", "dedicated", "unreserved"];
    let expected: Vec<_> = variants
        .iter()
        .flat_map(|variant| [(*variant, "get"), (*variant, "set")])
        .collect();
    assert_eq!(names, expected);
    // Both repetitions of the dedicated CPU count.
    let runs = &report.variants[1].measured;
    let get: Vec<&Distribution> = runs.iter().map(|run| &run.per_task["get"]).collect();
    let p99 = tailbound_distribution::merge(&get).unwrap().quantile(0.99);
    assert_eq!(tasks.rows[2][6].value, p99);
    assert_eq!(tasks.rows[2][2].detail.as_deref(), Some("8000 requests"));
    assert!(tasks.rows[2][6].detail.is_some());
    assert!(render_html(&report, &[], &[]).contains("id=\"table-tasks\""));
    let mut report = report;
    for result in &mut report.variants {
        result
            .measured
            .iter_mut()
            .for_each(|run| run.per_task.clear());
    }
    assert!(tables(&report, &[]).iter().all(|table| table.id != "tasks"));
}

#[test]
fn a_series_far_out_does_not_squeeze_the_others() {
    let plot = &plots(&sample::sample_report())[0];
    let svg = render_svg_on(plot, VerticalAxis::Share, Scale::Linear, Theme::Light);
    assert!(svg.contains(">25 ms<") && !svg.contains(">1 s<"));
    assert!(svg.contains("unreserved, measured \u{2192}<"));
}

/// The coordinates of the last path in the picture that has the colour, which is a measurement's.
fn last_line(svg: &str, colour: &str) -> Vec<(f64, f64)> {
    let stroke = format!("stroke=\"{colour}\"");
    let lines = svg.split("<path d=\"").filter(|part| {
        let own = part.split("/>").next().unwrap();
        own.contains("fill=\"none\"") && own.contains(&stroke)
    });
    let data = lines.last().unwrap().split('"').next().unwrap();
    let corners = data.split(['M', 'L']).skip(1);
    corners
        .map(|corner| {
            let (x, y) = corner.split_once(' ').unwrap();
            (x.parse().unwrap(), y.parse().unwrap())
        })
        .collect()
}

#[test]
fn curves_far_apart_are_all_shown_on_a_logarithmic_axis() {
    let report = sample::sample_report();
    let plot = &plots(&report)[0];
    assert_eq!(plot.scale(VerticalAxis::Share), Scale::Logarithmic);
    for axis in [VerticalAxis::Share, VerticalAxis::Tail] {
        let svg = render_svg(plot, axis, Theme::Light);
        assert!(svg.contains(">latency, logarithmic<") && !svg.contains("\u{2192}<"));
        assert!(svg.contains(">10 ms<") && svg.contains(">100 ms<"));
        // In the order of the palette: reserved, dedicated, unreserved.
        for colour in ["#0072b2", "#d55e00", "#009e73"] {
            let line = last_line(&svg, colour);
            // What lies between 2% and 98% of the height takes a tenth of the width at least.
            let inside: Vec<f64> = line
                .iter()
                .filter(|(_, y)| (71.0..397.0).contains(y))
                .map(|(x, _)| *x)
                .collect();
            let width = inside.iter().fold(0.0_f64, |a, x| a.max(*x))
                - inside.iter().fold(f64::INFINITY, |a, x| a.min(*x));
            assert!(width > 74.0, "{colour} takes {width} of 744");
            assert!(line.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        }
    }
    let page = render_html(&report, &[], &[]);
    assert!(page.contains("data-scale=\"log\" aria-pressed=\"true\""));
    assert!(page.contains("\"scale\":\"log\""));
}

#[test]
fn curves_close_together_stay_on_a_linear_axis() {
    let mut report = sample::sample_report();
    report.variants.truncate(2);
    let plot = &plots(&report)[0];
    assert_eq!(plot.scale(VerticalAxis::Share), Scale::Linear);
    let svg = render_svg(plot, VerticalAxis::Share, Theme::Light);
    assert!(svg.contains(">latency<") && svg.contains(">0<"));
    assert!(render_html(&report, &[], &[]).contains("data-scale=\"linear\" aria-pressed=\"true\""));
    // Whoever wants the other gets it.
    let svg = render_svg_on(plot, VerticalAxis::Share, Scale::Logarithmic, Theme::Light);
    assert!(svg.contains(">latency, logarithmic<") && !svg.contains(">0<"));
}

#[test]
fn lost_requests_leave_the_tail_open() {
    let mut report = sample::sample_report();
    let provenance = Provenance::new(Evidence::Sample, "s", "m");
    let answered = (1..=990).map(Duration::from_micros).collect();
    let lost = vec![Duration::from_micros(500); 10];
    report.variants[0].measured[0].overall =
        Distribution::from_censored(provenance, answered, lost);
    let plot = &plots(&report)[0];
    let measured = plot
        .series
        .iter()
        .find(|series| series.label == "reserved, measured");
    let lower = measured.unwrap().lower.as_ref().unwrap();
    assert!((lower.last().unwrap().1 - 0.99).abs() < 1e-12);
    let latencies = &tables(&report, &[])[1];
    let row = latencies
        .rows
        .iter()
        .find(|row| row[2].text == "measured")
        .unwrap();
    assert!(
        row[7].text.starts_with('\u{2265}'),
        "p99.9 is {}",
        row[7].text
    );
}

#[cfg(feature = "png")]
#[test]
fn pictures_have_text_or_say_why_not() {
    let report = sample::sample_report();
    let plot = &plots(&report)[0];
    let svg = render_svg(plot, VerticalAxis::Tail, Theme::Light);
    let bare: String = strip_text(&svg);
    match tailbound_report::render_png(&svg, 1.0) {
        Ok(png) => {
            assert_eq!(&png[1..4], b"PNG");
            let bare = tailbound_report::render_png(&bare, 1.0).unwrap();
            assert_ne!(png, bare, "the text left no trace");
        }
        Err(tailbound_report::PngError::NoFont) => {
            eprintln!("SKIP pictures_have_text_or_say_why_not: needs an installed font");
        }
        Err(error) => panic!("{error}"),
    }
    for scale in [0.0, -1.0, f32::NAN, 1e9] {
        assert!(
            tailbound_report::render_png(&svg, scale).is_err(),
            "{scale}"
        );
    }
}

#[cfg(feature = "png")]
fn strip_text(svg: &str) -> String {
    let mut parts = svg.split("<text");
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        out.push_str(part.split_once("</text>").unwrap().1);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_steps_make_a_plot(
        steps in prop::collection::btree_map(any::<u64>(), 0.0_f64..=1.0, 1..8),
        label in any::<String>(), logarithmic: bool,
    ) {
        let mut cumulative: Vec<f64> = steps.values().copied().collect();
        cumulative.sort_by(f64::total_cmp);
        let at = steps.keys().map(|at| Duration::from_nanos(*at));
        let curve = StepCdf::new(at.zip(cumulative).collect()).unwrap();
        let mut report = sample::sample_report();
        report.variants.truncate(1);
        let result = &mut report.variants[0];
        result.variant = label;
        result.verdicts.clear();
        result.measured.clear();
        result.predicted[0].distribution =
            Distribution::from_curve(Provenance::new(Evidence::Bound, "s", "m"), curve);
        let page = render_html(&report, &[], &[]);
        prop_assert_eq!(page.matches("<script").count(), 3);
        for axis in [VerticalAxis::Share, VerticalAxis::Tail] {
            let plot = &plots(&report)[0];
            let scale = if logarithmic { Scale::Logarithmic } else { Scale::Linear };
            let svg = render_svg_on(plot, axis, scale, Theme::Dark);
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
            #[cfg(feature = "png")]
            if let Err(error) = tailbound_report::render_png(&svg, 0.1) {
                let no_font = matches!(error, tailbound_report::PngError::NoFont);
                prop_assert!(no_font, "{}", error);
            }
        }
    }

    #[test]
    fn mutated_documents_never_panic(place: prop::sample::Index, byte: u8) {
        let mut report = sample::sample_report();
        report.variants.truncate(1);
        let result = &mut report.variants[0];
        result.simulated = None;
        result.measured.clear();
        let mut text = report.to_json().unwrap().into_bytes();
        let index = place.index(text.len());
        text[index] = byte;
        if let Ok(read) = RunReport::from_json(&String::from_utf8_lossy(&text)) {
            let _page = render_html(&read, &[], &[]);
            let _rows = tables(&read, &[]);
        }
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        prop_assert!(RunReport::from_json(&text).is_err());
    }
}

/// The interval of the fitted queue takes the place of order statistics, and says how long a run must be.
#[test]
fn intervals_of_the_fitted_queue_stand_in_the_tables() {
    let mut report = sample::sample_report();
    let cell = |report: &RunReport, id: &str, row: usize, column: usize| {
        let tables = tables(report, &[]);
        let table = tables.into_iter().find(|table| table.id == id)?;
        Some(table.rows[row][column].clone())
    };
    let measured = |report: &RunReport| {
        let all = tables(report, &[]);
        let latencies = all.iter().find(|table| table.id == "latencies").unwrap();
        let mut rows = latencies.rows.iter();
        let row = rows.find(|row| row[2].text == "measured").unwrap();
        (row[4].detail.clone().unwrap(), latencies.note.clone())
    };
    let (by_order, note) = measured(&report);
    assert!(note.contains("take requests for independent"), "{note}");
    assert!(cell(&report, "run-lengths", 0, 0).is_none());
    report.variants[0].intervals = vec![MeasuredInterval {
        task: None,
        percentile: 90.0,
        low: Duration::from_millis(3),
        high: Some(Duration::from_millis(70)),
        method: IntervalMethod::FittedQueue,
        log_deviation: Some(0.5),
        too_short: true,
        needed: Duration::from_secs(90),
    }];
    let (by_queue, note) = measured(&report);
    assert_eq!(by_queue, "3.00\u{2013}70.0 ms");
    assert_ne!(by_queue, by_order);
    assert!(note.contains("the queue that was fitted"), "{note}");
    report.variants[0].intervals[0].method = IntervalMethod::BatchMeans;
    assert!(
        measured(&report)
            .1
            .contains("batches of consecutive requests")
    );
    let needed = cell(&report, "run-lengths", 0, 3).unwrap();
    assert_eq!(needed.text, "90.0 s");
    assert_eq!(needed.detail.as_deref(), Some("this one was too short"));
    assert_eq!(cell(&report, "run-lengths", 0, 2).unwrap().text, "\u{2014}");
    let text = report.to_json().unwrap();
    assert_eq!(RunReport::from_json(&text).unwrap(), report);
}
