//! The order in which the values of a sample arrived.
//!
//! Latencies of one queue depend on each other: a long busy period makes many of them long together. How
//! much, only their order of arrival shows, which a sorted sample has lost. A measured distribution keeps it.

use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::{Distribution, Provenance, Shape};

/// One value of a sample, as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A value that is known.
    Known(Duration),
    /// A value that is known only to be at least so long.
    AtLeast(Duration),
}

impl Arrival {
    fn value(self) -> Duration {
        match self {
            Self::Known(value) | Self::AtLeast(value) => value,
        }
    }
}

/// The order of arrival of the values of a sample, run by run. As JSON, a list for each run: of every value
/// its position, from 0, among the known values in ascending order followed by the others in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArrivalOrder {
    runs: Vec<Vec<u32>>,
}

impl ArrivalOrder {
    /// The positions of the values of each run, in order of arrival.
    pub(crate) fn runs(&self) -> &[Vec<u32>] {
        &self.runs
    }

    /// Whether each of `count` positions stands in it exactly once.
    fn is_of(&self, count: usize) -> bool {
        let mut seen = vec![false; count];
        let once = |position: &u32| {
            let place = seen.get_mut(*position as usize);
            place.is_some_and(|seen| !std::mem::replace(seen, true))
        };
        let numbered = self.runs.iter().map(Vec::len).sum::<usize>();
        numbered == count && self.runs.iter().flatten().all(once)
    }
}

impl Distribution {
    /// The distribution of one run's values in their order of arrival.
    pub fn from_arrivals(provenance: Provenance, arrivals: Vec<Arrival>) -> Self {
        Self::from_runs(provenance, &[arrivals])
    }

    /// The distribution of the values of several runs, each in its order of arrival.
    pub(crate) fn from_runs(provenance: Provenance, runs: &[Vec<Arrival>]) -> Self {
        let all: Vec<Arrival> = runs.iter().flatten().copied().collect();
        let mut distribution = Self::from_unordered(provenance, all.clone());
        let (mut exact, mut censored): (Vec<usize>, Vec<usize>) =
            (0..all.len()).partition(|index| matches!(all[*index], Arrival::Known(_)));
        for part in [&mut exact, &mut censored] {
            part.sort_by_key(|index| all[*index].value());
        }
        // A sample of more values than positions can number has no order; nobody measures as many.
        if u32::try_from(all.len()).is_ok() {
            let mut positions = vec![0; all.len()];
            for (position, index) in exact.into_iter().chain(censored).enumerate() {
                positions[index] = position as u32;
            }
            let mut rest = positions.as_slice();
            let mut ordered = Vec::with_capacity(runs.len());
            for run in runs {
                let (own, others) = rest.split_at(run.len());
                ordered.push(own.to_vec());
                rest = others;
            }
            distribution.arrival_order = Some(Box::new(ArrivalOrder { runs: ordered }));
        }
        distribution
    }

    /// The distribution of values whose order says nothing.
    pub(crate) fn from_unordered(provenance: Provenance, values: Vec<Arrival>) -> Self {
        let (exact, others): (Vec<Arrival>, Vec<Arrival>) = values
            .into_iter()
            .partition(|value| matches!(value, Arrival::Known(_)));
        let values = |part: Vec<Arrival>| part.into_iter().map(Arrival::value).collect();
        Self::from_censored(provenance, values(exact), values(others))
    }

    /// The values of each run in their order of arrival; `None` where that is not known.
    pub(crate) fn runs(&self) -> Option<Vec<Vec<Arrival>>> {
        let (samples, censored) = (self.samples(), self.censored());
        let value = |position: &u32| {
            let position = *position as usize;
            match position.checked_sub(samples.len()) {
                None => samples.get(position).copied().map(Arrival::Known),
                Some(rest) => censored.get(rest).copied().map(Arrival::AtLeast),
            }
        };
        let runs = self.arrival_order.as_ref()?.runs().iter();
        runs.map(|run| run.iter().map(value).collect()).collect()
    }
}

/// A distribution as it is read: its order of arrival may not be that of its values.
#[derive(Deserialize)]
pub(crate) struct DistributionDocument {
    provenance: Provenance,
    shape: Shape,
    #[serde(default)]
    arrival_order: Option<Box<ArrivalOrder>>,
}

/// An order of arrival that is not that of the values beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"arrival_order\" is not the order of the {count} values in \"shape\"; every position from 0 to one less \
     than {count} must stand in it once, or leave the key out"
)]
pub(crate) struct ArrivalOrderError {
    count: u64,
}

impl TryFrom<DistributionDocument> for Distribution {
    type Error = ArrivalOrderError;

    fn try_from(document: DistributionDocument) -> Result<Self, ArrivalOrderError> {
        let distribution = Self {
            provenance: document.provenance,
            shape: document.shape,
            arrival_order: document.arrival_order,
        };
        let count = distribution.count().unwrap_or(0);
        let order = distribution.arrival_order.as_ref();
        match order.is_none_or(|order| order.is_of(count as usize)) {
            true => Ok(distribution),
            false => Err(ArrivalOrderError { count }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::{Evidence, merge};

    const fn exact(value: u64) -> Arrival {
        Arrival::Known(Duration::from_nanos(value))
    }

    const fn lost(value: u64) -> Arrival {
        Arrival::AtLeast(Duration::from_nanos(value))
    }

    fn of(arrivals: &[Arrival]) -> Distribution {
        let provenance = Provenance::new(Evidence::Sample, "test", "in order");
        Distribution::from_arrivals(provenance, arrivals.to_vec())
    }

    #[test]
    fn the_order_of_arrival_outlives_sorting_merging_and_json() {
        let one = [exact(5), lost(4), exact(1), exact(3)];
        let other = [lost(2), exact(3), exact(9)];
        let together = merge(&[&of(&one), &of(&other)]).unwrap();
        assert_eq!(together.samples().len(), 5);
        assert_eq!(together.runs().unwrap(), [one.to_vec(), other.to_vec()]);
        let csv = of(&one).to_csv();
        assert_eq!(Distribution::from_csv(&csv), Ok(of(&one)));
        // The CSV of several runs has no place for where each begins.
        let sorted = Distribution::from_csv(&together.to_csv()).unwrap();
        assert_eq!((sorted.runs(), sorted.count()), (None, Some(7)));
        let json = serde_json::to_string(&together).unwrap();
        let read: Distribution = serde_json::from_str(&json).unwrap();
        assert_eq!(read, together);
    }

    #[test]
    fn what_has_no_order_has_none_together_with_others_and_in_json() {
        let provenance = Provenance::new(Evidence::Sample, "test", "sorted");
        let sorted = Distribution::from_samples(provenance, vec![Duration::from_nanos(3)]);
        assert!(!serde_json::to_string(&sorted).unwrap().contains("arrival"));
        let together = merge(&[&of(&[exact(5), exact(1)]), &sorted]).unwrap();
        assert_eq!(together.runs(), None);
        assert_eq!(together.count(), Some(3));
    }

    #[test]
    fn an_order_of_other_values_is_refused() {
        let json = serde_json::to_string(&of(&[exact(5), exact(1)])).unwrap();
        for wrong in ["[[1]]", "[[1,1]]", "[[1,2]]", "[[1],[0],[2]]"] {
            let text = json.replace("[[1,0]]", wrong);
            assert_ne!(text, json);
            let refused = serde_json::from_str::<Distribution>(&text).unwrap_err();
            assert!(refused.to_string().contains("order of the 2 values"));
        }
    }
}
