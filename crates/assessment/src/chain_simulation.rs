//! Messages between the jobs of simulated hosts, and the chains that they make.
//!
//! Jobs publish at their end and read the newest message at their begin. A message takes a time drawn evenly between the
//! least and the most of its topic, to each subscriber for itself, from the description's seed. The contract of a
//! publisher is enforced at each subscriber, by the regulator that programs use.

use std::collections::BTreeMap;

use crate::released_tasks::unplayed;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tailbound_distribution::{Distribution, Evidence};
use tailbound_job_log::{ChainMeasurement, JobLog, LoggedJob, MessageId, measure_chain};
use tailbound_messages::{ExcessRule, Regulator, topic_number};
use tailbound_model::Description;
use tailbound_simulator::host::{HostSimulation, JobTime};
use tailbound_time::{ClockId, Duration, Instant, nanoseconds};
use tailbound_topics::{Chain, Chains, ReadRule, TaskName, TopicDescription, Topics};

/// The part of a simulation that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedSpan {
    /// The seed of the delays.
    pub seed: u64,
    /// The end of the warm-up.
    pub warm_up: Duration,
    /// The time that counts after it.
    pub duration: Duration,
}

/// A chain in a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulatedChain {
    /// The chain.
    pub chain: String,
    /// The longest data age that is allowed.
    #[serde(rename = "data_age_limit_ns", with = "nanoseconds::optional")]
    pub data_age_limit: Option<Duration>,
    /// The longest reaction time that is allowed.
    #[serde(rename = "reaction_time_limit_ns", with = "nanoseconds::optional")]
    pub reaction_time_limit: Option<Duration>,
    /// The figures, or why there are none.
    pub outcome: Result<SimulatedTimes, String>,
}

/// The times of a chain in a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulatedTimes {
    /// The data ages, each up to the end of the output after.
    pub data_age: Distribution,
    /// The data ages up to the outputs themselves.
    pub data_age_at_output: Distribution,
    /// The reaction times to causes right after a job of the first task has begun.
    pub reaction_time: Distribution,
    /// The parts of the way of the data of each output: tasks and topics in turn.
    pub parts: Vec<SimulatedPart>,
    /// The outputs that were followed to the begin of the chain.
    pub outputs: usize,
}

/// A part of the way of data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulatedPart {
    /// The task, or the topic with the wait for the next job of its subscriber.
    pub at: String,
    /// The times.
    pub time: Distribution,
}

/// The messages of a topic at a subscriber in a simulation, those of the warm-up included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SimulatedTopic {
    /// The topic.
    pub topic: String,
    /// The subscriber, as `domain/task`.
    pub subscriber: String,
    /// The messages that were published.
    pub published: u64,
    /// Those of them that the contract dropped.
    pub dropped: u64,
    /// Those of them that the contract held back for a time.
    pub held_back: u64,
    /// Those of them that a job read, each counted once.
    pub read: u64,
}

impl SimulatedTopic {
    fn of(topic: &str, subscriber: &str) -> Self {
        Self {
            topic: topic.to_owned(),
            subscriber: subscriber.to_owned(),
            published: 0,
            dropped: 0,
            held_back: 0,
            read: 0,
        }
    }
}

impl SimulatedChain {
    /// The limits that the chain exceeded, in words.
    pub fn objections(&self) -> Vec<String> {
        let Ok(times) = &self.outcome else {
            return Vec::new();
        };
        let pairs = [
            ("data age", &times.data_age, self.data_age_limit),
            (
                "reaction time",
                &times.reaction_time,
                self.reaction_time_limit,
            ),
        ];
        let longest = |times: &Distribution| times.max().map(|max| max.low);
        let exceeded = pairs.into_iter().filter_map(|(what, times, limit)| {
            let (longest, limit) = (longest(times)?, limit?);
            (longest > limit).then(|| {
                format!(
                    "chain {}: a {what} of {longest}, and {limit} is allowed",
                    self.chain
                )
            })
        });
        exceeded.collect()
    }
}

