//! What routes let pass, and which tables there are.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tailbound_messages::{MessageHeader, MessageKind, Reliability};
use tailbound_time::Instant;

use super::passage::{MOST_HOPS, Passage, PassageRefusal, PassageVerdict};
use super::route_table::{RouteEnd, RouteError, RouteForm, RouteTable, TopicRoute};
use crate::Topic;

fn topic(name: &str) -> Topic {
    Topic {
        publishers: 2,
        subscribers: 2,
        ..Topic::new(name, "frame", 1024)
    }
}

fn end(vertex: &str) -> RouteEnd {
    let (space, name) = vertex.split_once('/').unwrap();
    RouteEnd {
        space: space.to_owned(),
        topic: topic(name),
    }
}

fn route(name: &str, from: &str, to: &str) -> TopicRoute {
    TopicRoute {
        name: name.to_owned(),
        from: end(from),
        to: end(to),
        contract: None,
        priority: None,
        form: RouteForm::Headed,
    }
}

fn refusal(routes: Vec<TopicRoute>) -> String {
    RouteTable::new(routes).unwrap_err().to_string()
}

#[test]
fn routes_in_a_circle_are_refused_with_the_circle() {
    let routes = [
        ("a", "outside/x", "inside/x"),
        ("b", "inside/x", "bridge/y"),
        ("c", "bridge/y", "inside/z"),
        ("d", "inside/z", "inside/x"),
        ("e", "bridge/y", "far/y"),
    ];
    let routes: Vec<TopicRoute> = routes.map(|(name, from, to)| route(name, from, to)).into();
    let text = refusal(routes.clone());
    for step in [
        "inside/x -> bridge/y",
        "bridge/y -> inside/z",
        "inside/z -> inside/x",
    ] {
        assert!(text.contains(step), "{text}");
    }
    assert!(
        !text.contains("outside/x") && !text.contains("far/y"),
        "{text}"
    );
    let without = routes
        .into_iter()
        .filter(|route| route.name != "d")
        .collect();
    assert_eq!(RouteTable::new(without).unwrap().iter().count(), 4);
    assert!(refusal(vec![route("self", "s/x", "s/x")]).contains("s/x -> s/x"));
}

#[test]
fn ends_that_do_not_fit_are_refused() {
    let mut types = route("types", "a/x", "b/x");
    types.to.topic.type_name = "image".to_owned();
    assert!(refusal(vec![types]).contains("`frame` and `image`"));
    let mut sizes = route("sizes", "a/x", "b/x");
    sizes.to.topic.longest = 512;
    assert!(refusal(vec![sizes]).contains("1024 bytes come, and 512 bytes fit"));
    let mut reliable = route("reliable", "a/x", "b/x");
    reliable.to.topic.quality.reliability = Reliability::Reliable;
    assert!(refusal(vec![reliable.clone()]).contains("best-effort"));
    reliable.from.topic.quality.reliability = Reliability::Reliable;
    assert!(RouteTable::new(vec![reliable]).is_ok());
    let mut renamed = route("renamed", "a/x", "b/y");
    assert!(RouteTable::new(vec![renamed.clone()]).is_ok());
    renamed.form = RouteForm::Opaque;
    assert!(refusal(vec![renamed]).contains("static link"));
    let twice = vec![route("same", "a/x", "b/x"), route("same", "a/y", "b/y")];
    let name = "same".to_owned();
    assert_eq!(RouteTable::new(twice), Err(RouteError::Repetition { name }));
}

fn header(kind: MessageKind, source: u64, sequence: u64, time_ns: u64) -> MessageHeader {
    MessageHeader {
        kind,
        hops_left: MOST_HOPS,
        topic: 1,
        source,
        sequence,
        instance: 77,
        source_time: Instant::from_nanos(time_ns),
        origin_time: Instant::from_nanos(time_ns / 2),
        payload_length: 0,
    }
}

