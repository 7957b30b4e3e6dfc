//! A host mode manager's end of the wire, and processes to be switched.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration as StdDuration;

use tailbound_control::frame;
use tailbound_linux::clock::Monotonic;
use tailbound_linux::memory::SharedWords;
use tailbound_linux::process::die_with_parent;
use tailbound_linux::task_process::{Activity, TaskProcess};
use tailbound_modes::agent::link::UnixConnector;
use tailbound_modes::agent::signals::SignalledProcesses;
use tailbound_modes::agent::{Agent, AgentHandle, Event, Patience, TaskEngine, TaskTable};
use tailbound_modes::wire::{AgentMessage, HostMessage, ModeDecoder, Name, decoder, encode};
use tailbound_time::Duration;

/// How long a test waits for something before it fails.
const GIVE_UP_AFTER: StdDuration = StdDuration::from_secs(60);

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub fn change(number: u64, mode: &str, stop: &[&str], start: &[&str]) -> HostMessage {
    let names = |list: &[&str]| list.iter().map(|text| name(text)).collect();
    HostMessage::Change {
        change: number,
        mode: name(mode),
        start: names(start),
        stop: names(stop),
    }
}

/// The answer to hello, where the newest change is `change`.
pub fn welcome(change: u64) -> HostMessage {
    HostMessage::Welcome {
        domain: name("camera"),
        mode: Some(name("idle")),
        change,
    }
}

/// Looks again and again until it holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < GIVE_UP_AFTER, "never: {what}");
        thread::sleep(StdDuration::from_millis(1));
    }
}

/// The listening end.
pub struct Host {
    folder: tempfile::TempDir,
    listener: UnixListener,
}

impl Host {
    pub fn listen() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("modes")).unwrap();
        Self { folder, listener }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("modes")
    }

    /// Stops listening, and listens again at the same place.
    pub fn restart(&mut self) {
        std::fs::remove_file(self.socket()).unwrap();
        self.listener = UnixListener::bind(self.socket()).unwrap();
    }

    /// The next connection, with what the agent says first.
    pub fn accept(&self) -> (Peer, AgentMessage) {
        let (stream, _) = self.listener.accept().unwrap();
        let mut peer = Peer::new(stream);
        let hello = peer.receive();
        assert!(matches!(hello, AgentMessage::Hello { .. }), "{hello:?}");
        (peer, hello)
    }

    /// The next connection that lasts until its welcome, with the newest change `change`; an agent
    /// of little patience may leave others before.
    pub fn welcome(&self, change: u64) -> Peer {
        loop {
            let (stream, _) = self.listener.accept().unwrap();
            let mut peer = Peer::new(stream);
            let hello = peer.try_receive();
            peer.send_in_vain(&encode(&welcome(change)).unwrap());
            peer.send_in_vain(&encode(&HostMessage::Ping { nonce: u64::MAX }).unwrap());
            if hello.is_some() && peer.try_receive().is_some() {
                return peer;
            }
        }
    }
}

/// The host's end of one connection.
pub struct Peer {
    pub stream: UnixStream,
    decoder: ModeDecoder,
}

impl Peer {
    pub fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
        Self {
            stream,
            decoder: decoder(),
        }
    }

    pub fn send(&mut self, message: &HostMessage) {
        self.stream.write_all(&encode(message).unwrap()).unwrap();
    }

    /// Sends to an agent that may have left.
    pub fn send_in_vain(&mut self, bytes: &[u8]) {
        let _left = self.stream.write_all(bytes);
    }

    pub fn receive(&mut self) -> AgentMessage {
        self.try_receive().expect("the agent closed the connection")
    }

    /// The next message; `None` where the agent has closed the connection.
    pub fn try_receive(&mut self) -> Option<AgentMessage> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(payload) = self.decoder.next_payload().unwrap() {
                return Some(frame::decode(&payload).unwrap());
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.decoder.push(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                // The signals of other tests of this program interrupt a read.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub fn ask(&mut self, message: &HostMessage) -> AgentMessage {
        self.send(message);
        self.receive()
    }

    /// Tells a change or withdrawal, and expects that it is carried out.
    pub fn expect_done(&mut self, message: &HostMessage) {
        let answer = self.ask(message);
        assert!(
            matches!(
                answer,
                AgentMessage::Done { .. } | AgentMessage::Withdrawn { .. }
            ),
            "{answer:?}"
        );
    }
}

/// An agent in a thread of its own, which ends with it.
pub struct Running {
    pub handle: AgentHandle,
    thread: Option<JoinHandle<Vec<String>>>,
}

