//! Routers between data spaces of one process.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tailbound_linux::clock::Monotonic;
use tailbound_messages::{Contract, ExcessRule, HEADER_LENGTH, MessageHeader, Quality, RawMessage};
use tailbound_time::{Duration, Instant};

use super::{PassageObserver, RouteEnd, RouteForm, RouteTable, Router, RouterError, TopicRoute};
use crate::{
    DataOrigin, DataSpace, InProcess, Publisher, Receiver, Sender, Subscriber, Topic, Transport,
    TransportError, TransportTraits,
};

/// Two data spaces, and a router between them.
struct Bridge {
    inside: InProcess,
    outside: InProcess,
    router: Router,
}

impl Bridge {
    fn new() -> Self {
        let (inside, outside) = (InProcess::default(), InProcess::default());
        let space = |name: &str, space: &InProcess| -> (String, Box<dyn Transport>) {
            (name.to_owned(), Box::new(space.clone()))
        };
        let spaces = BTreeMap::from([space("inside", &inside), space("outside", &outside)]);
        let router = Router::between(spaces, Arc::new(Monotonic));
        Self {
            inside,
            outside,
            router,
        }
    }

    fn publisher(&self, topic: &Topic) -> Publisher {
        let space = DataSpace::over(Box::new(self.inside.clone()), Arc::new(Monotonic));
        space.publisher(topic).unwrap()
    }

    fn subscriber(&self, topic: &Topic) -> Subscriber {
        let space = DataSpace::over(Box::new(self.outside.clone()), Arc::new(Monotonic));
        space.subscriber(topic).unwrap()
    }
}

fn topic(name: &str) -> Topic {
    let quality = Quality {
        history: 64,
        ..Quality::default()
    };
    Topic {
        quality,
        publishers: 4,
        ..Topic::new(name, "frame", 64)
    }
}

fn route(topic: &Topic, contract: Option<Contract>) -> TopicRoute {
    let end = |space: &str| RouteEnd {
        space: space.to_owned(),
        topic: topic.clone(),
    };
    TopicRoute {
        name: topic.name.clone(),
        from: end("inside"),
        to: end("outside"),
        contract,
        priority: None,
        form: RouteForm::Headed,
    }
}

fn table(routes: impl IntoIterator<Item = TopicRoute>) -> RouteTable {
    RouteTable::new(routes.into_iter().collect()).unwrap()
}

/// The next `count` messages: header and first byte of each.
fn take(subscriber: &mut Subscriber, count: usize) -> Vec<(MessageHeader, u8)> {
    let mut messages = Vec::new();
    while messages.len() < count {
        let came = subscriber.take(|message| {
            messages.push((
                message.header,
                message.payload.first().copied().unwrap_or_default(),
            ));
        });
        if !came.unwrap() {
            // Far longer than any machine takes, for a test that ends where a message is lost.
            let limit = Some(Duration::from_secs(30));
            assert!(
                subscriber.wait(limit).unwrap(),
                "{} of {count} messages came",
                messages.len()
            );
        }
    }
    messages
}

#[test]
fn messages_keep_source_instance_and_time_stamps() {
    let mut bridge = Bridge::new();
    let video = topic("video");
    bridge
        .router
        .replace(&table([route(&video, None)]))
        .unwrap();
    let mut subscriber = bridge.subscriber(&video);
    let mut publisher = bridge.publisher(&video);
    let origin = DataOrigin::at(Instant::from_nanos(5));
    publisher
        .publish_instance(b"camera 7", Some(origin), b"x")
        .unwrap();
    publisher.dispose(b"camera 7").unwrap();
    let messages = take(&mut subscriber, 2);
    for (message, sequence) in messages.iter().zip(0..) {
        assert_eq!(message.0.source, publisher.source());
        assert_eq!(message.0.sequence, sequence);
        assert_eq!(
            message.0.instance,
            tailbound_messages::instance_number(b"camera 7")
        );
    }
    assert_eq!(messages[0].0.origin_time, Instant::from_nanos(5));
    assert!(messages[1].0.kind == tailbound_messages::MessageKind::Dispose);
}

