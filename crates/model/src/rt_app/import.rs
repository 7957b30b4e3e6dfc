//! From a workload of rt-app to a description.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use tailbound_time::Duration;

use super::grammar::{Global, ThreadPolicy, WorkloadThread, global, thread, unknown};
use super::json::{self, Json, JsonValue};
use super::log::Log;
use super::timeline::{NoPattern, Pattern, TimelineJob, pattern};
use crate::BackendKind;
use crate::description::{
    Arrivals, Builtin, DerivationRule, Description, Domain, DomainKind, ExecutionTime, Reservation,
    Service, Task,
};
use crate::host::Host;
use crate::interface::{Cpu, Priority};
use crate::parser::{LONGEST_TEXT, check};
use crate::problem::{Problem, Problems, Severity, SourceText};
use crate::schema::as_name;
use crate::writer::to_toml;

/// The jobs that one cycle of a thread may have; each becomes a task.
const MOST_JOBS: usize = 64;

/// The threads that a workload may have, all instances counted.
const MOST_THREADS: usize = 256;

/// The name of the host that a workload is for.
const HOST: &str = "local";

/// A description made from an rt-app workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The description; [`crate::check`] finds no error in it.
    pub description: Description,
    /// What could not be taken over, or was understood in a certain way, with its line.
    pub notes: Vec<Problem>,
}

/// Reads an rt-app workload; `file` names it in problems. Never panics.
///
/// # Errors
/// All that is wrong in it, and all that a description cannot say and that would change when
/// threads run.
pub fn import(text: &str, file: &str) -> Result<Imported, Problems> {
    let source = SourceText { file, text };
    let mut log = Log::new(source);
    let description = read(text, file, &mut log);
    let failed = log.errors() > 0;
    let notes = Problems::new(log.into_said());
    match description {
        Some(description) if !failed => Ok(Imported {
            description,
            notes: notes.into_iter().collect(),
        }),
        _ => Err(notes),
    }
}

fn read(text: &str, file: &str, log: &mut Log<'_>) -> Option<Description> {
    if text.len() > LONGEST_TEXT {
        let message = format!("the file is longer than {LONGEST_TEXT} bytes");
        log.error(
            &(0..0),
            "",
            message,
            "a workload is written by hand; is this one?",
        );
        return None;
    }
    let root = match json::parse(text) {
        Ok(root) => root,
        Err(error) => {
            log.error(&(error.at..error.at), "", error.message, error.remedy);
            return None;
        }
    };
    let (global, threads) = content(&root, log)?;
    let mut builder = Builder::new(file, global, &threads, log);
    for thread in &threads {
        builder.add(thread, log);
    }
    if log.errors() > 0 {
        return None;
    }
    if builder.description.domains.is_empty() {
        log.error(
            &root.span,
            "tasks",
            "no thread is left to run",
            "give at least one task a `run`",
        );
        return None;
    }
    builder.checked(log);
    Some(builder.description)
}

/// The global properties and the threads.
fn content(root: &Json, log: &mut Log<'_>) -> Option<(Global, Vec<WorkloadThread>)> {
    let JsonValue::Object(entries) = &root.value else {
        log.error(
            &root.span,
            "",
            format!("expected an object, found {}", root.value.in_words()),
            "write { \"tasks\" : { ... } }",
        );
        return None;
    };
    let mut settings = Global::default();
    let mut threads = None;
    for entry in entries {
        match (entry.key.as_str(), &entry.value.value) {
            ("global", _) => settings = global(&entry.value, log),
            ("tasks", JsonValue::Object(tasks)) => {
                threads = Some(tasks.iter().filter_map(|task| thread(task, log)).collect());
            }
            ("tasks", other) => log.error(
                &entry.value.span,
                "tasks",
                format!("expected an object, found {}", other.in_words()),
                "write { \"name\" : { ... } }",
            ),
            ("resources", _) => log.note(
                &entry.key_span,
                "resources",
                "left out; rt-app makes what its events name",
                "nothing need be done",
            ),
            _ => unknown(entry, entry.key.clone(), log),
        }
    }
    if threads.is_none() && log.errors() == 0 {
        log.error(
            &root.span,
            "tasks",
            "the workload has no tasks",
            "add \"tasks\" : { ... }",
        );
    }
    Some((settings, threads?))
}

/// A description under construction.
struct Builder {
    description: Description,
    policy: ThreadPolicy,
    /// The CPUs of threads that name none.
    default_cpus: BTreeSet<u32>,
    /// Where the thread of each domain stands.
    spans: BTreeMap<String, Range<usize>>,
}

