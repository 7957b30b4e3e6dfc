//! How long changes between the modes of a description take at most, as `check` and `analyze` tell it.

use tailbound_analysis::transitions::{METHOD, Transition, transitions_of};
use tailbound_model::Description;

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
pub fn concerning(description: &Description, modes: &[String]) -> Result<Vec<Transition>, Failure> {
    let concerned = |mode: &str| modes.iter().any(|one| one == mode);
    let wanted = |from: &str, to: &str| concerned(from) || concerned(to);
    transitions_of(description, wanted).map_err(Failure::from_error)
}

/// A row of the table for people.
pub fn cells(one: &Transition) -> Vec<String> {
    vec![
        one.from.clone(),
        one.to.clone(),
        changes(one),
        one.bound.to_string(),
        one.bound_with_slow_agents.to_string(),
    ]
}

/// A row of the CSV that tasks and CPUs are in, too.
pub fn csv_row(one: &Transition) -> Vec<String> {
    let mut row = vec![
        String::new(),
        "transition".into(),
        format!("{} to {}", one.from, one.to),
    ];
    row.extend([(); 3].map(|()| String::new()));
    row.push(one.bound.as_nanos().to_string());
    row.push(String::new());
    row.push("bounded".into());
    let slow = one.bound_with_slow_agents;
    row.push(format!("{}; {slow} with slow agents", changes(one)));
    row.push(METHOD.into());
    row
}

/// A line for the curious.
pub fn line(one: &Transition) -> String {
    format!(
        "from mode {} to {}: in force within {}, with slow agents {}: {}",
        one.from,
        one.to,
        one.bound,
        one.bound_with_slow_agents,
        changes(one)
    )
}

fn changes(one: &Transition) -> String {
    let steps = one.steps.iter();
    let each: Vec<String> = steps
        .map(|step| format!("{} ({})", step.domain, step.direction))
        .collect();
    match each.is_empty() {
        true => "none".into(),
        false => each.join(", "),
    }
}
