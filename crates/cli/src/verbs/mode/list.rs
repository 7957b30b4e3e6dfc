//! `tailbound mode list`: which modes there are, and what holds.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_control::{Client, Presence};
use tailbound_linux::clock::Monotonic;
use tailbound_model::{ChangePolicy, Metric, RequestsMeanwhile, TaskStart};
use tailbound_modes::change_phases::contradiction;
use tailbound_modes::contradictions::Contradiction;
use tailbound_modes::control::{ModesClient, ModesStatus};
use tailbound_modes::manager::journal::Fate;
use tailbound_modes::transition::DomainMode;
use tailbound_modes::triggers::{Side, TriggerStatus, When};
use tailbound_time::{Clock, Duration, Instant};

use super::table::{ModeAnswer, modes, tasks};
use super::{REMEDY, change_answer};
use crate::failure::Failure;
use crate::output::{Output, table};

const HEADER: [&str; 9] = [
    "domain",
    "local mode",
    "budget",
    "period",
    "priority",
    "tasks",
    "tasks known",
    "agent",
    "state",
];

/// `ModesView` is the modes of the daemon, with what its reservations say of their domains.
struct ModesView {
    modes: ModesStatus,
    presence: BTreeMap<String, Presence>,
}

/// Prints the modes of the daemon.
pub fn carry_out(client: &mut Client, output: &Output) -> Result<(), Failure> {
    let modes = client.modes().map_err(Failure::from_error)?;
    let modes = modes.ok_or_else(|| Failure::with_help("no modes are known", REMEDY))?;
    let status = client.status().map_err(Failure::from_error)?;
    let presence = status.reservations.into_iter();
    let view = ModesView {
        modes,
        presence: presence
            .map(|one| (one.enforced.domain, one.presence))
            .collect(),
    };
    output.rows_with(|| text(&view), &HEADER, &rows(&view), &answer(&view))
}

fn rows(view: &ModesView) -> Vec<Vec<String>> {
    let status = &view.modes;
    let domains = status.state.domains.iter();
    let rows = domains.map(|(domain, state)| {
        let interface = &state.interface.interface;
        let presence = view.presence.get(domain);
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
            presence.map_or_else(|| "taken back".into(), Presence::in_words),
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

fn text(view: &ModesView) -> String {
    let status = &view.modes;
    let names = status.table.names().join(", ");
    let last = match &status.last {
        None => "no change yet".to_owned(),
        Some(report) => format!("last change: {}", change_answer::summary(report)),
    };
    let mut text = format!(
        "mode {} of {names}\n{}\n{last}\n",
        status.state.mode,
        table(&HEADER, &rows(view)),
    );
    if let Some(fate) = status.resumed {
        let ending = fate.in_words(&status.state.mode);
        text.push_str(&format!(
            "a daemon died, and another one took over: {ending}\n"
        ));
    }
    for one in &status.contradictions {
        let remark = contradiction(&one.task, one.used, one.within);
        text.push_str(&format!("the agent of {} {remark}\n", one.domain));
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

/// The modes of the daemon, as JSON.
#[derive(Serialize)]
struct ModesAnswer<'a> {
    mode: &'a str,
    initial_mode: &'a str,
    policy: ChangePolicy,
    start: TaskStart,
    requests: RequestsMeanwhile,
    timeout_ns: u64,
    longest_boost_ns: u64,
    least_gap_ns: u64,
    socket: String,
    modes: Vec<ModeAnswer<'a>>,
    domains: Vec<DomainAnswer<'a>>,
    last_change: Option<change_answer::ChangeAnswer<'a>>,
    triggers: &'a [TriggerStatus],
    /// The end of a change in which another daemon died.
    resumed: Option<Fate>,
    contradictions: &'a [Contradiction],
}

#[derive(Serialize)]
struct DomainAnswer<'a> {
    domain: &'a str,
    #[serde(flatten)]
    holds: DomainMode,
    /// The local mode whose tasks run, or should.
    tasks_of: &'a str,
    tasks_known: bool,
    agent: &'static str,
    /// Whether the reservation holds for anybody, as in `status`; none if it was taken back.
    presence: Option<Presence>,
}

fn answer(view: &ModesView) -> ModesAnswer<'_> {
    let status = &view.modes;
    let table = &status.table;
    let options = table.options();
    let domains = status.state.domains.iter();
    let domains = domains.map(|(domain, state)| DomainAnswer {
        domain,
        holds: DomainMode {
            tasks: state.tasks_of().tasks.clone(),
            ..state.interface.clone()
        },
        tasks_of: &state.tasks_of().name,
        tasks_known: state.tasks.is_some(),
        agent: agent(status, domain),
        presence: view.presence.get(domain).copied(),
    });
    ModesAnswer {
        mode: &status.state.mode,
        initial_mode: table.initial(),
        policy: options.policy,
        start: options.start,
        requests: table.requests(),
        timeout_ns: options.timeout.as_nanos(),
        longest_boost_ns: table.longest_boost().as_nanos(),
        least_gap_ns: table.least_gap().as_nanos(),
        socket: status.socket.display().to_string(),
        modes: modes(table),
        domains: domains.collect(),
        last_change: status.last.as_ref().map(change_answer::for_programs),
        triggers: &status.triggers,
        resumed: status.resumed,
        contradictions: &status.contradictions,
    }
}
