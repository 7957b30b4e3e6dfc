//! The simulation of described tasks, beside the jobs of the threads that do them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use tailbound_analysis::FORMAT;
use tailbound_assessment::own_task_causes::own_task_causes;
use tailbound_model::{Description, InputFiles};
use tailbound_report::RunReport;
use tailbound_trace::explain::Explanation;

use crate::arguments::{ExplainArguments, ThreadJobs};
use crate::failure::Failure;
use crate::output::Output;

/// A description with its files, as it is simulated beside a run.
struct SimulatedSystem {
    description: Description,
    inputs: InputFiles,
}

/// The simulated explanations of the jobs that were measured, by the subjects and runs of those. A description that
/// cannot be simulated, and a thread without a task in it, are noted where the command named neither.
///
/// # Errors
/// The named description cannot be read or simulated, or has no such task.
pub fn simulated_jobs(
    arguments: &ExplainArguments,
    report: Option<&RunReport>,
    measured: &[Explanation],
    output: &Output,
) -> Result<Vec<Explanation>, Failure> {
    if arguments.thread.is_empty() {
        return Ok(Vec::new());
    }
    let system = match (&arguments.description, report) {
        (Some(file), _) => described(file, output)?,
        (None, Some(report)) => match of_run(report) {
            Ok(system) => system,
            Err(why) => {
                output.note(format!("jobs stand without a simulation: {why}"));
                return Ok(Vec::new());
            }
        },
        (None, None) => return Ok(Vec::new()),
    };
    let mut by_variant: BTreeMap<Option<&str>, Vec<Explanation>> = BTreeMap::new();
    let mut simulated = Vec::new();
    for jobs in &arguments.thread {
        let Some(task) = task_of(jobs, &system.description)? else {
            let thread = &jobs.thread;
            output.note(format!(
                "jobs of {thread} stand without a simulation: no one task is called \"{thread}\"; name it: \
                 --thread {thread}=DOMAIN.TASK"
            ));
            continue;
        };
        let subject = format!("jobs of {}", jobs.thread);
        for one in measured.iter().filter(|one| one.subject == subject) {
            let variant = one.variant();
            let causes = match by_variant.entry(variant) {
                Entry::Occupied(simulated) => simulated.into_mut(),
                Entry::Vacant(missing) => {
                    let causes = own_task_causes(&system.description, &system.inputs, variant);
                    missing.insert(causes.map_err(Failure::from_assessment)?)
                }
            };
            let of_task = causes.iter().filter(|causes| causes.subject == task);
            simulated.extend(of_task.map(|causes| Explanation {
                subject: subject.clone(),
                run: variant.unwrap_or_default().to_owned(),
                ..causes.clone()
            }));
        }
    }
    Ok(simulated)
}

fn described(file: &Path, output: &Output) -> Result<SimulatedSystem, Failure> {
    let loaded = crate::verbs::load(file, output)?;
    let inputs = crate::verbs::inputs(&loaded)?;
    Ok(SimulatedSystem {
        description: loaded.description,
        inputs,
    })
}

/// The description in the document of a run, which has none of the files that it names.
fn of_run(report: &RunReport) -> Result<SimulatedSystem, String> {
    let loaded = FORMAT.load_text(report.description_toml.clone(), Path::new("report.json"));
    let loaded = loaded.map_err(|error| error.to_string())?;
    Ok(SimulatedSystem {
        description: loaded.description,
        inputs: InputFiles::default(),
    })
}

/// The task whose jobs threads do, as `DOMAIN.TASK`; `None` where none is named and not just one has the threads' name.
fn task_of(jobs: &ThreadJobs, description: &Description) -> Result<Option<String>, Failure> {
    let domains = description.domains.iter();
    let tasks = domains.flat_map(|(domain, content)| {
        let tasks = content.tasks.keys();
        tasks.map(move |task| (task.as_str(), format!("{domain}.{task}")))
    });
    let tasks: Vec<(&str, String)> = tasks.collect();
    if let Some(named) = &jobs.task {
        if tasks.iter().any(|(_, full)| full == named) {
            return Ok(Some(named.clone()));
        }
        let names: Vec<&str> = tasks.iter().map(|(_, full)| full.as_str()).collect();
        let help = match names.is_empty() {
            true => "the domains of the description have no tasks of their own; requests of services are explained \
                     without --thread"
                .to_owned(),
            false => format!("the description has: {}", names.join(", ")),
        };
        return Err(Failure::with_help(
            format!("there is no task \"{named}\""),
            help,
        ));
    }
    let mut same = tasks.iter().filter(|(task, _)| *task == jobs.thread);
    Ok(match (same.next(), same.next()) {
        (Some((_, full)), None) => Some(full.clone()),
        _ => None,
    })
}
