//! Jobs that come several at a time.

use crate::AnalysisError;

/// The most steps of work in a batch, on a lattice.
const MOST_STEPS: usize = 100_000;
/// The most elementary operations for the laws of a batch.
const MOST_OPERATIONS: usize = 4_000_000_000;
/// Amounts of work beyond those that a batch exceeds with at most this probability are left out.
const NEGLECTED: f64 = 1e-18;

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

    /// The numbers of jobs with their probabilities.
    pub(crate) fn jobs(&self) -> &[(u32, f64)] {
        &self.0
    }

    /// Checks that this is a law.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for a batch without jobs, and for probabilities that are none or do not add up to 1.
    pub(crate) fn check(&self) -> Result<(), AnalysisError> {
        let invalid = |what: String| Err(AnalysisError::Invalid { what });
        let is_none = |(jobs, p): &(u32, f64)| *jobs == 0 || p.is_nan() || *p <= 0.0;
        if self.0.iter().any(is_none) {
            return invalid(
                "a batch has no job, or no probability above zero; leave it out".into(),
            );
        }
        let sum: f64 = self.0.iter().map(|(_, p)| p).sum();
        if (sum - 1.0).abs() >= 1e-9 {
            return invalid(format!(
                "the probabilities of the batches sum up to {sum}; make it 1"
            ));
        }
        Ok(())
    }

    /// The mean number of jobs.
    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().map(|(jobs, p)| f64::from(*jobs) * p).sum()
    }

    /// The mean number of ordered pairs of jobs of the same batch.
    pub(crate) fn mean_pairs(&self) -> f64 {
        let pairs = |jobs: u32| f64::from(jobs) * (f64::from(jobs) - 1.0);
        self.0.iter().map(|(jobs, p)| pairs(*jobs) * p).sum()
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
        let refused = || AnalysisError::NotAnalysed {
            reason: format!(
                "batches of up to {longest} jobs of up to {} steps each",
                one.len() - 1
            ),
        };
        // Each job adds a step at least, of those that add any.
        if longest as usize > MOST_STEPS {
            return Err(refused());
        }
        let values = one.iter().filter(|p| **p > 0.0).count();
        let mut sizes = BatchSizes {
            total: Vec::new(),
            tagged: Vec::new(),
        };
        let (mut sum, mut operations) = (vec![1.0], 0_usize);
        for place in self.places() {
            operations = operations.saturating_add(sum.len().saturating_mul(values));
            if operations > MOST_OPERATIONS {
                return Err(refused());
            }
            sum = sum_of(&sum, one);
            neglect_tail(&mut sum);
            if sum.len() > MOST_STEPS.max(one.len()) {
                return Err(refused());
            }
            let length = sum.len().max(sizes.total.len());
            for (law, weight) in [
                (&mut sizes.total, place.ends),
                (&mut sizes.tagged, place.jobs),
            ] {
                law.resize(length, 0.0);
                law.iter_mut()
                    .zip(&sum)
                    .for_each(|(p, value)| *p += weight * value);
            }
        }
        Ok(sizes)
    }
}

/// Leaves out the end of a law that weighs hardly anything.
fn neglect_tail(law: &mut Vec<f64>) {
    let mut beyond = 0.0;
    while let Some(last) = law.last() {
        beyond += last;
        if beyond > NEGLECTED || law.len() == 1 {
            break;
        }
        law.pop();
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
        let law = BatchLaw::new(&[(3, 1.0)]);
        let mut long = vec![0.0; 60_000];
        long[59_999] = 1.0;
        assert!(law.sizes(&long).is_err());
    }

    /// A job of a law with a long tail hardly ever has the longest value, and a batch never has it several times.
    #[test]
    fn the_longest_values_of_several_jobs_are_left_out() {
        let one: Vec<f64> = (0..600).map(|at| 0.5_f64.powi(at + 1)).collect();
        let sizes = BatchLaw::new(&[(5, 1.0)]).sizes(&one).unwrap();
        assert!(sizes.total.len() < 150, "{}", sizes.total.len());
        assert!((sizes.total.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let pairs = BatchLaw::new(&[(1, 0.5), (3, 0.5)]).mean_pairs();
        assert!((pairs - 3.0).abs() < 1e-12);
    }
}
