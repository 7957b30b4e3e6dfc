//! A report as a real run writes it, for tests and for the example: a Redis-like service with its
//! own CPU, under a reservation beside a hog, and beside the hog without one, all from a small
//! queue simulation with a seed.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tailbound_distribution::{Distribution, Evidence, Provenance, StepCdf};
use tailbound_model::{
    BackendKind, BudgetScope, Cpu, Percentile, Priority, ResourceInterface, Slo,
};
use tailbound_report::{
    Comparison, ConnectionTotals, Labelled, LedgerTotals, MeasuredRun, RawData, RunReport,
    VariantResult, Verdict, Warning, compare, noise_floor,
};
use tailbound_time::{ClockId, Duration};

const SERVICE_NS: f64 = 1_900_000.0;
const GAP_NS: f64 = 5_500_000.0;
const PERIOD_NS: f64 = 10_000_000.0;
const JOBS: usize = 6_000;

/// How the CPU is shared in a variant.
#[derive(Clone, Copy)]
enum Sharing {
    Dedicated,
    Deferrable { budget_ns: f64 },
    Hog,
}

/// Latencies of Poisson arrivals at one server, first come first served.
fn latencies(sharing: Sharing, seed: u64, noise: f64) -> Vec<Duration> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut arrival, mut free) = (0.0_f64, 0.0_f64);
    let (mut period, mut left) = (0.0_f64, 0.0_f64);
    let mut latencies = Vec::with_capacity(JOBS);
    for _ in 0..JOBS {
        arrival -= GAP_NS * (1.0 - random.random::<f64>()).ln();
        let mut now = arrival.max(free);
        let mut work = SERVICE_NS * (1.0 + noise * random.random::<f64>());
        match sharing {
            Sharing::Dedicated => now += work,
            Sharing::Hog => {
                // The hog gets a slice of up to 4 ms for every 3 ms of the service.
                while work > 0.0 {
                    let slice = work.min(3e6 * random.random::<f64>());
                    now += slice + 4e6 * random.random::<f64>();
                    work -= slice;
                }
            }
            Sharing::Deferrable { budget_ns } => {
                while work > 0.0 {
                    let current = (now / PERIOD_NS).floor();
                    if current > period {
                        (period, left) = (current, budget_ns);
                    }
                    if left <= 0.0 {
                        now = (current + 1.0) * PERIOD_NS;
                        continue;
                    }
                    let slice = work
                        .min(left)
                        .min((current + 1.0) * PERIOD_NS - now)
                        .max(1.0);
                    now += slice;
                    left -= slice;
                    work -= slice;
                }
            }
        }
        free = now;
        let overhead = 35_000.0 + 20_000.0 * random.random::<f64>();
        latencies.push(Duration::from_nanos((now - arrival + overhead) as u64));
    }
    latencies
}

fn sampled(method: &str, values: Vec<Duration>) -> Distribution {
    let mut provenance = Provenance::new(Evidence::Sample, "latency of redis", method);
    provenance.clock = Some(ClockId::MonotonicRaw);
    provenance.assumptions = vec!["latencies count from the intended send time".into()];
    Distribution::from_samples(provenance, values)
}

/// A bracket around what the simulation says, as an analysis with bounds gives it.
fn predicted(sharing: Sharing) -> Distribution {
    let exact = sampled("", latencies(sharing, 77, 0.0));
    let scaled = |numerator: u64, denominator: u64| {
        let mut steps: Vec<(Duration, f64)> = Vec::new();
        let curve = exact.pessimistic().unwrap().decimate(400);
        for (at, cumulative) in curve.steps() {
            let at = at.scaled_down(numerator, denominator);
            if steps.last().is_none_or(|(last, _)| *last < at) {
                steps.push((at, *cumulative));
            }
        }
        StepCdf::new(steps).unwrap()
    };
    let mut provenance = Provenance::new(
        Evidence::Bound,
        "response time of redis",
        "exact solution of M/D(DS)/1",
    );
    provenance.assumptions = vec![
        "Poisson arrivals".into(),
        "constant execution time".into(),
        "the reservation holds as described".into(),
    ];
    Distribution::from_bracket(provenance, scaled(96, 100), scaled(106, 100))
}

fn run(sharing: Sharing, seed: u64, ledger: Option<LedgerTotals>) -> MeasuredRun {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0xabcd);
    let late = (0..JOBS)
        .map(|_| Duration::from_nanos(4_000 + (22_000.0 * random.random::<f64>().powi(6)) as u64))
        .collect();
    let method = "measured with open-loop load";
    let all = latencies(sharing, seed, 0.06);
    // One request in three is a SET.
    let of_task = |is_set: bool| {
        let own = all
            .iter()
            .enumerate()
            .filter(|(index, _)| (index % 3 == 0) == is_set);
        sampled(method, own.map(|(_, latency)| *latency).collect())
    };
    MeasuredRun {
        per_task: BTreeMap::from([
            ("get".into(), of_task(false)),
            ("set".into(), of_task(true)),
        ]),
        per_mode: BTreeMap::new(),
        overall: sampled(method, all),
        lateness: sampled("lateness of the load generator", late),
        sent: JOBS as u64,
        answered: JOBS as u64,
        failed: 0,
        connections: Some(ConnectionTotals {
            at_start: 4,
            replacements: 1,
            streams_at_once: Some(3),
        }),
        ledger,
        interrupted: None,
    }
}

