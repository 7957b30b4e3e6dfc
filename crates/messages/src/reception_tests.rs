//! Receptions, message by message, with instants from outside.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tailbound_time::{Duration, Instant};

use crate::*;

const TOPIC: u64 = 5;

fn terms(publishers: u32) -> ReceptionTerms {
    ReceptionTerms {
        topic: TOPIC,
        longest: 8,
        publishers,
        quality: Quality::default(),
        contract: None,
    }
}

fn contract(violation: ExcessRule) -> Contract {
    Contract {
        messages: 2,
        bytes: None,
        interval: Duration::from_nanos(100),
        least_distance: Duration::ZERO,
        violation,
    }
}

fn at(time_ns: u64) -> Instant {
    Instant::from_nanos(time_ns)
}

fn header(kind: MessageKind, source: u64, sequence: u64, time_ns: u64) -> MessageHeader {
    MessageHeader {
        kind,
        hops_left: 1,
        topic: TOPIC,
        source,
        sequence,
        instance: 0,
        source_time: at(time_ns),
        origin_time: at(time_ns),
        payload_length: 0,
    }
}

/// Receives a value at the time at which it was sent.
fn receive(reception: &mut Reception, source: u64, sequence: u64, time_ns: u64) -> Judgement {
    let header = header(MessageKind::Data, source, sequence, time_ns);
    reception.receive(at(time_ns), &header, b"")
}

#[test]
fn gaps_are_counted_by_publisher_and_older_messages_are_refused() {
    let mut reception = Reception::new(terms(2), at(0)).unwrap();
    assert_eq!(receive(&mut reception, 1, 7, 10), Judgement::Deliver);
    assert_eq!(receive(&mut reception, 2, 0, 10), Judgement::Deliver);
    assert_eq!(receive(&mut reception, 1, 10, 20), Judgement::Deliver);
    assert_eq!(receive(&mut reception, 1, 9, 20), Judgement::Repeated);
    assert_eq!(receive(&mut reception, 2, 0, 20), Judgement::Repeated);
    // A sign of life tells that the messages before it were sent.
    let sign = header(MessageKind::Alive, 2, 4, 30);
    assert_eq!(reception.receive(at(30), &sign, b""), Judgement::Sign);
    assert_eq!(receive(&mut reception, 2, 4, 40), Judgement::Deliver);
    let events = std::iter::from_fn(|| reception.take_event()).collect::<Vec<_>>();
    let appeared = |source| SubscriberEvent::Appeared { source };
    let lost = |source, messages| SubscriberEvent::MessagesLost { source, messages };
    assert_eq!(events, [appeared(1), lost(1, 2), appeared(2), lost(2, 3)]);
    assert_eq!(reception.counts().lost, 5);
}

#[test]
fn a_new_publisher_takes_the_place_of_one_that_ended_or_fell_silent() {
    let mut reception = Reception::new(terms(1), at(0)).unwrap();
    assert_eq!(receive(&mut reception, 1, 0, 10), Judgement::Deliver);
    assert_eq!(receive(&mut reception, 2, 0, 20), Judgement::Stranger);
    let farewell = header(MessageKind::Farewell, 1, 1, 30);
    assert_eq!(reception.receive(at(30), &farewell, b""), Judgement::Sign);
    assert_eq!(receive(&mut reception, 2, 1, 40), Judgement::Deliver);
    // A second of silence, and not a nanosecond less.
    assert_eq!(
        receive(&mut reception, 3, 0, 1_000_000_040),
        Judgement::Stranger
    );
    assert_eq!(
        receive(&mut reception, 3, 1, 1_000_000_041),
        Judgement::Deliver
    );
    assert_eq!(
        receive(&mut reception, 0, 0, 1_000_000_041),
        Judgement::Stranger
    );
}

#[test]
fn a_publisher_with_a_lease_keeps_its_place_until_it_is_lost() {
    let mut terms = terms(1);
    let lease = Duration::from_secs(10);
    terms.quality.liveliness = Some(Liveliness { lease });
    let mut reception = Reception::new(terms, at(0)).unwrap();
    assert_eq!(receive(&mut reception, 1, 0, 0), Judgement::Deliver);
    assert_eq!(reception.next_due(at(0)), Some(at(10_000_000_001)));
    assert_eq!(
        receive(&mut reception, 2, 0, 9_000_000_000),
        Judgement::Stranger
    );
    reception.note_idle(at(10_000_000_001));
    assert_eq!(
        receive(&mut reception, 2, 1, 10_000_000_001),
        Judgement::Deliver
    );
}

