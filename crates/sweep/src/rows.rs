//! The rows of a unit: one for each domain, each task and each service as a whole, and two for each chain.

use std::fmt::Write as _;

use tailbound_assessment::chain_simulation::SimulatedChain;
use tailbound_assessment::simulation::SystemSimulation;
use tailbound_distribution::Distribution;
use tailbound_simulator::host::{
    DomainResult, Growth, HostSimulation, SimulatedOutcome, SimulatedPromise, TaskResult,
};
use tailbound_time::Duration;

use crate::Axis;

/// The columns behind those of the axes.
const COLUMNS: &str = "seed,host,domain,service,task,jobs,unfinished,misses,cpu_share,depletions,\
                       mean_ns,p50_ns,p90_ns,p99_ns,p99_9_ns,max_ns,growth,verdict,chain,time";

/// What stands for all tasks of a service; no task has that name.
const ALL: &str = "*";

/// The first line.
pub(super) fn header(axes: &[Axis]) -> String {
    let mut line = String::new();
    for axis in axes {
        let _ = write!(line, "{},", field(&axis.key));
    }
    let _ = writeln!(line, "{COLUMNS}");
    line
}

/// What a row tells; what is left out is an empty field.
#[derive(Default)]
struct ResultRow<'a> {
    domain: &'a str,
    service: &'a str,
    task: &'a str,
    jobs: Option<u64>,
    unfinished: Option<u64>,
    misses: Option<u64>,
    cpu_share: Option<f64>,
    depletions: Option<u64>,
    responses: Option<&'a Distribution>,
    longest_ns: Option<u64>,
    growth: &'a str,
    verdict: &'a str,
    chain: &'a str,
    time: &'a str,
}

/// The rows of one point and seed.
pub(super) fn rows(
    values: &[String],
    seed: u64,
    system: &SystemSimulation,
    promises: &[SimulatedPromise],
) -> String {
    let mut text = String::new();
    let before: String = values.iter().map(|value| field(value) + ",").collect();
    for host in &system.hosts {
        let before = format!("{before}{seed},{}", field(&host.host));
        for (name, domain) in &host.domains {
            of_domain(name, domain).write(&before, &mut text);
            for task in &domain.tasks {
                of_task(name, task, promises).write(&before, &mut text);
            }
        }
        for (name, responses) in &host.services {
            let row = of_service(host, name, responses.as_ref(), promises);
            row.write(&before, &mut text);
        }
    }
    // A chain may lead over several hosts.
    let before = format!("{before}{seed},");
    for chain in &system.chains {
        for row in of_chain(chain) {
            row.write(&before, &mut text);
        }
    }
    text
}

/// The data ages and the reaction times of a chain.
fn of_chain(chain: &SimulatedChain) -> [ResultRow<'_>; 2] {
    let times = chain.outcome.as_ref().ok();
    let ages = times.map(|times| &times.data_age);
    let reactions = times.map(|times| &times.reaction_time);
    let name = &chain.chain;
    [
        of_chain_time(name, ("data-age", ages), chain.data_age_limit),
        of_chain_time(
            name,
            ("reaction-time", reactions),
            chain.reaction_time_limit,
        ),
    ]
}

fn of_chain_time<'a>(
    chain: &'a str,
    (time, values): (&'static str, Option<&'a Distribution>),
    limit: Option<Duration>,
) -> ResultRow<'a> {
    let samples = values.map(Distribution::samples).unwrap_or_default();
    let above = limit.map(|limit| samples.len() - samples.partition_point(|value| *value <= limit));
    ResultRow {
        jobs: values.map(|_| samples.len() as u64),
        misses: above.filter(|_| values.is_some()).map(|above| above as u64),
        responses: values,
        longest_ns: samples.last().map(|longest| longest.as_nanos()),
        verdict: match above {
            None => "",
            Some(_) if samples.is_empty() => "nothing-to-tell",
            Some(0) => "met",
            Some(_) => "missed",
        },
        chain,
        time,
        ..ResultRow::default()
    }
}

