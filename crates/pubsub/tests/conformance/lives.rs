//! Lives of publishers, messages and instances.

use tailbound_pubsub::DataSpace;
use tailbound_pubsub::messages::{Liveliness, MessageKind, SubscriberEvent, instance_number};
use tailbound_time::Duration;

use super::TransportMaker;
use super::stage::{SteppedClock, expect_event, pair, settle, space, take_all, take_count, topic};

pub fn a_publisher_that_ends_says_so(maker: &dyn TransportMaker) {
    let (publisher, mut subscriber) = pair(&space(maker), &topic("farewell"));
    let source = publisher.source();
    drop(publisher);
    expect_event(&mut subscriber, SubscriberEvent::PublisherEnded { source });
}

pub fn a_silent_publisher_is_lost_after_its_lease(maker: &dyn TransportMaker) {
    let mut topic = topic("liveliness");
    let lease = Duration::from_millis(50);
    topic.quality.liveliness = Some(Liveliness { lease });
    let clock = SteppedClock::new();
    let space = DataSpace::over(maker.make(), clock.clone());
    let (mut publisher, mut subscriber) = pair(&space, &topic);
    let source = publisher.source();
    clock.advance(lease);
    assert!(take_all(&mut subscriber).is_empty());
    assert_eq!(subscriber.take_event(), None);
    clock.advance(Duration::from_nanos(1));
    expect_event(&mut subscriber, SubscriberEvent::PublisherLost { source });
    publisher.publish(b"still here").unwrap();
    assert_eq!(take_count(&mut subscriber, 1).len(), 1);
    assert_eq!(
        subscriber.take_event(),
        Some(SubscriberEvent::Appeared { source })
    );
}

pub fn a_missed_deadline_is_an_event(maker: &dyn TransportMaker) {
    let mut topic = topic("deadline");
    let deadline = Duration::from_millis(10);
    topic.quality.deadline = Some(deadline);
    let clock = SteppedClock::new();
    let space = DataSpace::over(maker.make(), clock.clone());
    let (mut publisher, mut subscriber) = pair(&space, &topic);
    for _ in 0..3 {
        publisher.publish(b"in time").unwrap();
        assert_eq!(take_count(&mut subscriber, 1).len(), 1);
        clock.advance(deadline);
    }
    publisher.publish(b"in time").unwrap();
    assert_eq!(take_count(&mut subscriber, 1).len(), 1);
    assert_eq!(subscriber.take_event(), None);
    let source = publisher.source();
    clock.advance(Duration::from_millis(25));
    expect_event(
        &mut subscriber,
        SubscriberEvent::DeadlineMissed { source, times: 2 },
    );
}

pub fn an_old_message_is_not_delivered(maker: &dyn TransportMaker) {
    let mut topic = topic("lifespan");
    topic.quality.lifespan = Some(Duration::from_millis(5));
    let clock = SteppedClock::new();
    let space = DataSpace::over(maker.make(), clock.clone());
    let (mut publisher, mut subscriber) = pair(&space, &topic);
    publisher.publish(b"too old").unwrap();
    settle(maker);
    clock.advance(Duration::from_micros(2_500));
    publisher.publish(b"young").unwrap();
    settle(maker);
    clock.advance(Duration::from_micros(2_501));
    let messages = take_count(&mut subscriber, 1);
    assert_eq!(messages[0].1, b"young");
    assert_eq!(messages.len(), 1);
    assert_eq!(
        (subscriber.counts().expired, subscriber.counts().lost),
        (1, 0)
    );
}

pub fn an_instance_is_disposed_of(maker: &dyn TransportMaker) {
    let (mut publisher, mut subscriber) = pair(&space(maker), &topic("dispose"));
    publisher
        .publish_instance(b"person 4", None, b"here")
        .unwrap();
    publisher.dispose(b"person 4").unwrap();
    let messages = take_count(&mut subscriber, 2);
    let kinds = messages
        .iter()
        .map(|(header, _)| header.kind)
        .collect::<Vec<_>>();
    assert_eq!(kinds, [MessageKind::Data, MessageKind::Dispose]);
    assert!(messages[1].1.is_empty());
    for (header, _) in &messages {
        assert_eq!(header.instance, instance_number(b"person 4"));
    }
}
