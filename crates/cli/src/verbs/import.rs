//! `tailbound import`: another tool's file as a description.

use std::path::{Path, PathBuf};

use tailbound_model::kernel_trace::{self, ThreadSelection};
use tailbound_model::{Description, Problem, Problems, rt_app, to_toml};

use crate::arguments::{ImportArguments, ImportTool, KernelTraceArguments};
use crate::excerpt;
use crate::failure::Failure;
use crate::output::{Output, write_file};

/// Prints the description; what could not be translated goes to standard error.
pub fn carry_out(arguments: &ImportArguments, output: &Output) -> Result<(), Failure> {
    match &arguments.tool {
        ImportTool::RtApp { file } => {
            let text = read(file, "name an rt-app JSON file")?;
            let imported = rt_app::import(&text, &file.display().to_string())
                .map_err(|problems| malformed(problems, &text))?;
            print(&imported.description, imported.notes, &text, output)
        }
        ImportTool::KernelTrace(arguments) => kernel_trace(arguments, output),
    }
}

/// Writes the jobs, and prints a description whose task has them.
fn kernel_trace(arguments: &KernelTraceArguments, output: &Output) -> Result<(), Failure> {
    let file = &arguments.file;
    let text = read(
        file,
        "name the text of a recording, as trace-cmd report prints it",
    )?;
    let selection = ThreadSelection {
        pids: arguments.pid.clone(),
        comm: arguments.comm.clone(),
    };
    let recorded = kernel_trace::recorded_jobs(&text, &file.display().to_string(), &selection)
        .map_err(|problems| malformed(problems, &text))?;
    let jobs = arguments.out.clone().unwrap_or_else(|| {
        let stem = file.file_stem().unwrap_or_default();
        PathBuf::from(stem).with_extension("jobs.csv")
    });
    write_file(&jobs, &kernel_trace::jobs_csv(&recorded))?;
    output.note(format!(
        "{} jobs in {} are in {}",
        recorded.jobs.len(),
        recorded.length,
        jobs.display()
    ));
    let description = kernel_trace::description(&recorded, jobs);
    print(&description, recorded.notes, &text, output)
}

fn read(path: &Path, remedy: &str) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(|error| {
        Failure::with_help(format!("cannot read {}: {error}", path.display()), remedy)
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn malformed(problems: Problems, text: &str) -> Failure {
    let text = text.to_owned();
    Failure::Description { problems, text }
}

fn print(
    description: &Description,
    notes: Vec<Problem>,
    text: &str,
    output: &Output,
) -> Result<(), Failure> {
    if output.speaks() && !notes.is_empty() {
        excerpt::render(&Problems::new(notes), text);
    }
    let toml = to_toml(description).map_err(Failure::from_error)?;
    output.print(&toml)
}
