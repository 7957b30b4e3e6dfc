//! The modes and their changes as Prometheus text.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use tailbound_modes::change_phases::{PhaseKind, change_phases};
use tailbound_modes::contradictions::Contradiction;
use tailbound_modes::control::ModesStatus;
use tailbound_modes::manager::Report;
use tailbound_modes::transition::Ending;
use tailbound_subsystem::metrics::{MetricKind, encode_each};

/// The upper ends of the buckets, in seconds, for what takes from a message's time up to a wait for many
/// agents.
const BUCKETS_S: [f64; 19] = [
    10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2,
    0.5, 1.0, 2.0, 5.0, 10.0,
];
/// How a change ends, in the order of [`ChangeCounts::endings`].
const ENDINGS: [&str; 3] = ["completed", "fell-back", "given-up"];
/// What is timed of a change, in the order of [`ChangeCounts::steps`].
const STEPS: [PhaseKind; 4] = [
    PhaseKind::Send,
    PhaseKind::Signal,
    PhaseKind::Receive,
    PhaseKind::Change,
];

/// The mode changes since the modes became known.
#[derive(Clone, Debug)]
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

impl Default for ChangeCounts {
    fn default() -> Self {
        let histogram = || Histogram::new(BUCKETS_S);
        Self {
            endings: Default::default(),
            latency: histogram(),
            steps: std::array::from_fn(|_| histogram()),
            agents_refused: 0,
            contradictions: BTreeMap::new(),
        }
    }
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
            self.latency.observe(latency.as_secs_f64());
        }
        let back = report
            .rolled_back
            .iter()
            .flat_map(|back| change_phases(back));
        for part in change_phases(report).into_iter().chain(back) {
            let step = STEPS.iter().position(|step| *step == part.kind);
            if let (Some(step), Some(took)) = (step, part.took) {
                self.steps[step].observe(took.as_secs_f64());
            }
        }
    }
}

/// `ModesMetrics` is what the metrics say of modes at one instant.
#[derive(Debug)]
pub struct ModesMetrics {
    /// What holds.
    pub status: ModesStatus,
    /// What was counted.
    pub counts: ChangeCounts,
}

impl Collector for ModesMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.changes(&mut encoder)?;
        self.agents(&mut encoder)?;
        self.contradictions(&mut encoder)?;
        let triggers = self.status.triggers.iter().map(|one| {
            let trigger = &one.trigger;
            let labels = [
                ("trigger", trigger.name.as_str()),
                ("mode", trigger.mode.as_str()),
            ];
            (labels, one.fired as f64)
        });
        let name = "tailbound_trigger_firings";
        let help = "How often a trigger asked for its mode.";
        MetricKind::Counter.encode(&mut encoder, (name, help), triggers)
    }
}

