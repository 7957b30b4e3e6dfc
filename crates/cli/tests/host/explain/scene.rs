//! A reserved service, its clients, and a recording of what becomes of their requests.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration as Pause, Instant as Stopwatch};

use tailbound_experiment::recorded_run::{call_processes, recorded_domain, sampler_delays};
use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::{die_with_parent, own_thread};
use tailbound_linux::sockets::unix_end;
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_measurement::{LOOK_DISTANCE, SupplySampler};
use tailbound_model::Cpu;
use tailbound_recorder::{EventRecorder, RecordedLocks, RecorderOptions};
use tailbound_time::Clock;
use tailbound_trace::explain::{ExplainOptions, Explanation, LatencyCause, explain};
use tailbound_trace::recording::{KernelRecording, RecordedConnection, RecordedLoad, RequestRow};

use crate::bench::Bench;

/// How long a server may take to come.
const COMES_WITHIN: Pause = Pause::from_secs(30);
/// The service of the tests, in Python.
pub const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/explain/server.py");

/// A place where recordings are made with these programs; `None`, said loudly, where that cannot be.
pub fn place(test: &str, programs: &[&str]) -> Option<Bench> {
    let bench = Bench::enforcing(test)?;
    if let Err(cause) = tailbound_linux::tracefs::TraceFs::open() {
        eprintln!("SKIP {test}: needs tracefs: {cause}");
        return None;
    }
    let runs = |program: &&&str| {
        let mut command = Command::new("sh");
        command.args(["-c", "command -v \"$0\"", program]);
        let status = command.stdout(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if let Some(absent) = programs.iter().find(|program| !runs(program)) {
        eprintln!("SKIP {test}: needs {absent}");
        return None;
    }
    Some(bench)
}

/// Starts the server, which ends with its test, however that ends.
pub fn start(command: &mut Command) -> Child {
    die_with_parent(command).spawn().unwrap()
}

/// A connection to the server, which is a client of each task.
pub struct Client {
    number: u32,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// The client with this number, once the server is there.
    pub fn connect(number: u32, socket: &Path) -> Self {
        let give_up = Stopwatch::now() + COMES_WITHIN;
        loop {
            match UnixStream::connect(socket) {
                Ok(stream) => {
                    let stream = BufReader::new(stream);
                    return Self { number, stream };
                }
                Err(error) => assert!(
                    Stopwatch::now() < give_up,
                    "the server does not come: {error}"
                ),
            }
            sleep(Pause::from_millis(20));
        }
    }

    pub fn send(&mut self, line: &str) {
        self.stream.get_mut().write_all(line.as_bytes()).unwrap();
    }

    pub fn reply(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim().to_string()
    }

    /// Reads a page that comes in chunks to its end.
    pub fn page(&mut self) {
        let mut page = Vec::new();
        while !page.ends_with(b"\r\n0\r\n\r\n") {
            let bytes = self.stream.fill_buf().unwrap();
            assert!(!bytes.is_empty(), "the server closed the connection");
            let count = bytes.len();
            page.extend_from_slice(bytes);
            self.stream.consume(count);
        }
    }
}

/// The requests so far, as a load generator would have them.
#[derive(Default)]
pub struct Requests(Vec<RequestRow>);

impl Requests {
    /// Sends a line, does something meanwhile, and waits for the reply.
    pub fn ask(&mut self, task: u32, client: &mut Client, line: &str, meanwhile: impl FnOnce()) {
        self.exchange(task, client, line, |client| {
            meanwhile();
            client.reply();
        });
    }

    /// Sends a line, and has the reply read.
    pub fn exchange(
        &mut self,
        task: u32,
        client: &mut Client,
        line: &str,
        read: impl FnOnce(&mut Client),
    ) {
        let sent = Monotonic.now();
        client.send(line);
        read(client);
        self.0.push(RequestRow {
            task,
            client: client.number,
            intended: sent,
            taken_up: sent,
            sent: Some(sent),
            replied: Monotonic.now(),
            answered: true,
            warm_up: false,
        });
    }
}

/// A recording of the test's one reservation.
pub struct RecordedScene {
    recorder: EventRecorder,
    sampler: SupplySampler,
    path: PathBuf,
    domain: String,
}

impl RecordedScene {
    /// Begins. The thread that asks is on time from here on, whatever else runs on this host; it sleeps nearly always.
    pub fn begin(bench: &Bench) -> Self {
        let status = bench.client().unwrap().status().unwrap();
        let request = status.reservations[0].enforced.request();
        let domain = recorded_domain(&request.domain, Some(&request.target), Some(&request));
        let path = bench.path().join("causes.trace");
        let name = domain.name.clone();
        let options = RecorderOptions {
            started_at: String::new(),
            host: Default::default(),
            cpus: vec![0, 1],
            call_pids: call_processes(std::slice::from_ref(&domain)),
            domains: vec![domain],
            own_cpu: Some(1),
            buffer_kib: 16384,
            looks_apart: Some(LOOK_DISTANCE),
            locks: RecordedLocks::Nothing,
        };
        let sampler = SupplySampler::start(&[Cpu(0), Cpu(1)].into()).unwrap();
        let recorder = EventRecorder::start(options, File::create(&path).unwrap()).unwrap();
        make_current_thread_fifo(50).unwrap();
        pin_current_thread(1).unwrap();
        Self {
            recorder,
            sampler,
            path,
            domain: name,
        }
    }

    /// Ends: the explanation of each task, in their order. Every request was followed.
    pub fn explain(
        self,
        tasks: &[&str],
        clients: &[Client],
        requests: &Requests,
    ) -> Vec<Explanation> {
        self.recorder.note_sockets(&BTreeSet::new()).unwrap();
        for trace in self.sampler.finish().unwrap() {
            let delays = sampler_delays(&trace);
            self.recorder.note_delays(trace.cpu.0, &delays).unwrap();
        }
        let connections = clients.iter().flat_map(|client| {
            let end = unix_end(client.stream.get_ref()).unwrap();
            (0..tasks.len() as u32).map(move |task| RecordedConnection {
                task,
                client: client.number,
                end: end.clone(),
            })
        });
        let load = RecordedLoad {
            service: "store".into(),
            domain: self.domain.clone(),
            tasks: tasks.iter().map(|name| name.to_string()).collect(),
            connections: connections.collect(),
            generator: Some(own_thread()),
            requests: requests.0.len() as u64,
            ..RecordedLoad::default()
        };
        self.recorder.note_load(&load, &requests.0).unwrap();
        let end = self.recorder.stop(Vec::new()).unwrap();
        assert_eq!(end.lost + end.dropped, 0, "events were lost");
        let recording = KernelRecording::open(File::open(&self.path).unwrap()).unwrap();
        let all = explain(&recording, &ExplainOptions::default()).unwrap();
        let of_task = |task: &&str| {
            let subject = match tasks.len() {
                1 => "store".to_string(),
                _ => format!("store.{task}"),
            };
            let explanation = all.iter().find(|one| one.subject == subject).unwrap();
            assert_eq!(explanation.untold, 0, "{task}: every request is followed");
            explanation.clone()
        };
        tasks.iter().map(of_task).collect()
    }
}

/// The share of a cause in what a request's latency was above its own execution, stalls of the host left aside; the
/// best of the kept requests.
pub fn share(explanation: &Explanation, cause: LatencyCause) -> f64 {
    let shares = explanation.slowest.iter().map(|request| {
        let of = |cause: LatencyCause| -> f64 {
            let stretches = request.course.iter().filter(|one| one.cause == cause);
            stretches.map(|one| one.length.as_secs_f64()).sum()
        };
        let added = request.latency.as_secs_f64()
            - of(LatencyCause::Execution)
            - of(LatencyCause::HostStall);
        of(cause) / added
    });
    shares.fold(0.0, f64::max)
}
