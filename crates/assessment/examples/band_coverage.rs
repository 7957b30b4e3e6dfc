//! How often prediction bands, and intervals of measured quantiles, hold on simulated hosts.
//!
//! Every host has a service on a deferrable server, phases, stalls and a level of its own, none of which the
//! band is told: it sees a calibration and a record of the supply, as a real run does. A host is calibrated
//! and measured in campaigns, one after the other, so that its history grows. Four kinds of hosts are as the
//! model takes them (`phases`), or are not: `drift` (the level wanders without end), `bursts` (stalls come in
//! clusters that the calibration may never see) and `tails` (execution times with a Pareto tail).
//!
//! Usage: band_coverage [HOSTS] [CAMPAIGNS] [SECONDS] [SEED] [KIND]; the result is JSON on standard output.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp, LogNormal, Pareto, StandardNormal};
use tailbound_assessment::band::{
    BAND_COVERAGE, BandError, BandQuery, IntervalQuery, LateLook, PastQuantile, ProcessRound,
    RequestTime, RunSetting, ServiceProcess, SupplyProcess, measured_intervals, predict_band,
};
use tailbound_distribution::{Distribution, Evidence, Interval, Provenance};
use tailbound_model::{Arrivals, ExecutionTime, InputFiles, ReservationServer, Service, Task};
use tailbound_simulator::workload::{Release, releases};
use tailbound_simulator::{ServiceSimulationQuery, Stall, simulate_with_stalls};
use tailbound_time::{Duration, Instant};

/// The percentiles whose coverage is counted.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];
/// How long a calibration takes.
const CALIBRATION_SECONDS: f64 = 30.0;
/// The distance between rounds of a calibration, and how long one takes.
const ROUND_SECONDS: (f64, f64) = (1.7, 0.7);
/// Requests of a round.
const ROUND_REQUESTS: usize = 40;
/// The distance between two looks at the supply.
const LOOK_SECONDS: f64 = 0.002;
/// The confidence of intervals of measured quantiles.
const CONFIDENCE: f64 = 0.95;
/// The run that an interval is held against is so many times as long.
const LONG_RUN: u32 = 100;
/// Runs of a host whose intervals are judged.
const INTERVAL_RUNS: u64 = 4;
/// The kinds of hosts.
const KINDS: [&str; 4] = ["phases", "drift", "bursts", "tails"];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: u64| arguments.next().map_or(default, |one| one.parse().unwrap());
    let (hosts, campaigns, seconds, seed) = (next(25), next(20), next(20), next(1));
    let mut kinds = serde_json::Map::new();
    let chosen = arguments.next();
    for kind in KINDS {
        if chosen.as_ref().is_some_and(|chosen| chosen != kind) {
            continue;
        }
        let mut tally = Tally::default();
        for host in 0..hosts {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(host + 1);
            let host = Host::draw(kind, &mut random);
            host.campaigns(campaigns, seconds as f64, &mut tally, &mut random);
        }
        kinds.insert(kind.into(), tally.in_json());
    }
    let all = serde_json::json!({
        "hosts_of_each_kind": hosts,
        "campaigns_of_each_host": campaigns,
        "run_seconds": seconds,
        "seed": seed,
        "nominal": BAND_COVERAGE,
        "kinds": kinds,
    });
    println!("{}", serde_json::to_string_pretty(&all).unwrap());
}

/// How often bands and intervals held, by percentile.
#[derive(Default)]
struct Tally {
    raw: BTreeMap<String, Share>,
    corrected: BTreeMap<String, Share>,
    interval: BTreeMap<String, Share>,
    too_short: BTreeMap<String, Share>,
    order_statistics: BTreeMap<String, Share>,
    width: BTreeMap<String, Vec<f64>>,
    corrected_width: BTreeMap<String, Vec<f64>>,
}

#[derive(Clone, Copy, Default)]
struct Share {
    held: u64,
    all: u64,
}

