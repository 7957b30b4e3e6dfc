//! The part of a description that is on one of its hosts.

use crate::description::Description;

impl Description {
    /// The same system as far as it is on one host: the host, its domains, and the services in these. `None` if there is
    /// no such host.
    ///
    /// Modes are left as they are, since one host alone cannot change those of several.
    pub fn on_host(&self, name: &str) -> Option<Self> {
        let mut part = self.clone();
        part.hosts.retain(|host, _| host == name);
        if part.hosts.is_empty() {
            return None;
        }
        let is_there = |domain: &str| {
            let domain = self.domains.get(domain);
            let host = domain.and_then(|domain| self.host_of(domain));
            host.is_some_and(|(host, _)| host == name)
        };
        part.domains.retain(|domain, _| is_there(domain));
        part.services.retain(|_, service| is_there(&service.domain));
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    const TWO: &str = r#"
        schema_version = 1
        name = "two"
        hosts.left = { cpus = [0] }
        hosts.right = { cpus = [0, 1] }

        [domains.arm]
        host = "left"
        kind = "process"
        builtin = "synthetic-service"

        [domains.leg]
        host = "right"
        kind = "process"
        builtin = "cpu-hog"
        cpus = [1]

        [services.grip]
        domain = "arm"
        protocol = "synthetic"
        endpoint = "unix:/tmp/tailbound-grip.sock"
        [services.grip.tasks.close]
        arrivals = { kind = "periodic", period = "10ms" }
        execution_time = { kind = "constant", value = "1ms" }
    "#;

    #[test]
    fn a_host_has_its_domains_and_their_services() {
        let whole = crate::parse(TWO, "two.toml").unwrap();
        let names = |host: &str| {
            let part = whole.on_host(host).unwrap();
            let hosts: Vec<String> = part.hosts.into_keys().collect();
            let domains: Vec<String> = part.domains.into_keys().collect();
            (hosts, domains, part.services.len())
        };
        let (left, arm) = (vec!["left".to_owned()], vec!["arm".to_owned()]);
        assert_eq!(names("left"), (left, arm, 1));
        let (right, leg) = (vec!["right".to_owned()], vec!["leg".to_owned()]);
        assert_eq!(names("right"), (right, leg, 0));
        assert_eq!(whole.on_host("middle"), None);
    }

    #[test]
    fn the_only_host_has_everything() {
        let text = include_str!("../tests/good/local-modes.toml");
        let whole = crate::parse(text, "local-modes.toml").unwrap();
        let only = whole.hosts.keys().next().unwrap();
        assert_eq!(whole.on_host(only).as_ref(), Some(&whole));
    }
}
