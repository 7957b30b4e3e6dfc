//! The headers against the library: structures, functions, statuses.

use std::collections::BTreeSet;
use std::fs;
use std::mem::offset_of;
use std::process::Command;

use tailbound_c::Status;
use tailbound_c::layout::{
    ContractLayout, CountsLayout, MessageLayout, QualityLayout, QueuedMessageLayout, SampleLayout,
    SubscriberEventLayout, TopicLayout, UdpRouteLayout, ZeroMqRouteLayout,
};

use crate::programs::{Language, Linkage, compile, headers, libraries, run};

macro_rules! layout {
    ($lines:ident, $name:literal, $type:ident: $($field:ident),*) => {
        $lines.push(format!("{} {}", $name, size_of::<$type>()));
        $($lines.push(format!("{}.{} {}", $name, stringify!($field), offset_of!($type, $field)));)*
    };
}

#[test]
fn the_structures_of_the_headers_are_those_of_the_library() {
    let mut lines = Vec::new();
    layout!(lines, "quality", QualityLayout: history, reliability, deadline_ns, lifespan_ns, lease_ns);
    layout!(lines, "contract", ContractLayout: messages, violation, bytes, interval_ns, least_distance_ns);
    layout!(lines, "topic", TopicLayout: struct_size, name, type_name, longest, publishers, subscribers, quality, contract);
    layout!(lines, "udp_route", UdpRouteLayout: topic, listen, peers, peer_count);
    layout!(lines, "zeromq_route", ZeroMqRouteLayout: topic, listen, listen_count, publishers, publisher_count);
    layout!(lines, "message", MessageLayout: payload, length, source, sequence, instance, source_time_ns, origin_time_ns, arrival_time_ns, disposes);
    layout!(lines, "event", SubscriberEventLayout: kind, breach, source, count);
    layout!(lines, "counts", CountsLayout: delivered, signs, lost, held_back, dropped, of_other_topics, too_long, of_strangers, repeated, expired, garbage);
    layout!(lines, "sample", SampleLayout: number, length, written_time_ns, age_ns, valid);
    layout!(lines, "queued_message", QueuedMessageLayout: number, length, written_time_ns, age_ns, waiting);
    let Some(program) = compile("layouts.c", Language::C, Linkage::Static) else {
        return;
    };
    let printed = run(&program);
    assert_eq!(printed.lines().collect::<Vec<_>>(), lines);
}

/// The texts of the headers for C.
fn texts() -> String {
    let files = [
        "tailbound_status.h",
        "tailbound_topics.h",
        "tailbound_ports.h",
        "tailbound_service_level.h",
    ];
    let texts = files.map(|file| fs::read_to_string(headers().join(file)).unwrap());
    texts.concat()
}

/// The names of ours that stand before a parenthesis in the headers, outside of comments.
fn declared() -> BTreeSet<String> {
    let text = texts();
    let code = text
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, code)| code));
    let code: String = code.collect();
    let names = code.match_indices("tailbound_").map(|(place, _)| {
        let rest = &code[place..];
        let end = rest.find(|one: char| !one.is_ascii_alphanumeric() && one != '_');
        rest.split_at(end.unwrap_or(rest.len()))
    });
    let functions =
        names.filter(|(name, rest)| rest.starts_with('(') && !name.ends_with("_function"));
    functions.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn every_function_of_the_library_stands_in_a_header_and_the_other_way_round() {
    let library = libraries().join("libtailbound_c.so");
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(&library)
        .output();
    let Ok(output) = output else {
        eprintln!("SKIP functions of the library for C: needs nm");
        return;
    };
    let symbols = String::from_utf8(output.stdout).unwrap();
    let names = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let exported: BTreeSet<String> = names.map(str::to_owned).collect();
    assert!(exported.len() > 20, "{output:?}", output = output.stderr);
    assert_eq!(exported, declared());
}

#[test]
fn the_statuses_of_the_header_are_those_of_the_library() {
    let text = texts();
    for status in Status::ALL {
        let line = format!(
            "TAILBOUND_{} = {}",
            status.name().to_str().unwrap(),
            status as i32
        );
        let lines = text.lines().map(|line| line.trim().trim_end_matches(','));
        assert_eq!(lines.filter(|one| *one == line).count(), 1, "{line}");
    }
}
