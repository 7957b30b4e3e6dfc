//! How exactly windows of time partitions open and close on this host, and what that costs.
//!
//! ```text
//! cargo run --release -p tailbound-enforcement --example partition_accuracy -- [--json] [--seconds N]
//! ```
//!
//! Two partitions share a CPU, both busy without end. Each row has what the ledgers say (how late windows were opened, and
//! the CPU time used outside of windows) and what the programs saw by the clock: how late in its window one first ran, and
//! how long after the end of a window one still ran. Windows whose manager came more than 1 ms late were held up by the
//! host; they are counted in a column of their own and left out of the others.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../tests/ds_freeze_domain/mod.rs"]
mod ds_freeze_domain;

use ds_freeze_domain::{Load, TestDomain, be_load_if_told, test_cpu};
use serde::Serialize;
use tailbound_enforcement::ds_freeze::{CpuManager, LedgerSnapshot, ManagerOptions, ServedDomain};
use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_model::Window;
use tailbound_time::{Clock, Duration, Instant};

/// Offset and length of a window, in microseconds.
type WindowUs = (u64, u64);

/// The frame, and the windows of the two partitions.
const FRAMES_US: [(u64, WindowUs, WindowUs); 3] = [
    (1_500, (0, 700), (700, 650)),
    (10_000, (0, 4_000), (4_000, 5_000)),
    (100_000, (0, 40_000), (40_000, 50_000)),
];
/// Name, and threads of each partition.
const LOADS: [(&str, u32); 2] = [("1 thread", 1), ("64 threads", 64)];
/// A wake-up later than this was held up by the host.
const STALL: Duration = Duration::from_millis(1);

/// One row, of the second partition, whose window begins where that of the first one ends; times in nanoseconds.
#[derive(Debug, Serialize)]
struct PartitionRow {
    frame_ns: u64,
    load: &'static str,
    windows: u64,
    stalled_windows: u64,
    skipped_windows: u64,
    opened_late_p50_ns: u64,
    opened_late_p99_ns: u64,
    outside_p50_ns: u64,
    outside_p99_ns: u64,
    outside_share: f64,
    first_run_p50_ns: u64,
    first_run_p99_ns: u64,
    ran_on_p50_ns: u64,
    ran_on_p99_ns: u64,
    manager_ns_per_window: u64,
    failures: u64,
}

fn main() {
    be_load_if_told();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = arguments.iter().position(|one| one == "--seconds");
    let seconds = seconds.and_then(|place| arguments.get(place + 1));
    let seconds: f64 = seconds.map_or(4.0, |text| text.parse().expect("--seconds takes a number"));
    let mut rows = Vec::new();
    for frame in FRAMES_US {
        for load in LOADS {
            eprintln!("frame of {} us, {} ...", frame.0, load.0);
            rows.push(measure(frame, load, seconds));
        }
    }
    if arguments.iter().any(|one| one == "--json") {
        let text = serde_json::to_string_pretty(&rows).expect("rows are plain");
        return println!("{text}");
    }
    print_table(&rows);
}

fn print_table(rows: &[PartitionRow]) {
    println!(
        "{:>8} {:10} {:>7} {:>7} {:>15} {:>15} {:>8} {:>15} {:>15} {:>8}",
        "frame",
        "load",
        "windows",
        "stalled",
        "opened late us",
        "outside us",
        "outside",
        "first run us",
        "ran on us",
        "manager"
    );
    let pair = |p50: u64, p99: u64| format!("{:.1} / {:.1}", p50 as f64 / 1e3, p99 as f64 / 1e3);
    for row in rows {
        println!(
            "{:>8} {:10} {:>7} {:>7} {:>15} {:>15} {:>7.3}% {:>15} {:>15} {:>5.1} us",
            Duration::from_nanos(row.frame_ns).to_string(),
            row.load,
            row.windows,
            row.stalled_windows + row.skipped_windows,
            pair(row.opened_late_p50_ns, row.opened_late_p99_ns),
            pair(row.outside_p50_ns, row.outside_p99_ns),
            row.outside_share * 100.0,
            pair(row.first_run_p50_ns, row.first_run_p99_ns),
            pair(row.ran_on_p50_ns, row.ran_on_p99_ns),
            row.manager_ns_per_window as f64 / 1e3
        );
    }
}

fn partition(domain: &TestDomain, name: &str, frame: Duration, window: Window) -> ServedDomain {
    ServedDomain {
        windows: vec![window],
        ..domain.served(name, window.length, frame)
    }
}

