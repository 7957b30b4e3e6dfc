//! One run that is drawn from the processes of a host, and simulated.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tailbound_simulator::workload::Release;
use tailbound_simulator::{ServiceSimulationQuery, Simulation, Stall, simulate_with_stalls};
use tailbound_time::{Duration, Instant};

use super::{BandError, RunSetting};

/// How the level of a drawn run differs from that of the calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LevelChange {
    /// Not at all.
    Same,
    /// By the scatter of short runs around a level that was fitted.
    Fitted,
    /// By that, and by the error of the calibration's level.
    Another,
}

/// The parts of a host's processes that go into a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ingredients {
    /// Phases; else every request is drawn alone.
    pub phases: bool,
    /// The level of the run.
    pub level: LevelChange,
    /// Stalls.
    pub stalls: bool,
}

impl Ingredients {
    pub(super) const ALL: Self = Self {
        phases: true,
        level: LevelChange::Another,
        stalls: true,
    };
    pub(super) const FITTED: Self = Self {
        level: LevelChange::Fitted,
        ..Self::ALL
    };
    pub(super) const STALLS: Self = Self {
        phases: false,
        level: LevelChange::Same,
        stalls: true,
    };
    pub(super) const PLAIN: Self = Self {
        phases: false,
        level: LevelChange::Same,
        stalls: false,
    };
}

/// The latencies of one simulated run, sorted.
#[derive(Clone, Debug)]
pub(super) struct SimulatedRun {
    overall: Vec<Duration>,
    per_task: BTreeMap<String, Vec<Duration>>,
    /// The share of the run in which the CPU was taken away.
    pub(super) lost_share: f64,
}

impl SimulatedRun {
    /// Draws and simulates a run; latencies by task are kept of `tasks`.
    pub(super) fn draw(
        setting: &RunSetting<'_>,
        releases: &[Release],
        tasks: &[&str],
        ingredients: Ingredients,
        random: &mut ChaCha8Rng,
    ) -> Result<Self, BandError> {
        Self::draw_at_level(setting, releases, tasks, (ingredients, 1.0), random)
    }

    /// The same with all execution times a further `level`.
    pub(super) fn draw_at_level(
        setting: &RunSetting<'_>,
        releases: &[Release],
        tasks: &[&str],
        (ingredients, level): (Ingredients, f64),
        random: &mut ChaCha8Rng,
    ) -> Result<Self, BandError> {
        let (mut drawn, beside) = setting.process.draw(releases, ingredients, random)?;
        if level != 1.0 {
            for execution in drawn.iter_mut().filter_map(|one| one.execution.as_mut()) {
                let scaled = execution.as_secs_f64() * level;
                *execution = Duration::from_secs_f64_nearest(scaled);
            }
        }
        let horizon = setting.warm_up.saturating_add(setting.duration);
        let stalls: Vec<Stall> = match setting.supply.filter(|_| ingredients.stalls) {
            Some(supply) => supply.draw(horizon, random),
            None => Vec::new(),
        };
        let period = setting.server.budget_and_period();
        let period_ns = period.map_or(1, |(_, period)| period.as_nanos().max(1));
        let query = ServiceSimulationQuery {
            name: setting.name,
            service: setting.service,
            server: setting.server,
            grid_phase: Duration::from_nanos(random.random_range(0..period_ns)),
            warm_up: setting.warm_up,
            dispatch_overhead: Duration::ZERO,
            seed: 0,
            record_jobs: true,
        };
        let simulation = simulate_with_stalls(&query, &drawn, &stalls)?;
        let run = Self::of(setting, &drawn, (&simulation, &beside, &stalls), tasks);
        match run.overall.is_empty() {
            true => Err(BandError::NoReleases {
                duration: setting.duration,
            }),
            false => Ok(run),
        }
    }

    fn of(
        setting: &RunSetting<'_>,
        releases: &[Release],
        (simulation, beside, stalls): (&Simulation, &[Duration], &[Stall]),
        tasks: &[&str],
    ) -> Self {
        let first = Instant::ORIGIN.saturating_add(setting.warm_up);
        let mut overall = Vec::with_capacity(simulation.jobs.len());
        let mut per_task: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
        for job in &simulation.jobs {
            let release = &releases[job.release];
            if release.at < first {
                continue;
            }
            let response = job.completed.saturating_since(release.at);
            let latency = response.saturating_add(beside[job.release]);
            overall.push(latency);
            if tasks.contains(&release.task.as_str()) {
                per_task
                    .entry(release.task.clone())
                    .or_default()
                    .push(latency);
            }
        }
        overall.sort_unstable();
        per_task.values_mut().for_each(|own| own.sort_unstable());
        let lost: Duration = stalls.iter().map(|stall| stall.length).sum();
        let length = setting.warm_up.saturating_add(setting.duration);
        Self {
            overall,
            per_task,
            lost_share: lost.as_secs_f64() / length.as_secs_f64().max(1e-9),
        }
    }

    /// The least latency within which a share `probability` of the requests stays, as for measured samples.
    pub(super) fn quantile(&self, task: Option<&str>, probability: f64) -> Option<Duration> {
        sorted_quantile(self.latencies(task), probability)
    }

    /// The latencies, sorted; of a task those that were kept.
    pub(super) fn latencies(&self, task: Option<&str>) -> &[Duration] {
        match task {
            None => &self.overall,
            Some(task) => self.per_task.get(task).map_or(&[], Vec::as_slice),
        }
    }
}

/// The quantile of sorted values: the least of which a share `probability` is not longer.
pub(super) fn sorted_quantile(sorted: &[Duration], probability: f64) -> Option<Duration> {
    let rank = (sorted.len() as f64 * probability - 1e-9).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}