impl Share {
    fn count(&mut self, held: bool) {
        self.held += u64::from(held);
        self.all += 1;
    }

    fn value(self) -> f64 {
        let share = self.held as f64 / (self.all as f64).max(1.0);
        (share * 1e4).round() / 1e4
    }
}

impl Tally {
    /// Whether the intervals of a run, and those of order statistics, hold the true quantiles.
    fn judge_intervals(&mut self, query: &IntervalQuery<'_>, truth: &Distribution) {
        let intervals = match measured_intervals(query) {
            Ok(intervals) => intervals,
            // No interval of any percentile, and that is said, too.
            Err(BandError::OtherQueue { .. }) => {
                for percentile in PERCENTILES {
                    let short = self.too_short.entry(format!("p{percentile}"));
                    short.or_default().count(true);
                }
                return;
            }
            Err(error) => panic!("{error}"),
        };
        for interval in intervals {
            let name = format!("p{}", interval.percentile);
            let probability = interval.percentile / 100.0;
            let value = truth.quantile(probability).unwrap().low;
            let holds =
                |ends: Interval| ends.low <= value && ends.high.is_none_or(|high| value <= high);
            let short = self.too_short.entry(name.clone()).or_default();
            short.count(interval.too_short);
            if !interval.too_short {
                let share = self.interval.entry(name.clone()).or_default();
                share.count(holds(interval.ends()));
            }
            let plain = query.measured.quantile_interval(probability, CONFIDENCE);
            let share = self.order_statistics.entry(name).or_default();
            share.count(holds(plain.unwrap().ends()));
        }
    }

    fn in_json(&self) -> serde_json::Value {
        let shares = |shares: &BTreeMap<String, Share>| {
            let each = shares
                .iter()
                .map(|(name, share)| (name.clone(), share.value()));
            each.collect::<BTreeMap<_, _>>()
        };
        let medians = |widths: &BTreeMap<String, Vec<f64>>| {
            let each = widths.iter().map(|(name, widths)| {
                let mut sorted = widths.clone();
                sorted.sort_by(f64::total_cmp);
                let median = sorted[sorted.len() / 2];
                (name.clone(), (median * 100.0).round() / 100.0)
            });
            each.collect::<BTreeMap<_, _>>()
        };
        serde_json::json!({
            "runs": self.raw.values().next().map_or(0, |share| share.all),
            "band": shares(&self.raw),
            "band_high_over_low": medians(&self.width),
            "corrected_runs": self.corrected.values().next().map_or(0, |share| share.all),
            "corrected_band": shares(&self.corrected),
            "corrected_high_over_low": medians(&self.corrected_width),
            "interval_95": shares(&self.interval),
            "interval_too_short": shares(&self.too_short),
            "order_statistics_95": shares(&self.order_statistics),
        })
    }
}

/// A simulated host with a service.
struct Host {
    kind: &'static str,
    service: Service,
    server: ReservationServer,
    execution_seconds: f64,
    /// The scatter of one execution time.
    scatter: f64,
    /// The logarithms of the levels of its phases, and their mean length in seconds.
    phases: (Vec<f64>, f64),
    /// How much the level moves from campaign to campaign.
    wander: f64,
    /// Stalls in a second, their least length in seconds, and the shape of the tail.
    stalls: (f64, f64, f64),
}

/// The level of a host over time, in steps, and its stalls.
struct Course {
    step_seconds: f64,
    log_levels: Vec<f64>,
    stalls: Vec<Stall>,
}

impl Course {
    fn level(&self, seconds: f64) -> f64 {
        let step = (seconds / self.step_seconds) as usize;
        self.log_levels[step.min(self.log_levels.len() - 1)].exp()
    }
}

fn seconds(length: f64) -> Duration {
    Duration::from_secs_f64_nearest(length)
}

fn at(length: f64) -> Instant {
    Instant::ORIGIN.saturating_add(seconds(length))
}