#[test]
fn no_message_is_lost_or_doubled_while_tables_are_replaced() {
    let mut bridge = Bridge::new();
    let (mut video, other) = (topic("video"), topic("other"));
    video.subscribers = 2;
    let generous = Contract {
        messages: 1000,
        bytes: None,
        interval: Duration::from_secs(3600),
        least_distance: Duration::ZERO,
        violation: ExcessRule::Drop,
    };
    bridge
        .router
        .replace(&table([route(&video, None)]))
        .unwrap();
    let mut subscriber = bridge.subscriber(&video);
    let mut publisher = bridge.publisher(&video);
    let mut received = Vec::new();
    for round in 0..20_u32 {
        for byte in 0..10 {
            publisher.publish(&[byte]).unwrap();
        }
        // A change of the contract makes another thread with the same queue; one of the topic another queue, too.
        let mut changed = route(&video, (round % 2 == 0).then_some(generous));
        changed.from.topic.longest = 32 + round as usize / 4;
        bridge
            .router
            .replace(&table([changed, route(&other, None)]))
            .unwrap();
        received.extend(take(&mut subscriber, 10));
    }
    let sequences: Vec<u64> = received.iter().map(|(header, _)| header.sequence).collect();
    assert_eq!(sequences, (0..200).collect::<Vec<u64>>());
    let status = bridge.router.status();
    let video = status.iter().find(|status| status.name == "video").unwrap();
    assert_eq!(video.failure, None);
}

