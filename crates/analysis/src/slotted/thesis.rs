//! The thesis's discretisation of M/D(DS)/1: one arrival per slot at most.
//!
//! H. Li, *Real-Time Virtualization and Coordination for Edge Computing*, doctoral thesis,
//! Washington University in St. Louis, 2021, section 4.2: algorithms 1 and 2, equations 4.3 to
//! 4.5 and 4.8 to 4.13, with these corrections:
//!
//! * equation 4.4 holds for slots P - B to P - 1, and for d = 1 its cases l = 0 and l >= d - 1 add;
//! * algorithm 2 goes on from an exhausted budget: (l, 0) to (l, 0) or (l + d, 0);
//! * budgets from 0 to B take B + 1 rows;
//! * a state is kept if it is below M (lines 13 and 20 say "at most M").
//!
//! The result is for cross-checks. It is biased: with at most one arrival per slot, the responses
//! are too short by a share of order 1 / N. [`crate::predict`] has no such bias and knows its error.

use tailbound_distribution::{Distribution, Evidence, Provenance, StepCdf};
use tailbound_time::{Duration, Rate};

use crate::AnalysisError;

/// The most periods that algorithm 1 iterates.
const MOST_ROUNDS: usize = 100_000;
/// The most cells of algorithm 2 in one slot: workloads times budgets.
const MOST_CELLS: usize = 50_000_000;

/// An M/D(DS)/1 queue and how it is cut into slots (thesis, table 4.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThesisQuery {
    /// The arrival rate.
    pub rate: Rate,
    /// The execution time of every job, d'.
    pub execution_time: Duration,
    /// The deferrable server's budget, B'.
    pub budget: Duration,
    /// Its period, P'.
    pub period: Duration,
    /// N: how many slots an execution time has. Budget and period must be whole slots too.
    pub slots_per_execution: u32,
    /// M: how many workloads, from 0 on, are kept, in slots.
    pub workloads: u32,
    /// The change per period at which algorithm 1 stops.
    pub tolerance: f64,
}

/// The response times of the B/D(DS)/1 queue.
#[derive(Clone, Debug, PartialEq)]
pub struct ThesisResponses {
    /// The length of a slot in nanoseconds, as numerator and denominator: d' / N.
    pub slot_ns: (u64, u32),
    /// Pr(response = t slots) for t = 0, 1, 2, ... (equation 4.13).
    pub probabilities: Vec<f64>,
    /// Pr(workload = l slots at the start of a period) for l = 0 to M - 1 (algorithm 1).
    pub workload: Vec<f64>,
    /// What algorithm 2 lost beyond M, as a share of all jobs.
    pub lost: f64,
}

impl ThesisResponses {
    /// Pr(response <= `at`).
    pub fn cdf(&self, at: Duration) -> f64 {
        let (numerator, denominator) = (u128::from(self.slot_ns.0), u128::from(self.slot_ns.1));
        let slots = u128::from(at.as_nanos()) * denominator / numerator.max(1);
        let slots = usize::try_from(slots).unwrap_or(usize::MAX);
        self.probabilities
            .iter()
            .take(slots.saturating_add(1))
            .sum()
    }

    /// The result as an estimate.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] if it is no distribution function, which would be our mistake.
    pub fn distribution(&self) -> Result<Distribution, AnalysisError> {
        let (numerator, denominator) = (u128::from(self.slot_ns.0), u128::from(self.slot_ns.1));
        let mut steps: Vec<(Duration, f64)> = Vec::new();
        let mut sum = 0.0;
        let rising = self.probabilities.iter().enumerate();
        for (slot, probability) in rising.filter(|(_, probability)| **probability > 0.0) {
            sum += probability;
            let nanos = slot as u128 * numerator / denominator.max(1);
            let at = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            match steps.last_mut() {
                Some((last, value)) if *last == at => *value = f64::min(sum, 1.0),
                _ => steps.push((at, f64::min(sum, 1.0))),
            }
        }
        let curve = StepCdf::new(steps).map_err(AnalysisError::no_distribution)?;
        let method = "B/D(DS)/1, at most one arrival per slot (Li 2021, section 4.2, corrected)";
        let mut provenance = Provenance::new(Evidence::Estimate, "response time", method);
        provenance.assumptions = vec![
            "releases form a Poisson process, of which at most one per slot counts: responses are \
             too short by a share of order 1 / N"
                .into(),
            "execution times are constant".into(),
        ];
        Ok(Distribution::from_curve(provenance, curve))
    }
}

