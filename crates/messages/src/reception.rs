//! The judgement of each message at a subscriber: deliver, hold back, or refuse; and the events between messages.

use tailbound_time::{Duration, Instant};

use crate::held_messages::HeldMessages;
use crate::publisher_track::{Life, PublisherTrack};
use crate::{
    Breach, Contract, ContractFault, ExcessRule, MessageHeader, MessageKind, Quality, Regulator,
    SubscriberEvent,
};

/// The silence after which a publisher gives its place to another one, where all places are taken and no liveliness is
/// agreed on. Without it, a publisher that was killed would keep its successor out for ever.
const YIELDING_SILENCE: Duration = Duration::from_secs(1);

/// What a subscriber agreed on with its publishers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceptionTerms {
    /// The topic, as in headers ([`topic_number`](crate::topic_number)).
    pub topic: u64,
    /// The longest payload, in bytes.
    pub longest: usize,
    /// The number of publishers that there is room for. Others are refused.
    pub publishers: u32,
    /// The qualities of delivery.
    pub quality: Quality,
    /// The contract of each publisher.
    pub contract: Option<Contract>,
}

/// What happens to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The subscriber gets it: a value, or the end of an instance.
    Deliver,
    /// A sign of life or a farewell, which the subscriber hears of as an event.
    Sign,
    /// It breaks the contract, and waits until the contract admits it ([`Reception::release`]).
    HoldBack,
    /// It breaks the contract, and is dropped.
    Break(Breach),
    /// It is of another topic, or of another type.
    OtherTopic,
    /// Its payload is longer than the topic admits.
    TooLong,
    /// It comes from a publisher that there is no room for.
    Stranger,
    /// It came before, or after a newer one.
    Repeated,
    /// It is older than its lifespan.
    Expired,
}

/// Messages at a subscriber, by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceptionCounts {
    /// Delivered.
    pub delivered: u64,
    /// Signs of life and farewells.
    pub signs: u64,
    /// Missing in the sequence of a publisher.
    pub lost: u64,
    /// Held back until the contract admitted them.
    pub held_back: u64,
    /// Dropped because of the contract, at once or after newer ones took the memory for those held back.
    pub dropped: u64,
    /// Of another topic or another type.
    pub of_other_topics: u64,
    /// With a payload longer than the topic admits.
    pub too_long: u64,
    /// From publishers that there was no room for.
    pub of_strangers: u64,
    /// Repeated, or overtaken by newer ones.
    pub repeated: u64,
    /// Older than their lifespan.
    pub expired: u64,
    /// No messages at all: bytes of other programs, or of other versions.
    pub garbage: u64,
}

/// Follows the publishers of a topic for one subscriber.
///
/// All memory is allocated when it is made: a place for each publisher, with a regulator and, where the contract holds
/// messages back, room for as many messages as the history has.
///
/// The receiver does not see when a message was sent, other than by its source time stamp. The stamp is believed within
/// bounds: not after now, and not earlier than one interval of the contract before the moment at which nothing waited. So a
/// subscriber that polls late accuses nobody, and a publisher that lies about its stamps gains at most one interval of its
/// contract a poll. A stamp of a clock that is not synchronised is replaced by a bound, that is, by the time of arrival.
#[derive(Debug)]
pub struct Reception {
    terms: ReceptionTerms,
    tracks: Vec<PublisherTrack>,
    idle_at: Instant,
    backdating: Duration,
    held: usize,
    counts: ReceptionCounts,
}

impl Reception {
    /// A reception that has heard of no publisher, at time `now`.
    ///
    /// # Errors
    /// If the contract has no meaning ([`Contract::check`]).
    pub fn new(terms: ReceptionTerms, now: Instant) -> Result<Self, ContractFault> {
        let tracks = (0..terms.publishers).map(|_| {
            let regulator = terms.contract.as_ref();
            let regulator = regulator.map(|contract| Regulator::new(contract, terms.longest));
            let holds = terms
                .contract
                .is_some_and(|contract| contract.violation == ExcessRule::HoldBack);
            let room = if holds {
                terms.quality.history as usize
            } else {
                0
            };
            let held = HeldMessages::new(room, terms.longest);
            Ok(PublisherTrack::new(regulator.transpose()?, held))
        });
        Ok(Self {
            tracks: tracks.collect::<Result<_, _>>()?,
            idle_at: now,
            backdating: terms
                .contract
                .map_or(Duration::ZERO, |contract| contract.interval),
            held: 0,
            counts: ReceptionCounts::default(),
            terms,
        })
    }

