//! What data spaces do whatever the transport.

use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::messages::{Contract, ExcessRule};
use tailbound_pubsub::{DataOrigin, DataSpace, InProcess, Topic, WallClock};
use tailbound_time::{Clock, ClockId, Duration, Instant};

#[test]
fn the_age_of_data_passes_from_message_to_message() {
    let space = DataSpace::over(Box::new(InProcess::default()), Arc::new(Monotonic));
    let topic = Topic::new("fusion", "bytes", 8);
    let mut subscriber = space.subscriber(&topic).unwrap();
    let mut publisher = space.publisher(&topic).unwrap();
    let (camera, radar) = (Instant::from_nanos(500), Instant::from_nanos(300));
    let origin = DataOrigin::at(camera).or_older(DataOrigin::at(radar));
    publisher.publish_from(origin, b"track").unwrap();
    let taken = subscriber.take(|message| {
        assert_eq!(message.origin().time(), radar);
        assert_eq!(message.data_age(), message.arrival.saturating_since(radar));
        assert!(message.age() < message.data_age());
    });
    assert!(taken.unwrap());
}

#[test]
fn a_contract_without_meaning_is_refused() {
    let space = DataSpace::over(Box::new(InProcess::default()), Arc::new(Monotonic));
    let mut topic = Topic::new("people", "bytes", 8);
    topic.contract = Some(Contract {
        messages: 0,
        bytes: None,
        interval: Duration::from_millis(1),
        least_distance: Duration::ZERO,
        violation: ExcessRule::Drop,
    });
    let error = space.publisher(&topic).unwrap_err().to_string();
    assert_eq!(
        error,
        "topic `people`: the contract admits 0 messages in an interval: write 1 to 65536"
    );
    assert!(space.subscriber(&topic).is_err());
}

#[test]
fn a_wait_ends_with_its_limit() {
    let space = DataSpace::over(Box::new(InProcess::default()), Arc::new(Monotonic));
    let mut subscriber = space.subscriber(&Topic::new("people", "bytes", 8)).unwrap();
    let begin = Monotonic.now();
    assert!(!subscriber.wait(Some(Duration::from_millis(3))).unwrap());
    assert!(Monotonic.now() >= begin + Duration::from_millis(3));
}

#[test]
fn the_wall_clock_is_that_of_the_hosts() {
    assert_eq!(WallClock.id(), ClockId::Realtime);
    // It was after the year 2020 when this was written.
    assert!(WallClock.now() > Instant::from_nanos(1_577_836_800_000_000_000));
}

#[test]
fn an_event_that_nobody_takes_ends_one_wait_alone() {
    let space = DataSpace::over(Box::new(InProcess::default()), Arc::new(Monotonic));
    let topic = Topic::new("people", "bytes", 8);
    let mut subscriber = space.subscriber(&topic).unwrap();
    let mut publisher = space.publisher(&topic).unwrap();
    publisher.publish(b"1").unwrap();
    assert!(subscriber.take(|_| {}).unwrap());
    let limit = Some(Duration::from_millis(1));
    assert!(subscriber.wait(limit).unwrap(), "the publisher appeared");
    assert!(!subscriber.wait(limit).unwrap(), "nothing is new");
    assert!(subscriber.take_event().is_some());
}
