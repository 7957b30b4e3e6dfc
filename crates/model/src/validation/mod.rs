//! Whether a description of the right shape makes sense.
//!
//! Each rule looks at one thing, says where it is broken, and goes on; none depends on another
//! having held.

mod bandwidth;
mod domains;
mod experiment;
mod modes;
mod reservations;
mod services;
mod share;
mod tasks;
mod workload;

use tailbound_time::Duration;

use crate::description::{Description, Domain, Reservation, Task};
use crate::interface::CpuSet;
use crate::problem::Severity;
use crate::reading::{Place, Tree, nearest};

/// Something in a description that makes no sense.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub remedy: String,
}

/// All that makes no sense in `description`, which was read from `tree`.
pub(crate) fn findings(description: &Description, tree: &Tree) -> Vec<Finding> {
    let mut check = Check {
        description,
        tree,
        findings: Vec::new(),
    };
    domains::hosts(&mut check);
    domains::domains(&mut check);
    reservations::reservations(&mut check);
    services::services(&mut check);
    modes::modes(&mut check);
    bandwidth::bandwidth(&mut check);
    experiment::experiment(&mut check);
    check.findings
}

/// A description under check.
struct Check<'a> {
    description: &'a Description,
    /// The document; it also has the names of what was cut out for its shape.
    tree: &'a Tree,
    findings: Vec<Finding>,
}

impl<'a> Check<'a> {
    fn error(&mut self, place: &Place, message: impl Into<String>, remedy: impl Into<String>) {
        self.find(Severity::Error, place, message.into(), remedy.into());
    }

    fn warning(&mut self, place: &Place, message: impl Into<String>, remedy: impl Into<String>) {
        self.find(Severity::Warning, place, message.into(), remedy.into());
    }

    fn find(&mut self, severity: Severity, place: &Place, message: String, remedy: String) {
        let place = place.clone();
        self.findings.push(Finding {
            severity,
            place,
            message,
            remedy,
        });
    }

    /// Complains unless `name` is the name of something in `known`.
    fn reference(&mut self, place: &Place, what: &str, name: &str, known: &[&str]) {
        if known.contains(&name) {
            return;
        }
        let remedy = match (nearest(name, known), known) {
            (Some(meant), _) => format!("did you mean `{meant}`?"),
            (None, []) => format!("there is no {what} at all; describe one"),
            (None, known) => format!("name one of: {}", known.join(", ")),
        };
        self.error(place, format!("there is no {what} `{name}`"), remedy);
    }

    /// Complains unless `length` is above zero.
    fn above_zero(&mut self, place: &Place, what: &str, length: Duration) {
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
        let hosts = &self.description.hosts;
        let host = match &domain.host {
            Some(name) => hosts.get(name),
            None if hosts.len() == 1 => hosts.values().next(),
            None => None,
        };
        host.map(|host| &host.cpus)
    }

    /// Every reservation with its place and domain, those of the modes included.
    fn reservations(&self) -> Vec<(Place, &'a str, &'a Reservation)> {
        let description = self.description;
        let base = description.domains.iter().filter_map(|(name, domain)| {
            let place = Place::root().key("domains").key(name).key("reservation");
            Some((place, name.as_str(), domain.reservation.as_ref()?))
        });
        let of_modes = description.modes.iter().flat_map(|(mode, content)| {
            let place = Place::root().key("modes").key(mode).key("reservations");
            let each = content.reservations.iter();
            each.map(move |(name, reservation)| (place.key(name), name.as_str(), reservation))
        });
        base.chain(of_modes).collect()
    }

    /// The tasks of the services in `domain`, with their places.
    fn tasks_in(&self, domain: &str) -> Vec<(Place, &'a Task)> {
        let services = self.description.services.iter();
        let inside = services.filter(|(_, service)| service.domain == domain);
        inside
            .flat_map(|(name, service)| {
                let place = Place::root().key("services").key(name).key("tasks");
                service
                    .tasks
                    .iter()
                    .map(move |(task, content)| (place.key(task), content))
            })
            .collect()
    }

    /// Whether nothing of the outermost table `table` was cut out for its shape.
    fn is_whole(&self, table: &str, kept: usize) -> bool {
        self.tree.names(table).len() == kept
    }
}
