//! A change, printed and written to the files that are asked for.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use tailbound_modes::manager::Report;
use tailbound_report::{Theme, TimelinePicture, render_timeline_html, render_timeline_svg};
use tailbound_simulator::traces::{TimelineTrack, write_timeline};

use super::{change_answer, tracks};
use crate::arguments::ChangeExportArguments;
use crate::failure::Failure;
use crate::output::{Output, write_file};

/// Prints the course of a change, and writes it to files.
pub fn tell(
    report: &Report,
    exports: &ChangeExportArguments,
    output: &Output,
) -> Result<(), Failure> {
    let output = output.exporting(&exports.answer);
    let data = change_answer::for_programs(report);
    let for_people = || change_answer::text(report);
    output.rows_with(
        for_people,
        &change_answer::HEADER,
        &change_answer::rows(report),
        &data,
    )?;
    let tracks = tracks::of(report);
    if let Some(path) = &exports.export_perfetto {
        write_trace(path, &tracks)?;
    }
    if exports.export_svg.is_none() && exports.export_html.is_none() {
        return Ok(());
    }
    let picture = TimelinePicture {
        title: format!("{} \u{2192} {}", report.from, report.to),
        about: change_answer::summary(report).replace('\n', "; "),
        tracks,
    };
    if let Some(path) = &exports.export_svg {
        write_file(path, &render_timeline_svg(&picture, Theme::Light))?;
    }
    if let Some(path) = &exports.export_html {
        let page = render_timeline_html(&picture, env!("CARGO_PKG_VERSION"));
        write_file(path, &page)?;
    }
    Ok(())
}

fn write_trace(path: &Path, tracks: &[TimelineTrack]) -> Result<(), Failure> {
    let written = File::create(path).and_then(|file| {
        let out = write_timeline(tracks, BufWriter::new(file))?;
        out.into_inner()?;
        Ok(())
    });
    written.map_err(|error| Failure::error(format!("cannot write {}: {error}", path.display())))
}
