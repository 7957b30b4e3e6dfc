//! Writes a made-up report as HTML, and its plots as SVG and PNG, into a folder:
//! `cargo run -p tailbound-report --example sample_report -- FOLDER`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[allow(dead_code)]
#[path = "../tests/sample/mod.rs"]
mod sample;

use std::path::PathBuf;

use tailbound_report::{Theme, VerticalAxis, plots, render_html, render_svg};

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| ".".into()));
    std::fs::create_dir_all(&folder)?;
    let report = sample::sample_report();
    std::fs::write(folder.join("report.html"), render_html(&report, &[], &[]))?;
    for plot in plots(&report) {
        for (name, axis, theme) in [
            ("share", VerticalAxis::Share, Theme::Light),
            ("tail", VerticalAxis::Tail, Theme::Light),
            ("tail-dark", VerticalAxis::Tail, Theme::Dark),
        ] {
            let svg = render_svg(&plot, axis, theme);
            std::fs::write(folder.join(format!("{}-{name}.svg", plot.id)), &svg)?;
            #[cfg(feature = "png")]
            {
                let png = tailbound_report::render_png(&svg, 2.0).map_err(std::io::Error::other)?;
                std::fs::write(folder.join(format!("{}-{name}.png", plot.id)), png)?;
            }
        }
    }
    Ok(())
}
