//! How late the load generator itself is: rates from 1,000 to 20,000 requests a second against the
//! synthetic service, which works 5 us for each.
//!
//! Usage: `loadgen_lateness [--cpu N] [--service-cpu N] [--seconds N] [--spin DURATION] [--json FILE]`
//! Prints a table to stdout, and the same as JSON to the file. Real-time priority is used where it
//! is allowed; nothing else is changed on the host.

use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use tailbound_linux::process::die_with_parent;
use tailbound_linux::thread::pin_current_thread;
use tailbound_measurement::synthetic::{ServeOptions, serve};
use tailbound_measurement::{
    Endpoint, LoadPlan, Measurement, await_service, fingerprint, fingerprint_line, measure,
};
use tailbound_model::{
    Arrivals, Cpu, ExecutionTime, InputFiles, Protocol, Scheduling, Service, Task,
};
use tailbound_simulator::workload::releases;
use tailbound_time::{Duration, Rate};

const RATES: [u32; 5] = [1_000, 2_000, 5_000, 10_000, 20_000];
/// The argument that makes this program the service.
const SERVE: &str = "internal-serve";

struct Options {
    cpu: Option<Cpu>,
    service_cpu: Option<Cpu>,
    seconds: u64,
    spin: Duration,
    json: Option<String>,
}

/// A service in a process of its own, gone with us.
struct ServiceProcess(Child);

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        let _gone_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, path, rest @ ..] = arguments.as_slice()
        && first == SERVE
    {
        if let Some(cpu) = rest.first() {
            pin_current_thread(cpu.parse()?)?;
        }
        let options = ServeOptions::new(Endpoint::Unix(path.into()), Scheduling::Fifo);
        return Ok(serve(&options, &AtomicBool::new(false))?);
    }
    let options = parse(&arguments)?;
    let folder = tempfile::tempdir()?;
    let endpoint = Endpoint::Unix(folder.path().join("service"));
    let _service = spawn_service(&endpoint, options.service_cpu)?;
    let never = AtomicBool::new(false);
    await_service(
        &endpoint,
        Protocol::Synthetic,
        Duration::from_secs(10),
        &never,
    )?;
    let mut rows = Vec::new();
    println!(
        "{:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} | {:>11} {:>11} {:>6}",
        "rate",
        "sent",
        "late50",
        "late99",
        "late999",
        "latemax",
        ">100us",
        "latency50",
        "latency99",
        "failed"
    );
    for rate in RATES {
        let measured = run(&options, &endpoint, rate, &never)?;
        rows.push(row(rate, &measured));
        for remark in &measured.remarks {
            eprintln!("{remark}");
        }
    }
    if let Some(file) = &options.json {
        let document = json!({
            "schema_version": 1,
            "benchmark": "loadgen_lateness",
            "host": fingerprint(),
            "spin_ns": options.spin.as_nanos(),
            "seconds": options.seconds,
            "rows": rows,
        });
        std::fs::write(file, serde_json::to_string_pretty(&document)?)?;
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        cpu: None,
        service_cpu: None,
        seconds: 2,
        spin: Duration::from_micros(80),
        json: None,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        match word.as_str() {
            "--cpu" => options.cpu = Some(Cpu(value.parse()?)),
            "--service-cpu" => options.service_cpu = Some(Cpu(value.parse()?)),
            "--seconds" => options.seconds = value.parse()?,
            "--spin" => options.spin = value.parse()?,
            "--json" => options.json = Some(value.clone()),
            _ => return Err(format!("unknown option {word}").into()),
        }
    }
    Ok(options)
}

fn spawn_service(endpoint: &Endpoint, cpu: Option<Cpu>) -> Result<ServiceProcess, Box<dyn Error>> {
    let Endpoint::Unix(path) = endpoint else {
        return Err("the benchmark's service listens on a Unix socket".into());
    };
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(SERVE).arg(path).stdin(Stdio::null());
    if let Some(cpu) = cpu {
        command.arg(cpu.to_string());
    }
    Ok(ServiceProcess(die_with_parent(&mut command).spawn()?))
}

fn run(
    options: &Options,
    endpoint: &Endpoint,
    rate: u32,
    never: &AtomicBool,
) -> Result<Measurement, Box<dyn Error>> {
    let clients = 4;
    let rate = Rate::per_second(f64::from(rate) / f64::from(clients)).ok_or("no rate")?;
    let task = Task {
        clients,
        ..Task::of(
            Arrivals::Poisson { rate },
            ExecutionTime::Constant {
                value: Duration::from_micros(5),
            },
        )
    };
    let service = Service::of("benchmark", endpoint.to_string(), [("work", task)]);
    let mut plan = LoadPlan::new("synthetic", service, endpoint.clone());
    plan.warm_up = Duration::from_millis(200);
    plan.duration = Duration::from_secs(options.seconds);
    let horizon = plan.warm_up + plan.duration;
    plan.releases = releases(&plan.service, horizon, plan.seed, &InputFiles::default())?;
    plan.cpu = options.cpu;
    plan.spin = options.spin;
    plan.host = Some(fingerprint_line(&fingerprint()));
    Ok(measure(&plan, never, &mut |_| {})?)
}

fn row(rate: u32, measured: &Measurement) -> Value {
    let late = |probability| quantile_us(&measured.lateness, probability);
    let latency = |probability| quantile_us(&measured.overall, probability);
    let (_, within) = measured.lateness.cdf(Duration::from_micros(100));
    println!(
        "{rate:>7}/s {:>8} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>7.3}% | {:>11.1} {:>11.1} {:>6}",
        measured.counts.sent,
        late(0.5),
        late(0.99),
        late(0.999),
        late(1.0),
        (1.0 - within) * 100.0,
        latency(0.5),
        latency(0.99),
        measured.counts.failed(),
    );
    json!({
        "rate_per_s": rate,
        "sent": measured.counts.sent,
        "answered": measured.counts.answered,
        "failed": measured.counts.failed(),
        "lateness_p50_us": late(0.5),
        "lateness_p99_us": late(0.99),
        "lateness_p999_us": late(0.999),
        "lateness_max_us": late(1.0),
        "share_later_than_100us": 1.0 - within,
        "latency_p50_us": latency(0.5),
        "latency_p99_us": latency(0.99),
        "remarks": measured.remarks,
    })
}

fn quantile_us(distribution: &tailbound_distribution::Distribution, probability: f64) -> f64 {
    let interval = distribution.quantile(probability);
    interval.map_or(f64::NAN, |interval| interval.low.as_micros_f64())
}