/// The response times of an M/D(DS)/1 queue by the thesis's method (section 4.2.5), corrected.
///
/// # Errors
/// [`AnalysisError::Invalid`] if budget or period are no whole slots, or a parameter is out of
/// range; [`AnalysisError::Overloaded`] if U < W (equation 4.1) does not hold;
/// [`AnalysisError::NotAnalysed`] if algorithm 1 does not come to rest or M is too large.
pub fn discretised(query: &ThesisQuery) -> Result<ThesisResponses, AnalysisError> {
    let queue = ThesisQueue::of(query)?;
    let workload = queue.at_period_start(query.tolerance)?;
    let probabilities = queue.responses(&workload);
    let lost = 1.0 - probabilities.iter().sum::<f64>();
    Ok(ThesisResponses {
        slot_ns: (query.execution_time.as_nanos(), query.slots_per_execution),
        probabilities,
        workload,
        lost,
    })
}

/// B/D(DS)/1: everything in slots (thesis, section 4.1).
struct ThesisQueue {
    /// η: the probability of an arrival in a slot.
    arrival: f64,
    /// d.
    execution: usize,
    /// B.
    budget_slots: usize,
    /// P.
    period_slots: usize,
    /// M.
    workloads: usize,
}

impl ThesisQueue {
    fn of(query: &ThesisQuery) -> Result<Self, AnalysisError> {
        let invalid = |what: String| Err(AnalysisError::Invalid { what });
        let count = u128::from(query.slots_per_execution);
        let execution = u128::from(query.execution_time.as_nanos());
        if count == 0 || execution == 0 || query.workloads == 0 {
            return invalid(
                "execution time, slots per execution time and number of workloads must be above \
                 zero"
                    .into(),
            );
        }
        let whole = |length: Duration, name: &str| {
            let scaled = u128::from(length.as_nanos()) * count;
            if scaled % execution != 0 {
                return Err(AnalysisError::Invalid {
                    what: format!(
                        "the {name} of {length} is no whole number of slots of {} / {count}; \
                         choose another number of slots per execution time",
                        query.execution_time
                    ),
                });
            }
            usize::try_from(scaled / execution).map_err(|_| AnalysisError::Invalid {
                what: format!("the {name} of {length} has too many slots; use fewer"),
            })
        };
        let (budget, period) = (
            whole(query.budget, "budget")?,
            whole(query.period, "period")?,
        );
        if budget == 0 || budget > period {
            return invalid(format!(
                "a budget of {} in a period of {} is none; it must be above zero and at most the \
                 period",
                query.budget, query.period
            ));
        }
        let arrival = query.rate.expected_in(query.execution_time) / count as f64;
        let utilisation = query.rate.expected_in(query.execution_time);
        let bandwidth = budget as f64 / period as f64;
        if utilisation >= bandwidth || arrival >= 1.0 {
            return Err(AnalysisError::Overloaded {
                utilisation,
                bandwidth,
                remedy: "give more budget, or send fewer or shorter requests".into(),
            });
        }
        let workloads = query.workloads as usize;
        if workloads.saturating_mul(budget + 1) > MOST_CELLS {
            return Err(AnalysisError::NotAnalysed {
                reason: format!("{workloads} workloads and {budget} budgets are too many cells"),
            });
        }
        Ok(Self {
            arrival,
            execution: query.slots_per_execution as usize,
            budget_slots: budget,
            period_slots: period,
            workloads,
        })
    }

    /// Algorithm 1: Pr(workload = l) at the start of a period, by iterating the periodic server
    /// with its budget at the end of the period.
    fn at_period_start(&self, tolerance: f64) -> Result<Vec<f64>, AnalysisError> {
        let mut law = vec![0.0; self.workloads];
        law[0] = 1.0;
        for _ in 0..MOST_ROUNDS {
            let before = law.clone();
            for n in 0..self.period_slots {
                law = if n < self.period_slots - self.budget_slots {
                    self.off_slot(&law)
                } else {
                    self.on_slot(&law)
                };
            }
            let norm: f64 = law.iter().sum();
            law.iter_mut().for_each(|p| *p /= norm);
            let change: f64 = law.iter().zip(&before).map(|(a, b)| (a - b).abs()).sum();
            if change < tolerance {
                return Ok(law);
            }
        }
        Err(AnalysisError::NotAnalysed {
            reason: format!(
                "the workload still moved by more than {tolerance:e} after {MOST_ROUNDS} periods"
            ),
        })
    }

