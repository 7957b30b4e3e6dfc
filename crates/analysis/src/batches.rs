//! Jobs that come several at a time.

use crate::AnalysisError;

/// The most steps of work in a batch, on a lattice.
const MOST_STEPS: usize = 100_000;

/// How many jobs come at a time, with probabilities that add up to one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BatchLaw(Vec<(u32, f64)>);

/// A place in a batch, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BatchPlace {
    /// The share of batches of exactly so many jobs.
    pub ends: f64,
    /// The share of all jobs that stand at this place.
    pub jobs: f64,
}

/// The laws of a batch's work on a lattice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BatchSizes {
    /// All of a batch.
    pub total: Vec<f64>,
    /// A job and those of its batch before it, for which it waits.
    pub tagged: Vec<f64>,
}

impl BatchLaw {
    /// Single jobs.
    pub(crate) fn single() -> Self {
        Self(vec![(1, 1.0)])
    }

    pub(crate) fn new(batches: &[(u32, f64)]) -> Self {
        Self(batches.to_vec())
    }

    /// The mean number of jobs.
    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().map(|(jobs, p)| f64::from(*jobs) * p).sum()
    }

    /// The most jobs.
    pub(crate) fn longest(&self) -> u32 {
        self.0.iter().map(|(jobs, _)| *jobs).max().unwrap_or(1)
    }

    /// The places of a batch, the first one first.
    pub(crate) fn places(&self) -> impl Iterator<Item = BatchPlace> + '_ {
        let mean = self.mean();
        let share = |chosen: &dyn Fn(u32) -> bool| -> f64 {
            let kept = self.0.iter().filter(|(jobs, _)| chosen(*jobs));
            kept.map(|(_, p)| p).sum()
        };
        (1..=self.longest()).map(move |place| BatchPlace {
            ends: share(&|jobs| jobs == place),
            jobs: share(&|jobs| jobs >= place) / mean,
        })
    }

    /// The mean of e^(theta work), from that of one job: of a batch, and of a job with those of its batch before it.
    pub(crate) fn moments(&self, of_one: f64) -> (f64, f64) {
        let (mut power, mut total, mut tagged) = (1.0, 0.0, 0.0);
        for place in self.places() {
            power *= of_one;
            total += place.ends * power;
            tagged += place.jobs * power;
        }
        (total, tagged)
    }

    /// The laws of a batch's work, from that of one job.
    ///
    /// # Errors
    /// [`AnalysisError::NotAnalysed`] for batches of too many steps.
    pub(crate) fn sizes(&self, one: &[f64]) -> Result<BatchSizes, AnalysisError> {
        let longest = self.longest();
        if one.len().saturating_mul(longest as usize) > MOST_STEPS.max(one.len()) {
            return Err(AnalysisError::NotAnalysed {
                reason: format!(
                    "batches of up to {longest} jobs of up to {} steps each",
                    one.len()
                ),
            });
        }
        let length = (one.len() - 1) * longest as usize + 1;
        let mut sizes = BatchSizes {
            total: vec![0.0; length],
            tagged: vec![0.0; length],
        };
        let mut sum = vec![1.0];
        for place in self.places() {
            sum = sum_of(&sum, one);
            for (law, weight) in [
                (&mut sizes.total, place.ends),
                (&mut sizes.tagged, place.jobs),
            ] {
                law.iter_mut()
                    .zip(&sum)
                    .for_each(|(p, value)| *p += weight * value);
            }
        }
        Ok(sizes)
    }
}

/// The law of the sum of two independent variables.
pub(crate) fn sum_of(one: &[f64], other: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; one.len() + other.len() - 1];
    for (shift, weight) in other.iter().enumerate().filter(|(_, w)| **w > 0.0) {
        for (total, value) in sum[shift..].iter_mut().zip(one) {
            *total += weight * value;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_job_waits_for_those_of_its_batch_before_it() {
        assert_eq!(sum_of(&[0.5, 0.5], &[0.0, 1.0]), [0.0, 0.5, 0.5]);
        let law = BatchLaw::new(&[(1, 0.5), (3, 0.5)]);
        let sizes = law.sizes(&[0.0, 0.0, 1.0]).unwrap();
        assert_eq!(sizes.total, [0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.5]);
        // Half of the jobs come first, a quarter second, a quarter third.
        assert_eq!(sizes.tagged, [0.0, 0.0, 0.5, 0.0, 0.25, 0.0, 0.25]);
        let (total, tagged) = law.moments(2.0);
        assert_eq!(
            (total, tagged),
            (0.5 * 2.0 + 0.5 * 8.0, 0.5 * 2.0 + 0.25 * 4.0 + 0.25 * 8.0)
        );
    }

    #[test]
    fn single_jobs_are_themselves() {
        let one = vec![0.0, 0.25, 0.75];
        let sizes = BatchLaw::single().sizes(&one).unwrap();
        assert_eq!((&sizes.total, &sizes.tagged), (&one, &one));
    }

    #[test]
    fn batches_of_too_many_steps_are_refused() {
        let law = BatchLaw::new(&[(1_000_000, 1.0)]);
        assert!(law.sizes(&[0.0, 1.0]).is_err());
    }
}
