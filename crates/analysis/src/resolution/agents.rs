//! What mode changes cost a host, as reservations.

use std::collections::BTreeMap;

use tailbound_model::{
    BackendKind, Description, Domain, DomainKind, ModeChanges, Precedence, Priority, Reservation,
};

/// The longest name of a reservation that back ends take.
const LONGEST_NAME: usize = 64;

/// The description with its modes written out, and with a reservation for each agent that runs before
/// all domains: the thesis's hypothetical virtual CPU (section 2.4.2), on each CPU of the agent's domain,
/// with `least_gap` for a period. For whoever judges whether a host can hold its reservations.
///
/// The names of these reservations have a dot in them, which those of domains have not.
pub fn with_agents(description: &Description) -> Description {
    let ModeChanges { least_gap, .. } = description.section();
    let mut extended = description.with_inline_modes();
    let agents = description.domains.iter().filter_map(|(name, domain)| {
        let reservation = in_any_mode(description, name)?;
        let budget = description.agent_time_before_all(domain, reservation.backend);
        // Beside a quota it comes before others all the same.
        let backend = match reservation.backend.precedence() {
            Precedence::FairShare => BackendKind::default(),
            _ => reservation.backend,
        };
        let reserved = Reservation {
            budget: Some(budget),
            period: Some(least_gap),
            priority: Priority::HIGHEST,
            ..Reservation::on(backend, reservation.cpus.clone())
        };
        let agent = Domain {
            host: domain.host.clone(),
            reservation: Some(reserved),
            ..Domain::of(DomainKind::Process)
        };
        (!budget.is_zero()).then(|| (name_of_agent(description, name), agent))
    });
    let agents: BTreeMap<String, Domain> = agents.collect();
    extended.domains.extend(agents);
    extended
}

/// A name that no domain has, no longer than those of domains may be.
fn name_of_agent(description: &Description, domain: &str) -> String {
    let whole = format!("{domain}.agent");
    if whole.len() <= LONGEST_NAME {
        return whole;
    }
    let number = description.domains.keys().position(|name| name == domain);
    format!("{domain:.40}.agent{}", number.unwrap_or_default())
}

/// A reservation that the domain has in some mode: CPUs and back end are the same in all.
fn in_any_mode<'a>(description: &'a Description, name: &str) -> Option<&'a Reservation> {
    let mut modes = description.modes.values();
    let reservation = modes.find_map(|mode| description.reservation_in(mode, name));
    reservation.map(|(reservation, _)| reservation)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tailbound_time::Duration;

    use super::*;

    #[test]
    fn agents_that_come_before_all_are_reservations() {
        let text = include_str!("../../../model/tests/good/local-modes.toml");
        let mut cell = tailbound_model::parse(text, "local-modes.toml").unwrap();
        let reserved = |cell: &Description| {
            let extended = with_agents(cell);
            let agents = extended.domains.into_iter();
            let agents = agents.filter(|(name, _)| name.contains('.'));
            let budgets =
                agents.map(|(name, agent)| (name, agent.reservation.unwrap().budget.unwrap()));
            budgets.collect::<Vec<_>>()
        };
        let of_arm = "arm.agent".to_owned();
        let of_box = "box.agent".to_owned();
        // The one inside of its reservation waits for budget under this policy.
        assert_eq!(
            reserved(&cell),
            [(of_arm.clone(), Duration::from_micros(80))]
        );
        let policy = tailbound_model::ChangePolicy::Prompt;
        let changes = ModeChanges {
            policy,
            ..cell.section()
        };
        cell.sections.set(&changes).unwrap();
        let both = [
            (of_arm, Duration::from_micros(80)),
            (of_box, Duration::from_millis(1)),
        ];
        assert_eq!(reserved(&cell), both);
    }

    #[test]
    fn agents_of_domains_with_long_names_have_names_of_their_own() {
        let text = include_str!("../../../model/tests/good/local-modes.toml");
        let mut cell = tailbound_model::parse(text, "local-modes.toml").unwrap();
        let arm = cell.domains["arm"].clone();
        let long = "a".repeat(63);
        for end in ["1", "2"] {
            cell.domains.insert(format!("{long}{end}"), arm.clone());
        }
        let domains = with_agents(&cell).domains;
        let agents: Vec<&String> = domains.keys().filter(|name| name.contains('.')).collect();
        assert_eq!(agents.len(), 3);
        assert!(agents.iter().all(|name| name.len() <= LONGEST_NAME));
    }
}