    /// Equation 4.3: a slot in which the periodic server does not serve.
    fn off_slot(&self, law: &[f64]) -> Vec<f64> {
        let value = |l: usize| {
            let came = l.checked_sub(self.execution).map_or(0.0, |from| law[from]);
            (1.0 - self.arrival) * law[l] + self.arrival * came
        };
        (0..law.len()).map(value).collect()
    }

    /// Equation 4.4: a slot in which the periodic server serves what there is.
    fn on_slot(&self, law: &[f64]) -> Vec<f64> {
        let at = |l: usize| law.get(l).copied().unwrap_or(0.0);
        let value = |l: usize| {
            let stayed_empty = if l == 0 { at(0) } else { 0.0 };
            let came = (l + 1).checked_sub(self.execution).map_or(0.0, at);
            (1.0 - self.arrival) * (stayed_empty + at(l + 1)) + self.arrival * came
        };
        (0..law.len()).map(value).collect()
    }

    /// Algorithm 2 and equation 4.13: the joint law of workload and budget slot by slot, each
    /// slot's share of the response times being added as it goes.
    fn responses(&self, workload: &[f64]) -> Vec<f64> {
        let rows = self.budget_slots + 1;
        let mut responses = Vec::new();
        // Cell (l, g) is at l (B + 1) + g.
        let mut layer = vec![0.0; self.workloads * rows];
        for (l, p) in workload.iter().enumerate() {
            layer[l * rows + self.budget_slots] = *p;
        }
        for n in 0..self.period_slots {
            let mut next = vec![0.0; layer.len()];
            for (cell, q) in layer.iter().enumerate().filter(|(_, q)| **q > 0.0) {
                let (l, g) = (cell / rows, cell % rows);
                let response = self.response(l, g, n);
                if responses.len() <= response {
                    responses.resize(response + 1, 0.0);
                }
                responses[response] += q / self.period_slots as f64;
                let mut go = |l: usize, g: usize, p: f64| {
                    if l < self.workloads {
                        next[l * rows + g] += p * q;
                    }
                };
                let (stay, come) = (1.0 - self.arrival, self.arrival);
                match (l, g) {
                    (_, 0) => {
                        go(l, 0, stay);
                        go(l + self.execution, 0, come);
                    }
                    (0, _) => {
                        go(0, g, stay);
                        go(self.execution - 1, g - 1, come);
                    }
                    _ => {
                        go(l - 1, g - 1, stay);
                        go(l + self.execution - 1, g - 1, come);
                    }
                }
            }
            layer = next;
        }
        responses
    }

    /// Equation 4.11: the response time of a job that comes at slot n, with l slots of work before
    /// it and g slots of budget left.
    fn response(&self, l: usize, g: usize, n: usize) -> usize {
        let need = l + self.execution;
        let first = g.min(self.period_slots - n);
        let pause = self.period_slots - n - first;
        if need <= first {
            need
        } else if need <= first + self.budget_slots {
            need + pause
        } else {
            let more = (need - first - self.budget_slots).div_ceil(self.budget_slots);
            need + pause + more * (self.period_slots - self.budget_slots)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn figure_4_9_of_the_thesis() {
        let queue = ThesisQueue {
            arrival: 0.1,
            execution: 2,
            budget_slots: 3,
            period_slots: 5,
            workloads: 10,
        };
        assert_eq!(queue.response(3, 1, 3), 8);
    }

    #[test]
    fn slots_must_be_whole() {
        let query = ThesisQuery {
            rate: Rate::per_second(400.0).unwrap(),
            execution_time: Duration::from_millis(1),
            budget: Duration::from_micros(2_800),
            period: Duration::from_millis(4),
            slots_per_execution: 3,
            workloads: 100,
            tolerance: 1e-9,
        };
        let error = discretised(&query).unwrap_err().to_string();
        assert!(
            error.contains("the budget of 2.8ms is no whole number of slots"),
            "{error}"
        );
        let overloaded = ThesisQuery {
            rate: Rate::per_second(700.0).unwrap(),
            slots_per_execution: 5,
            ..query
        };
        let error = discretised(&overloaded).unwrap_err();
        assert!(matches!(error, AnalysisError::Overloaded { .. }));
    }
}
