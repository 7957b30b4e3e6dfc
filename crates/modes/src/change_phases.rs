//! The phases of a change, as they follow from its timeline.

use serde::Serialize;
use tailbound_time::{Duration, Instant, nanoseconds};

use crate::manager::Report;
use crate::transition::{HeldMode, Settled, Step, StepKind, Timeline};

/// `ChangePhase` is one phase of the work on one domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangePhase {
    /// Whose.
    pub domain: String,
    /// Which.
    #[serde(rename = "part")]
    pub kind: PhaseKind,
    /// When it began.
    #[serde(skip)]
    pub begins_at: Instant,
    /// From the request for the change to the begin.
    #[serde(rename = "after_ns", with = "nanoseconds")]
    pub after: Duration,
    /// How long it took, if it has a length.
    #[serde(rename = "took_ns", with = "nanoseconds::optional")]
    pub took: Option<Duration>,
    /// What else is to be said.
    pub remark: String,
    /// From when on the reservation that was accepted is in force.
    #[serde(skip)]
    pub in_force_at: Option<Instant>,
    /// What went wrong at its end, in a word or two.
    #[serde(skip)]
    pub failure: Option<&'static str>,
}

/// `PhaseKind` is the work of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseKind {
    /// From the message of the host to its receipt by the agent.
    Send,
    /// From the receipt to the last task that was switched.
    Signal,
    /// From then to the host's receipt of the answer.
    Receive,
    /// From the message to the news that the tasks were not switched, or to the end of the wait.
    Answer,
    /// To have a reservation accepted.
    Change,
    /// The agent came before all domains.
    Boost,
    /// The domain was done.
    Settled,
    /// The host has seen that a task runs of which the agent says that it is stopped.
    Contradiction,
}

impl PhaseKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Signal => "signal",
            Self::Receive => "receive",
            Self::Answer => "answer",
            Self::Change => "change",
            Self::Boost => "boost",
            Self::Settled => "settled",
            Self::Contradiction => "contradiction",
        }
    }
}

/// The phases of a change: the domains in the order in which they began, the phases of each in time.
pub fn change_phases(report: &Report) -> Vec<ChangePhase> {
    let steps = &report.timeline.steps;
    let mut domains: Vec<&str> = Vec::new();
    for step in steps {
        if !domains.contains(&step.domain.as_str()) {
            domains.push(&step.domain);
        }
    }
    let of_domain = |domain: &&str| {
        let own: Vec<&Step> = steps.iter().filter(|step| step.domain == *domain).collect();
        let settled = report.outcome.domains.get(*domain);
        let mut phases: Vec<ChangePhase> = (0..own.len())
            .flat_map(|place| of_step(&own, place, &report.timeline, settled))
            .collect();
        phases.sort_by_key(|phase| phase.begins_at);
        phases
    };
    domains.iter().flat_map(of_domain).collect()
}

/// The phases that end with a step of a domain, and the boost that begins with one.
fn of_step(
    own: &[&Step],
    place: usize,
    timeline: &Timeline,
    settled: Option<&Settled>,
) -> Vec<ChangePhase> {
    let step = own[place];
    let phase = |kind, from, to, remark| phase_of((step, timeline), kind, (from, to), remark);
    let failing = |kind: PhaseKind, from: Instant, remark: String, failure: &'static str| {
        let failure = Some(failure);
        let phase = phase(kind, from, step.at, remark);
        vec![ChangePhase { failure, ..phase }]
    };
    let at_once = |kind: PhaseKind, remark: String| {
        let phase = phase(kind, step.at, step.at, remark);
        vec![ChangePhase {
            took: None,
            ..phase
        }]
    };
    let sent = || last_at(own, place, &StepKind::Sent);
    let asked = || last_at(own, place, &StepKind::InterfaceAsked);
    match &step.kind {
        StepKind::InterfaceAsked | StepKind::Sent | StepKind::Unboosted => Vec::new(),
        StepKind::Acknowledged {
            received_at,
            switched_at,
        } => vec![
            phase(PhaseKind::Send, sent(), *received_at, String::new()),
            phase(PhaseKind::Signal, *received_at, *switched_at, String::new()),
            phase(PhaseKind::Receive, *switched_at, step.at, String::new()),
        ],
        StepKind::InterfaceAccepted { in_force_at } => {
            let remark = format!("in force after {}", since(timeline, *in_force_at));
            vec![ChangePhase {
                in_force_at: Some(*in_force_at),
                ..phase(PhaseKind::Change, asked(), step.at, remark)
            }]
        }
        StepKind::InterfaceRefused { reason } => {
            let remark = format!("refused: {reason}");
            failing(PhaseKind::Change, asked(), remark, "refused")
        }
        StepKind::Failed {
            reason,
            rolled_back,
        } => {
            let remark = could_not_switch(reason, *rolled_back);
            failing(PhaseKind::Answer, sent(), remark, "failed")
        }
        StepKind::TimedOut => failing(PhaseKind::Answer, sent(), "none".into(), "timed out"),
        StepKind::Boosted => {
            let mut after = own[place..].iter();
            let end = after.find(|other| other.kind == StepKind::Unboosted);
            let end = end.map_or(step.at, |end| end.at);
            vec![phase(PhaseKind::Boost, step.at, end, String::new())]
        }
        StepKind::Settled => {
            let was_sent = own.iter().any(|other| other.kind == StepKind::Sent);
            let remark = settled.map_or_else(String::new, |settled| holds(settled, was_sent));
            at_once(PhaseKind::Settled, remark)
        }
        StepKind::Contradicted { task, used, within } => at_once(
            PhaseKind::Contradiction,
            contradiction(task, *used, *within),
        ),
    }
}

/// A phase of the domain of a step that goes well.
fn phase_of(
    (step, timeline): (&Step, &Timeline),
    kind: PhaseKind,
    (from, to): (Instant, Instant),
    remark: String,
) -> ChangePhase {
    ChangePhase {
        domain: step.domain.clone(),
        kind,
        begins_at: from,
        after: since(timeline, from),
        took: Some(to.saturating_since(from)),
        remark,
        in_force_at: None,
        failure: None,
    }
}

/// The last step of a kind before the one at `place`; that one itself if there is none.
fn last_at(own: &[&Step], place: usize, kind: &StepKind) -> Instant {
    let mut before = own[..place].iter().rev();
    let last = before.find(|other| other.kind == *kind);
    last.map_or(own[place].at, |last| last.at)
}

fn could_not_switch(reason: &str, rolled_back: bool) -> String {
    let tasks = match rolled_back {
        true => "its tasks are as before",
        false => "which tasks run is not known",
    };
    format!("could not switch: {reason}; {tasks}")
}

/// A contradiction in words.
pub fn contradiction(task: &str, used: Duration, within: Duration) -> String {
    format!("says that `{task}` is stopped, and it runs: {used} of CPU time within {within}")
}

/// How long after the request something was.
pub fn since(timeline: &Timeline, at: Instant) -> Duration {
    at.saturating_since(timeline.began_at.unwrap_or(at))
}

/// What holds for a domain in the end. Of tasks that nobody was told to switch there is nothing to say.
fn holds(settled: &Settled, was_sent: bool) -> String {
    let word = |held: HeldMode| match held {
        HeldMode::Old => "old",
        HeldMode::New => "new",
        HeldMode::Fallback => "fallback's",
    };
    let reservation = format!("{} reservation", word(settled.interface));
    match (was_sent, settled.tasks) {
        (false, _) => reservation,
        (true, None) => format!("{reservation}, tasks not known"),
        (true, Some(held)) => format!("{reservation}, {} tasks", word(held)),
    }
}
