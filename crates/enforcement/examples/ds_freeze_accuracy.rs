//! How exactly `ds-freeze` gives and takes budgets on this host, and what that costs.
//!
//! ```text
//! cargo run --release -p tailbound-enforcement --example ds_freeze_accuracy -- [--json]
//!     [--seconds N] [--detection automatic|alarm|polling] [--lead learnt|none] [--only B/P] [--load NAME]
//! ```
//!
//! An ordinary busy program runs beside the domain on the same CPU. Prints a table on stdout (or JSON), one row per interface, load and way of detection. Periods
//! during which a planned wake-up of the manager came more than 1 ms late were held up by the
//! host; they are counted in a column of their own and left out of overrun and lateness.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../tests/ds_freeze_domain/mod.rs"]
mod ds_freeze_domain;

use ds_freeze_domain::{Load, TestDomain, be_load_if_told, test_cpu};
use serde::Serialize;
use tailbound_enforcement::ds_freeze::{
    ClosedPeriod, CpuManager, Detection, LedgerSnapshot, ManagerOptions, StopLead,
};
use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_time::{Clock, Duration};

const INTERFACES_US: [(u64, u64); 4] = [
    (400, 1_000),
    (4_000, 10_000),
    (40_000, 100_000),
    (2_000, 10_000),
];
/// Name, programs, threads of each.
const LOADS: [(&str, u32, u32); 3] = [
    ("1 thread", 1, 1),
    ("64 threads", 1, 64),
    ("8 processes", 8, 1),
];

/// One row; all times in nanoseconds.
#[derive(Debug, Serialize)]
struct Row {
    budget_ns: u64,
    period_ns: u64,
    load: &'static str,
    detection: &'static str,
    lead: &'static str,
    periods: u64,
    stalled_periods: u64,
    skipped_periods: u64,
    burst_sd_ns: Option<f64>,
    used_sd_ns: f64,
    overrun_p50_ns: u64,
    overrun_p99_ns: u64,
    overrun_max_ns: u64,
    overrun_max_with_stalls_ns: u64,
    budget_error: f64,
    overhead: f64,
    wake_ups_per_period: f64,
    lateness_p50_ns: u64,
    lateness_p99_ns: u64,
    failures: u64,
    slow_switches: u64,
    longest_switch_ns: u64,
}

struct Wishes {
    json: bool,
    seconds: f64,
    detection: Option<Detection>,
    lead: StopLead,
    only: Option<String>,
    load: Option<String>,
}

fn wishes() -> Wishes {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let place = arguments.iter().position(|a| a == name)?;
        arguments.get(place + 1).cloned()
    };
    Wishes {
        json: arguments.iter().any(|a| a == "--json"),
        seconds: value("--seconds").map_or(2.0, |s| s.parse().expect("--seconds takes a number")),
        detection: value("--detection").map(|d| match d.as_str() {
            "automatic" => Detection::Automatic,
            "alarm" => Detection::Alarm,
            "polling" => Detection::Polling,
            other => panic!("--detection takes automatic, alarm or polling, not {other}"),
        }),
        lead: match value("--lead").as_deref() {
            None | Some("learnt") => StopLead::Learnt,
            Some("none") => StopLead::Fixed(Duration::ZERO),
            Some(other) => panic!("--lead takes learnt or none, not {other}"),
        },
        only: value("--only"),
        load: value("--load"),
    }
}

fn main() {
    be_load_if_told();
    let wishes = wishes();
    let ways: &[Detection] = match wishes.detection {
        Some(Detection::Polling) => &[Detection::Polling],
        Some(Detection::Alarm) => &[Detection::Alarm],
        Some(Detection::Automatic) => &[Detection::Automatic],
        None => &[Detection::Automatic, Detection::Alarm, Detection::Polling],
    };
    let mut rows = Vec::new();
    for (budget, period) in INTERFACES_US {
        let (budget, period) = (Duration::from_micros(budget), Duration::from_micros(period));
        if wishes
            .only
            .as_ref()
            .is_some_and(|only| *only != format!("{budget}/{period}"))
        {
            continue;
        }
        for load in LOADS {
            if wishes.load.as_ref().is_some_and(|only| only != load.0) {
                continue;
            }
            for way in ways {
                eprintln!("{budget}/{period}, {}, {way:?} ...", load.0);
                rows.push(measure(budget, period, load, *way, &wishes));
            }
        }
    }
    if wishes.json {
        let text = serde_json::to_string_pretty(&rows).expect("rows are plain");
        println!("{text}");
    } else {
        print_table(&rows);
    }
}

