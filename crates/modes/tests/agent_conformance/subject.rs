//! The agents under test: the Rust one in a thread, those in C and Python as programs. All have the same
//! tasks, and say line by line what they are called for.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration as StdDuration;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::{boot_id, die_with_parent};
use tailbound_modes::agent::callback::SwitchedByCall;
use tailbound_modes::agent::link::UnixConnector;
use tailbound_modes::agent::{Agent, AgentHandle, Event, Patience, TaskTable};
use tailbound_time::Duration;

use crate::stage::name;

/// How long is waited for a line before the test fails.
const GIVE_UP_AFTER: StdDuration = StdDuration::from_secs(60);

/// The domain of every agent under test, as the stage has it.
pub const DOMAIN: &str = "camera";

/// In which language an agent is written.
#[derive(Clone, Copy, Debug)]
pub enum Language {
    Rust,
    C,
    Python,
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a C program with the library, under the sanitizers.
pub fn compile(program: &str) -> PathBuf {
    let here = root().join("crates/modes/tests/agent_conformance");
    let library = root().join("libraries/c");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let built = folder.join(format!(
        "agent-conformance-{program}-{}",
        std::process::id()
    ));
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .args(["-g", "-O1", "-fsanitize=address,undefined"])
        .args(["-fno-sanitize-recover=all", "-pthread", "-I"])
        .arg(&library)
        .arg(here.join(format!("{program}.c")))
        .args(["agent.c", "wire.c", "link.c"].map(|file| library.join(file)))
        .arg("-o")
        .arg(&built)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    built
}

/// Whether this language can be run here; says what is missing.
pub fn is_there(language: Language) -> bool {
    let (program, needed) = match language {
        Language::Rust => return true,
        Language::C => ("cc", "cc"),
        Language::Python => ("python3", "python3"),
    };
    let is_installed = Command::new(program).arg("--version").output().is_ok();
    if !is_installed {
        eprintln!("SKIP agent conformance, {language:?}: needs {needed}");
    }
    is_installed
}

enum Body {
    Thread(AgentHandle, Option<thread::JoinHandle<()>>),
    Program(Child),
}

/// An agent that runs, and ends with this value.
pub struct Subject {
    body: Body,
    lines: Receiver<String>,
}

impl Subject {
    pub fn start(language: Language, socket: &Path) -> Self {
        let (said, lines) = channel();
        let body = match language {
            Language::Rust => in_thread(socket, said),
            Language::C => {
                static BUILT: OnceLock<PathBuf> = OnceLock::new();
                let built = BUILT.get_or_init(|| compile("subject"));
                program(&mut Command::new(built), socket, said)
            }
            Language::Python => {
                let mut command = Command::new("python3");
                command
                    .arg(root().join("crates/modes/tests/agent_conformance/subject.py"))
                    .env("PYTHONPATH", root().join("python/tailbound"))
                    .env("PYTHONDONTWRITEBYTECODE", "1");
                program(&mut command, socket, said)
            }
        };
        Self { body, lines }
    }

    /// Has it ask the host for a mode.
    pub fn request(&mut self, mode: &str) {
        match &mut self.body {
            Body::Thread(handle, _) => handle.request(name(mode)).unwrap(),
            Body::Program(child) => {
                writeln!(child.stdin.as_mut().unwrap(), "{mode}").unwrap();
            }
        }
    }

    /// What it was called for since the last look is exactly this. (What it says of events does not count.)
    pub fn expect_calls(&self, expected: &[&str]) {
        let mut calls = Vec::new();
        while calls.len() < expected.len() {
            let line = self.lines.recv_timeout(GIVE_UP_AFTER);
            let line = line.unwrap_or_else(|_| panic!("only {calls:?} of {expected:?}"));
            calls.extend(is_call(&line).then_some(line));
        }
        assert_eq!(calls, expected);
    }

    /// It says so, sooner or later.
    pub fn expect_event(&self, begins: &str) {
        loop {
            let line = self.lines.recv_timeout(GIVE_UP_AFTER);
            if line.expect("the event never came").starts_with(begins) {
                return;
            }
        }
    }

    /// It ends when it is told to, in good order, and was called for nothing more than this.
    pub fn end(mut self, calls: &[&str]) {
        match &mut self.body {
            Body::Thread(handle, thread) => {
                handle.end();
                thread.take().unwrap().join().unwrap();
            }
            Body::Program(child) => {
                drop(child.stdin.take());
                let status = child.wait().unwrap();
                assert!(status.success(), "it ended with {status}");
            }
        }
        let left: Vec<String> = self.lines.iter().filter(|line| is_call(line)).collect();
        assert_eq!(left, calls);
    }

    /// As [`Subject::end`], whatever it was called for.
    pub fn end_in_good_order(mut self) {
        let (_said, nothing) = channel();
        self.lines = nothing;
        drop(_said);
        self.end(&[]);
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        match &mut self.body {
            Body::Thread(handle, _) => handle.end(),
            Body::Program(child) => {
                let _ended = child.kill();
                let _reaped = child.wait();
            }
        }
    }
}

fn is_call(line: &str) -> bool {
    line.starts_with("stop ") || line.starts_with("start ")
}

fn program(command: &mut Command, socket: &Path, said: Sender<String>) -> Body {
    command
        .arg(socket)
        .arg(DOMAIN)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = die_with_parent(command).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            // Nobody listens any more; it must not wait for that.
            let _unheard = said.send(line);
        }
    });
    Body::Program(child)
}

/// A task that says what it is called for, and fails as it is told to.
fn task(table: &mut TaskTable, said: &Sender<String>, text: &str, started: bool) {
    let said = said.clone();
    let task = text.to_owned();
    let mut starts_fail = match text {
        "broken" => u32::MAX,
        "weary" => 1,
        _ => 0,
    };
    let call = move |start: bool| {
        let what = if start { "start" } else { "stop" };
        let _unheard = said.send(format!("{what} {task}"));
        if !start && task == "stuck" {
            return Err("does not stop".to_owned());
        }
        if start && starts_fail > 0 {
            starts_fail -= 1;
            return Err("does not start".to_owned());
        }
        Ok(())
    };
    let control = SwitchedByCall::new(name(text), started, call);
    table.add(name(text), Box::new(control)).unwrap();
}

fn in_thread(socket: &Path, said: Sender<String>) -> Body {
    let mut tasks = TaskTable::new();
    let started = [("move", true), ("hold", true), ("scan", false)];
    let failing = [("broken", false), ("stuck", true), ("weary", true)];
    for (name, started) in started.into_iter().chain(failing) {
        task(&mut tasks, &said, name, started);
    }
    let patience = Patience {
        pause_least: Duration::from_millis(1),
        pause_most: Duration::from_millis(5),
        ..Patience::default()
    };
    let connector = UnixConnector::new(socket.to_owned());
    let boot = boot_id().unwrap();
    let mut agent = Agent::new(name(DOMAIN), &boot, connector, tasks, Monotonic, patience).unwrap();
    let handle = agent.handle();
    let thread = thread::spawn(move || {
        let mut observe = |event: Event| {
            let line = match event {
                Event::Begun => "connected".to_owned(),
                Event::Refused { mode, reason } => format!("refused {mode}: {reason}"),
                Event::Lost(error) => format!("lost {error}"),
                _ => return,
            };
            let _unheard = said.send(line);
        };
        agent.run(&mut observe).unwrap();
    });
    Body::Thread(handle, Some(thread))
}
