//! What holds in one mode of a description.

use std::collections::BTreeMap;

use crate::description::{Description, Domain, Reservation};
use crate::host::{Host, Placement};
use crate::interface::{Cpu, CpuSet};
use crate::mode::{LocalMode, Mode};
use crate::mode_changes::ModeChanges;

/// Whether a list of `owner.task` has this one.
fn names(tasks: &[String], owner: &str, task: &str) -> bool {
    let mut parts = tasks.iter().filter_map(|name| name.split_once('.'));
    parts.any(|parts| parts == (owner, task))
}

/// A policy whose tasks are all gone is for nothing.
fn without_soft_tasks_that_are_gone(domain: &mut Domain) {
    let Some(aperiodic) = &mut domain.aperiodic else {
        return;
    };
    let tasks = &domain.tasks;
    aperiodic.tasks.retain(|soft| tasks.contains_key(soft));
    if aperiodic.tasks.is_empty() {
        domain.aperiodic = None;
    }
}

/// Where a description says which reservation a domain has in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservedBy<'a> {
    /// The domain itself, for all modes that say nothing else.
    Domain,
    /// The domain's local mode of this name.
    LocalMode(&'a str),
    /// The mode itself.
    Mode,
}

impl Description {
    /// The same system as it is in one mode, without modes and what changes them: the mode's
    /// reservations in place of the described ones, and only the tasks that it releases. Promises to
    /// tasks that it does not release, and services without a task, are left out. `None` if there is
    /// no such mode.
    pub fn in_mode(&self, mode: &str) -> Option<Self> {
        let mode = self.modes.get(mode)?;
        let mut described = self.without_modes();
        for (name, domain) in &mut described.domains {
            if let Some((reservation, by)) = self.reservation_in(mode, name)
                && by != ReservedBy::Domain
            {
                domain.cpus.clear();
                domain.reservation = Some(reservation.clone());
            }
            domain
                .tasks
                .retain(|task, _| self.releases_own(mode, name, task));
            without_soft_tasks_that_are_gone(domain);
        }
        described.services.retain(|name, service| {
            let before = service.tasks.len();
            service
                .tasks
                .retain(|task, _| self.releases_served(mode, name, task));
            let tasks = &service.tasks;
            let all = tasks.len() == before;
            let kept = |task: &Option<String>| {
                all || task.as_ref().is_none_or(|task| tasks.contains_key(task))
            };
            service.slos.retain(|slo| kept(&slo.task));
            all || !tasks.is_empty()
        });
        Some(described)
    }

    /// The same system as it is beside its modes, without them and what changes them.
    pub fn without_modes(&self) -> Self {
        let mut described = self.clone();
        described.modes.clear();
        described.initial_mode = None;
        described.sections.remove::<ModeChanges>();
        for domain in described.domains.values_mut() {
            domain.modes.clear();
            domain.agent = None;
        }
        described
    }

    /// The same system with all that its modes say in the modes themselves: their reservations and
    /// tasks hold what the local modes of domains say, which are gone, and so are agents and triggers.
    /// For whoever goes by the modes alone.
    pub fn with_inline_modes(&self) -> Self {
        let mut inline = self.clone();
        inline.sections.remove::<ModeChanges>();
        for domain in inline.domains.values_mut() {
            domain.modes.clear();
            domain.agent = None;
        }
        for (name, mode) in &self.modes {
            let reservations = self.domains.keys().filter_map(|domain| {
                let (reservation, by) = self.reservation_in(mode, domain)?;
                (by != ReservedBy::Domain).then(|| (domain.clone(), reservation.clone()))
            });
            let written = Mode {
                description: mode.description.clone(),
                domains: BTreeMap::new(),
                reservations: reservations.collect(),
                tasks: self.released(mode),
                triggers: Vec::new(),
            };
            inline.modes.insert(name.clone(), written);
        }
        inline
    }

    /// The tasks that a mode releases, as `service.task` and `domain.task`; `None` if nothing says
    /// that it does not release all.
    fn released(&self, mode: &Mode) -> Option<Vec<String>> {
        let mut local = self
            .domains
            .keys()
            .filter_map(|domain| self.local_mode(mode, domain));
        if !local.any(|local| local.tasks.is_some()) {
            return mode.tasks.clone();
        }
        let own = self.domains.iter().flat_map(|(name, domain)| {
            let tasks = domain.tasks.keys();
            let released = tasks.filter(|task| self.releases_own(mode, name, task));
            released.map(move |task| format!("{name}.{task}"))
        });
        let served = self.services.iter().flat_map(|(name, service)| {
            let tasks = service.tasks.keys();
            let released = tasks.filter(|task| self.releases_served(mode, name, task));
            released.map(move |task| format!("{name}.{task}"))
        });
        Some(own.chain(served).collect())
    }

