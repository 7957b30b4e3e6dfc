//! `tailbound size FILE --frame`: the major frame and the windows that meet the deadlines of tasks and chains.

use std::path::Path;

use tailbound_assessment::analysis::refuse_what_is_only_simulated;
use tailbound_assessment::frame_sizing::{
    FrameQuery, FrameSizing, FrameSizingError, MOST_PLACEMENTS, size_frame,
};

use crate::arguments::SizeArguments;
use crate::failure::Failure;
use crate::output::{Output, table};

const HEADER: [&str; 4] = ["domain", "offset", "length", "of the frame"];

/// Sizes the frame of a host of the description. Status 2 if nothing on the grid meets all deadlines.
pub fn carry_out(file: &Path, arguments: &SizeArguments, output: &Output) -> Result<(), Failure> {
    let loaded = super::load(file, output)?;
    refuse_what_is_only_simulated(&loaded.description)?;
    let inputs = super::inputs(&loaded)?;
    let sizing = size_frame(&FrameQuery {
        description: &loaded.description,
        inputs: &inputs,
        host: arguments.host.as_deref(),
        grid: arguments.grid,
        most_windows: arguments.most_windows,
        most_placements: MOST_PLACEMENTS,
    });
    let sizing = sizing.map_err(|error| match error {
        FrameSizingError::Infeasible { .. } => Failure::Verdict(error.to_string()),
        FrameSizingError::Assessment(error) => Failure::from_assessment(error),
        error => Failure::from_error(error),
    })?;
    let rows: Vec<Vec<String>> = rows_of(&sizing);
    let for_people = || {
        format!(
            "{}\n\n{}\n{}",
            table(&HEADER, &rows),
            proof(&sizing),
            sizing.to_toml()
        )
    };
    output.rows_with(for_people, &HEADER, &rows, &sizing)
}

fn rows_of(sizing: &FrameSizing) -> Vec<Vec<String>> {
    let frame = sizing.frame.as_secs_f64();
    let row = |name: &str, offset: String, length: tailbound_time::Duration| {
        let share = format!("{:.1} %", length.as_secs_f64() / frame * 100.0);
        vec![name.to_owned(), offset, length.to_string(), share]
    };
    let windows = sizing.windows.iter();
    windows
        .map(|window| row(&window.domain, window.offset.to_string(), window.length))
        .collect()
}

/// The frame, and how sure it is that no other one is better, as a comment of the part of the description that follows.
fn proof(sizing: &FrameSizing) -> String {
    let (frame, grid, switch) = (sizing.frame, sizing.grid, sizing.switch);
    let share = sizing.share * 100.0;
    let least = match sizing.is_least {
        true => format!("the least on a grid of {grid}, proved"),
        false => format!(
            "and nothing below {:.1} % is possible on a grid of {grid}",
            sizing.least_share * 100.0
        ),
    };
    format!(
        "# A frame of {frame}: windows take {share:.1} %, {least}.\n\
         # Each window has {switch} for the switch; {} placements were judged.",
        sizing.placements
    )
}
