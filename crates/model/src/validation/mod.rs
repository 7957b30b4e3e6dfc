//! Whether a description of the right shape makes sense.
//!
//! Each rule looks at one thing, says where it is broken, and goes on; none depends on another
//! having held.

mod agent_tasks;
mod agents;
mod aperiodic;
mod bandwidth;
mod domains;
mod experiment;
mod health;
mod hosts;
mod interference;
mod interrupts;
mod isolation;
mod local_modes;
mod locks;
mod machines;
mod mode_constants;
mod modes;
mod nesting;
mod own_tasks;
mod partitions;
mod reservations;
mod services;
mod share;
mod tasks;
mod triggers;
mod users;
mod web;
mod workload;

use tailbound_time::Duration;

use crate::description::{Description, Domain, Reservation, Task};
use crate::in_mode::ReservedBy;
use crate::interface::CpuSet;
use crate::parser::{KeyPath, Tree, nearest};
use crate::problem::Severity;
use crate::section::SectionKind;

/// Something in a description that makes no sense.
#[derive(Clone, Debug)]
pub(crate) struct PlacedProblem {
    /// How much it matters.
    pub severity: Severity,
    /// Where.
    pub place: KeyPath,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub remedy: String,
}

/// All that makes no sense in `description`, which was read from `tree`, and in its sections.
pub(crate) fn findings<'a>(
    description: &Description,
    tree: &Tree,
    sections: impl Iterator<Item = &'a SectionKind>,
) -> Vec<PlacedProblem> {
    let mut check = Check {
        description,
        tree,
        findings: Vec::new(),
    };
    hosts::hosts(&mut check);
    domains::domains(&mut check);
    nesting::nesting(&mut check);
    own_tasks::own_tasks(&mut check);
    aperiodic::aperiodic(&mut check);
    reservations::reservations(&mut check);
    services::services(&mut check);
    modes::modes(&mut check);
    local_modes::local_modes(&mut check);
    agents::agents(&mut check);
    machines::machines(&mut check);
    triggers::triggers(&mut check);
    mode_constants::check(&mut check);
    bandwidth::bandwidth(&mut check);
    experiment::experiment(&mut check);
    for section in sections {
        (section.check)(&mut check);
    }
    check.findings
}

fn reservation_of_local_mode(domain: &str, mode: &str) -> KeyPath {
    let place = KeyPath::root().key("domains").key(domain).key("modes");
    place.key(mode).key("reservation")
}

/// Those of the keys that are given.
fn given<'a>(keys: &[(&'a str, bool)]) -> Vec<&'a str> {
    let given = keys.iter().filter(|(_, is_given)| *is_given);
    given.map(|(key, _)| *key).collect()
}

/// `Check` is a description under check: what it says, and the problems with it.
pub struct Check<'a> {
    description: &'a Description,
    /// The document; it also has the names of what was cut out for its shape.
    tree: &'a Tree,
    findings: Vec<PlacedProblem>,
}

