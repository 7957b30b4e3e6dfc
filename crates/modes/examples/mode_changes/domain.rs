//! What the measured domains are made of: programs of this same file.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::{boot_id, die_with_parent};
use tailbound_linux::task_process::TaskProcess;
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_modes::agent::link::UnixConnector;
use tailbound_modes::agent::{Agent, Patience, TaskTable, signals::SignalledProcesses};
use tailbound_modes::wire::Name;
use tailbound_time::{Clock, Duration};

/// The tasks of every domain, one for each mode.
pub const TASKS: [&str; 2] = ["day", "night"];

/// No program lives longer, whatever happens to its parent.
const LONGEST: Duration = Duration::from_secs(900);

fn this_program() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.stdin(Stdio::null());
    die_with_parent(&mut command);
    command
}

/// A task: it uses all the CPU time that it gets.
pub fn start_task() -> Child {
    this_program().arg("--busy").spawn().expect("a task")
}

/// The agent of a domain whose tasks are these processes.
pub fn start_agent(domain: &str, socket: &PathBuf, tasks: &[u32], cpu: u32) -> Child {
    let mut command = this_program();
    command
        .arg("--agent")
        .arg(domain)
        .arg(socket)
        .arg(cpu.to_string());
    command.args(tasks.iter().map(u32::to_string));
    command.spawn().expect("an agent")
}

/// Plays the part that the arguments tell, if they do.
pub fn be_one_if_told(arguments: &[String]) -> bool {
    match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["--busy"] => be_busy(),
        ["--agent", domain, socket, cpu, tasks @ ..] => {
            let tasks: Vec<u32> = tasks
                .iter()
                .map(|pid| pid.parse().expect("a pid"))
                .collect();
            be_an_agent(domain, socket.into(), cpu.parse().expect("a CPU"), &tasks);
        }
        _ => return false,
    }
    true
}

fn be_busy() {
    let end = Monotonic.now() + LONGEST;
    while Monotonic.now() < end {
        std::hint::spin_loop();
    }
}

fn be_an_agent(domain: &str, socket: PathBuf, cpu: u32, tasks: &[u32]) {
    pin_current_thread(cpu).expect("the CPU of the domain");
    make_current_thread_fifo(95).expect("CAP_SYS_NICE");
    let mut table = TaskTable::new();
    for (name, pid) in TASKS.iter().zip(tasks) {
        let name: Name = name.parse().expect("a name");
        let process = TaskProcess::open(*pid, None).expect("a task");
        let limit = Duration::from_millis(100);
        let control = SignalledProcesses::new(name.clone(), vec![process], limit);
        table.add(name, Box::new(control)).expect("another task");
    }
    let mut agent = Agent::new(
        domain.parse().expect("a name"),
        &boot_id().expect("a boot"),
        UnixConnector::new(socket),
        table,
        Monotonic,
        Patience::default(),
    )
    .expect("an agent");
    agent.run(&mut |_| {}).expect("a link");
}
