//! Bad input: bytes of others, too many publishers, qualities that are not there, subscribers that do not read.

use tailbound_pubsub::messages::{
    HEADER_LENGTH, MessageHeader, MessageKind, Reliability, SubscriberEvent,
};
use tailbound_time::Instant;

use super::TransportMaker;
use super::stage::{acquaint, pair, settle, space, take_all, take_count, topic, until};

pub fn garbage_is_counted_and_passed_over(maker: &dyn TransportMaker) {
    let topic = topic("garbage");
    let (mut publisher, mut subscriber) = pair(&space(maker), &topic);
    let transport = maker.make();
    // A transport that admits no further sender has no such garbage.
    let Ok(mut sender) = transport.sender(&topic) else {
        return;
    };
    let mut header = MessageHeader {
        kind: MessageKind::Data,
        hops_left: 1,
        topic: topic.number(),
        source: publisher.source(),
        sequence: 0,
        instance: 0,
        source_time: Instant::ORIGIN,
        origin_time: Instant::ORIGIN,
        payload_length: 4,
    };
    let good = header.encode();
    let mut other_version = good;
    other_version[2] = 200;
    let mut other_kind = good;
    other_kind[3] = 99;
    header.payload_length = 5_000;
    let other_length = header.encode();
    let garbage = [
        [0xa5; HEADER_LENGTH],
        [0; HEADER_LENGTH],
        other_version,
        other_kind,
        other_length,
    ];
    until("five times garbage is refused", || {
        for bytes in &garbage {
            sender.send(bytes, b"abcd").unwrap();
        }
        settle(maker);
        assert!(take_all(&mut subscriber).is_empty());
        subscriber.counts().garbage >= 5
    });
    drop(sender);
    publisher.publish(b"good").unwrap();
    assert_eq!(take_count(&mut subscriber, 1)[0].1, b"good");
}

pub fn messages_of_another_type_are_refused(maker: &dyn TransportMaker) {
    let topic = topic("types");
    let (mut publisher, mut subscriber) = pair(&space(maker), &topic);
    let mut other = topic.clone();
    other.type_name = "other bytes".to_owned();
    match space(maker).publisher(&other) {
        Ok(mut stranger) => until("messages of another type are refused", || {
            stranger.publish(b"otherwise").unwrap();
            settle(maker);
            assert!(take_all(&mut subscriber).is_empty());
            subscriber.counts().of_other_topics > 0
        }),
        Err(error) => assert!(error.to_string().contains("types"), "{error}"),
    }
    publisher.publish(b"good").unwrap();
    assert_eq!(take_count(&mut subscriber, 1)[0].1, b"good");
}

pub fn a_publisher_too_many_is_refused(maker: &dyn TransportMaker) {
    let topic = topic("strangers");
    let space = space(maker);
    let (mut publisher, mut subscriber) = pair(&space, &topic);
    match space.publisher(&topic) {
        Ok(mut stranger) => until("the stranger is refused", || {
            stranger.publish(b"stranger").unwrap();
            publisher.publish(b"own").unwrap();
            settle(maker);
            for (header, _) in take_all(&mut subscriber) {
                assert_eq!(header.source, publisher.source());
            }
            subscriber.counts().of_strangers > 0
        }),
        Err(error) => assert!(error.to_string().contains("strangers"), "{error}"),
    }
}

pub fn qualities_that_the_transport_lacks_are_refused(maker: &dyn TransportMaker) {
    let traits = maker.make().traits();
    let space = space(maker);
    let refusal = |topic| {
        let error = space.subscriber(&topic).unwrap_err().to_string();
        assert!(space.publisher(&topic).is_err());
        assert!(error.contains(traits.name), "{error}");
        error
    };
    if !traits.reliable {
        let mut reliable = topic("reliable");
        reliable.quality.reliability = Reliability::Reliable;
        assert!(refusal(reliable).contains("best-effort"));
    }
    let mut long = topic("long");
    long.longest = traits.longest + 1;
    assert!(refusal(long).contains("bytes"));
    for history in [0, traits.history + 1] {
        let mut deep = topic("deep");
        deep.quality.history = history;
        assert!(refusal(deep).contains("history"));
    }
}

pub fn a_subscriber_that_never_reads_stops_nobody(maker: &dyn TransportMaker) {
    let mut topic = topic("idle");
    topic.subscribers = 2;
    topic.quality.history = 4;
    let space = space(maker);
    let (mut publisher, mut reader) = pair(&space, &topic);
    let mut sleeper = space.subscriber(&topic).unwrap();
    acquaint(&mut publisher, &mut sleeper);
    settle(maker);
    for number in 0..3_000_u32 {
        publisher.publish(&number.to_le_bytes()).unwrap();
        if maker.delivers_at_once() {
            assert_eq!(take_count(&mut reader, 1)[0].1, number.to_le_bytes());
        }
    }
    settle(maker);
    let messages = take_all(&mut sleeper);
    let numbers = messages
        .iter()
        .map(|(header, _)| header.sequence)
        .collect::<Vec<_>>();
    assert!(!numbers.is_empty(), "nothing waits");
    assert!(numbers.is_sorted(), "{numbers:?} are out of order");
    assert!(numbers.len() <= 4, "{numbers:?} are more than the history");
    let source = publisher.source();
    let is_loss =
        |event| matches!(event, SubscriberEvent::MessagesLost { source: of, .. } if of == source);
    assert!(std::iter::from_fn(|| sleeper.take_event()).any(is_loss));
}
