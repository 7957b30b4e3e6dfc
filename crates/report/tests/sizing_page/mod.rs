//! The page of a sizing in a real browser: its axes, its front and its choice are drawn where they
//! belong, pointing and dragging work, nothing is loaded and nothing is complained about.

use std::path::PathBuf;

use serde_json::{Value, json};
use tailbound_analysis::sizing::{Choice, Sizing};
use tailbound_distribution::Evidence;
use tailbound_model::PercentagePoints;
use tailbound_report::{SizingGrid, SizingPage, render_sizing_html};
use tailbound_time::Duration;

use crate::browser::skipped;
use crate::webdriver::Browser;

/// Period and least budget in milliseconds, whether on the front, whether chosen.
const POINTS: [(u64, Option<u64>, bool, bool); 5] = [
    (8, Some(5), false, false),
    (10, Some(6), true, true),
    (20, Some(13), false, false),
    (50, Some(31), true, false),
    (120, None, false, false),
];

fn sample(name: &str) -> SizingPage {
    let ms = Duration::from_millis;
    let choice = |(period, budget, on_front, _): (u64, Option<u64>, bool, bool)| Choice {
        period: ms(period),
        budget: budget.map(ms),
        with_margin: budget.map(|budget| ms(budget) + ms(period) / 20),
        resolution: Duration::from_micros(10),
        on_front,
        kept: None,
    };
    let sizing = Sizing {
        choices: POINTS.map(choice).into(),
        best: POINTS.iter().position(|(.., chosen)| *chosen),
        open: Vec::new(),
        infeasible: Vec::new(),
        margin: PercentagePoints(5.0),
        evidence: Evidence::Estimate,
        assumptions: vec![name.into()],
        cap_assumptions: Vec::new(),
    };
    let sized = SizingGrid {
        name: name.into(),
        rule: name.into(),
        sizing: Some(sizing),
        objections: vec![name.into()],
        stanza: Some(name.into()),
    };
    let not_sized = SizingGrid {
        name: "not sized".into(),
        objections: vec!["nothing is promised".into()],
        ..SizingGrid::default()
    };
    SizingPage {
        title: name.into(),
        tailbound_version: "0".into(),
        grids: vec![sized, not_sized],
    }
}

/// Writes the page into a folder that is kept as long as the returned handle.
fn written(page: &SizingPage) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("size.html");
    std::fs::write(&file, render_sizing_html(page)).unwrap();
    (folder, file)
}

/// The page with the sample in light colours, its plot in view.
fn opened(name: &str) -> (tempfile::TempDir, Browser) {
    let (folder, file) = written(&sample(name));
    let browser = Browser::open(1280, 1000, false);
    browser.visit(&file);
    browser.script("document.querySelector('.plot').scrollIntoView(); return null");
    (folder, browser)
}

/// Where a point lies in the plot, in CSS pixels from its top left: periods by ratio from 5 percent
/// below the shortest to 5 percent above the longest, bandwidths from 0 to 102 percent.
const PLACE: &str = "const over = document.querySelector('.plot .u-over'); \
    const place = (ms, percent) => [\
      Math.log(ms / (8 * 0.95)) / Math.log(120 * 1.05 / (8 * 0.95)) * over.clientWidth, \
      (1 - percent / 102) * over.clientHeight]; ";

/// The texts of a drawing from scratch; what is drawn from then on is noted, too.
fn redrawn(browser: &Browser) -> Vec<String> {
    browser.script(
        "const proto = CanvasRenderingContext2D.prototype, paint = proto.fillText; \
         window.texts = []; \
         proto.fillText = function (text, ...rest) { \
           window.texts.push(String(text)); return paint.call(this, text, ...rest); }; \
         window.dispatchEvent(new Event('afterprint')); return null",
    );
    assert!(browser.becomes_true("return window.texts.length > 0"));
    painted(browser)
}

fn painted(browser: &Browser) -> Vec<String> {
    let texts = browser.script("return window.texts");
    let texts = texts.as_array().unwrap().iter();
    texts.map(|text| text.as_str().unwrap().into()).collect()
}

