//! `tailbound mode list`: which modes there are, and what holds.

use serde::Serialize;
use tailbound_control::Client;
use tailbound_linux::clock::Monotonic;
use tailbound_model::{ChangePolicy, Metric, RequestsMeanwhile, TaskStart};
use tailbound_modes::contradictions::Contradiction;
use tailbound_modes::control::{ModesClient, ModesStatus};
use tailbound_modes::manager::DomainState;
use tailbound_modes::manager::journal::Fate;
use tailbound_modes::parts::contradiction;
use tailbound_modes::triggers::{Side, TriggerStatus, When};
use tailbound_time::{Clock, Duration, Instant};

use super::table::{ToldLocal, ToldMode, local, modes, tasks};
use super::{REMEDY, answer};
use crate::failure::Failure;
use crate::output::{Output, table};

const HEADER: [&str; 8] = [
    "domain",
    "local mode",
    "budget",
    "period",
    "priority",
    "tasks",
    "tasks known",
    "agent",
];

/// Prints what the daemon knows of modes.
pub fn carry_out(client: &mut Client, output: &Output) -> Result<(), Failure> {
    let status = client.modes().map_err(Failure::from_error)?;
    let status = status.ok_or_else(|| Failure::with_help("no modes are known", REMEDY))?;
    output.rows_with(|| text(&status), &HEADER, &rows(&status), &told(&status))
}

fn rows(status: &ModesStatus) -> Vec<Vec<String>> {
    let domains = status.state.domains.iter();
    let rows = domains.map(|(domain, state)| {
        let interface = &state.interface.interface;
        vec![
            domain.clone(),
            state.interface.name.clone(),
            interface.budget.to_string(),
            interface.period.to_string(),
            interface.priority.0.to_string(),
            match status.table.agent_place(domain) {
                Some(_) => tasks(state.tasks_of()),
                None => "-".into(),
            },
            match state.tasks {
                Some(_) => "yes".into(),
                None => "no".into(),
            },
            agent(status, domain).into(),
        ]
    });
    rows.collect()
}

fn agent(status: &ModesStatus, domain: &str) -> &'static str {
    let connected = status.agents.iter().any(|one| one == domain);
    match (status.table.agent_place(domain), connected) {
        (_, true) => "connected",
        (Some(_), false) => "not connected",
        (None, false) => "none",
    }
}

fn text(status: &ModesStatus) -> String {
    let names = status.table.names().join(", ");
    let last = match &status.last {
        None => "no change yet".to_owned(),
        Some(report) => format!("last change: {}", answer::summary(report)),
    };
    let mut text = format!(
        "mode {} of {names}\n{}\n{last}\n",
        status.state.mode,
        table(&HEADER, &rows(status)),
    );
    if let Some(fate) = status.resumed {
        let told = fate.in_words(&status.state.mode);
        text.push_str(&format!(
            "a daemon died, and another one took over: {told}\n"
        ));
    }
    for one in &status.contradictions {
        let told = contradiction(&one.task, one.used, one.within);
        text.push_str(&format!("the agent of {} {told}\n", one.domain));
    }
    let now = Monotonic.now();
    for one in &status.triggers {
        text.push_str(&trigger(one, now));
    }
    text.push_str(&format!(
        "agents connect to unix:{}\n",
        status.socket.display()
    ));
    text
}

/// A line about a trigger.
fn trigger(status: &TriggerStatus, now: Instant) -> String {
    let when = match &status.trigger.when {
        When::Schedule { every, offset } => format!("every {every} from {offset} on"),
        When::Condition {
            domain,
            metric,
            side,
            threshold_ppm,
            window,
        } => {
            let side = match side {
                Side::Above => "above",
                Side::Below => "below",
            };
            let share = f64::from(*threshold_ppm) / 1e4;
            format!(
                "{} of {domain} {side} {share}% for {window}",
                metric_word(*metric)
            )
        }
    };
    let last = status.last_fired_at.map(|at| {
        let ago = now.saturating_since(at).as_nanos() / 1_000_000;
        format!(
            "asked {} times, last {} ago",
            status.fired,
            Duration::from_millis(ago)
        )
    });
    format!(
        "trigger of {}: {when}; {}\n",
        status.trigger.mode,
        last.as_deref().unwrap_or("has not asked yet")
    )
}