#[test]
fn one_who_polls_late_accuses_nobody() {
    let mut terms = terms(1);
    terms.contract = Some(contract(ExcessRule::Drop));
    terms.quality.deadline = Some(Duration::from_nanos(60));
    let mut reception = Reception::new(terms, at(0)).unwrap();
    // Sent in time, taken all at once.
    for sequence in 0..20 {
        let header = header(MessageKind::Data, 1, sequence, sequence * 50);
        assert_eq!(
            reception.receive(at(2_000), &header, b""),
            Judgement::Deliver
        );
    }
    let source = 1;
    assert_eq!(
        reception.take_event(),
        Some(SubscriberEvent::Appeared { source })
    );
    assert_eq!(reception.take_event(), None);
    // The last one was sent at 950, so 17 deadlines of 60 ns passed since.
    reception.note_idle(at(2_000));
    let missed = SubscriberEvent::DeadlineMissed { source, times: 17 };
    assert_eq!(reception.take_event(), Some(missed));
}

#[test]
fn a_burst_with_stamps_of_the_past_gains_one_interval() {
    let mut terms = terms(1);
    terms.contract = Some(contract(ExcessRule::Drop));
    let mut reception = Reception::new(terms, at(0)).unwrap();
    reception.note_idle(at(10_000));
    // As if two an interval had been sent since the beginning.
    let burst = (0..200).map(|sequence| {
        let header = header(MessageKind::Data, 1, sequence, sequence * 50);
        reception.receive(at(10_000), &header, b"")
    });
    let delivered = burst
        .filter(|judgement| *judgement == Judgement::Deliver)
        .count();
    // Two as if sent just one interval before the look, at 9,900, and none within the interval that follows.
    assert_eq!(delivered, 2);
}

#[test]
fn a_message_exactly_at_its_deadline_is_in_time() {
    let mut terms = terms(1);
    terms.quality.deadline = Some(Duration::from_nanos(60));
    let mut reception = Reception::new(terms, at(0)).unwrap();
    assert_eq!(receive(&mut reception, 1, 0, 0), Judgement::Deliver);
    let _ = reception.take_event();
    for (look_ns, missed) in [(60, None), (120, Some(1)), (121, Some(1)), (300, Some(2))] {
        reception.note_idle(at(look_ns));
        let event = reception.take_event();
        let expected = missed.map(|times| SubscriberEvent::DeadlineMissed { source: 1, times });
        assert_eq!(event, expected, "at {look_ns}");
    }
}

#[test]
fn of_messages_held_back_the_newest_stay() {
    let mut terms = terms(1);
    terms.contract = Some(contract(ExcessRule::HoldBack));
    terms.quality.history = 2;
    let mut reception = Reception::new(terms, at(0)).unwrap();
    for sequence in 0..6 {
        receive(&mut reception, 1, sequence, 10);
    }
    let sequences = [(); 2].map(|()| reception.release(at(110)).unwrap().0.sequence);
    assert_eq!(sequences, [4, 5]);
    assert_eq!(
        (reception.counts().held_back, reception.counts().dropped),
        (4, 2)
    );
}

#[test]
fn a_message_that_is_held_back_is_not_overtaken() {
    let mut terms = terms(1);
    terms.contract = Some(contract(ExcessRule::HoldBack));
    terms.quality.history = 2;
    let mut reception = Reception::new(terms, at(0)).unwrap();
    for (sequence, expected) in [
        (0, Judgement::Deliver),
        (1, Judgement::Deliver),
        (2, Judgement::HoldBack),
    ] {
        assert_eq!(receive(&mut reception, 1, sequence, 10), expected);
    }
    assert!(reception.release(at(109)).is_none());
    assert_eq!(reception.next_due(at(20)), Some(at(110)));
    // The contract would admit it, but an older message waits.
    assert_eq!(receive(&mut reception, 1, 3, 115), Judgement::HoldBack);
    let sequences = [at(115), at(115)].map(|time| reception.release(time).unwrap().0.sequence);
    assert_eq!(sequences, [2, 3]);
    assert!(reception.release(at(1_000)).is_none());
}