impl Running {
    pub fn start(host: &Host, engine: impl TaskEngine + Send + 'static) -> Self {
        Self::start_with(host, engine, Patience::default())
    }

    pub fn start_with(
        host: &Host,
        engine: impl TaskEngine + Send + 'static,
        patience: Patience,
    ) -> Self {
        let connector = UnixConnector::new(host.socket());
        let domain = name("camera");
        let mut agent = Agent::new(domain, "boot", connector, engine, Monotonic, patience).unwrap();
        let handle = agent.handle();
        let thread = thread::spawn(move || {
            let mut events = Vec::new();
            let mut observe = |event: Event| events.push(format!("{event:?}"));
            agent.run(&mut observe).unwrap();
            events
        });
        Self {
            handle,
            thread: Some(thread),
        }
    }

    /// Ends the agent; what it had to tell.
    pub fn end(mut self) -> Vec<String> {
        self.handle.end();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.end();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Set in a process that is to count: who started it, the descriptor of the words there, and how
/// many threads count.
const COUNTS_VARIABLE: &str = "TAILBOUND_TEST_COUNTS_FOR";

/// Not a test: the program that a [`Process`] starts, which counts until it is killed.
#[test]
fn counts() {
    let Ok(counts) = std::env::var(COUNTS_VARIABLE) else {
        return;
    };
    let numbers: Vec<u32> = counts
        .split(' ')
        .map(|text| text.parse().unwrap())
        .collect();
    let [parent, descriptor, threads] = numbers[..] else {
        panic!("{counts}");
    };
    let memory = OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/{parent}/fd/{descriptor}"))
        .unwrap();
    let words = SharedWords::open(memory.as_fd()).unwrap();
    thread::scope(|scope| {
        for word in words.words().iter().skip(1) {
            scope.spawn(move || count(word));
        }
        assert_eq!(words.words().len(), threads as usize);
        count(&words.words()[0]);
    });
}

fn count(word: &AtomicU64) {
    loop {
        word.fetch_add(1, Ordering::Relaxed);
    }
}

/// A process whose threads do nothing but count, in memory that this one sees; killed with this
/// value.
pub struct Process {
    pub child: Child,
    pub watched: TaskProcess,
    counts: SharedWords,
}

impl Process {
    /// One thread that counts.
    pub fn busy() -> Self {
        Self::with_threads(1)
    }

    /// So many threads that count, and that have begun.
    pub fn with_threads(threads: usize) -> Self {
        let counts = SharedWords::create(threads).unwrap();
        let descriptor = counts.as_fd().as_raw_fd();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "stage::counts", "--test-threads=1"])
            .env(
                COUNTS_VARIABLE,
                format!("{} {descriptor} {threads}", std::process::id()),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child = die_with_parent(&mut command).spawn().unwrap();
        let watched = TaskProcess::open(child.id(), None).unwrap();
        let process = Self {
            child,
            watched,
            counts,
        };
        eventually("every thread counts", || {
            process.counted().iter().all(|count| *count > 0)
        });
        process
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn activity(&self) -> Activity {
        self.watched.activity().unwrap()
    }

    /// Whether all of its threads are stopped by a signal.
    pub fn is_stopped(&self) -> bool {
        let activity = self.activity();
        activity.threads() > 0 && activity.stopped == activity.threads()
    }

    /// Every thread counts.
    pub fn expect_running(&self) {
        let before = self.counted();
        eventually("every thread counts", || {
            let now = self.counted();
            before.iter().zip(now).all(|(before, now)| now > *before)
        });
    }

    /// No thread executes an instruction of the program, from now on.
    pub fn assert_at_rest(&self) {
        let before = self.counted();
        thread::sleep(StdDuration::from_millis(20));
        assert_eq!(self.counted(), before, "it still counts");
    }

    /// How far each thread has counted.
    pub fn counted(&self) -> Vec<u64> {
        let words = self.counts.words().iter();
        words.map(|word| word.load(Ordering::Relaxed)).collect()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Tasks that are processes.
pub fn signalled(tasks: &[(&str, &[&Process])]) -> TaskTable {
    let mut table = TaskTable::new();
    for (task, processes) in tasks {
        add_signalled(&mut table, task, processes);
    }
    table
}

pub fn add_signalled(table: &mut TaskTable, task: &str, processes: &[&Process]) {
    let open = |process: &&Process| TaskProcess::open(process.pid(), None).unwrap();
    let processes = processes.iter().map(open).collect();
    let within = Duration::from_secs(20);
    let control = SignalledProcesses::new(name(task), processes, within);
    table.add(name(task), Box::new(control)).unwrap();
}
