//! Sets of positions in a level.

/// A set of positions in a level. The first 64 of them have a word at hand.
#[derive(Clone, Debug, Default)]
pub(super) struct MemberSet {
    low: u64,
    high: Vec<u64>,
    count: usize,
}

impl MemberSet {
    pub(super) fn of(positions: &[usize]) -> Self {
        let mut members = Self::default();
        positions.iter().for_each(|member| members.insert(*member));
        members
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        let high = self.high.iter().enumerate();
        let high =
            high.flat_map(|(index, word)| Bits(*word).map(move |bit| 64 * (index + 1) + bit));
        Bits(self.low).chain(high)
    }

    /// The member with the least key; of equal ones the first.
    #[inline]
    pub(super) fn least_by<Key: Ord>(&self, key: impl Fn(usize) -> Key) -> Option<usize> {
        if !self.high.is_empty() {
            return self.iter().min_by_key(|member| key(*member));
        }
        let mut low = Bits(self.low);
        let mut least = low.next()?;
        // Mostly there is one, whose key does not matter.
        if low.0 != 0 {
            let mut least_key = key(least);
            for member in low {
                let this = key(member);
                if this < least_key {
                    (least, least_key) = (member, this);
                }
            }
        }
        Some(least)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        if self.low != 0 {
            return Some(self.low.trailing_zeros() as usize);
        }
        self.iter().next()
    }

    #[inline]
    pub(super) fn contains(&self, member: usize) -> bool {
        let word = match member / 64 {
            0 => self.low,
            index => self.high.get(index - 1).copied().unwrap_or(0),
        };
        word >> (member % 64) & 1 == 1
    }

    #[inline]
    pub(super) fn insert(&mut self, member: usize) {
        let word = self.word(member / 64);
        let bit = 1 << (member % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += usize::from(is_new);
    }

    #[inline]
    pub(super) fn remove(&mut self, member: usize) {
        let word = self.word(member / 64);
        let bit = 1 << (member % 64);
        let was_there = *word & bit != 0;
        *word &= !bit;
        self.count -= usize::from(was_there);
    }

    #[inline]
    fn word(&mut self, index: usize) -> &mut u64 {
        match index {
            0 => &mut self.low,
            index => {
                if self.high.len() < index {
                    self.high.resize(index, 0);
                }
                &mut self.high[index - 1]
            }
        }
    }
}

/// The positions of the bits that are set.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_the_set_that_it_stands_for(changes in prop::collection::vec((0_usize..200, any::<bool>()), 0..100)) {
            let mut members = MemberSet::default();
            let mut plain = BTreeSet::new();
            for (member, enters) in changes {
                if enters {
                    members.insert(member);
                    plain.insert(member);
                } else {
                    members.remove(member);
                    plain.remove(&member);
                }
                prop_assert_eq!(members.is_empty(), plain.is_empty());
                prop_assert_eq!(members.contains(member), enters);
                prop_assert_eq!(members.iter().collect::<Vec<_>>(), plain.iter().copied().collect::<Vec<_>>());
            }
        }
    }
}
