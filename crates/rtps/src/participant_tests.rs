//! Participants that discover each other over a network that loses datagrams, in virtual time.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

use proptest::prelude::*;
use tailbound_time::{Duration, Instant};

use crate::{
    DiscoveryEffects, EndpointQualities, EndpointRecord, EntityId, GuidPrefix, MatchChange,
    Participant, ParticipantSettings, discovery_group,
};

const DOMAIN: u16 = 5;

fn address(number: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7_000 + u16::from(number))
}

fn prefix(number: u8) -> GuidPrefix {
    GuidPrefix([number; 12])
}

fn endpoint(participant: u8, entity: EntityId, topic: &str, reliable: bool) -> EndpointRecord {
    EndpointRecord {
        guid: prefix(participant).with(entity),
        topic: topic.to_owned(),
        type_name: "bytes".to_owned(),
        qualities: EndpointQualities::of(reliable),
        history: 1,
        address: Some(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9_000)),
    }
}

/// Participants, the datagrams on their way, and the changes that each has heard of.
struct DiscoveryNetwork {
    now: Instant,
    participants: Vec<Participant>,
    changes: Vec<Vec<MatchChange>>,
    underway: VecDeque<(SocketAddrV4, Vec<u8>)>,
    losses: Vec<bool>,
}

impl DiscoveryNetwork {
    fn of(count: u8, losses: Vec<bool>) -> Self {
        let now = Instant::from_nanos(1);
        let participant = |number| {
            let settings = ParticipantSettings {
                prefix: prefix(number),
                domain: DOMAIN,
                address: address(number),
            };
            Participant::new(&settings, now)
        };
        Self {
            now,
            participants: (0..count).map(participant).collect(),
            changes: (0..count).map(|_| Vec::new()).collect(),
            underway: VecDeque::new(),
            losses,
        }
    }

    fn act(&mut self, place: usize, act: impl FnOnce(&mut Participant, &mut DiscoveryEffects)) {
        let mut effects = DiscoveryEffects::default();
        act(&mut self.participants[place], &mut effects);
        self.changes[place].extend(effects.matches);
        self.underway.extend(effects.datagrams);
    }

    fn add(&mut self, place: usize, endpoint: EndpointRecord) {
        let now = self.now;
        self.act(place, |participant, effects| {
            participant.add_endpoint(now, endpoint, effects);
        });
    }

    fn deliver(&mut self) {
        while let Some((to, datagram)) = self.underway.pop_front() {
            for place in 0..self.participants.len() {
                let is_own = to == address(place as u8) || to == discovery_group(DOMAIN);
                if is_own && !self.losses.pop().unwrap_or(false) {
                    let now = self.now;
                    self.act(place, |participant, effects| {
                        participant.receive(now, &datagram, effects);
                    });
                }
            }
        }
    }

    /// Lets time pass.
    fn run(&mut self, length: Duration) {
        let end = self.now + length;
        loop {
            self.deliver();
            let due = self
                .participants
                .iter()
                .map(Participant::next_due)
                .min()
                .unwrap();
            if due > end {
                break;
            }
            self.now = self.now.max(due);
            let now = self.now;
            for place in 0..self.participants.len() {
                self.act(place, |participant, effects| {
                    participant.elapse(now, effects)
                });
            }
        }
        self.now = end;
    }
}

fn is_reader_match(change: &MatchChange) -> bool {
    matches!(change, MatchChange::ReaderMatched { .. })
}

#[test]
fn both_ends_of_a_topic_hear_of_each_other_whichever_comes_first() {
    for early in [true, false] {
        let mut network = DiscoveryNetwork::of(2, Vec::new());
        if !early {
            network.run(Duration::from_secs(1));
        }
        network.add(0, endpoint(0, EntityId::user_writer(1), "people", true));
        network.add(1, endpoint(1, EntityId::user_reader(1), "people", true));
        network.add(1, endpoint(1, EntityId::user_reader(2), "others", true));
        network.run(Duration::from_secs(1));
        let [ReaderChange(reader)] = changes(&network.changes[0])[..] else {
            panic!("{:?}", network.changes[0]);
        };
        assert_eq!(reader, prefix(1).with(EntityId::user_reader(1)));
        assert_eq!(network.changes[1].len(), 1);
        assert_eq!(network.participants[0].endpoints(), 2);
    }
}

struct ReaderChange(crate::Guid);

fn changes(all: &[MatchChange]) -> Vec<ReaderChange> {
    let readers = all.iter().filter_map(|change| match change {
        MatchChange::ReaderMatched { reader, .. } => Some(ReaderChange(reader.guid)),
        _ => None,
    });
    readers.collect()
}

#[test]
fn both_ends_of_a_topic_within_a_participant_match() {
    let mut network = DiscoveryNetwork::of(1, Vec::new());
    network.add(0, endpoint(0, EntityId::user_reader(1), "people", false));
    network.add(0, endpoint(0, EntityId::user_writer(2), "people", true));
    assert_eq!(network.changes[0].len(), 2);
    assert!(is_reader_match(&network.changes[0][0]));
    let now = network.now;
    network.act(0, |participant, effects| {
        participant.remove_endpoint(now, EntityId::user_writer(2), effects);
    });
    assert!(matches!(
        network.changes[0][2],
        MatchChange::WriterGone { .. }
    ));
}

