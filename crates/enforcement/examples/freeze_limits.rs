//! What this host lets anybody reach who throttles with `cgroup.freeze`: the bare minimum of
//! `ds-freeze`, without a manager. `ds_freeze_accuracy` has to be read beside it.
//!
//! ```text
//! cargo run --release -p tailbound-enforcement --example freeze_limits -- [--json] [--seconds N] [--tasks N]
//! ```
//!
//! A thread at SCHED_FIFO 98 sleeps to the begin of each period, thaws a busy domain, sleeps until
//! its budget would be used up, freezes it, and reads its CPU time once: two wake-ups, two writes
//! and one reading, which no server of budgets can do without. An ordinary busy program runs beside
//! the domain. With `--tasks` the domain has so many busy threads: the kernel wakes each of them to stop it,
//! at the domain's priority, and `stop` is the CPU time that the domain takes for that after its budget; `wait`
//! is how long the ordinary program could not run, budget included.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../tests/ds_freeze_domain/mod.rs"]
#[allow(dead_code)] // Here nobody serves the domains.
mod ds_freeze_domain;

use std::fs::File;
use std::os::unix::fs::FileExt;

use ds_freeze_domain::{Load, TestDomain, be_load_if_told, test_cpu};
use serde::Serialize;
use tailbound_linux::clock::{Monotonic, sleep_until, thread_cpu_time};
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_time::{Clock, Duration, Instant};

const INTERFACES_US: [(u64, u64); 3] = [(400, 1_000), (4_000, 10_000), (30_000, 100_000)];

/// One row; all times in nanoseconds.
#[derive(Debug, Serialize)]
struct Row {
    budget_ns: u64,
    period_ns: u64,
    periods: u64,
    late_p50_ns: u64,
    late_p99_ns: u64,
    freeze_p50_ns: u64,
    freeze_p99_ns: u64,
    thaw_p50_ns: u64,
    read_p50_ns: u64,
    /// CPU time of the domain from the freeze on: what its tasks need to stop.
    stop_p50_ns: u64,
    stop_p99_ns: u64,
    /// Gaps of more than 0.3 ms in which the ordinary program did not run.
    wait_p50_ns: u64,
    wait_p90_ns: u64,
    wait_p99_ns: u64,
    /// CPU time per period, and as a share of a CPU.
    cost_per_period_ns: u64,
    overhead: f64,
}

fn main() {
    be_load_if_told();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = arguments
        .iter()
        .position(|word| word == "--seconds")
        .map_or(2.0, |place| {
            let value = arguments.get(place + 1).map(|text| text.parse());
            value
                .and_then(Result::ok)
                .expect("--seconds takes a number")
        });
    let tasks = arguments
        .iter()
        .position(|word| word == "--tasks")
        .map_or(1, |place| {
            let value = arguments.get(place + 1).map(|text| text.parse());
            value.and_then(Result::ok).expect("--tasks takes a number")
        });
    let rows: Vec<Row> = INTERFACES_US
        .iter()
        .map(|(budget, period)| {
            let (budget, period) = (
                Duration::from_micros(*budget),
                Duration::from_micros(*period),
            );
            std::thread::spawn(move || measure(budget, period, seconds, tasks))
                .join()
                .expect("root, and a writable cgroup v2")
        })
        .collect();
    if arguments.iter().any(|word| word == "--json") {
        let text = serde_json::to_string_pretty(&rows).expect("rows are plain");
        println!("{text}");
    } else {
        print_table(&rows);
    }
}

fn measure(budget: Duration, period: Duration, seconds: f64, tasks: u32) -> Row {
    let mut domain = TestDomain::make("limits").expect("a writable cgroup v2");
    let mut neighbour = TestDomain::make("beside").expect("a writable cgroup v2");
    let length = Duration::from_secs_f64_nearest(seconds);
    // Many threads take a while to start.
    let warm_up = Duration::from_millis(200) + Duration::from_micros(500) * u64::from(tasks);
    let load = Load::busy(
        test_cpu(),
        tasks,
        length + warm_up + Duration::from_millis(1_300),
    );
    domain.start(load, &[]);
    let mut hog = load;
    hog.threads = 1;
    hog.fifo_priority = 0;
    neighbour.start(hog, &[]);
    pin_current_thread(test_cpu().0).expect("a CPU of ours");
    make_current_thread_fifo(98).expect("root");

    let begin = Monotonic.now() + warm_up;
    sleep_until(begin).expect("sleep");
    let own_before = thread_cpu_time();
    let periods = length / period;
    let mut seen = Seen::default();
    seen.serve(&domain, begin, budget, period, periods);
    let own = thread_cpu_time().saturating_sub(own_before);
    domain.finish();
    let served = begin + period..=begin + length;
    let waits = neighbour.finish_with_waits();
    let waits = waits.into_iter().filter(|(end, _)| served.contains(end));
    let mut waits: Vec<Duration> = waits.map(|(_, wait)| wait).collect();
    Row {
        budget_ns: budget.as_nanos(),
        period_ns: period.as_nanos(),
        periods,
        late_p50_ns: quantile_ns(&mut seen.late, 0.5),
        late_p99_ns: quantile_ns(&mut seen.late, 0.99),
        freeze_p50_ns: quantile_ns(&mut seen.frozen, 0.5),
        freeze_p99_ns: quantile_ns(&mut seen.frozen, 0.99),
        thaw_p50_ns: quantile_ns(&mut seen.thawed, 0.5),
        read_p50_ns: quantile_ns(&mut seen.read, 0.5),
        stop_p50_ns: quantile_ns(&mut seen.stopped, 0.5),
        stop_p99_ns: quantile_ns(&mut seen.stopped, 0.99),
        wait_p50_ns: quantile_ns(&mut waits, 0.5),
        wait_p90_ns: quantile_ns(&mut waits, 0.9),
        wait_p99_ns: quantile_ns(&mut waits, 0.99),
        cost_per_period_ns: (own / periods.max(1)).as_nanos(),
        overhead: own.as_secs_f64() / (period * periods).as_secs_f64(),
    }
}

