//! From a description to the modes of its host.

use std::collections::{BTreeMap, BTreeSet};

use tailbound_analysis::resolution::{Deployment, ResolutionError};
use tailbound_model::{AgentLink, Description, Mode, ModeChanges, Variant};

use crate::table::{AgentEntry, ModeTable, Settings, TableError};
use crate::transition::{DomainMode, Options};
use crate::triggers::ModeTrigger;

/// Why a description has no table of modes.
#[derive(Debug, thiserror::Error)]
pub enum ModeTableError {
    /// There are no modes.
    #[error("the description has no modes; add `[modes.NAME]` and `initial_mode`")]
    NoModes,
    /// There are several hosts.
    #[error(
        "the description has several hosts, and modes are changed on one host at a time; describe one"
    )]
    SeveralHosts,
    /// A reservation of a mode cannot be told.
    #[error("mode `{mode}`: {source}")]
    Resolution {
        /// The mode.
        mode: String,
        /// Why not.
        source: ResolutionError,
    },
    /// The table is none.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// The modes of a description with one host: for each domain with a reservation what holds in each of
/// them, its agent, and how changes are made.
///
/// # Errors
/// [`ModeTableError`] says what of the description stands against it.
pub fn table_of(description: &Description) -> Result<ModeTable, ModeTableError> {
    let Some(initial) = &description.initial_mode else {
        return Err(ModeTableError::NoModes);
    };
    if description.hosts.len() > 1 {
        return Err(ModeTableError::SeveralHosts);
    }
    let mut modes = BTreeMap::new();
    for (name, mode) in &description.modes {
        modes.insert(name.clone(), locals(description, name, mode)?);
    }
    let mut agents = BTreeMap::new();
    for (name, domain) in &description.domains {
        let Some(agent) = &domain.agent else { continue };
        let fallback = match &agent.fallback {
            Some(fallback) => fallback_of(description, name, fallback)?,
            None => None,
        };
        agents.insert(
            name.clone(),
            AgentEntry {
                place: agent.place,
                may_request: agent.may_request.iter().cloned().collect(),
                fallback,
            },
        );
    }
    let changes = description.section::<ModeChanges>();
    let settings = Settings {
        options: Options {
            policy: changes.policy,
            start: changes.start,
            timeout: changes.timeout,
        },
        requests: changes.requests,
        longest_boost: changes.boost,
        least_gap: changes.least_gap,
    };
    let links = description.domains.iter().filter_map(|(name, domain)| {
        let link = &domain.agent.as_ref()?.link;
        (*link != AgentLink::default()).then(|| (name.clone(), link.clone()))
    });
    let host = description.hosts.values().next();
    let listeners = host.map(|host| host.agents.clone()).unwrap_or_default();
    let table = ModeTable::new(initial.clone(), modes, agents, settings)?;
    let table = table.reached(links.collect(), listeners);
    let seen = description.domains.iter().filter_map(|(name, domain)| {
        let tasks = &domain.agent.as_ref()?.tasks;
        (!tasks.is_empty()).then(|| (name.clone(), tasks.clone()))
    });
    let table = table.with_seen(seen.collect());
    Ok(table.with_triggers(triggers(description)))
}

/// What asks for the modes of a description.
fn triggers(description: &Description) -> Vec<ModeTrigger> {
    let modes = description.modes.iter();
    modes
        .flat_map(|(name, mode)| {
            let numbered = mode.triggers.iter().enumerate();
            numbered.map(|(place, one)| ModeTrigger::described(name, place, one))
        })
        .collect()
}

/// What holds for each reserved domain in a mode.
fn locals(
    description: &Description,
    name: &str,
    mode: &Mode,
) -> Result<BTreeMap<String, DomainMode>, ModeTableError> {
    let deployment = Deployment::of(description, Some(name), &Variant::as_described());
    let deployment = deployment.map_err(|source| ModeTableError::Resolution {
        mode: name.to_owned(),
        source,
    })?;
    let reserved = deployment.reserved.into_iter();
    // Nothing is enforced of a domain with this back end, so that there is nothing to change.
    let reserved = reserved.filter(|(_, one)| one.backend.enforces());
    let locals = reserved.map(|(domain, one)| {
        let local = mode.domains.get(&domain);
        let local = DomainMode {
            name: local.map_or(name, String::as_str).to_owned(),
            interface: one.interface,
            tasks: tasks(&deployment.description, &domain),
        };
        (domain, local)
    });
    Ok(locals.collect())
}

/// A local mode by itself.
fn fallback_of(
    description: &Description,
    domain: &str,
    fallback: &str,
) -> Result<Option<DomainMode>, ModeTableError> {
    let mut alone = description.clone();
    let mode = Mode {
        domains: [(domain.to_owned(), fallback.to_owned())].into(),
        ..Mode::default()
    };
    alone.modes = [(fallback.to_owned(), mode.clone())].into();
    Ok(locals(&alone, fallback, &mode)?.remove(domain))
}

