//! What simulation says of the services of a run in one variant: whole hosts, with the execution times
//! that are known by then.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use tailbound_analysis::resolution::{Deployment, ResolvedDomain};
use tailbound_distribution::{Distribution, Shape};
use tailbound_model::{
    BackendOptions, CpuPromise, Description, ExecutionTime, InputFiles, ReservationServer,
    SampleCount,
};
use tailbound_simulator::host::{
    HostQuery, HostSimulation, Kept, MOST_EVENTS, lay_out, simulate_host, simulate_layout,
};
use tailbound_simulator::traces::{BLOCKS, ScheduleSlice, ScheduleWindow, ServiceCauses, Tee};
use tailbound_time::Duration;
use tailbound_trace::explain::{Explanation, PICTURED_QUANTILES};

use crate::AssessmentError;
use crate::execution_times::ServiceTimes;

/// How many periods of the longest reservation the window of a schedule shows.
const SHOWN_PERIODS: u64 = 5;

/// The period that counts where none is reserved.
const SHOWN_PERIOD: Duration = Duration::from_millis(20);

/// How long and from which seed services are simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedSpan {
    /// What is released before and counts for nothing.
    pub warm_up: Duration,
    /// How long releases count after it.
    pub duration: Duration,
    /// The seed of arrivals and execution times.
    pub seed: u64,
}

/// What a simulation of hosts has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulated {
    /// The response times of each service.
    pub services: BTreeMap<String, Distribution>,
    /// A window of each CPU's schedule with its title, from the end of the warm-up on.
    pub schedules: Vec<(String, ScheduleSlice)>,
    /// What the requests of each service waited for.
    pub explanations: Vec<Explanation>,
}

/// Simulates the hosts of a deployment, which its pictures call `title`, with the releases that a load generator with
/// the same seed sends: the response times of each service, and a window of the schedule. A service whose domain the
/// kernel promises nothing is left out: no rule tells what it would get. So is one none of whose
/// jobs is done.
///
/// # Errors
/// A host cannot be simulated.
pub fn simulated(
    deployment: &Deployment,
    title: &str,
    times: &BTreeMap<String, ServiceTimes>,
    inputs: &InputFiles,
    span: SimulatedSpan,
) -> Result<Simulated, AssessmentError> {
    let resolved = &deployment.reserved;
    let mut hosted = deployment.description.clone();
    let mut inputs = inputs.clone();
    put_known(&mut hosted, times, &mut inputs);
    stretch_budgets(&mut hosted, times, resolved);
    put_options_aside(&mut hosted);
    let promised = hosted.services.iter().filter(|(_, service)| {
        let domain = resolved.get(&service.domain);
        domain.and_then(ResolvedDomain::server).is_some()
    });
    let promised: BTreeSet<String> = promised.map(|(name, _)| name.clone()).collect();
    let on = |host: &str| {
        let mut services = hosted.services.iter();
        services.any(|(name, service)| {
            let domain = hosted.domains.get(&service.domain);
            let own = domain.and_then(|domain| hosted.host_of(domain));
            promised.contains(name) && own.is_some_and(|(own, _)| own == host)
        })
    };
    let mut simulated = Simulated::default();
    for host in hosted.hosts.keys().filter(|host| on(host)) {
        let simulation = simulate_and_draw(
            &HostQuery {
                description: &hosted,
                host,
                inputs: &inputs,
                seed: span.seed,
                warm_up: span.warm_up,
                duration: span.duration,
                kept: Kept::All,
                most_events: MOST_EVENTS,
            },
            &format!("{title}, {host}"),
            &mut simulated,
        )?;
        for (name, responses) in simulation.services {
            if let Some(responses) = responses.filter(|_| promised.contains(&name)) {
                let responses = match times.get(&name) {
                    Some(times) => as_known(responses, times),
                    None => responses,
                };
                simulated.services.insert(name, responses);
            }
        }
    }
    let explanations = &mut simulated.explanations;
    explanations.retain(|explanation| promised.contains(&explanation.subject));
    for explanation in explanations {
        explanation.run = title.to_string();
    }
    Ok(simulated)
}

