//! A writer and its readers over a network that loses datagrams, in virtual time.
#![allow(clippy::unwrap_used)]

use std::net::{Ipv4Addr, SocketAddrV4};

use proptest::prelude::*;
use tailbound_time::{Duration, Instant};

use crate::{
    EntityId, GuidPrefix, MatchedReader, MatchedWriter, RtpsMessage, RtpsReader, RtpsWriter,
    Submessage, octet_payload,
};

const WRITING: GuidPrefix = GuidPrefix([1; 12]);
const READING: GuidPrefix = GuidPrefix([2; 12]);

fn address(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

/// A writer and a reader, and the datagrams between them.
struct DeliveryStage {
    now: Instant,
    writer: RtpsWriter,
    reader: RtpsReader,
    to_reader: Vec<Vec<u8>>,
    to_writer: Vec<Vec<u8>>,
    delivered: Vec<u32>,
    written: u32,
    losses: Vec<bool>,
}

impl DeliveryStage {
    fn new(reliable: bool, depth: usize, losses: Vec<bool>) -> Self {
        let mut stage = Self {
            now: Instant::from_nanos(1),
            writer: RtpsWriter::new(WRITING.with(EntityId::user_writer(1)), depth),
            reader: RtpsReader::new(READING.with(EntityId::user_reader(1))),
            to_reader: Vec::new(),
            to_writer: Vec::new(),
            delivered: Vec::new(),
            written: 0,
            losses,
        };
        stage.reader.add_writer(MatchedWriter {
            guid: WRITING.with(EntityId::user_writer(1)),
            address: address(1),
            reliable,
        });
        stage.join(reliable);
        stage
    }

    fn join(&mut self, reliable: bool) {
        let reader = MatchedReader {
            guid: READING.with(EntityId::user_reader(1)),
            address: address(2),
            reliable,
        };
        let to_reader = &mut self.to_reader;
        let mut send = |_, datagram: &[u8]| to_reader.push(datagram.to_vec());
        self.writer.add_reader(self.now, reader, &mut send);
    }

    fn write(&mut self) {
        self.written += 1;
        let to_reader = &mut self.to_reader;
        let mut send = |_, datagram: &[u8]| to_reader.push(datagram.to_vec());
        let payload = self.written.to_le_bytes();
        self.writer.write(self.now, b"head", &payload, &mut send);
    }

    /// Whether the network loses the next datagram; nothing is lost once the list is used up.
    fn loses(&mut self) -> bool {
        self.losses.pop().unwrap_or(false)
    }

    /// Carries datagrams both ways until there are no more.
    fn exchange(&mut self) {
        while !self.to_reader.is_empty() || !self.to_writer.is_empty() {
            for datagram in std::mem::take(&mut self.to_reader) {
                if self.loses() {
                    continue;
                }
                let Self {
                    delivered,
                    to_writer,
                    ..
                } = self;
                let mut deliver = |delivery: crate::Delivery<'_>| {
                    let message = octet_payload::read(delivery.payload).unwrap();
                    let number = message.strip_prefix(b"head").unwrap();
                    delivered.push(u32::from_le_bytes(number.try_into().unwrap()));
                };
                let mut send = |_, datagram: &[u8]| to_writer.push(datagram.to_vec());
                self.reader
                    .receive(self.now, &datagram, &mut deliver, &mut send);
            }
            for datagram in std::mem::take(&mut self.to_writer) {
                if !self.loses() {
                    self.answer(&datagram);
                }
            }
        }
    }

    fn answer(&mut self, datagram: &[u8]) {
        let message = RtpsMessage::parse(datagram).unwrap();
        for submessage in message.submessages() {
            if let Submessage::AckNack(answer) = submessage.unwrap() {
                let to_reader = &mut self.to_reader;
                let mut send = |_, datagram: &[u8]| to_reader.push(datagram.to_vec());
                self.writer
                    .take_answer(self.now, message.source, &answer, &mut send);
            }
        }
    }

    /// Lets heartbeats come until the reader has everything. Whether it has.
    fn settle(&mut self) -> bool {
        for _ in 0..1_000 {
            self.exchange();
            let Some(due) = self.writer.heartbeat_due() else {
                break;
            };
            self.now = self.now.max(due);
            let to_reader = &mut self.to_reader;
            let mut send = |_, datagram: &[u8]| to_reader.push(datagram.to_vec());
            self.writer.elapse(self.now, &mut send);
        }
        self.writer.is_confirmed()
    }
}