/// What each period took.
#[derive(Default)]
struct Seen {
    late: Vec<Duration>,
    frozen: Vec<Duration>,
    thawed: Vec<Duration>,
    read: Vec<Duration>,
    /// CPU time of the group after it was told to stop.
    stopped: Vec<Duration>,
}

impl Seen {
    /// Thaws and freezes the domain as its manager would; it is thawed in the end.
    fn serve(
        &mut self,
        domain: &TestDomain,
        begin: Instant,
        budget: Duration,
        period: Duration,
        periods: u64,
    ) {
        let open = |name: &str, write: bool| {
            let path = domain.cgroup.join(name);
            let mut options = File::options();
            options.read(!write).write(write);
            options.open(path).expect(name)
        };
        let (freeze, usage) = (open("cgroup.freeze", true), open("cpu.stat", false));
        let timed = |act: &dyn Fn()| {
            let before = Monotonic.now();
            act();
            Monotonic.now().saturating_since(before)
        };
        let mut scratch = [0; 512];
        let mut used_at_stop = None;
        for index in 0..periods {
            let start = begin + period * index;
            sleep_until(start).expect("sleep");
            self.late.push(Monotonic.now().saturating_since(start));
            if let Some(before) = used_at_stop {
                self.stopped.push(domain.used().saturating_sub(before));
            }
            self.thawed.push(timed(&|| {
                freeze.write_at(b"0", 0).expect("thaw");
            }));
            sleep_until(start + budget).expect("sleep");
            let late = Monotonic.now().saturating_since(start + budget);
            self.late.push(late);
            used_at_stop = Some(domain.used());
            self.frozen.push(timed(&|| {
                freeze.write_at(b"1", 0).expect("freeze");
            }));
            let before = Monotonic.now();
            usage.read_at(&mut scratch, 0).expect("read");
            self.read.push(Monotonic.now().saturating_since(before));
        }
        freeze.write_at(b"0", 0).expect("thaw");
    }
}

fn quantile_ns(values: &mut [Duration], share: f64) -> u64 {
    values.sort_unstable();
    values[((values.len() - 1) as f64 * share) as usize].as_nanos()
}

fn print_table(rows: &[Row]) {
    println!(
        "{:>12} | {:>7} {:>7} | {:>7} {:>7} {:>7} {:>7} | {:>7} {:>7} | {:>8} {:>8} {:>8} | {:>9} {:>7}",
        "B/P",
        "late50",
        "late99",
        "freeze",
        "frz99",
        "thaw",
        "read",
        "stop",
        "stop99",
        "wait50",
        "wait90",
        "wait99",
        "cost/P",
        "cost"
    );
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    for row in rows {
        let interface = format!(
            "{}/{}",
            Duration::from_nanos(row.budget_ns),
            Duration::from_nanos(row.period_ns)
        );
        println!(
            "{interface:>12} | {:>7} {:>7} | {:>7} {:>7} {:>7} {:>7} | {:>7} {:>7} | {:>8} {:>8} {:>8} | {:>9} {:>6.2}%",
            us(row.late_p50_ns),
            us(row.late_p99_ns),
            us(row.freeze_p50_ns),
            us(row.freeze_p99_ns),
            us(row.thaw_p50_ns),
            us(row.read_p50_ns),
            us(row.stop_p50_ns),
            us(row.stop_p99_ns),
            us(row.wait_p50_ns),
            us(row.wait_p90_ns),
            us(row.wait_p99_ns),
            us(row.cost_per_period_ns),
            row.overhead * 100.0
        );
    }
    println!("times in microseconds; cost: the share of its CPU that the thread took");
}