fn measure(
    (frame, first, second): (u64, WindowUs, WindowUs),
    (load_name, threads): (&'static str, u32),
    seconds: f64,
) -> PartitionRow {
    let window = |(offset, length): WindowUs| Window {
        offset: Duration::from_micros(offset),
        length: Duration::from_micros(length),
    };
    let frame = Duration::from_micros(frame);
    let windows = [window(first), window(second)];
    let length = Duration::from_secs_f64_nearest(seconds).max(frame * 20);
    let mut domains =
        ["one", "other"].map(|name| TestDomain::make(name).expect("a writable cgroup v2"));
    for domain in &mut domains {
        let load = Load {
            gap: windows[0].length.scaled_down(1, 4),
            ..Load::busy(test_cpu(), threads, length + Duration::from_millis(1_500))
        };
        domain.start(load, &[]);
    }
    let [one, other] = &domains;
    let served = [
        partition(one, "one", frame, windows[0]),
        partition(other, "other", frame, windows[1]),
    ];
    let manager = CpuManager::start(test_cpu(), &served, ManagerOptions::default()).expect("root");
    // Let the programs start.
    pause(Duration::from_millis(800));
    let begun = (Monotonic.now(), manager.summary());
    pause(length.saturating_sub(Duration::from_millis(300)));
    let ledger = manager.ledger("other").expect("served");
    let ended = (Monotonic.now(), manager.summary());
    manager.stop().expect("stop");
    let waits: Vec<_> = domains[1].finish_with_waits();
    let own_time = ended.1.own_time.saturating_sub(begun.1.own_time);
    let frames = ended.0.saturating_since(begun.0) / frame;
    let seen = Seen::of(&waits, windows[1], frame, (begun.0, ended.0));
    row(
        &ledger,
        &seen,
        frame,
        load_name,
        own_time / (2 * frames).max(1),
    )
}

fn pause(length: Duration) {
    sleep_until(Monotonic.now() + length).expect("sleep");
}

/// The windows of a partition as its program saw them by the clock.
struct Seen {
    first_run: Vec<u64>,
    ran_on: Vec<u64>,
}

impl Seen {
    /// Each wait ended when the program ran again, and began when it had run last.
    fn of(
        waits: &[(Instant, Duration)],
        window: Window,
        frame: Duration,
        (from, until): (Instant, Instant),
    ) -> Self {
        let mut seen = Self {
            first_run: Vec::new(),
            ran_on: Vec::new(),
        };
        let frame_ns = frame.as_nanos();
        let (begin, end) = (window.offset.as_nanos(), window.end().as_nanos());
        for (ended, length) in waits.iter().filter(|one| one.0 >= from && one.0 < until) {
            let late = (ended.as_nanos() % frame_ns).checked_sub(begin);
            // What ran in another place of the frame ran there for a stall's sake.
            let late = late.filter(|late| *late < STALL.as_nanos());
            let last = (ended.as_nanos() - length.as_nanos()) % frame_ns;
            let on = (last + frame_ns - end) % frame_ns;
            seen.first_run.extend(late);
            seen.ran_on.push(if on < STALL.as_nanos() { on } else { 0 });
        }
        seen.first_run.sort_unstable();
        seen.ran_on.sort_unstable();
        seen
    }
}

fn quantile(sorted: &[u64], share: f64) -> u64 {
    let place = (sorted.len() as f64 * share) as usize;
    sorted
        .get(place.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0)
}

fn row(
    ledger: &LedgerSnapshot,
    seen: &Seen,
    frame: Duration,
    load: &'static str,
    per_window: Duration,
) -> PartitionRow {
    let ns = |length: Option<Duration>| length.unwrap_or_default().as_nanos();
    let outside: u64 = ledger.latest.iter().map(|one| one.overrun.as_nanos()).sum();
    let used: u64 = ledger.latest.iter().map(|one| one.used.as_nanos()).sum();
    PartitionRow {
        frame_ns: frame.as_nanos(),
        load,
        windows: ledger.periods,
        stalled_windows: ledger.stalled_periods,
        skipped_windows: ledger.skipped,
        opened_late_p50_ns: ns(ledger.lateness.quantile_upper(0.5)),
        opened_late_p99_ns: ns(ledger.lateness.quantile_upper(0.99)),
        outside_p50_ns: ns(ledger.overrun.quantile_upper(0.5)),
        outside_p99_ns: ns(ledger.overrun.quantile_upper(0.99)),
        outside_share: outside as f64 / used.max(1) as f64,
        first_run_p50_ns: quantile(&seen.first_run, 0.5),
        first_run_p99_ns: quantile(&seen.first_run, 0.99),
        ran_on_p50_ns: quantile(&seen.ran_on, 0.5),
        ran_on_p99_ns: quantile(&seen.ran_on, 0.99),
        manager_ns_per_window: per_window.as_nanos(),
        failures: ledger.failures,
    }
}
