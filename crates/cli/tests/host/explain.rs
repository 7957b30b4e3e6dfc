//! Each cause of latency, provoked alone against a real kernel, is what `explain` says that the added latency was.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration as Pause, Instant as Stopwatch};

use tailbound_experiment::recorded_run::{call_processes, recorded_domain, sampler_delays};
use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::{die_with_parent, own_thread, send_signal};
use tailbound_linux::sockets::unix_end;
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_measurement::{LOOK_DISTANCE, SupplySampler};
use tailbound_model::Cpu;
use tailbound_recorder::{EventRecorder, RecordedLocks, RecorderOptions};
use tailbound_time::Clock;
use tailbound_trace::explain::{ExplainOptions, Explanation, LatencyCause, explain};
use tailbound_trace::recording::{KernelRecording, RecordedConnection, RecordedLoad, RequestRow};

use crate::bench::Bench;

/// How long each cause lasts, where the test decides it.
const PROVOKED: Pause = Pause::from_millis(150);
/// Trials of each cause: stalls of the host may spoil one.
const TRIALS: usize = 2;
/// The share of the added latency that has to be under the right name.
const RIGHT: f64 = 0.9;
/// How long a server may take to come.
const COMES_WITHIN: Pause = Pause::from_secs(30);
const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;
/// How long a flood may take to come.
const FLOOD_COMES: Pause = Pause::from_millis(500);
const FLOOD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/explain/flood.sh");
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/explain/server.py");

/// The causes, in the order of the load's tasks.
const CAUSES: [(&str, LatencyCause); 7] = [
    ("budget", LatencyCause::BudgetUsedUp),
    ("queueing", LatencyCause::Queued),
    ("preemption", LatencyCause::Preempted),
    ("lock", LatencyCause::Blocked),
    ("sleep", LatencyCause::Blocked),
    ("stop", LatencyCause::Stopped),
    ("interrupts", LatencyCause::Interrupt),
];

/// A connection to the server, which is a client of each task.
struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    fn connect(socket: &Path) -> Self {
        let give_up = Stopwatch::now() + COMES_WITHIN;
        loop {
            match UnixStream::connect(socket) {
                Ok(stream) => {
                    return Self {
                        stream: BufReader::new(stream),
                    };
                }
                Err(error) => assert!(
                    Stopwatch::now() < give_up,
                    "the server does not come: {error}"
                ),
            }
            sleep(Pause::from_millis(20));
        }
    }

    fn send(&mut self, line: &str) {
        self.stream.get_mut().write_all(line.as_bytes()).unwrap();
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim().to_string()
    }
}

/// The requests so far, as a load generator would have them.
#[derive(Default)]
struct Requests(Vec<RequestRow>);

impl Requests {
    /// Sends a line, does something meanwhile, and waits for the reply.
    fn ask(&mut self, task: u32, client: &mut Client, line: &str, meanwhile: impl FnOnce()) {
        let sent = Monotonic.now();
        client.send(line);
        meanwhile();
        client.reply();
        self.0.push(RequestRow {
            task,
            client: 0,
            intended: sent,
            taken_up: sent,
            sent: Some(sent),
            replied: Monotonic.now(),
            answered: true,
            warm_up: false,
        });
    }
}

/// Keeps CPU 0 busy, more urgently than every domain, for as long as the cause lasts, once it is told to.
struct Preemption {
    go: Sender<()>,
    thread: JoinHandle<()>,
}

impl Preemption {
    /// A thread that waits at its priority: an ordinary one would not come to a CPU that the server has.
    fn prepare() -> Self {
        let ((go, begin), (is_ready, ready)) = (channel(), channel());
        let thread = std::thread::spawn(move || {
            make_current_thread_fifo(96).unwrap();
            pin_current_thread(0).unwrap();
            is_ready.send(()).unwrap();
            begin.recv().unwrap();
            let end = Stopwatch::now() + PROVOKED;
            while Stopwatch::now() < end {
                std::hint::spin_loop();
            }
        });
        ready.recv().unwrap();
        Self { go, thread }
    }
}

/// A flood of packets that the kernel receives in softirqs of CPU 0, until it is dropped.
struct Flood(Child);

