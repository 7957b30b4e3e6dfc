//! The program `tailbound-agent`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use tailbound_linux::process::{die_with_parent, process_started, send_signal};
use tailbound_modes::wire::{AgentMessage, HostMessage};

use crate::stage::{self, Host, Process, change, eventually, name};

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

fn agent() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tailbound-agent"))
}

fn start(host: &Host, tasks: &[String]) -> Child {
    let mut command = agent();
    command.args(["--domain", "camera", "--connect"]);
    command.arg(format!("unix:{}", host.socket().display()));
    for task in tasks {
        command.args(["--task", task]);
    }
    die_with_parent(command.stderr(Stdio::piped()))
        .spawn()
        .unwrap()
}

fn end(mut agent: Child, signal: i32) -> Output {
    send_signal(agent.id(), signal).unwrap();
    agent.wait().unwrap();
    agent.wait_with_output().unwrap()
}

fn ended_with(line: &str) -> (Option<i32>, String) {
    let output = agent().args(line.split(' ')).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), text)
}

#[test]
fn it_switches_processes_and_leaves_them_as_they_are_at_its_end() {
    let (one, two) = (Process::busy(), Process::busy());
    let host = Host::listen();
    let began = process_started(two.pid()).unwrap();
    let tasks = [
        format!("a=pid:{}", one.pid()),
        format!("b=pid:{}@{began}", two.pid()),
    ];
    let program = start(&host, &tasks);
    let mut peer = host.welcome(0);
    peer.expect_done(&change(1, "x", &["a"], &["b"]));
    one.assert_at_rest();
    let output = end(program, SIGTERM);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(peer.try_receive(), None);
    eventually("it stays stopped", || one.is_stopped());
    two.expect_running();

    // The next one finds them so, killed or not.
    let program = start(&host, &tasks);
    let (_, hello) = host.accept();
    assert!(
        matches!(&hello, AgentMessage::Hello { started, change: 0, .. } if *started == [name("b")]),
        "{hello:?}"
    );
    end(program, SIGKILL);
    let program = start(&host, &tasks);
    let mut peer = host.welcome(7);
    peer.expect_done(&change(8, "y", &["b"], &["a"]));
    one.expect_running();
    two.assert_at_rest();
    end(program, SIGTERM);
}

#[test]
fn it_ends_at_once_while_there_is_no_host() {
    let host = Host::listen();
    std::fs::remove_file(host.socket()).unwrap();
    let mut program = start(&host, &[]);
    let mut said = BufReader::new(program.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("cannot connect") {
        assert_ne!(said.read_line(&mut text).unwrap(), 0, "{text}");
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    let output = end(program, SIGTERM);
    said.read_to_string(&mut text).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?} {text}");
    // Many attempts, one line.
    assert_eq!(text.matches("cannot connect").count(), 1, "{text}");
}

#[test]
fn its_times_are_of_this_boot_of_this_machine() {
    let host = Host::listen();
    let program = start(&host, &[]);
    let (_, hello) = host.accept();
    let AgentMessage::Hello { clock, .. } = hello else {
        panic!("{hello:?}");
    };
    assert_eq!(
        clock.boot.as_str(),
        tailbound_linux::process::boot_id().unwrap()
    );
    end(program, SIGTERM);
}

#[test]
fn it_passes_requests_from_a_named_pipe_on() {
    let host = Host::listen();
    let pipe = host.socket().with_file_name("requests");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let mut command = agent();
    command
        .args(["--domain", "camera", "--requests"])
        .arg(&pipe);
    command.arg("--connect");
    command.arg(format!("unix:{}", host.socket().display()));
    let program = die_with_parent(command.stderr(Stdio::piped()))
        .spawn()
        .unwrap();
    let (mut peer, _) = host.accept();
    peer.send(&stage::welcome(0));
    // Writers come and go.
    for mode in ["calibrate", "run"] {
        std::fs::write(&pipe, format!("No Name\n{mode}\n")).unwrap();
        let mode = name(mode);
        assert_eq!(peer.receive(), AgentMessage::Request { mode });
    }
    let output = end(program, SIGTERM);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("\"No Name\" is not passed on"), "{text}");
    let (status, text) = ended_with("--domain c --connect unix:/x --requests /dev/null");
    assert_eq!(status, Some(1));
    assert!(text.contains("no named pipe"), "{text}");
}

#[test]
fn it_says_what_is_wrong_with_its_arguments() {
    let (status, text) = ended_with("--domain camera");
    assert_eq!(status, Some(2));
    assert!(text.contains("--connect is missing"), "{text}");
    let (status, text) = ended_with("--domain camera --connect unix:/x --task a=pid:999999999");
    assert_eq!(status, Some(1));
    assert!(text.contains("task \"a\": process 999999999"), "{text}");
    let (status, text) = ended_with("--domain camera --connect unix:/x --task a=cgroup:/nowhere");
    assert_eq!(status, Some(1));
    assert!(text.contains("cgroup /nowhere"), "{text}");
    let output = agent().arg("--help").output().unwrap();
    assert!(output.status.success());
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("--task NAME=HOW")
    );
}

#[test]
fn a_process_that_takes_over_a_number_is_not_the_task() {
    let process = Process::busy();
    let began = process_started(process.pid()).unwrap() + 1;
    let pid = process.pid();
    let (status, text) = ended_with(&format!(
        "--domain c --connect unix:/x --task a=pid:{pid}@{began}"
    ));
    assert_eq!(status, Some(1));
    assert!(text.contains("another one"), "{text}");
    process.expect_running();
}

#[test]
fn a_killed_agent_answers_again_after_its_restart() {
    let process = Process::busy();
    let host = Host::listen();
    let task = [format!("a=pid:{}", process.pid())];
    let program = start(&host, &task);
    let mut peer = host.welcome(0);
    peer.send(&change(1, "idle", &["a"], &[]));
    end(program, SIGKILL);
    // Whether it had stopped the task or not: the host repeats the change, and it holds.
    let program = start(&host, &task);
    let mut peer = host.welcome(0);
    peer.expect_done(&change(1, "idle", &["a"], &[]));
    process.assert_at_rest();
    peer.send(&HostMessage::Ping { nonce: 3 });
    assert_eq!(peer.receive(), AgentMessage::Pong { nonce: 3 });
    end(program, SIGTERM);
    eventually("it stays stopped", || process.is_stopped());
}
