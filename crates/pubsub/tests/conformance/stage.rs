//! What the checks have in common: spaces, topics, and waiting for events with a generous bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration as Limit, Instant as Moment};

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::messages::{Contract, ExcessRule, MessageHeader, SubscriberEvent};
use tailbound_pubsub::{DataSpace, Publisher, Subscriber, Topic};
use tailbound_time::{Clock, ClockId, Duration, Instant};

use super::TransportMaker;

/// The bound of each wait for something that must happen.
const PATIENCE: Limit = Limit::from_secs(20);

/// A message that was taken.
pub type TakenMessage = (MessageHeader, Vec<u8>);

/// A clock that stands still until a check steps it; all threads see it.
#[derive(Debug)]
pub struct SteppedClock(AtomicU64);

impl SteppedClock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1_000_000_000)))
    }

    pub fn advance(&self, length: Duration) {
        self.0.fetch_add(length.as_nanos(), Ordering::SeqCst);
    }
}

impl Clock for SteppedClock {
    fn id(&self) -> ClockId {
        ClockId::Virtual
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

pub fn space(maker: &dyn TransportMaker) -> DataSpace {
    DataSpace::over(maker.make(), Arc::new(Monotonic))
}

/// A topic with room for 16 messages.
pub fn topic(name: &str) -> Topic {
    let mut topic = Topic::new(name, "bytes", 256);
    topic.quality.history = 16;
    topic
}

/// Two messages in ten milliseconds.
pub fn contract(violation: ExcessRule) -> Contract {
    Contract {
        messages: 2,
        bytes: None,
        interval: Duration::from_millis(10),
        least_distance: Duration::ZERO,
        violation,
    }
}

/// A publisher and a subscriber that know of each other.
pub fn pair(space: &DataSpace, topic: &Topic) -> (Publisher, Subscriber) {
    let mut subscriber = space.subscriber(topic).unwrap();
    let mut publisher = space.publisher(topic).unwrap();
    acquaint(&mut publisher, &mut subscriber);
    (publisher, subscriber)
}

/// Waits until signs of life of the publisher reach the subscriber, as transports need that discover each other.
pub fn acquaint(publisher: &mut Publisher, subscriber: &mut Subscriber) {
    let source = publisher.source();
    until("the subscriber hears of the publisher", || {
        publisher.assert_liveliness().unwrap();
        let _ = take_all(subscriber);
        std::iter::from_fn(|| subscriber.take_event())
            .any(|event| event == SubscriberEvent::Appeared { source })
    });
    let mut signs = subscriber.counts().signs;
    // Of the signs that are still on their way, none shall come between what a check sends.
    loop {
        std::thread::sleep(Limit::from_millis(1));
        let _ = take_all(subscriber);
        match subscriber.counts().signs == signs {
            true => break,
            false => signs = subscriber.counts().signs,
        }
    }
}

/// Waits until a condition holds; one that never does fails the check.
pub fn until(condition: &str, mut holds: impl FnMut() -> bool) {
    let begin = Moment::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {condition}");
        std::thread::sleep(Limit::from_micros(100));
    }
}

pub fn take_all(subscriber: &mut Subscriber) -> Vec<TakenMessage> {
    let mut messages = Vec::new();
    while subscriber
        .take(|message| messages.push((message.header, message.payload.to_vec())))
        .unwrap()
    {}
    messages
}

/// Takes messages until there are as many; what follows at once is taken, too.
pub fn take_count(subscriber: &mut Subscriber, count: usize) -> Vec<TakenMessage> {
    let mut messages = Vec::new();
    until(&format!("{count} messages arrive"), || {
        messages.extend(take_all(subscriber));
        messages.len() >= count
    });
    messages
}

/// Waits for an event, passes over others.
pub fn expect_event(subscriber: &mut Subscriber, expected: SubscriberEvent) {
    until(&format!("{expected:?}"), || {
        let _ = take_all(subscriber);
        std::iter::from_fn(|| subscriber.take_event()).any(|event| event == expected)
    });
}

/// Waits until everything that was sent has arrived, without taking any of it.
pub fn settle(maker: &dyn TransportMaker) {
    if !maker.delivers_at_once() {
        std::thread::sleep(Limit::from_millis(300));
    }
}