impl Host {
    fn draw(kind: &'static str, random: &mut ChaCha8Rng) -> Self {
        let execution_seconds = 0.001 * 8_f64.powf(random.random());
        let period = execution_seconds * random.random_range(3.0..10.0);
        let share = random.random_range(0.5..0.9);
        let load: f64 = random.random_range(0.4..0.7);
        let rate = load * share / execution_seconds;
        let task = Task::of(
            Arrivals::Poisson {
                rate: format!("{rate:.3}/s").parse().unwrap(),
            },
            ExecutionTime::Calibrated { expected: None },
        );
        let spread = random.random_range(0.02..0.12);
        let levels = (0..4).map(|_| normal(random) * spread);
        let levels: Vec<f64> = levels.collect();
        Self {
            kind,
            service: Service::of("d", "unix:s", BTreeMap::from([("work".to_owned(), task)])),
            server: ReservationServer::Deferrable {
                budget: seconds(period * share),
                period: seconds(period),
            },
            execution_seconds,
            scatter: random.random_range(0.02..0.3),
            phases: (levels, random.random_range(1.0..6.0)),
            wander: random.random_range(0.0..0.04),
            stalls: (
                random.random_range(0.1..2.0),
                random.random_range(0.0005..0.003),
                random.random_range(1.6..3.0),
            ),
        }
    }

    /// Calibrates and measures the host several times.
    fn campaigns(
        &self,
        campaigns: u64,
        run_seconds: f64,
        tally: &mut Tally,
        random: &mut ChaCha8Rng,
    ) {
        let mut history: Vec<PastQuantile> = Vec::new();
        let mut drifted = 0.0;
        for campaign in 0..campaigns {
            let gap = random.random_range(2.0..60.0);
            let length = CALIBRATION_SECONDS + gap + run_seconds + 2.0;
            let course = self.course(length, &mut drifted, random);
            let process = self.calibrated(&course, random);
            let supply = sampled(&course, random);
            let setting = RunSetting {
                name: "simulated",
                service: &self.service,
                server: self.server,
                process: &process,
                supply: Some(&supply),
                warm_up: Duration::from_secs(1),
                duration: seconds(run_seconds),
            };
            let from = CALIBRATION_SECONDS + gap;
            let horizon = seconds(run_seconds + 1.0);
            let run_seed: u64 = random.random();
            let planned = releases(&self.service, horizon, run_seed, &InputFiles::default());
            let planned = planned.unwrap();
            let measured = self.measured(&setting, &planned, (&course, from), random);
            let query = BandQuery {
                setting,
                releases: &planned,
                promises: &[],
                runs: 200,
                coverage: BAND_COVERAGE,
                seed: campaign,
                earlier: &history,
            };
            let band = predict_band(&query).unwrap();
            let mut past = Vec::new();
            for percentile in PERCENTILES {
                let name = format!("p{percentile}");
                let quantile = band.quantile(percentile).unwrap();
                let value = measured.quantile(percentile / 100.0).unwrap().low;
                let one = quantile.past(value);
                tally.raw.entry(name.clone()).or_default().count(one.held());
                let width = quantile.raw_high.as_secs_f64() / quantile.raw_low.as_secs_f64();
                tally.width.entry(name.clone()).or_default().push(width);
                if quantile.correction.is_some() {
                    let share = tally.corrected.entry(name.clone()).or_default();
                    share.count(quantile.holds(value));
                    let width = quantile.high.as_secs_f64() / quantile.low.as_secs_f64();
                    tally.corrected_width.entry(name).or_default().push(width);
                }
                past.push(one);
            }
            history.extend(past);
        }
        self.judge_intervals(run_seconds, tally, random);
    }