    /// The local mode that a mode puts a domain into.
    pub fn local_mode(&self, mode: &Mode, domain: &str) -> Option<&LocalMode> {
        let name = mode.domains.get(domain)?;
        self.domains.get(domain)?.modes.get(name)
    }

    /// The reservation that a domain has in a mode, and where that is said.
    pub fn reservation_in<'a>(
        &'a self,
        mode: &'a Mode,
        domain: &str,
    ) -> Option<(&'a Reservation, ReservedBy<'a>)> {
        if let Some(reservation) = mode.reservations.get(domain) {
            return Some((reservation, ReservedBy::Mode));
        }
        let local = self.local_mode(mode, domain).zip(mode.domains.get(domain));
        if let Some((local, name)) = local
            && let Some(reservation) = &local.reservation
        {
            return Some((reservation, ReservedBy::LocalMode(name)));
        }
        let reservation = self.domains.get(domain)?.reservation.as_ref()?;
        Some((reservation, ReservedBy::Domain))
    }

    /// Whether a mode releases this task of a domain's own.
    pub fn releases_own(&self, mode: &Mode, domain: &str, task: &str) -> bool {
        let local = self.local_mode(mode, domain);
        match (local.and_then(|local| local.tasks.as_ref()), &mode.tasks) {
            (Some(own), _) => own.iter().any(|name| name == task),
            (None, Some(all)) => names(all, domain, task),
            (None, None) => true,
        }
    }

    /// Whether a mode releases this task of a service.
    pub fn releases_served(&self, mode: &Mode, service: &str, task: &str) -> bool {
        let domain = self.services.get(service).map(|service| &service.domain);
        let local = domain.and_then(|domain| self.local_mode(mode, domain));
        let own = local.and_then(|local| local.tasks.as_ref());
        match own.or(mode.tasks.as_ref()) {
            Some(released) => names(released, service, task),
            None => true,
        }
    }

    /// The host of a domain, with its name; `None` if there is no such host, or several and the
    /// domain names none.
    pub fn host_of(&self, domain: &Domain) -> Option<(&str, &Host)> {
        let host = match &domain.host {
            Some(name) => self.hosts.get_key_value(name),
            None if self.hosts.len() == 1 => self.hosts.iter().next(),
            None => None,
        };
        host.map(|(name, host)| (name.as_str(), host))
    }

    /// The CPUs that the virtual CPUs of a domain are on, where each is pinned to one: those that it
    /// names, or else those of the domain that it is inside of, or else those of its host that are
    /// for domains (all, if none is).
    pub fn cpus_of(&self, domain: &Domain) -> CpuSet {
        self.cpus_under(domain, domain.reservation.as_ref())
    }

    /// The same while another reservation holds for the domain, such as that of a mode.
    fn cpus_under(&self, domain: &Domain, reservation: Option<&Reservation>) -> CpuSet {
        let (mut domain, mut named) = (domain, domain.cpus_under(reservation));
        // A circle of domains is an error elsewhere; here it must only end.
        for _ in 0..=self.domains.len() {
            if !named.is_empty() {
                return named.clone();
            }
            let outer = domain.inside.as_ref();
            match outer.and_then(|outer| self.domains.get(outer)) {
                Some(outer) => (domain, named) = (outer, outer.allowed_cpus()),
                None => break,
            }
        }
        let Some((_, host)) = self.host_of(domain) else {
            return CpuSet::new();
        };
        let working = host.working_cpus();
        if working.is_empty() {
            host.cpus.clone()
        } else {
            working
        }
    }

    /// How many virtual CPUs a domain has.
    pub fn vcpus_of(&self, domain: &Domain) -> usize {
        self.vcpus_under(domain, domain.reservation.as_ref())
    }

    /// How many virtual CPUs a domain has while a reservation holds for it, such as that of a mode.
    pub fn vcpus_under(&self, domain: &Domain, reservation: Option<&Reservation>) -> usize {
        let global = self
            .host_of(domain)
            .is_some_and(|(_, host)| host.placement == Placement::Global);
        let said = reservation.and_then(|held| held.vcpus);
        match said.filter(|_| global) {
            Some(count) => count as usize,
            None => self.cpus_under(domain, reservation).len(),
        }
    }
}

