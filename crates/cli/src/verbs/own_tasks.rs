//! `tailbound internal own-tasks`: the own tasks of a domain, as a program in it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use tailbound_analysis::FORMAT;
use tailbound_job_log::{JobLog, log_file_name};
use tailbound_task_program::{PlayedTask, ProgramPlan, play};

use crate::failure::Failure;
use crate::interrupts;

/// Carries the tasks out until SIGINT or SIGTERM, and writes the log of each. A task that ended early is an error, after that.
pub fn carry_out(domain: &str, folder: &Path, file: &Path) -> Result<(), Failure> {
    let loaded = FORMAT.load(file).map_err(Failure::from_error)?;
    let inputs = loaded.inputs().map_err(Failure::from_error)?;
    let plan = ProgramPlan::of(&loaded.description, domain).map_err(Failure::from_error)?;
    std::fs::create_dir_all(folder).map_err(Failure::from_error)?;
    let stop = interrupts::watch()?;
    let played = play(&plan, &inputs, &stop).map_err(Failure::from_error)?;
    for task in &played {
        let file = folder.join(log_file_name(domain, &task.name));
        add_jobs(&file, &task.log).map_err(Failure::from_error)?;
        remarks(task).for_each(|remark| eprintln!("tailbound: {domain}/{}: {remark}", task.name));
    }
    let mut failures = played.iter().filter_map(|task| {
        let failure = task.failure.as_ref()?;
        Some(format!("task `{}` has ended early: {failure}", task.name))
    });
    failures
        .next()
        .map_or(Ok(()), |failure| Err(Failure::error(failure)))
}

/// Writes the log, or adds its jobs to those of an earlier program of the same run: a domain without a reservation is
/// started for each repetition.
fn add_jobs(file: &Path, log: &JobLog) -> io::Result<()> {
    let text = if file.exists() {
        log.rows()
    } else {
        log.to_csv()
    };
    let mut file = File::options().append(true).create(true).open(file)?;
    file.write_all(text.as_bytes())
}

/// What the log of a task does not say.
fn remarks(task: &PlayedTask) -> impl Iterator<Item = String> {
    let skipped = (task.skipped > 0).then(|| {
        format!(
            "{} releases were left out, because the next one was due already",
            task.skipped
        )
    });
    let unlogged = (task.unlogged > 0).then(|| {
        format!(
            "{} jobs after the log was full are not in it",
            task.unlogged
        )
    });
    let violations = (task.violations > 0).then(|| {
        format!(
            "{} messages were not sent: the contract of their topic does not admit them",
            task.violations
        )
    });
    [skipped, unlogged, violations].into_iter().flatten()
}
