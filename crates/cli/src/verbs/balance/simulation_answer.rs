//! What a simulated division comes to: a row for each application in each phase of the load.

use tailbound_balance::simulation::{PhaseEnd, PlayedBalance, PlayedPhase};
use tailbound_time::Duration;

use crate::failure::Failure;
use crate::output::{Output, table};

/// The columns for people: means over the second half of a phase.
const HEADER: [&str; 9] = [
    "from",
    "until",
    "application",
    "capacity",
    "level",
    "matching",
    "longest",
    "settled after",
    "steady",
];

/// The columns of the CSV: every interval.
pub(super) const STEPS: [&str; 6] = [
    "at_ns",
    "application",
    "capacity_ns",
    "matching_value",
    "service_level",
    "latency_ns",
];

/// Prints the answer: phases for people, every interval as CSV, all as JSON.
pub fn print(answer: &PlayedBalance, output: &Output) -> Result<(), Failure> {
    let for_people = || {
        let rows = answer
            .phases
            .iter()
            .flat_map(|phase| phase_rows(answer, phase));
        let rows: Vec<Vec<String>> = rows.collect();
        let fairness = answer
            .phases
            .iter()
            .filter_map(|phase| fairness(answer, phase));
        let lines: String = fairness.map(|line| line + "\n").collect();
        format!("{}\n{lines}", table(&HEADER, &rows))
    };
    output.rows_with(for_people, &STEPS, &step_rows(answer), answer)
}

fn instant(answer: &PlayedBalance, number: usize) -> String {
    let after_ns = answer.interval_ns.saturating_mul(number as u64);
    Duration::from_nanos(after_ns).to_string()
}

fn phase_rows(answer: &PlayedBalance, phase: &PlayedPhase) -> Vec<Vec<String>> {
    let settled = match phase.settled_after {
        Some(1) => "1 interval".to_owned(),
        Some(intervals) => format!("{intervals} intervals"),
        None => "not settled".to_owned(),
    };
    let row = |end: &PhaseEnd| {
        vec![
            instant(answer, phase.first),
            instant(answer, phase.end),
            end.name.clone(),
            format!(
                "{:.1}%",
                end.capacity_ns as f64 / answer.whole_ns as f64 * 100.0
            ),
            format!("{:.2}", end.service_level),
            end.matching_value
                .map_or("-".to_owned(), |value| format!("{value:.2}")),
            end.latency_ns
                .map_or("-".to_owned(), |ns| format!("{:.2} s", ns as f64 / 1e9)),
            settled.clone(),
            phase
                .steadiness
                .map_or("-".to_owned(), |share| format!("{:.0}%", share * 100.0)),
        ]
    };
    phase.ends.iter().map(row).collect()
}

/// The fairness of a phase in words.
fn fairness(answer: &PlayedBalance, phase: &PlayedPhase) -> Option<String> {
    let unfairness = phase.unfairness?;
    Some(format!(
        "{} to {}: capacities of applications below level 1 differ by {:.1} points, by weights",
        instant(answer, phase.first),
        instant(answer, phase.end),
        unfairness * 100.0
    ))
}

fn step_rows(answer: &PlayedBalance) -> Vec<Vec<String>> {
    let intervals = answer
        .applications
        .first()
        .map_or(0, |one| one.intervals.len());
    let mut rows = Vec::new();
    for interval in 0..intervals {
        for application in &answer.applications {
            let step = &application.intervals[interval];
            rows.push(vec![
                answer
                    .interval_ns
                    .saturating_mul(interval as u64 + 1)
                    .to_string(),
                application.name.clone(),
                step.capacity_ns.to_string(),
                step.matching_value
                    .map_or(String::new(), |value| value.to_string()),
                step.service_level.to_string(),
                step.latency_ns.map_or(String::new(), |ns| ns.to_string()),
            ]);
        }
    }
    rows
}