/// What the plot shows at a period in milliseconds and a bandwidth in percent: `#rrggbb`, and nothing
/// where nothing was drawn.
fn colour_at(browser: &Browser, ms: u64, percent: f64) -> Option<String> {
    let pixel = browser.script(&format!(
        "{PLACE} const [left, top] = place({ms}, {percent}); \
         const canvas = document.querySelector('.plot canvas'); \
         const density = canvas.width / canvas.clientWidth; \
         const from = canvas.getBoundingClientRect(), to = over.getBoundingClientRect(); \
         const at = [to.left - from.left + left, to.top - from.top + top]; \
         return [...canvas.getContext('2d').getImageData(\
           Math.round(at[0] * density), Math.round(at[1] * density), 1, 1).data]"
    ));
    let parts: Vec<u64> = serde_json::from_value(pixel).unwrap();
    let (colour, alpha) = parts.split_at(3);
    let hex = colour.iter().map(|part| format!("{part:02x}"));
    (alpha != [0]).then(|| format!("#{}", hex.collect::<String>()))
}

fn percent(period_ms: u64, budget_ms: u64) -> f64 {
    100.0 * budget_ms as f64 / period_ms as f64
}

#[test]
fn axes_front_and_choice_are_drawn_where_they_belong() {
    if skipped("axes_front_and_choice_are_drawn_where_they_belong") {
        return;
    }
    let (_folder, browser) = opened("queue");
    let texts = redrawn(&browser);
    for label in ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"] {
        let label = label.replace(' ', "\u{202f}");
        assert!(texts.contains(&label), "no {label:?} in {texts:?}");
    }
    for label in ["10 ms", "20 ms", "50 ms", "100 ms"] {
        let label = label.replace(' ', "\u{202f}");
        assert!(texts.contains(&label), "no {label:?} in {texts:?}");
    }
    let title = browser.script("return document.querySelector('.plot .axis-title').textContent");
    assert!(title.as_str().unwrap().contains("Bandwidth by period"));
    // Before pixels are read, of which the browser warns.
    assert_eq!(browser.console(), Vec::<String>::new());
    let palette = browser.script(
        "return JSON.parse(document.getElementById('sizing-data').textContent).palette.light\
         .map(colour => colour.toLowerCase())",
    );
    for (period, budget, on_front, chosen) in POINTS {
        let Some(budget) = budget else { continue };
        let colour = json!(colour_at(&browser, period, percent(period, budget)));
        let front = colour == palette[1];
        assert_eq!(front, on_front && !chosen, "front at {period} ms: {colour}");
        assert_eq!(
            colour == palette[3],
            chosen,
            "choice at {period} ms: {colour}"
        );
    }
    // What is too little is shaded, up to all of the bandwidth where no budget will do.
    for (ms, percent, shaded) in [(13, 50.0, true), (13, 90.0, false), (118, 90.0, true)] {
        let colour = colour_at(&browser, ms, percent);
        assert_eq!(colour.is_some(), shaded, "{ms} ms, {percent} %: {colour:?}");
    }
}

#[test]
fn the_table_has_every_period() {
    if skipped("the_table_has_every_period") {
        return;
    }
    let (_folder, browser) = opened("queue");
    let shown = browser.script(
        "return [...document.querySelectorAll('section')].map(section => \
         [...section.querySelectorAll('tbody tr')].map(row => \
         [row.cells[0].textContent, row.cells[2].textContent, row.cells[5].textContent]))",
    );
    let expected = json!([
        [
            ["8 ms", "62.50 %", ""],
            ["10 ms", "60.00 %", "front, chosen"],
            ["20 ms", "65.00 %", ""],
            ["50 ms", "62.00 %", "front"],
            ["120 ms", "none will do", ""],
        ],
        [],
    ]);
    let folded = |value: &Value| value.to_string().replace('\u{202f}', " ");
    assert_eq!(folded(&shown), folded(&expected));
    let refused = "return document.querySelectorAll('section')[1].textContent";
    let refused = browser.script(refused);
    assert!(refused.as_str().unwrap().contains("nothing is promised"));
}

/// The steps of a pointer, from places in the plot.
fn moved(browser: &Browser, ms: f64, percent: f64) -> Value {
    let place = browser.script(&format!(
        "{PLACE} const [left, top] = place({ms}, {percent}); \
         const at = over.getBoundingClientRect(); \
         return [Math.round(at.left + left), Math.round(at.top + top)]"
    ));
    json!({"type": "pointerMove", "duration": 50, "x": place[0], "y": place[1]})
}

const READ_OUT: &str = "return [document.querySelector('.plot .hint').textContent, \
    ...[...document.querySelectorAll('.plot .legend output')].map(one => one.textContent)]\
    .map(text => text.replaceAll('\\u202f', ' '))";

