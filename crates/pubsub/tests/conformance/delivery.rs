//! Messages that arrive: order, sizes, history, who gets them.

use std::sync::{Arc, Mutex};

use tailbound_pubsub::Subscriber;
use tailbound_pubsub::messages::SubscriberEvent;
use tailbound_time::Duration;

use super::TransportMaker;
use super::stage::{
    acquaint, expect_event, pair, settle, space, take_all, take_count, topic, until,
};

pub fn messages_arrive_in_order(maker: &dyn TransportMaker) {
    let space = space(maker);
    let (mut publisher, mut subscriber) = pair(&space, &topic("order"));
    for round in 0..20_u8 {
        for number in 0..8 {
            publisher.publish(&[round * 8 + number]).unwrap();
        }
        let messages = take_count(&mut subscriber, 8);
        for (place, (header, payload)) in (0_u8..).zip(&messages) {
            assert_eq!(payload, &[round * 8 + place]);
            assert_eq!(header.sequence, u64::from(round * 8 + place));
            assert_eq!(header.source, publisher.source());
            assert_eq!(header.origin_time, header.source_time);
        }
        assert_eq!(messages.len(), 8);
    }
    assert_eq!(subscriber.counts().lost, 0);
}

pub fn messages_of_all_sizes_arrive_whole(maker: &dyn TransportMaker) {
    let longest = maker.make().traits().longest.min(65_536);
    let mut topic = topic("sizes");
    topic.longest = longest;
    topic.quality.history = 4;
    let space = space(maker);
    let (mut publisher, mut subscriber) = pair(&space, &topic);
    for size in [
        0, 1, 63, 64, 1_000, 1_472, 1_500, 9_000, 65_443, 65_444, 65_507, 65_536,
    ] {
        let size = size.min(longest);
        let payload = (0..size)
            .map(|place| (place * 7 + size) as u8)
            .collect::<Vec<_>>();
        publisher.publish(&payload).unwrap();
        let messages = take_count(&mut subscriber, 1);
        assert!(messages[0].1 == payload, "{size} bytes came back otherwise");
    }
    let error = publisher.publish(&vec![0; longest + 1]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&format!("at most {longest} fit")),
        "{error}"
    );
}

pub fn the_newest_messages_wait(maker: &dyn TransportMaker) {
    let mut topic = topic("history");
    topic.quality.history = 3;
    let space = space(maker);
    let (mut publisher, mut subscriber) = pair(&space, &topic);
    for number in 0..10_u8 {
        publisher.publish(&[number]).unwrap();
    }
    settle(maker);
    let numbers = take_all(&mut subscriber);
    let numbers = numbers
        .iter()
        .map(|(_, payload)| payload[0])
        .collect::<Vec<_>>();
    assert_eq!(numbers, [7, 8, 9]);
    let source = publisher.source();
    expect_event(
        &mut subscriber,
        SubscriberEvent::MessagesLost {
            source,
            messages: 7,
        },
    );
    assert_eq!(subscriber.counts().lost, 7);
}

pub fn a_wait_lasts_until_a_message_comes_or_its_limit(maker: &dyn TransportMaker) {
    let (mut publisher, mut subscriber) = pair(&space(maker), &topic("wait"));
    for limit in [None, Some(Duration::from_secs(20))] {
        assert!(!subscriber.wait(Some(Duration::from_micros(10))).unwrap());
        let thread = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            publisher.publish(b"late").unwrap();
            publisher
        });
        assert!(subscriber.wait(limit).unwrap());
        publisher = thread.join().unwrap();
        publisher.publish(b"after the wait").unwrap();
        let messages = take_count(&mut subscriber, 2);
        assert_eq!(messages[0].1, b"late");
        assert_eq!(messages[1].1, b"after the wait");
    }
}

pub fn the_newest_message_ends_a_wait(maker: &dyn TransportMaker) {
    let space = space(maker);
    let mut topic = topic("newest");
    topic.quality.history = 1;
    let (mut publisher, mut subscriber) = pair(&space, &topic);
    for number in 0..10_u8 {
        publisher.publish(&[number]).unwrap();
    }
    settle(maker);
    // A transport may take a subscriber that was here just now for one that has seen everything.
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert!(subscriber.wait(None).unwrap());
    let numbers = take_all(&mut subscriber);
    assert_eq!(numbers.len(), 1);
    assert_eq!(numbers[0].1, [9]);
}

