//! How long a change takes, from the host's write of it to the receipt of `done`; printed, not
//! judged: `cargo test -p tailbound-modes --test modes agent_round_trip -- --nocapture`.

use std::process::{Child, Command, Stdio};

use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::{die_with_parent, send_signal};
use tailbound_modes::agent::callback::DomainCallback;
use tailbound_modes::wire::{AgentMessage, TaskLists};
use tailbound_time::{Clock, Duration};

use crate::stage::{Host, Peer, Process, Running, change, name};

const SIGTERM: i32 = 15;
const SIGSTOP: i32 = 19;
const ROUNDS: u64 = 1000;
const TASKS: [&str; 4] = ["a", "b", "c", "d"];

/// Stops two tasks and starts two, again and again; prints a row.
fn measure(what: &str, peer: &mut Peer) {
    let (mut trips, mut switches) = (Vec::new(), Vec::new());
    let (first, second) = TASKS.split_at(2);
    for round in 1..=ROUNDS {
        let (stop, start) = match round % 2 {
            0 => (first, second),
            _ => (second, first),
        };
        let order = change(round, "x", stop, start);
        let sent = Monotonic.now();
        let answer = peer.ask(&order);
        let received = Monotonic.now();
        let AgentMessage::Done {
            received_ns,
            switched_ns,
            ..
        } = answer
        else {
            panic!("{answer:?}");
        };
        trips.push(received.saturating_since(sent));
        switches.push(switched_ns.saturating_since(received_ns));
    }
    println!(
        "{what:36} {}   of which switching {}",
        row(trips),
        row(switches)
    );
}

fn row(mut lengths: Vec<Duration>) -> String {
    lengths.sort_unstable();
    let at = |share: f64| {
        let place = (lengths.len() as f64 * share) as usize;
        lengths[place.min(lengths.len() - 1)].as_micros_f64()
    };
    format!(
        "median {:7.1} us, p99 {:7.1} us, max {:8.1} us",
        at(0.5),
        at(0.99),
        at(1.0)
    )
}

#[test]
fn by_callback() {
    let host = Host::listen();
    let tasks = TASKS.map(|task| (name(task), true));
    let _agent = Running::start(&host, DomainCallback::new(tasks, |_: &TaskLists| Ok(())));
    measure("callback, in a thread", &mut host.welcome(0));
}

fn program(host: &Host, processes: &[u32], fifo: bool) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailbound-agent"));
    command.args(["--domain", "camera", "--stop-within", "20s", "--connect"]);
    command.arg(format!("unix:{}", host.socket().display()));
    for (task, pid) in TASKS.iter().zip(processes) {
        command.args(["--task", &format!("{task}=pid:{pid}")]);
    }
    if fifo {
        command.args(["--fifo", "97"]);
    }
    die_with_parent(command.stderr(Stdio::null()))
        .spawn()
        .unwrap()
}

#[test]
fn by_signals() {
    let (sleepers, loops) = (four("exec sleep 600"), four("while :; do :; done"));
    let pids_of = |children: &[Child]| children.iter().map(Child::id).collect::<Vec<u32>>();
    let (sleeping, looping) = (pids_of(&sleepers), pids_of(&loops));
    let counters: Vec<Process> = TASKS.iter().map(|_| Process::busy()).collect();
    let counting: Vec<u32> = counters.iter().map(Process::pid).collect();
    let cases = [
        ("signals, sleeping tasks", &sleeping, false),
        ("signals, sleeping tasks, FIFO 97", &sleeping, true),
        ("signals, busy, one thread", &looping, false),
        ("signals, busy, one thread, FIFO 97", &looping, true),
        ("signals, busy, two threads", &counting, false),
        ("signals, busy, two threads, FIFO 97", &counting, true),
    ];
    for (what, pids, fifo) in cases {
        // The tasks of one case run at a time.
        for pid in [&sleeping, &looping, &counting].into_iter().flatten() {
            send_signal(*pid, SIGSTOP).unwrap();
        }
        let host = Host::listen();
        let mut agent = program(&host, pids, fifo);
        measure(what, &mut host.welcome(0));
        send_signal(agent.id(), SIGTERM).unwrap();
        agent.wait().unwrap();
    }
    for mut child in sleepers.into_iter().chain(loops) {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

fn four(script: &str) -> Vec<Child> {
    let start = |_| {
        let mut command = Command::new("sh");
        let command = command.args(["-c", script]).stdout(Stdio::null());
        die_with_parent(command).spawn().unwrap()
    };
    TASKS.iter().map(start).collect()
}
