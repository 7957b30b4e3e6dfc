//! A description in one mode and one variant, with every budget told.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use tailbound_model::{Description, Domain, PercentagePoints, Precedence, Variant};

use super::{ResolutionError, ResolvedDomain, resolve};

/// A description in one mode and one variant: no modes, no derivations and no margins are left, and every
/// reservation with a budget says that budget.
///
/// Predictions, simulations, plans and enforcement start from here, so that all of them answer for the same
/// reservations.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployment {
    /// The description as the mode and the variant have it.
    pub description: Description,
    /// The reservations by domain.
    pub reserved: BTreeMap<String, ResolvedDomain>,
}

impl Deployment {
    /// The description in a mode (the initial one where `mode` names none) and a variant.
    ///
    /// # Errors
    /// The description has no such mode, or a budget cannot be derived.
    pub fn of(
        description: &Description,
        mode: Option<&str>,
        variant: &Variant,
    ) -> Result<Self, ResolutionError> {
        let mode = mode.or(description.initial_mode.as_deref());
        // A baseline in place of the described back ends leaves interrupts as the host has them.
        let described = match variant.backend {
            None => description.with_interrupt_domains(),
            Some(_) => description.without_interrupts(),
        };
        let mut hosted = match mode {
            None => described.without_modes(),
            Some(name) => {
                let in_mode = described.in_mode(name);
                in_mode.ok_or_else(|| ResolutionError::UnknownMode {
                    name: name.into(),
                    modes: names(description),
                })?
            }
        };
        let mut reserved = resolve(&hosted, variant)?;
        for (name, domain) in &mut hosted.domains {
            let (Some(reservation), Some(one)) = (&mut domain.reservation, reserved.get(name))
            else {
                continue;
            };
            let has_budget = one.backend.has_budget();
            reservation.backend = one.backend;
            let in_windows = one.backend.has_windows();
            reservation.budget = (has_budget && !in_windows).then_some(one.interface.budget);
            reservation.period = (has_budget && !in_windows).then_some(one.interface.period);
            reservation.windows = one.interface.windows.clone();
            reservation.derive = None;
            reservation.options = one.options;
            reservation.margin_points = PercentagePoints::default();
            if !has_budget {
                reservation.server = None;
            }
        }
        if !variant.neighbours {
            without_neighbours(&mut hosted);
            reserved.retain(|domain, _| hosted.domains.contains_key(domain));
        }
        Ok(Self {
            description: hosted,
            reserved,
        })
    }

    /// The other domains with guaranteed budgets that may come before `domain` on its CPUs.
    pub fn ahead_of(&self, domain: &str) -> Vec<&str> {
        let description = &self.description;
        let host = |name: &str| Some(description.host_of(description.domains.get(name)?)?.0);
        let Some(own) = self.reserved.get(domain) else {
            return Vec::new();
        };
        let comes_first = |other: &ResolvedDomain| match other.backend.precedence() {
            // The windows of others are elsewhere in the frame.
            Precedence::FairShare | Precedence::Window => false,
            Precedence::Priority => other.interface.priority >= own.interface.priority,
            Precedence::Deadline | Precedence::Hypervisor => true,
        };
        let others = self.reserved.iter().filter(|(name, other)| {
            name.as_str() != domain
                && other.backend.guarantees_budget()
                && comes_first(other)
                && host(name) == host(domain)
                && !other.interface.cpus.is_disjoint(&own.interface.cpus)
        });
        others.map(|(name, _)| name.as_str()).collect()
    }

    /// Another domain that may run on a CPU of `domain`, if there is one.
    pub fn company_of(&self, domain: &str) -> Option<&str> {
        let description = &self.description;
        let own = description.domains.get(domain)?;
        let host = description.host_of(own).map(|(name, _)| name);
        let cpus = description.cpus_of(own);
        let mut others = description.domains.iter();
        others.find_map(|(name, other)| {
            let meets = name != domain
                && description.host_of(other).map(|(name, _)| name) == host
                && !description.cpus_of(other).is_disjoint(&cpus);
            meets.then_some(name.as_str())
        })
    }

    /// The description as a run puts a variant into force: in the initial mode where modes hold in the
    /// variant, and otherwise as it is beside its modes.
    ///
    /// # Errors
    /// As [`Deployment::of`].
    pub fn of_run(description: &Description, variant: &Variant) -> Result<Self, ResolutionError> {
        match variant.has_modes() {
            true => Self::of(description, None, variant),
            false => Self::of(&description.without_modes(), None, variant),
        }
    }
}

