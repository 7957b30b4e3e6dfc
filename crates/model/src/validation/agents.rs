//! What switches the tasks of domains at mode changes.

use super::Check;
use super::agent_tasks::agent_tasks;
use crate::description::Domain;
use crate::mode_changes::{AgentDescription, AgentPlace, ChangePolicy, ModeChanges};
use crate::parser::KeyPath;

/// Checks the agents of all domains, and that none is missing.
pub(super) fn agents(check: &mut Check<'_>) {
    for (place, name, domain) in check.domains() {
        match &domain.agent {
            Some(agent) => {
                one_agent(check, &place.key("agent"), domain, agent);
                agent_tasks(check, name, domain, agent);
            }
            None => missing(check, &place.key("tasks"), name, domain),
        }
    }
}

fn one_agent(check: &mut Check<'_>, place: &KeyPath, domain: &Domain, agent: &AgentDescription) {
    let modes = check.names("modes");
    if modes.is_empty() {
        check.error(
            place,
            "there are no modes that an agent would change between",
            "leave it out, or describe modes",
        );
        return;
    }
    switching(check, place, agent);
    let may_request = place.key("may_request");
    for (index, mode) in agent.may_request.iter().enumerate() {
        check.reference(&may_request.index(index), "mode", mode, &modes);
    }
    let message = |mode: &String| format!("`{mode}` is there twice");
    check.no_repetition(
        &may_request,
        &agent.may_request,
        message,
        "name each mode once",
    );
    if let Some(fallback) = &agent.fallback {
        // Of what was cut out for its shape nothing is known.
        let modes: Vec<&str> = domain.modes.keys().map(String::as_str).collect();
        check.reference(&place.key("fallback"), "local mode", fallback, &modes);
    }
}

fn switching(check: &mut Check<'_>, place: &KeyPath, agent: &AgentDescription) {
    let here = place.key("execution_time");
    check.above_zero(&here, "the time of a switch", agent.execution_time);
    let changes = check.description.section::<ModeChanges>();
    let takes = agent.execution_time;
    if takes > changes.timeout && !changes.timeout.is_zero() {
        check.error(
            &here,
            format!(
                "a switch takes {takes}, and the agent has to answer within {}",
                changes.timeout
            ),
            "lengthen `timeout` in [mode_changes]",
        );
        return;
    }
    let boosted = match changes.policy {
        ChangePolicy::Boost => true,
        ChangePolicy::Prompt => agent.place == AgentPlace::Inside,
        ChangePolicy::Sequential | ChangePolicy::Batch | ChangePolicy::Greedy => false,
    };
    if boosted && takes > changes.boost && !changes.boost.is_zero() {
        check.warning(
            &here,
            format!(
                "a switch takes {takes}, and its boost ends after {}",
                changes.boost
            ),
            "lengthen `boost` in [mode_changes], or the rest waits for budget",
        );
    }
}

/// Warns where modes release other tasks of a domain's own and nothing starts and stops them.
///
/// Tasks of services come from clients, who send something else in another mode.
fn missing(check: &mut Check<'_>, place: &KeyPath, name: &str, domain: &Domain) {
    let description = check.description;
    let mut modes = description.modes.values();
    let Some(first) = modes.next() else { return };
    let differs = |task: &String| {
        let of_first = description.releases_own(first, name, task);
        let mut others = description.modes.values().skip(1);
        others.any(|mode| description.releases_own(mode, name, task) != of_first)
    };
    let switched: Vec<String> = domain
        .tasks
        .keys()
        .filter(|task| differs(task))
        .map(|task| format!("`{task}`"))
        .collect();
    let only_simulated = domain.aperiodic.is_some() || domain.inside.is_some();
    if !switched.is_empty() && !only_simulated {
        check.warning(
            place,
            format!(
                "modes start and stop {}, and nothing in the domain does so",
                switched.join(", ")
            ),
            format!("describe the agent that does: [domains.{name}.agent]"),
        );
    }
}