    /// Whether intervals of the quantiles of short runs hold those of the host over a hundred such runs.
    fn judge_intervals(&self, run_seconds: f64, tally: &mut Tally, random: &mut ChaCha8Rng) {
        let all_seconds = run_seconds * f64::from(LONG_RUN);
        let mut drifted = 0.0;
        let course = self.course(
            CALIBRATION_SECONDS + all_seconds + 2.0,
            &mut drifted,
            random,
        );
        let process = self.calibrated(&course, random);
        let supply = sampled(&course, random);
        let setting = |length: f64| RunSetting {
            name: "simulated",
            service: &self.service,
            server: self.server,
            process: &process,
            supply: Some(&supply),
            warm_up: Duration::from_secs(1),
            duration: seconds(length),
        };
        let run = |length: f64, from: f64, random: &mut ChaCha8Rng| {
            let horizon = seconds(length + 1.0);
            let seed: u64 = random.random();
            let planned = releases(&self.service, horizon, seed, &InputFiles::default());
            let place = (&course, CALIBRATION_SECONDS + from);
            self.measured(&setting(length), &planned.unwrap(), place, random)
        };
        let truth = run(all_seconds, 0.0, random);
        for repetition in 0..INTERVAL_RUNS {
            let from = random.random_range(0.0..all_seconds - run_seconds - 1.0);
            let measured = run(run_seconds, from, random);
            let query = IntervalQuery {
                setting: setting(run_seconds),
                inputs: &InputFiles::default(),
                measured: &measured,
                tasks: &[],
                percentiles: &PERCENTILES,
                confidence: CONFIDENCE,
                runs: 200,
                seed: repetition,
            };
            tally.judge_intervals(&query, &truth);
        }
    }

    /// What the host does for so many seconds.
    fn course(&self, length: f64, drifted: &mut f64, random: &mut ChaCha8Rng) -> Course {
        let step_seconds = 0.05;
        let steps = (length / step_seconds) as usize + 1;
        let base = normal(random) * self.wander;
        let mut level = self.phases.0[random.random_range(0..4_usize)];
        let mut until = exponential(1.0 / self.phases.1, random);
        let mut log_levels = Vec::with_capacity(steps);
        for step in 0..steps {
            if step as f64 * step_seconds > until {
                level = self.phases.0[random.random_range(0..4_usize)];
                until += exponential(1.0 / self.phases.1, random);
            }
            if self.kind == "drift" {
                // A random walk that returns: some 10% within a minute.
                *drifted += normal(random) * 0.003 - *drifted * 0.0004;
            }
            log_levels.push(base + level + *drifted);
        }
        Course {
            step_seconds,
            log_levels,
            stalls: self.drawn_stalls(length, random),
        }
    }

    fn drawn_stalls(&self, length: f64, random: &mut ChaCha8Rng) -> Vec<Stall> {
        let (rate, least, shape) = self.stalls;
        let pareto = Pareto::new(least, shape).unwrap();
        let mut stalls = Vec::new();
        let mut now = exponential(rate, random);
        while now < length {
            stalls.push((now, pareto.sample(random).min(0.1)));
            now += exponential(rate, random);
        }
        if self.kind == "bursts" {
            let mut now = exponential(1.0 / 15.0, random);
            while now < length {
                for _ in 0..random.random_range(5..20) {
                    let apart = exponential(50.0, random);
                    stalls.push((now + apart, pareto.sample(random).min(0.1)));
                }
                now += exponential(1.0 / 15.0, random);
            }
        }
        let mut stalls: Vec<Stall> = stalls
            .into_iter()
            .map(|(begin, length)| Stall {
                begin: at(begin),
                length: seconds(length),
            })
            .collect();
        stalls.sort_unstable();
        stalls
    }

    fn execution(&self, level: f64, random: &mut ChaCha8Rng) -> f64 {
        let law = LogNormal::new(0.0, self.scatter).unwrap();
        let mut execution = self.execution_seconds * law.sample(random) * level;
        if self.kind == "tails" && random.random_bool(0.005) {
            let longer: f64 = Pareto::new(2.0, 1.5).unwrap().sample(random);
            execution *= longer.min(20.0);
        }
        execution
    }

