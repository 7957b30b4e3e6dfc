//! Whether the chains of a description keep their data ages and reaction times.

use serde::Serialize;
use tailbound_analysis::chains::{
    ChainBound, ChainStage, JobSpans, PartitionTask, StageTrigger, bound, partition_schedule,
};
use tailbound_analysis::schedulability::priority_assignment::described_rank;
use tailbound_model::{Arrivals, Description, ExecutionTime, Task};
use tailbound_time::{Duration, nanoseconds};
use tailbound_topics::{
    Chain, ChainLink, Chains, ReadRule, Routes, TaskName, TopicDescription, Topics, Traffic,
};

use crate::displaced_reaction::DisplacedReaction;
use crate::mode_content::{ModeContent, modes};
use crate::schedulability::{DeadlineVerdict, ModeVerdict, TaskVerdict};

/// The answer for one chain in one mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainVerdict {
    /// The chain.
    pub chain: String,
    /// The mode, where the description has modes.
    pub mode: Option<String>,
    /// The longest data age that is allowed.
    #[serde(rename = "data_age_ns", with = "nanoseconds::optional")]
    pub data_age: Option<Duration>,
    /// The longest reaction time that is allowed.
    #[serde(rename = "reaction_time_ns", with = "nanoseconds::optional")]
    pub reaction_time: Option<Duration>,
    /// The bound on both, with its parts; `None` where nothing bounds them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<ChainBound>,
    /// The bound on the reaction time where that of `answer` holds for the data age alone: messages of other publishers may
    /// displace those of the chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub displaced: Option<DisplacedReaction>,
    /// Whether both are kept.
    pub verdict: DeadlineVerdict,
    /// Why not, or why nothing can be said.
    pub why: Option<String>,
}

impl ChainVerdict {
    /// Whether nothing stands against the chain.
    pub fn is_fine(&self) -> bool {
        matches!(
            self.verdict,
            DeadlineVerdict::Met | DeadlineVerdict::NoDeadline
        )
    }

    /// The bound on the reaction time.
    pub fn reaction_bound(&self) -> Option<Duration> {
        match &self.displaced {
            Some(displaced) => displaced.bound.as_ref().ok().copied(),
            None => Some(self.answer.as_ref()?.bound),
        }
    }

    /// What stands against the chain, in words.
    pub fn objection(&self) -> Option<String> {
        if self.is_fine() {
            return None;
        }
        let place = match &self.mode {
            Some(mode) => format!(" in mode {mode}"),
            None => String::new(),
        };
        let why = self.why.as_deref().unwrap_or_default();
        Some(match self.verdict {
            DeadlineVerdict::Missed => {
                format!("chain {} can be too late{place}: {why}", self.chain)
            }
            _ => format!(
                "chain {} is not shown to be in time{place}: {why}",
                self.chain
            ),
        })
    }
}

/// Judges every chain in each mode by the response times of `verdicts`, which are those of all modes of the description.
pub fn judge_chains(description: &Description, verdicts: &[ModeVerdict]) -> Vec<ChainVerdict> {
    judge_some_chains(description, verdicts, |_| true)
}