/// The chains and the topics of a description in a simulation of all its hosts. `settled`: whether released jobs came at the
/// times of their messages.
pub fn chain_simulation(
    description: &Description,
    hosts: &[HostSimulation],
    span: CountedSpan,
    settled: bool,
) -> (Vec<SimulatedChain>, Vec<SimulatedTopic>) {
    let (topics, chains): (Topics, Chains) = (description.section(), description.section());
    let mut exchange = MessageExchange::of(hosts);
    let mut counts = Vec::new();
    for (name, topic) in &topics.0 {
        exchange.publish(name, topic);
        for subscriber in &topic.subscribers {
            counts.extend(exchange.carry(name, topic, subscriber, (ReadRule::Newest, span.seed)));
        }
        for released in &topic.released {
            counts.extend(exchange.carry(name, topic, released, (ReadRule::Released, span.seed)));
        }
    }
    let each = chains.0.iter().map(|(name, chain)| SimulatedChain {
        chain: name.clone(),
        data_age_limit: chain.data_age,
        reaction_time_limit: chain.reaction_time,
        outcome: unplayed_in(description, chain, settled)
            .map_or_else(|| exchange.times(name, chain, &topics, span), Err),
    });
    (each.collect(), counts)
}

/// Why the jobs of a chain did not come at the times of their messages, if so.
fn unplayed_in(description: &Description, chain: &Chain, settled: bool) -> Option<String> {
    let topics: Topics = description.section();
    let links = chain.links(&topics).ok()?;
    let mut released = links.iter().filter(|link| link.reads == ReadRule::Released);
    released.find_map(|link| {
        let why = match unplayed(description, &link.subscriber) {
            Some(why) => why,
            None if settled => return None,
            None => "the times of messages did not settle within 16 rounds",
        };
        Some(format!(
            "messages of topic `{}` do not release task {} in the simulation: {why}",
            link.topic, link.subscriber
        ))
    })
}

/// The times at which messages of a topic arrive at a subscriber, in their order.
pub(crate) fn message_arrivals(
    topics: &Topics,
    name: &str,
    subscriber: &str,
    hosts: &[HostSimulation],
    seed: u64,
) -> Vec<Duration> {
    let exchange = MessageExchange::of(hosts);
    let Some(topic) = topics.0.get(name) else {
        return Vec::new();
    };
    let mut uncounted = SimulatedTopic::of(name, subscriber);
    let arrivals = exchange.arrivals(topic, seed, &mut uncounted);
    let times = arrivals.iter().map(|arrival| arrival.at.as_nanos());
    times.map(Duration::from_nanos).collect()
}

/// The logs of all tasks with topics.
struct MessageExchange {
    logs: BTreeMap<String, JobLog>,
    /// The number of each task, by which its messages are known.
    numbers: BTreeMap<String, u64>,
}

/// A message at a subscriber.
#[derive(Clone, Copy)]
struct MessageArrival {
    at: Instant,
    sent: Instant,
    message: MessageId,
}

fn instant(at_ns: u64) -> Instant {
    Instant::from_nanos(at_ns)
}

impl MessageExchange {
    fn of(hosts: &[HostSimulation]) -> Self {
        let logged = |times: &Vec<JobTime>| JobLog {
            jobs: times.iter().map(logged_job).collect(),
            ..JobLog::default()
        };
        let all = hosts.iter().flat_map(|host| &host.job_times);
        let logs: BTreeMap<String, JobLog> = all
            .map(|(name, times)| (name.clone(), logged(times)))
            .collect();
        let numbers = logs.keys().cloned().zip(1..).collect();
        Self { logs, numbers }
    }

    /// Has every job of the publishers of a topic publish a message.
    fn publish(&mut self, name: &str, topic: &TopicDescription) {
        for publisher in &topic.publishers {
            let (Some(log), Some(source)) =
                (self.logs.get_mut(publisher), self.numbers.get(publisher))
            else {
                continue;
            };
            log.publishes.push(name.to_owned());
            for (sequence, job) in (0..).zip(&mut log.jobs) {
                let source = *source;
                job.published.push(Some(MessageId { source, sequence }));
            }
        }
    }

    /// The messages of a topic as they arrive at a subscriber.
    fn arrivals(
        &self,
        topic: &TopicDescription,
        seed: u64,
        count: &mut SimulatedTopic,
    ) -> Vec<MessageArrival> {
        let mut arrivals = Vec::new();
        for publisher in &topic.publishers {
            let (Some(log), Some(source)) = (self.logs.get(publisher), self.numbers.get(publisher))
            else {
                continue;
            };
            let way = topic_number(&format!("{} {publisher}", count.topic), &count.subscriber);
            let sent = sent_by(log, *source, topic, ChaCha8Rng::seed_from_u64(seed ^ way));
            count.published += sent.len() as u64;
            arrivals.extend(regulated(sent, topic, count));
        }
        arrivals.sort_by_key(|arrival| arrival.at);
        arrivals
    }

