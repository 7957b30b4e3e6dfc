//! Chains of tasks, measured: logs joined by the messages that went from one task to the next.

use std::collections::HashMap;

use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_time::{Duration, Instant};

use crate::log::{JobLog, MessageId};

/// A chain of tasks in one run. A job counts from the time at which it read its topics.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainMeasurement {
    /// The age of the data at the end of the chain when they are replaced: from the begin of the first job whose data they
    /// are to the end of the output after theirs (maximum data age in the literature).
    pub data_age: Distribution,
    /// The age of the data at the end of the chain when they appear there (reduced data age).
    pub data_age_at_output: Distribution,
    /// The time from a cause to the first output that takes it into account, for causes just too late for a job of the first
    /// task: the longest of their kind.
    pub reaction_time: Distribution,
    /// The work and the ways of the data, in their order.
    pub hops: Vec<HopMeasurement>,
    /// The outputs whose data were traced to the begin of the chain.
    pub traced: usize,
    /// The outputs whose data came from before the logs, or from a job that is in none.
    pub untraced: usize,
}

/// A part of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct HopMeasurement {
    /// The task that works, or the topic that carries.
    pub name: String,
    /// The time that the data of an output spent here: from begin to end of the job, or from the end of a job to the begin of
    /// the job that read what it published.
    pub time: Distribution,
}

/// Why logs do not measure a chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainLogError {
    /// A chain of another form.
    #[error(
        "a chain of {tasks} tasks has {topics} topics between them; it needs one task more than topics"
    )]
    Form {
        /// The number of tasks.
        tasks: usize,
        /// The number of topics.
        topics: usize,
    },
    /// A task whose log is of other topics.
    #[error("the log of task `{task}` has no messages of topic `{topic}`")]
    Topic {
        /// The task.
        task: String,
        /// The topic.
        topic: String,
    },
}

/// Joins the logs of the tasks of a chain, in their order, by the topics between them.
///
/// # Errors
/// If the numbers of tasks and topics do not make a chain, or a log lacks a topic.
pub fn measure_chain(
    name: &str,
    tasks: &[(&str, &JobLog)],
    topics: &[&str],
) -> Result<ChainMeasurement, ChainLogError> {
    if tasks.len() != topics.len() + 1 {
        return Err(ChainLogError::Form {
            tasks: tasks.len(),
            topics: topics.len(),
        });
    }
    let mut links = Vec::new();
    for (place, topic) in topics.iter().enumerate() {
        links.push(TopicJoin::between(tasks[place], tasks[place + 1], topic)?);
    }
    let logs: Vec<&JobLog> = tasks.iter().map(|(_, log)| *log).collect();
    let outputs = logs.last().map_or(0, |log| log.jobs.len());
    let paths: Vec<Option<Vec<usize>>> = (0..outputs).map(|output| path(&links, output)).collect();
    let sample = |times: Vec<Duration>, subject: String| {
        Distribution::from_samples(
            Provenance::new(
                Evidence::Sample,
                subject,
                "logs of jobs, joined by messages",
            ),
            times,
        )
    };
    let names = tasks.iter().map(|(task, _)| *task);
    let traced = paths.iter().flatten().count();
    Ok(ChainMeasurement {
        data_age: sample(ages(&logs, &paths, 1), format!("data age of {name}")),
        data_age_at_output: sample(
            ages(&logs, &paths, 0),
            format!("data age at output of {name}"),
        ),
        reaction_time: sample(reactions(&logs, &paths), format!("reaction time of {name}")),
        hops: interleaved(names, topics)
            .zip(hop_times(&logs, &paths))
            .map(|(hop, times)| HopMeasurement {
                name: hop.to_owned(),
                time: sample(times, format!("{hop} in {name}")),
            })
            .collect(),
        traced,
        untraced: paths.len() - traced,
    })
}

/// A topic between two tasks of a chain: the job that published each message that the other task read.
struct TopicJoin {
    /// The job of the first task, for each job of the second one.
    publishers: Vec<Option<usize>>,
}

