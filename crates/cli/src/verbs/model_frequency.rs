//! `tailbound model frequency`: the model of execution times from recorded runs, with its errors.

use std::path::Path;

use tailbound_execution_time::{
    ErrorSummary, Fit, FrequencyModel, Premise, RunTable, read_set_points,
};

use crate::arguments::FrequencyModelArguments;
use crate::failure::Failure;
use crate::output::{Output, read_file, table, write_file};

/// The headings of a model's terms.
const TERMS: [&str; 6] = [
    "from",
    "event",
    "clock",
    "cycles",
    "± std. error",
    "chosen again",
];
/// The headings of the errors.
const ERRORS: [&str; 8] = [
    "from",
    "program",
    "mean",
    "95%",
    "max",
    "naive mean",
    "naive 95%",
    "naive max",
];

/// Reads a recording, fits the model, prints its terms and its errors, and writes it.
pub fn carry_out(arguments: &FrequencyModelArguments, output: &Output) -> Result<(), Failure> {
    let output = &output.exporting(&arguments.export);
    let recording = read_recording(&arguments.data)?;
    let stated = match &arguments.set_points {
        None => None,
        Some(path) => {
            let text = read_file(path)?;
            Some(read_set_points(&path.display().to_string(), &text).map_err(Failure::from_error)?)
        }
    };
    let model = FrequencyModel::fit(&recording, stated, arguments.most_counters as usize);
    let model = model.map_err(Failure::from_error)?;
    for note in &model.source.notes {
        output.note(format!("{}: {note}", model.source.file));
    }
    for clock in &model.source.unvaried_clocks {
        output.note(format!(
            "the clock {clock} has one frequency in all runs: the model says nothing of others"
        ));
    }
    let fits = [&model.scaling, &model.absolute];
    for fit in fits {
        if !fit.exhaustive {
            output.warn(format!(
                "the search {} ended after {} sets of terms: a better one may exist",
                from(fit),
                fit.sets
            ));
        }
        output.detail(format!(
            "{}: BIC {:.1}, residuals {:.2} % (root mean square), {} sets of terms solved",
            from(fit),
            fit.bic,
            fit.residual * 100.0,
            fit.sets
        ));
    }
    if let Some(path) = &arguments.out {
        write_file(path, &model.to_json())?;
        output.note(format!("the model is in {}", path.display()));
    }
    let rows: Vec<Vec<String>> = fits.into_iter().flat_map(errors).collect();
    let for_people = || {
        let terms: Vec<Vec<String>> = fits.into_iter().flat_map(terms).collect();
        format!(
            "{}\n\n{}\n{}",
            table(&TERMS, &terms),
            table(&ERRORS, &rows),
            performance(&model.scaling)
        )
    };
    output.rows_with(for_people, &ERRORS, &rows, &model)
}

/// Reads recorded runs; files of `perf stat` are relative to them.
pub fn read_recording(path: &Path) -> Result<RunTable, Failure> {
    let text = read_file(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut read =
        |name: &str| std::fs::read_to_string(folder.join(name)).map_err(|error| error.to_string());
    RunTable::parse(&path.display().to_string(), &text, &mut read).map_err(Failure::from_error)
}

/// The start of a model, as people read it.
fn from(fit: &Fit) -> &'static str {
    match fit.premise {
        Premise::Scaling => "a measured time",
        Premise::Absolute => "counts alone",
    }
}

fn terms(fit: &Fit) -> Vec<Vec<String>> {
    let terms = fit.terms.iter().map(|term| {
        let unit = if term.clock == "constant" { " ns" } else { "" };
        vec![
            from(fit).into(),
            term.counter.clone(),
            term.clock.clone(),
            format!("{:.3}{unit}", term.cycles_per_event),
            format!("{:.3}", term.standard_error),
            percent(term.chosen_again, 0),
        ]
    });
    terms.collect()
}

fn errors(fit: &Fit) -> Vec<Vec<String>> {
    let programs = fit.errors.programs.iter();
    let programs = programs.map(|one| (one.program.as_str(), &one.model, &one.naive));
    let all = std::iter::once(("all", &fit.errors.model, &fit.errors.naive));
    let rows = programs.chain(all).map(|(program, model, naive)| {
        let cells = [model, naive]
            .into_iter()
            .flat_map(|errors: &ErrorSummary| {
                [errors.mean, errors.p95, errors.max].map(|error| percent(error, 1))
            });
        [from(fit), program]
            .map(str::to_owned)
            .into_iter()
            .chain(cells)
            .collect()
    });
    rows.collect()
}

/// The errors as the paper states them.
fn performance(fit: &Fit) -> String {
    fit.errors.performance.map_or_else(String::new, |errors| {
        format!(
            "Performance relative to the fastest set point: {} mean, {} max; naive {} mean, {} max (points).\n",
            points(errors.model.mean), points(errors.model.max), points(errors.naive.mean), points(errors.naive.max)
        )
    })
}

fn points(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

fn percent(share: f64, digits: usize) -> String {
    format!("{:.digits$} %", share * 100.0)
}
