//! The numbers that a reliable reader has of a writer.

use crate::SequenceSet;

const WORDS: usize = 4;
const WINDOW: i64 = SequenceSet::WINDOW;

/// The place of a number that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequencePlace {
    /// The number is the next one.
    Next,
    /// Numbers before it are missing.
    Ahead,
    /// The number was here before, or is no longer waited for.
    Settled,
    /// The number is beyond the window of 256; its writer sends it again.
    Beyond,
}

/// The numbers that a reader has of a writer: all below `next`, and some of the 256 from there on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceTrack {
    next: i64,
    /// A bit for each number from `next` on: it has arrived, or is not waited for.
    ahead: [u64; WORDS],
    /// The last number that the writer has said it has.
    last: i64,
}

impl SequenceTrack {
    /// The track of a writer of which nothing has arrived.
    pub fn new() -> Self {
        Self {
            next: 1,
            ahead: [0; WORDS],
            last: 0,
        }
    }

    /// The first number that is waited for: all below have arrived or never will.
    pub fn next(&self) -> i64 {
        self.next
    }

    /// The place of a number, which does not count as arrived yet.
    pub fn place(&self, number: i64) -> SequencePlace {
        match number.saturating_sub(self.next) {
            ..0 => SequencePlace::Settled,
            0 => SequencePlace::Next,
            WINDOW.. => SequencePlace::Beyond,
            place if self.is_ahead(place) => SequencePlace::Settled,
            _ => SequencePlace::Ahead,
        }
    }

    /// Counts a number as arrived.
    pub fn arrive(&mut self, number: i64) {
        self.last = self.last.max(number);
        self.settle(number, number.saturating_add(1));
    }

    /// Counts the numbers from `first` to before `end` as such that are not waited for.
    pub fn settle(&mut self, first: i64, end: i64) {
        if first <= self.next {
            if end > self.next {
                self.skip(end - self.next);
            }
        } else {
            let most = self.next.saturating_add(WINDOW);
            for number in first..end.min(most) {
                let place = (number - self.next) as usize;
                self.ahead[place / 64] |= 1 << (place % 64);
            }
        }
        while self.ahead[0] & 1 != 0 {
            let row = self.ahead[0].trailing_ones();
            self.skip(row.into());
        }
    }

    /// Counts the numbers that a writer says that it has.
    pub fn announce(&mut self, first: i64, last: i64) {
        self.settle(0, first);
        self.last = self.last.max(last);
    }

    /// Waits for nothing before a number.
    pub fn skip_to(&mut self, number: i64) {
        self.settle(0, number);
    }

    /// The numbers that are missing, from `next` on: all that the writer has and this track has not.
    pub fn missing(&self) -> SequenceSet {
        let mut missing = SequenceSet::at(self.next);
        let end = self.last.min(self.next.saturating_add(WINDOW - 1));
        for number in self.next..=end {
            if !self.is_ahead(number - self.next) {
                missing.insert(number);
            }
        }
        missing
    }

    fn is_ahead(&self, place: i64) -> bool {
        let place = place as usize;
        self.ahead[place / 64] & (1 << (place % 64)) != 0
    }

    /// Moves the window on by a number of places.
    fn skip(&mut self, places: i64) {
        self.next = self.next.saturating_add(places);
        if places >= WINDOW {
            self.ahead = [0; WORDS];
            return;
        }
        let (words, bits) = ((places / 64) as usize, (places % 64) as u32);
        let word = |place: usize| self.ahead.get(place).copied().unwrap_or(0);
        let shifted = |place: usize| {
            let high = word(place + words + 1).checked_shl(64 - bits).unwrap_or(0);
            (word(place + words) >> bits) | high
        };
        self.ahead = std::array::from_fn(shifted);
    }
}

impl Default for SequenceTrack {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn missing(track: &SequenceTrack) -> Vec<i64> {
        track.missing().numbers().collect()
    }

    #[test]
    fn a_gap_is_missing_until_it_is_filled() {
        let mut track = SequenceTrack::new();
        track.arrive(1);
        assert_eq!(track.place(3), SequencePlace::Ahead);
        track.arrive(3);
        assert_eq!(track.place(3), SequencePlace::Settled);
        assert_eq!(missing(&track), [2]);
        track.announce(1, 5);
        assert_eq!(missing(&track), [2, 4, 5]);
        track.arrive(2);
        assert_eq!(track.next(), 4);
        track.settle(4, 6);
        assert_eq!(track.next(), 6);
        assert!(track.missing().is_empty());
    }

    #[test]
    fn a_writer_that_has_forgotten_is_not_waited_for() {
        let mut track = SequenceTrack::new();
        track.announce(985, 1_000);
        assert_eq!(track.next(), 985);
        assert_eq!(missing(&track).len(), 16);
        assert_eq!(track.place(985 + 256), SequencePlace::Beyond);
        track.skip_to(2_000);
        assert_eq!(track.place(1_999), SequencePlace::Settled);
        track.announce(1, i64::MAX - 1);
        assert_eq!(missing(&track).len(), 256);
    }

    proptest! {
        #[test]
        fn a_track_agrees_with_a_set(
            steps in prop::collection::vec((0..4_u8, 1..600_i64, 0..300_i64), 0..60),
        ) {
            let mut track = SequenceTrack::new();
            let mut settled = BTreeSet::new();
            for (kind, number, length) in steps {
                match kind {
                    0 | 1 if track.place(number) != SequencePlace::Beyond => {
                        track.arrive(number);
                        settled.insert(number);
                    }
                    2 => {
                        let most = track.next() + WINDOW;
                        let end = match number <= track.next() {
                            true => number + length,
                            false => (number + length).min(most),
                        };
                        track.settle(number, number + length);
                        settled.extend(number..end);
                    }
                    _ => {}
                }
                let next = (1..).find(|number| !settled.contains(number));
                prop_assert_eq!(Some(track.next()), next);
                for number in track.next()..track.next() + WINDOW {
                    let is_settled = track.place(number) == SequencePlace::Settled;
                    prop_assert_eq!(is_settled, settled.contains(&number), "{}", number);
                }
            }
        }
    }
}