impl Builder {
    fn new(file: &str, global: Global, threads: &[WorkloadThread], log: &mut Log<'_>) -> Self {
        let mut cpus: BTreeSet<u32> = threads
            .iter()
            .flat_map(|t| t.cpus.iter().copied())
            .collect();
        if cpus.is_empty() {
            cpus.insert(0);
            log.note(
                &(0..0),
                "tasks",
                "no task names its CPUs, so all get CPU 0",
                "change hosts.local.cpus and the domains' cpus",
            );
        }
        let stem = Path::new(file)
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        let mut name = as_name(&stem.unwrap_or_default());
        if name.is_empty() {
            name = "rt-app".into();
        }
        let mut description = Description::named(name, "Imported from an rt-app workload.");
        if let Some(seconds) = global.duration_s {
            description.experiment.duration = Duration::from_secs(seconds);
        }
        let host = Host::of(cpus.iter().copied().map(Cpu).collect());
        description.hosts.insert(HOST.into(), host);
        Self {
            description,
            policy: global.policy.unwrap_or(ThreadPolicy::Other),
            default_cpus: cpus,
            spans: BTreeMap::new(),
        }
    }

    /// Adds the domains of a thread, one per instance.
    fn add(&mut self, thread: &WorkloadThread, log: &mut Log<'_>) {
        let place = format!("tasks.{}", thread.name);
        let pattern = match pattern(&thread.steps) {
            Ok(pattern) => pattern,
            Err(error) => {
                let (message, remedy) = why(error);
                return log.error(&thread.span, place, message, remedy);
            }
        };
        if thread.instances == 0 || pattern == Pattern::Never {
            return log.warn(
                &thread.span,
                place,
                "left out: it never runs",
                "give it a `run` and an `instance` if it should",
            );
        }
        if let Pattern::Cyclic { jobs, .. } = &pattern
            && jobs.len() > MOST_JOBS
        {
            let message = format!(
                "a cycle of the thread has {} jobs, each of which would be a task",
                jobs.len()
            );
            return log.error(
                &thread.span,
                place,
                message,
                "a thread may have at most 64; shorten the loops of its phases",
            );
        }
        for instance in 0..thread.instances {
            if self.description.domains.len() >= MOST_THREADS {
                return log.error(
                    &thread.span,
                    place,
                    "the workload has more than 256 threads",
                    "lower the `instance` counts",
                );
            }
            let name = self.name(thread, instance, &place, log);
            let domain = self.domain(thread, &pattern, &place, log);
            if let Pattern::Cyclic { jobs, cycle_us } = &pattern {
                let service = service(&name, jobs, *cycle_us, thread.delay_us);
                self.description.services.insert(name.clone(), service);
            } else if thread.delay_us > 0 {
                log.warn(
                    &thread.span,
                    place.clone(),
                    "its delay is left out: a program of its own starts at once",
                    "nothing need be done",
                );
            }
            self.spans.insert(name.clone(), thread.span.clone());
            self.description.domains.insert(name, domain);
        }
    }