fn measure(
    budget: Duration,
    period: Duration,
    (name, programs, threads): (&'static str, u32, u32),
    detection: Detection,
    wishes: &Wishes,
) -> Row {
    let mut domain = TestDomain::make("accuracy").expect("a writable cgroup v2");
    let options = ManagerOptions {
        detection,
        stop_lead: wishes.lead,
        ..ManagerOptions::default()
    };
    let length = Duration::from_secs_f64_nearest(wishes.seconds).max(period);
    let load = Load {
        gap: period.saturating_sub(budget).scaled_down(1, 2),
        ..Load::busy(test_cpu(), threads, length + Duration::from_millis(2_500))
    };
    for _ in 0..programs {
        domain.start(load, &[]);
    }
    // A neighbour that wants all that the domain leaves.
    let mut neighbour = TestDomain::make("neighbour").expect("a writable cgroup v2");
    let mut hog = Load::busy(test_cpu(), 1, load.length);
    hog.fifo_priority = 0;
    neighbour.start(hog, &[]);
    // Let the programs start before their budget begins to count.
    await_busy(&domain);
    let served = domain.served("measured", budget, period);
    let manager = CpuManager::start(test_cpu(), &[served], options).expect("root");
    pause(length);
    let ledger = manager.ledger("measured").expect("served");
    let cost = manager.summary();
    let overhead = cost.own_time.as_secs_f64() / cost.running_for.as_secs_f64();
    manager.stop().expect("stop");
    let bursts = domain.finish();
    row(&ledger, &bursts, overhead, |row| Row {
        budget_ns: budget.as_nanos(),
        period_ns: period.as_nanos(),
        load: name,
        detection: match detection {
            Detection::Polling => "polling",
            Detection::Alarm => "alarm",
            Detection::Automatic => "automatic",
        },
        lead: if wishes.lead == StopLead::Learnt {
            "learnt"
        } else {
            "none"
        },
        ..row
    })
}

fn row(
    ledger: &LedgerSnapshot,
    bursts: &[Vec<u64>],
    overhead: f64,
    named: impl FnOnce(Row) -> Row,
) -> Row {
    let ns = |d: Option<Duration>| d.unwrap_or_default().as_nanos();
    let unstalled = |p: &&ClosedPeriod| p.skipped == 0 && p.lateness() < Duration::from_millis(1);
    let calm: Vec<&ClosedPeriod> = ledger.latest.iter().skip(5).filter(unstalled).collect();
    let used: Vec<f64> = calm.iter().map(|p| p.used.as_nanos() as f64).collect();
    let overruns = calm.iter().map(|p| p.overrun.as_nanos());
    // The first two bursts and the last are before the manager and after it.
    let bursts: Option<Vec<f64>> = match bursts {
        [one] if one.len() > 6 => Some(one[3..one.len() - 2].iter().map(|b| *b as f64).collect()),
        _ => None,
    };
    named(Row {
        budget_ns: 0,
        period_ns: 0,
        load: "",
        detection: "",
        lead: "",
        periods: ledger.periods,
        stalled_periods: ledger.stalled_periods,
        skipped_periods: ledger.skipped,
        burst_sd_ns: bursts.map(|b| deviation(&b)),
        used_sd_ns: deviation(&used),
        overrun_p50_ns: ns(ledger.overrun.quantile_upper(0.5)),
        overrun_p99_ns: ns(ledger.overrun.quantile_upper(0.99)),
        overrun_max_ns: ns(ledger.overrun.quantile_upper(1.0)).max(overruns.max().unwrap_or(0)),
        overrun_max_with_stalls_ns: ledger.largest_overrun.as_nanos(),
        budget_error: ledger.budget_error().unwrap_or(0.0),
        overhead,
        wake_ups_per_period: ledger.wake_ups as f64 / ledger.periods.max(1) as f64,
        lateness_p50_ns: ns(ledger.lateness.quantile_upper(0.5)),
        lateness_p99_ns: ns(ledger.lateness.quantile_upper(0.99)),
        failures: ledger.failures,
        slow_switches: ledger.slow_switches,
        longest_switch_ns: ledger.longest_switch.as_nanos(),
    })
}

fn deviation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count).sqrt()
}

fn print_table(rows: &[Row]) {
    println!(
        "{:>12} {:>11} {:>8} | {:>9} {:>8} | {:>7} {:>7} {:>8} {:>8} | {:>8} {:>7} {:>6} | {:>7} \
         {:>7} | {:>7} {:>7} {:>5} {:>7}",
        "B/P",
        "load",
        "by",
        "burst sd",
        "used sd",
        "over50",
        "over99",
        "max",
        "w/stall",
        "error",
        "cost",
        "wakes",
        "late50",
        "late99",
        "periods",
        "stalled",
        "skip",
        "switch"
    );
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    for row in rows {
        println!(
            "{:>12} {:>11} {:>8} | {:>9} {:>8} | {:>7} {:>7} {:>8} {:>8} | {:>7.2}% {:>6.2}% \
             {:>6.2} | {:>7} {:>7} | {:>7} {:>7} {:>5} {:>7}",
            format!(
                "{}/{}",
                Duration::from_nanos(row.budget_ns),
                Duration::from_nanos(row.period_ns)
            ),
            row.load,
            row.detection,
            row.burst_sd_ns.map_or("-".into(), |sd| us(sd as u64)),
            us(row.used_sd_ns as u64),
            us(row.overrun_p50_ns),
            us(row.overrun_p99_ns),
            us(row.overrun_max_ns),
            us(row.overrun_max_with_stalls_ns),
            row.budget_error * 100.0,
            row.overhead * 100.0,
            row.wake_ups_per_period,
            us(row.lateness_p50_ns),
            us(row.lateness_p99_ns),
            row.periods,
            row.stalled_periods,
            row.skipped_periods,
            us(row.longest_switch_ns),
        );
    }
    println!(
        "times in microseconds; cost: the manager's share of its CPU; w/stall: with the periods"
    );
    println!("in which a wake-up of the manager came more than 1 ms late (\"stalled\")");
}

/// Waits until the programs of `domain` keep their CPU busy.
fn await_busy(domain: &TestDomain) {
    let look = Duration::from_millis(20);
    for _ in 0..100 {
        let (start, before) = (Monotonic.now(), domain.used());
        pause(look);
        let passed = Monotonic.now().saturating_since(start);
        if domain.used().saturating_sub(before) > passed.scaled_down(8, 10) {
            return;
        }
    }
    panic!("the load did not start within two seconds");
}

fn pause(length: Duration) {
    sleep_until(Monotonic.now() + length).expect("sleep");
}
