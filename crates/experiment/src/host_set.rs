//! The hosts of a description, and which of them is this machine.
//!
//! What a host lets reservations have is known of this machine by what it was probed for, and of every other host by the
//! description alone: the described CPUs, and the limits of a kernel as it is installed.

use std::collections::BTreeMap;

use tailbound_linux::HostCapabilities;
use tailbound_model::{CpuSet, Description};

use crate::ExperimentError;

/// The hosts of a description by name, with what each lets reservations have.
#[derive(Clone, Debug)]
pub struct HostSet {
    by_name: BTreeMap<String, HostView>,
}

/// A host as far as it is known here.
#[derive(Clone, Debug)]
pub enum HostView {
    /// This machine, as it was probed.
    ThisMachine(HostCapabilities),
    /// Another machine, of which the description tells the CPUs.
    Described(HostCapabilities),
}

impl HostView {
    /// Another machine with these CPUs.
    pub fn described(cpus: &CpuSet) -> Self {
        Self::Described(HostCapabilities::usual(cpus.iter().map(|cpu| cpu.0)))
    }

    /// What the host lets reservations have.
    pub fn capabilities(&self) -> &HostCapabilities {
        let (Self::ThisMachine(capabilities) | Self::Described(capabilities)) = self;
        capabilities
    }

    /// Whether it is this machine.
    pub fn is_here(&self) -> bool {
        matches!(self, Self::ThisMachine(_))
    }
}

impl HostSet {
    /// The hosts of a description of which none is this machine.
    pub fn elsewhere(description: &Description) -> Self {
        let hosts = description.hosts.iter();
        let each = hosts.map(|(name, host)| (name.clone(), HostView::described(&host.cpus)));
        let by_name = each.collect();
        Self { by_name }
    }

    /// The hosts of a description of which the only one is this machine. Where a description has several, none is, since
    /// nothing tells which.
    pub fn with_only_here(description: &Description, here: &HostCapabilities) -> Self {
        let mut hosts = Self::elsewhere(description);
        if let [only] = hosts
            .by_name
            .values_mut()
            .collect::<Vec<_>>()
            .as_mut_slice()
        {
            **only = HostView::ThisMachine(here.clone());
        }
        hosts
    }

    /// The hosts of a description of which the one of this name is this machine.
    ///
    /// # Errors
    /// The description has no such host.
    pub fn with_here(
        description: &Description,
        name: &str,
        here: &HostCapabilities,
    ) -> Result<Self, ExperimentError> {
        let mut hosts = Self::elsewhere(description);
        match hosts.by_name.get_mut(name) {
            Some(host) => *host = HostView::ThisMachine(here.clone()),
            None => return Err(unknown(description, name)),
        }
        Ok(hosts)
    }

    /// Whether there are several.
    pub fn are_several(&self) -> bool {
        self.by_name.len() > 1
    }

    /// Whether one of them is this machine.
    pub fn has_here(&self) -> bool {
        self.by_name.values().any(HostView::is_here)
    }

    /// The host of this name.
    pub fn get(&self, name: &str) -> Option<&HostView> {
        self.by_name.get(name)
    }
}

/// The part of a description that this machine puts into force: all of a description with one host, and of one with
/// several what is on the host that `name` says this machine is.
///
/// # Errors
/// The description has no such host; or it has several, and none is named, or modes, which are changed on one host.
pub fn part_of_this_machine(
    description: &Description,
    name: Option<&str>,
) -> Result<Description, ExperimentError> {
    let are_several = description.hosts.len() > 1;
    let hosts = host_names(description);
    match name {
        _ if are_several && !description.modes.is_empty() => {
            Err(ExperimentError::ModesOfSeveralHosts { hosts })
        }
        None if are_several => Err(ExperimentError::SeveralHosts { hosts }),
        None => Ok(description.clone()),
        Some(name) => {
            let part = description.on_host(name);
            part.ok_or_else(|| unknown(description, name))
        }
    }
}

fn unknown(description: &Description, name: &str) -> ExperimentError {
    ExperimentError::UnknownHost {
        name: name.to_owned(),
        hosts: host_names(description),
    }
}

fn host_names(description: &Description) -> String {
    let names: Vec<&str> = description.hosts.keys().map(String::as_str).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_analysis::admission::HostLimits;
    use tailbound_enforcement::admission::limits_of;

    use super::*;

    fn description(hosts: &[&str], rest: &str) -> Description {
        let mut text = String::from("schema_version = 1\nname = \"some\"\n");
        if !rest.is_empty() {
            text.push_str("initial_mode = \"run\"\n");
        }
        for host in hosts {
            text.push_str(&format!(
                "[hosts.{host}]\ncpus = [0]\n\
                 [domains.of-{host}]\nhost = \"{host}\"\nkind = \"process\"\npids = [1]\n\
                 reservation = {{ budget = \"1ms\", period = \"10ms\", cpus = [0] }}\n"
            ));
        }
        text.push_str(rest);
        tailbound_model::parse(&text, "some.toml").unwrap()
    }

    #[test]
    fn another_host_has_the_limits_that_analysis_takes() {
        let host = HostView::described(&[tailbound_model::Cpu(3)].into());
        assert_eq!(limits_of(host.capabilities()), HostLimits::default());
        assert_eq!(host.capabilities().online_cpus, [3].into());
    }

    #[test]
    fn only_a_named_one_of_several_hosts_is_this_machine() {
        let here = HostCapabilities::default();
        let one = description(&["a"], "");
        assert!(HostSet::with_only_here(&one, &here).has_here());
        let two = description(&["a", "b"], "");
        assert!(!HostSet::with_only_here(&two, &here).has_here());
        let named = HostSet::with_here(&two, "b", &here).unwrap();
        assert!(named.get("b").unwrap().is_here());
        assert!(!named.get("a").unwrap().is_here());
        let error = HostSet::with_here(&two, "c", &here).unwrap_err();
        assert!(error.to_string().contains("it has a, b"), "{error}");
    }

    #[test]
    fn this_machine_takes_its_part_alone() {
        let two = description(&["a", "b"], "");
        let part = part_of_this_machine(&two, Some("b")).unwrap();
        assert_eq!(part.domains.keys().collect::<Vec<_>>(), ["of-b"]);
        let error = part_of_this_machine(&two, None).unwrap_err().to_string();
        assert!(
            error.contains("a, b") && error.contains("--host"),
            "{error}"
        );
        assert!(part_of_this_machine(&two, Some("c")).is_err());
        let one = description(&["a"], "");
        assert_eq!(part_of_this_machine(&one, None).unwrap(), one);
        assert_eq!(part_of_this_machine(&one, Some("a")).unwrap(), one);
    }

    #[test]
    fn modes_of_several_hosts_are_no_part_of_one() {
        let modes = "[modes.run]\n";
        let two = description(&["a", "b"], modes);
        let error = part_of_this_machine(&two, Some("a")).unwrap_err();
        assert!(matches!(error, ExperimentError::ModesOfSeveralHosts { .. }));
        let one = description(&["a"], modes);
        assert_eq!(part_of_this_machine(&one, Some("a")).unwrap(), one);
    }
}
