//! The modes and their changes as Prometheus text.

use std::collections::BTreeMap;
use std::fmt::Write;

use tailbound_modes::contradictions::Contradiction;
use tailbound_modes::manager::Report;
use tailbound_modes::parts::{What, parts};
use tailbound_modes::transition::Ending;
use tailbound_time::Duration;

use super::{escape, header};
use crate::protocol::ModesStatus;

/// The upper ends of the buckets, in microseconds, for what takes from a message's time up to a wait
/// for many agents.
const BUCKETS_US: [u64; 19] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
];
/// How a change ends, in the order of [`ChangeCounts::endings`].
const ENDINGS: [&str; 3] = ["completed", "fell-back", "given-up"];
/// What is timed of a change, in the order of [`ChangeCounts::steps`].
const STEPS: [What; 4] = [What::Send, What::Signal, What::Receive, What::Change];

/// How often something took how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Histogram {
    /// What took no longer than each bucket's end, and longer than that of the one before.
    buckets: [u64; BUCKETS_US.len()],
    count: u64,
    sum: Duration,
}

impl Histogram {
    fn add(&mut self, took: Duration) {
        let bucket = BUCKETS_US
            .iter()
            .position(|end_us| took <= Duration::from_micros(*end_us));
        if let Some(bucket) = bucket {
            self.buckets[bucket] += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(took);
    }

    /// Its samples; `labels` ends with a comma unless it is empty.
    fn write(&self, text: &mut String, name: &str, labels: &str) {
        let mut until_here = 0;
        // Writing to a string cannot fail.
        for (end_us, count) in BUCKETS_US.iter().zip(self.buckets) {
            until_here += count;
            let end = Duration::from_micros(*end_us).as_secs_f64();
            let _ = writeln!(text, "{name}_bucket{{{labels}le=\"{end}\"}} {until_here}");
        }
        let _ = writeln!(text, "{name}_bucket{{{labels}le=\"+Inf\"}} {}", self.count);
        let of_all = match labels.trim_end_matches(',') {
            "" => String::new(),
            labels => format!("{{{labels}}}"),
        };
        let _ = writeln!(text, "{name}_sum{of_all} {}", self.sum.as_secs_f64());
        let _ = writeln!(text, "{name}_count{of_all} {}", self.count);
    }
}

/// The mode changes since the modes became known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeCounts {
    endings: [u64; ENDINGS.len()],
    latency: Histogram,
    steps: [Histogram; STEPS.len()],
    /// Connections of agents that were refused, or ended for what they sent.
    pub agents_refused: u64,
    /// How often a task was found to run of which the agent of its domain said that it was stopped; the domains
    /// with tasks that can be looked at.
    pub contradictions: BTreeMap<String, u64>,
}

impl ChangeCounts {
    /// Counts a change that has ended. What takes one back is part of it, but for its steps.
    pub fn add(&mut self, report: &Report) {
        let ending = match report.outcome.ending {
            Ending::Completed => 0,
            Ending::Partly(_) => 1,
            Ending::GivenUp(_) => 2,
        };
        self.endings[ending] += 1;
        if let Some(latency) = report.timeline.latency() {
            self.latency.add(latency);
        }
        let back = report.rolled_back.iter().flat_map(|back| parts(back));
        for part in parts(report).into_iter().chain(back) {
            let step = STEPS.iter().position(|step| *step == part.what);
            if let (Some(step), Some(took)) = (step, part.took) {
                self.steps[step].add(took);
            }
        }
    }
}

