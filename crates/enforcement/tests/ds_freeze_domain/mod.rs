//! A domain to try a manager on: a cgroup of its own, and busy programs in it.
//!
//! The programs are this very program, started again with [`LOAD`] in the environment; they end
//! by themselves, and with the thread that started them.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration as StdDuration;

use tailbound_enforcement::ds_freeze::ServedDomain;
use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::process::die_with_parent;
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_linux::{cgroup, thread};
use tailbound_model::{Cpu, Priority};
use tailbound_time::{Clock, Duration, Instant};

/// Tells a program started again that it is a load, and which.
pub const LOAD: &str = "TAILBOUND_DS_FREEZE_LOAD";

/// What a busy program does.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub cpu: Cpu,
    pub fifo_priority: u8,
    pub threads: u32,
    /// Gaps longer than this end a burst.
    pub gap: Duration,
    /// Wants to run this long, then sleeps so long, on a grid of its own; with no sleep it is
    /// busy for good.
    pub work: Duration,
    pub sleep: Duration,
    /// When it ends at the latest.
    pub length: Duration,
}

impl Load {
    pub fn busy(cpu: Cpu, threads: u32, length: Duration) -> Self {
        Self {
            cpu,
            // Above whatever else may be tried on this machine meanwhile.
            fifo_priority: 96,
            threads,
            gap: Duration::from_micros(300),
            work: length,
            sleep: Duration::ZERO,
            length,
        }
    }

    fn to_text(self) -> String {
        let ns = |d: Duration| d.as_nanos();
        format!(
            "{} {} {} {} {} {} {}",
            self.cpu.0,
            self.fifo_priority,
            self.threads,
            ns(self.gap),
            ns(self.work),
            ns(self.sleep),
            ns(self.length)
        )
    }

    fn from_text(text: &str) -> Self {
        let numbers: Vec<u64> = text
            .split(' ')
            .map(|n| n.parse().expect("number"))
            .collect();
        let duration = |place: usize| Duration::from_nanos(numbers[place]);
        Self {
            cpu: Cpu(numbers[0] as u32),
            fifo_priority: numbers[1] as u8,
            threads: numbers[2] as u32,
            gap: duration(3),
            work: duration(4),
            sleep: duration(5),
            length: duration(6),
        }
    }
}

/// If this program was started as a load: is one, and exits.
pub fn be_load_if_told() {
    let Ok(text) = std::env::var(LOAD) else {
        return;
    };
    let load = Load::from_text(&text);
    // Wait until we are in our cgroup.
    let mut go = [0];
    if std::io::stdin().read_exact(&mut go).is_err() {
        std::process::exit(1);
    }
    let (bursts, waits) = run_load(load);
    for (word, lengths) in [("BURSTS", bursts), ("WAITS", waits)] {
        let text: Vec<String> = lengths.iter().map(u64::to_string).collect();
        println!("{word} {}", text.join(" "));
    }
    std::process::exit(0);
}

/// What the threads of one load see together of when they may run.
struct BurstWatch {
    begun: AtomicU64,
    seen: AtomicU64,
    bursts: Mutex<Vec<u64>>,
    /// The gaps between them: when each ended, and how long it was.
    waits: Mutex<Vec<u64>>,
}