impl<'a> Check<'a> {
    /// The description. A part of a wrong shape is not in it; no problem with that part is listed twice.
    pub fn description(&self) -> &'a Description {
        self.description
    }

    /// The names in the table `table` at the top of the file, those of a wrong shape included.
    pub fn names(&self, table: &str) -> Vec<&'a str> {
        self.tree.names(table)
    }

    /// The names in the table at `place`, those of a wrong shape included.
    pub fn names_at(&self, place: &KeyPath) -> Vec<&'a str> {
        self.tree.names_at(place)
    }

    /// Adds an error.
    pub fn error(
        &mut self,
        place: &KeyPath,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.find(Severity::Error, place, message.into(), remedy.into());
    }

    /// Adds a warning.
    pub fn warning(
        &mut self,
        place: &KeyPath,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.find(Severity::Warning, place, message.into(), remedy.into());
    }

    fn find(&mut self, severity: Severity, place: &KeyPath, message: String, remedy: String) {
        let place = place.clone();
        self.findings.push(PlacedProblem {
            severity,
            place,
            message,
            remedy,
        });
    }

    /// Complains unless `name` is the name of something in `known`.
    pub fn reference(&mut self, place: &KeyPath, what: &str, name: &str, names: &[&str]) {
        if names.contains(&name) {
            return;
        }
        let remedy = match (nearest(name, names), names) {
            (Some(meant), _) => format!("did you mean `{meant}`?"),
            (None, []) => format!("there is no {what} at all; describe one"),
            (None, names) => format!("name one of: {}", names.join(", ")),
        };
        self.error(place, format!("there is no {what} `{name}`"), remedy);
    }

    /// Complains unless the description has a value at a key with dots, or could have one.
    pub fn varied_key(&mut self, place: &KeyPath, key: &str) {
        if let Err(missing) = self.tree.find_varied_key(key) {
            let message = format!("the description has no {}", missing.key);
            self.error(place, message, missing.remedy);
        }
    }

    /// Complains of each element of the array at `place` that stands there already.
    fn no_repetition<T: PartialEq>(
        &mut self,
        place: &KeyPath,
        elements: &[T],
        message: impl Fn(&T) -> String,
        remedy: &str,
    ) {
        for (index, element) in elements.iter().enumerate() {
            if elements[..index].contains(element) {
                self.error(&place.index(index), message(element), remedy);
            }
        }
    }

    /// Complains of each key of the table at `place` that is given.
    fn none_of(
        &mut self,
        place: &KeyPath,
        keys: &[(&str, bool)],
        message: impl Fn(&str) -> String,
        remedy: &str,
    ) {
        for key in given(keys) {
            self.error(&place.key(key), message(key), remedy);
        }
    }

    /// Complains unless `length` is above zero.
    pub fn above_zero(&mut self, place: &KeyPath, what: &str, length: Duration) {
        if length.is_zero() {
            self.error(
                place,
                format!("{what} is zero"),
                format!("{what} is above zero, such as \"10ms\""),
            );
        }
    }

    /// The CPUs of the host of `domain`; `None` if the host is not known.
    fn host_cpus(&self, domain: &Domain) -> Option<&'a CpuSet> {
        let host = self.description.host_of(domain);
        host.map(|(_, host)| &host.cpus)
    }

    /// Every domain with its place and name.
    fn domains(&self) -> impl Iterator<Item = (KeyPath, &'a str, &'a Domain)> + use<'a> {
        let domains = KeyPath::root().key("domains");
        let each = self.description.domains.iter();
        each.map(move |(name, domain)| (domains.key(name), name.as_str(), domain))
    }

    /// Every reservation with its place and domain, those of the modes included.
    fn reservations(&self) -> Vec<(KeyPath, &'a str, &'a Reservation)> {
        let description = self.description;
        let base = description.domains.iter().filter_map(|(name, domain)| {
            let place = KeyPath::root().key("domains").key(name).key("reservation");
            Some((place, name.as_str(), domain.reservation.as_ref()?))
        });
        let local = description.domains.iter().flat_map(|(name, domain)| {
            let each = domain.modes.iter();
            each.filter_map(move |(mode, content)| {
                let place = reservation_of_local_mode(name, mode);
                Some((place, name.as_str(), content.reservation.as_ref()?))
            })
        });
        let of_modes = description.modes.iter().flat_map(|(mode, content)| {
            let place = KeyPath::root().key("modes").key(mode).key("reservations");
            let each = content.reservations.iter();
            each.map(move |(name, reservation)| (place.key(name), name.as_str(), reservation))
        });
        base.chain(local).chain(of_modes).collect()
    }

    /// The reservation that a domain has in a mode, with its place.
    fn reservation_in(&self, mode: &'a str, domain: &str) -> Option<(KeyPath, &'a Reservation)> {
        let content = self.description.modes.get(mode)?;
        let (reservation, by) = self.description.reservation_in(content, domain)?;
        let place = match by {
            ReservedBy::Domain => KeyPath::root()
                .key("domains")
                .key(domain)
                .key("reservation"),
            ReservedBy::LocalMode(local) => reservation_of_local_mode(domain, local),
            ReservedBy::Mode => {
                let place = KeyPath::root().key("modes").key(mode);
                place.key("reservations").key(domain)
            }
        };
        Some((place, reservation))
    }

    /// Whether its own tasks or the domains inside of it tell what runs in a domain.
    fn is_described_within(&self, name: &str, domain: &Domain) -> bool {
        let mut domains = self.description.domains.values();
        let place = KeyPath::root().key("domains").key(name).key("tasks");
        domain.cpu_bound
            || !self.tree.names_at(&place).is_empty()
            || domains.any(|inner| inner.inside.as_deref() == Some(name))
    }

    /// The tasks of `domain`, its services' and its own, with their places.
    fn tasks_in(&self, domain: &str) -> Vec<(KeyPath, &'a Task)> {
        let services = self.description.services.iter();
        let inside = services.filter(|(_, service)| service.domain == domain);
        let served = inside.flat_map(|(name, service)| {
            let place = KeyPath::root().key("services").key(name).key("tasks");
            let tasks = service.tasks.iter();
            tasks.map(move |(task, content)| (place.key(task), content))
        });
        let own = self.description.domains.get(domain).into_iter();
        let own = own.flat_map(|content| {
            let place = KeyPath::root().key("domains").key(domain).key("tasks");
            let tasks = content.tasks.iter();
            tasks.map(move |(task, content)| (place.key(task), content))
        });
        served.chain(own).collect()
    }

    /// Whether nothing of the outermost table `table` was cut out for its shape.
    fn is_whole(&self, table: &str, kept: usize) -> bool {
        self.tree.names(table).len() == kept
    }
}
