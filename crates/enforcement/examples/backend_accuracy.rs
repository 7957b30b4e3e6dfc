//! How exactly each back end gives a budget: one busy process and a hog on one CPU.
//!
//! `cargo run --release -p tailbound-enforcement --example backend_accuracy -- [--cpu N]
//! [--periods N] [--json FILE]`, as root. For each back end at (4, 10) and (40, 100) ms it prints
//! the share that the process got, its error, and how long the bursts were in which it got it.
//!
//! The promise is an error of at most 2 % over 100 periods of 10 ms and more, stalls of the host
//! left out: the run is cut into ten blocks, and the median of their errors is what counts, for a
//! stall of the host spoils the blocks that it falls into and no others.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tailbound_enforcement::backends::ALL;
use tailbound_enforcement::{EnforcementError, Enforcer, ReservationRequest, Target};
use tailbound_linux::HostCapabilities;
use tailbound_linux::clock::{Monotonic, cpu_time_of_process, sleep_until};
use tailbound_linux::spawn::spawn_on;
use tailbound_model::{BackendKind, BackendOptions, BudgetScope, Cpu, Priority, ResourceInterface};
use tailbound_time::{Clock, Duration, Instant};

#[path = "../tests/conformance/spinner.rs"]
mod spinner;

/// The blocks that a run is cut into.
const BLOCKS: u64 = 10;
const SETTINGS_MS: [(u64, u64); 2] = [(4, 10), (40, 100)];

struct Options {
    cpu: u32,
    periods: u64,
    json: Option<String>,
}

struct Measured {
    share: f64,
    error: f64,
    median_block_error: f64,
    bursts: Vec<f64>,
    ledger: Value,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, end, gap] = arguments.as_slice()
        && role == "--spin"
    {
        let end = Instant::from_nanos(end.parse().unwrap());
        let bursts = spinner::spin(end, Duration::from_nanos(gap.parse().unwrap()));
        print!("{}", spinner::to_text(&bursts));
        return;
    }
    let options = options(&arguments);
    let host = HostCapabilities::probe();
    println!(
        "{:10} {:>8} {:>8} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "back end", "budget", "period", "share", "error", "median", "burst ms", "sd", "min", "max"
    );
    let mut rows = Vec::new();
    for (budget, period) in SETTINGS_MS {
        for chosen in ALL {
            let kind = chosen.kind();
            if matches!(kind, BackendKind::Dedicated | BackendKind::None) {
                continue;
            }
            let interface = ResourceInterface {
                budget: Duration::from_millis(budget),
                period: Duration::from_millis(period),
                priority: Priority::HIGHEST,
                cpus: [Cpu(options.cpu)].into(),
                budget_scope: BudgetScope::EachCpu,
                windows: Vec::new(),
                slack: Vec::new(),
            };
            rows.push(row(kind, &interface, &options, &host));
        }
    }
    let result = json!({
        "schema_version": 1,
        "kernel": host.kernel_release,
        "periods": options.periods,
        "rows": rows,
    });
    match &options.json {
        Some(file) => std::fs::write(file, format!("{result:#}\n")).unwrap(),
        None => println!("{result}"),
    }
}

fn options(arguments: &[String]) -> Options {
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let last = HostCapabilities::probe().online_cpus.last().copied();
    Options {
        cpu: value("--cpu").map_or(last.unwrap_or(0), |text| text.parse().unwrap()),
        periods: value("--periods").map_or(100, |text| text.parse().unwrap()),
        json: value("--json"),
    }
}

fn row(
    kind: BackendKind,
    interface: &ResourceInterface,
    options: &Options,
    host: &HostCapabilities,
) -> Value {
    let name = kind.traits().name;
    let (budget, period) = (interface.budget, interface.period);
    print!(
        "{name:10} {:>8} {:>8} ",
        budget.to_string(),
        period.to_string()
    );
    match measure(kind, interface, options, host) {
        Err(error) => {
            println!("{error}");
            json!({ "backend": name, "budget_ns": budget.as_nanos(), "period_ns": period.as_nanos(),
                    "refused": error.to_string() })
        }
        Ok(measured) => {
            let (mean, sd, min, max) = spread(&measured.bursts);
            println!(
                "{:>7.4} {:>6.2}% {:>8.2}% {mean:>9.3} {sd:>9.3} {min:>9.3} {max:>9.3}",
                measured.share,
                measured.error * 100.0,
                measured.median_block_error * 100.0,
            );
            json!({ "backend": name, "budget_ns": budget.as_nanos(), "period_ns": period.as_nanos(),
                    "share": measured.share, "error": measured.error,
                    "median_block_error": measured.median_block_error,
                    "burst_mean_ms": mean, "burst_sd_ms": sd, "burst_min_ms": min,
                    "burst_max_ms": max, "bursts": measured.bursts.len(),
                    "ledger": measured.ledger })
        }
    }
}