#[derive(Clone, Copy, Debug)]
struct ReceptionStep {
    wait_ns: u64,
    source: u64,
    sequence: u64,
    claimed_ns: u64,
    idle: bool,
}

fn steps() -> impl Strategy<Value = Vec<ReceptionStep>> {
    let step = (0_u64..40, 1_u64..4, 0_u64..4, 0_u64..2_000, any::<bool>());
    let step = step.prop_map(
        |(wait_ns, source, sequence, claimed_ns, idle)| ReceptionStep {
            wait_ns,
            source,
            sequence,
            claimed_ns,
            idle,
        },
    );
    prop::collection::vec(step, 1..200)
}

proptest! {
    /// Whatever a publisher claims of its time, and under however many numbers it sends: within any time between two looks
    /// at which nothing waits, it gets what its contract admits in that time and one interval more.
    #[test]
    fn lies_about_time_gain_an_interval_at_most(steps in steps()) {
        let mut terms = terms(1);
        terms.contract = Some(contract(ExcessRule::Drop));
        let mut reception = Reception::new(terms, at(0)).unwrap();
        let (mut now_ns, mut sequence, mut idle_ns, mut delivered) = (0, 0, 0, 0);
        for step in steps {
            now_ns += step.wait_ns;
            if step.idle {
                reception.note_idle(at(now_ns));
                (idle_ns, delivered) = (now_ns, 0);
            }
            sequence += step.sequence + 1;
            let header = header(MessageKind::Data, step.source, sequence, step.claimed_ns);
            if reception.receive(at(now_ns), &header, b"") == Judgement::Deliver {
                delivered += 1;
            }
            let intervals = (now_ns - idle_ns) / 100 + 2;
            prop_assert!(delivered <= intervals * 2, "{} in {} ns", delivered, now_ns - idle_ns);
        }
    }

    /// Every message has one counter, and no sequence of messages, garbage and looks makes the reception panic or hold more
    /// than it has room for.
    #[test]
    fn every_message_is_counted_once(steps in steps(), holds in any::<bool>()) {
        let mut terms = terms(2);
        let rule = if holds { ExcessRule::HoldBack } else { ExcessRule::Drop };
        terms.contract = Some(contract(rule));
        terms.quality.history = 3;
        terms.quality.lifespan = Some(Duration::from_nanos(150));
        terms.quality.deadline = Some(Duration::from_nanos(30));
        terms.quality.liveliness = Some(Liveliness { lease: Duration::from_nanos(70) });
        let mut reception = Reception::new(terms, at(0)).unwrap();
        let (mut now_ns, mut released) = (0, 0);
        let mut delivered = 0_u64;
        for (place, step) in (0_u64..).zip(&steps) {
            now_ns += step.wait_ns;
            let kinds = [MessageKind::Data, MessageKind::Dispose, MessageKind::Alive, MessageKind::Farewell];
            let kind = kinds[(step.claimed_ns % 9).min(3) as usize];
            let header = header(kind, step.source, place + step.sequence, step.claimed_ns);
            delivered += u64::from(reception.receive(at(now_ns), &header, b"12345678") == Judgement::Deliver);
            while step.idle && reception.release(at(now_ns)).is_some() {
                released += 1;
            }
            if step.idle {
                reception.note_idle(at(now_ns));
                prop_assert!(reception.next_due(at(now_ns)).is_none_or(|due| due > at(now_ns)));
            }
        }
        let counts = reception.counts();
        let refused = counts.of_other_topics + counts.too_long + counts.of_strangers + counts.repeated;
        prop_assert_eq!(counts.delivered, delivered + released);
        let judged = delivered + counts.signs + counts.held_back + refused;
        let judged_or_dropped = judged + counts.dropped + counts.expired;
        prop_assert!(judged <= steps.len() as u64 && judged_or_dropped >= steps.len() as u64);
        while reception.take_event().is_some() {}
        prop_assert!(!reception.has_event());
    }
}
