//! How long changes between the modes of a description take at most, as `check` and `analyze` tell it.

use tailbound_analysis::transitions::{METHOD, TransitionBound, transitions_of};
use tailbound_model::Description;

use super::analyze_file::CsvRow;
use crate::failure::Failure;

/// The columns of the table for people.
pub const HEADER: [&str; 5] = [
    "from",
    "to",
    "domains that change",
    "in force within",
    "with slow agents",
];

/// Those to and from some modes.
pub fn concerning(
    description: &Description,
    modes: &[String],
) -> Result<Vec<TransitionBound>, Failure> {
    let concerned = |mode: &str| modes.iter().any(|one| one == mode);
    let wanted = |from: &str, to: &str| concerned(from) || concerned(to);
    transitions_of(description, wanted).map_err(Failure::from_error)
}

/// A row of the table for people.
pub fn cells(one: &TransitionBound) -> Vec<String> {
    vec![
        one.from.clone(),
        one.to.clone(),
        changes(one),
        one.bound.to_string(),
        one.bound_with_slow_agents.to_string(),
    ]
}

/// A row of the CSV that tasks and CPUs are in, too.
pub fn csv_row(one: &TransitionBound) -> CsvRow {
    let slow = one.bound_with_slow_agents;
    CsvRow {
        kind: "transition",
        name: format!("{} to {}", one.from, one.to),
        response_bound: Some(one.bound),
        verdict: "bounded",
        why: format!("{}; {slow} with slow agents", changes(one)),
        method: METHOD.into(),
        ..CsvRow::default()
    }
}

/// A line for the curious.
pub fn line(one: &TransitionBound) -> String {
    format!(
        "from mode {} to {}: in force within {}, with slow agents {}: {}",
        one.from,
        one.to,
        one.bound,
        one.bound_with_slow_agents,
        changes(one)
    )
}

fn changes(one: &TransitionBound) -> String {
    let steps = one.steps.iter();
    let each: Vec<String> = steps
        .map(|step| format!("{} ({})", step.domain, step.direction))
        .collect();
    match each.is_empty() {
        true => "none".into(),
        false => each.join(", "),
    }
}
