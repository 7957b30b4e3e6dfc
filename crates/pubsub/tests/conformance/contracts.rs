//! Contracts of publishers, at both ends.

use tailbound_pubsub::messages::{Breach, ExcessRule, SubscriberEvent};
use tailbound_pubsub::{DataSpace, PublishError};
use tailbound_time::Duration;

use super::TransportMaker;
use super::stage::{SteppedClock, contract, expect_event, pair, settle, take_all, topic, until};

pub fn a_flood_gets_what_its_contract_admits(maker: &dyn TransportMaker) {
    let mut topic = topic("flood");
    topic.contract = Some(contract(ExcessRule::Drop));
    let clock = SteppedClock::new();
    let space = DataSpace::over(maker.make(), clock.clone());
    let (mut publisher, mut subscriber) = pair(&space, &topic);
    publisher.disregard_contract();
    for interval in 1..4_u64 {
        for number in 0..12_u8 {
            publisher.publish(&[number]).unwrap();
        }
        let mut delivered = Vec::new();
        until("the flood is judged", || {
            delivered.extend(take_all(&mut subscriber));
            subscriber.counts().dropped == interval * 10
        });
        let numbers = delivered
            .iter()
            .map(|(_, payload)| payload[0])
            .collect::<Vec<_>>();
        assert_eq!(numbers, [0, 1]);
        let source = publisher.source();
        let breach = Breach::Messages;
        let broken = SubscriberEvent::ContractBroken {
            source,
            messages: 10,
            breach,
        };
        expect_event(&mut subscriber, broken);
        clock.advance(Duration::from_millis(10));
    }
    assert_eq!(subscriber.counts().lost, 0);
}

pub fn messages_are_held_back_until_the_contract_admits_them(maker: &dyn TransportMaker) {
    let mut topic = topic("hold");
    topic.contract = Some(contract(ExcessRule::HoldBack));
    topic.quality.history = 4;
    let clock = SteppedClock::new();
    let space = DataSpace::over(maker.make(), clock.clone());
    let (mut publisher, mut subscriber) = pair(&space, &topic);
    publisher.disregard_contract();
    let mut delivered = Vec::new();
    let mut held_back = 0;
    for number in 0..8_u8 {
        publisher.publish(&[number]).unwrap();
        held_back += u64::from(number >= 2);
        until("the message is judged", || {
            delivered.extend(take_all(&mut subscriber));
            let judged = subscriber.counts().held_back == held_back;
            judged && delivered.len() == usize::from(number.min(1)) + 1
        });
    }
    // Of the six that were held back, the history has room for the newest four.
    settle(maker);
    for expected in [vec![4, 5], vec![6, 7], vec![]] {
        clock.advance(Duration::from_millis(10));
        let numbers = take_all(&mut subscriber);
        let numbers = numbers
            .iter()
            .map(|(_, payload)| payload[0])
            .collect::<Vec<_>>();
        assert_eq!(numbers, expected);
    }
    assert_eq!(subscriber.counts().dropped, 2);
}

pub fn a_publisher_hears_that_it_breaks_its_contract(maker: &dyn TransportMaker) {
    let mut topic = topic("own-contract");
    topic.contract = Some(contract(ExcessRule::Drop));
    let clock = SteppedClock::new();
    let space = DataSpace::over(maker.make(), clock.clone());
    let (mut publisher, mut subscriber) = pair(&space, &topic);
    publisher.publish(b"1").unwrap();
    publisher.publish(b"2").unwrap();
    let error = publisher.publish(b"3").unwrap_err();
    assert!(
        matches!(
            &error,
            PublishError::Contract {
                breach: Breach::Messages,
                ..
            }
        ),
        "{error}"
    );
    settle(maker);
    clock.advance(Duration::from_millis(10));
    publisher.publish(b"4").unwrap();
    let mut numbers = Vec::new();
    until("three messages arrive", || {
        numbers.extend(
            take_all(&mut subscriber)
                .into_iter()
                .map(|(_, payload)| payload[0]),
        );
        numbers.len() == 3
    });
    assert_eq!(numbers, *b"124");
    assert_eq!(
        (subscriber.counts().lost, subscriber.counts().dropped),
        (0, 0)
    );
}
