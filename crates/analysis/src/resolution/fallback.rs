//! Modes in which domains have fallen back, as modes of the system.
//!
//! A domain whose agent cannot switch runs the tasks of its fallback, while the others are in the new mode. It has
//! the reservation of the fallback if that is no larger than what it has; else what it has, which the tasks of the
//! fallback have to do with then.

use tailbound_model::{Description, Mode, PercentagePoints, Variant};

use super::{Deployment, ResolutionError, ResolvedDomain};

/// A mode with domains fallen back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallenMode {
    /// What it is called. No mode of a file has such a name.
    pub name: String,
    /// The mode that the other domains are in.
    pub mode: String,
    /// Those that have fallen back.
    pub domains: Vec<String>,
}

/// A description, the modes of which go on with those in which domains have fallen back.
#[derive(Clone, Debug, PartialEq)]
pub struct WithFallen {
    /// The description.
    pub description: Description,
    /// The modes that were added.
    pub added: Vec<FallenMode>,
}

impl WithFallen {
    /// The mode of the file that a mode is, or has come from.
    pub fn mode_of<'a>(&'a self, mode: &'a str) -> &'a str {
        self.fallen(mode).map_or(mode, |fallen| &fallen.mode)
    }

    /// A mode that was added.
    pub fn fallen(&self, mode: &str) -> Option<&FallenMode> {
        self.added.iter().find(|one| one.name == mode)
    }
}

/// Adds each mode with each domain fallen back, and with all of them. Where the fallback is what the mode puts the
/// domain into anyway, nothing is added.
///
/// # Errors
/// A reservation that cannot be derived.
pub fn with_fallen(description: &Description) -> Result<WithFallen, ResolutionError> {
    let mut extended = WithFallen {
        description: description.clone(),
        added: Vec::new(),
    };
    for (name, mode) in &description.modes {
        let domains = falling(description, mode);
        let each = domains.iter().map(std::slice::from_ref);
        let all = (domains.len() > 1).then_some(domains.as_slice());
        for fallen in each.chain(all) {
            let to = fell(description, mode, fallen);
            let called = format!("{name}, {} fallen back", fallen.join(" and "));
            extended.add(called.clone(), name, fallen, to.clone());
            if let [domain] = fallen
                && let Some(kept) = keeping(&extended.description, (name, &called), domain)?
            {
                extended.add(format!("{called} on what it has"), name, fallen, kept);
            }
        }
    }
    Ok(extended)
}

impl WithFallen {
    fn add(&mut self, name: String, mode: &str, domains: &[&str], content: Mode) {
        self.description.modes.insert(name.clone(), content);
        self.added.push(FallenMode {
            name,
            mode: mode.to_owned(),
            domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        });
    }
}

/// The domains that have a fallback which is not what a mode puts them into.
fn falling<'a>(description: &'a Description, mode: &Mode) -> Vec<&'a str> {
    let domains = description.domains.iter().filter(|(name, domain)| {
        let there = domain.fallback_mode().map(|(name, _)| name);
        let is_in = mode.domains.get(*name);
        there.is_some() && is_in != there
    });
    domains.map(|(name, _)| name.as_str()).collect()
}

/// A mode with these domains fallen back.
fn fell(description: &Description, mode: &Mode, fallen: &[&str]) -> Mode {
    let mut to = mode.clone();
    to.triggers.clear();
    for name in fallen {
        let domain = description.domains.get(*name);
        let agent = domain.and_then(|domain| domain.agent.as_ref());
        let Some((domain, local)) = domain.zip(agent.and_then(|agent| agent.fallback.clone()))
        else {
            continue;
        };
        // The tasks that the mode lists are not those of the fallback.
        if let Some(tasks) = &mut to.tasks
            && domain
                .modes
                .get(&local)
                .is_some_and(|local| local.tasks.is_none())
        {
            let own = domain.tasks.keys().map(|task| format!("{name}.{task}"));
            let services = description.services.iter();
            let served = services.filter(|(_, service)| service.domain == **name);
            let served = served.flat_map(|(service, content)| {
                content
                    .tasks
                    .keys()
                    .map(move |task| format!("{service}.{task}"))
            });
            tasks.extend(own.chain(served));
            tasks.sort();
            tasks.dedup();
        }
        to.reservations.remove(*name);
        to.domains.insert((*name).to_owned(), local);
    }
    to
}

