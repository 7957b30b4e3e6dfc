//! The earliest of several instants, or the least of other keys, that change one at a time.

use std::hint::select_unpredictable;

/// No instant of a simulation: what never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// The tournament of several instants.
pub(crate) type Timers = Tournament<u64>;

/// A tournament: each inner node holds the lesser of its two children, so that the least key is at
/// the root and a change costs the logarithm of the count.
#[derive(Clone, Debug)]
pub(crate) struct Tournament<Key> {
    nodes: Vec<Key>,
    leaves: usize,
}

impl Timers {
    /// As many as `count`, none of them set.
    pub(crate) fn new(count: usize) -> Self {
        Self::with(count, NEVER)
    }
}

impl<Key: Copy + Ord> Tournament<Key> {
    /// As many as `count`, all of them with the same key.
    pub(crate) fn with(count: usize, key: Key) -> Self {
        let leaves = count.max(1).next_power_of_two();
        Self {
            nodes: vec![key; 2 * leaves],
            leaves,
        }
    }

    #[inline]
    pub(crate) fn earliest(&self) -> Key {
        self.nodes[1]
    }

    /// The first in order of those whose keys are at most `now`.
    #[inline]
    pub(crate) fn due(&self, now: Key) -> Option<usize> {
        if self.nodes[1] > now {
            return None;
        }
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            if self.nodes[node] > now {
                node += 1;
            }
        }
        Some(node - self.leaves)
    }

    #[inline]
    pub(crate) fn set(&mut self, index: usize, key: Key) {
        let mut node = index + self.leaves;
        if self.nodes[node] == key {
            return;
        }
        self.nodes[node] = key;
        while node > 1 {
            node /= 2;
            let lesser = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == lesser {
                return;
            }
            self.nodes[node] = lesser;
        }
    }
}

/// The first of several instants, of which only the first one changes: a tree in which each node keeps
/// who lost there, so that a change compares with one other at each level, and finding these others
/// does not have to wait for a comparison.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// The winner in place 0, then the losers: those of node `n`, whose children are `2 n` and `2 n + 1`.
    entries: Vec<TimerEntry>,
}

/// An instant, and whose it is.
#[derive(Clone, Copy, Debug)]
struct TimerEntry {
    at: u64,
    index: usize,
}

impl TimerEntry {
    /// Among equal instants the lower index comes first.
    #[inline]
    fn is_before(self, other: Self) -> bool {
        let key = |it: Self| (u128::from(it.at) << 64) | it.index as u128;
        key(self) < key(other)
    }

    /// One of two, without a branch, which could not be foreseen.
    #[inline]
    fn select(first: bool, one: Self, other: Self) -> Self {
        Self {
            at: select_unpredictable(first, one.at, other.at),
            index: select_unpredictable(first, one.index, other.index),
        }
    }
}

impl Queue {
    /// Of these instants, in order of their index.
    pub(crate) fn new(instants: impl ExactSizeIterator<Item = u64>) -> Self {
        let leaves = instants.len().next_power_of_two();
        let unset = TimerEntry {
            at: NEVER,
            index: usize::MAX,
        };
        let mut winners = vec![unset; 2 * leaves];
        for (index, at) in instants.enumerate() {
            winners[leaves + index] = TimerEntry { at, index };
        }
        let mut entries = vec![unset; leaves];
        for node in (1..leaves).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let wins = left.is_before(right);
            winners[node] = TimerEntry::select(wins, left, right);
            entries[node] = TimerEntry::select(wins, right, left);
        }
        entries[0] = winners[1];
        Self { entries }
    }

    /// The first instant; never, if there is none.
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        self.entries[0].at
    }

    /// Whose the first instant is.
    #[inline]
    pub(crate) fn first(&self) -> usize {
        self.entries[0].index
    }

    /// The first one is at another instant from now on.
    #[inline]
    pub(crate) fn change_first(&mut self, at: u64) {
        let mut winner = TimerEntry {
            at,
            index: self.first(),
        };
        let mut node = (self.entries.len() + winner.index) / 2;
        while node > 0 {
            let other = self.entries[node];
            let stays = winner.is_before(other);
            self.entries[node] = TimerEntry::select(stays, other, winner);
            winner = TimerEntry::select(stays, winner, other);
            node /= 2;
        }
        self.entries[0] = winner;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_root_is_the_least(count in 1_usize..20, changes in prop::collection::vec((0_usize..20, 0_u64..50), 0..100)) {
            let mut timers = Timers::new(count);
            let mut plain = vec![NEVER; count];
            for (index, at) in changes {
                let index = index % count;
                timers.set(index, at);
                plain[index] = at;
                let least = plain.iter().copied().min().unwrap_or(NEVER);
                prop_assert_eq!(timers.earliest(), least);
                prop_assert_eq!(timers.due(25), plain.iter().position(|at| *at <= 25));
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_in_the_queue_is_the_first_of_the_least(
            mut plain in prop::collection::vec(0_u64..50, 1..70),
            changes in prop::collection::vec(0_u64..50, 1..100),
        ) {
            let mut queue = Queue::new(plain.iter().copied());
            for later in changes {
                let least = plain.iter().copied().min().unwrap_or(NEVER);
                let first = plain.iter().position(|at| *at == least).unwrap_or(0);
                prop_assert_eq!((queue.earliest(), queue.first()), (least, first));
                plain[first] = if later == 49 { NEVER } else { least.saturating_add(later) };
                queue.change_first(plain[first]);
            }
        }
    }
}
