//! Simulations of all hosts of a description.

use serde::Serialize;
use tailbound_analysis::resolution::Deployment;
use tailbound_model::{Description, InputFiles, Variant};
use tailbound_simulator::ENGINE;
use tailbound_simulator::host::{
    HostQuery, HostSimulation, Kept, MOST_EVENTS, SimulatedPromise, promises,
};
use tailbound_time::Duration;

use crate::AssessmentError;
use crate::chain_simulation::{CountedSpan, SimulatedChain, SimulatedTopic, chain_simulation};
use crate::prediction::variant_named;
use crate::released_tasks::{MOST_ROUNDS, MessageTimes, ReleasedTasks};
use crate::schedulability::refused_cpus;

/// What is simulated of a description.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulationQuery<'a> {
    /// The mode; the initial one where `None`.
    pub mode: Option<&'a str>,
    /// The variant of the experiment; as described where `None`.
    pub variant: Option<&'a str>,
    /// The seed in place of the description's.
    pub seed: Option<u64>,
    /// What is released before and counts for nothing.
    pub warm_up: Duration,
    /// How long releases count after the warm-up.
    pub duration: Duration,
}

/// What a simulation found of all hosts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulationAnswer {
    /// The simulator's version: what another one finds may differ.
    pub engine: u32,
    /// The description's name.
    pub name: String,
    /// The mode.
    pub mode: Option<String>,
    /// The variant.
    pub variant: Option<String>,
    /// Every host.
    pub hosts: Vec<HostSimulation>,
    /// What is promised, and whether it was kept.
    pub promises: Vec<SimulatedPromise>,
    /// The chains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<SimulatedChain>,
    /// The topics, at each subscriber.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<SimulatedTopic>,
}

/// The hosts of a deployed description in a simulation, with the messages between them.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemSimulation {
    /// Every host.
    pub hosts: Vec<HostSimulation>,
    /// The chains.
    pub chains: Vec<SimulatedChain>,
    /// The topics, at each subscriber.
    pub topics: Vec<SimulatedTopic>,
}

/// Simulates every host of a description by `simulate_host`, which may record what it sees.
///
/// # Errors
/// The description has no such mode or variant, or a host cannot be simulated.
pub fn simulate<E: From<AssessmentError>>(
    description: &Description,
    inputs: &InputFiles,
    query: &SimulationQuery<'_>,
    simulate_host: impl Fn(&HostQuery<'_>) -> Result<HostSimulation, E>,
) -> Result<SimulationAnswer, E> {
    let as_described = Variant::as_described();
    let variant = match query.variant {
        Some(name) => variant_named(description, name)?,
        None => &as_described,
    };
    let deployment = Deployment::of(description, query.mode, variant);
    let hosted = deployment.map_err(AssessmentError::from)?.description;
    let refused = refused_cpus(&hosted)?;
    let seed = query.seed.unwrap_or(description.seed);
    let span = CountedSpan {
        seed,
        warm_up: query.warm_up,
        duration: query.duration,
    };
    let SystemSimulation {
        mut hosts,
        chains,
        topics,
    } = simulate_system(&hosted, inputs, span, simulate_host)?;
    for host in &mut hosts {
        let here = refused.iter().filter(|cpu| cpu.host == host.host);
        host.assumptions.extend(here.map(|cpu| {
            let why = cpu.failures.join("; ");
            format!("not admitted, and simulated all the same: {why}")
        }));
    }
    let mode = query.mode.or(description.initial_mode.as_deref());
    Ok(SimulationAnswer {
        engine: ENGINE,
        name: description.name.clone(),
        mode: mode.map(Into::into),
        variant: query.variant.map(Into::into),
        promises: promises(&hosted, &hosts),
        hosts,
        chains,
        topics,
    })
}

/// Simulates every host of a deployed description by `simulate_host`, with its messages: jobs of released tasks come with the
/// messages of their topics.
///
/// # Errors
/// A host cannot be simulated.
pub fn simulate_system<E>(
    hosted: &Description,
    inputs: &InputFiles,
    span: CountedSpan,
    simulate_host: impl Fn(&HostQuery<'_>) -> Result<HostSimulation, E>,
) -> Result<SystemSimulation, E> {
    let released = ReleasedTasks::of(hosted);
    let mut messages = MessageTimes::new();
    let (mut hosts, mut settled) = (Vec::new(), false);
    for _ in 0..MOST_ROUNDS {
        let (described, inputs) = released.released_at(hosted, inputs, &messages);
        hosts.clear();
        for host in described.hosts.keys() {
            hosts.push(simulate_host(&HostQuery {
                description: &described,
                host,
                inputs: &inputs,
                seed: span.seed,
                warm_up: span.warm_up,
                duration: span.duration,
                kept: Kept::Classes,
                most_events: MOST_EVENTS,
            })?);
        }
        let sent = released.messages(&hosts, span.seed);
        settled = released.is_empty() || sent == messages;
        if settled {
            break;
        }
        messages = sent;
    }
    let (chains, topics) = chain_simulation(hosted, &hosts, span, settled);
    Ok(SystemSimulation {
        hosts,
        chains,
        topics,
    })
}