#[test]
fn pointing_tells_the_numbers_of_a_period() {
    if skipped("pointing_tells_the_numbers_of_a_period") {
        return;
    }
    let (_folder, browser) = opened("queue");
    let hint = browser.script(READ_OUT)[0].clone();
    for (ms, numbers) in [
        (10.0, ["Period 10 ms", "60.00 %", "65.00 %", "yes", "yes"]),
        (52.0, ["Period 50 ms", "62.00 %", "67.00 %", "yes", ""]),
        (118.0, ["Period 120 ms", "none will do", "", "", ""]),
    ] {
        browser.pointer(&[moved(&browser, ms, 80.0)]);
        let expected = json!(numbers);
        let reads = format!("return JSON.stringify((() => {{ {READ_OUT} }})()) === '{expected}'");
        assert!(browser.becomes_true(&reads), "{}", browser.script(READ_OUT));
    }
    browser.pointer(&[json!({"type": "pointerMove", "duration": 50, "x": 1, "y": 1})]);
    let silent = json!([hint, "", "", "", ""]).to_string();
    let reads = format!("return JSON.stringify((() => {{ {READ_OUT} }})()) === `{silent}`");
    assert!(browser.becomes_true(&reads), "{}", browser.script(READ_OUT));
    assert_eq!(browser.console(), Vec::<String>::new());
}

#[test]
fn dragging_zooms_and_a_double_click_zooms_out() {
    if skipped("dragging_zooms_and_a_double_click_zooms_out") {
        return;
    }
    let (_folder, browser) = opened("queue");
    let whole = redrawn(&browser);
    let hundred = "100\u{202f}ms";
    assert!(whole.iter().any(|text| text == hundred));
    let press = |kind: &str| json!({"type": kind, "button": 0});
    let (from, to) = (moved(&browser, 9.0, 80.0), moved(&browser, 30.0, 80.0));
    browser.script("window.texts = []; return null");
    browser.pointer(&[from, press("pointerDown"), to, press("pointerUp")]);
    let ten = "return window.texts.includes('10\\u202fms')";
    assert!(browser.becomes_true(ten), "{:?}", painted(&browser));
    assert!(!painted(&browser).iter().any(|text| text == hundred));
    browser.script("window.texts = []; return null");
    let (down, up) = (press("pointerDown"), press("pointerUp"));
    browser.pointer(&[down.clone(), up.clone(), down, up]);
    let back = "return window.texts.includes('100\\u202fms')";
    assert!(browser.becomes_true(back), "{:?}", painted(&browser));
    assert_eq!(browser.console(), Vec::<String>::new());
}

#[test]
fn the_grid_is_alone_and_fits_a_phone() {
    if skipped("the_grid_is_alone_and_fits_a_phone") {
        return;
    }
    let (_folder, file) = written(&sample("queue"));
    for (width, dark) in [(1280, false), (500, true)] {
        let browser = Browser::open(width, 900, dark);
        browser.visit(&file);
        let loaded = browser.script("return performance.getEntriesByType('resource').length");
        assert_eq!(loaded, json!(0), "the page loads something");
        let overflow = browser
            .script("const e = document.documentElement; return e.scrollWidth - e.clientWidth");
        assert_eq!(overflow, json!(0), "at {width} it is wider than the screen");
        let plots = browser.script("return document.querySelectorAll('.plot canvas').length");
        assert_eq!(plots, json!(1));
        let ground = browser.script("return getComputedStyle(document.body).backgroundColor");
        assert_eq!(ground != json!("rgb(255, 255, 255)"), dark, "{ground}");
        assert_eq!(browser.console(), Vec::<String>::new());
        browser.script("console.error('heard'); return null");
        assert!(browser.console()[0].contains("heard"));
    }
}

#[test]
fn hostile_names_of_grids_stay_text() {
    if skipped("hostile_names_of_grids_stay_text") {
        return;
    }
    let (_folder, browser) = opened(crate::browser::HOSTILE);
    assert_eq!(browser.script("return typeof window.hacked"), "undefined");
    let title = browser.script("return document.querySelector('h1').textContent");
    assert_eq!(title, crate::browser::HOSTILE);
    assert_eq!(browser.script("return document.images.length"), json!(0));
    assert_eq!(browser.console(), Vec::<String>::new());
}