#[test]
fn without_losses_a_reliable_message_costs_one_datagram() {
    let mut stage = DeliveryStage::new(true, 4, Vec::new());
    stage.exchange();
    for _ in 0..20 {
        stage.write();
        assert_eq!(stage.to_reader.len(), 1);
        stage.to_writer.clear();
        stage.exchange();
    }
    assert!(stage.settle());
    assert_eq!(stage.delivered, (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_best_effort_message_that_is_lost_stays_lost_and_none_comes_twice() {
    let mut stage = DeliveryStage::new(false, 4, Vec::new());
    stage.write();
    stage.write();
    stage.write();
    stage.to_reader.remove(1);
    let again = stage.to_reader.clone();
    stage.to_reader.extend(again);
    stage.exchange();
    assert_eq!(stage.delivered, [1, 3]);
    assert!(stage.writer.is_confirmed() && stage.writer.heartbeat_due().is_none());
}

#[test]
fn a_message_that_left_the_history_is_not_waited_for() {
    let mut stage = DeliveryStage::new(true, 2, Vec::new());
    stage.exchange();
    for _ in 0..6 {
        stage.write();
    }
    // The first four are lost, and two of them are no longer in the history when the reader asks.
    stage.to_reader.drain(..4);
    stage.exchange();
    assert!(stage.settle());
    assert_eq!(stage.delivered, [5, 6]);
}

#[test]
fn a_reader_that_comes_late_gets_nothing_from_before() {
    let mut stage = DeliveryStage::new(true, 8, Vec::new());
    for _ in 0..5 {
        stage.write();
    }
    stage.exchange();
    stage.delivered.clear();
    stage.reader = RtpsReader::new(READING.with(EntityId::user_reader(1)));
    stage.reader.add_writer(MatchedWriter {
        guid: WRITING.with(EntityId::user_writer(1)),
        address: address(1),
        reliable: true,
    });
    stage.join(true);
    // The word that the next number is 6 is lost: the reader asks for the first five, and hears that they are not for it.
    stage.to_reader.clear();
    stage.write();
    assert!(stage.settle());
    assert_eq!(stage.delivered, [6]);
}

#[test]
fn the_last_messages_of_a_writer_that_is_gone_are_delivered() {
    let mut stage = DeliveryStage::new(true, 8, Vec::new());
    stage.exchange();
    for _ in 0..4 {
        stage.write();
    }
    // The second is lost, the request for it, too, and the fourth comes when the writer is gone.
    stage.losses = vec![true, false, false];
    stage.to_reader.remove(1);
    let fourth = stage.to_reader.pop().unwrap();
    stage.exchange();
    assert_eq!(stage.delivered, [1]);
    let DeliveryStage {
        reader, delivered, ..
    } = &mut stage;
    let writer = WRITING.with(EntityId::user_writer(1));
    reader.depart(writer, &mut |_| delivered.push(3));
    stage.to_reader.push(fourth);
    stage.exchange();
    assert_eq!(stage.delivered, [1, 3, 4]);
}

#[test]
fn a_reader_that_never_answers_is_asked_ever_more_rarely() {
    let mut stage = DeliveryStage::new(true, 8, Vec::new());
    stage.write();
    let mut distances = Vec::new();
    for _ in 0..12 {
        let due = stage.writer.heartbeat_due().unwrap();
        distances.push(due.saturating_since(stage.now));
        stage.now = due;
        stage.writer.elapse(stage.now, &mut |_, _| {});
    }
    assert!(distances.is_sorted());
    assert_eq!(distances[11], Duration::from_secs(1));
}

#[test]
fn strangers_and_garbage_are_counted() {
    let mut stage = DeliveryStage::new(false, 1, Vec::new());
    let mut receive = |datagram: &[u8]| {
        let deliver = &mut |_: crate::Delivery<'_>| panic!("garbage was delivered");
        stage
            .reader
            .receive(stage.now, datagram, deliver, &mut |_, _| {});
    };
    receive(b"garbage");
    receive(b"RTPS\x03\x01\x00\x00............");
    receive(b"RTPS\x02\x03\x00\x00............\x07\x01\x04\x00....");
    receive(b"RTPS\x02\x03\x00\x00............\x16\x01\x04\x00....");
    receive(b"RTPS\x02\x03\x00\x00............\x07\x01\xff\x00....");
    let mut stranger = RtpsWriter::new(GuidPrefix([7; 12]).with(EntityId::user_writer(1)), 1);
    let reader = MatchedReader {
        guid: READING.with(EntityId::user_reader(1)),
        address: address(2),
        reliable: false,
    };
    stranger.add_reader(Instant::ORIGIN, reader, &mut |_, _| {});
    stranger.write(Instant::ORIGIN, b"", b"", &mut |_, datagram| {
        receive(datagram)
    });
    let counts = stage.reader.counts();
    assert_eq!((counts.foreign, counts.other_versions), (1, 1));
    assert_eq!((counts.malformed, counts.other_kinds), (2, 1));
    assert_eq!(counts.of_strangers, 1);
    assert_eq!(counts.total(), 6);
}

proptest! {
    #[test]
    fn a_reliable_reader_gets_every_message_once_and_in_order(
        losses in prop::collection::vec(any::<bool>(), 0..200),
        rounds in prop::collection::vec(1..20_usize, 1..12),
    ) {
        let mut stage = DeliveryStage::new(true, 1_000, losses);
        for count in rounds {
            for _ in 0..count {
                stage.write();
            }
            stage.exchange();
        }
        prop_assert!(stage.settle());
        prop_assert_eq!(&stage.delivered, &(1..=stage.written).collect::<Vec<_>>());
    }

    #[test]
    fn a_short_history_loses_messages_but_never_their_order(
        losses in prop::collection::vec(any::<bool>(), 0..200),
        rounds in prop::collection::vec(1..20_usize, 1..12),
    ) {
        let mut stage = DeliveryStage::new(true, 3, losses);
        for count in rounds {
            for _ in 0..count {
                stage.write();
            }
            stage.exchange();
        }
        prop_assert!(stage.settle());
        prop_assert!(stage.delivered.is_sorted_by(|first, second| first < second));
        // The history of the end is there.
        let end: Vec<u32> = (1..=stage.written).rev().take(3).collect();
        prop_assert!(end.iter().all(|number| stage.delivered.contains(number)));
    }
}
