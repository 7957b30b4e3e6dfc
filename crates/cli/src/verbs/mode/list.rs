//! `tailbound mode list`: which modes there are, and what holds.

use serde::Serialize;
use tailbound_daemon::{Client, ModesStatus};
use tailbound_model::{ChangePolicy, RequestsMeanwhile, TaskStart};
use tailbound_modes::manager::DomainState;

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
    format!(
        "mode {} of {names}\n{}\n{last}\nagents connect to unix:{}\n",
        status.state.mode,
        table(&HEADER, &rows(status)),
        status.socket.display()
    )
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