/// The same where the domain keeps the reservation of the mode, if that of the fallback is larger.
fn keeping(
    description: &Description,
    (mode, fallen): (&str, &str),
    domain: &str,
) -> Result<Option<Mode>, ResolutionError> {
    let resolved = |mode: &str| -> Result<Option<ResolvedDomain>, ResolutionError> {
        let deployment = Deployment::of(description, Some(mode), &Variant::as_described());
        Ok(deployment?.reserved.remove(domain))
    };
    let (Some(own), Some(of_fallback)) = (resolved(mode)?, resolved(fallen)?) else {
        return Ok(None);
    };
    if of_fallback.interface.bandwidth() <= own.interface.bandwidth() {
        return Ok(None);
    }
    let content = description.modes.get(fallen);
    let held = description
        .modes
        .get(mode)
        .and_then(|mode| description.reservation_in(mode, domain));
    Ok(content.zip(held).map(|(content, (held, _))| {
        let mut kept = content.clone();
        let mut reservation = held.clone();
        // What was derived from other tasks stays as it was.
        if reservation.derive.take().is_some() {
            reservation.budget = Some(own.interface.budget);
            reservation.period = Some(own.interface.period);
            reservation.margin_points = PercentagePoints::default();
        }
        kept.reservations.insert(domain.to_owned(), reservation);
        kept
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_time::Duration;

    use super::*;

    const CELL: &str = r#"
        schema_version = 1
        name = "cell"
        initial_mode = "run"
        hosts.here.cpus = [0, 1]
        [domains.arm]
        kind = "process"
        pids = [1]
        scheduling = "rate-monotonic"
        reservation = { budget = "4ms", period = "10ms", cpus = [1], priority = 50 }
        agent = { fallback = "hold" }
        tasks.move = { arrivals = { kind = "periodic", period = "50ms" }, execution_time = { kind = "constant", value = "10ms" } }
        tasks.look = { arrivals = { kind = "periodic", period = "40ms" }, execution_time = { kind = "constant", value = "4ms" } }
        [domains.arm.modes.hold]
        reservation = { budget = "2ms", period = "10ms", cpus = [1], priority = 50 }
        tasks = ["look"]
        [domains.camera]
        kind = "process"
        pids = [2]
        reservation = { budget = "1ms", period = "10ms", cpus = [1], priority = 40 }
        agent = { fallback = "watch" }
        modes.watch = {}
        tasks.see = { arrivals = { kind = "periodic", period = "50ms" }, execution_time = { kind = "constant", value = "1ms" } }
        [modes.run]
        triggers = [{ kind = "schedule", every = "60s" }]
        [modes.rest]
        tasks = ["arm.look"]
        reservations.arm = { budget = "1ms", period = "10ms", cpus = [1], priority = 50 }
        [modes.still]
        domains = { arm = "hold", camera = "watch" }
    "#;

    fn cell() -> WithFallen {
        let cell = tailbound_model::parse(CELL, "cell.toml").unwrap();
        with_fallen(&cell).unwrap()
    }

    #[test]
    fn each_domain_falls_back_in_each_mode_and_all_together() {
        let fallen = cell();
        let names: Vec<&str> = fallen.added.iter().map(|one| one.name.as_str()).collect();
        // In `still` both are in their fallbacks anyway.
        assert_eq!(
            names,
            [
                "rest, arm fallen back",
                "rest, arm fallen back on what it has",
                "rest, camera fallen back",
                "rest, arm and camera fallen back",
                "run, arm fallen back",
                "run, camera fallen back",
                "run, arm and camera fallen back",
            ]
        );
        assert_eq!(fallen.description.modes.len(), 3 + names.len());
        assert_eq!(fallen.mode_of("rest, arm fallen back"), "rest");
        assert_eq!(fallen.mode_of("run"), "run");
        assert_eq!(fallen.fallen("run"), None);
        let both = fallen.fallen("run, arm and camera fallen back").unwrap();
        assert_eq!(both.domains, ["arm", "camera"]);
    }

    #[test]
    fn it_has_the_reservation_and_the_tasks_of_the_fallback_and_the_others_have_theirs() {
        let fallen = cell();
        let of = |mode: &str| {
            let deployment =
                Deployment::of(&fallen.description, Some(mode), &Variant::as_described());
            let deployment = deployment.unwrap();
            let all = &deployment.reserved;
            let tasks = deployment.description.domains.iter();
            let tasks = tasks.flat_map(|(_, domain)| domain.tasks.keys().cloned());
            (all["arm"].interface.budget, tasks.collect::<Vec<_>>())
        };
        let ms = Duration::from_millis;
        assert_eq!(
            of("run"),
            (ms(4), vec!["look".into(), "move".into(), "see".into()])
        );
        assert_eq!(
            of("run, arm fallen back"),
            (ms(2), vec!["look".into(), "see".into()])
        );
        // The mode lists no task of the camera, and its fallback runs all.
        assert_eq!(of("rest"), (ms(1), vec!["look".to_owned()]));
        assert_eq!(
            of("rest, camera fallen back"),
            (ms(1), vec!["look".into(), "see".into()])
        );
        assert_eq!(
            of("rest, arm fallen back"),
            (ms(2), vec!["look".to_owned()])
        );
        assert_eq!(
            of("rest, arm fallen back on what it has"),
            (ms(1), vec!["look".to_owned()])
        );
        assert!(
            fallen.description.modes["run, arm fallen back"]
                .triggers
                .is_empty()
        );
    }

    #[test]
    fn what_it_has_is_what_was_derived_from_the_tasks_of_the_mode() {
        let text = CELL.replace(
            "reservations.arm = { budget = \"1ms\", period = \"10ms\",",
            "reservations.arm = { derive = \"virtualization-agnostic\",",
        );
        // 4 ms in 40 ms, which is less than the fallback's 2 ms in 10 ms.
        let text = text.replace("tasks = [\"look\"]", "tasks = [\"look\", \"move\"]");
        let cell = tailbound_model::parse(&text, "cell.toml").unwrap();
        let fallen = with_fallen(&cell).unwrap();
        let kept = Some("rest, arm fallen back on what it has");
        let deployment = Deployment::of(&fallen.description, kept, &Variant::as_described());
        let arm = &deployment.unwrap().reserved["arm"].interface;
        assert_eq!(
            (arm.budget, arm.period),
            (Duration::from_millis(4), Duration::from_millis(40))
        );
    }
}
