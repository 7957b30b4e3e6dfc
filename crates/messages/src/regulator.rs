//! The regulator of a contract: which message it admits, and from when on it would admit the next one.

use std::collections::VecDeque;

use tailbound_time::{Duration, Instant};

use crate::{Contract, ContractFault};

/// Admits messages as long as they keep a [`Contract`], at a sender or at a receiver.
///
/// The interval of the contract is half-open: a message at time t counts in all intervals that begin after `t - interval`
/// and up to t, so that the interval may begin anywhere. The regulator remembers the admitted messages of one interval.
/// That memory is allocated when the regulator is made; a message costs a constant number of steps, averaged over all.
#[derive(Debug)]
pub struct Regulator {
    messages: usize,
    bytes: u64,
    interval: Duration,
    least_distance: Duration,
    admitted: VecDeque<(Instant, u64)>,
    admitted_bytes: u64,
    latest: Option<Instant>,
}

/// The limit of a contract that a message would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// The number of messages in an interval.
    #[error("more messages in an interval than the contract admits")]
    Messages,
    /// The bytes in an interval.
    #[error("more bytes in an interval than the contract admits")]
    Bytes,
    /// The least distance between messages.
    #[error("a message closer to the one before it than the contract admits")]
    Distance,
}

impl Regulator {
    /// A regulator that has admitted nothing yet, for messages of at most `longest` bytes.
    ///
    /// # Errors
    /// If the contract has no meaning ([`Contract::check`]).
    pub fn new(contract: &Contract, longest: usize) -> Result<Self, ContractFault> {
        contract.check(longest)?;
        let messages = contract.messages as usize;
        Ok(Self {
            messages,
            bytes: contract.bytes_within_interval(longest),
            interval: contract.interval,
            least_distance: contract.least_distance,
            admitted: VecDeque::with_capacity(messages),
            admitted_bytes: 0,
            latest: None,
        })
    }

    /// Admits a message of this length at this time, or names the limit that it would exceed. A message that is not
    /// admitted leaves no trace. A time before that of the latest admitted message counts as that one.
    ///
    /// # Errors
    /// The limit that the message would exceed.
    pub fn admit(&mut self, time: Instant, bytes: usize) -> Result<(), Breach> {
        let time = self.not_before_latest(time);
        let bytes = bytes as u64;
        while let Some(&(oldest, length)) = self.admitted.front() {
            if oldest.saturating_add(self.interval) > time {
                break;
            }
            self.admitted.pop_front();
            self.admitted_bytes -= length;
        }
        if let Some(latest) = self.latest
            && time < latest.saturating_add(self.least_distance)
        {
            return Err(Breach::Distance);
        }
        if self.admitted.len() >= self.messages {
            return Err(Breach::Messages);
        }
        if self.admitted_bytes.saturating_add(bytes) > self.bytes {
            return Err(Breach::Bytes);
        }
        self.admitted.push_back((time, bytes));
        self.admitted_bytes += bytes;
        self.latest = Some(time);
        Ok(())
    }

    /// The first time, from `time` on, at which a message of this length is admitted if none is before it; no time, if it
    /// is longer than what an interval admits.
    pub fn next_admission(&self, time: Instant, bytes: usize) -> Option<Instant> {
        let bytes = bytes as u64;
        let mut next = self.not_before_latest(time);
        if let Some(latest) = self.latest {
            next = next.max(latest.saturating_add(self.least_distance));
        }
        let (mut messages, mut length) = (self.admitted.len(), self.admitted_bytes);
        for &(admitted, admitted_bytes) in &self.admitted {
            if messages < self.messages && length.saturating_add(bytes) <= self.bytes {
                // Messages that leave the interval by then make more room, which is not needed.
                break;
            }
            next = next.max(admitted.saturating_add(self.interval));
            messages -= 1;
            length -= admitted_bytes;
        }
        (length.saturating_add(bytes) <= self.bytes).then_some(next)
    }

    fn not_before_latest(&self, time: Instant) -> Instant {
        self.latest.map_or(time, |latest| time.max(latest))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::ExcessRule;

    fn contract(messages: u32, bytes: u64, interval_ns: u64, least_distance_ns: u64) -> Contract {
        Contract {
            messages,
            bytes: Some(bytes),
            interval: Duration::from_nanos(interval_ns),
            least_distance: Duration::from_nanos(least_distance_ns),
            violation: ExcessRule::Drop,
        }
    }

    /// Whether all intervals hold what the contract admits, by looking at the interval that ends with each message.
    fn keeps(contract: &Contract, history: &[(u64, usize)]) -> bool {
        let interval_ns = contract.interval.as_nanos();
        history.iter().enumerate().all(|(last, (end, _))| {
            let within = || {
                history[..=last]
                    .iter()
                    .filter(|(time, _)| time + interval_ns > *end)
            };
            let distance =
                last == 0 || end - history[last - 1].0 >= contract.least_distance.as_nanos();
            within().count() <= contract.messages as usize
                && within().map(|(_, bytes)| *bytes as u64).sum::<u64>() <= contract.bytes.unwrap()
                && distance
        })
    }

    proptest! {
        #[test]
        fn a_message_is_admitted_exactly_when_the_definition_admits_it(
            messages in 1_u32..5, bytes in 10_u64..40, interval in 1_u64..20, distance in 0_u64..4,
            arrivals in prop::collection::vec((0_u64..6, 0_usize..11), 1..80),
        ) {
            let contract = contract(messages, bytes, interval, distance);
            let mut regulator = Regulator::new(&contract, 10).unwrap();
            let capacity = regulator.admitted.capacity();
            let (mut now, mut history) = (0, Vec::new());
            for (gap, length) in arrivals {
                now += gap;
                let next = regulator.next_admission(Instant::from_nanos(now), length);
                let admitted = regulator.admit(Instant::from_nanos(now), length).is_ok();
                history.push((now, length));
                prop_assert_eq!(admitted, keeps(&contract, &history), "at {}", now);
                if !admitted {
                    history.pop();
                    // The definition, asked for each later time, admits the message first when the regulator says.
                    let first = (now..now + 100).find(|time| {
                        history.push((*time, length));
                        let kept = keeps(&contract, &history);
                        history.pop();
                        kept
                    });
                    prop_assert_eq!(next, first.map(Instant::from_nanos));
                } else {
                    prop_assert_eq!(next, Some(Instant::from_nanos(now)));
                }
            }
            prop_assert_eq!(regulator.admitted.capacity(), capacity);
        }
    }

    #[test]
    fn a_clock_that_steps_back_admits_no_more() {
        let mut regulator = Regulator::new(&contract(1, 8, 100, 0), 8).unwrap();
        regulator.admit(Instant::from_nanos(1000), 8).unwrap();
        assert_eq!(
            regulator.admit(Instant::from_nanos(5), 8),
            Err(Breach::Messages)
        );
        assert_eq!(
            regulator.next_admission(Instant::from_nanos(5), 8),
            Some(Instant::from_nanos(1100))
        );
    }
}