    /// Carries the messages of a topic to a subscriber, and has each of its jobs read the newest, or the one that released it.
    fn carry(
        &mut self,
        name: &str,
        topic: &TopicDescription,
        subscriber: &str,
        (reads, seed): (ReadRule, u64),
    ) -> Option<SimulatedTopic> {
        let mut count = SimulatedTopic::of(name, subscriber);
        let arrivals = self.arrivals(topic, seed, &mut count);
        let log = self.logs.get_mut(subscriber)?;
        log.reads.push(name.to_owned());
        count.read = match reads {
            ReadRule::Newest => read_newest(log, &arrivals, topic),
            ReadRule::Released => read_each(log, &arrivals),
        };
        Some(count)
    }

    fn times(
        &self,
        name: &str,
        chain: &Chain,
        topics: &Topics,
        span: CountedSpan,
    ) -> Result<SimulatedTimes, String> {
        let links = chain.links(topics).map_err(|fault| fault.to_string())?;
        let tasks: Vec<TaskName> = chain.tasks().map(|(_, task)| task).collect();
        let names: Vec<String> = tasks.iter().map(TaskName::to_string).collect();
        let counted = |name: &String, is_last: bool| {
            let log = self
                .logs
                .get(name)
                .ok_or_else(|| format!("no job of task {name} was simulated"))?;
            Ok::<JobLog, String>(cut(log, span, is_last))
        };
        let last = names.len().saturating_sub(1);
        let logs = names.iter().enumerate();
        let logs = logs.map(|(index, name)| counted(name, index == last));
        let logs = logs.collect::<Result<Vec<JobLog>, String>>()?;
        let pairs: Vec<(&str, &JobLog)> = names.iter().map(String::as_str).zip(&logs).collect();
        let between: Vec<&str> = links.iter().map(|link| link.topic.as_str()).collect();
        let measured = measure_chain(name, &pairs, &between).map_err(|error| error.to_string())?;
        if measured.traced == 0 {
            return Err("no output was followed to the begin of the chain".to_owned());
        }
        Ok(times_of(measured, span))
    }
}

fn logged_job(job: &JobTime) -> LoggedJob {
    LoggedJob {
        release: instant(job.release_ns),
        start: instant(job.begin_ns),
        end: instant(job.end_ns),
        read: Vec::new(),
        published: Vec::new(),
    }
}

/// The messages of a publisher as they come to a subscriber, in the order of their arrival.
fn sent_by(
    log: &JobLog,
    source: u64,
    topic: &TopicDescription,
    mut random: ChaCha8Rng,
) -> Vec<MessageArrival> {
    let delay = topic.delay.unwrap_or_default();
    let mut sent: Vec<MessageArrival> = (0..)
        .zip(&log.jobs)
        .map(|(sequence, job)| {
            let least_ns = delay.least.as_nanos();
            let took_ns = random.random_range(least_ns..=delay.most.as_nanos().max(least_ns));
            MessageArrival {
                at: job.end.saturating_add(Duration::from_nanos(took_ns)),
                sent: job.end,
                message: MessageId { source, sequence },
            }
        })
        .collect();
    sent.sort_by_key(|arrival| arrival.at);
    sent
}

