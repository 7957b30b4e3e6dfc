//! Tasks of which messages release the jobs, in a simulation.
//!
//! A message is known when its publisher has been simulated, and the job that it releases may hold other publishers up. So
//! the hosts are simulated in rounds: in each of them the released jobs come at the times at which the messages of the round
//! before arrived. As soon as a round has the messages by which it was simulated, it is the one simulation of the system:
//! an effect comes after its cause, so that no other schedule has these messages.

use std::collections::BTreeMap;

use tailbound_model::{Arrivals, Description, InputFiles, Scheduling, TracedJob};
use tailbound_simulator::host::HostSimulation;
use tailbound_time::Duration;
use tailbound_topics::{TaskName, Topics};

use crate::chain_simulation::message_arrivals;

/// The most rounds.
pub(crate) const MOST_ROUNDS: usize = 16;

/// The arrivals of messages, by released task.
pub(crate) type MessageTimes = BTreeMap<String, Vec<Duration>>;

/// The released tasks of a description.
pub(crate) struct ReleasedTasks {
    topics: Topics,
    /// The tasks, each with the topic that releases it.
    tasks: Vec<(TaskName, String)>,
}

impl ReleasedTasks {
    /// The released tasks, but those of which the arrivals decide more than their releases.
    pub(crate) fn of(description: &Description) -> Self {
        let topics: Topics = description.section();
        let mut tasks = Vec::new();
        for (name, topic) in &topics.0 {
            let released = topic
                .released
                .iter()
                .filter_map(|task| TaskName::parse(task));
            let played = released.filter(|task| unplayed(description, task).is_none());
            tasks.extend(played.map(|task| (task, name.clone())));
        }
        Self { topics, tasks }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The times at which messages for the released tasks arrive, by the jobs of a simulation.
    pub(crate) fn messages(&self, hosts: &[HostSimulation], seed: u64) -> MessageTimes {
        let each = self.tasks.iter().map(|(task, topic)| {
            let times = message_arrivals(&self.topics, topic, &task.to_string(), hosts, seed);
            (task.to_string(), times)
        });
        each.collect()
    }

    /// The description and the files in which the released jobs come at these times.
    pub(crate) fn released_at(
        &self,
        description: &Description,
        inputs: &InputFiles,
        messages: &MessageTimes,
    ) -> (Description, InputFiles) {
        let (mut description, mut inputs) = (description.clone(), inputs.clone());
        for (name, _) in &self.tasks {
            let domain = description.domains.get_mut(&name.domain);
            let Some(task) = domain.and_then(|domain| domain.tasks.get_mut(&name.task)) else {
                continue;
            };
            let file = format!("messages for {name}");
            let times = messages.get(&name.to_string()).cloned().unwrap_or_default();
            let jobs = times.into_iter().map(|release| TracedJob {
                release,
                execution: None,
            });
            inputs.insert_trace(&file, jobs.collect());
            task.deadline = task.relative_deadline();
            task.jitter = Duration::ZERO;
            task.arrivals = Arrivals::Trace { file: file.into() };
        }
        (description, inputs)
    }
}

/// Why the jobs of a released task come by its own arrivals in a simulation; `None` where messages release them.
pub(crate) fn unplayed(description: &Description, name: &TaskName) -> Option<&'static str> {
    let domain = description.domains.get(&name.domain)?;
    let task = domain.tasks.get(&name.task)?;
    let reservation = domain.reservation.as_ref();
    let vcpus = description.vcpus_under(domain, reservation);
    if domain.aperiodic.is_some() {
        return Some("its domain has soft tasks");
    }
    if domain.tasks.len() > 1 && domain.scheduling == Scheduling::RateMonotonic {
        return Some("its arrivals decide its priority (rate-monotonic)");
    }
    if vcpus > 1 && task.vcpu.is_none() {
        return Some("its arrivals decide its virtual CPU; give it a `vcpu`");
    }
    None
}