#[test]
fn a_best_effort_writer_does_not_match_a_reliable_reader() {
    let mut network = DiscoveryNetwork::of(2, Vec::new());
    network.add(0, endpoint(0, EntityId::user_writer(1), "people", false));
    network.add(1, endpoint(1, EntityId::user_reader(1), "people", true));
    network.run(Duration::from_secs(1));
    assert!(network.changes.iter().all(Vec::is_empty));
    assert_eq!(network.participants[1].counts().mismatches, 1);
}

#[test]
fn an_endpoint_and_a_participant_that_end_are_gone() {
    let mut network = DiscoveryNetwork::of(2, Vec::new());
    network.add(0, endpoint(0, EntityId::user_writer(1), "people", true));
    network.add(1, endpoint(1, EntityId::user_reader(1), "people", true));
    network.run(Duration::from_secs(1));
    let now = network.now;
    network.act(1, |participant, effects| {
        participant.remove_endpoint(now, EntityId::user_reader(1), effects);
    });
    network.run(Duration::from_secs(1));
    assert!(matches!(
        network.changes[0][1],
        MatchChange::ReaderGone { .. }
    ));
    assert_eq!(network.participants[0].participants(), 1);
    network.act(1, |participant, effects| participant.end(effects));
    network.deliver();
    assert_eq!(network.participants[0].participants(), 0);
}

#[test]
fn a_participant_that_falls_silent_is_gone_after_its_lease() {
    let mut network = DiscoveryNetwork::of(2, Vec::new());
    network.add(0, endpoint(0, EntityId::user_writer(1), "people", true));
    network.add(1, endpoint(1, EntityId::user_reader(1), "people", true));
    network.run(Duration::from_secs(60));
    assert_eq!(network.participants[0].participants(), 1);
    let mut silent = network.participants.pop().unwrap();
    network.run(Duration::from_secs(5));
    assert_eq!(network.participants[0].participants(), 1);
    network.run(Duration::from_secs(10));
    assert_eq!(network.participants[0].participants(), 0);
    assert!(matches!(
        network.changes[0][1],
        MatchChange::ReaderGone { .. }
    ));
    // The one that was silent comes back.
    silent.elapse(network.now, &mut DiscoveryEffects::default());
    network.participants.push(silent);
    network.run(Duration::from_secs(10));
    assert!(is_reader_match(&network.changes[0][2]));
}

#[test]
fn participants_of_another_domain_and_garbage_are_passed_over() {
    let mut network = DiscoveryNetwork::of(1, Vec::new());
    let settings = ParticipantSettings {
        prefix: prefix(9),
        domain: DOMAIN + 1,
        address: address(9),
    };
    let mut elsewhere = Participant::new(&settings, network.now);
    let mut effects = DiscoveryEffects::default();
    elsewhere.elapse(network.now, &mut effects);
    let now = network.now;
    let (_, announcement) = effects.datagrams.remove(0);
    network.act(0, |participant, effects| {
        participant.receive(now, &announcement, effects);
        participant.receive(now, b"garbage", effects);
        participant.receive(now, &announcement[..60], effects);
    });
    assert_eq!(network.participants[0].participants(), 0);
    let counts = network.participants[0].counts();
    assert_eq!((counts.foreign, counts.malformed), (1, 1));
    assert!(network.underway.is_empty());
}

proptest! {
    #[test]
    fn discovery_outlasts_losses(
        losses in prop::collection::vec(any::<bool>(), 0..150),
        removed in any::<bool>(),
    ) {
        let mut network = DiscoveryNetwork::of(3, losses);
        network.add(0, endpoint(0, EntityId::user_writer(1), "people", true));
        network.add(1, endpoint(1, EntityId::user_reader(1), "people", true));
        network.run(Duration::from_millis(500));
        network.add(2, endpoint(2, EntityId::user_reader(1), "people", false));
        if removed {
            let now = network.now;
            network.act(1, |participant, effects| {
                participant.remove_endpoint(now, EntityId::user_reader(1), effects);
            });
        }
        network.run(Duration::from_secs(60));
        prop_assert_eq!(network.participants[0].participants(), 2);
        let expected = match removed {
            true => 1,
            false => 2,
        };
        prop_assert_eq!(network.participants[0].endpoints(), expected);
        prop_assert_eq!(network.participants[2].endpoints(), expected);
    }

    #[test]
    fn arbitrary_datagrams_make_no_participant(bytes in any::<Vec<u8>>()) {
        let mut network = DiscoveryNetwork::of(1, Vec::new());
        let mut datagram = b"RTPS\x02\x03\0\0............".to_vec();
        datagram.extend_from_slice(&bytes);
        let now = network.now;
        network.act(0, |participant, effects| participant.receive(now, &datagram, effects));
        prop_assert_eq!(network.participants[0].participants(), 0);
    }
}