#[test]
fn a_message_keeps_all_but_topic_and_hops() {
    let mut passage = Passage::new(1, 2, 4);
    let sent = header(MessageKind::Dispose, 9, 3, 100);
    let expected = MessageHeader {
        topic: 2,
        hops_left: MOST_HOPS - 1,
        ..sent
    };
    assert_eq!(passage.judge(&sent), PassageVerdict::Pass(expected));
    let other = MessageHeader { topic: 5, ..sent };
    assert_eq!(
        passage.judge(&other),
        PassageVerdict::Refuse(PassageRefusal::Topic)
    );
    let tired = MessageHeader {
        hops_left: 0,
        sequence: 4,
        ..sent
    };
    assert_eq!(
        passage.judge(&tired),
        PassageVerdict::Refuse(PassageRefusal::Hops)
    );
}

#[test]
fn signs_of_life_pass_between_messages_and_once_each() {
    let mut passage = Passage::new(1, 2, 1);
    let mut passes = |kind, sequence, time| {
        matches!(
            passage.judge(&header(kind, 9, sequence, time)),
            PassageVerdict::Pass(_)
        )
    };
    use MessageKind::{Alive, Data, Farewell};
    assert!(passes(Alive, 0, 10));
    assert!(passes(Alive, 0, 20));
    assert!(!passes(Alive, 0, 20));
    // The clock of the source was set back: its data pass all the same.
    assert!(passes(Data, 0, 5));
    assert!(!passes(Data, 0, 5));
    assert!(passes(Alive, 1, 30));
    assert!(passes(Farewell, 1, 40));
    assert!(!passes(Farewell, 1, 40));
    assert!(!passes(Alive, 1, 50));
}

#[test]
fn without_room_the_source_that_was_silent_the_longest_is_forgotten() {
    let mut passage = Passage::new(1, 2, 2);
    let mut passes = |source, sequence| {
        let header = header(MessageKind::Data, source, sequence, 0);
        matches!(passage.judge(&header), PassageVerdict::Pass(_))
    };
    assert!(passes(1, 0) && passes(2, 0) && !passes(1, 0));
    assert!(passes(3, 0));
    assert!(!passes(1, 0), "source 1 spoke last but one");
    assert!(passes(2, 0), "source 2 gave its place to source 3");
}

proptest! {
    /// Routers joined at random, in circles too: no message comes more than once over a route as long as its source is
    /// remembered, and the messages end.
    #[test]
    fn no_loop_of_routers_multiplies_messages(
        joins in prop::collection::vec((0_usize..5, 0_usize..5), 1..12),
        sequences in 1_u64..5,
    ) {
        let mut passages: Vec<Passage> = joins.iter().map(|_| Passage::new(1, 1, 1)).collect();
        let mut passed = vec![0_u64; joins.len()];
        for sequence in 0..sequences {
            let mut under_way = vec![(0, header(MessageKind::Data, 9, sequence, sequence))];
            while let Some((place, message)) = under_way.pop() {
                for (index, (from, to)) in joins.iter().enumerate() {
                    if *from != place {
                        continue;
                    }
                    if let PassageVerdict::Pass(next) = passages[index].judge(&message) {
                        passed[index] += 1;
                        under_way.push((*to, next));
                    }
                }
            }
        }
        prop_assert!(passed.iter().all(|count| *count <= sequences));
    }

    /// A table is refused just where a walk along its routes comes back.
    #[test]
    fn a_cycle_is_refused_just_where_there_is_one(
        joins in prop::collection::vec((0_usize..5, 0_usize..5), 0..8),
    ) {
        let mut reach = [[false; 5]; 5];
        for (from, to) in &joins {
            reach[*from][*to] = true;
        }
        for (middle, from, to) in triples(5) {
            reach[from][to] |= reach[from][middle] && reach[middle][to];
        }
        let comes_back = (0..5).any(|place| reach[place][place]);
        let routes = joins.iter().enumerate().map(|(index, (from, to))| {
            route(&format!("r{index}"), &format!("s/{from}"), &format!("s/{to}"))
        });
        prop_assert_eq!(RouteTable::new(routes.collect()).is_err(), comes_back);
    }
}

/// All triples of numbers below `count`, the first one outermost.
fn triples(count: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..count * count * count).map(move |n| (n / (count * count), n / count % count, n % count))
}