/// Simulates a host and adds a window of the schedule of each of its plans on which anything runs, five of the longest
/// periods that are reserved there, or what there is; and what the requests of its services waited for.
fn simulate_and_draw(
    query: &HostQuery<'_>,
    name: &str,
    simulated: &mut Simulated,
) -> Result<HostSimulation, AssessmentError> {
    let layout = lay_out(query.description, query.host, query.inputs)?;
    let domains = query.description.domains.values();
    let reserved = domains.filter_map(|domain| domain.reservation.as_ref()?.period);
    let longest = reserved.max().unwrap_or(SHOWN_PERIOD);
    let shown = longest.as_nanos().saturating_mul(SHOWN_PERIODS);
    let shown = Duration::from_nanos(shown).min(query.duration);
    let from = query.warm_up.as_nanos();
    let until = query.warm_up.saturating_add(shown).as_nanos();
    let windows = layout.plans.iter();
    let windows = windows.map(|laid| ScheduleWindow::new(laid.setting(), from, until, BLOCKS));
    // An empty window shows nothing; there is one only where nothing is simulated.
    let Ok(windows) = windows.collect::<Result<Vec<_>, _>>() else {
        return Ok(simulate_host(query)?);
    };
    let with_causes = layout.plans.iter().zip(windows).map(|(laid, window)| {
        let services = laid.tasks.iter().map(|task| task.service.clone());
        let services: Vec<Option<String>> = services.collect();
        Tee(window, ServiceCauses::new(laid.setting(), &services, from))
    });
    let mut sinks: Vec<Tee<ScheduleWindow, ServiceCauses>> = with_causes.collect();
    let simulation = simulate_layout(query, &layout, &mut sinks)?;
    for (laid, Tee(window, causes)) in layout.plans.iter().zip(sinks) {
        if !laid.tasks.is_empty() {
            let slice = window.finish(simulation.ended_ns);
            simulated.schedules.push((laid.title(name), slice));
        }
        simulated
            .explanations
            .extend(causes.finish(&PICTURED_QUANTILES));
    }
    Ok(simulation)
}

/// Puts what calibration found in the place of the execution times that the description leaves to it;
/// where round trips fill the queue, in the place of all.
fn put_known(
    hosted: &mut Description,
    times: &BTreeMap<String, ServiceTimes>,
    inputs: &mut InputFiles,
) {
    for (name, service) in &mut hosted.services {
        let Some(times) = times.get(name) else {
            continue;
        };
        for (task, content) in &mut service.tasks {
            let calibrated = matches!(content.execution_time, ExecutionTime::Calibrated { .. });
            let measured = times.measured.get(task);
            let measured = measured.filter(|_| calibrated || times.trip_and_execution.is_some());
            let Some(samples) = measured.and_then(counted) else {
                continue;
            };
            // No file has this name: tasks and services have none with a slash.
            let file = PathBuf::from(format!("calibration/{name}/{task}"));
            inputs.insert_samples(file.clone(), samples);
            content.execution_time = ExecutionTime::Samples { file };
        }
    }
}

/// A value known only from below counts as just that: nothing longer is known.
fn counted(distribution: &Distribution) -> Option<Vec<SampleCount>> {
    let all: Vec<Duration> = match &distribution.shape {
        Shape::Samples(samples) => samples.clone(),
        Shape::Censored { samples, censored } => samples.iter().chain(censored).copied().collect(),
        Shape::Curve(_) | Shape::Bracket { .. } => return None,
    };
    let mut counts: BTreeMap<Duration, u64> = BTreeMap::new();
    for value in all {
        *counts.entry(value).or_default() += 1;
    }
    let counts = counts.into_iter();
    let counts: Vec<SampleCount> = counts
        .map(|(value, count)| SampleCount { value, count })
        .collect();
    (!counts.is_empty()).then_some(counts)
}

/// Makes budgets last as long as [`Known::as_seen`] says; where several services share one, as the one
/// says for which it lasts the least.
fn stretch_budgets(
    hosted: &mut Description,
    times: &BTreeMap<String, ServiceTimes>,
    resolved: &BTreeMap<String, ResolvedDomain>,
) {
    for (name, domain) in &mut hosted.domains {
        let server = resolved.get(name).and_then(ResolvedDomain::server);
        let (Some(reservation), Some(server)) = (&mut domain.reservation, server) else {
            continue;
        };
        let services = hosted.services.iter();
        let services = services.filter(|(_, service)| service.domain == *name);
        let seen = services.filter_map(|(service, _)| match times.get(service)?.as_seen(server) {
            ReservationServer::Deferrable { budget, .. } => Some(budget),
            _ => None,
        });
        if let Some(budget) = seen.min() {
            reservation.budget = Some(budget);
        }
    }
}

/// Leaves out the options of domains to which nothing is promised: they come after all others, whose response times
/// alone are wanted.
fn put_options_aside(hosted: &mut Description) {
    let reservations = hosted.domains.values_mut();
    for reservation in reservations.filter_map(|domain| domain.reservation.as_mut()) {
        if reservation.backend.promise() == CpuPromise::Nothing {
            reservation.options = BackendOptions::default();
        }
    }
}

/// The response times as a client sees them, with what is taken for granted of round trips.
fn as_known(mut responses: Distribution, times: &ServiceTimes) -> Distribution {
    let assumptions = &mut responses.provenance.assumptions;
    let overhead = times.dispatch_overhead;
    if !overhead.is_zero() {
        assumptions.push(format!(
            "every response takes {overhead} longer for the way there and back"
        ));
    }
    if let Some((trip, execution)) = times.trip_and_execution {
        assumptions.push(format!(
            "one request at a time: of a round trip of {trip}, {execution} is execution and uses \
             budget (means); other domains wait for whole trips"
        ));
    }
    let samples = responses.samples().iter();
    let samples = samples
        .map(|sample| sample.saturating_add(overhead))
        .collect();
    Distribution::from_samples(responses.provenance, samples)
}

#[cfg(test)]
mod tests;
