//! What the versions of HTTP and TLS cost the load generator: its lateness at given rates, and the most requests a second that it
//! and one worker of nginx come to together, for a small page. Then the same beside h2load, where that is installed: the most
//! requests a second, and the latencies at a steady rate.
//!
//! Usage: `http_versions [SECONDS [SERVICE_CPU GENERATOR_CPU]]`. Needs nginx. Prints two tables to stdout.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../tests/testbed/nginx.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod nginx;

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use nginx::{NginxServer, TestAuthority};
use tailbound_distribution::Distribution;
use tailbound_linux::clock::process_cpu_time;
use tailbound_linux::thread::pin_current_thread;
use tailbound_measurement::{Endpoint, LoadPlan, Measurement, await_service, measure};
use tailbound_model::{
    Arrivals, Cpu, ExecutionTime, HttpVersion, InputFiles, Protocol, Request, Service, ServiceTls,
    Task,
};
use tailbound_simulator::workload::releases;
use tailbound_time::{Duration, Rate};

/// Requests a second of four clients; the last rate is more than can be served.
const RATES: [u32; 4] = [1_000, 5_000, 10_000, 200_000];
/// The clients, and the requests of each that may be under way, where more is asked than can be served.
const CLIENTS: u32 = 4;
const EACH_IN_FLIGHT: u32 = 8;
/// The clients of the steady rate, and the time between two requests of one. (h2load sends at most every 10 ms; of a higher
/// rate it sends several requests at once.)
const STEADY_CLIENTS: u32 = 10;
const STEADY_PERIOD: Duration = Duration::from_millis(10);
static NEVER: AtomicBool = AtomicBool::new(false);

/// One way to speak HTTP.
struct Variant {
    name: &'static str,
    version: HttpVersion,
    tls: bool,
}

const VARIANTS: [Variant; 4] = [
    Variant {
        name: "plain1",
        version: HttpVersion::One,
        tls: false,
    },
    Variant {
        name: "plain2",
        version: HttpVersion::Two,
        tls: false,
    },
    Variant {
        name: "tls1",
        version: HttpVersion::One,
        tls: true,
    },
    Variant {
        name: "tls2",
        version: HttpVersion::Two,
        tls: true,
    },
];

/// Where and how long all measurements run.
struct Bench<'a> {
    folder: &'a Path,
    seconds: u32,
    generator_cpu: Option<u32>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<u32> = std::env::args()
        .skip(1)
        .map(|word| word.parse())
        .collect::<Result<_, _>>()?;
    let folder = tempfile::tempdir()?;
    let bench = Bench {
        folder: folder.path(),
        seconds: arguments.first().copied().unwrap_or(2),
        generator_cpu: arguments.get(2).copied(),
    };
    TestAuthority::make(bench.folder, "authority").certify("shop", 2999);
    std::fs::write(bench.folder.join("page"), "x".repeat(200))?;
    if let Some(cpu) = arguments.get(1) {
        pin_current_thread(*cpu)?;
    }
    let servers = servers(bench.folder);
    let Some(_nginx) = NginxServer::start("http_versions", bench.folder, &servers) else {
        return Ok(());
    };
    bench.alone()?;
    bench.beside_h2load()
}

fn servers(folder: &Path) -> String {
    let root = folder.display();
    let server = |name: &str, options: &str| {
        format!(
            "server {{ listen unix:{root}/{name}{options}; keepalive_requests 100000000;\n\
             ssl_certificate {root}/shop.pem; ssl_certificate_key {root}/shop.key; }}\n"
        )
    };
    [
        server("plain1", ""),
        server("plain2", " http2"),
        server("tls1", " ssl"),
        server("tls2", " ssl http2"),
    ]
    .concat()
}

/// Clients that ask for the page.
fn task(clients: u32, arrivals: Arrivals) -> Task {
    let value = Duration::from_micros(5);
    Task {
        clients,
        request: Some(Request::Http {
            path: "/page".into(),
        }),
        ..Task::of(arrivals, ExecutionTime::Constant { value })
    }
}

fn random_arrivals(rate: u32) -> Task {
    let rate = Rate::per_second(f64::from(rate) / f64::from(CLIENTS)).expect("a rate");
    task(CLIENTS, Arrivals::Poisson { rate })
}

/// The clients of the steady rate, one after the other.
fn steady_arrivals() -> Vec<(String, Task)> {
    let arrivals = |client: u32| Arrivals::Periodic {
        period: STEADY_PERIOD,
        offset: STEADY_PERIOD * u64::from(client) / u64::from(STEADY_CLIENTS),
    };
    (0..STEADY_CLIENTS)
        .map(|client| (format!("page{client}"), task(1, arrivals(client))))
        .collect()
}

fn quantile_us(distribution: &Distribution, probability: f64) -> f64 {
    let interval = distribution.quantile(probability);
    interval.map_or(f64::NAN, |interval| interval.low.as_micros_f64())
}