fn run_load(load: Load) -> (Vec<u64>, Vec<u64>) {
    let start = Monotonic.now();
    let watch = Arc::new(BurstWatch {
        begun: AtomicU64::new(start.as_nanos()),
        seen: AtomicU64::new(start.as_nanos()),
        bursts: Mutex::new(Vec::with_capacity(100_000)),
        waits: Mutex::new(Vec::with_capacity(100_000)),
    });
    let together = Arc::new(Barrier::new(load.threads as usize));
    let threads: Vec<_> = (0..load.threads)
        .map(|_| {
            let (watch, together) = (Arc::clone(&watch), Arc::clone(&together));
            std::thread::spawn(move || {
                if load.fifo_priority > 0 {
                    make_current_thread_fifo(load.fifo_priority).expect("FIFO");
                }
                pin_current_thread(load.cpu.0).expect("pin");
                // Nobody burns before all are there, or the first would starve the others.
                together.wait();
                burn(load, start + load.length, &watch);
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("load thread");
    }
    let lengths = |of: &Mutex<Vec<u64>>| of.lock().expect("lengths").clone();
    (lengths(&watch.bursts), lengths(&watch.waits))
}

fn burn(load: Load, end: Instant, watch: &BurstWatch) {
    let mut cycle = Monotonic.now();
    loop {
        let now = Monotonic.now();
        let before = watch.seen.swap(now.as_nanos(), Ordering::Relaxed);
        if now.as_nanos().saturating_sub(before) > load.gap.as_nanos() {
            let begun = watch.begun.swap(now.as_nanos(), Ordering::Relaxed);
            let mut bursts = watch.bursts.lock().expect("bursts");
            if bursts.len() < bursts.capacity() {
                bursts.push(before.saturating_sub(begun));
                let mut waits = watch.waits.lock().expect("waits");
                waits.extend([now.as_nanos(), now.as_nanos() - before]);
            }
        }
        if now >= end {
            return;
        }
        if now >= cycle + load.work && !load.sleep.is_zero() {
            // On its own grid, or being stopped would tie it to the manager's.
            while cycle <= now {
                cycle = cycle + load.work + load.sleep;
            }
            let _slept = sleep_until(cycle);
        }
    }
}

/// A cgroup of its own with busy programs; everything is gone when it is dropped.
pub struct TestDomain {
    pub cgroup: PathBuf,
    children: Vec<Child>,
}

impl TestDomain {
    /// An empty one, or what is lacking.
    pub fn make(name: &str) -> Result<Self, String> {
        let root = cgroup::hierarchies()
            .map_err(|cause| cause.to_string())?
            .into_iter()
            .find(|hierarchy| hierarchy.unified)
            .ok_or("a mounted cgroup v2")?
            .root;
        let cgroup = root.join(format!("tailbound-test-{name}-{}", std::process::id()));
        std::fs::create_dir(&cgroup)
            .map_err(|cause| format!("write access to {root:?}: {cause}"))?;
        Ok(Self {
            cgroup,
            children: Vec::new(),
        })
    }

    /// Starts a busy program in it; `arguments` make this program call [`be_load_if_told`].
    pub fn start(&mut self, load: Load, arguments: &[&str]) {
        let program = std::env::current_exe().expect("own program");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env(LOAD, load.to_text())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = die_with_parent(&mut command).spawn().expect("start a load");
        cgroup::move_process(child.id(), &self.cgroup).expect("move a load");
        let mut stdin = child.stdin.take().expect("stdin");
        self.children.push(child);
        stdin.write_all(b"g").expect("let a load go");
    }

    /// Its reservation.
    pub fn served(&self, name: &str, budget: Duration, period: Duration) -> ServedDomain {
        ServedDomain {
            other_cpus: Vec::new(),
            name: name.into(),
            cgroup: self.cgroup.clone(),
            budget,
            period,
            priority: Priority(50),
            demoted: Vec::new(),
            windows: Vec::new(),
            slack: Vec::new(),
            overrun_tolerance: Duration::from_millis(1),
            first_replenishment: None,
        }
    }

    /// CPU time that it has used, by its cpu.stat.
    #[allow(dead_code)] // `partition_accuracy` has the ledgers.
    pub fn used(&self) -> Duration {
        let text = cgroup::read_control(&self.cgroup.join("cpu.stat")).expect("cpu.stat");
        let number = text
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))
            .expect("usage_usec");
        Duration::from_micros(number.parse().expect("number"))
    }

    /// Waits until its programs end by themselves; the bursts (ns) that each saw.
    #[allow(dead_code)] // `partition_accuracy` asks for waits.
    pub fn finish(&mut self) -> Vec<Vec<u64>> {
        self.lengths("BURSTS")
    }

    /// The same for the waits between bursts: until when a program could not run, and for how long.
    #[allow(dead_code)] // `freeze_limits` and `partition_accuracy` ask.
    pub fn finish_with_waits(&mut self) -> Vec<(Instant, Duration)> {
        let all = self.lengths("WAITS");
        let pairs = all.iter().flat_map(|one| one.chunks_exact(2));
        pairs
            .map(|pair| {
                let length = Duration::from_nanos(pair[1]);
                (Instant::from_nanos(pair[0]), length)
            })
            .collect()
    }

    fn lengths(&mut self, word: &str) -> Vec<Vec<u64>> {
        let mut all = Vec::new();
        for mut child in self.children.drain(..) {
            let output = child.stdout.take().expect("stdout");
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // A test harness may have written on the same line before.
                if let Some((_, numbers)) = line.split_once(word) {
                    all.push(numbers.split_whitespace().flat_map(str::parse).collect());
                }
            }
            let _status = child.wait();
        }
        all
    }
}

impl Drop for TestDomain {
    fn drop(&mut self) {
        let _thawed = cgroup::write_control(&self.cgroup.join("cgroup.freeze"), "0");
        // All, before any is waited for: those of one real-time priority do not let each other run.
        for child in &mut self.children {
            let _killed = child.kill();
        }
        for child in &mut self.children {
            let _status = child.wait();
        }
        for _ in 0..200 {
            if std::fs::remove_dir(&self.cgroup).is_ok() {
                return;
            }
            std::thread::sleep(StdDuration::from_millis(5));
        }
        eprintln!("could not remove {:?}", self.cgroup);
    }
}

/// The CPU to try on: the last one, away from where the system likes to work.
pub fn test_cpu() -> Cpu {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let home = thread::current_cpu().unwrap_or(0);
    // Never outside what this process may use: a cpuset may leave one CPU only.
    match count {
        1 => Cpu(home),
        _ => Cpu(count as u32 - 1),
    }
}