    /// The calibration: rounds of requests at the level of their time, those without a stall.
    fn calibrated(&self, course: &Course, random: &mut ChaCha8Rng) -> ServiceProcess {
        let (distance, length) = ROUND_SECONDS;
        let rounds = (CALIBRATION_SECONDS / distance) as usize;
        let rounds = (0..rounds).map(|round| {
            let begin = round as f64 * distance;
            let requests = (0..ROUND_REQUESTS).map(|request| {
                let now = begin + length * request as f64 / ROUND_REQUESTS as f64;
                RequestTime {
                    busy: seconds(self.execution(course.level(now), random)),
                    beside: Duration::ZERO,
                    asked: Duration::ZERO,
                }
            });
            ProcessRound {
                begin: seconds(begin),
                end: seconds(begin + length),
                tasks: BTreeMap::from([("work".to_owned(), requests.collect())]),
            }
        });
        ServiceProcess::new(rounds.collect())
    }

    /// The latencies of the run that begins at an instant of the course.
    fn measured(
        &self,
        setting: &RunSetting<'_>,
        planned: &[Release],
        (course, from): (&Course, f64),
        random: &mut ChaCha8Rng,
    ) -> Distribution {
        let mut planned = planned.to_vec();
        for release in &mut planned {
            let now = from + release.at.as_nanos() as f64 / 1e9;
            release.execution = Some(seconds(self.execution(course.level(now), random)));
        }
        let begin = at(from);
        let stalls = course.stalls.iter().filter(|stall| stall.begin >= begin);
        let stalls: Vec<Stall> = stalls
            .map(|stall| Stall {
                begin: Instant::ORIGIN.saturating_add(stall.begin.saturating_since(begin)),
                length: stall.length,
            })
            .collect();
        simulated(setting, &planned, &stalls, random)
    }
}

fn simulated(
    setting: &RunSetting<'_>,
    planned: &[Release],
    stalls: &[Stall],
    random: &mut ChaCha8Rng,
) -> Distribution {
    let (_, period) = setting.server.budget_and_period().unwrap();
    let query = ServiceSimulationQuery {
        name: setting.name,
        service: setting.service,
        server: setting.server,
        grid_phase: Duration::from_nanos(random.random_range(0..period.as_nanos())),
        warm_up: setting.warm_up,
        dispatch_overhead: Duration::ZERO,
        seed: 0,
        record_jobs: false,
    };
    let simulation = simulate_with_stalls(&query, planned, stalls).unwrap();
    let provenance = Provenance::new(Evidence::Sample, "latency", "simulated host");
    Distribution::from_samples(provenance, simulation.overall.samples().to_vec())
}

/// The supply of the calibration, as looks at the clock see it.
fn sampled(course: &Course, random: &mut ChaCha8Rng) -> SupplyProcess {
    let offset = random.random_range(0.0..LOOK_SECONDS);
    let mut late = Vec::new();
    let mut asleep = 0.0;
    for stall in &course.stalls {
        let begin = stall.begin.as_nanos() as f64 / 1e9;
        let end = begin + stall.length.as_secs_f64();
        if begin > CALIBRATION_SECONDS || end < asleep {
            continue;
        }
        let look = ((begin.max(asleep) - offset) / LOOK_SECONDS).ceil() * LOOK_SECONDS + offset;
        // The sampler takes a delay below 0.2 ms for the way from timer to thread.
        if look < end && end - look > 0.0002 {
            late.push(LateLook {
                due: seconds(look),
                late: seconds(end - look),
            });
            asleep = end;
        }
    }
    SupplyProcess {
        span: seconds(CALIBRATION_SECONDS),
        distance: seconds(LOOK_SECONDS),
        late,
    }
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(random)
}

fn exponential(rate: f64, random: &mut ChaCha8Rng) -> f64 {
    Exp::new(rate).unwrap().sample(random)
}