fn of_domain<'a>(name: &'a str, domain: &DomainResult) -> ResultRow<'a> {
    ResultRow {
        domain: name,
        cpu_share: Some(domain.cpu_share),
        depletions: Some(domain.depletions),
        growth: match domain.growth {
            None => "",
            Some(Growth::Demand { .. }) => "demand",
            Some(Growth::Measured { .. }) => "measured",
            Some(Growth::CutOff { .. }) => "cut-off",
        },
        ..ResultRow::default()
    }
}

fn of_task<'a>(
    domain: &'a str,
    task: &'a TaskResult,
    promises: &[SimulatedPromise],
) -> ResultRow<'a> {
    let service = task.service.as_deref().unwrap_or_default();
    ResultRow {
        domain,
        service,
        task: &task.name,
        jobs: Some(task.released),
        unfinished: Some(task.unfinished),
        misses: task.deadline_ns.map(|_| task.missed),
        cpu_share: Some(task.cpu_share),
        responses: task.response_times.as_ref(),
        longest_ns: task.longest_ns,
        verdict: verdict(promises, service, Some(&task.name)),
        ..ResultRow::default()
    }
}

/// All tasks of a service together.
fn of_service<'a>(
    host: &'a HostSimulation,
    name: &'a str,
    responses: Option<&'a Distribution>,
    promises: &[SimulatedPromise],
) -> ResultRow<'a> {
    let mut row = ResultRow {
        service: name,
        task: ALL,
        responses,
        verdict: verdict(promises, name, None),
        ..ResultRow::default()
    };
    for (domain, content) in &host.domains {
        let tasks = content.tasks.iter();
        for task in tasks.filter(|task| task.service.as_deref() == Some(name)) {
            row.domain = domain;
            *row.jobs.get_or_insert(0) += task.released;
            *row.unfinished.get_or_insert(0) += task.unfinished;
            if task.deadline_ns.is_some() {
                *row.misses.get_or_insert(0) += task.missed;
            }
            row.longest_ns = row.longest_ns.max(task.longest_ns);
        }
    }
    row
}

/// The worst that became of what is promised about a task, or about all tasks together.
fn verdict(promises: &[SimulatedPromise], service: &str, task: Option<&str>) -> &'static str {
    let about = promises.iter();
    let about = about.filter(|one| one.service == service && one.task.as_deref() == task);
    match about.map(|one| one.outcome).max() {
        None => "",
        Some(SimulatedOutcome::Met) => "met",
        Some(SimulatedOutcome::NothingToTell) => "nothing-to-tell",
        Some(SimulatedOutcome::Undecided) => "undecided",
        Some(SimulatedOutcome::Missed) => "missed",
    }
}

impl ResultRow<'_> {
    fn write(&self, before: &str, text: &mut String) {
        let count = |count: Option<u64>| count.map(|count| count.to_string()).unwrap_or_default();
        let names = [self.domain, self.service, self.task].map(field).join(",");
        let _ = write!(text, "{before},{names}");
        for number in [self.jobs, self.unfinished, self.misses] {
            let _ = write!(text, ",{}", count(number));
        }
        let share = self.cpu_share.map(|share| share.to_string());
        let share = share.unwrap_or_default();
        let _ = write!(text, ",{share},{}", count(self.depletions));
        let mean = self.responses.and_then(Distribution::mean);
        let quantiles = [0.5, 0.9, 0.99, 0.999];
        let quantiles =
            quantiles.map(|p| self.responses.and_then(|responses| responses.quantile(p)));
        for interval in [mean].into_iter().chain(quantiles) {
            let upper = interval.and_then(|interval| interval.high);
            let _ = write!(text, ",{}", count(upper.map(|upper| upper.as_nanos())));
        }
        let longest = count(self.longest_ns);
        let chain = field(self.chain);
        let _ = writeln!(
            text,
            ",{longest},{},{},{chain},{}",
            self.growth, self.verdict, self.time
        );
    }
}

/// A field by RFC 4180.
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