fn slo(percentile: f64, latency_ms: u64) -> Slo {
    Slo {
        percentile: Percentile(percentile),
        latency: Duration::from_millis(latency_ms),
        task: None,
    }
}

fn result(
    variant: &str,
    backend: BackendKind,
    sharing: Sharing,
    runs: Vec<MeasuredRun>,
) -> VariantResult {
    let modelled = !matches!(sharing, Sharing::Hog);
    let predictions: Vec<Labelled> = modelled
        .then(|| Labelled {
            label: "mean execution time".into(),
            distribution: predicted(sharing),
        })
        .into_iter()
        .collect();
    let simulated = modelled.then(|| {
        let mut simulated = sampled("discrete-event simulation", latencies(sharing, 5, 0.03));
        simulated.provenance.evidence = Evidence::Estimate;
        simulated
    });
    let overall: Vec<&Distribution> = runs.iter().map(|run| &run.overall).collect();
    let together = tailbound_distribution::merge(&overall).unwrap();
    let prediction = predictions.first().map(|labelled| &labelled.distribution);
    let verdicts = [slo(90.0, 10), slo(99.0, 25)]
        .iter()
        .map(|slo| Verdict::decide(slo, prediction, Some(&together), None))
        .collect();
    let interface = matches!(sharing, Sharing::Deferrable { .. }).then(|| ResourceInterface {
        budget: Duration::from_millis(6),
        period: Duration::from_millis(10),
        priority: Priority::HIGHEST,
        cpus: BTreeSet::from([Cpu(1)]),
        budget_scope: BudgetScope::EachCpu,
        windows: Vec::new(),
        slack: Vec::new(),
    });
    VariantResult {
        variant: variant.into(),
        service: "redis".into(),
        backend,
        interface,
        neighbours: backend != BackendKind::Dedicated,
        predicted: predictions,
        simulated,
        measured: runs,
        intervals: Vec::new(),
        verdicts,
    }
}

/// The service under a reservation, on its own CPU twice, and beside the hog without either.
fn variants() -> [VariantResult; 3] {
    let deferrable = Sharing::Deferrable { budget_ns: 6e6 };
    let ledger = LedgerTotals {
        periods: 3_300,
        depletions: 214,
        used_ns: 11_400_000_000,
        reserved_ns: 19_800_000_000,
        overrun_p50_ns: 18_000,
        overrun_p99_ns: 61_000,
        overrun_max_ns: 187_000,
        held_ns: 0,
        manager_ns: 96_000_000,
        windows: None,
    };
    let reserved = vec![run(deferrable, 1, Some(ledger))];
    let dedicated = vec![
        run(Sharing::Dedicated, 2, None),
        run(Sharing::Dedicated, 3, None),
    ];
    let unreserved = vec![run(Sharing::Hog, 4, None)];
    [
        result("reserved", BackendKind::DsFreeze, deferrable, reserved),
        result(
            "dedicated",
            BackendKind::Dedicated,
            Sharing::Dedicated,
            dedicated,
        ),
        result("unreserved", BackendKind::None, Sharing::Hog, unreserved),
    ]
}

fn comparisons([reserved, dedicated, unreserved]: &[VariantResult; 3]) -> Vec<Comparison> {
    let dedicated: Vec<&Distribution> = dedicated.measured.iter().map(|run| &run.overall).collect();
    let floor = noise_floor(&dedicated);
    let measured = ("reserved", &reserved.measured[0].overall);
    let predicted = &reserved.predicted[0].distribution;
    let simulated = reserved.simulated.as_ref().unwrap();
    let pairs = [
        (("reserved, predicted", predicted), measured),
        (("reserved, simulated", simulated), measured),
        (("dedicated", dedicated[0]), measured),
        (
            ("dedicated", dedicated[0]),
            ("unreserved", &unreserved.measured[0].overall),
        ),
    ];
    pairs
        .into_iter()
        .map(|(left, right)| compare("redis", left, right, floor).unwrap())
        .collect()
}

/// The report.
pub fn sample_report() -> RunReport {
    let variants = variants();
    let comparisons = comparisons(&variants);
    let host = [
        ("kernel", "Linux 6.18.5 PREEMPT_DYNAMIC"),
        ("cpu", "2 x virtual CPU at 2.6 GHz"),
        ("clock source", "tsc"),
        ("cgroup", "v2, freezer"),
        ("load", "0.12"),
    ];
    RunReport {
        name: "redis beside a CPU hog".into(),
        description_toml: "schema_version = 1\nname = \"redis beside a CPU hog\"\n".into(),
        started_at: "2026-01-15T09:30:00Z".into(),
        seed: 42,
        host: host
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        commands: vec!["tailbound run redis.toml --seed 42".into()],
        warnings: vec![Warning {
            what: "CPU 1 loses 1.4% of its time to something else".into(),
            advice: "Stop what runs there, or choose another CPU; `tailbound doctor` lists them."
                .into(),
        }],
        variants: variants.into(),
        comparisons,
        raw_data: vec![RawData {
            label: "Latencies of redis in reserved, run 1 (CSV)".into(),
            path: "raw/reserved-1.csv".into(),
        }],
        ..RunReport::default()
    }
}
