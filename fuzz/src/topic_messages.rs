//! What arrives at a subscriber of a topic: datagrams, fragments, headers, and messages of whatever publishers.

use tailbound_messages::{
    Contract, ExcessRule, Judgement, Liveliness, MessageHeader, MessageKind, Quality, Reception,
    ReceptionTerms,
};
use tailbound_pubsub::udp::fragment::{Fragment, FragmentAssembly};
use tailbound_time::{Duration, Instant};

const TOPIC: u64 = 5;
const LONGEST: usize = 64;

/// Headers and heads of fragments return from their bytes; nothing that arrives makes a subscriber fail, deliver what is too
/// long, wait for an instant that passed, or keep an event for ever.
pub fn check(bytes: &[u8]) {
    returns(bytes);
    let Some((&shape, rest)) = bytes.split_first() else {
        return;
    };
    let mut subscriber = FuzzedSubscriber::new(shape);
    for step in rest.chunks(8) {
        subscriber.step(step);
    }
}

fn returns(bytes: &[u8]) {
    if let Ok((header, payload)) = MessageHeader::decode(bytes) {
        let written = [&header.encode(), payload].concat();
        assert_eq!(MessageHeader::decode(&written), Ok((header, payload)));
    }
    if let Some((head, part)) = Fragment::decode(bytes) {
        let written = [&head.encode(), part].concat();
        assert_eq!(Fragment::decode(&written), Some((head, part)));
        let mut assembly = FragmentAssembly::new(2, LONGEST);
        assert!(
            assembly
                .add(&head, part)
                .is_none_or(|message| message.len() <= LONGEST)
        );
    }
}

/// A reception, and the time at it.
struct FuzzedSubscriber {
    reception: Reception,
    now: Instant,
}

impl FuzzedSubscriber {
    fn new(shape: u8) -> Self {
        let rule = if shape & 1 == 0 {
            ExcessRule::Drop
        } else {
            ExcessRule::HoldBack
        };
        let contract = Contract {
            messages: u32::from(shape >> 5) + 1,
            bytes: Some(100),
            interval: Duration::from_nanos(50),
            least_distance: Duration::from_nanos(u64::from(shape >> 6)),
            violation: rule,
        };
        let lease = Duration::from_nanos(90);
        let quality = Quality {
            history: 3,
            deadline: (shape & 2 != 0).then_some(Duration::from_nanos(30)),
            lifespan: (shape & 4 != 0).then_some(Duration::from_nanos(200)),
            liveliness: (shape & 8 != 0).then_some(Liveliness { lease }),
            ..Quality::default()
        };
        let terms = ReceptionTerms {
            topic: TOPIC,
            longest: LONGEST,
            publishers: 2,
            quality,
            contract: (shape & 16 != 0).then_some(contract),
        };
        let now = Instant::ORIGIN;
        let reception = Reception::new(terms, now).expect("the contract has a meaning");
        Self { reception, now }
    }

    /// Some time, then a message that the bytes say, or a look at which nothing waits.
    fn step(&mut self, step: &[u8]) {
        let byte = |place: usize| u64::from(step.get(place).copied().unwrap_or(0));
        self.now = self.now.saturating_add(Duration::from_nanos(byte(0)));
        let kinds = [
            MessageKind::Data,
            MessageKind::Dispose,
            MessageKind::Alive,
            MessageKind::Farewell,
        ];
        let payload = &[7; 2 * LONGEST][..(byte(1) as usize).min(2 * LONGEST)];
        let far = if byte(2) > 250 { u64::MAX - 2 } else { 0 };
        let header = MessageHeader {
            kind: kinds[(byte(3) % 4) as usize],
            hops_left: 0,
            topic: TOPIC + byte(4) / 250,
            source: byte(5) % 5,
            sequence: byte(6).saturating_add(far),
            instance: 0,
            source_time: Instant::from_nanos((byte(7) * 40).saturating_add(far)),
            origin_time: Instant::ORIGIN,
            payload_length: payload.len() as u32,
        };
        let judgement = self.reception.receive(self.now, &header, payload);
        assert!(judgement != Judgement::Deliver || payload.len() <= LONGEST);
        if byte(3) & 4 == 0 {
            return;
        }
        while let Some((_, payload)) = self.reception.release(self.now) {
            assert!(payload.len() <= LONGEST);
        }
        self.reception.note_idle(self.now);
        let due = self.reception.next_due(self.now);
        assert!(
            due.is_none_or(|due| due > self.now),
            "{due:?} at {:?}",
            self.now
        );
        let events = (0..100).take_while(|_| self.reception.take_event().is_some());
        assert!(events.count() < 100 && !self.reception.has_event());
    }
}
