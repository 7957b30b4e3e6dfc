//! Response times counted in classes, so that what they take does not grow with the simulation.

use tailbound_distribution::{Distribution, Provenance, StepCdf};
use tailbound_time::Duration;

use crate::hierarchy::{Completion, Sink};

/// Each octave has so many classes: a class is at most 1/512 of its values wide.
const CLASSES: u32 = 512;
const CLASS_BITS: u32 = CLASSES.trailing_zeros();

/// How many response times fell into each class.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    counts: Vec<u64>,
    total: u64,
    longest: u64,
}

impl Tally {
    /// Counts one.
    #[inline]
    pub fn count(&mut self, response: u64) {
        let class = class_of(response);
        match self.counts.get_mut(class) {
            Some(count) => *count += 1,
            None => self.count_longer(class),
        }
        self.total += 1;
        self.longest = self.longest.max(response);
    }

    /// Counts all that another one has counted.
    pub fn add(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    /// Counts one in a class that is above all that were needed so far.
    #[cold]
    fn count_longer(&mut self, class: usize) {
        self.counts.resize(class + 1, 0);
        self.counts[class] = 1;
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The longest, exactly.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest)
    }

    /// Between which two curves the response times lie: all at the lower ends of their classes, and
    /// all at the upper ends. `None` if nothing was counted.
    pub fn distribution(&self, provenance: Provenance) -> Option<Distribution> {
        let curve = |end: fn(usize) -> u64| {
            let mut before = 0_u64;
            let mut steps = Vec::new();
            for (class, count) in self
                .counts
                .iter()
                .enumerate()
                .filter(|(_, count)| **count > 0)
            {
                before += count;
                let at = Duration::from_nanos(end(class).min(self.longest));
                steps.push((at, before as f64 / self.total as f64));
            }
            StepCdf::new(steps).ok()
        };
        (self.total > 0).then_some(())?;
        let (optimistic, pessimistic) = (curve(first_of)?, curve(last_of)?);
        Some(Distribution::from_bracket(
            provenance,
            optimistic,
            pessimistic,
        ))
    }
}

/// Values below two times the classes of an octave have a class each.
#[inline]
fn class_of(value: u64) -> usize {
    let octave = (u64::BITS - value.leading_zeros()).saturating_sub(CLASS_BITS + 1);
    (octave * CLASSES) as usize + (value >> octave) as usize
}

fn octave_and_head(class: usize) -> (u32, u64) {
    let octave = (class as u32 / CLASSES).saturating_sub(1);
    (octave, class as u64 - u64::from(octave * CLASSES))
}

fn first_of(class: usize) -> u64 {
    let (octave, head) = octave_and_head(class);
    head << octave
}

fn last_of(class: usize) -> u64 {
    let (octave, head) = octave_and_head(class);
    (head << octave) + ((1 << octave) - 1)
}

/// The response times of each task, from a time on.
#[derive(Clone, Debug)]
pub struct ResponseTimes {
    /// By task, in the order of the plan.
    pub per_task: Vec<Tally>,
    from: u64,
}

impl ResponseTimes {
    /// Of so many tasks; jobs released before the end of the warm-up do not count.
    pub fn new(tasks: usize, warm_up: Duration) -> Self {
        Self {
            per_task: vec![Tally::default(); tasks],
            from: warm_up.as_nanos(),
        }
    }
}

impl Sink for ResponseTimes {
    const WHOLE_PIECES: bool = true;

    #[inline]
    fn completed(&mut self, completion: &Completion) {
        if completion.release >= self.from {
            self.per_task[completion.task].count(completion.end - completion.release);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tailbound_distribution::Evidence;

    use super::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_class_and_a_class_is_narrow(value in any::<u64>(), down in 0_u32..64) {
            let value = value >> down;
            let class = class_of(value);
            let (first, last) = (first_of(class), last_of(class));
            prop_assert!(first <= value && value <= last);
            prop_assert!(last - first <= value / u64::from(CLASSES));
        }
    }

    #[test]
    fn the_quantiles_of_a_tally_hold_those_of_the_values() {
        let mut tally = Tally::default();
        let values: Vec<u64> = (1..=10_000_u64).map(|index| index * index).collect();
        values.iter().for_each(|value| tally.count(*value));
        let provenance = Provenance::new(Evidence::Estimate, "squares", "counted");
        let distribution = tally
            .distribution(provenance)
            .unwrap_or_else(|| panic!("counted"));
        for (share, exact) in [(0.5, 5_000_u64), (0.9, 9_000), (0.999, 9_990)] {
            let between = distribution
                .quantile(share)
                .unwrap_or_else(|| panic!("within"));
            let exact = Duration::from_nanos(exact * exact);
            assert!(between.low <= exact, "{between:?} {exact}");
            assert!(
                between.high.is_some_and(|high| exact <= high),
                "{between:?} {exact}"
            );
        }
        assert_eq!(tally.longest(), Duration::from_nanos(100_000_000));
    }
}
