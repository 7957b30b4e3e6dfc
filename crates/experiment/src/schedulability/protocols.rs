//! Whether changes between the modes of a description keep all deadlines under the protocol that it asks
//! for, and how long new tasks wait then.

use std::collections::BTreeMap;

use tailbound_analysis::AnalysisError;
use tailbound_analysis::interfaces::SupplyBound;
use tailbound_analysis::resolution::with_agents;
use tailbound_analysis::schedulability::mode_change::{
    ModeChange, ModeTask, NewModeStart, Supplies, tasks_of_mode, transition_protocols,
};
use tailbound_model::{ChangeProtocol, Description, Reservation, Service};
use tailbound_time::Duration;

use super::admission::Held;
use super::{CpuVerdict, Given};
use crate::ExperimentError;
use crate::in_mode::{InMode, modes};

/// What the protocol means for the tasks of one domain in one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolVerdict {
    /// The mode before.
    pub from: String,
    /// The mode after.
    pub to: String,
    /// The domain, whose tasks differ between the two.
    pub domain: String,
    /// What is guaranteed, or why nothing is.
    pub found: Result<InTransit, String>,
}

/// A change in which no deadline is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InTransit {
    /// New tasks start this long after the old ones were stopped; none where that is at the first
    /// instant at which nothing is left to do.
    pub offset: Option<Duration>,
    /// New tasks may be released at most so long after the old ones were stopped.
    pub latency_bound: Duration,
    /// By what it is known.
    pub theorem: &'static str,
}

/// A mode with what its domains get.
struct Judged<'a> {
    mode: InMode<'a>,
    held: Held,
    cpus: Vec<CpuVerdict>,
}

/// Every change of a description in which tasks of a domain change, under its protocol; none where it
/// asks for none.
///
/// # Errors
/// A reservation that cannot be derived.
pub fn protocols(description: &Description) -> Result<Vec<ProtocolVerdict>, ExperimentError> {
    let protocol = description.mode_changes.protocol;
    if protocol == ChangeProtocol::None || description.modes.is_empty() {
        return Ok(Vec::new());
    }
    // Agents take their time as tasks do; local modes are told by the modes of the system.
    let hosted = with_agents(description);
    let mut judged = BTreeMap::new();
    for mode in modes(&hosted) {
        let held = Held::of(&hosted, &mode)?;
        let cpus = held.judge()?;
        let name = mode.mode.unwrap_or_default().to_owned();
        judged.insert(name, Judged { mode, held, cpus });
    }
    let mut verdicts = Vec::new();
    for (from, old) in &judged {
        for (to, new) in judged.iter().filter(|(to, _)| *to != from) {
            for domain in description.domains.keys() {
                let found = match in_transit(domain, old, new, protocol) {
                    Ok(None) => continue,
                    Ok(Some(found)) => Ok(found),
                    Err(why) => Err(why),
                };
                verdicts.push(ProtocolVerdict {
                    from: from.clone(),
                    to: to.clone(),
                    domain: domain.clone(),
                    found,
                });
            }
        }
    }
    Ok(verdicts)
}

/// What is guaranteed to the tasks of a domain; nothing where they are the same in both modes.
fn in_transit(
    domain: &str,
    old: &Judged<'_>,
    new: &Judged<'_>,
    protocol: ChangeProtocol,
) -> Result<Option<InTransit>, String> {
    let old_tasks = tasks(domain, &old.mode)?;
    let new_tasks = tasks(domain, &new.mode)?;
    if old_tasks == new_tasks {
        return Ok(None);
    }
    let reserved = |judged: &Judged<'_>| judged.mode.reservations.get(domain).copied().cloned();
    let (Some(before), Some(after)) = (reserved(old), reserved(new)) else {
        return Err("the domain has no reservation, so nothing is known of what it gets".into());
    };
    let given = |judged: &Judged<'_>| judged.held.given_to(domain, &judged.cpus);
    let (old_given, new_given) = (given(old)?, given(new)?);
    comparable(
        domain,
        (&before, &after),
        (&old_given, &new_given),
        (old, new),
    )?;
    let told = |error: AnalysisError| error.to_string();
    let old_supply = old_given.supply().map_err(told)?;
    let new_supply = new_given.supply().map_err(told)?;
    let found = changes(
        (&old_tasks, &new_tasks),
        (&*old_supply, &*new_supply),
        old_given == new_given,
    );
    let found = found.map_err(told)?;
    let place = match protocol {
        ChangeProtocol::None => return Ok(None),
        ChangeProtocol::IdleTime => 0,
        ChangeProtocol::MaximumPeriodOffset => 1,
        ChangeProtocol::MinimumSingleOffset => 3,
    };
    let Some(change) = found.into_iter().nth(place) else {
        return Ok(None);
    };
    let transition = change.transition.map_err(|why| why.to_string())?;
    Ok(Some(InTransit {
        offset: match transition.start {
            NewModeStart::AtFirstIdleInstant => None,
            NewModeStart::NewTasksAfter(offset) | NewModeStart::AllTasksAfter(offset) => {
                Some(offset)
            }
        },
        latency_bound: transition.latency_bound,
        theorem: change.theorem,
    }))
}

