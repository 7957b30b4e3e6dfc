//! `tailbound sweep`: many simulations of one description with some of its keys varied.

use indicatif::{ProgressBar, ProgressStyle};
use tailbound_sweep::{Sweep, SweepQuery};

use crate::arguments::SweepArguments;
use crate::failure::Failure;
use crate::output::Output;

/// Plans the whole sweep, so that nothing runs if any point is wrong, and writes its rows.
pub fn carry_out(arguments: &SweepArguments, output: &Output) -> Result<(), Failure> {
    if arguments
        .out
        .extension()
        .is_some_and(|end| end == "parquet")
    {
        return Err(Failure::with_help(
            "sweeps are written as CSV",
            "name a .csv file; tailbound.sweep(..., out=\"results.parquet\") in Python writes Parquet",
        ));
    }
    let loaded = super::load(&arguments.file, output)?;
    let query = SweepQuery {
        axes: arguments.vary.clone(),
        seeds: arguments.seeds,
        duration: arguments.duration,
        warm_up: arguments.warm_up,
        mode: arguments.mode.clone(),
        variant: arguments.variant.clone(),
    };
    let file = arguments.file.display().to_string();
    let sweep =
        Sweep::plan(&loaded.text, &file, loaded.base(), query).map_err(Failure::from_error)?;
    let units = sweep.units();
    let bar = output.interactive().then(|| {
        let bar = ProgressBar::new(units as u64);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} simulations, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar
    });
    let done = |finished: usize| {
        if let Some(bar) = &bar {
            bar.set_position(finished as u64);
        }
    };
    let outcome = sweep.run(&arguments.out, done);
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    outcome.map_err(Failure::from_error)?;
    let out = arguments.out.display();
    output.note(format!("{units} simulations are in {out}"));
    Ok(())
}
