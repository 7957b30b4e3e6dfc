//! What holds in one mode of a description.

use crate::description::{Description, Domain};
use crate::host::{Host, Placement};
use crate::interface::{Cpu, CpuSet};

impl Description {
    /// The same system as it is in one mode, without modes: the mode's reservations in place of the
    /// described ones, and only the tasks that it releases. Promises to tasks that it does not
    /// release, and services without a task, are left out. `None` if there is no such mode.
    pub fn in_mode(&self, mode: &str) -> Option<Self> {
        let mode = self.modes.get(mode)?;
        let mut described = self.clone();
        described.modes.clear();
        described.initial_mode = None;
        for (domain, reservation) in &mode.reservations {
            if let Some(domain) = described.domains.get_mut(domain) {
                domain.cpus.clear();
                domain.reservation = Some(reservation.clone());
            }
        }
        if let Some(released) = &mode.tasks {
            let is_released = |of: &str, task: &str| released.contains(&format!("{of}.{task}"));
            for (name, domain) in &mut described.domains {
                domain.tasks.retain(|task, _| is_released(name, task));
            }
            for (name, service) in &mut described.services {
                service.tasks.retain(|task, _| is_released(name, task));
                let tasks = &service.tasks;
                let kept = |task: &Option<String>| {
                    task.as_ref().is_none_or(|task| tasks.contains_key(task))
                };
                service.slos.retain(|slo| kept(&slo.task));
            }
            described
                .services
                .retain(|_, service| !service.tasks.is_empty());
        }
        Some(described)
    }

    /// The host of a domain, with its name; `None` if there is no such host, or several and the
    /// domain names none.
    pub fn host_of(&self, domain: &Domain) -> Option<(&str, &Host)> {
        let found = match &domain.host {
            Some(name) => self.hosts.get_key_value(name),
            None if self.hosts.len() == 1 => self.hosts.iter().next(),
            None => None,
        };
        found.map(|(name, host)| (name.as_str(), host))
    }

    /// The CPUs that the virtual CPUs of a domain are on, where each is pinned to one: those that it
    /// names, or else those of the domain that it is inside of, or else those of its host that are
    /// for domains (all, if none is).
    pub fn cpus_of(&self, domain: &Domain) -> CpuSet {
        let mut domain = domain;
        // A circle of domains is an error elsewhere; here it must only end.
        for _ in 0..=self.domains.len() {
            let named = domain.allowed_cpus();
            if !named.is_empty() {
                return named.clone();
            }
            let outer = domain.inside.as_ref();
            match outer.and_then(|outer| self.domains.get(outer)) {
                Some(outer) => domain = outer,
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
        let global = self
            .host_of(domain)
            .is_some_and(|(_, host)| host.placement == Placement::Global);
        let said = domain.reservation.as_ref().and_then(|held| held.vcpus);
        match said.filter(|_| global) {
            Some(count) => count as usize,
            None => self.cpus_of(domain).len(),
        }
    }
}

impl Domain {
    /// The CPUs that the domain may run on.
    pub fn allowed_cpus(&self) -> &CpuSet {
        self.reservation
            .as_ref()
            .map_or(&self.cpus, |reservation| &reservation.cpus)
    }

    /// The first of its CPUs.
    pub fn first_cpu(&self) -> Option<Cpu> {
        self.allowed_cpus().first().copied()
    }
}
