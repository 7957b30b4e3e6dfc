//! Contracts of topics in the kernel: a table of nftables for each domain that subscribes, which drops what is beyond the contracts
//! before it reaches a socket.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use tailbound_linux::network_interface::NetworkPlace;
use tailbound_linux::packet_counters;
use tailbound_topics::{DatagramLimit, GuardedInterface, TokenBucket};

use crate::backend::GuardedTopics;
use crate::error::PlanError;
use crate::interrupts::plan_without_backend;
use crate::journal::HeldDomain;
use crate::kernel::KernelView;
use crate::{Change, Plan, ReservationRequest, Target};

/// The publishers that each rule remembers at least, by address and port. Those beyond share a bucket.
const LEAST_ROOM: u32 = 64;

/// The datagrams of a topic that the kernel has dropped since its table was made, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedDatagrams {
    /// The key of the topic in the description.
    pub topic: String,
    /// Those longer than a message of the topic.
    pub too_long: u64,
    /// Those beyond the contract of their sender.
    pub beyond_sender: u64,
    /// Those beyond the contracts of all publishers, and of one sender more, together.
    pub beyond_all: u64,
}

impl DroppedDatagrams {
    /// The reasons, in words for programs.
    pub const REASONS: [&'static str; 3] = ["too-long", "beyond-sender", "beyond-all"];

    /// The numbers of [`DroppedDatagrams::REASONS`].
    pub fn by_reason(&self) -> [u64; 3] {
        [self.too_long, self.beyond_sender, self.beyond_all]
    }

    /// Adds what the counters of a table say of the topic in this place.
    fn add(&mut self, place: usize, counted: &BTreeMap<String, u64>) {
        let of = |name: String| counted.get(&name).copied().unwrap_or_default();
        self.too_long += of(too_long(place));
        self.beyond_sender += of(beyond_sender(place));
        self.beyond_all += of(beyond_all(place));
    }
}

/// The tables of one domain with topics, for whoever asks what they have dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicTables {
    /// The name under which the topics are held.
    pub domain: String,
    topics: Vec<String>,
    tables: Vec<(Option<NetworkPlace>, String)>,
}

impl TopicTables {
    /// Those of a domain; `None` for a domain that holds no topics.
    pub(crate) fn of(held: &HeldDomain) -> Option<Self> {
        let Target::Topics(guarded) = &held.request.target else {
            return None;
        };
        let tables = held.entries.iter().filter_map(|entry| match &entry.change {
            Change::MakePacketTable { name, network, .. } => Some((network.clone(), name.clone())),
            _ => None,
        });
        Some(Self {
            domain: held.request.domain.clone(),
            topics: guarded.limits.iter().map(|one| one.topic.clone()).collect(),
            tables: tables.collect(),
        })
    }

    /// The datagrams that the kernel has dropped, of each topic. A table that has ended with its network namespace has no part in
    /// the numbers.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn dropped(&self) -> io::Result<Vec<DroppedDatagrams>> {
        let topics = self.topics.iter().map(|topic| DroppedDatagrams {
            topic: topic.clone(),
            ..DroppedDatagrams::default()
        });
        let mut dropped: Vec<_> = topics.collect();
        for (network, name) in &self.tables {
            let counted = match packet_counters::counted(network.as_ref(), name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                counted => counted?,
            };
            for (place, topic) in dropped.iter_mut().enumerate() {
                topic.add(place, &counted);
            }
        }
        Ok(dropped)
    }
}

/// The plan of a request for datagrams: tables that let through what the limits say.
///
/// # Errors
/// The host has no nftables, or no interface has the address of a topic.
pub(crate) fn plan_of_topics(
    request: &ReservationRequest,
    topics: &GuardedTopics,
    view: &dyn KernelView,
) -> Result<Plan, PlanError> {
    let mut plan = plan_without_backend(request);
    match topics.networks.as_slice() {
        [] => plan.changes.push(table(request, topics, None, view)?),
        networks => {
            for network in networks {
                let change = table(request, topics, Some(network), view)?;
                plan.changes.push(change);
            }
        }
    }
    let mapping = topics.limits.iter().map(|limit| {
        format!(
            "contract of {} -> {}/{}, {} at once, of each publisher to {}:{}",
            limit.topic,
            limit.datagrams.amount,
            limit.datagrams.unit.name(),
            limit.datagrams.burst,
            limit.group,
            limit.port
        )
    });
    plan.mapping.extend(mapping);
    Ok(plan)
}

