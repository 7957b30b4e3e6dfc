//! The earliest of several instants that change one at a time.

/// No instant of a simulation: what never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// A tournament: each inner node holds the lesser of its two children, so that the earliest is at
/// the root and a change costs the logarithm of the count.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    nodes: Vec<u64>,
    leaves: usize,
}

impl Timers {
    /// As many as `count`, none of them set.
    pub(crate) fn new(count: usize) -> Self {
        let leaves = count.max(1).next_power_of_two();
        Self {
            nodes: vec![NEVER; 2 * leaves],
            leaves,
        }
    }

    pub(crate) fn earliest(&self) -> u64 {
        self.nodes[1]
    }

    /// The first in order of those that are due at `now`.
    pub(crate) fn due(&self, now: u64) -> Option<usize> {
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

    pub(crate) fn set(&mut self, index: usize, at: u64) {
        let mut node = index + self.leaves;
        if self.nodes[node] == at {
            return;
        }
        self.nodes[node] = at;
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
}
