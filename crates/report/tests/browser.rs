//! The page in a real browser: its numbers are those of the report, its controls work, nothing is
//! loaded, nothing is complained about, and no name becomes a script.

use std::path::PathBuf;

use serde_json::{Value, json};
use tailbound_distribution::{Distribution, Interval, merge};
use tailbound_report::{CONFIDENCE, RunReport, Warning, render_html};

use crate::sample;
use crate::webdriver::{self, Browser};

/// Writes the page of `report` into a folder that is kept as long as the returned handle.
fn page(report: &RunReport) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, render_html(report, &[], &[])).unwrap();
    (folder, file)
}

pub fn skipped(test: &str) -> bool {
    match webdriver::missing() {
        Some(program) => {
            eprintln!("SKIP {test}: needs {program}");
            true
        }
        None => false,
    }
}

fn ends(interval: Interval) -> Value {
    json!([
        interval.low.as_nanos().to_string(),
        interval.high.map(|high| high.as_nanos().to_string()),
    ])
}

/// The cells of a row: percentiles and the longest.
fn cells_of(distribution: &Distribution) -> Value {
    let mut cells: Vec<Value> = [0.5, 0.9, 0.95, 0.99, 0.999]
        .into_iter()
        .map(|probability| ends(distribution.quantile(probability).unwrap()))
        .collect();
    cells.push(ends(distribution.max().unwrap()));
    json!(cells)
}

/// What the table of latencies has to show, computed from the report alone.
fn expected_latencies(report: &RunReport) -> Vec<Value> {
    let mut rows = Vec::new();
    for result in &report.variants {
        let runs: Vec<&Distribution> = result.measured.iter().map(|run| &run.overall).collect();
        let measured = merge(&runs).unwrap();
        let predicted = result
            .predicted
            .iter()
            .map(|labelled| &labelled.distribution);
        for distribution in predicted.chain(&result.simulated).chain([&measured]) {
            rows.push(cells_of(distribution));
        }
    }
    rows
}

/// What the table of latencies by task has to show.
fn expected_of_tasks(report: &RunReport) -> Vec<Value> {
    let mut rows = Vec::new();
    for result in &report.variants {
        for task in ["get", "set"] {
            let runs = result.measured.iter();
            let runs: Vec<&Distribution> = runs.map(|run| &run.per_task[task]).collect();
            rows.push(cells_of(&merge(&runs).unwrap()));
        }
    }
    rows
}

const CELLS: &str = "return [...document.querySelectorAll('#TABLE tbody tr')].map(row => \
    [...row.cells].filter(cell => cell.dataset.lowNs !== undefined)\
    .map(cell => [cell.dataset.lowNs, cell.dataset.highNs ?? null]))";

#[test]
fn the_numbers_are_those_of_the_report() {
    if skipped("the_numbers_are_those_of_the_report") {
        return;
    }
    let report = sample::sample_report();
    let (_folder, file) = page(&report);
    let browser = Browser::open(1280, 1000, false);
    browser.visit(&file);

    let shown = browser.script(&CELLS.replace("TABLE", "table-latencies"));
    assert_eq!(shown, json!(expected_latencies(&report)));
    let shown = browser.script(&CELLS.replace("TABLE", "table-tasks"));
    assert_eq!(shown, json!(expected_of_tasks(&report)));

    let verdicts: Vec<_> = report
        .variants
        .iter()
        .flat_map(|result| &result.verdicts)
        .collect();
    let shown = browser.script(
        "return [...document.querySelectorAll('#table-verdicts tbody tr')].map(row => \
         [row.querySelector('.pill').lastChild.textContent.trim(), \
          row.cells[4].dataset.lowNs ?? null])",
    );
    let expected: Vec<Value> = verdicts
        .iter()
        .map(|verdict| {
            let measured = verdict
                .quantile
                .map(|value| value.low.as_nanos().to_string());
            json!([verdict.outcome.word(), measured])
        })
        .collect();
    assert_eq!(shown, json!(expected));

    let block = browser.script("return document.getElementById('report-data').textContent");
    let data: Value = serde_json::from_str(block.as_str().unwrap()).unwrap();
    assert_eq!(
        data["comparisons"],
        serde_json::to_value(&report.comparisons).unwrap()
    );
    for (shown, expected) in data["verdicts"].as_array().unwrap().iter().zip(&verdicts) {
        assert_eq!(shown["verdict"], serde_json::to_value(expected).unwrap());
        assert_eq!(shown["verdict"]["confidence"], json!(CONFIDENCE));
    }
    curves_hold_the_quantiles(&report, &data["plots"][0]);
    assert_eq!(browser.console(), Vec::<String>::new());
    browser.script("console.error('heard'); return null");
    assert!(browser.becomes_true("return true") && browser.console()[0].contains("heard"));
}

/// The plotted steps of the reserved measurement go through its quantiles, up to the decimation.
fn curves_hold_the_quantiles(report: &RunReport, plot: &Value) {
    let series = plot["series"].as_array().unwrap();
    let drawn = series
        .iter()
        .find(|series| series["label"] == "reserved, measured")
        .unwrap();
    let numbers = |name: &str| -> Vec<f64> {
        let column = drawn["upper"][name].as_array().unwrap();
        column.iter().map(|value| value.as_f64().unwrap()).collect()
    };
    let (at, cumulative) = (numbers("at_ns"), numbers("cumulative"));
    let measured = &report.variants[0].measured[0].overall;
    for probability in [0.5, 0.9, 0.99, 0.999] {
        let index = cumulative.partition_point(|value| *value < probability);
        let exact = measured.quantile(probability).unwrap().low.as_nanos() as f64;
        assert!(
            at[index] >= exact && at[index] <= exact * 1.05,
            "p{probability}: drawn {}, exact {exact}",
            at[index]
        );
    }
}