    /// Judges a message that arrived at `now`. One that is held back is copied.
    pub fn receive(&mut self, now: Instant, header: &MessageHeader, payload: &[u8]) -> Judgement {
        let judgement = self.judge(now, header, payload);
        let counts = &mut self.counts;
        let counter = match judgement {
            Judgement::Deliver => &mut counts.delivered,
            Judgement::Sign => &mut counts.signs,
            Judgement::HoldBack => &mut counts.held_back,
            Judgement::Break(_) => &mut counts.dropped,
            Judgement::OtherTopic => &mut counts.of_other_topics,
            Judgement::TooLong => &mut counts.too_long,
            Judgement::Stranger => &mut counts.of_strangers,
            Judgement::Repeated => &mut counts.repeated,
            Judgement::Expired => &mut counts.expired,
        };
        *counter += 1;
        judgement
    }

    /// Counts bytes that are no message.
    pub fn refuse_garbage(&mut self) {
        self.counts.garbage += 1;
    }

    /// Notes that at `now` no message waited: deadlines and leases that passed until then were missed.
    pub fn note_idle(&mut self, now: Instant) {
        self.idle_at = self.idle_at.max(now);
        let quality = self.terms.quality;
        for track in &mut self.tracks {
            if track.life != Life::Present {
                continue;
            }
            if let Some(deadline) = quality.deadline {
                track.pass_deadlines(now, deadline);
            }
            if let Some(liveliness) = quality.liveliness
                && now > track.latest_sign.saturating_add(liveliness.lease)
            {
                track.leave(Life::Lost);
            }
        }
    }

    /// The oldest message that was held back and that the contract admits now. The bytes stay until the next call.
    #[inline]
    pub fn release(&mut self, now: Instant) -> Option<(MessageHeader, &[u8])> {
        if self.held == 0 {
            return None;
        }
        let lifespan = self.terms.quality.lifespan;
        let mut place = None;
        for (candidate, track) in self.tracks.iter_mut().enumerate() {
            while let Some((header, _)) = track.held.front()
                && is_expired(now, header, lifespan)
            {
                track.held.pop();
                self.held -= 1;
                self.counts.expired += 1;
            }
            let Some((_, length)) = track.held.front() else {
                continue;
            };
            let regulator = track.regulator.as_mut();
            if regulator.is_some_and(|regulator| regulator.admit(now, length).is_ok()) {
                place = Some(candidate);
                break;
            }
        }
        let released = self.tracks[place?].held.pop();
        self.held -= 1;
        self.counts.delivered += 1;
        released
    }

    /// Whether anything can happen without a message.
    #[inline]
    pub fn has_dues(&self) -> bool {
        let quality = &self.terms.quality;
        quality.deadline.is_some() || quality.liveliness.is_some() || self.held > 0
    }

    /// The next time at which something happens without a message: a deadline or a lease ends, or a message that was held
    /// back is released.
    pub fn next_due(&self, now: Instant) -> Option<Instant> {
        let lease = self
            .terms
            .quality
            .liveliness
            .map(|liveliness| liveliness.lease);
        let one = Duration::from_nanos(1);
        let dues = self.tracks.iter().flat_map(|track| {
            let present = track.life == Life::Present;
            // Deadlines and leases end after their last instant, messages are released at theirs.
            let deadline = track
                .deadline_at
                .map(|deadline| deadline.saturating_add(one));
            let lease = lease
                .filter(|_| present)
                .map(|lease| track.latest_sign.saturating_add(lease).saturating_add(one));
            let regulator = track.regulator.as_ref();
            let release = track.held.front().zip(regulator);
            let release =
                release.and_then(|((_, length), regulator)| regulator.next_admission(now, length));
            [deadline, lease, release].into_iter().flatten()
        });
        dues.min()
    }

    /// The next event that the subscriber was not told of yet.
    pub fn take_event(&mut self) -> Option<SubscriberEvent> {
        self.tracks.iter_mut().find_map(PublisherTrack::take_event)
    }

    /// Whether there are events that the subscriber was not told of yet.
    #[inline]
    pub fn has_event(&self) -> bool {
        self.tracks.iter().any(PublisherTrack::has_event)
    }

    /// The number of events so far, taken or not; those of one kind and publisher that were not taken yet count each.
    #[inline]
    pub fn events(&self) -> u64 {
        self.tracks.iter().map(PublisherTrack::events).sum()
    }

    /// Messages so far, by what happened to them.
    pub fn counts(&self) -> ReceptionCounts {
        self.counts
    }

