//! Contracts of topics in the kernel: a table of nftables for each domain that subscribes, which drops what is beyond the contracts
//! before it reaches a socket.

use std::io;

use tailbound_topics::{DatagramLimit, TokenBucket};

use crate::error::PlanError;
use crate::interrupts::plan_without_backend;
use crate::kernel::KernelView;
use crate::{Change, Plan, ReservationRequest};

/// The publishers that each rule remembers at least, by address and port. Those beyond share a bucket.
const LEAST_ROOM: u32 = 64;

/// The plan of a request for datagrams: a table that lets through what the limits say.
///
/// # Errors
/// The host has no nftables, or no interface has the address of a topic.
pub(crate) fn plan_of_topics(
    request: &ReservationRequest,
    limits: &[DatagramLimit],
    view: &dyn KernelView,
) -> Result<Plan, PlanError> {
    let refusal = |limit: &DatagramLimit, source: io::Error| PlanError::NoPacketTable {
        domain: request.domain.clone(),
        topic: limit.topic.clone(),
        reason: source.to_string(),
    };
    let mut plan = plan_without_backend(request);
    let name = format!("tailbound-{}", request.domain);
    let hook = "{ type filter hook input priority -300; policy accept; }";
    let mut commands = vec![format!("add chain inet {name} input {hook}")];
    for (place, limit) in limits.iter().enumerate() {
        view.packet_tables()
            .map_err(|source| refusal(limit, source))?;
        let interface = match limit.interface.is_unspecified() {
            true => None,
            false => Some(
                view.interface_with(limit.interface)
                    .map_err(|source| refusal(limit, source))?,
            ),
        };
        commands.extend(rules(&name, place, limit, interface.as_deref()));
        plan.mapping.push(format!(
            "contract of {} -> {}/{}, {} at once, of each publisher to {}:{}",
            limit.topic,
            limit.datagrams.amount,
            limit.datagrams.unit.name(),
            limit.datagrams.burst,
            limit.group,
            limit.port
        ));
    }
    plan.changes
        .push(Change::MakePacketTable { name, commands });
    Ok(plan)
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
    let of_each = |set: &str, over: &str| {
        format!(
            "add rule inet {table} {chain} update @{set} {{ ip saddr . udp sport {over} }} counter drop"
        )
    };
    let longest = limit.longest;
    let mut commands = vec![
        format!("add chain inet {table} {chain}"),
        format!("add rule inet {table} {chain} udp length > {longest} counter drop"),
        set(&sources),
        of_each(&sources, &over(limit.datagrams, "packets")),
    ];
    if let Some(bytes) = limit.bytes {
        let volumes = format!("volumes-{place}");
        commands.push(set(&volumes));
        commands.push(of_each(&volumes, &over(bytes, "bytes")));
    }
    // A flood takes the share of one sender, and leaves theirs to the publishers.
    let senders = limit.publishers.saturating_add(1);
    let all = over(limit.datagrams.times(senders), "packets");
    commands.push(format!("add rule inet {table} {chain} {all} counter drop"));
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