impl Bench<'_> {
    /// The load generator as it is, at several rates.
    fn alone(&self) -> Result<(), Box<dyn Error>> {
        println!(
            "variant    rate/s  answered/s failed late50 late99 | latency50 latency99 | CPU us/request"
        );
        for rate in RATES {
            for variant in &VARIANTS {
                let before = process_cpu_time();
                let measured = self.measure(variant, [("page", random_arrivals(rate))], true)?;
                let used = process_cpu_time().saturating_sub(before);
                let answered = measured.counts.answered;
                println!(
                    "{:<8} {rate:>8} {:>11.0} {:>6} {:>6.1} {:>6.1} | {:>9.1} {:>9.1} | {:>6.2}",
                    variant.name,
                    answered as f64 / f64::from(self.seconds),
                    measured.failures.values().sum::<u64>(),
                    quantile_us(&measured.lateness, 0.5),
                    quantile_us(&measured.lateness, 0.99),
                    quantile_us(&measured.overall, 0.5),
                    quantile_us(&measured.overall, 0.99),
                    used.as_secs_f64() * 1e6 / answered.max(1) as f64,
                );
            }
        }
        Ok(())
    }

    fn measure<N: Into<String>>(
        &self,
        variant: &Variant,
        tasks: impl IntoIterator<Item = (N, Task)>,
        with_priority: bool,
    ) -> Result<Measurement, Box<dyn Error>> {
        let service = Service {
            protocol: Protocol::Http,
            http_version: variant.version,
            tls: variant.tls.then(|| ServiceTls {
                authority: "authority.pem".into(),
                server_name: Some("shop.test".into()),
                certificate: None,
                key: None,
            }),
            max_in_flight: Some(CLIENTS * EACH_IN_FLIGHT),
            ..Service::of("nginx", format!("unix:{}", variant.name), tasks)
        };
        let endpoint = Endpoint::of_service(&service, self.folder)?;
        await_service(&endpoint, Protocol::Http, Duration::from_secs(10), &NEVER)?;
        let mut plan = LoadPlan::new("nginx", service, endpoint);
        plan.duration = Duration::from_secs(self.seconds.into());
        plan.drain = Duration::from_millis(100);
        plan.cpu = self.generator_cpu.map(Cpu);
        if !with_priority {
            plan.fifo_priority = None;
        }
        plan.releases = releases(&plan.service, plan.duration, 1, &InputFiles::default())?;
        Ok(measure(&plan, &NEVER, &mut |_| {})?)
    }

    /// Both load generators at ordinary priority, one after the other for each variant.
    fn beside_h2load(&self) -> Result<(), Box<dyn Error>> {
        if let Err(error) = Command::new("h2load").arg("--version").output() {
            eprintln!("SKIP the comparison: needs h2load ({error})");
            return Ok(());
        }
        println!("\nvariant  tool       answered/s | at 1000/s: latency50 latency90 latency99");
        let most = RATES.iter().copied().max().unwrap_or_default();
        for variant in &VARIANTS {
            let full = self.measure(variant, [("page", random_arrivals(most))], false)?;
            let steady = self.measure(variant, steady_arrivals(), false)?.overall;
            let ours = [0.5, 0.9, 0.99].map(|probability| quantile_us(&steady, probability));
            let rate = full.counts.answered as f64 / f64::from(self.seconds);
            println!("{}", comparison_row(variant, "tailbound", rate, ours));
            let (rate, theirs) = self.h2load(variant)?;
            println!("{}", comparison_row(variant, "h2load", rate, theirs));
        }
        Ok(())
    }

    /// The most requests a second of h2load, and quantiles of its latencies at the steady rate, in microseconds.
    fn h2load(&self, variant: &Variant) -> Result<(f64, [f64; 3]), Box<dyn Error>> {
        let full = self.run_h2load(
            variant,
            &[("-c", CLIENTS), ("-m", EACH_IN_FLIGHT)],
            "saturated",
        )?;
        let rate = full
            .lines()
            .find_map(|line| line.strip_prefix("finished in "))
            .and_then(|rest| rest.split([',', ' ']).find_map(|word| word.parse().ok()))
            .ok_or("h2load prints no rate")?;
        let each = 1_000_000_000 / STEADY_PERIOD.as_nanos() as u32;
        self.run_h2load(
            variant,
            &[("-c", STEADY_CLIENTS), ("--rps", each)],
            "steady",
        )?;
        let log = std::fs::read_to_string(self.folder.join("steady"))?;
        let third = |line: &str| line.split('\t').nth(2).and_then(|word| word.parse().ok());
        let mut latencies: Vec<u32> = log.lines().filter_map(third).collect();
        latencies.sort_unstable();
        let quantile = |probability: f64| {
            let place = (latencies.len() as f64 * probability) as usize;
            latencies.get(place).map_or(f64::NAN, |us| f64::from(*us))
        };
        Ok((rate, [0.5, 0.9, 0.99].map(quantile)))
    }

    /// Runs h2load with the requests in the file `log`; returns what it prints.
    fn run_h2load(
        &self,
        variant: &Variant,
        options: &[(&str, u32)],
        log: &str,
    ) -> Result<String, Box<dyn Error>> {
        let mut command = match self.generator_cpu {
            None => Command::new("h2load"),
            Some(cpu) => {
                let mut command = Command::new("taskset");
                command.args(["-c", &cpu.to_string(), "h2load"]);
                command
            }
        };
        let log = self.folder.join(log);
        if log.exists() {
            std::fs::remove_file(&log)?;
        }
        if variant.version == HttpVersion::One {
            command.arg("--h1");
        }
        for (option, value) in options {
            command.args([*option, &value.to_string()]);
        }
        let scheme = if variant.tls { "https" } else { "http" };
        let socket = self.folder.join(variant.name);
        let output = command
            .args(["-t", "1", "-D", &self.seconds.to_string()])
            .arg("-B")
            .arg(format!("unix:{}", socket.display()))
            .arg("--log-file")
            .arg(&log)
            .arg(format!("{scheme}://shop.test/page"))
            .output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("h2load: {}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    }
}

fn comparison_row(variant: &Variant, tool: &str, rate: f64, latencies: [f64; 3]) -> String {
    let [half, most, nearly_all] = latencies;
    format!(
        "{:<8} {tool:<10} {rate:>10.0} | {half:>20.1} {most:>9.1} {nearly_all:>9.1}",
        variant.name
    )
}
