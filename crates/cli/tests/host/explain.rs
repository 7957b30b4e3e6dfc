//! Each cause of latency, provoked alone against a real kernel, is what `explain` says that the added latency was.

mod scene;
mod services;

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration as Pause, Instant as Stopwatch};

use tailbound_linux::process::{die_with_parent, send_signal};
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_trace::explain::LatencyCause;

use scene::{Client, RecordedScene, Requests, SERVER, place, share, start};

/// How long each cause lasts, where the test decides it.
const PROVOKED: Pause = Pause::from_millis(150);
/// Trials of each cause: stalls of the host may spoil one.
const TRIALS: usize = 2;
/// The share of the added latency that has to be under the right name.
const RIGHT: f64 = 0.9;
const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;
/// How long a flood may take to come.
const FLOOD_COMES: Pause = Pause::from_millis(500);
const FLOOD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/explain/flood.sh");

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
    // The slowest of these wait for budget longer than they execute, whatever a slow host adds to the execution.
    for _ in 0..35 {
        requests.ask(0, client, "work 20", || {});
    }
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

#[test]
fn each_cause_alone_has_the_added_latency() {
    let test = "each_cause_alone_has_the_added_latency";
    let Some(bench) = place(test, &["python3"]) else {
        return;
    };
    let socket = bench.path().join("store.sock");
    let words = [
        "run", "-b", "150ms", "-p", "200ms", "--cpus", "0", "--", "python3", SERVER,
    ];
    let mut server = start(bench.tailbound(&words).arg(&socket));
    let mut clients = [Client::connect(0, &socket), Client::connect(1, &socket)];
    clients[0].send("pid 0");
    let pid = clients[0].reply().parse().unwrap();
    let scene = RecordedScene::begin(&bench);
    let mut requests = Requests::default();
    for _ in 0..TRIALS {
        provoke(&mut requests, &mut clients, pid, bench.path());
    }
    let explanations = scene.explain(&CAUSES.map(|(name, _)| name), &clients, &requests);
    drop(clients);
    send_signal(server.id(), 15).unwrap();
    server.wait().unwrap();
    for ((name, cause), explanation) in CAUSES.iter().zip(&explanations) {
        let share = share(explanation, *cause);
        assert!(
            share >= RIGHT,
            "{name}: {share} of the added latency is {cause:?}: {:?}",
            explanation.slowest
        );
    }
    bench.assert_clean("run-");
}
