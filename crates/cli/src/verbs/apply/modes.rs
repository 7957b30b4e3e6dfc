//! What `apply` does with the modes of a description.

use std::path::Path;

use tailbound_control::{Client, Selection};
use tailbound_enforcement::ReservationRequest;
use tailbound_model::{AgentLink, Description, LoadedDescription, TaskProcesses};
use tailbound_modes::control::{ModesClient, RunningDescription};
use tailbound_modes::table::ModeTable;
use tailbound_modes::table_from_description::table_of;
use tailbound_modes::table_replacement;

use super::super::protocols;
use crate::failure::{Failure, chain};
use crate::output::Output;

/// The modes of a description; nothing if it has none.
///
/// # Errors
/// What stands against them. Nothing has been changed then.
pub fn of(description: &Description) -> Result<Option<ModeTable>, Failure> {
    if description.initial_mode.is_none() {
        return Ok(None);
    }
    let table = table_of(description).map_err(Failure::from_error)?;
    let offsets = protocols::offsets(description)?;
    Ok(Some(table.with_offsets(offsets)))
}

/// Refuses a table with domains whose reservations are not made.
pub fn check(table: &ModeTable, requests: &[ReservationRequest]) -> Result<(), Failure> {
    let domains = table.mode(table.initial()).into_iter().flatten();
    for (domain, _) in domains {
        if !requests.iter().any(|request| request.domain == *domain) {
            return Err(Failure::with_help(
                format!("domain \"{domain}\" has the back end none, which modes cannot change"),
                "leave its reservation out, or choose another back end",
            ));
        }
    }
    Ok(())
}

/// Refuses a table in place of another one, before anything is reserved for it.
pub fn refuse_other(client: &mut Client, table: &ModeTable) -> Result<(), Failure> {
    let Some(status) = client.modes().map_err(Failure::from_error)? else {
        return Ok(());
    };
    let description = client.modes_description().map_err(Failure::from_error)?;
    table_replacement::refuse_other(table, &status, description.as_ref())
        .map_err(Failure::from_error)
}

/// Makes the daemon know the modes; if it does not take them, takes back what was applied.
pub fn load(
    client: &mut Client,
    table: &ModeTable,
    loaded: &LoadedDescription,
    requests: &[ReservationRequest],
    output: &Output,
) -> Result<(), Failure> {
    let description = running(loaded);
    let error = match client.load_modes(table.clone(), description) {
        Ok(socket) => {
            for line in summary(table, &socket) {
                output.note(line);
            }
            return Ok(());
        }
        Err(error) => error,
    };
    let mut message = format!("the modes are not known: {}", chain(&error));
    let mut left = Vec::new();
    for request in requests {
        let domain = request.domain.clone();
        if let Err(error) = client.revert(Selection::Domain(domain.clone())) {
            left.push(format!("{domain} ({})", chain(&error)));
        }
    }
    match left.as_slice() {
        [] => message.push_str("; what was applied is taken back"),
        left => message.push_str(&format!("; not taken back: {}", left.join(", "))),
    }
    Err(match left.is_empty() {
        true => Failure::error(message),
        false => Failure::with_help(message, "`tailbound status` shows what is in force"),
    })
}

/// The description as the daemon keeps it, for modes that are added later; nothing where it is too long
/// for that.
fn running(loaded: &LoadedDescription) -> Option<RunningDescription> {
    const LONGEST: usize = 128 * 1024;
    let file = std::path::absolute(&loaded.path).ok()?;
    let text = loaded.text.clone();
    (text.len() <= LONGEST).then_some(RunningDescription { file, text })
}

/// What holds, and how agents connect.
fn summary(table: &ModeTable, socket: &Path) -> Vec<String> {
    let initial = table.initial();
    let mut lines = vec![format!(
        "mode {initial} of {}; `tailbound mode set MODE` changes it",
        table.names().join(", ")
    )];
    if !table.triggers().is_empty() {
        let count = table.triggers().len();
        lines.push(format!(
            "{count} triggers ask for modes by themselves; `tailbound mode list` shows them"
        ));
    }
    let domains = table.mode(initial).into_iter().flatten();
    for (domain, _) in domains {
        if table.agent_place(domain).is_none() {
            continue;
        }
        let tasks = table.all_tasks(domain);
        let tasks: String = tasks
            .iter()
            .map(|task| format!(" --task {task}={}", how(table, domain, task)))
            .collect();
        lines.push(format!(
            "start the agent of {domain}: tailbound-agent --domain {domain} --connect {}{tasks}",
            address(table, domain, socket)
        ));
    }
    lines
}

/// How a task is stopped, as far as the description tells what runs it.
fn how(table: &ModeTable, domain: &str, task: &str) -> String {
    let seen = table.seen().get(domain).and_then(|tasks| tasks.get(task));
    match seen {
        Some(TaskProcesses { pids, cgroup: None }) => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!("pid:{}", pids.join(","))
        }
        _ => "pid:PID".to_owned(),
    }
}

/// Where the agent of a domain connects to.
fn address(table: &ModeTable, domain: &str, socket: &Path) -> String {
    let listeners = table.listeners();
    match table.links().get(domain) {
        None | Some(AgentLink::Unix {}) => format!("unix:{}", socket.display()),
        Some(AgentLink::VirtioSerial { .. }) => "virtio:PORT".to_owned(),
        Some(AgentLink::Vsock { .. }) => {
            format!("vsock:2:{}", listeners.vsock_port.unwrap_or_default())
        }
        Some(AgentLink::Tls {}) => {
            let listen = listeners.tls.as_ref().map_or("", |tls| &tls.listen);
            format!("tls:{listen} --certificate FILE --key FILE --authority FILE")
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const CELL: &str = r#"
        schema_version = 1
        name = "cell"
        initial_mode = "run"
        hosts.cell.cpus = [0, 1]
        [domains.arm]
        kind = "process"
        pids = [1]
        reservation = { budget = "4ms", period = "10ms", cpus = [1], priority = 50 }
        agent = {}
        tasks.move = { arrivals = { kind = "periodic", period = "20ms" }, execution_time = { kind = "constant", value = "5ms" } }
        tasks.hold = { arrivals = { kind = "periodic", period = "20ms" }, execution_time = { kind = "constant", value = "1ms" } }
        [domains.camera]
        kind = "process"
        pids = [2]
        reservation = { budget = "2ms", period = "10ms", cpus = [1], priority = 40 }
        [modes.run]
        [modes.rest]
        tasks = ["arm.hold"]
    "#;

    #[test]
    fn each_agent_is_told_its_socket_and_its_tasks() {
        let description = tailbound_model::parse(CELL, "cell.toml").unwrap();
        let table = of(&description).unwrap().unwrap();
        let lines = summary(&table, Path::new("/run/x/modes.sock"));
        assert!(lines[0].starts_with("mode run of rest, run;"), "{lines:?}");
        assert_eq!(
            lines[1..],
            [
                "start the agent of arm: tailbound-agent --domain arm --connect \
              unix:/run/x/modes.sock --task hold=pid:PID --task move=pid:PID"
            ]
        );
        let error = check(&table, &[]).unwrap_err().to_string();
        assert!(error.contains("\"arm\" has the back end none"), "{error}");
    }
}