/// The change that makes the table of a domain in a network namespace.
fn table(
    request: &ReservationRequest,
    topics: &GuardedTopics,
    network: Option<&NetworkPlace>,
    view: &dyn KernelView,
) -> Result<Change, PlanError> {
    let refusal = |limit: &DatagramLimit, source: io::Error| PlanError::NoPacketTable {
        domain: request.domain.clone(),
        topic: limit.topic.clone(),
        reason: source.to_string(),
    };
    let name = format!("tailbound-{}", request.domain);
    let hook = "{ type filter hook input priority -300; policy accept; }";
    let mut commands = vec![format!("add chain inet {name} input {hook}")];
    for (place, limit) in topics.limits.iter().enumerate() {
        view.packet_tables(network)
            .map_err(|source| refusal(limit, source))?;
        let interface = match &limit.interface {
            GuardedInterface::Every => None,
            // The program of the domain complains if there is none of this name.
            GuardedInterface::Named(name) => Some(name.clone()),
            GuardedInterface::Address(address) => Some(
                view.interface_with(network, *address)
                    .map_err(|source| refusal(limit, source))?,
            ),
        };
        commands.extend(rules(&name, place, limit, interface.as_deref()));
    }
    Ok(Change::MakePacketTable {
        name,
        network: network.cloned(),
        commands,
    })
}

/// The name of the counter of datagrams that are too long.
fn too_long(place: usize) -> String {
    format!("too-long-{place}")
}

/// The name of the counter of datagrams beyond the contract of their sender.
fn beyond_sender(place: usize) -> String {
    format!("beyond-sender-{place}")
}

/// The name of the counter of datagrams beyond the contracts of all.
fn beyond_all(place: usize) -> String {
    format!("beyond-all-{place}")
}

/// The commands that add the rules of a topic: first what no message is, then what a publisher sends beyond its contract, then what
/// all together send beyond theirs, however many addresses and ports a sender takes.
fn rules(table: &str, place: usize, limit: &DatagramLimit, interface: Option<&str>) -> Vec<String> {
    let (chain, sources) = (format!("topic-{place}"), format!("sources-{place}"));
    let room = limit.publishers.saturating_mul(4).max(LEAST_ROOM);
    // A publisher that is forgotten gets a full bucket, as it would have by then.
    let refill_s = limit.refill.as_nanos().div_ceil(500_000_000).max(2);
    let set = |name: &str| {
        format!(
            "add set inet {table} {name} {{ type ipv4_addr . inet_service; size {room}; \
             flags dynamic,timeout; timeout {refill_s}s; }}"
        )
    };
    let drop = |counter: String| format!("counter name \"{counter}\" drop");
    let of_each = |set: &str, over: &str| {
        let drop = drop(beyond_sender(place));
        format!(
            "add rule inet {table} {chain} update @{set} {{ ip saddr . udp sport {over} }} {drop}"
        )
    };
    let counters = [too_long(place), beyond_sender(place), beyond_all(place)];
    let counters = counters.map(|counter| format!("add counter inet {table} {counter}"));
    let mut commands = counters.to_vec();
    let longest = limit.longest;
    let too_long = drop(too_long(place));
    commands.extend([
        format!("add chain inet {table} {chain}"),
        format!("add rule inet {table} {chain} udp length > {longest} {too_long}"),
        set(&sources),
        of_each(&sources, &over(limit.datagrams, "packets")),
    ]);
    if let Some(bytes) = limit.bytes {
        let volumes = format!("volumes-{place}");
        commands.push(set(&volumes));
        commands.push(of_each(&volumes, &over(bytes, "bytes")));
    }
    // A flood takes the share of one sender, and leaves theirs to the publishers.
    let senders = limit.publishers.saturating_add(1);
    let all = over(limit.datagrams.times(senders), "packets");
    let beyond_all = drop(beyond_all(place));
    commands.push(format!("add rule inet {table} {chain} {all} {beyond_all}"));
    let at = interface.map_or(String::new(), |name| format!("iifname \"{name}\" "));
    commands.push(format!(
        "add rule inet {table} input {at}ip daddr {} udp dport {} jump {chain}",
        limit.group, limit.port
    ));
    commands
}

/// The expression that matches what is beyond a bucket.
fn over(bucket: TokenBucket, tokens: &str) -> String {
    let rate = match tokens {
        "bytes" => format!("{} bytes/{}", bucket.amount, bucket.unit.name()),
        _ => format!("{}/{}", bucket.amount, bucket.unit.name()),
    };
    format!("limit rate over {rate} burst {} {tokens}", bucket.burst)
}