/// Those of the messages that the contract of their publisher admits, at the times at which it does.
fn regulated(
    sent: Vec<MessageArrival>,
    topic: &TopicDescription,
    count: &mut SimulatedTopic,
) -> Vec<MessageArrival> {
    let size = topic.size as usize;
    let regulator = topic.contract.as_ref();
    let Some((contract, mut regulator)) =
        regulator.and_then(|contract| Some((contract, Regulator::new(contract, size).ok()?)))
    else {
        return sent;
    };
    let mut admitted: Vec<MessageArrival> = Vec::new();
    for arrival in sent {
        match contract.violation {
            ExcessRule::Drop => match regulator.admit(arrival.at, size) {
                Ok(()) => admitted.push(arrival),
                Err(_) => count.dropped += 1,
            },
            ExcessRule::HoldBack => {
                let held = admitted.partition_point(|held| held.at <= arrival.at);
                let next = regulator.next_admission(arrival.at, size);
                if admitted.len() - held >= topic.quality.history as usize {
                    // The newest takes the place of the oldest one that is held; all have the same length.
                    count.dropped += 1;
                    displace_oldest(&mut admitted[held..], arrival);
                } else if let Some(at) = next.filter(|at| regulator.admit(*at, size).is_ok()) {
                    count.held_back += u64::from(at > arrival.at);
                    admitted.push(MessageArrival { at, ..arrival });
                }
            }
        }
    }
    admitted
}

/// Gives each place among held messages to the next newer message, and the last place to `arrival`.
fn displace_oldest(held: &mut [MessageArrival], arrival: MessageArrival) {
    let mut newer = arrival;
    for place in held.iter_mut().rev() {
        let before = *place;
        *place = MessageArrival {
            at: place.at,
            ..newer
        };
        newer = before;
    }
}

/// Has each job read the message that came last by its begin, if that is not beyond its lifespan; of one publisher, an older
/// message that a newer one overtook does not count. The number of messages that were read.
fn read_newest(log: &mut JobLog, arrivals: &[MessageArrival], topic: &TopicDescription) -> u64 {
    let mut come = arrivals.iter().peekable();
    let mut newest: Option<MessageArrival> = None;
    let mut latest: BTreeMap<u64, Instant> = BTreeMap::new();
    let mut read = 0;
    let mut before = None;
    for job in &mut log.jobs {
        while let Some(arrival) = come.next_if(|arrival| arrival.at <= job.start) {
            let sent = latest.entry(arrival.message.source).or_insert(arrival.sent);
            if arrival.sent >= *sent {
                *sent = arrival.sent;
                newest = Some(*arrival);
            }
        }
        let lifespan = topic.quality.lifespan;
        let alive = newest.filter(|newest| {
            lifespan.is_none_or(|lifespan| job.start.saturating_since(newest.sent) <= lifespan)
        });
        let message = alive.map(|arrival| arrival.message);
        read += u64::from(message.is_some() && message != before);
        before = message.or(before);
        job.read.push(message);
    }
    read
}

/// Has each job of a released task read the message that released it; the number of messages that were read.
fn read_each(log: &mut JobLog, arrivals: &[MessageArrival]) -> u64 {
    let mut read = 0;
    for (index, job) in log.jobs.iter_mut().enumerate() {
        let arrival = arrivals
            .get(index)
            .filter(|arrival| arrival.at == job.release);
        read += u64::from(arrival.is_some());
        job.read.push(arrival.map(|arrival| arrival.message));
    }
    read
}

/// The jobs that count: of the last task those that end within the span, of the others those before its end.
fn cut(log: &JobLog, span: CountedSpan, is_last: bool) -> JobLog {
    let begin = match is_last {
        true => instant(span.warm_up.as_nanos()),
        false => instant(0),
    };
    let end = instant(span.warm_up.saturating_add(span.duration).as_nanos());
    let jobs = log
        .jobs
        .iter()
        .filter(|job| begin <= job.end && job.end <= end);
    JobLog {
        jobs: jobs.cloned().collect(),
        reads: log.reads.clone(),
        publishes: log.publishes.clone(),
    }
}

fn times_of(measured: ChainMeasurement, span: CountedSpan) -> SimulatedTimes {
    let estimate = |mut times: Distribution| {
        times.provenance.evidence = Evidence::Estimate;
        times.provenance.method = "simulated jobs, joined by messages".into();
        times.provenance.seed = Some(span.seed);
        times.provenance.clock = Some(ClockId::Virtual);
        times.provenance.warm_up = Some(span.warm_up);
        times
    };
    let parts = measured.hops.into_iter().map(|hop| SimulatedPart {
        at: hop.name,
        time: estimate(hop.time),
    });
    SimulatedTimes {
        data_age: estimate(measured.data_age),
        data_age_at_output: estimate(measured.data_age_at_output),
        reaction_time: estimate(measured.reaction_time),
        parts: parts.collect(),
        outputs: measured.traced,
    }
}

#[cfg(test)]
mod tests;
