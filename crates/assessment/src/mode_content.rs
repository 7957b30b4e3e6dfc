//! What holds in each mode of a description.

use std::collections::BTreeMap;

use tailbound_model::{
    BudgetScope, Description, DomainKind, Placement, Reservation, Scheduling, Service,
};

use tailbound_time::Duration;

use crate::AssessmentError;
use tailbound_analysis::resolution::{ResolvedDomain, interface_of, own_tasks};

/// The reservations and the released tasks of one mode.
#[derive(Clone, Debug, PartialEq)]
pub struct ModeContent<'a> {
    /// The mode; `None` where a description has no modes.
    pub mode: Option<&'a str>,
    /// The reservations by domain: the mode's own, and the described ones of the other domains.
    pub reservations: BTreeMap<&'a str, &'a Reservation>,
    /// The kind of each domain, and the number of its virtual CPUs in the mode.
    vcpus: BTreeMap<&'a str, (DomainKind, usize)>,
    /// The major frame of each domain's host, where it has one.
    frames: BTreeMap<&'a str, Duration>,
    /// The released tasks: those of services under the service's name, and those that a domain has of its
    /// own under the domain's name, which no service has. A service or domain without any is left out.
    pub services: BTreeMap<&'a str, Service>,
}

/// Every mode, in the order of their names; a description without modes counts as one.
pub fn modes(description: &Description) -> Vec<ModeContent<'_>> {
    let described: BTreeMap<&str, &Reservation> = description
        .domains
        .iter()
        .filter_map(|(name, domain)| Some((name.as_str(), domain.reservation.as_ref()?)))
        .collect();
    if description.modes.is_empty() {
        return vec![ModeContent {
            mode: None,
            vcpus: vcpus(description, &described),
            frames: frames(description),
            reservations: described,
            services: released(description, None),
        }];
    }
    let each = description.modes.iter().map(|(name, mode)| {
        let mut reservations = described.clone();
        let own = mode.reservations.iter();
        reservations.extend(own.map(|(domain, reservation)| (domain.as_str(), reservation)));
        ModeContent {
            mode: Some(name.as_str()),
            vcpus: vcpus(description, &reservations),
            frames: frames(description),
            reservations,
            services: released(description, mode.tasks.as_deref()),
        }
    });
    each.collect()
}

fn vcpus<'a>(
    description: &'a Description,
    reservations: &BTreeMap<&str, &Reservation>,
) -> BTreeMap<&'a str, (DomainKind, usize)> {
    let domains = description.domains.iter();
    let of_each = domains.map(|(name, domain)| {
        let reservation = reservations.get(name.as_str()).copied();
        let vcpus = description.vcpus_under(domain, reservation);
        (name.as_str(), (domain.kind, vcpus))
    });
    of_each.collect()
}

fn frames(description: &Description) -> BTreeMap<&str, Duration> {
    let domains = description.domains.iter();
    let framed = domains.filter_map(|(name, domain)| {
        let (_, host) = description.host_of(domain)?;
        Some((name.as_str(), host.major_frame?))
    });
    framed.collect()
}

/// The services, and the domains' own tasks as services, with those tasks that are in `tasks`; all tasks
/// without it.
fn released<'a>(
    description: &'a Description,
    tasks: Option<&[String]>,
) -> BTreeMap<&'a str, Service> {
    let services = description.services.iter();
    let services = services.map(|(name, service)| (name.as_str(), service.clone()));
    let domains = description.domains.iter();
    let own = domains.filter_map(|(name, domain)| Some((name.as_str(), own_tasks(name, domain)?)));
    let released = services.chain(own).map(|(name, mut service)| {
        if let Some(tasks) = tasks {
            let named = |task: &str| format!("{name}.{task}");
            service.tasks.retain(|task, _| tasks.contains(&named(task)));
        }
        (name, service)
    });
    released
        .filter(|(_, service)| !service.tasks.is_empty())
        .collect()
}