/// Takes away the domains without a reservation, and the work of those that reserved ones are inside
/// of: these stay, since what they give to the inner ones does.
fn without_neighbours(hosted: &mut Description) {
    let domains = &hosted.domains;
    let runs = |domain: &Domain| domain.reservation.is_some();
    let mut kept = BTreeSet::new();
    for (name, _) in domains.iter().filter(|(_, domain)| runs(domain)) {
        let mut at = Some(name);
        // Ends at what is kept already, even where a description was not checked for circles.
        while let Some(name) = at.filter(|name| kept.insert((*name).clone())) {
            at = domains.get(name).and_then(|domain| domain.inside.as_ref());
        }
    }
    hosted.domains.retain(|name, _| kept.contains(name));
    for domain in hosted.domains.values_mut().filter(|domain| !runs(domain)) {
        domain.tasks.clear();
        domain.aperiodic = None;
        domain.locks.clear();
        domain.cpu_bound = false;
        domain.builtin = None;
    }
    let domains = &hosted.domains;
    hosted
        .services
        .retain(|_, service| domains.get(&service.domain).is_some_and(runs));
}

fn names(description: &Description) -> String {
    let names: Vec<&str> = description.modes.keys().map(String::as_str).collect();
    match names.is_empty() {
        true => "none".into(),
        false => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tailbound_model::BackendKind;

    use super::*;
    use tailbound_time::Duration;

    const HOST: &str = include_str!("nested-host.toml");

    fn deployed(description: &Description, variant: &Variant) -> Description {
        let deployment = Deployment::of(description, None, variant);
        deployment.unwrap().description
    }

    #[test]
    fn budgets_come_from_the_tasks_of_the_mode() {
        let description = tailbound_model::parse(HOST, "host.toml").unwrap();
        let budget = |mode| {
            let deployed = Deployment::of(&description, mode, &Variant::as_described());
            let hosted = deployed.unwrap().description;
            let reservation = hosted.domains["loop"].reservation.clone().unwrap();
            (reservation.budget.unwrap(), reservation.period.unwrap())
        };
        let ms = Duration::from_millis;
        assert_eq!(budget(None), (ms(12), ms(40)));
        assert_eq!(budget(Some("slow")), (ms(8), ms(40)));
        assert!(Deployment::of(&description, Some("off"), &Variant::as_described()).is_err());
    }

    #[test]
    fn a_variant_without_neighbours_leaves_reservations() {
        let description = tailbound_model::parse(HOST, "host.toml").unwrap();
        let mut variant = Variant::as_described();
        variant.neighbours = false;
        variant.backend = Some(BackendKind::Dedicated);
        let hosted = deployed(&description, &variant);
        let left: Vec<&String> = hosted.domains.keys().collect();
        assert_eq!(left, ["loop"]);
        assert_eq!(
            hosted.domains["loop"].reservation.clone().unwrap().budget,
            None
        );
    }

    /// What a reserved domain is inside of stays, at every depth, but does no work of its own.
    #[test]
    fn without_neighbours_reserved_domains_stay_where_they_are() {
        let text = r#"
            schema_version = 1
            name = "host"
            hosts.here.cpus = [0]
            [domains.a]
            kind = "qemu-vm"
            cpus = [0]
            [domains.b]
            kind = "container"
            inside = "a"
            reservation = { budget = "5ms", period = "10ms", cpus = [0] }
            [domains.c]
            kind = "container"
            inside = "b"
            reservation = { budget = "2ms", period = "10ms", cpus = [0] }
            tasks.loop = { arrivals = { kind = "periodic", period = "10ms" }, execution_time = { kind = "constant", value = "1ms" } }
            [domains.d]
            kind = "container"
            inside = "a"
            cpus = [0]
            cpu_bound = true
        "#;
        let mut description = tailbound_model::parse(text, "host.toml").unwrap();
        let own = description.domains["c"].tasks.clone();
        let outer = description.domains.get_mut("a").unwrap();
        (outer.cpu_bound, outer.tasks) = (true, own);
        let mut variant = Variant::as_described();
        variant.neighbours = false;
        let hosted = deployed(&description, &variant);
        let left: Vec<&String> = hosted.domains.keys().collect();
        assert_eq!(left, ["a", "b", "c"]);
        assert_eq!(hosted.domains["c"], description.domains["c"]);
        let outer = &hosted.domains["a"];
        assert!(outer.tasks.is_empty() && !outer.cpu_bound);
        // Even domains inside of each other in a circle come to an end.
        let outer = description.domains.get_mut("a").unwrap();
        outer.inside = Some("c".into());
        assert_eq!(deployed(&description, &variant).domains.len(), 3);
    }
}