/// The same for some chains.
pub(crate) fn judge_some_chains(
    description: &Description,
    verdicts: &[ModeVerdict],
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<ChainVerdict> {
    let (topics, chains): (Topics, Chains) = (description.section(), description.section());
    if chains.0.is_empty() {
        return Vec::new();
    }
    let mut answers = Vec::new();
    for mode in modes(description) {
        let verdict = verdicts
            .iter()
            .find(|verdict| verdict.mode.as_deref() == mode.mode);
        let Some(verdict) = verdict else {
            continue;
        };
        let question = ChainQuestion {
            description,
            topics: &topics,
            mode: &mode,
            tasks: &verdict.tasks,
        };
        for (name, chain) in chains.0.iter().filter(|(name, _)| is_wanted(name)) {
            answers.push(judged(name, &mode, chain, question.answer(chain)));
        }
    }
    answers
}

fn judged(
    name: &str,
    mode: &ModeContent<'_>,
    chain: &Chain,
    answer: Result<(ChainBound, Option<DisplacedReaction>), String>,
) -> ChainVerdict {
    let (verdict, why) = match &answer {
        _ if chain.data_age.is_none() && chain.reaction_time.is_none() => (
            DeadlineVerdict::NoDeadline,
            Some("no deadline is described".to_owned()),
        ),
        Err(why) => (DeadlineVerdict::Undecided, Some(why.clone())),
        Ok((answer, displaced)) => compared(chain, answer, displaced.as_ref()),
    };
    let (answer, displaced) = answer.map_or((None, None), |(answer, one)| (Some(answer), one));
    ChainVerdict {
        chain: name.to_owned(),
        mode: mode.mode.map(Into::into),
        data_age: chain.data_age,
        reaction_time: chain.reaction_time,
        answer,
        displaced,
        verdict,
        why,
    }
}

/// Holds the limits of a chain against its bounds, the shorter limit first.
fn compared(
    chain: &Chain,
    answer: &ChainBound,
    displaced: Option<&DisplacedReaction>,
) -> (DeadlineVerdict, Option<String>) {
    let reaction = match displaced {
        Some(displaced) => displaced.bound.clone(),
        None => Ok(answer.bound),
    };
    let mut limits = vec![
        ("data age", chain.data_age, Ok(answer.bound)),
        ("reaction time", chain.reaction_time, reaction),
    ];
    limits.sort_by_key(|(_, limit, _)| *limit);
    let mut undecided = None;
    for (what, limit, bound) in limits {
        match (limit, bound) {
            (Some(limit), Ok(bound)) if bound > limit => {
                let over = bound.saturating_sub(limit);
                let why =
                    format!("up to {bound}, and a {what} of {limit} is allowed: {over} too much");
                return (DeadlineVerdict::Missed, Some(why));
            }
            (Some(_), Err(why)) => undecided = Some(why),
            _ => {}
        }
    }
    match undecided {
        Some(why) => (DeadlineVerdict::Undecided, Some(why)),
        None => (DeadlineVerdict::Met, None),
    }
}

/// What the chains of one mode are judged by.
pub(crate) struct ChainQuestion<'a> {
    description: &'a Description,
    pub(crate) topics: &'a Topics,
    mode: &'a ModeContent<'a>,
    tasks: &'a [TaskVerdict],
}

/// A task of a chain with the bound on its response time.
pub(crate) struct RunningTask<'a> {
    name: &'a TaskName,
    pub(crate) task: &'a Task,
    pub(crate) response: Duration,
}