#[test]
fn what_is_beyond_the_contract_of_a_route_is_dropped_and_counted() {
    let mut bridge = Bridge::new();
    let video = topic("video");
    let contract = Contract {
        messages: 3,
        bytes: None,
        interval: Duration::from_secs(3600),
        least_distance: Duration::ZERO,
        violation: ExcessRule::Drop,
    };
    bridge
        .router
        .replace(&table([route(&video, Some(contract))]))
        .unwrap();
    let mut subscriber = bridge.subscriber(&video);
    let mut publisher = bridge.publisher(&video);
    for byte in 0..10 {
        publisher.publish(&[byte]).unwrap();
    }
    // The end of the route passes on what waits for it, so its numbers are final then.
    let messages = take(&mut subscriber, 3);
    assert_eq!(
        messages.iter().map(|(_, byte)| *byte).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    let counters = loop {
        let counters = bridge.router.status()[0].counters;
        if counters.passed + counters.violations == 10 {
            break counters;
        }
        std::thread::yield_now();
    };
    assert_eq!((counters.passed, counters.violations), (3, 7));
}

#[test]
fn a_table_that_cannot_be_opened_leaves_the_one_before_in_force() {
    let mut bridge = Bridge::new();
    let video = topic("video");
    bridge
        .router
        .replace(&table([route(&video, None)]))
        .unwrap();
    let mut nowhere = route(&topic("other"), None);
    nowhere.to.space = "moon".to_owned();
    let refusal = bridge.router.replace(&table([nowhere])).unwrap_err();
    assert!(matches!(&refusal, RouterError::Space { .. }));
    assert!(
        refusal
            .to_string()
            .contains("`moon`; there are inside, outside")
    );
    let mut subscriber = bridge.subscriber(&video);
    bridge.publisher(&video).publish(b"x").unwrap();
    assert_eq!(take(&mut subscriber, 1).len(), 1);
}

#[derive(Default)]
struct ObservedPassages(Mutex<Vec<(String, u64)>>);

impl PassageObserver for ObservedPassages {
    fn passed(&self, route: &str, header: &MessageHeader, _: Instant) {
        self.0
            .lock()
            .unwrap()
            .push((route.to_owned(), header.sequence));
    }
}

#[test]
fn an_observer_sees_every_message_that_was_passed_on() {
    let mut bridge = Bridge::new();
    let diary = Arc::new(ObservedPassages::default());
    bridge
        .router
        .observe(Arc::<ObservedPassages>::clone(&diary));
    let video = topic("video");
    bridge
        .router
        .replace(&table([route(&video, None)]))
        .unwrap();
    let mut publisher = bridge.publisher(&video);
    for _ in 0..3 {
        publisher.publish(b"x").unwrap();
    }
    // Ends the route, which passes on first what waits for it.
    bridge.router.replace(&RouteTable::default()).unwrap();
    let expected = [0, 1, 2].map(|sequence| ("video".to_owned(), sequence));
    assert_eq!(*diary.0.lock().unwrap(), expected);
}

/// The bytes of a message of a version that this library does not read.
fn of_another_version(hops_left: u8) -> [u8; HEADER_LENGTH] {
    let mut header = [7; HEADER_LENGTH];
    header[..2].copy_from_slice(b"tb");
    header[2] = 99;
    header[4] = hops_left;
    header
}

#[test]
fn a_static_link_passes_other_versions_on_and_ends_their_loops() {
    let mut bridge = Bridge::new();
    let video = topic("video");
    let link = TopicRoute {
        form: RouteForm::Opaque,
        ..route(&video, None)
    };
    bridge.router.replace(&table([link])).unwrap();
    let mut receiver = bridge.outside.receiver(&video).unwrap();
    let mut sender = bridge.inside.sender(&video).unwrap();
    let foreign = [b'x'; HEADER_LENGTH];
    for header in [
        foreign,
        of_another_version(0),
        of_another_version(200),
        of_another_version(3),
    ] {
        sender.send(&header, b"payload").unwrap();
    }
    let ended = bridge.router.end();
    let counters = ended[0].counters;
    assert_eq!(
        (counters.garbage, counters.hops, counters.passed),
        (1, 1, 2)
    );
    let mut messages = Vec::new();
    while receiver
        .take(&mut |message| messages.push([message.header, message.payload].concat()))
        .unwrap()
    {}
    for (message, hops_left) in messages.iter().zip([15, 2]) {
        assert_eq!(message[..HEADER_LENGTH], of_another_version(hops_left));
        assert_eq!(message[HEADER_LENGTH..], *b"payload");
    }
}

/// A transport whose receiver fails as long as `is_down`.
struct FlakyTransport {
    inner: InProcess,
    is_down: Arc<AtomicBool>,
}

struct FlakyReceiver {
    inner: Box<dyn Receiver>,
    is_down: Arc<AtomicBool>,
}

impl Transport for FlakyTransport {
    fn traits(&self) -> TransportTraits {
        self.inner.traits()
    }

    fn sender(&self, topic: &Topic) -> Result<Box<dyn Sender>, TransportError> {
        self.inner.sender(topic)
    }

    fn receiver(&self, topic: &Topic) -> Result<Box<dyn Receiver>, TransportError> {
        Ok(Box::new(FlakyReceiver {
            inner: self.inner.receiver(topic)?,
            is_down: Arc::clone(&self.is_down),
        }))
    }
}

impl Receiver for FlakyReceiver {
    fn take(&mut self, visit: &mut dyn FnMut(RawMessage<'_>)) -> Result<bool, TransportError> {
        match self.is_down.load(Ordering::Relaxed) {
            false => self.inner.take(visit),
            true => Err(TransportError::Refused {
                transport: "flaky",
                attempt: "receive".to_owned(),
                reason: "the network is down".to_owned(),
            }),
        }
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<bool, TransportError> {
        self.inner.wait(limit)
    }
}

#[test]
fn a_route_that_has_failed_begins_anew_with_the_next_table() {
    let mut bridge = Bridge::new();
    let is_down = Arc::new(AtomicBool::new(true));
    let flaky = FlakyTransport {
        inner: bridge.inside.clone(),
        is_down: Arc::clone(&is_down),
    };
    bridge.router = Router::between(BTreeMap::new(), Arc::new(Monotonic));
    let added = bridge
        .router
        .add_space("inside", || Ok::<_, ()>(Box::new(flaky)));
    added.unwrap();
    let outside = Box::new(bridge.outside.clone());
    let added = bridge.router.add_space("outside", || Ok::<_, ()>(outside));
    added.unwrap();
    let mut video = topic("video");
    video.subscribers = 2;
    let table = table([route(&video, None)]);
    bridge.router.replace(&table).unwrap();
    while bridge.router.status()[0].failure.is_none() {
        std::thread::yield_now();
    }
    is_down.store(false, Ordering::Relaxed);
    bridge.router.replace(&table).unwrap();
    assert_eq!(bridge.router.status()[0].failure, None);
    let mut subscriber = bridge.subscriber(&video);
    bridge.publisher(&video).publish(b"x").unwrap();
    assert_eq!(take(&mut subscriber, 1).len(), 1);
}
