//! The page of schedules in a real browser: light and dark, complete, and names stay text.

use serde_json::json;
use tailbound_report::{SchedulePage, render_schedule_html};

use crate::browser::skipped;
use crate::sample_schedule::sample_schedules;
use crate::webdriver::Browser;

fn opened(name: &str, width: u32, dark: bool) -> (tempfile::TempDir, Browser) {
    let mut pictures = sample_schedules();
    for picture in &mut pictures {
        picture.title.push_str(name);
        let setting = std::mem::take(&mut picture.slice.setting);
        let names: Vec<String> = setting
            .tasks()
            .iter()
            .map(|task| format!("{}{name}", task.name))
            .collect();
        picture.slice.setting = setting.name_tasks(names);
    }
    let page = SchedulePage {
        title: name.into(),
        tailbound_version: "0".into(),
        pictures,
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("schedules.html");
    std::fs::write(&file, render_schedule_html(&page)).unwrap();
    let browser = Browser::open(width, 900, dark);
    browser.visit(&file);
    (folder, browser)
}

#[test]
fn schedules_follow_the_ground_of_the_page_and_fit_a_phone() {
    if skipped("schedules_follow_the_ground_of_the_page_and_fit_a_phone") {
        return;
    }
    for (width, dark, ground) in [
        (1280, false, "rgb(255, 255, 255)"),
        (500, true, "rgb(21, 24, 28)"),
    ] {
        let (_folder, browser) = opened("sample", width, dark);
        let fill = "return getComputedStyle(document.querySelector('svg > rect')).fill";
        assert_eq!(browser.script(fill), ground);
        let ran = "return [...document.querySelectorAll('svg > rect[fill^=\"var(--v\"]')]\
            .every(e => getComputedStyle(e).fill.startsWith('rgb('))";
        assert_eq!(browser.script(ran), json!(true));
        let kernel =
            "return getComputedStyle(document.querySelector('svg > rect[fill^=url]')).fill";
        assert!(
            browser
                .script(kernel)
                .as_str()
                .unwrap()
                .contains("schedule-0-kernel")
        );
        let overflow = browser
            .script("const e = document.documentElement; return e.scrollWidth - e.clientWidth");
        assert_eq!(
            overflow,
            json!(0),
            "at {width} the page is wider than the screen"
        );
        let loaded = browser.script("return performance.getEntriesByType('resource').length");
        assert_eq!(loaded, json!(0));
        assert_eq!(browser.console(), Vec::<String>::new());
    }
}

#[test]
fn labels_neither_overlap_nor_leave_the_picture() {
    if skipped("labels_neither_overlap_nor_leave_the_picture") {
        return;
    }
    let (_folder, browser) = opened("", 1280, false);
    let clashes = browser.script(
        "const found = []; \
         for (const svg of document.querySelectorAll('svg')) { \
           const whole = svg.getBoundingClientRect(); \
           const boxes = [...svg.querySelectorAll('text')].map(e => \
             [e.textContent, e.getBoundingClientRect()]); \
           boxes.forEach(([text, a], index) => { \
             if (a.left < whole.left || a.right > whole.right || a.bottom > whole.bottom) \
               found.push(text + ' leaves'); \
             for (const [other, b] of boxes.slice(index + 1)) \
               if (a.left < b.right - 1 && b.left < a.right - 1 && \
                   a.top < b.bottom - 5 && b.top < a.bottom - 5) found.push(text + ' on ' + other); \
           }); } \
         return found",
    );
    assert_eq!(clashes, json!([]));
}

#[test]
fn hostile_names_in_schedules_stay_text() {
    if skipped("hostile_names_in_schedules_stay_text") {
        return;
    }
    let (_folder, browser) = opened(crate::browser::HOSTILE, 1280, false);
    assert_eq!(browser.script("return typeof window.hacked"), "undefined");
    assert_eq!(browser.script("return document.images.length"), json!(0));
    assert_eq!(
        browser.script("return document.querySelector('h1').textContent"),
        crate::browser::HOSTILE
    );
    assert_eq!(browser.console(), Vec::<String>::new());
}
