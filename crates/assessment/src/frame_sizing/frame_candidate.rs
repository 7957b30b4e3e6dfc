//! A frame with the number and the least length of each partition's windows.

use std::cmp::Ordering;

/// The windows of a partition in a frame: of one length, evenly apart. In steps of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EvenWindows {
    /// How many there are in a frame.
    pub(super) count: u64,
    /// The length of each.
    pub(super) length: u64,
}

impl EvenWindows {
    /// The begins of the windows in a frame, if that of the first one is `offset`.
    pub(super) fn offsets(self, units: u64, offset: u64) -> impl Iterator<Item = u64> {
        let apart = units / self.count;
        (0..self.count).map(move |number| offset + number * apart)
    }

    /// The largest length of each.
    pub(super) fn room(self, units: u64) -> u64 {
        units / self.count
    }

    pub(super) fn total(self) -> u64 {
        self.count * self.length
    }
}

/// A frame with so many steps more in all windows than their least lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameCandidate {
    pub(super) units: u64,
    pub(super) least: Vec<EvenWindows>,
    pub(super) more: u64,
}

impl FrameCandidate {
    /// Every choice of windows of the partitions in one frame.
    pub(super) fn of_choices(units: u64, choices: &[Vec<EvenWindows>]) -> Vec<Self> {
        let mut chosen = vec![Vec::new()];
        for own in choices {
            let longer = chosen.iter().flat_map(|before: &Vec<EvenWindows>| {
                own.iter()
                    .map(|windows| [before.as_slice(), &[*windows]].concat())
            });
            chosen = longer.collect();
        }
        let candidates = chosen.into_iter().map(|least| Self {
            units,
            least,
            more: 0,
        });
        candidates.collect()
    }

    pub(super) fn total(&self) -> u64 {
        self.least.iter().map(|own| own.total()).sum::<u64>() + self.more
    }

    /// The number of windows of all partitions.
    pub(super) fn switches(&self) -> u64 {
        self.least.iter().map(|own| own.count).sum()
    }

    /// The windows' share of the frame.
    pub(super) fn share(&self) -> f64 {
        self.total() as f64 / self.units as f64
    }

    /// The most steps that may be added in all windows.
    pub(super) fn room(&self) -> u64 {
        let most = self.units * self.least.len() as u64;
        most.saturating_sub(self.least.iter().map(|own| own.total()).sum())
    }
}

impl Ord for FrameCandidate {
    /// A lesser share comes first, then fewer windows in a time, then a longer frame.
    fn cmp(&self, other: &Self) -> Ordering {
        let in_time = |own: u64, others: u64| {
            let own = u128::from(own) * u128::from(other.units);
            own.cmp(&(u128::from(others) * u128::from(self.units)))
        };
        in_time(self.total(), other.total())
            .then_with(|| in_time(self.switches(), other.switches()))
            .then_with(|| other.units.cmp(&self.units))
            .then_with(|| (&self.least, self.more).cmp(&(&other.least, other.more)))
    }
}

impl PartialOrd for FrameCandidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
