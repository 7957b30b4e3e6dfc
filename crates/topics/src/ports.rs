//! Ports: messages between the programs of domains over memory that one side alone can write.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_model::{Check, KeyPath, Members, Section};
use tailbound_time::Duration;

/// The limits of ports, as in the crate of the same name.
const LONGEST: u32 = 16 << 20;
const DEEPEST: u32 = 1 << 16;
/// The most memory of a port, in bytes.
const MOST_MEMORY: u64 = 256 << 20;

/// Ports between the programs of domains, by name: `run` starts the programs with their ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Ports(
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))]
    pub  BTreeMap<String, PortDescription>,
);

/// A port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortDescription {
    /// Whether the newest message is read, or all of them in order.
    pub kind: PortForm,
    /// The domain whose program writes.
    pub from: String,
    /// The domains whose programs read; one of a queuing port.
    pub to: Vec<String>,
    /// The longest message, in bytes.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub size: u32,
    /// The number of messages that there is room for: of a queuing port, those that wait; of a sampling port two or more,
    /// and a reader is overtaken only where so many are written while it reads one.
    #[serde(default = "four")]
    #[schemars(range(min = 1, max = 65_536), extend("default" = 4))]
    pub depth: u32,
    /// The age up to which a message of a sampling port is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validity: Option<Duration>,
}

fn four() -> u32 {
    4
}

/// How messages of a port are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PortForm {
    /// The newest message, with its age and whether it is valid, by any number of readers.
    Sampling,
    /// Messages in order, by one reader; full and empty are reported.
    Queuing,
}

impl Section for Ports {
    const KEY: &'static str = "ports";

    fn check(&self, check: &mut Check<'_>) {
        for (name, port) in &self.0 {
            let place = KeyPath::root().key(Self::KEY).key(name);
            ends(check, &place, port);
            numbers(check, &place, port);
            hosts(check, &place, port);
        }
    }
}

/// Checks the domains at both ends.
fn ends(check: &mut Check<'_>, place: &KeyPath, port: &PortDescription) {
    program(check, &place.key("from"), &port.from);
    let mut earlier = BTreeSet::new();
    for (index, reader) in port.to.iter().enumerate() {
        let here = place.key("to").index(index);
        program(check, &here, reader);
        if *reader == port.from {
            check.error(
                &here,
                format!("`{reader}` would read what it writes"),
                "name another domain",
            );
        } else if !earlier.insert(reader) {
            check.error(
                &here,
                format!("`{reader}` reads this port already"),
                "name a domain once",
            );
        }
    }
    match (port.kind, port.to.len()) {
        (_, 0) => check.error(&place.key("to"), "nobody reads it", "name a domain"),
        (PortForm::Queuing, 2..) => check.error(
            &place.key("to"),
            "a queuing port has one reader, which takes its messages out",
            "leave one domain, and give the others ports of their own",
        ),
        _ => {}
    }
}

/// Complains unless a domain has one program that `run` starts, and that may have ports.
fn program(check: &mut Check<'_>, place: &KeyPath, name: &str) {
    let names = check.names("domains");
    if !names.contains(&name) {
        check.reference(place, "domain", name, &names);
        return;
    }
    let Some(domain) = check.description().domains.get(name).cloned() else {
        return;
    };
    match domain.members(name) {
        Members::Started { .. } if domain.builtin.is_some() => check.error(
            place,
            format!("the built-in program of `{name}` has no ports"),
            "name a domain with a `command`",
        ),
        Members::Started { instances: 1 } => {}
        Members::Started { instances } => check.error(
            place,
            format!("`{name}` has {instances} programs, and a port has one at each end"),
            format!("write instances = 1 at domains.{name}, or split the domain"),
        ),
        _ => check.error(
            place,
            format!("`{name}` has no program that `run` starts, and could give a port to"),
            format!("give domains.{name} a `command`, or name another domain"),
        ),
    }
}

fn numbers(check: &mut Check<'_>, place: &KeyPath, port: &PortDescription) {
    if !(1..=LONGEST).contains(&port.size) {
        check.error(
            &place.key("size"),
            format!("messages of {} bytes are none", port.size),
            format!("write 1 to {LONGEST} bytes"),
        );
    }
    let least = match port.kind {
        PortForm::Sampling => 2,
        PortForm::Queuing => 1,
    };
    if !(least..=DEEPEST).contains(&port.depth) {
        check.error(
            &place.key("depth"),
            format!("there is room for {} messages", port.depth),
            format!("write {least} to {DEEPEST}"),
        );
    } else if u64::from(port.size) * u64::from(port.depth) > MOST_MEMORY {
        check.error(
            &place.key("depth"),
            format!(
                "{} messages of {} bytes need too much memory",
                port.depth, port.size
            ),
            format!("let size times depth be at most {MOST_MEMORY}"),
        );
    }
    match (port.kind, port.validity) {
        (PortForm::Sampling, None) => check.error(
            place,
            "a sampling port says how long its messages are valid",
            "write a `validity`, such as \"100ms\"",
        ),
        (PortForm::Sampling, Some(Duration::ZERO)) => check.error(
            &place.key("validity"),
            "no message would ever be valid",
            "write a duration such as \"100ms\"",
        ),
        (PortForm::Queuing, Some(_)) => check.error(
            &place.key("validity"),
            "messages of a queuing port wait until they are read, however old",
            "leave it out, or write kind = \"sampling\"",
        ),
        _ => {}
    }
}

/// Complains of ends on two hosts, which share no memory.
fn hosts(check: &mut Check<'_>, place: &KeyPath, port: &PortDescription) {
    let host = |name: &str| {
        let description = check.description();
        let domain = description.domains.get(name)?;
        description.host_of(domain).map(|(host, _)| host.to_owned())
    };
    let writer = host(&port.from);
    let apart = port.to.iter().enumerate().find_map(|(index, name)| {
        let there = host(name)?;
        let here = writer.clone()?;
        (there != here).then_some((index, here, there))
    });
    if let Some((index, here, there)) = apart {
        check.error(
            &place.key("to").index(index),
            format!("the program is on host `{there}`, and the one that writes on `{here}`"),
            "join hosts by a topic with transport = \"udp\"",
        );
    }
}