impl TopicJoin {
    fn between(
        from: (&str, &JobLog),
        to: (&str, &JobLog),
        topic: &str,
    ) -> Result<Self, ChainLogError> {
        let place = |task: &str, topics: &[String]| {
            let place = topics.iter().position(|name| name == topic);
            place.ok_or_else(|| ChainLogError::Topic {
                task: task.to_owned(),
                topic: topic.to_owned(),
            })
        };
        let published = place(from.0, &from.1.publishes)?;
        let read = place(to.0, &to.1.reads)?;
        let jobs = from.1.jobs.iter().enumerate();
        let jobs: HashMap<MessageId, usize> = jobs
            .filter_map(|(index, job)| Some((job.published[published]?, index)))
            .collect();
        let publishers =
            to.1.jobs
                .iter()
                .map(|job| jobs.get(&job.read[read]?).copied());
        Ok(Self {
            publishers: publishers.collect(),
        })
    }
}

/// The jobs, first task first, whose data an output has.
fn path(links: &[TopicJoin], output: usize) -> Option<Vec<usize>> {
    let mut path = vec![output];
    let mut job = output;
    for link in links.iter().rev() {
        job = link.publishers[job]?;
        path.push(job);
    }
    path.reverse();
    Some(path)
}

/// From the begin of the first job to the end of the output so many outputs later.
fn ages(logs: &[&JobLog], paths: &[Option<Vec<usize>>], later: usize) -> Vec<Duration> {
    let (Some(first), Some(last)) = (logs.first(), logs.last()) else {
        return Vec::new();
    };
    let paths = paths.iter().enumerate();
    let ages = paths.filter_map(|(output, path)| {
        let begin = first.jobs[*path.as_ref()?.first()?].start;
        Some(last.jobs.get(output + later)?.end.saturating_since(begin))
    });
    ages.collect()
}

/// For each job of the first task but the last ones: from its begin, just after which a cause comes too late for it, to the
/// end of the first output that has data of a later job.
fn reactions(logs: &[&JobLog], paths: &[Option<Vec<usize>>]) -> Vec<Duration> {
    let (Some(first), Some(last)) = (logs.first(), logs.last()) else {
        return Vec::new();
    };
    let outputs: Vec<(usize, Instant)> = paths
        .iter()
        .enumerate()
        .filter_map(|(output, path)| Some((*path.as_ref()?.first()?, last.jobs[output].end)))
        .collect();
    // Causes before the data of the first output would react to jobs before the logs.
    let begin = outputs.first().map_or(usize::MAX, |(job, _)| *job);
    let mut next = 0;
    let mut reactions = Vec::new();
    for (job, cause) in first.jobs.iter().enumerate().skip(begin) {
        while outputs.get(next).is_some_and(|(data, _)| *data <= job) {
            next += 1;
        }
        let Some((_, end)) = outputs.get(next) else {
            break;
        };
        reactions.push(end.saturating_since(cause.start));
    }
    reactions
}

/// Tasks with the topics between them.
fn interleaved<'a>(
    tasks: impl Iterator<Item = &'a str>,
    topics: &[&'a str],
) -> impl Iterator<Item = &'a str> {
    let topics: Vec<&str> = topics.to_vec();
    tasks.enumerate().flat_map(move |(place, task)| {
        let topic = topics.get(place).copied();
        std::iter::once(task).chain(topic)
    })
}

/// The times of the parts of a chain, each a list over the traced outputs.
fn hop_times(logs: &[&JobLog], paths: &[Option<Vec<usize>>]) -> Vec<Vec<Duration>> {
    let mut times = vec![Vec::new(); (2 * logs.len()).saturating_sub(1)];
    for path in paths.iter().flatten() {
        for (place, job) in path.iter().enumerate() {
            let job = &logs[place].jobs[*job];
            times[2 * place].push(job.end.saturating_since(job.start));
            if let Some(next) = path.get(place + 1) {
                let next = &logs[place + 1].jobs[*next];
                times[2 * place + 1].push(next.start.saturating_since(job.end));
            }
        }
    }
    times
}