fn metric_word(metric: Metric) -> &'static str {
    match metric {
        Metric::Depletions => "depletions",
        Metric::BudgetUsed => "budget used",
        Metric::Skipped => "skipped replenishments",
        Metric::Stalls => "stalls",
    }
}

/// What is known of modes, as JSON.
#[derive(Serialize)]
struct Told {
    mode: String,
    initial_mode: String,
    policy: ChangePolicy,
    start: TaskStart,
    requests: RequestsMeanwhile,
    timeout_ns: u64,
    longest_boost_ns: u64,
    least_gap_ns: u64,
    socket: String,
    modes: Vec<ToldMode>,
    domains: Vec<ToldDomain>,
    last_change: Option<answer::Told>,
    triggers: Vec<ToldTrigger>,
    /// What became of a change in which another daemon died.
    resumed: Option<Fate>,
    contradictions: Vec<ToldContradiction>,
}

/// A task that runs though its agent says that it is stopped.
#[derive(Serialize)]
struct ToldContradiction {
    domain: String,
    task: String,
    said_at_ns: u64,
    seen_at_ns: u64,
    used_ns: u64,
    within_ns: u64,
}

#[derive(Serialize)]
struct ToldTrigger {
    name: String,
    mode: String,
    #[serde(flatten)]
    when: ToldWhen,
    fired: u64,
    last_fired_at_ns: Option<u64>,
}

#[derive(Serialize)]
struct ToldDomain {
    domain: String,
    #[serde(flatten)]
    holds: ToldLocal,
    /// The local mode whose tasks run, or should.
    tasks_of: String,
    tasks_known: bool,
    agent: &'static str,
}

fn told(status: &ModesStatus) -> Told {
    let table = &status.table;
    let options = table.options();
    let domains = status.state.domains.iter();
    let domains = domains.map(|(domain, state)| told_domain(status, domain, state));
    Told {
        mode: status.state.mode.clone(),
        initial_mode: table.initial().to_owned(),
        policy: options.policy,
        start: options.start,
        requests: table.requests(),
        timeout_ns: options.timeout.as_nanos(),
        longest_boost_ns: table.longest_boost().as_nanos(),
        least_gap_ns: table.least_gap().as_nanos(),
        socket: status.socket.display().to_string(),
        modes: modes(table),
        domains: domains.collect(),
        last_change: status.last.as_ref().map(answer::told),
        triggers: status.triggers.iter().map(told_trigger).collect(),
        resumed: status.resumed,
        contradictions: status
            .contradictions
            .iter()
            .map(told_contradiction)
            .collect(),
    }
}

fn told_contradiction(found: &Contradiction) -> ToldContradiction {
    ToldContradiction {
        domain: found.domain.clone(),
        task: found.task.clone(),
        said_at_ns: found.said_at.as_nanos(),
        seen_at_ns: found.seen_at.as_nanos(),
        used_ns: found.used.as_nanos(),
        within_ns: found.within.as_nanos(),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
enum ToldWhen {
    Schedule {
        every_ns: u64,
        offset_ns: u64,
    },
    Condition {
        domain: String,
        metric: Metric,
        side: Side,
        threshold_ppm: u32,
        window_ns: u64,
    },
}

fn told_when(when: &When) -> ToldWhen {
    match when {
        When::Schedule { every, offset } => ToldWhen::Schedule {
            every_ns: every.as_nanos(),
            offset_ns: offset.as_nanos(),
        },
        When::Condition {
            domain,
            metric,
            side,
            threshold_ppm,
            window,
        } => ToldWhen::Condition {
            domain: domain.clone(),
            metric: *metric,
            side: *side,
            threshold_ppm: *threshold_ppm,
            window_ns: window.as_nanos(),
        },
    }
}

fn told_trigger(status: &TriggerStatus) -> ToldTrigger {
    ToldTrigger {
        name: status.trigger.name.clone(),
        mode: status.trigger.mode.clone(),
        when: told_when(&status.trigger.when),
        fired: status.fired,
        last_fired_at_ns: status.last_fired_at.map(Instant::as_nanos),
    }
}

fn told_domain(status: &ModesStatus, domain: &str, state: &DomainState) -> ToldDomain {
    let tasks = state.tasks_of();
    ToldDomain {
        domain: domain.to_owned(),
        holds: local(&state.interface, tasks),
        tasks_of: tasks.name.clone(),
        tasks_known: state.tasks.is_some(),
        agent: agent(status, domain),
    }
}
