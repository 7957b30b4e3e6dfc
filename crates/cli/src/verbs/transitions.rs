//! How long changes between the modes of a description take at most, as `check` and `analyze` tell it.

use serde::Serialize;
use tailbound_analysis::transitions::{Direction, Transition, transitions, transitions_of};
use tailbound_model::Description;
use tailbound_time::Duration;

use crate::failure::Failure;

/// A change from one mode to another, as JSON spells it.
#[derive(Serialize)]
pub struct OneTransition {
    from: String,
    to: String,
    /// All is in force within this time, where agents answer at once.
    bound_ns: u64,
    /// The same where each takes as long as it may.
    bound_with_slow_agents_ns: u64,
    domains: Vec<OneDomain>,
}

#[derive(Serialize)]
struct OneDomain {
    domain: String,
    change: &'static str,
    begun_ns: u64,
    in_force_ns: u64,
}

/// By what the bounds are known.
pub const METHOD: &str = "decreases before increases, each in force within its old period \
                          (docs/reference/description.md, Changes between modes)";

/// The columns of the table for people.
pub const HEADER: [&str; 5] = [
    "from",
    "to",
    "domains that change",
    "in force within",
    "with slow agents",
];

/// Every ordered pair of modes; none of a description with fewer than two.
pub fn of(description: &Description) -> Result<Vec<OneTransition>, Failure> {
    let found = transitions(description).map_err(Failure::from_error)?;
    Ok(found.iter().map(OneTransition::of).collect())
}

/// Those to and from some modes.
pub fn concerning(
    description: &Description,
    modes: &[String],
) -> Result<Vec<OneTransition>, Failure> {
    let concerned = |mode: &str| modes.iter().any(|one| one == mode);
    let wanted = |from: &str, to: &str| concerned(from) || concerned(to);
    let found = transitions_of(description, wanted).map_err(Failure::from_error)?;
    Ok(found.iter().map(OneTransition::of).collect())
}

impl OneTransition {
    fn of(found: &Transition) -> Self {
        let domains = found.steps.iter().map(|step| OneDomain {
            domain: step.domain.clone(),
            change: word(step.direction),
            begun_ns: step.begun.as_nanos(),
            in_force_ns: step.in_force.as_nanos(),
        });
        Self {
            from: found.from.clone(),
            to: found.to.clone(),
            bound_ns: found.bound.as_nanos(),
            bound_with_slow_agents_ns: found.bound_with_slow_agents.as_nanos(),
            domains: domains.collect(),
        }
    }

    /// A row of the table for people.
    pub fn cells(&self) -> Vec<String> {
        vec![
            self.from.clone(),
            self.to.clone(),
            self.changes(),
            told(self.bound_ns),
            told(self.bound_with_slow_agents_ns),
        ]
    }

    /// A row of the CSV that tasks and CPUs are in, too.
    pub fn csv_row(&self) -> Vec<String> {
        let mut row = vec![
            String::new(),
            "transition".into(),
            format!("{} to {}", self.from, self.to),
        ];
        row.extend([(); 3].map(|()| String::new()));
        row.push(self.bound_ns.to_string());
        row.push(String::new());
        row.push("bounded".into());
        let slow = told(self.bound_with_slow_agents_ns);
        row.push(format!("{}; {slow} with slow agents", self.changes()));
        row.push(METHOD.into());
        row
    }

    /// A line for the curious.
    pub fn line(&self) -> String {
        format!(
            "from mode {} to {}: in force within {}, with slow agents {}: {}",
            self.from,
            self.to,
            told(self.bound_ns),
            told(self.bound_with_slow_agents_ns),
            self.changes()
        )
    }

    fn changes(&self) -> String {
        let each = self.domains.iter();
        let each: Vec<String> = each
            .map(|one| format!("{} ({})", one.domain, one.change))
            .collect();
        match each.is_empty() {
            true => "none".into(),
            false => each.join(", "),
        }
    }
}

fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Decrease => "decrease",
        Direction::Increase => "increase",
        Direction::SameBandwidth => "same bandwidth",
        Direction::TasksOnly => "tasks only",
    }
}

fn told(ns: u64) -> String {
    Duration::from_nanos(ns).to_string()
}