impl ChainQuestion<'_> {
    /// The bound of a chain, or why there is none.
    fn answer(&self, chain: &Chain) -> Result<(ChainBound, Option<DisplacedReaction>), String> {
        let links = chain
            .links(self.topics)
            .map_err(|fault| fault.to_string())?;
        let Some(first) = links.first() else {
            return Err("the chain has no tasks".to_owned());
        };
        let mut stages = vec![self.first_stage(&first.publisher)?];
        for link in &links {
            stages.push(self.stage(link)?);
        }
        let answer = bound(&stages).ok_or("the bound is beyond all times")?;
        let displaced = self.displaced(&links, &stages, answer.bound);
        Ok((answer, displaced))
    }

    /// The verdict on an own task of the mode.
    fn verdict_of(&self, name: &TaskName) -> Option<&TaskVerdict> {
        self.tasks.iter().find(|verdict| {
            verdict.service.is_none() && verdict.domain == name.domain && verdict.task == name.task
        })
    }

    pub(crate) fn running<'b>(&'b self, name: &'b TaskName) -> Result<RunningTask<'b>, String> {
        let task = name.task_in(self.description);
        let (Some(task), Some(verdict)) = (task, self.verdict_of(name)) else {
            return Err(format!("task {name} does not run in this mode"));
        };
        let Some(response) = verdict.response_bound else {
            let why = verdict
                .why
                .as_deref()
                .unwrap_or("its response time has no bound");
            return Err(format!("task {name}: {why}"));
        };
        Ok(RunningTask {
            name,
            task,
            response,
        })
    }

    fn first_stage(&self, name: &TaskName) -> Result<ChainStage, String> {
        let running = self.running(name)?;
        Ok(ChainStage {
            name: name.to_string(),
            topic: String::new(),
            transport: Duration::ZERO,
            response: running.response,
            trigger: self.clock_of(&running)?,
            yields_to_previous: false,
        })
    }

    fn stage(&self, link: &ChainLink) -> Result<ChainStage, String> {
        let running = self.running(&link.subscriber)?;
        let topic = &self.topics.0[&link.topic];
        self.contract_admits(link, topic)?;
        let trigger = match link.reads {
            ReadRule::Released => {
                self.promise_holds(link, topic, &running)?;
                StageTrigger::Released
            }
            ReadRule::Newest => {
                if let Some((other, _)) = self.topics.releasing(running.name) {
                    return Err(format!(
                        "topic `{other}` releases task {}, so that nothing bounds when it reads `{}` next",
                        running.name, link.topic
                    ));
                }
                self.clock_of(&running)?
            }
        };
        let transport = topic.delay.unwrap_or_default().most;
        let stage = ChainStage {
            name: running.name.to_string(),
            topic: link.topic.clone(),
            transport,
            response: running.response,
            yields_to_previous: link.reads == ReadRule::Newest
                && transport.is_zero()
                && self.yields(&link.subscriber, &link.publisher),
            trigger,
        };
        within_lifespan(link, topic, &stage)?;
        Ok(stage)
    }

    /// The times of the jobs of a task that reads the newest message.
    pub(crate) fn clock_of(&self, running: &RunningTask<'_>) -> Result<StageTrigger, String> {
        let name = running.name;
        match running.task.arrivals {
            Arrivals::Periodic { period, offset } => {
                let spans = self
                    .spans_in_windows(name)
                    .or_else(|| JobSpans::periodic(period, offset, running.response));
                Ok(StageTrigger::Clocked {
                    clock: name
                        .host_in(self.description)
                        .unwrap_or_default()
                        .to_owned(),
                    period,
                    spans: spans
                        .ok_or_else(|| format!("the times of task {name} are beyond all times"))?,
                })
            }
            Arrivals::Sporadic { max_gap, .. } => Ok(StageTrigger::Spaced {
                longest_gap: max_gap,
            }),
            _ => Err(format!(
                "nothing bounds the distance of two jobs of task {name}; give it periodic arrivals, or a `max_gap`"
            )),
        }
    }

    /// The jobs of a task of a time partition in its windows, where their schedule is certain: periodic tasks, preemptive and
    /// with different fixed priorities, or one alone.
    fn spans_in_windows(&self, name: &TaskName) -> Option<JobSpans> {
        let domain = self.description.domains.get(&name.domain)?;
        let reservation = self.mode.reservations.get(name.domain.as_str())?;
        let host = self.description.host_of(domain)?.1;
        let frame = host.major_frame?;
        if reservation.windows.is_empty() || self.vcpus(name) != 1 {
            return None;
        }
        let here: Vec<&TaskVerdict> = self
            .tasks
            .iter()
            .filter(|one| one.domain == name.domain)
            .collect();
        let alone = here.len() == 1;
        let mut tasks = Vec::new();
        for verdict in &here {
            let own = TaskName {
                domain: name.domain.clone(),
                task: verdict.task.clone(),
            };
            let task = own
                .task_in(self.description)
                .filter(|_| verdict.service.is_none())?;
            let Arrivals::Periodic { period, offset } = task.arrivals else {
                return None;
            };
            let is_simple = task.clients == 1 && task.jitter.is_zero() && task.blocking.is_zero();
            let by_clock = self.topics.releasing(&own).is_none();
            let rank = described_rank(domain.scheduling, task).or(alone.then_some(0))?;
            let is_new = tasks.iter().all(|other: &PartitionTask| other.rank != rank);
            if !(is_simple && by_clock && is_new && (alone || domain.preemptive)) {
                return None;
            }
            tasks.push(PartitionTask {
                execution: verdict.execution?,
                period,
                offset,
                rank,
            });
        }
        let at = here.iter().position(|verdict| verdict.task == name.task)?;
        let switch = host.overheads.window_begin();
        let spans = partition_schedule(frame, &reservation.windows, switch, &tasks)?;
        spans.into_iter().nth(at)
    }

    /// The longest time from the arrival of a job to its end, with the windows of its partition where their schedule is
    /// certain.
    fn latest_end(&self, running: &RunningTask<'_>) -> Duration {
        let spans = self.spans_in_windows(running.name);
        let ends = spans.iter().flat_map(JobSpans::jobs);
        let longest = ends
            .map(|job| job.latest_end.saturating_sub(job.arrival))
            .max();
        longest.map_or(running.response, |longest| longest.min(running.response))
    }

    fn vcpus(&self, name: &TaskName) -> usize {
        let reservation = self.mode.reservations.get(name.domain.as_str()).copied();
        let domain = self.description.domains.get(&name.domain);
        domain.map_or(0, |domain| {
            self.description.vcpus_under(domain, reservation)
        })
    }

    /// Whether a job of the reader cannot begin while a job of the publisher is pending.
    fn yields(&self, reader: &TaskName, publisher: &TaskName) -> bool {
        let domain = self.description.domains.get(&reader.domain);
        let Some(domain) = domain.filter(|_| reader.domain == publisher.domain) else {
            return false;
        };
        let rank = |name: &TaskName| {
            let task = name.task_in(self.description)?;
            described_rank(domain.scheduling, task)
        };
        let on_time = publisher
            .task_in(self.description)
            .is_some_and(|task| task.jitter.is_zero());
        let is_above = rank(publisher)
            .zip(rank(reader))
            .is_some_and(|(above, below)| above < below);
        on_time && is_above && self.vcpus(reader) == 1
    }

    /// The messages of all publishers of a topic as they arrive, or why nothing bounds them.
    pub(crate) fn sent(&self, topic: &TopicDescription) -> Result<Vec<Traffic>, String> {
        let delay = topic.delay.unwrap_or_default();
        let each = topic.publishers.iter().map(|publisher| {
            let name = TaskName::parse(publisher).ok_or("a publisher is no task")?;
            let running = self.running(&name)?;
            let soonest = least_execution(&running.task.execution_time);
            let latest = self.latest_end(&running);
            let jitter = latest.saturating_sub(soonest);
            let sent = Traffic::of_task(running.task, jitter);
            let sent = sent.ok_or_else(|| format!("nothing bounds the messages of task {name}"))?;
            Ok(sent.delayed(delay.most.saturating_sub(delay.least)))
        });
        each.collect()
    }

    /// Refuses a topic, or a route behind it, of which the contract may drop messages, or hold them back.
    fn contract_admits(&self, link: &ChainLink, topic: &TopicDescription) -> Result<(), String> {
        let routes: Routes = self.description.section();
        let route = routes.of_task(&link.subscriber.to_string());
        let by_route =
            route.and_then(|(name, route)| Some((format!("route `{name}`"), route.contract?)));
        let by_topic = topic
            .contract
            .map(|contract| (format!("topic `{}`", link.topic), contract));
        for (owner, contract) in by_topic.into_iter().chain(by_route) {
            let Some(admitted) = Traffic::of_contract(&contract) else {
                return Err(format!("the contract of {owner} admits nothing"));
            };
            // A topic has the contract for each publisher, a route for all of them together.
            let sent = self.sent(topic)?;
            let apart = match owner.starts_with("route") {
                true => vec![sent],
                false => sent.into_iter().map(|one| vec![one]).collect(),
            };
            for senders in apart {
                if let Some(excess) = admitted.excess_of(&senders) {
                    return Err(format!(
                        "the contract of {owner} may turn messages away: {}, since jobs end at different times after \
                         their arrivals, and {} are admitted",
                        excess.sent_in_words(),
                        excess.admitted
                    ));
                }
            }
        }
        Ok(())
    }

    /// Refuses a released task whose response time does not hold for what comes, or whose messages may displace each other.
    fn promise_holds(
        &self,
        link: &ChainLink,
        topic: &TopicDescription,
        running: &RunningTask<'_>,
    ) -> Result<(), String> {
        let name = running.name;
        let promise = Traffic::of_task(running.task, running.task.jitter);
        let Some(promise) = promise else {
            return Err(format!("the arrivals of task {name} promise nothing"));
        };
        if let Some(excess) = promise.excess_of(&self.sent(topic)?) {
            return Err(format!(
                "the arrivals of task {name} admit {} jobs, and {}: raise the `jitter` of the task, or lower its distances",
                excess.admitted,
                excess.sent_in_words()
            ));
        }
        let waiting = promise.most(running.response);
        if waiting > u64::from(topic.quality.history) {
            return Err(format!(
                "up to {waiting} messages of topic `{}` wait for task {name}, and newer ones displace older ones; set \
                 `history` to {waiting}",
                link.topic
            ));
        }
        Ok(())
    }
}

/// Refuses a topic of which messages may become too old before they are read.
fn within_lifespan(
    link: &ChainLink,
    topic: &TopicDescription,
    stage: &ChainStage,
) -> Result<(), String> {
    let wait = match &stage.trigger {
        StageTrigger::Clocked { period, .. } => *period,
        StageTrigger::Spaced { longest_gap } => *longest_gap,
        StageTrigger::Released => Duration::ZERO,
    };
    let oldest = stage
        .transport
        .saturating_add(wait)
        .saturating_add(stage.response);
    match topic.quality.lifespan {
        Some(lifespan) if lifespan < oldest => Err(format!(
            "messages of topic `{}` are read up to {oldest} after they were sent, and their lifespan is {lifespan}",
            link.topic
        )),
        _ => Ok(()),
    }
}

/// The shortest execution time that a law certainly has.
pub(crate) fn least_execution(execution: &ExecutionTime) -> Duration {
    match execution {
        ExecutionTime::Constant { value } => *value,
        ExecutionTime::Uniform { min, .. }
        | ExecutionTime::Exponential { min, .. }
        | ExecutionTime::Lognormal { min, .. } => *min,
        _ => Duration::ZERO,
    }
}