fn reservation_of(
    pid: u32,
    interface: &ResourceInterface,
    backend: BackendKind,
) -> ReservationRequest {
    ReservationRequest {
        domain: "accuracy".into(),
        target: Target::Processes(vec![pid]),
        interface: interface.clone(),
        backend,
        options: BackendOptions::default(),
        interference: Default::default(),
    }
}

fn measure(
    kind: BackendKind,
    interface: &ResourceInterface,
    options: &Options,
    host: &HostCapabilities,
) -> Result<Measured, EnforcementError> {
    let period = interface.period;
    let length = period * options.periods;
    let warm_up = period * 10 + Duration::from_millis(200);
    let gap = period.saturating_sub(interface.budget) / 4;
    let end = Monotonic.now() + warm_up + length + Duration::from_millis(500);
    let all = host.online_cpus.clone();
    let hog = spawn_on(&mut spinning(end, gap), &[options.cpu].into()).unwrap();
    let mut hog = Killed(hog);
    let worker = spawn_on(&mut spinning(end, gap), &all).unwrap();
    let mut worker = Killed(worker);
    let pid = worker.0.id();
    let directory = std::env::temp_dir().join(format!("tailbound-{}", std::process::id()));
    let mut enforcer = Enforcer::with_host(host.clone(), directory.clone())?;
    enforcer.apply(&[reservation_of(pid, interface, kind)])?;
    let start = Monotonic.now() + warm_up;
    let used_at = |instant: Instant| {
        sleep_until(instant).unwrap();
        let now = Monotonic.now();
        (now, cpu_time_of_process(pid).unwrap())
    };
    let points: Vec<(Instant, Duration)> = (0..=BLOCKS)
        .map(|block| used_at(start + length * block / BLOCKS))
        .collect();
    let ledger = enforcer
        .status()
        .domains
        .pop()
        .and_then(|status| status.ledger);
    enforcer.revert_all()?;
    let _none_left = std::fs::remove_dir_all(&directory);
    let output = worker.output();
    hog.kill();
    let bandwidth = interface.bandwidth().as_f64();
    let share = |from: (Instant, Duration), to: (Instant, Duration)| {
        (to.1 - from.1).as_secs_f64() / to.0.saturating_since(from.0).as_secs_f64()
    };
    let whole = share(points[0], points[BLOCKS as usize]);
    let mut blocks: Vec<f64> = points
        .windows(2)
        .map(|pair| (share(pair[0], pair[1]) / bandwidth - 1.0).abs())
        .collect();
    blocks.sort_by(f64::total_cmp);
    let bursts = spinner::within(
        &spinner::from_text(&output),
        points[0].0,
        points[BLOCKS as usize].0,
    );
    Ok(Measured {
        share: whole,
        error: whole / bandwidth - 1.0,
        median_block_error: blocks[blocks.len() / 2],
        bursts: bursts
            .iter()
            .map(|b| b.end.saturating_since(b.start).as_millis_f64())
            .collect(),
        ledger: json!(ledger),
    })
}

fn spinning(end: Instant, gap: Duration) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--spin",
            &end.as_nanos().to_string(),
            &gap.as_nanos().to_string(),
        ])
        .stdout(Stdio::piped());
    command
}

/// Mean, standard deviation, least and most.
fn spread(values: &[f64]) -> (f64, f64, f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(0.0, f64::max);
    (mean, variance.sqrt(), min, max)
}

/// A child that does not outlive us, whatever fails.
struct Killed(Child);

impl Killed {
    fn output(&mut self) -> String {
        let stdout = self.0.stdout.take().unwrap();
        let text = std::io::read_to_string(stdout).unwrap();
        self.0.wait().unwrap();
        text
    }

    fn kill(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.kill();
    }
}