    fn judge(&mut self, now: Instant, header: &MessageHeader, payload: &[u8]) -> Judgement {
        if header.topic != self.terms.topic {
            return Judgement::OtherTopic;
        }
        if payload.len() > self.terms.longest {
            return Judgement::TooLong;
        }
        let Some(place) = self.place_of(now, header) else {
            return match header.kind {
                MessageKind::Farewell => Judgement::Sign,
                _ => Judgement::Stranger,
            };
        };
        let track = &mut self.tracks[place];
        if header.sequence < track.expected {
            return Judgement::Repeated;
        }
        let missing = header.sequence - track.expected;
        if missing > 0 {
            track.note_lost(missing);
            self.counts.lost = self.counts.lost.saturating_add(missing);
        }
        let earliest = self.idle_at.saturating_sub(self.backdating);
        let stamp = header.source_time.max(earliest).min(now);
        self.note_sign(place, stamp);
        let track = &mut self.tracks[place];
        match header.kind {
            MessageKind::Alive => {
                track.expected = header.sequence;
                return Judgement::Sign;
            }
            MessageKind::Farewell => {
                track.expected = header.sequence;
                track.leave(Life::Ended);
                return Judgement::Sign;
            }
            MessageKind::Data | MessageKind::Dispose => {
                track.expected = header.sequence.saturating_add(1);
            }
        }
        self.judge_value(place, now, stamp, header, payload)
    }

    /// Judges a value or the end of an instance, which is next in the sequence of its publisher.
    fn judge_value(
        &mut self,
        place: usize,
        now: Instant,
        stamp: Instant,
        header: &MessageHeader,
        payload: &[u8],
    ) -> Judgement {
        let quality = self.terms.quality;
        let track = &mut self.tracks[place];
        if let Some(deadline) = quality.deadline {
            track.pass_deadlines(stamp, deadline);
            track.deadline_at = Some(stamp.saturating_add(deadline));
        }
        if is_expired(now, header, quality.lifespan) {
            return Judgement::Expired;
        }
        let Some(regulator) = &mut track.regulator else {
            return Judgement::Deliver;
        };
        let waits = track.held.front().is_some();
        let admitted = match waits {
            // Order is kept: nothing overtakes a message that is held back.
            true => Err(Breach::Messages),
            false => regulator.admit(stamp, payload.len()),
        };
        let Err(breach) = admitted else {
            return Judgement::Deliver;
        };
        track.note_breach(breach);
        let holds = self
            .terms
            .contract
            .is_some_and(|contract| contract.violation == ExcessRule::HoldBack);
        if !holds {
            return Judgement::Break(breach);
        }
        match track.held.push(header, payload) {
            true => self.counts.dropped += 1,
            false => self.held += 1,
        }
        Judgement::HoldBack
    }

    fn note_sign(&mut self, place: usize, stamp: Instant) {
        let track = &mut self.tracks[place];
        track.latest_sign = track.latest_sign.max(stamp);
        if track.life != Life::Present {
            track.return_to_life();
        }
    }

    /// The place of the publisher of a message; a new publisher takes a free one.
    fn place_of(&mut self, now: Instant, header: &MessageHeader) -> Option<usize> {
        let source = header.source;
        if source == 0 {
            // No publisher has it: it marks a place without a publisher.
            return None;
        }
        let is_followed = |track: &PublisherTrack| track.source == source;
        if let Some(place) = self.tracks.iter().position(is_followed) {
            return Some(place);
        }
        if header.kind == MessageKind::Farewell {
            return None;
        }
        let silent =
            |track: &PublisherTrack| now > track.latest_sign.saturating_add(YIELDING_SILENCE);
        let leased = self.terms.quality.liveliness.is_some();
        let yields = |track: &PublisherTrack| match track.life {
            Life::Ended | Life::Lost => true,
            Life::Present => !leased && silent(track),
        };
        let candidates = self
            .tracks
            .iter()
            .enumerate()
            .filter(|(_, track)| yields(track));
        // Of those that may go, first one whose end the subscriber was told of, then the one that was silent the longest.
        let place = candidates.min_by_key(|(_, track)| (track.has_event(), track.latest_sign));
        let place = place.map(|(place, _)| place)?;
        let track = &mut self.tracks[place];
        self.held -= track.held.clear();
        track.follow(source, header.sequence);
        Some(place)
    }
}

fn is_expired(now: Instant, header: &MessageHeader, lifespan: Option<Duration>) -> bool {
    lifespan.is_some_and(|lifespan| now.saturating_since(header.source_time) > lifespan)
}
