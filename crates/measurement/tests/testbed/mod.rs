//! Services for tests: in a temporary folder, gone with the test.

pub mod http2_server;
pub mod nginx;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tailbound_linux::process::{die_with_parent, send_signal};
use tailbound_measurement::synthetic::{ServeOptions, serve};
use tailbound_measurement::{
    Calibration, CalibrationPlan, Endpoint, LoadPlan, await_service, calibration_round,
};
use tailbound_model::{
    Arrivals, ExecutionTime, InputFiles, Protocol, Request, Scheduling, Service, Task,
};
use tailbound_simulator::workload::releases;
use tailbound_time::Duration;

/// For measurements that end by themselves, however often the machine stands still meanwhile.
pub const NO_HURRY: Duration = Duration::from_secs(60);
pub static NEVER: &AtomicBool = &NOT_SET;
static NOT_SET: AtomicBool = AtomicBool::new(false);

pub fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

/// A calibration of one round.
pub fn calibrated(plan: &CalibrationPlan) -> Calibration {
    let round = calibration_round(plan, NEVER).unwrap();
    Calibration::of_rounds(plan, &[round])
}

pub fn periodic(period: Duration, offset: Duration) -> Arrivals {
    Arrivals::Periodic { period, offset }
}

pub fn task(arrivals: Arrivals, execution: Duration) -> Task {
    Task::of(arrivals, ExecutionTime::Constant { value: execution })
}

pub fn command(words: &[&str]) -> Request {
    repeated(words, 1)
}

pub fn repeated(words: &[&str], repeat: u32) -> Request {
    Request::Redis {
        command: words.iter().map(ToString::to_string).collect(),
        repeat,
    }
}

pub fn service(protocol: Protocol, tasks: &[(&str, Task)]) -> Service {
    Service {
        protocol,
        ..Service::of("d", "", tasks.iter().cloned())
    }
}

/// A plan over `warm_up` and `duration`, with its releases.
pub fn plan(
    service: &Service,
    endpoint: &Endpoint,
    warm_up: Duration,
    duration: Duration,
) -> LoadPlan {
    let mut plan = LoadPlan::new("s", service.clone(), endpoint.clone());
    let inputs = InputFiles::default();
    plan.releases = releases(service, warm_up + duration, 1, &inputs).unwrap();
    plan.warm_up = warm_up;
    plan.duration = duration;
    // Tests run beside others on few CPUs: no real-time priority, little spinning.
    plan.fifo_priority = None;
    plan.spin = us(20);
    plan
}

/// A synthetic service in a thread of the test.
pub struct SyntheticService {
    pub endpoint: Endpoint,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SyntheticService {
    pub fn start(endpoint: Endpoint, scheduling: Scheduling) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let options = ServeOptions::new(endpoint.clone(), scheduling);
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || serve(&options, &seen).unwrap());
        await_service(&endpoint, Protocol::Synthetic, ms(10_000), NEVER).unwrap();
        Self {
            endpoint,
            stop,
            thread: Some(thread),
        }
    }

    pub fn start_in(folder: &Path, scheduling: Scheduling) -> Self {
        Self::start(Endpoint::Unix(folder.join("s")), scheduling)
    }

    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for SyntheticService {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A private Redis on a Unix socket.
pub struct RedisServer {
    pub endpoint: Endpoint,
    pub child: Child,
}

impl RedisServer {
    /// `None`, with a word about it, where redis-server is not installed.
    pub fn start(test: &str, folder: &Path) -> Option<Self> {
        let socket = folder.join("redis");
        let mut command = Command::new("redis-server");
        command
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .args(["--daemonize", "no", "--loglevel", "warning"])
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = match die_with_parent(&mut command).spawn() {
            Ok(child) => child,
            Err(error) => {
                eprintln!("SKIP {test}: needs redis-server ({error})");
                return None;
            }
        };
        let server = Self {
            endpoint: Endpoint::Unix(socket),
            child,
        };
        await_service(&server.endpoint, Protocol::Redis, ms(20_000), NEVER).unwrap();
        Some(server)
    }

    pub fn kill(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

const SIGSTOP: i32 = 19;

/// A process that is stopped: it uses no CPU time.
pub struct IdleProcess(pub Child);

impl IdleProcess {
    pub fn start() -> Self {
        let mut command = Command::new("sleep");
        let child = die_with_parent(command.arg("60")).spawn().unwrap();
        // Until it sleeps it starts, which takes CPU time; what is stopped takes none.
        send_signal(child.id(), SIGSTOP).unwrap();
        let stat = format!("/proc/{}/stat", child.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Self(child)
    }
}

impl Drop for IdleProcess {
    fn drop(&mut self) {
        let _gone_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}