/// The tasks that run in a domain: its own by their names, those of its services as `service.task`.
fn tasks(described: &Description, domain: &str) -> BTreeSet<String> {
    let own = described.domains.get(domain).into_iter();
    let own = own.flat_map(|domain| domain.tasks.keys().cloned());
    let services = described.services.iter();
    let served = services
        .filter(|(_, service)| service.domain == domain)
        .flat_map(|(name, service)| {
            service
                .tasks
                .keys()
                .map(move |task| format!("{name}.{task}"))
        });
    own.chain(served).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_model::{AgentPlace, ChangePolicy, RequestsMeanwhile, TaskStart};
    use tailbound_time::Duration;

    use super::*;
    use crate::triggers::{Side, When};

    const CELL: &str = r#"
        schema_version = 1
        name = "cell"
        initial_mode = "run"
        hosts.cell.cpus = [0, 1]
        mode_changes = { policy = "greedy", requests = "merge", timeout = "20ms", start = "accepted" }
        [domains.arm]
        kind = "process"
        pids = [1]
        reservation = { budget = "4ms", period = "10ms", cpus = [1], priority = 50 }
        agent = { place = "inside", may_request = ["calibrate"], fallback = "park" }
        tasks.move = { arrivals = { kind = "periodic", period = "20ms" }, execution_time = { kind = "constant", value = "5ms" } }
        tasks.hold = { arrivals = { kind = "periodic", period = "20ms" }, execution_time = { kind = "constant", value = "1ms" } }
        [domains.arm.modes.rest]
        reservation = { budget = "1ms", period = "10ms", cpus = [1], priority = 50 }
        tasks = ["hold"]
        [domains.arm.modes.park]
        reservation = { budget = "500us", period = "10ms", cpus = [1], priority = 50 }
        tasks = []
        [domains.camera]
        kind = "process"
        pids = [2]
        reservation = { budget = "2ms", period = "10ms", cpus = [1], priority = 40 }
        [domains.logger]
        kind = "process"
        pids = [3]
        [modes.run]
        [modes.calibrate]
        domains = { arm = "rest" }
        reservations = { camera = { budget = "5ms", period = "10ms", cpus = [1], priority = 40 } }
        triggers = [
            { kind = "schedule", every = "10s", offset = "3s" },
            { kind = "condition", domain = "arm", metric = "depletions", above = 12.5, for = "1s" },
        ]
    "#;

    #[test]
    fn a_description_becomes_a_table() {
        let description = tailbound_model::parse(CELL, "cell.toml").unwrap();
        let table = table_of(&description).unwrap();
        assert_eq!(
            (table.initial(), table.names()),
            ("run", vec!["calibrate", "run"])
        );
        let of = |mode: &str, domain: &str| table.mode(mode).unwrap()[domain].clone();
        let ms = Duration::from_millis;
        let arm = of("calibrate", "arm");
        assert_eq!((arm.name.as_str(), arm.interface.budget), ("rest", ms(1)));
        assert_eq!(arm.tasks, ["hold".to_owned()].into());
        assert_eq!(of("run", "arm").tasks.len(), 2);
        assert_eq!(of("calibrate", "camera").interface.budget, ms(5));
        // What has no reservation takes no part.
        assert!(!table.mode("run").unwrap().contains_key("logger"));
        assert_eq!(table.agent_place("arm"), Some(AgentPlace::Inside));
        let fallback = table.fallback("arm").unwrap();
        assert_eq!((fallback.name.as_str(), fallback.tasks.len()), ("park", 0));
        assert!(table.may_request("arm", "calibrate") && !table.may_request("arm", "run"));
        assert!(!table.may_request("camera", "calibrate"));
        let options = table.options();
        assert_eq!(
            (options.policy, options.start),
            (ChangePolicy::Greedy, TaskStart::Accepted)
        );
        assert_eq!(
            (options.timeout, table.requests()),
            (ms(20), RequestsMeanwhile::Merge)
        );
    }

    #[test]
    fn triggers_become_those_of_the_table() {
        let description = tailbound_model::parse(CELL, "cell.toml").unwrap();
        let table = table_of(&description).unwrap();
        let [schedule, condition] = table.triggers() else {
            panic!("{:?}", table.triggers());
        };
        assert_eq!(schedule.name, "calibrate.triggers[0]");
        assert_eq!(schedule.mode, "calibrate");
        let (every, offset) = (Duration::from_secs(10), Duration::from_secs(3));
        assert_eq!(schedule.when, When::Schedule { every, offset });
        let When::Condition {
            threshold_ppm,
            side,
            ..
        } = &condition.when
        else {
            panic!("{condition:?}");
        };
        assert_eq!((*threshold_ppm, *side), (125_000, Side::Above));
    }

    #[test]
    fn without_modes_there_is_no_table() {
        let text = "schema_version = 1\nname = \"one\"\nhosts.cell.cpus = [0]\n\
                    domains.hog = { kind = \"process\", builtin = \"cpu-hog\" }\n";
        let description = tailbound_model::parse(text, "one.toml").unwrap();
        let error = table_of(&description).unwrap_err().to_string();
        assert!(error.contains("no modes"), "{error}");
    }
}
