//! Pictures of simulated schedules, without a browser: what is drawn is what happened, within the
//! picture, and names stay text.

use std::sync::LazyLock;

use proptest::prelude::*;
use tailbound_report::{
    SchedulePage, SchedulePicture, Theme, render_html, render_schedule_html, render_schedule_svg,
};
use tailbound_simulator::traces::Detail;

use crate::sample;
use crate::sample_schedule;

static SAMPLES: LazyLock<Vec<SchedulePicture>> = LazyLock::new(sample_schedule::sample_schedules);

/// The document as an XML reader of others sees it.
fn read(svg: &str) -> roxmltree::Document<'_> {
    roxmltree::Document::parse(svg).unwrap()
}

/// The tips of all elements of a name.
fn tips(document: &roxmltree::Document<'_>, name: &str) -> Vec<String> {
    document
        .descendants()
        .filter(|node| node.has_tag_name("title"))
        .filter(|node| {
            node.parent()
                .is_some_and(|parent| parent.tag_name().name() == name)
        })
        .filter_map(|node| node.text().map(str::to_owned))
        .collect()
}

#[test]
fn every_piece_release_and_deadline_is_drawn() {
    for picture in &SAMPLES[..2] {
        let Detail::Exact(exact) = &picture.slice.detail else {
            panic!("{} is summed up", picture.title);
        };
        let svg = render_schedule_svg(picture, Theme::Light);
        let document = read(&svg);
        let kernel = exact
            .blocks
            .iter()
            .filter(|block| block.job.is_none())
            .count();
        // On the row of its CPU, and on that of its task.
        assert_eq!(
            tips(&document, "rect").len(),
            2 * exact.blocks.len() - kernel
        );
        let arrows = tips(&document, "g");
        let shown = picture.slice.from..picture.slice.until;
        let releases = exact.jobs.iter().filter(|job| shown.contains(&job.release));
        let deadlines = exact.jobs.iter().filter_map(|job| job.due);
        let deadlines = deadlines.filter(|at| shown.contains(at));
        assert_eq!(arrows.len(), releases.count() + deadlines.count());
        let ran_out: usize = exact.curves.values().map(|curve| curve.ran_out.len()).sum();
        assert_eq!(tips(&document, "circle").len(), ran_out);
    }
}

#[test]
fn blocks_lie_where_their_times_are() {
    let picture = &SAMPLES[1];
    let svg = render_schedule_svg(picture, Theme::Light);
    let document = read(&svg);
    let number = |node: roxmltree::Node<'_, '_>, name: &str| -> f64 {
        node.attribute(name).unwrap().parse().unwrap()
    };
    let block = |tip: &str| {
        let node = document.descendants().find(|node| {
            let title = node.children().find(|child| child.has_tag_name("title"));
            title.is_some_and(|title| title.text() == Some(tip))
        });
        let node = node.unwrap_or_else(|| panic!("no block {tip}"));
        (number(node, "x"), number(node, "width"))
    };
    let first = block("maps #0, 0 to 3 ms (3 ms), CPU 0");
    let later = block("maps #5, 15 ms to 23 ms (8 ms), CPU 0");
    // 12 ms more and 5 ms wider on one scale.
    let scale = (later.0 - first.0) / 15.0;
    assert!(
        (later.1 - first.1 - 5.0 * scale).abs() < 0.1,
        "{first:?} {later:?}"
    );
}

/// All numbers of rectangles lie within the picture.
fn assert_inside(svg: &str) {
    let document = read(svg);
    let root = document.root_element();
    let size = |name: &str| -> f64 { root.attribute(name).unwrap().parse().unwrap() };
    let (width, height) = (size("width"), size("height"));
    for node in document
        .descendants()
        .filter(|node| node.has_tag_name("rect"))
    {
        let number = |name: &str| -> f64 {
            let text = node.attribute(name).unwrap_or("0");
            text.strip_suffix('%')
                .map_or_else(|| text.parse().unwrap(), |_| 0.0)
        };
        assert!(
            number("x") >= 0.0 && number("x") + number("width") <= width + 1.0,
            "{node:?}"
        );
        assert!(
            number("y") >= 0.0 && number("y") + number("height") <= height,
            "{node:?}"
        );
    }
}

#[test]
fn what_is_too_much_is_summed_up_and_says_so() {
    let pictures = &SAMPLES;
    let svg = render_schedule_svg(&pictures[2], Theme::Dark);
    assert!(svg.contains("too much to draw singly: each column sums up"));
    assert!(svg.len() < 1_000_000, "{} bytes", svg.len());
    assert!(!render_schedule_svg(&pictures[0], Theme::Dark).contains("too much"));
    for picture in pictures.iter() {
        assert_inside(&render_schedule_svg(picture, Theme::Light));
    }
}

#[test]
fn the_page_has_no_script_and_stands_alone() {
    let page = render_schedule_html(&SchedulePage {
        title: "all".into(),
        tailbound_version: "0".into(),
        pictures: SAMPLES.clone(),
    });
    let without_names = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!without_names.contains("http:") && !without_names.contains("https:"));
    assert!(!page.contains("<script") && !page.contains(" src="));
    // What has a name has one of its own in each picture.
    for index in 0..3 {
        let name = format!("id=\"schedule-{index}-kernel\"");
        assert_eq!(page.matches(&name).count(), 1);
    }
}

#[test]
fn a_report_has_schedules_if_it_is_given_some() {
    let report = sample::sample_report();
    let with = render_html(&report, &[], &SAMPLES);
    assert_eq!(with.matches("<figure class=\"plot schedule\">").count(), 3);
    assert!(!render_html(&report, &[], &[]).contains("id=\"schedules\""));
}

#[cfg(feature = "png")]
#[test]
fn pictures_become_png() {
    for picture in SAMPLES.iter() {
        let svg = render_schedule_svg(picture, Theme::Dark);
        match tailbound_report::render_png(&svg, 1.0) {
            Ok(png) => assert_eq!(&png[1..4], b"PNG"),
            Err(tailbound_report::PngError::NoFont) => {
                eprintln!("SKIP pictures_become_png: needs a font");
            }
            Err(other) => panic!("{other}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_name_stays_text(names in prop::collection::vec(any::<String>(), 4), title in any::<String>()) {
        let sample = &SAMPLES[0];
        let mut slice = sample.slice.clone();
        slice.setting = slice.setting.name_tasks(names.clone()).name_reservations(names);
        let picture = SchedulePicture { title, slice };
        let svg = render_schedule_svg(&picture, Theme::Light);
        let elements = |svg: &str| read(svg).descendants().filter(|node| {
            node.is_element() && !node.has_tag_name("text")
        }).count();
        // Captions come and go with the length of a name; nothing else does.
        prop_assert_eq!(elements(&svg), elements(&render_schedule_svg(sample, Theme::Light)));
    }
}
