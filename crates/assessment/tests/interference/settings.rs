//! Random hosts with interference: bounds of the analysis against simulations.

use std::fmt::Write as _;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_assessment::schedulability::{DeadlineVerdict, judge};
use tailbound_model::{Description, InputFiles};
use tailbound_simulator::host::{HostQuery, Kept, MOST_EVENTS, simulate_host};
use tailbound_time::Duration;

/// `BoundComparison` is one setting: each task with a bound, and the longest response in a simulation.
pub struct BoundComparison {
    /// The back end and the order of the tasks.
    pub kind: String,
    /// The description.
    pub text: String,
    /// Bound, simulated maximum, and whether the analysis says that all deadlines are met, by task.
    pub tasks: Vec<ComparedTask>,
}

/// `ComparedTask` is a task of a setting.
pub struct ComparedTask {
    pub name: String,
    pub bound: Option<Duration>,
    pub longest: Duration,
    pub is_met: bool,
    pub missed: u64,
}

impl ComparedTask {
    /// Whether the simulation contradicts the analysis.
    pub fn is_contradicted(&self) -> bool {
        self.bound.is_some_and(|bound| self.longest > bound) || self.is_met && self.missed > 0
    }
}

const ORDERS: [&str; 3] = [
    "fixed-priority",
    "earliest-deadline-first",
    "rate-monotonic",
];

/// Compares the setting of this number.
pub fn compare(number: u64, simulated: Duration) -> BoundComparison {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let (kind, text) = setting(&mut random);
    let description: Description = tailbound_model::parse(&text, "setting.toml").unwrap();
    let inputs = InputFiles::default();
    let verdicts = judge(&description, &inputs).unwrap();
    let simulation = simulate_host(&HostQuery {
        description: &description,
        host: "here",
        inputs: &inputs,
        seed: number,
        warm_up: Duration::ZERO,
        duration: simulated,
        kept: Kept::All,
        most_events: MOST_EVENTS,
    });
    let simulation = simulation.unwrap();
    let all = simulation.domains.values().flat_map(|domain| &domain.tasks);
    let all: Vec<_> = all.collect();
    let tasks = verdicts[0].tasks.iter().map(|verdict| {
        let result = all.iter().find(|task| task.name == verdict.task).unwrap();
        ComparedTask {
            name: verdict.task.clone(),
            bound: verdict.response_bound,
            longest: Duration::from_nanos(result.longest_ns.unwrap_or(0)),
            is_met: verdict.verdict == DeadlineVerdict::Met,
            missed: result.missed,
        }
    });
    BoundComparison {
        kind,
        tasks: tasks.collect(),
        text,
    }
}

fn setting(random: &mut ChaCha8Rng) -> (String, String) {
    let mut text = "schema_version = 1\nname = \"s\"\nhosts.here.cpus = [0]\n".to_owned();
    for index in 0..random.random_range(1..4) {
        source(random, index, &mut text);
    }
    let order = ORDERS[random.random_range(0..ORDERS.len())];
    let backend = ["dedicated", "ds-freeze", "deadline"][random.random_range(0..3)];
    let period = random.random_range(2..12_u64) * 1_000;
    let domains = if backend == "ds-freeze" {
        random.random_range(1..3)
    } else {
        1
    };
    for domain in 0..domains {
        let budget = period * random.random_range(20..70 / domains) / 100;
        let period = if domain == 0 {
            period
        } else {
            period * random.random_range(1..3)
        };
        let reservation = match backend {
            "dedicated" => "backend = \"dedicated\", cpus = [0]".to_owned(),
            "ds-freeze" => format!(
                "backend = \"ds-freeze\", budget = \"{budget}us\", period = \"{period}us\", cpus = [0], priority = {}",
                90 - domain
            ),
            _ => format!(
                "backend = \"deadline\", budget = \"{budget}us\", period = \"{period}us\", cpus = [0]"
            ),
        };
        write!(
            text,
            "[domains.d{domain}]\nkind = \"process\"\ncommand = [\"d\"]\nscheduling = \"{order}\"\n\
             reservation = {{ {reservation} }}\n"
        )
        .unwrap();
        let share = match backend {
            "dedicated" => 70,
            _ => budget * 80 / period,
        };
        tasks(random, (domain, share), &mut text);
    }
    (format!("{backend}, {order}"), text)
}

fn source(random: &mut ChaCha8Rng, index: u64, text: &mut String) {
    let longest = random.random_range(5..60_u64);
    let mut at = random.random_range(0..3) * longest;
    let count = random.random_range(1..5_u64);
    let mut distances: Vec<u64> = Vec::new();
    for _ in 0..count {
        at += random.random_range(0..20) * longest;
        distances.push(at);
    }
    // A twentieth to a third of the CPU in the long run.
    let least = longest * count * random.random_range(6..30);
    let last = distances.last_mut().unwrap();
    *last = (*last).max(least);
    let dense = random.random_bool(0.7);
    let mean_gap = match dense {
        true => String::new(),
        false => {
            let slowest = (1..)
                .zip(&distances)
                .map(|(jobs, distance)| distance.div_ceil(jobs))
                .max();
            format!(", mean_gap = \"{}us\"", slowest.unwrap() * 2)
        }
    };
    let law = match dense {
        true => format!("{{ kind = \"constant\", value = \"{longest}us\" }}"),
        false => format!("{{ kind = \"uniform\", min = \"1us\", max = \"{longest}us\" }}"),
    };
    let distances: Vec<String> = distances.iter().map(|one| format!("\"{one}us\"")).collect();
    let kind = ["interrupt", "softirq", "kernel-thread", "host-stall"][random.random_range(0..4)];
    write!(
        text,
        "[[hosts.here.interference]]\nsource = \"s{index}\"\nkind = \"{kind}\"\ncpu = 0\narrivals = {{ kind = \
         \"minimum-distances\", distances = [{}]{mean_gap} }}\nexecution_time = {law}\n",
        distances.join(", ")
    )
    .unwrap();
}

fn tasks(random: &mut ChaCha8Rng, (domain, share): (u64, u64), text: &mut String) {
    let count = random.random_range(1..4_u64);
    for index in 0..count {
        let period = random.random_range(8..80_u64) * 1_000;
        let execution = (period * share / 100 / count * random.random_range(30..100) / 100).max(1);
        let deadline = period * random.random_range(5..20) / 10;
        let arrivals = match random.random_bool(0.5) {
            true => format!("kind = \"periodic\", period = \"{period}us\""),
            false => format!(
                "kind = \"sporadic\", min_gap = \"{period}us\", max_gap = \"{}us\"",
                period * 3 / 2
            ),
        };
        write!(
            text,
            "[domains.d{domain}.tasks.t{domain}{index}]\narrivals = {{ {arrivals} }}\nexecution_time = {{ kind = \
             \"constant\", value = \"{execution}us\" }}\ndeadline = \"{deadline}us\"\n"
        )
        .unwrap();
        if text.contains("scheduling = \"fixed-priority\"") {
            writeln!(text, "priority = {}", 80 - index).unwrap();
        }
    }
}