fn changes(
    tasks: (&[ModeTask], &[ModeTask]),
    supplies: (&dyn SupplyBound, &dyn SupplyBound),
    same: bool,
) -> Result<Vec<ModeChange>, AnalysisError> {
    let (old, new) = supplies;
    let supplies = match same {
        true => Supplies::Same(old),
        false => Supplies::Changing { old, new },
    };
    transition_protocols(tasks.0, tasks.1, supplies)
}

/// Refuses what the supply bounds of the two modes say nothing about: a domain that grows has its larger
/// reservation before its tasks change, and one that shrinks keeps it until they have. With one period and
/// one grid it has at least the smaller budget in every period all the while; with two periods it may not.
fn comparable(
    domain: &str,
    reservations: (&Reservation, &Reservation),
    given: (&Given, &Given),
    modes: (&Judged<'_>, &Judged<'_>),
) -> Result<(), String> {
    let (before, after) = reservations;
    if before.period != after.period || before.priority != after.priority {
        return Err(
            "its reservation changes its period or priority, and no supply bound holds across that; \
             keep both in all modes"
                .into(),
        );
    }
    let is_held_up = !given.0.jitter.is_zero() || !given.1.jitter.is_zero();
    let others = |judged: &Judged<'_>| -> BTreeMap<String, Reservation> {
        let all = judged.mode.reservations.iter();
        // Those below it never do.
        let may_hold_up = |one: &Reservation| one.priority >= before.priority;
        let others = all.filter(|(name, one)| **name != domain && may_hold_up(one));
        others
            .map(|(name, one)| ((*name).to_owned(), (*one).clone()))
            .collect()
    };
    if is_held_up && others(modes.0) != others(modes.1) {
        return Err(
            "domains that hold it up may change in the same transition, and what they take together \
             meanwhile is not bounded; give it the highest priority on its CPU"
                .into(),
        );
    }
    Ok(())
}

/// The tasks of a domain in a mode, as one scheduler ranks them.
fn tasks(domain: &str, mode: &InMode<'_>) -> Result<Vec<ModeTask>, String> {
    let mut released: Vec<(Option<&str>, &Service)> = mode
        .services_in(domain)
        .into_iter()
        .map(|(name, service)| (Some(name), service))
        .collect();
    released.extend(mode.own.get(domain).map(|own| (None, own)));
    match released.as_slice() {
        [] => Ok(Vec::new()),
        [(_, one)] => tasks_of_mode(&one.tasks, one.scheduling).map_err(|error| error.to_string()),
        _ => Err(
            "several services share its reservation, and nothing says how they rank; make them one"
                .into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn cell(protocol: &str, rest_period: &str) -> Description {
        let text = format!(
            r#"
        schema_version = 1
        name = "cell"
        initial_mode = "run"
        hosts.cell.cpus = [0, 1]
        mode_changes = {{ protocol = "{protocol}" }}
        [domains.arm]
        kind = "process"
        pids = [1]
        scheduling = "rate-monotonic"
        reservation = {{ budget = "6ms", period = "10ms", cpus = [1], priority = 50 }}
        agent = {{ }}
        tasks.move = {{ arrivals = {{ kind = "periodic", period = "50ms" }}, execution_time = {{ kind = "constant", value = "10ms" }} }}
        tasks.look = {{ arrivals = {{ kind = "periodic", period = "40ms" }}, execution_time = {{ kind = "constant", value = "4ms" }} }}
        [domains.arm.modes.rest]
        reservation = {{ budget = "4ms", period = "{rest_period}", cpus = [1], priority = 50 }}
        tasks = ["look"]
        [modes.run]
        tasks = ["arm.move"]
        [modes.rest]
        domains = {{ arm = "rest" }}
    "#
        );
        tailbound_model::parse(&text, "cell.toml").unwrap()
    }

    #[test]
    fn each_protocol_has_its_wait() {
        assert_eq!(protocols(&cell("none", "10ms")).unwrap(), []);
        let ms = Duration::from_millis;
        let of = |protocol: &str| {
            let found = protocols(&cell(protocol, "10ms")).unwrap();
            let names: Vec<_> = found
                .iter()
                .map(|one| (one.from.clone(), one.to.clone()))
                .collect();
            let expected =
                [("rest", "run"), ("run", "rest")].map(|(from, to)| (from.into(), to.into()));
            assert_eq!(names, expected);
            found
                .into_iter()
                .map(|one| one.found.unwrap())
                .collect::<Vec<_>>()
        };
        let idle = of("idle-time");
        assert!(idle.iter().all(|one| one.offset.is_none()));
        let longest = of("maximum-period-offset");
        assert_eq!(longest[0].offset, Some(ms(40)));
        assert_eq!(longest[1].offset, Some(ms(50)));
        let least = of("minimum-single-offset");
        for (least, (longest, idle)) in least.iter().zip(longest.iter().zip(&idle)) {
            assert!(least.offset.unwrap() <= longest.offset.unwrap());
            assert!(least.latency_bound <= idle.latency_bound);
            assert!(!least.offset.unwrap().is_zero());
        }
    }

    #[test]
    fn what_no_bound_holds_for_is_refused() {
        for found in protocols(&cell("minimum-single-offset", "8ms")).unwrap() {
            let why = found.found.unwrap_err();
            assert!(why.contains("period or priority"), "{why}");
        }
    }
}