    /// A name for the domain, near that of the thread and not taken.
    fn name(
        &self,
        thread: &WorkloadThread,
        instance: u64,
        place: &str,
        log: &mut Log<'_>,
    ) -> String {
        let mut base: String = as_name(&thread.name).chars().take(48).collect();
        if base.is_empty() {
            base = "thread".into();
        }
        if base != thread.name && instance == 0 {
            log.note(
                &thread.span,
                place,
                format!("called `{base}` here, for names are of small letters, digits, - and _"),
                "nothing need be done",
            );
        }
        if thread.instances > 1 {
            base = format!("{base}-{instance}");
        }
        let taken = |name: &String| self.description.domains.contains_key(name) || name == "tasks";
        let numbered = (2..).map(|number| format!("{base}_{number}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        names.find(|name| !taken(name)).unwrap_or(base)
    }

    fn domain(
        &self,
        thread: &WorkloadThread,
        pattern: &Pattern,
        place: &str,
        log: &mut Log<'_>,
    ) -> Domain {
        let reservation = self.reservation(thread, pattern, place, log);
        let cpus = match &reservation {
            Some(_) => BTreeSet::new(),
            None => thread.cpus.iter().copied().map(Cpu).collect(),
        };
        Domain {
            builtin: Some(match pattern {
                Pattern::Always => Builtin::CpuHog,
                Pattern::Cyclic { .. } | Pattern::Never => Builtin::SyntheticService,
            }),
            cpus,
            reservation,
            ..Domain::of(DomainKind::Process)
        }
    }

    fn reservation(
        &self,
        thread: &WorkloadThread,
        pattern: &Pattern,
        place: &str,
        log: &mut Log<'_>,
    ) -> Option<Reservation> {
        let policy = thread.policy.unwrap_or(self.policy);
        let cpus = if thread.cpus.is_empty() {
            &self.default_cpus
        } else {
            &thread.cpus
        };
        // One thread has one CPU at a time; a budget would hold on each.
        let first = cpus.first().copied().map(Cpu).into_iter().collect();
        let mut reservation = Reservation::on(BackendKind::Deadline, first);
        match policy {
            ThreadPolicy::Other => return None,
            ThreadPolicy::Idle => {
                log.warn(
                    &thread.span,
                    place,
                    "SCHED_IDLE has no counterpart; the domain is best effort",
                    "nothing need be done if nothing else runs there",
                );
                return None;
            }
            ThreadPolicy::Fixed => fixed_priority(thread, pattern, &mut reservation, place, log)?,
            ThreadPolicy::Deadline => deadline(thread, &mut reservation, place, log)?,
        }
        if cpus.len() > 1 {
            log.note(
                &thread.span,
                place,
                "reserved on the first of its CPUs only, for one thread runs on one at a time",
                "change the reservation's cpus if it should be another",
            );
        }
        Some(reservation)
    }

    /// Holds the description to the rules of all descriptions, and tells what is wrong at the
    /// thread that it comes from.
    fn checked(&self, log: &mut Log<'_>) {
        let text = match to_toml(&self.description) {
            Ok(text) => text,
            Err(error) => {
                return log.error(&(0..0), "", error.to_string(), "use smaller numbers");
            }
        };
        for problem in &check(&text, "imported").problems {
            let name = problem.key.split('.').nth(1).unwrap_or_default();
            let span = self.spans.get(name).cloned().unwrap_or(0..0);
            let key = format!("tasks.{name}");
            let message = format!("as a description: {}: {}", problem.key, problem.message);
            match problem.severity {
                Severity::Error => log.error(&span, key, message, &problem.remedy),
                Severity::Warning | Severity::Note => {
                    log.warn(&span, key, message, &problem.remedy)
                }
            }
        }
    }
}

/// Gives a reservation what the jobs of a fixed-priority thread need; `None` if they never end.
fn fixed_priority(
    thread: &WorkloadThread,
    pattern: &Pattern,
    reservation: &mut Reservation,
    place: &str,
    log: &mut Log<'_>,
) -> Option<()> {
    if *pattern == Pattern::Always {
        log.warn(
            &thread.span,
            place,
            "a fixed-priority thread that never waits would starve its CPU; the domain is best \
             effort",
            "give the domain a reservation",
        );
        return None;
    }
    let wanted = thread.priority.unwrap_or(10).clamp(1, 90);
    reservation.backend = BackendKind::DsFreeze;
    reservation.derive = Some(DerivationRule::VirtualizationAgnostic);
    reservation.priority = Priority(u8::try_from(wanted).unwrap_or(90));
    log.note(
        &thread.span,
        place,
        format!(
            "its fixed priority became a reservation of priority {wanted} with the budget that \
             its jobs need; rt-app sets it no limit"
        ),
        "give `budget` and `period` if it should have others",
    );
    Some(())
}

/// Gives a reservation the parameters of a SCHED_DEADLINE thread; `None` if it has no budget.
fn deadline(
    thread: &WorkloadThread,
    reservation: &mut Reservation,
    place: &str,
    log: &mut Log<'_>,
) -> Option<()> {
    let Some(budget) = thread.dl_runtime_us else {
        log.error(
            &thread.span,
            place,
            "a SCHED_DEADLINE task without a budget",
            "add \"dl-runtime\" and \"dl-period\", in microseconds",
        );
        return None;
    };
    let period = thread.dl_period_us.unwrap_or(budget);
    reservation.budget = Some(Duration::from_micros(budget));
    reservation.period = Some(Duration::from_micros(period));
    if thread
        .dl_deadline_us
        .is_some_and(|deadline| deadline != period)
    {
        log.warn(
            &thread.span,
            place,
            "its dl-deadline is left out: reservations here have their deadline at the end of \
             the period",
            "nothing need be done if that is near enough",
        );
    }
    Some(())
}

/// The service of a thread, with a task for each job of its cycle.
fn service(name: &str, jobs: &[TimelineJob], cycle_us: u64, delay_us: u64) -> Service {
    let task = |job: &TimelineJob| {
        Task::of(
            Arrivals::Periodic {
                period: Duration::from_micros(cycle_us),
                offset: Duration::from_micros(job.at_us + delay_us),
            },
            ExecutionTime::Constant {
                value: Duration::from_micros(job.run_us),
            },
        )
    };
    let tasks = match jobs {
        [only] => BTreeMap::from([("job".to_owned(), task(only))]),
        several => {
            let numbered = several.iter().enumerate();
            numbered
                .map(|(index, job)| (format!("job-{index}"), task(job)))
                .collect()
        }
    };
    Service::of(name, format!("unix:{name}.sock"), tasks)
}

fn why(error: NoPattern) -> (&'static str, &'static str) {
    match error {
        NoPattern::Late => (
            "a timer has run out before the thread comes to wait for it",
            "make its period longer than what is run before it, and use one timer per thread",
        ),
        NoPattern::Unsteady => (
            "one cycle of the thread takes another time than the next",
            "use one timer per thread",
        ),
        NoPattern::AcrossCycles => (
            "the thread runs both before its first wait and after \
its last, so a job goes on from one cycle to the next",
            "put the wait at the end",
        ),
        NoPattern::TooLong => (
            "the times of the thread are too long to be added up",
            "use shorter ones",
        ),
    }
}