impl Flood {
    fn start() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "sh", FLOOD, "10"]);
        let flood = Self(die_with_parent(&mut command).spawn().unwrap());
        // The flood is in full force a little later; its own time is not measured.
        sleep(FLOOD_COMES);
        flood
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Provokes every cause once.
fn provoke(requests: &mut Requests, clients: &mut [Client; 2], pid: u32, folder: &Path) {
    let [client, other] = clients;
    requests.ask(0, client, "work 350", || {});
    requests.ask(0, client, "work 350", || {});
    sleep(Pause::from_millis(250));
    other.send("work 100");
    sleep(Pause::from_millis(5));
    requests.ask(1, client, "work 1", || {});
    other.reply();
    sleep(Pause::from_millis(250));
    let preemption = Preemption::prepare();
    preemption.go.send(()).unwrap();
    requests.ask(2, client, "work 10", || {});
    preemption.thread.join().unwrap();
    let path = folder.join("locked");
    let file = File::create(&path).unwrap();
    file.lock().unwrap();
    requests.ask(3, client, &format!("lock {}", path.display()), || {
        sleep(PROVOKED);
        file.unlock().unwrap();
    });
    requests.ask(4, client, "sleep 150", || {});
    send_signal(pid, SIGSTOP).unwrap();
    requests.ask(5, client, "work 10", || {
        sleep(PROVOKED);
        send_signal(pid, SIGCONT).unwrap();
    });
    sleep(Pause::from_millis(250));
    let flood = Flood::start();
    requests.ask(6, client, "work 120", || {});
    drop(flood);
}

/// Records while every cause is provoked, `TRIALS` times; the file.
fn record(bench: &Bench, clients: &mut [Client; 2], pid: u32) -> PathBuf {
    let status = bench.client().unwrap().status().unwrap();
    let request = status.reservations[0].enforced.request();
    let domain = recorded_domain(&request.domain, Some(&request.target), Some(&request));
    let path = bench.path().join("causes.trace");
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
    recorder.note_sockets(&BTreeSet::new()).unwrap();
    // Whoever asks is on time, whatever else runs on this host; it sleeps nearly always.
    make_current_thread_fifo(50).unwrap();
    pin_current_thread(1).unwrap();
    let mut requests = Requests::default();
    for _ in 0..TRIALS {
        provoke(&mut requests, clients, pid, bench.path());
    }
    for trace in sampler.finish().unwrap() {
        recorder
            .note_delays(trace.cpu.0, &sampler_delays(&trace))
            .unwrap();
    }
    let end = unix_end(clients[0].stream.get_ref()).unwrap();
    let connection = |task: usize| RecordedConnection {
        task: task as u32,
        client: 0,
        end: end.clone(),
    };
    let load = RecordedLoad {
        service: "store".into(),
        domain: "store".into(),
        tasks: CAUSES.iter().map(|(name, _)| name.to_string()).collect(),
        connections: (0..CAUSES.len()).map(connection).collect(),
        generator: Some(own_thread()),
        requests: requests.0.len() as u64,
        ..RecordedLoad::default()
    };
    recorder.note_load(&load, &requests.0).unwrap();
    let end = recorder.stop(Vec::new()).unwrap();
    assert_eq!(end.lost + end.dropped, 0, "events were lost");
    path
}

/// The share of a cause in what a request's latency was above its own execution, stalls of the host left aside; the
/// best of the kept requests.
fn share(explanation: &Explanation, cause: LatencyCause) -> f64 {
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

#[test]
fn each_cause_alone_has_the_added_latency() {
    let test = "each_cause_alone_has_the_added_latency";
    let Some(bench) = Bench::enforcing(test) else {
        return;
    };
    if let Err(cause) = tailbound_linux::tracefs::TraceFs::open() {
        eprintln!("SKIP {test}: needs tracefs: {cause}");
        return;
    }
    if !Command::new("python3")
        .arg("-V")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
    {
        eprintln!("SKIP {test}: needs python3");
        return;
    }
    let socket = bench.path().join("store.sock");
    let words = [
        "run", "-b", "150ms", "-p", "200ms", "--cpus", "0", "--", "python3", SERVER,
    ];
    let mut server = bench.tailbound(&words).arg(&socket).spawn().unwrap();
    let mut clients = [Client::connect(&socket), Client::connect(&socket)];
    clients[0].send("pid 0");
    let pid = clients[0].reply().parse().unwrap();
    let path = record(&bench, &mut clients, pid);
    drop(clients);
    let recording = KernelRecording::open(File::open(&path).unwrap()).unwrap();
    let explanations = explain(&recording, &ExplainOptions::default()).unwrap();
    send_signal(server.id(), 15).unwrap();
    server.wait().unwrap();
    for (name, cause) in CAUSES {
        let subject = format!("store.{name}");
        let explanation = explanations
            .iter()
            .find(|one| one.subject == subject)
            .unwrap();
        assert_eq!(explanation.untold, 0, "{name}: every request is followed");
        let share = share(explanation, cause);
        assert!(
            share >= RIGHT,
            "{name}: {share} of the added latency is {cause:?}: {:?}",
            explanation.slowest
        );
    }
    bench.assert_clean("run-");
}