pub fn two_publishers_have_their_own_order(maker: &dyn TransportMaker) {
    let mut topic = topic("two-publishers");
    topic.publishers = 2;
    let space = space(maker);
    let (mut first, mut subscriber) = pair(&space, &topic);
    let mut second = space.publisher(&topic).unwrap();
    acquaint(&mut second, &mut subscriber);
    for number in 0..4_u8 {
        first.publish(&[number]).unwrap();
        second.publish(&[100 + number]).unwrap();
    }
    let messages = take_count(&mut subscriber, 8);
    for (publisher, base) in [(&first, 0), (&second, 100)] {
        let own = messages
            .iter()
            .filter(|(header, _)| header.source == publisher.source());
        let own = own.map(|(_, payload)| payload[0]).collect::<Vec<_>>();
        assert_eq!(own, (base..base + 4).collect::<Vec<_>>());
    }
    assert_eq!(subscriber.counts().lost, 0);
}

pub fn sixteen_subscribers_get_everything(maker: &dyn TransportMaker) {
    let mut topic = topic("sixteen");
    topic.subscribers = 16;
    let (publishing, subscribing) = (space(maker), space(maker));
    let mut subscribers: Vec<Subscriber> = (0..16)
        .map(|_| subscribing.subscriber(&topic).unwrap())
        .collect();
    let mut publisher = publishing.publisher(&topic).unwrap();
    for subscriber in &mut subscribers {
        acquaint(&mut publisher, subscriber);
    }
    settle(maker);
    for number in 0..4_u8 {
        publisher.publish(&[number; 8]).unwrap();
    }
    for subscriber in &mut subscribers {
        let messages = take_count(subscriber, 4);
        let numbers = messages
            .iter()
            .map(|(_, payload)| payload[0])
            .collect::<Vec<_>>();
        assert_eq!(numbers, [0, 1, 2, 3]);
    }
}

pub fn a_late_subscriber_misses_nothing_that_follows(maker: &dyn TransportMaker) {
    let mut topic = topic("late");
    topic.subscribers = 2;
    let space = space(maker);
    let (mut publisher, mut early) = pair(&space, &topic);
    for _ in 0..3 {
        publisher.publish(b"before").unwrap();
    }
    assert_eq!(take_count(&mut early, 3).len(), 3);
    let mut late = space.subscriber(&topic).unwrap();
    acquaint(&mut publisher, &mut late);
    publisher.publish(b"after").unwrap();
    let messages = take_count(&mut late, 1);
    assert_eq!(messages[0].1, b"after");
    assert_eq!(messages[0].0.sequence, 3);
    assert_eq!(late.counts().lost, 0);
    assert_eq!(take_count(&mut early, 1)[0].1, b"after");
}

pub fn a_thread_calls_back(maker: &dyn TransportMaker) {
    let space = space(maker);
    let (mut publisher, subscriber) = pair(&space, &topic("callback"));
    let messages = Arc::new(Mutex::new(Vec::new()));
    let events = Arc::new(Mutex::new(Vec::new()));
    let (message_log, event_log) = (Arc::clone(&messages), Arc::clone(&events));
    let thread = subscriber.on_message(
        move |message| message_log.lock().unwrap().push(message.payload.to_vec()),
        move |event| event_log.lock().unwrap().push(*event),
    );
    let thread = thread.unwrap();
    publisher.publish(b"one").unwrap();
    until("the callback has the first message", || {
        messages.lock().unwrap().len() == 1
    });
    publisher.publish(b"two").unwrap();
    until("the callback has the second message", || {
        messages.lock().unwrap().len() == 2
    });
    assert_eq!(*messages.lock().unwrap(), [b"one", b"two"]);
    let source = publisher.source();
    drop(publisher);
    until("the callback hears of the end", || {
        events
            .lock()
            .unwrap()
            .contains(&SubscriberEvent::PublisherEnded { source })
    });
    thread.end().unwrap();
}

pub fn many_topics_stand_apart(maker: &dyn TransportMaker) {
    let space = space(maker);
    let topics = (0..maker.topics()).map(|number| topic(&format!("many-{number}")));
    let mut pairs = topics
        .map(|topic| {
            (
                space.publisher(&topic).unwrap(),
                space.subscriber(&topic).unwrap(),
            )
        })
        .collect::<Vec<_>>();
    let some = pairs.len().min(50);
    let step = pairs.len() / some.max(1);
    for (number, (publisher, subscriber)) in pairs.iter_mut().step_by(step.max(1)).enumerate() {
        acquaint(publisher, subscriber);
        publisher.publish(&number.to_le_bytes()).unwrap();
        assert_eq!(take_count(subscriber, 1)[0].1, number.to_le_bytes());
    }
    for (_, subscriber) in &mut pairs {
        assert!(take_all(subscriber).is_empty());
    }
}