/// The text about modes; nothing if none are known.
pub fn render(text: &mut String, modes: Option<(&ModesStatus, &ChangeCounts)>) {
    let Some((status, counts)) = modes else {
        return;
    };
    // Writing to a string cannot fail.
    let name = "tailbound_mode_info";
    header(text, name, "gauge", "The mode that holds.");
    let _ = writeln!(text, "{name}{{mode=\"{}\"}} 1", escape(&status.state.mode));
    let name = "tailbound_mode_changes_total";
    header(text, name, "counter", "Mode changes by how they ended.");
    for (ending, count) in ENDINGS.iter().zip(counts.endings) {
        let _ = writeln!(text, "{name}{{ending=\"{ending}\"}} {count}");
    }
    let name = "tailbound_mode_change_latency_seconds";
    let help = "From the begin of a mode change to its end, without what took it back.";
    header(text, name, "histogram", help);
    counts.latency.write(text, name, "");
    let name = "tailbound_mode_change_step_seconds";
    let help =
        "The steps of mode changes: messages, tasks switched, answers, reservations accepted.";
    header(text, name, "histogram", help);
    for (step, histogram) in STEPS.iter().zip(&counts.steps) {
        histogram.write(text, name, &format!("step=\"{}\",", step.word()));
    }
    let name = "tailbound_agent_connected";
    header(
        text,
        name,
        "gauge",
        "Whether the agent of a domain is connected.",
    );
    for domain in status.state.domains.keys() {
        if status.table.agent_place(domain).is_some() {
            let connected = u8::from(status.agents.contains(domain));
            let _ = writeln!(text, "{name}{{domain=\"{}\"}} {connected}", escape(domain));
        }
    }
    let name = "tailbound_agents_refused_total";
    let help = "Connections of agents that were refused, or ended for what they sent.";
    header(text, name, "counter", help);
    let _ = writeln!(text, "{name} {}", counts.agents_refused);
    contradictions(text, status, counts);
    let name = "tailbound_trigger_firings_total";
    header(
        text,
        name,
        "counter",
        "How often a trigger asked for its mode.",
    );
    for one in &status.triggers {
        let (trigger, mode) = (escape(&one.trigger.name), escape(&one.trigger.mode));
        let labels = format!("trigger=\"{trigger}\",mode=\"{mode}\"");
        let _ = writeln!(text, "{name}{{{labels}}} {}", one.fired);
    }
}

/// Tasks that run though their agents say that they are stopped.
fn contradictions(text: &mut String, status: &ModesStatus, counts: &ChangeCounts) {
    let name = "tailbound_task_contradicts_agent";
    let help = "Tasks that the agent of a domain says are stopped, and that run.";
    header(text, name, "gauge", help);
    for (domain, tasks) in status.table.seen() {
        for task in tasks.keys() {
            let runs = |one: &&Contradiction| one.domain == *domain && one.task == *task;
            let runs = u8::from(status.contradictions.iter().any(|one| runs(&one)));
            let labels = format!("domain=\"{}\",task=\"{}\"", escape(domain), escape(task));
            let _ = writeln!(text, "{name}{{{labels}}} {runs}");
        }
    }
    let name = "tailbound_agent_contradictions_total";
    let help = "How often a task was found to run that the agent of its domain said was stopped.";
    header(text, name, "counter", help);
    for domain in status.table.seen().keys() {
        let count = counts.contradictions.get(domain).copied().unwrap_or(0);
        let _ = writeln!(text, "{name}{{domain=\"{}\"}} {count}", escape(domain));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_in_seconds() {
        let mut histogram = Histogram::default();
        for us in [10, 11, 150, 20_000_000] {
            histogram.add(Duration::from_micros(us));
        }
        let mut text = String::new();
        histogram.write(&mut text, "x", "step=\"send\",");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), BUCKETS_US.len() + 3);
        assert_eq!(lines[0], "x_bucket{step=\"send\",le=\"0.00001\"} 1");
        assert_eq!(lines[1], "x_bucket{step=\"send\",le=\"0.00002\"} 2");
        assert_eq!(lines[4], "x_bucket{step=\"send\",le=\"0.0002\"} 3");
        assert_eq!(lines[18], "x_bucket{step=\"send\",le=\"10\"} 3");
        assert_eq!(lines[19], "x_bucket{step=\"send\",le=\"+Inf\"} 4");
        assert_eq!(lines[20], "x_sum{step=\"send\"} 20.000171");
        assert_eq!(lines[21], "x_count{step=\"send\"} 4");
    }

    #[test]
    fn without_modes_nothing_is_said_of_them() {
        let mut text = String::new();
        render(&mut text, None);
        assert_eq!(text, "");
    }
}
