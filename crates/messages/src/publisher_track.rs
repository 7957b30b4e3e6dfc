//! What a subscriber remembers of one publisher.

use tailbound_time::{Duration, Instant};

use crate::held_messages::HeldMessages;
use crate::{Breach, Regulator};

/// An event of which a subscriber is told. Events of one kind and one publisher that were not taken yet are one, with
/// their number, so that no number of them needs memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriberEvent {
    /// A publisher sent its first sign of life, or the first one after it was lost.
    Appeared {
        /// The publisher.
        source: u64,
    },
    /// Messages did not arrive: lost on the way, or replaced by newer ones before they were taken.
    MessagesLost {
        /// The publisher.
        source: u64,
        /// The number of messages.
        messages: u64,
    },
    /// Messages broke the contract of the publisher, and were dropped or held back.
    ContractBroken {
        /// The publisher.
        source: u64,
        /// The number of messages.
        messages: u64,
        /// The limit that the latest of them exceeded.
        breach: Breach,
    },
    /// A publisher let its deadline pass without a message.
    DeadlineMissed {
        /// The publisher.
        source: u64,
        /// The number of deadlines.
        times: u64,
    },
    /// A publisher gave no sign of life during its lease.
    PublisherLost {
        /// The publisher.
        source: u64,
    },
    /// A publisher ended, and said so.
    PublisherEnded {
        /// The publisher.
        source: u64,
    },
}

/// Where a publisher is in its life, as far as a subscriber can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Present,
    Lost,
    Ended,
}

#[derive(Debug)]
pub(crate) struct PublisherTrack {
    pub(crate) source: u64,
    pub(crate) life: Life,
    pub(crate) expected: u64,
    pub(crate) latest_sign: Instant,
    pub(crate) deadline_at: Option<Instant>,
    pub(crate) regulator: Option<Regulator>,
    pub(crate) held: HeldMessages,
    appeared: bool,
    lost: u64,
    broken: Option<(u64, Breach)>,
    missed: u64,
    gone: bool,
    /// The number of events so far.
    events: u64,
}

impl PublisherTrack {
    pub(crate) fn new(regulator: Option<Regulator>, held: HeldMessages) -> Self {
        Self {
            source: 0,
            life: Life::Ended,
            expected: 0,
            latest_sign: Instant::ORIGIN,
            deadline_at: None,
            regulator,
            held,
            appeared: false,
            lost: 0,
            broken: None,
            missed: 0,
            gone: false,
            events: 0,
        }
    }

    /// Begins to follow another publisher, and forgets the one before. The regulator stays as it is: a place admits what one
    /// contract admits, whoever has it, so that a publisher gains nothing by changing its number.
    pub(crate) fn follow(&mut self, source: u64, sequence: u64) {
        self.source = source;
        self.expected = sequence;
        self.deadline_at = None;
        self.lost = 0;
        self.broken = None;
        self.missed = 0;
        self.held.clear();
        self.return_to_life();
    }

    pub(crate) fn return_to_life(&mut self) {
        self.life = Life::Present;
        self.appeared = true;
        self.gone = false;
        self.events += 1;
    }

    pub(crate) fn leave(&mut self, life: Life) {
        self.life = life;
        self.deadline_at = None;
        self.gone = true;
        self.events += 1;
    }

    pub(crate) fn note_lost(&mut self, messages: u64) {
        self.lost = self.lost.saturating_add(messages);
        self.events += 1;
    }

    pub(crate) fn note_breach(&mut self, breach: Breach) {
        let before = self.broken.map_or(0, |(messages, _)| messages);
        self.broken = Some((before + 1, breach));
        self.events += 1;
    }

    /// Counts the deadlines that passed before `time`; the number of them.
    pub(crate) fn pass_deadlines(&mut self, time: Instant, deadline: Duration) -> u64 {
        let Some(next) = self.deadline_at else {
            return 0;
        };
        let Some(late) = time.checked_since(next).filter(|late| !late.is_zero()) else {
            return 0;
        };
        // The message exactly at the deadline is in time; so is one exactly at each later one.
        let times = (late.as_nanos() - 1) / deadline.as_nanos().max(1) + 1;
        let passed = Duration::from_nanos(deadline.as_nanos().saturating_mul(times));
        self.deadline_at = Some(next.saturating_add(passed));
        self.missed += times;
        self.events += 1;
        times
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn has_event(&self) -> bool {
        self.appeared || self.lost > 0 || self.broken.is_some() || self.missed > 0 || self.gone
    }

    /// The next event, in the order in which they matter: who appeared, what is missing, who is gone.
    pub(crate) fn take_event(&mut self) -> Option<SubscriberEvent> {
        let source = self.source;
        if std::mem::take(&mut self.appeared) {
            return Some(SubscriberEvent::Appeared { source });
        }
        if self.lost > 0 {
            let messages = std::mem::take(&mut self.lost);
            return Some(SubscriberEvent::MessagesLost { source, messages });
        }
        if let Some((messages, breach)) = self.broken.take() {
            return Some(SubscriberEvent::ContractBroken {
                source,
                messages,
                breach,
            });
        }
        if self.missed > 0 {
            let times = std::mem::take(&mut self.missed);
            return Some(SubscriberEvent::DeadlineMissed { source, times });
        }
        std::mem::take(&mut self.gone).then_some(match self.life {
            Life::Ended => SubscriberEvent::PublisherEnded { source },
            Life::Lost | Life::Present => SubscriberEvent::PublisherLost { source },
        })
    }
}