#[test]
fn the_controls_change_the_plot() {
    if skipped("the_controls_change_the_plot") {
        return;
    }
    let report = sample::sample_report();
    let (_folder, file) = page(&report);
    let browser = Browser::open(1280, 1000, false);
    browser.visit(&file);
    let picture = "document.querySelector('.plot canvas').toDataURL()";
    let remember = format!("window.before = {picture}; return true");
    let changed = format!("return {picture} !== window.before");
    let state = || browser.script("return {...document.querySelector('.plot').dataset}");

    assert_eq!(state()["axis"], "share");
    // The curves of the sample span more than two decades.
    assert_eq!(state()["scale"], "log");
    let drawn = "const c = document.querySelector('.plot canvas'); \
        return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v > 0)";
    assert!(browser.becomes_true(drawn), "an empty plot");
    for (control, name, expected) in [
        ("[data-axis=tail]", "axis", "tail"),
        ("[data-scale=linear]", "scale", "linear"),
        ("[data-scale=log]", "scale", "log"),
        ("[data-series=\"2\"]", "visible", "6"),
        ("[data-series=\"2\"]", "visible", "7"),
        ("[data-axis=share]", "axis", "share"),
    ] {
        browser.script(&remember);
        browser.click(&format!(".plot button{control}"));
        assert!(browser.becomes_true(&changed), "{control} changed nothing");
        assert_eq!(state()[name], expected, "{control}");
    }
    let pressed = browser.script(
        "return document.querySelector('button[data-axis=share]').getAttribute('aria-pressed')",
    );
    assert_eq!(pressed, "true");
    assert_eq!(browser.console(), Vec::<String>::new());
}

#[test]
fn the_page_is_alone_accessible_and_fits_a_phone() {
    if skipped("the_page_is_alone_accessible_and_fits_a_phone") {
        return;
    }
    let (_folder, file) = page(&sample::sample_report());
    for (width, dark) in [(1280, false), (500, true)] {
        let browser = Browser::open(width, 900, dark);
        browser.visit(&file);
        let loaded = browser.script("return performance.getEntriesByType('resource').length");
        assert_eq!(loaded, json!(0), "the page loads something");
        let overflow = browser
            .script("const e = document.documentElement; return e.scrollWidth - e.clientWidth");
        assert_eq!(
            overflow,
            json!(0),
            "at {width} the page is wider than the screen"
        );
        let unlabelled = browser.script(
            "return [...document.querySelectorAll('.canvas, button, table')].filter(e => \
             !(e.getAttribute('aria-label') || e.textContent.trim())).length + \
             [...document.querySelectorAll('table')].filter(t => \
             !t.querySelector('th[scope=row]')).length",
        );
        assert_eq!(unlabelled, json!(0), "something has no name");
        let ground = browser.script("return getComputedStyle(document.body).backgroundColor");
        let light = "rgb(255, 255, 255)";
        assert_eq!(ground != json!(light), dark, "the ground is {ground}");
        assert_eq!(browser.console(), Vec::<String>::new());
    }
}

#[test]
fn hostile_names_stay_text() {
    if skipped("hostile_names_stay_text") {
        return;
    }
    let report = hostile_report();
    let (_folder, file) = page(&report);
    let browser = Browser::open(1280, 1000, false);
    browser.visit(&file);
    assert_eq!(browser.script("return typeof window.hacked"), "undefined");
    assert_eq!(
        browser.script("return document.querySelector('h1').textContent"),
        HOSTILE
    );
    assert_eq!(browser.script("return document.images.length"), json!(0));
    let links = browser.script("return [...document.links].every(a => a.protocol === 'file:')");
    assert_eq!(links, json!(true));
    browser.click(".plot button[data-axis=tail]");
    browser.click(".plot button[data-series=\"0\"]");
    assert_eq!(browser.script("return typeof window.hacked"), "undefined");
    assert_eq!(browser.console(), Vec::<String>::new());
}

pub const HOSTILE: &str = "</script><script>window.hacked=1</script><img src=x \
    onerror=\"window.hacked=1\">'\"--><svg onload=window.hacked=1>{{7*7}}\u{2028}&lt;b&gt;";

/// The sample with the same hostile text in every field that comes from outside.
fn hostile_report() -> RunReport {
    let mut report = sample::sample_report();
    let hostile = || HOSTILE.to_owned();
    report.name = hostile();
    report.description_toml = hostile();
    report.started_at = hostile();
    report.tailbound_version = hostile();
    report.commands = vec![hostile()];
    report.host.insert(hostile(), hostile());
    report.interrupted = Some(hostile());
    report.warnings.push(Warning {
        what: hostile(),
        advice: hostile(),
    });
    report.raw_data[0].label = hostile();
    report.raw_data[0].path = "javascript:window.hacked=1".into();
    for result in &mut report.variants {
        result.service = hostile();
        result.variant.push_str(HOSTILE);
        for labelled in &mut result.predicted {
            labelled.label = hostile();
            labelled.distribution.provenance.method = hostile();
            labelled.distribution.provenance.assumptions = vec![hostile()];
        }
        for run in &mut result.measured {
            run.interrupted = Some(hostile());
            let own = run.overall.clone();
            run.per_task.insert(hostile(), own);
        }
        for verdict in &mut result.verdicts {
            verdict.slo.task = Some(hostile());
        }
    }
    for comparison in &mut report.comparisons {
        comparison.service = hostile();
        comparison.left = hostile();
        comparison.right = hostile();
    }
    report
}
