//! Several distributions taken together as one.

use tailbound_time::Duration;

use crate::{Distribution, Evidence, Provenance, Shape, StepCdf};

/// Why distributions cannot be taken together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MergeError {
    /// There is nothing to merge.
    #[error("there is no distribution to merge; give at least one that is not empty")]
    Nothing,
    /// A curve has no count, so its share of the whole is not known.
    #[error(
        "distribution {index} is a curve, which has no count of values; \
         use a mixture and say its weight"
    )]
    WeightUnknown {
        /// Which of them.
        index: usize,
    },
    /// A weight is no share of anything.
    #[error("weight {weight} of distribution {index} is not above zero and finite")]
    WeightInvalid {
        /// Which of them.
        index: usize,
        /// Its weight.
        weight: f64,
    },
    /// An empty sample has no distribution to mix in.
    #[error("distribution {index} is an empty sample, which cannot be part of a mixture")]
    Empty {
        /// Which of them.
        index: usize,
    },
}

/// All samples of `parts` together, censored ones included; every value has the same weight. The order of arrival
/// stays known where it is known of every part, each run apart.
///
/// # Errors
/// [`MergeError::WeightUnknown`] for curves and brackets, which [`mixture`] takes;
/// [`MergeError::Nothing`] for an empty list.
pub fn merge(parts: &[&Distribution]) -> Result<Distribution, MergeError> {
    let provenances: Vec<&Provenance> = parts.iter().map(|part| &part.provenance).collect();
    let provenance = Provenance::joined(&provenances).ok_or(MergeError::Nothing)?;
    if let Some(index) = parts.iter().position(|part| part.count().is_none()) {
        return Err(MergeError::WeightUnknown { index });
    }
    let runs: Option<Vec<_>> = parts.iter().map(|part| part.runs()).collect();
    if let Some(runs) = runs {
        return Ok(Distribution::from_runs(provenance, &runs.concat()));
    }
    let (mut samples, mut censored) = (Vec::new(), Vec::new());
    for part in parts {
        samples.extend_from_slice(part.samples());
        censored.extend_from_slice(part.censored());
    }
    Ok(Distribution::from_censored(provenance, samples, censored))
}

/// The distribution of a value that is drawn from one of `parts` by their weights, which need not
/// add up to 1. Of samples and curves it is a curve; with a bracket or unknown mass in it, a
/// bracket.
///
/// # Errors
/// [`MergeError`] names the part that cannot be mixed.
pub fn mixture(parts: &[(f64, &Distribution)]) -> Result<Distribution, MergeError> {
    let provenances: Vec<&Provenance> = parts.iter().map(|(_, part)| &part.provenance).collect();
    let provenance = Provenance::joined(&provenances).ok_or(MergeError::Nothing)?;
    let mut total = 0.0;
    for (index, (weight, _)) in parts.iter().enumerate() {
        if !(weight.is_finite() && *weight > 0.0) {
            return Err(MergeError::WeightInvalid {
                index,
                weight: *weight,
            });
        }
        total += weight;
    }
    let (mut optimistic, mut pessimistic) = (Vec::new(), Vec::new());
    for (index, (weight, part)) in parts.iter().enumerate() {
        let share = weight / total;
        let empty = MergeError::Empty { index };
        optimistic.push((share, part.optimistic().ok_or(empty.clone())?));
        pessimistic.push((share, part.pessimistic().ok_or(empty)?));
    }
    let weighted = |functions: &[(f64, std::borrow::Cow<'_, StepCdf>)]| {
        let borrowed: Vec<(f64, &StepCdf)> = functions
            .iter()
            .map(|(share, function)| (*share, function.as_ref()))
            .collect();
        weighted_sum(&borrowed)
    };
    let exact = parts.iter().all(|(_, part)| match &part.shape {
        Shape::Samples(_) => true,
        Shape::Curve(curve) => curve.unknown_mass() <= 0.0,
        Shape::Censored { .. } | Shape::Bracket { .. } => false,
    });
    let pessimistic = weighted(&pessimistic);
    let shape = if exact {
        Shape::Curve(pessimistic)
    } else {
        Shape::Bracket {
            optimistic: weighted(&optimistic),
            pessimistic,
        }
    };
    Ok(Distribution {
        provenance,
        shape,
        arrival_order: None,
    })
}

/// The sum of `functions`, each times its share; the shares add up to 1.
fn weighted_sum(functions: &[(f64, &StepCdf)]) -> StepCdf {
    let mut rises: Vec<(Duration, f64)> = Vec::new();
    for (share, function) in functions {
        let mut before = 0.0;
        for (at, cumulative) in function.steps() {
            rises.push((*at, share * (cumulative - before)));
            before = *cumulative;
        }
    }
    rises.sort_by_key(|(at, _)| *at);
    let mut steps: Vec<(Duration, f64)> = Vec::with_capacity(rises.len());
    let mut reached = 0.0_f64;
    for (at, rise) in rises {
        reached = (reached + rise).min(1.0);
        match steps.last_mut() {
            Some((last, cumulative)) if *last == at => *cumulative = reached,
            _ => steps.push((at, reached)),
        }
    }
    let complete = functions
        .iter()
        .all(|(_, function)| function.unknown_mass() <= 0.0);
    if complete && let Some((_, cumulative)) = steps.last_mut() {
        *cumulative = 1.0;
    }
    StepCdf::from_ordered(steps)
}

impl Provenance {
    /// What is known of several distributions taken together: subjects and methods are listed,
    /// assumptions united, and seed, clock, host and warm-up kept where all agree. Unlike kinds of
    /// evidence make an estimate. `None` for an empty list.
    pub fn joined(parts: &[&Self]) -> Option<Self> {
        let first = *parts.first()?;
        let mut joined = first.clone();
        for part in &parts[1..] {
            if part.evidence != joined.evidence {
                joined.evidence = Evidence::Estimate;
            }
            for assumption in &part.assumptions {
                if !joined.assumptions.contains(assumption) {
                    joined.assumptions.push(assumption.clone());
                }
            }
            joined.seed = joined.seed.filter(|seed| part.seed == Some(*seed));
            joined.clock = joined.clock.filter(|clock| part.clock == Some(*clock));
            joined.warm_up = joined
                .warm_up
                .filter(|length| part.warm_up == Some(*length));
            joined.host = joined.host.filter(|host| part.host.as_ref() == Some(host));
        }
        joined.subject = listed(parts.iter().map(|part| part.subject.as_str()));
        joined.method = listed(parts.iter().map(|part| part.method.as_str()));
        Some(joined)
    }
}

/// The different ones of `texts`, in order, with commas.
fn listed<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut different: Vec<&str> = Vec::new();
    for text in texts {
        if !different.contains(&text) {
            different.push(text);
        }
    }
    different.join(", ")
}
