//! Bounds on the reaction times of chains whose messages those of other publishers may displace.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use tailbound_analysis::chains::{
    ChainStage, GUARANTEED_SOURCES, LULLS, MergedTopic, MessageWay, StageTrigger,
    displaced_reaction, lull,
};
use tailbound_time::Duration;
use tailbound_topics::{ChainLink, ReadRule, TaskName, TopicDescription, Topics};

use crate::chains::{ChainQuestion, least_execution};

/// The longest way of messages that release each other.
const LONGEST_WAY: usize = 64;

/// The reaction time of a chain whose readers may find messages of other publishers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DisplacedReaction {
    /// The bound, or why there is none.
    #[serde(rename = "bound_ns", serialize_with = "bound_or_nothing")]
    pub bound: Result<Duration, String>,
    /// The publishers whose messages displace those of the chain.
    pub by: Vec<String>,
    /// The method of the bound.
    pub method: Option<&'static str>,
}

fn bound_or_nothing<S: Serializer>(
    bound: &Result<Duration, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let nanoseconds = bound.as_ref().ok().map(|bound| bound.as_nanos());
    nanoseconds.serialize(serializer)
}

/// The tasks by which messages come to a topic: the first one has a clock, and messages release the others.
pub(crate) type TaskWay = Vec<TaskName>;

/// The ways of messages to each task of a chain that reads newest messages, beside the way of the chain, by the place of the task.
///
/// # Errors
/// If messages release each other in more than [`LONGEST_WAY`] steps.
pub(crate) fn other_ways(
    topics: &Topics,
    links: &[ChainLink],
) -> Result<BTreeMap<usize, Vec<TaskWay>>, String> {
    let mut all = BTreeMap::new();
    let mut own: TaskWay = Vec::new();
    for (index, link) in links.iter().enumerate() {
        own.push(link.publisher.clone());
        if link.reads == ReadRule::Released {
            continue;
        }
        let mut ways = ways_to(topics, &topics.0[&link.topic], 0)?;
        ways.retain(|way| *way != own);
        if !ways.is_empty() {
            all.insert(index + 1, ways);
        }
        own.clear();
    }
    Ok(all)
}

fn ways_to(
    topics: &Topics,
    topic: &TopicDescription,
    depth: usize,
) -> Result<Vec<TaskWay>, String> {
    if depth > LONGEST_WAY {
        return Err(format!(
            "messages release each other in more than {LONGEST_WAY} steps"
        ));
    }
    let mut all = Vec::new();
    for publisher in &topic.publishers {
        let Some(name) = TaskName::parse(publisher) else {
            continue;
        };
        match topics.releasing(&name) {
            None => all.push(vec![name]),
            Some((_, releasing)) => {
                for mut way in ways_to(topics, releasing, depth + 1)? {
                    way.push(name.clone());
                    all.push(way);
                }
            }
        }
    }
    Ok(all)
}

