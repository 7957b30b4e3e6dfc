//! `tailbound simulate`: what becomes of every domain and task of a host, by discrete-event simulation.

use std::path::Path;

use tailbound_assessment::chain_simulation::SimulatedChain;
use tailbound_assessment::simulation::{SimulationAnswer, SimulationQuery, simulate};
use tailbound_distribution::Distribution;
use tailbound_model::Percentile;
use tailbound_simulator::host::{
    Growth, HostQuery, HostSimulation, SimulatedOutcome, SimulatedPromise, TaskResult,
    simulate_host,
};
use tailbound_time::Duration;

use crate::arguments::SimulateArguments;
use crate::failure::Failure;
use crate::output::{Output, table};

use super::predict_answer::millisecond_range;
use super::schedule::{SHOWN, simulate_recorded};
use super::simulated_chains;

/// Simulates every host of a description. Status 2 if a deadline or promise is missed, or work piles
/// up.
pub fn carry_out(arguments: &SimulateArguments, output: &Output) -> Result<(), Failure> {
    let output = &output.exporting(&arguments.export);
    let loaded = super::load(&arguments.file, output)?;
    let inputs = super::inputs(&loaded)?;
    let query = SimulationQuery {
        mode: arguments.mode.as_deref(),
        variant: arguments.variant.as_deref(),
        seed: arguments.seed,
        warm_up: arguments.warm_up,
        duration: arguments.duration,
    };
    let each = |host: &HostQuery<'_>| one_host(arguments, host);
    let answer = simulate(&loaded.description, &inputs, &query, each)?;
    say_assumptions(&answer.hosts, output);
    if let Some(folder) = &arguments.export_distributions {
        export(&answer.hosts, folder)?;
    }
    print(&answer, &arguments.percentiles, output)?;
    judge(&answer)
}

/// Simulates a host, and writes its schedule where that is asked for.
fn one_host(
    arguments: &SimulateArguments,
    query: &HostQuery<'_>,
) -> Result<HostSimulation, Failure> {
    match &arguments.export_schedule {
        None => simulate_host(query).map_err(Failure::from_error),
        Some(folder) => {
            let from = arguments.from.unwrap_or(arguments.warm_up);
            let until = arguments.until.unwrap_or(from.saturating_add(SHOWN));
            simulate_recorded(query, folder, (from, until))
        }
    }
}

/// What is taken for granted, once for all hosts.
fn say_assumptions(hosts: &[HostSimulation], output: &Output) {
    for host in hosts {
        for assumption in &host.assumptions {
            output.note(format!("{}: {assumption}", host.host));
        }
    }
}

fn print(
    answer: &SimulationAnswer,
    percentiles: &[Percentile],
    output: &Output,
) -> Result<(), Failure> {
    let labels: Vec<String> = percentiles.iter().map(ToString::to_string).collect();
    let mut header = vec![
        "host", "domain", "task", "CPU", "jobs", "missed", "depleted",
    ];
    header.extend(labels.iter().map(String::as_str));
    header.extend(["max", "verdict"]);
    let mut rows = Vec::new();
    for host in &answer.hosts {
        for (name, domain) in &host.domains {
            let verdict = domain.growth.map_or(String::new(), growth);
            let share = in_percent(domain.cpu_share);
            let mut row = vec![host.host.clone(), name.clone(), "-".into(), share];
            row.extend(["-".into(), "-".into(), domain.depletions.to_string()]);
            row.resize(header.len() - 1, "-".into());
            row.push(verdict);
            rows.push(row);
            for task in &domain.tasks {
                rows.push(task_row(&host.host, name, task, percentiles));
            }
        }
        for (name, responses) in &host.services {
            rows.extend(service_row(
                host,
                name,
                responses.as_ref(),
                percentiles,
                &answer.promises,
            ));
        }
    }
    let for_people = || {
        let chains = simulated_chains::tables_of(answer, percentiles);
        format!("{}\n{chains}", table(&header, &rows))
    };
    output.rows_with(for_people, &header, &rows, answer)
}

fn task_row(
    host: &str,
    domain: &str,
    task: &TaskResult,
    percentiles: &[Percentile],
) -> Vec<String> {
    let name = match &task.service {
        Some(service) => format!("{service}.{}", task.name),
        None => task.name.clone(),
    };
    let mut row = vec![
        host.to_owned(),
        domain.to_owned(),
        name,
        in_percent(task.cpu_share),
    ];
    row.push(task.released.to_string());
    row.push(match task.deadline_ns {
        Some(_) => task.missed.to_string(),
        None => "-".into(),
    });
    row.push("-".into());
    row.extend(quantiles(task.response_times.as_ref(), percentiles));
    row.push(millisecond_range(task.longest_ns, task.longest_ns));
    row.push(match (task.missed, task.unfinished) {
        (0, 0) => String::new(),
        (0, unfinished) => format!("{unfinished} not done"),
        (_, 0) => "misses its deadline".into(),
        (_, unfinished) => format!("misses its deadline; {unfinished} not done"),
    });
    row
}