impl ModesMetrics {
    fn changes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Self { status, counts } = self;
        let mode = [("mode", status.state.mode.as_str())];
        let name = ("tailbound_mode_info", "The mode that holds.");
        MetricKind::Gauge.encode(encoder, name, [(mode, 1.0)])?;
        let endings = ENDINGS.iter().zip(counts.endings);
        let endings = endings.map(|(ending, count)| ([("ending", *ending)], count as f64));
        let name = "tailbound_mode_changes";
        MetricKind::Counter.encode(encoder, (name, "Mode changes by how they ended."), endings)?;
        let name = "tailbound_mode_change_latency_seconds";
        let help = "From the begin of a mode change to its end, without what took it back.";
        let about = (name, help, MetricType::Histogram);
        encode_each(encoder, about, [([], &counts.latency)])?;
        let name = "tailbound_mode_change_step_seconds";
        let help =
            "The steps of mode changes: messages, tasks switched, answers, reservations accepted.";
        let steps = STEPS.iter().zip(&counts.steps);
        let steps = steps.map(|(step, histogram)| ([("step", step.word())], histogram));
        encode_each(encoder, (name, help, MetricType::Histogram), steps)
    }

    fn agents(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let status = &self.status;
        let domains = status.state.domains.keys();
        let with_agents = domains.filter(|domain| status.table.agent_place(domain).is_some());
        let connected = with_agents.map(|domain| {
            let is_connected = u8::from(status.agents.contains(domain));
            ([("domain", domain.as_str())], f64::from(is_connected))
        });
        let name = "tailbound_agent_connected";
        let help = "Whether the agent of a domain is connected.";
        MetricKind::Gauge.encode(encoder, (name, help), connected)?;
        let name = "tailbound_agents_refused";
        let help = "Connections of agents that were refused, or ended for what they sent.";
        let refused = self.counts.agents_refused as f64;
        MetricKind::Counter.encode(encoder, (name, help), [([], refused)])
    }

    /// Tasks that run though their agents say that they are stopped.
    fn contradictions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Self { status, counts } = self;
        let domains = status.table.seen().iter();
        let tasks =
            domains.flat_map(|(domain, tasks)| tasks.keys().map(move |task| (domain, task)));
        let running = tasks.map(|(domain, task)| {
            let is_it = |one: &Contradiction| one.domain == *domain && one.task == *task;
            let runs = u8::from(status.contradictions.iter().any(is_it));
            let labels = [("domain", domain.as_str()), ("task", task.as_str())];
            (labels, f64::from(runs))
        });
        let name = "tailbound_task_contradicts_agent";
        let help = "Tasks that the agent of a domain says are stopped, and that run.";
        MetricKind::Gauge.encode(encoder, (name, help), running)?;
        let rows = status.table.seen().keys().map(|domain| {
            let count = counts.contradictions.get(domain).copied().unwrap_or(0);
            ([("domain", domain.as_str())], count as f64)
        });
        let name = "tailbound_agent_contradictions";
        let help =
            "How often a task was found to run that the agent of its domain said was stopped.";
        MetricKind::Counter.encode(encoder, (name, help), rows)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use prometheus_client::encoding::prometheus_text;
    use prometheus_client::registry::Registry;
    use tailbound_modes::manager::State;

    use super::*;

    fn text(counts: ChangeCounts) -> String {
        let description = r#"
            schema_version = 1
            name = "cell"
            initial_mode = "run"
            hosts.cell.cpus = [0]
            [domains.arm]
            kind = "process"
            pids = [1]
            agent = {}
            reservation = { budget = "4ms", period = "10ms", cpus = [0], priority = 50 }
            [modes.run]
        "#;
        let description = tailbound_model::parse(description, "cell.toml").unwrap();
        let table = tailbound_modes::table_from_description::table_of(&description).unwrap();
        let status = ModesStatus {
            state: State::initial(&table),
            table,
            agents: vec!["arm".into()],
            socket: "/run/modes.sock".into(),
            last: None,
            triggers: Vec::new(),
            resumed: None,
            contradictions: Vec::new(),
        };
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ModesMetrics { status, counts }));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn every_metric_has_its_name_and_its_labels() {
        let mut counts = ChangeCounts::default();
        counts.endings[1] = 3;
        counts.agents_refused = 2;
        let text = text(counts);
        for line in [
            "tailbound_mode_info{mode=\"run\"} 1",
            "# TYPE tailbound_mode_changes_total counter",
            "tailbound_mode_changes_total{ending=\"fell-back\"} 3",
            "tailbound_agent_connected{domain=\"arm\"} 1",
            "tailbound_agents_refused_total 2",
            "# TYPE tailbound_mode_change_latency_seconds histogram",
            "tailbound_mode_change_latency_seconds_count 0",
            "# TYPE tailbound_trigger_firings_total counter",
            "# TYPE tailbound_agent_contradictions_total counter",
            "# TYPE tailbound_task_contradicts_agent gauge",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn buckets_are_cumulative_and_in_seconds() {
        let counts = ChangeCounts::default();
        for took in [10e-6, 11e-6, 20.0] {
            counts.steps[0].observe(took);
        }
        let text = text(counts);
        let name = "tailbound_mode_change_step_seconds";
        let of_sending: Vec<f64> = text
            .lines()
            .filter(|line| line.starts_with(&format!("{name}_bucket")) && line.contains("\"send\""))
            .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
            .collect();
        assert_eq!(of_sending.len(), BUCKETS_S.len() + 1);
        assert_eq!(of_sending[..3], [1.0, 2.0, 2.0]);
        assert_eq!(of_sending.last(), Some(&3.0));
    }
}
