//! Writes pictures of simulated schedules into a folder, as SVG, PNG and a page:
//! `cargo run -p tailbound-report --example sample_schedules -- FOLDER`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../tests/sample_schedule/mod.rs"]
mod sample_schedule;

use std::path::PathBuf;

use tailbound_report::{SchedulePage, Theme, render_schedule_html, render_schedule_svg};

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| ".".into()));
    std::fs::create_dir_all(&folder)?;
    let pictures = sample_schedule::sample_schedules();
    for (index, picture) in pictures.iter().enumerate() {
        for (name, theme) in [("light", Theme::Light), ("dark", Theme::Dark)] {
            let svg = render_schedule_svg(picture, theme);
            std::fs::write(folder.join(format!("schedule-{index}-{name}.svg")), &svg)?;
            #[cfg(feature = "png")]
            {
                let png = tailbound_report::render_png(&svg, 1.5).map_err(std::io::Error::other)?;
                std::fs::write(folder.join(format!("schedule-{index}-{name}.png")), png)?;
            }
        }
    }
    let page = SchedulePage {
        title: "Simulated schedules".into(),
        tailbound_version: env!("CARGO_PKG_VERSION").into(),
        pictures,
    };
    std::fs::write(folder.join("schedules.html"), render_schedule_html(&page))
}