impl ChainQuestion<'_> {
    /// The reaction time of a chain, given the bound that it would have without the messages of others; `None` where that holds.
    pub(crate) fn displaced(
        &self,
        links: &[ChainLink],
        stages: &[ChainStage],
        alone: Duration,
    ) -> Option<DisplacedReaction> {
        let ways = match other_ways(self.topics, links) {
            Ok(ways) if ways.is_empty() => return None,
            Ok(ways) => ways,
            Err(why) => {
                return Some(DisplacedReaction {
                    bound: Err(why),
                    by: Vec::new(),
                    method: None,
                });
            }
        };
        let last = ways.values().flatten().filter_map(|way| way.last());
        let mut by: Vec<String> = last.map(TaskName::to_string).collect();
        by.sort();
        by.dedup();
        let stepped = self.merged_topics(links, &ways).ok();
        let stepped = stepped.and_then(|merged| displaced_reaction(stages, &merged));
        let stepped = stepped.map(|bound| (bound, GUARANTEED_SOURCES));
        let spread = self.spread(links, stages, &ways);
        let spread = spread.map(|added| (alone.saturating_add(added), LULLS));
        let least = stepped.into_iter().chain(spread).min_by_key(|one| one.0);
        Some(DisplacedReaction {
            bound: least.map(|(bound, _)| bound).ok_or_else(|| {
                let topics = ways.keys().map(|at| format!("`{}`", links[at - 1].topic));
                let topics: Vec<String> = topics.collect();
                format!(
                    "nothing bounds the reaction time: a reader of topic {} takes the message that came last, and those of {} may \
                     displace the data of the chain each time; give the chain a topic of its own, or limit its `data_age` alone",
                    topics.join(" and "),
                    by.join(" and ")
                )
            }),
            by,
            method: least.map(|(_, method)| method),
        })
    }

    /// The messages of others on their ways, where all tasks in front have clocks.
    fn merged_topics(
        &self,
        links: &[ChainLink],
        ways: &BTreeMap<usize, Vec<TaskWay>>,
    ) -> Result<BTreeMap<usize, MergedTopic>, String> {
        let mut all = BTreeMap::new();
        for (at, ways) in ways {
            let link = &links[at - 1];
            let topic = &self.topics.0[&link.topic];
            let before = links[..at - 1].iter().rev();
            let mut own: TaskWay = before
                .take_while(|link| link.reads == ReadRule::Released)
                .map(|link| link.publisher.clone())
                .collect();
            own.reverse();
            own.push(link.publisher.clone());
            let reader = self.running(&link.subscriber)?;
            let others = ways.iter().map(|way| self.message_way(way, topic));
            let merged = MergedTopic {
                own_least: self.way_times(&own, topic)?.0,
                reader_least: least_execution(&reader.task.execution_time),
                others: others.collect::<Result<_, String>>()?,
            };
            all.insert(*at, merged);
        }
        Ok(all)
    }

    fn message_way(&self, way: &TaskWay, topic: &TopicDescription) -> Result<MessageWay, String> {
        let first = way.first().ok_or("a way has no task")?;
        let running = self.running(first)?;
        let StageTrigger::Clocked { clock, spans, .. } = self.clock_of(&running)? else {
            return Err(format!("task {first} has no clock"));
        };
        let (least, most) = self.way_times(way, topic)?;
        Ok(MessageWay {
            clock,
            spans,
            least,
            most,
        })
    }

    /// The shortest time from the begin of a job at the begin of a way to the arrival of the message, and the longest one from
    /// the end of the job.
    fn way_times(
        &self,
        way: &TaskWay,
        topic: &TopicDescription,
    ) -> Result<(Duration, Duration), String> {
        let delay = topic.delay.unwrap_or_default();
        let (mut least, mut most) = (delay.least, delay.most);
        for (index, name) in way.iter().enumerate() {
            let running = self.running(name)?;
            let executed = least_execution(&running.task.execution_time);
            least = least.saturating_add(executed);
            if index > 0 {
                let releasing = self.topics.releasing(name);
                let delay = releasing.and_then(|(_, topic)| topic.delay);
                let delay = delay.unwrap_or_default();
                least = least.saturating_add(delay.least);
                most = most.saturating_add(delay.most.saturating_add(running.response));
            }
        }
        Ok((least, most))
    }

    /// The time that a cause waits longer where the messages of others are rare enough.
    fn spread(
        &self,
        links: &[ChainLink],
        stages: &[ChainStage],
        ways: &BTreeMap<usize, Vec<TaskWay>>,
    ) -> Option<Duration> {
        let (at, ways) = ways.first_key_value().filter(|_| ways.len() == 1)?;
        let is_last = links[*at..]
            .iter()
            .all(|link| link.reads == ReadRule::Released);
        // Messages of tasks that messages release are not counted here.
        let by_clock = ways.iter().all(|way| way.len() == 1);
        if !is_last || !by_clock {
            return None;
        }
        let topic = &self.topics.0[&links[at - 1].topic];
        let others = TopicDescription {
            publishers: ways.iter().flatten().map(TaskName::to_string).collect(),
            ..topic.clone()
        };
        let added = lull(stages, *at)?;
        let window = added.checked_add(Duration::from_nanos(1))?;
        let sent = self.sent(&others).ok()?;
        let most = sent.iter().map(|one| one.most(window)).sum::<u64>();
        (most <= 1).then_some(added)
    }
}