impl ModeContent<'_> {
    fn vcpus_of(&self, domain: &str) -> usize {
        self.vcpus.get(domain).map_or(1, |(_, vcpus)| *vcpus)
    }

    /// Whether several CPUs share a budget that the domain is guaranteed.
    pub fn shares_guarantee(&self, domain: &str) -> bool {
        self.reservations.get(domain).is_some_and(|reservation| {
            reservation.budget_scope == BudgetScope::AllCpus
                && reservation.cpus.len() > 1
                && reservation.backend.guarantees_budget()
        })
    }

    /// Why no analysis here holds for the tasks that a domain has of its own, if so.
    pub fn unanalysed(&self, description: &Description, name: &str) -> Option<String> {
        let vcpus = self.vcpus_of(name);
        let domain = description.domains.get(name)?;
        let simulated = |what: &str| Some(format!("{what}; `tailbound simulate` answers for it"));
        if domain.tasks.is_empty() {
            return None;
        }
        if domain.tasks.values().any(|task| task.boost.is_some()) {
            return simulated(
                "its tasks boost their virtual CPU (`boost`), which no analysis here covers",
            );
        }
        if domain.tasks.values().any(|task| !task.sections.is_empty()) {
            return simulated("its tasks share locks (`sections`), which no analysis here covers");
        }
        if !domain.preemptive && domain.scheduling == Scheduling::EarliestDeadlineFirst {
            return simulated(
                "its jobs are not interrupted (`preemptive = false`), and the analysis of earliest deadline first here is for \
                 preemptive scheduling",
            );
        }
        if self.shares_guarantee(name) {
            let in_one_queue = domain.scheduling == Scheduling::EarliestDeadlineFirst
                && domain.placement == Placement::Global;
            return (!in_one_queue).then(|| {
                "several CPUs share its budget, and the analysis for that has all tasks in one queue, the earliest \
                 deadline first; write scheduling = \"earliest-deadline-first\" and placement = \"global\" at the domain"
                    .to_owned()
            });
        }
        if vcpus > 1 {
            return simulated(&format!(
                "it has {vcpus} virtual CPUs, and the analysis here is for one; describe a domain for each"
            ));
        }
        None
    }

    /// The services of a domain, and its own tasks as one.
    pub fn services_in(&self, domain: &str) -> Vec<(&str, &Service)> {
        let services = self.services.iter();
        services
            .filter(|(_, service)| service.domain == domain)
            .map(|(name, service)| (*name, service))
            .collect()
    }

    /// What the domain gets, derived from the tasks of this mode where it is to be; `None` for a
    /// domain without a reservation.
    ///
    /// # Errors
    /// A derivation that fails, or a margin that leaves no valid budget.
    pub fn resolved(&self, domain: &str) -> Result<Option<ResolvedDomain>, AssessmentError> {
        let Some(reservation) = self.reservations.get(domain) else {
            return Ok(None);
        };
        let services: Vec<&Service> = self
            .services_in(domain)
            .into_iter()
            .map(|(_, service)| service)
            .collect();
        let backend = reservation.backend;
        let frame = self.frames.get(domain).copied();
        let interface = interface_of(&services, domain, reservation, backend, (None, frame))?;
        Ok(Some(ResolvedDomain {
            backend,
            interface,
            vcpus: self.vcpus_of(domain),
            is_process_group: self
                .vcpus
                .get(domain)
                .is_some_and(|(kind, _)| kind.is_process_group()),
            server_kind: reservation.server,
            options: reservation.options,
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TWO_MODES: &str = r#"
        schema_version = 1
        name = "two-modes"
        initial_mode = "full"

        [hosts.here]
        cpus = [0]

        [domains.service]
        kind = "process"
        builtin = "synthetic-service"
        reservation = { derive = "virtualization-agnostic", cpus = [0] }

        [services.work]
        domain = "service"
        protocol = "synthetic"
        endpoint = "unix:/tmp/tailbound-two-modes.sock"

        [services.work.tasks.often]
        arrivals = { kind = "periodic", period = "10ms" }
        execution_time = { kind = "constant", value = "2ms" }

        [services.work.tasks.seldom]
        arrivals = { kind = "periodic", period = "100ms" }
        execution_time = { kind = "constant", value = "10ms" }

        [modes.full]

        [modes.low]
        tasks = ["work.seldom"]

        [modes.off]
        tasks = []
        reservations.service = { budget = "1ms", period = "100ms", cpus = [0] }
    "#;

    #[test]
    fn a_derived_reservation_follows_the_tasks_of_the_mode() {
        let loaded = tailbound_model::parse(TWO_MODES, "two-modes.toml").unwrap();
        let modes = modes(&loaded);
        let budgets: Vec<(Option<&str>, usize, u64, u64)> = modes
            .iter()
            .map(|mode| {
                let interface = mode.resolved("service").unwrap().unwrap().interface;
                let ms = |time: tailbound_time::Duration| time.as_nanos() / 1_000_000;
                let services = mode.services.len();
                (
                    mode.mode,
                    services,
                    ms(interface.budget),
                    ms(interface.period),
                )
            })
            .collect();
        assert_eq!(
            budgets,
            [
                (Some("full"), 1, 30, 100),
                (Some("low"), 1, 10, 100),
                (Some("off"), 0, 1, 100),
            ]
        );
    }
}