/// All tasks of a service together, and its promises.
fn service_row(
    host: &HostSimulation,
    name: &str,
    responses: Option<&Distribution>,
    percentiles: &[Percentile],
    promises: &[SimulatedPromise],
) -> Option<Vec<String>> {
    let own: Vec<&SimulatedPromise> = promises.iter().filter(|one| one.service == name).collect();
    let mut domains = host.domains.iter();
    let (domain, _) = domains.find(|(_, domain)| {
        let mut tasks = domain.tasks.iter();
        tasks.any(|task| task.service.as_deref() == Some(name))
    })?;
    let mut row = vec![host.host.clone(), domain.clone(), format!("{name} (all)")];
    row.extend(vec!["-".to_owned(); 4]);
    row.extend(quantiles(responses, percentiles));
    let longest = responses
        .and_then(Distribution::max)
        .and_then(|max| max.high);
    let longest = longest.map(Duration::as_nanos);
    row.push(millisecond_range(longest, longest));
    let said: Vec<String> = own.into_iter().map(said).collect();
    row.push(said.join(", "));
    Some(row)
}

fn said(promise: &SimulatedPromise) -> String {
    let latency = Duration::from_nanos(promise.latency_ns);
    let of = promise
        .task
        .as_ref()
        .map_or(String::new(), |task| format!(" of {task}"));
    let outcome = match promise.outcome {
        SimulatedOutcome::Met => "met",
        SimulatedOutcome::Missed => "missed",
        SimulatedOutcome::Undecided => "undecided",
        SimulatedOutcome::NothingToTell => "no job done",
    };
    format!("p{}{of} within {latency}: {outcome}", promise.percentile)
}

pub(super) fn quantiles(
    responses: Option<&Distribution>,
    percentiles: &[Percentile],
) -> Vec<String> {
    let each = percentiles.iter().map(|percentile| {
        match responses.and_then(|responses| responses.quantile(percentile.probability())) {
            None => "-".into(),
            Some(quantile) => millisecond_range(
                Some(quantile.low.as_nanos()),
                quantile.high.map(Duration::as_nanos),
            ),
        }
    });
    each.collect()
}

fn in_percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn growth(growth: Growth) -> String {
    match growth {
        Growth::Demand { needed, given } => format!(
            "piles up: needs {} of a CPU and gets {} at most",
            in_percent(needed),
            in_percent(given)
        ),
        Growth::Measured { before, after } => {
            format!("piles up: {before} jobs wait, later {after}")
        }
        Growth::CutOff { at_ns } => format!(
            "piles up: no more jobs are released from {} on",
            Duration::from_nanos(at_ns)
        ),
    }
}

fn judge(answer: &SimulationAnswer) -> Result<(), Failure> {
    let mut reasons = Vec::new();
    for (name, domain) in answer.hosts.iter().flat_map(|host| &host.domains) {
        if let Some(why) = domain.growth {
            reasons.push(format!("domain {name}: work {}", growth(why)));
        }
        for task in domain.tasks.iter().filter(|task| task.missed > 0) {
            let deadline = Duration::from_nanos(task.deadline_ns.unwrap_or_default());
            reasons.push(format!(
                "{name}.{}: {} of {} jobs missed the deadline of {deadline}",
                task.name, task.missed, task.released
            ));
        }
    }
    let missed = answer.promises.iter();
    let missed = missed.filter(|promise| promise.outcome == SimulatedOutcome::Missed);
    reasons.extend(missed.map(|promise| format!("service {}: {}", promise.service, said(promise))));
    reasons.extend(answer.chains.iter().flat_map(SimulatedChain::objections));
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Failure::Verdict(reasons.join("\n")))
}

fn export(hosts: &[HostSimulation], folder: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::error(format!("cannot write to {}: {error}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let write = |name: String, responses: &Option<Distribution>| match responses {
        Some(responses) => std::fs::write(folder.join(name), responses.to_csv()).map_err(failed),
        None => Ok(()),
    };
    for host in hosts {
        for (service, responses) in &host.services {
            write(format!("{service}.csv"), responses)?;
        }
        for (domain, content) in &host.domains {
            for task in &content.tasks {
                let owner = task.service.as_ref().unwrap_or(domain);
                write(format!("{owner}.{}.csv", task.name), &task.response_times)?;
            }
        }
    }
    Ok(())
}