impl Domain {
    /// The CPUs that the domain may run on.
    pub fn allowed_cpus(&self) -> &CpuSet {
        self.cpus_under(self.reservation.as_ref())
    }

    fn cpus_under<'a>(&'a self, reservation: Option<&'a Reservation>) -> &'a CpuSet {
        reservation.map_or(&self.cpus, |reservation| &reservation.cpus)
    }

    /// The first of its CPUs.
    pub fn first_cpu(&self) -> Option<Cpu> {
        self.allowed_cpus().first().copied()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tailbound_time::Duration;

    use super::*;

    fn cell() -> Description {
        let text = include_str!("../tests/good/local-modes.toml");
        crate::parse(text, "local-modes.toml").unwrap()
    }

    fn budgets(description: &Description) -> Vec<u64> {
        let domains = description.domains.values();
        let budgets = domains.filter_map(|domain| domain.reservation.as_ref()?.budget);
        budgets
            .map(|budget| budget.as_nanos() / 1_000_000)
            .collect()
    }

    fn tasks(description: &Description) -> Vec<String> {
        let own = description.domains.iter();
        let own = own.flat_map(|(name, domain)| domain.tasks.keys().map(move |t| (name, t)));
        let served = description.services.iter();
        let served = served.flat_map(|(name, one)| one.tasks.keys().map(move |t| (name, t)));
        own.chain(served)
            .map(|(name, task)| format!("{name}.{task}"))
            .collect()
    }

    #[test]
    fn a_mode_takes_what_local_modes_say_and_the_rest_as_described() {
        let cell = cell();
        let run = cell.in_mode("run").unwrap();
        assert_eq!(budgets(&run), [4, 1, 6]);
        assert_eq!(
            tasks(&run),
            ["arm.control", "arm.plan", "box.log", "images.frame"]
        );
        let calibrate = cell.in_mode("calibrate").unwrap();
        assert_eq!(budgets(&calibrate), [2, 1, 30]);
        assert_eq!(tasks(&calibrate), ["arm.control", "images.pattern"]);
        let stop = cell.in_mode("stop").unwrap();
        assert_eq!(budgets(&stop), [2, 3, 6]);
        assert_eq!(tasks(&stop), ["arm.control", "box.log", "images.frame"]);
        for mode in [&run, &calibrate, &stop] {
            assert!(mode.modes.is_empty() && mode.initial_mode.is_none());
            let mut domains = mode.domains.values();
            assert!(domains.all(|domain| domain.modes.is_empty() && domain.agent.is_none()));
            assert_eq!(mode.section::<ModeChanges>(), ModeChanges::default());
        }
    }

    #[test]
    fn a_service_whose_tasks_are_all_gone_is_gone() {
        let mut cell = cell();
        let camera = cell.domains.get_mut("camera").unwrap();
        camera.modes.get_mut("watch").unwrap().tasks = Some(Vec::new());
        assert!(cell.in_mode("run").unwrap().services.is_empty());
    }

    #[test]
    fn agents_cost_what_the_host_lets_them_take() {
        use crate::BackendKind::{Dedicated, DsFreeze};
        use crate::mode_changes::ChangePolicy::{Boost, Greedy, Prompt};
        let mut cell = cell();
        let mut costs = |policy, backend| {
            let changes = cell.section::<ModeChanges>();
            let changes = ModeChanges { policy, ..changes };
            cell.sections.set(&changes).unwrap();
            let cost = |name: &str| cell.agent_time_before_all(&cell.domains[name], backend);
            // Outside, none, inside.
            ["arm", "camera", "box"].map(|name| cost(name).as_nanos() / 1_000)
        };
        assert_eq!(costs(Greedy, DsFreeze), [80, 0, 0]);
        assert_eq!(costs(Prompt, DsFreeze), [80, 0, 1_000]);
        assert_eq!(costs(Boost, DsFreeze), [80, 0, 1_000]);
        assert_eq!(costs(Boost, Dedicated), [0, 0, 0]);
        assert_eq!(
            cell.section::<ModeChanges>().boost,
            Duration::from_millis(1)
        );
    }
}
