//! Which files a description names.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::description::{Arrivals, Description, ExecutionTime};
use crate::parser::KeyPath;
use crate::users::ThinkTime;

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilePurpose {
    /// A trace of releases.
    Trace,
    /// A trace that says how long each job ran, too.
    TraceWithExecution,
    /// Execution times, one by one.
    Samples,
    /// Execution times, in bins.
    Histogram,
    /// Values of placeholders in requests.
    Parameters,
}

/// The files that a description names, by the path it names them with, and what each is for.
pub fn files_named(description: &Description) -> BTreeSet<(FilePurpose, PathBuf)> {
    let named = named_files(description).into_iter();
    named.map(|(_, purpose, file)| (purpose, file)).collect()
}

/// The same, with the place of each, in the order in which they are told.
pub(crate) fn named_files(description: &Description) -> Vec<(KeyPath, FilePurpose, PathBuf)> {
    let mut files = Vec::new();
    let services = description.services.iter();
    let served = services.map(|(name, service)| ("services", name, &service.tasks));
    let domains = description.domains.iter();
    let own = domains.map(|(name, domain)| ("domains", name, &domain.tasks));
    for (table, owner, tasks) in served.chain(own) {
        let place = KeyPath::root().key(table).key(owner).key("tasks");
        for (name, task) in tasks {
            let place = place.key(name);
            let execution = place.key("execution_time").key("file");
            if let Arrivals::Trace { file } = &task.arrivals {
                let purpose = match task.execution_time {
                    ExecutionTime::Trace {} => FilePurpose::TraceWithExecution,
                    _ => FilePurpose::Trace,
                };
                files.push((place.key("arrivals").key("file"), purpose, file.clone()));
            }
            files.extend(file_of_law(&task.execution_time, execution));
        }
    }
    files.extend(files_of_users(description));
    files.extend(files_of_interference(description));
    files
}

/// The files of the users of services.
fn files_of_users(description: &Description) -> Vec<(KeyPath, FilePurpose, PathBuf)> {
    let mut files = Vec::new();
    for (name, service) in &description.services {
        let Some(users) = &service.users else {
            continue;
        };
        let place = KeyPath::root().key("services").key(name).key("users");
        if let ThinkTime::Samples { file } = &users.think_time {
            let place = place.key("think_time").key("file");
            files.push((place, FilePurpose::Samples, file.clone()));
        }
        if let Some(file) = &users.parameters {
            files.push((
                place.key("parameters"),
                FilePurpose::Parameters,
                file.clone(),
            ));
        }
    }
    files
}

/// The files of the sources of interference.
fn files_of_interference(description: &Description) -> Vec<(KeyPath, FilePurpose, PathBuf)> {
    let mut files = Vec::new();
    for (name, host) in &description.hosts {
        let place = KeyPath::root().key("hosts").key(name).key("interference");
        for (index, source) in host.interference.iter().enumerate() {
            let place = place.index(index);
            let execution = place.key("execution_time").key("file");
            if let Some(file) = &source.recorded {
                let purpose = FilePurpose::TraceWithExecution;
                files.push((place.key("recorded"), purpose, file.clone()));
            }
            files.extend(file_of_law(&source.execution_time, execution));
        }
    }
    files
}

/// The file of a law of execution times, at that place.
fn file_of_law(law: &ExecutionTime, place: KeyPath) -> Option<(KeyPath, FilePurpose, PathBuf)> {
    match law {
        ExecutionTime::Samples { file } => Some((place, FilePurpose::Samples, file.clone())),
        ExecutionTime::Histogram {
            file: Some(file), ..
        } => Some((place, FilePurpose::Histogram, file.clone())),
        _ => None,
    }
}
