//! Simulated and measured numbers, side by side.

use serde::Serialize;
use tailbound_simulator::hierarchy::Sink;
use tailbound_time::Duration;

use super::busy::Stalls;
use super::kernel_costs::KernelCosts;
use super::means::{ALL, Means};
use super::sets::SetDescription;
use super::threads::Ran;
use crate::application::Application;
use crate::outcome::Outcome;

/// Everything.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// The version of this format.
    pub schema_version: u32,
    /// The seed.
    pub seed: u64,
    /// The CPU on which everything ran.
    pub cpu: u32,
    /// By what clock instants were taken.
    pub clock: String,
    /// How long each set was executed by each means.
    pub length_ns: u64,
    /// How long was executed before, and not counted.
    pub warm_up_ns: u64,
    /// What the analysis allowed every hard job for overheads.
    pub allowance_ns: u64,
    /// What this kernel costs.
    pub costs: KernelCosts,
    /// The kernel.
    pub kernel: String,
    /// The host.
    pub host: String,
    /// The sets.
    pub sets: Vec<SetDescription>,
    /// Soft jobs of all sets.
    pub soft_jobs: usize,
    /// Executions that were disturbed too long, and were tried again.
    pub repeated: u64,
    /// The largest distance of a policy by ranks from what was simulated with overheads: of the means over
    /// sets, as they stand in `overall`.
    pub largest_mean_difference_by_ranks: Option<f64>,
    /// By means, over all sets.
    pub overall: Vec<Overall>,
    /// Every set by every means.
    #[serde(skip)]
    pub rows: Vec<Row>,
}

/// One set by one means.
#[derive(Debug)]
pub struct Row {
    /// The number of the set.
    pub set: u32,
    /// The means.
    pub means: Means,
    /// Budget and period of its server.
    pub server: Option<(Duration, Duration)>,
    /// Simulated, where scheduling costs nothing.
    pub simulated: Simulated,
    /// Simulated with what this kernel costs.
    pub with_overheads: Simulated,
    /// Executed; or why not.
    pub measured: Result<Measured, String>,
}

/// What came of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    /// The mean response time of soft jobs.
    pub mean_response_time_ns: f64,
    /// Hard deadlines missed.
    pub deadline_misses: u64,
}

impl Simulated {
    /// What of it counts.
    pub fn of(outcome: &Outcome) -> Self {
        Self {
            mean_response_time_ns: outcome.mean_response_time_ns(),
            deadline_misses: outcome.missed,
        }
    }
}

/// What came of an execution.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The mean response time of soft jobs, from the intended release.
    pub mean_response_time_ns: f64,
    /// Hard jobs that were due by the end.
    pub hard_jobs: u64,
    /// Hard deadlines missed.
    pub deadline_misses: u64,
    /// Soft jobs released.
    pub soft_jobs: u64,
    /// Soft jobs done by the end.
    pub soft_done: u64,
    /// CPU time that soft jobs took.
    pub soft_used_ns: u64,
    /// How often the manager looked, ours or enforcement's.
    pub manager_looks: u64,
    /// CPU time that it took.
    pub manager_used_ns: u64,
    /// Changes that the kernel refused.
    pub refused: u64,
    /// What held jobs up although they were on the CPU.
    pub stalls: Stalls,
    /// How long something else had the CPU while jobs were there.
    pub lost_ns: u64,
    /// How often it was executed until that was little, or too often.
    pub attempts: u64,
}

impl Measured {
    /// By the same count as in simulation.
    pub fn of(application: &Application, ran: &Ran, lost: Duration, attempts: u64) -> Self {
        let mut outcome = Outcome::of(application);
        for done in &ran.completions {
            outcome.completed(done);
        }
        Self {
            mean_response_time_ns: outcome.mean_response_time_ns(),
            hard_jobs: outcome.hard_jobs,
            deadline_misses: outcome.missed,
            soft_jobs: outcome.soft_jobs,
            soft_done: outcome.soft_done,
            soft_used_ns: ran.soft_used.as_nanos(),
            manager_looks: ran.manager_looks,
            manager_used_ns: ran.manager_used.as_nanos(),
            refused: ran.refused,
            stalls: ran.stalls,
            lost_ns: lost.as_nanos(),
            attempts,
        }
    }

    /// How long jobs did not get on, on the CPU or because something else had it.
    pub fn disturbed(&self) -> Duration {
        Duration::from_nanos(self.lost_ns + self.stalls.lost_ns)
    }
}

/// Mean response times relative to the background of the same set and kind.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratios {
    /// Simulated, where scheduling costs nothing.
    pub simulated: f64,
    /// Simulated with what this kernel costs.
    pub with_overheads: f64,
    /// Executed.
    pub measured: f64,
}

/// One means over the sets that were executed by it.
#[derive(Debug, Serialize)]
pub struct Overall {
    /// The means.
    pub means: Means,
    /// The number of these sets.
    pub sets: usize,
    /// The means of their ratios; nothing without sets.
    pub mean: Option<Ratios>,
    /// The least and the greatest measured ratio.
    pub measured_range: Option<(f64, f64)>,
    /// The largest distance of a set's measured ratio from the one simulated with overheads.
    pub largest_difference: Option<f64>,
    /// The set that has it.
    pub largest_difference_set: Option<u32>,
    /// The largest of the other sets.
    pub largest_difference_elsewhere: Option<f64>,
    /// The measured mean less the one simulated with overheads.
    pub mean_difference: Option<f64>,
    /// How far the measured response times themselves are from the simulated ones, as a part of those:
    /// the mean over sets, where scheduling costs nothing.
    pub distance_simulated: Option<f64>,
    /// The same with what this kernel costs.
    pub distance_with_overheads: Option<f64>,
    /// Hard jobs that were due.
    pub hard_jobs: u64,
    /// Hard deadlines missed, simulated with overheads.
    pub deadline_misses_simulated: u64,
    /// Hard deadlines missed, measured.
    pub deadline_misses: u64,
    /// What held jobs up although they were on the CPU.
    pub stalls: Stalls,
    /// How long something else had the CPU while jobs were there.
    pub lost_ns: u64,
    /// Executions that were disturbed too long, and were tried again.
    pub repeated: u64,
    /// Why it was not executed, of one set of those where it was not.
    pub refused: Option<String>,
}

/// The ratios of a row; nothing if it or the background was not executed.
pub fn ratios(row: &Row, rows: &[Row]) -> Option<Ratios> {
    let background = |other: &&Row| other.set == row.set && other.means == Means::Background;
    let background = rows.iter().find(background)?;
    let (measured, base) = (
        row.measured.as_ref().ok()?,
        background.measured.as_ref().ok()?,
    );
    let ratio = |a: Simulated, b: Simulated| a.mean_response_time_ns / b.mean_response_time_ns;
    Some(Ratios {
        simulated: ratio(row.simulated, background.simulated),
        with_overheads: ratio(row.with_overheads, background.with_overheads),
        measured: measured.mean_response_time_ns / base.mean_response_time_ns,
    })
}

/// Every means over its sets.
pub fn overall(rows: &[Row]) -> Vec<Overall> {
    ALL.into_iter().map(|means| of_means(means, rows)).collect()
}

/// The largest distance of a mean over sets from the simulated one, of the policies by ranks.
pub fn largest_mean_difference_by_ranks(overall: &[Overall]) -> Option<f64> {
    let by_ranks = overall.iter().filter(|one| one.means.is_by_ranks());
    let differences = by_ranks.filter_map(|one| one.mean_difference.map(f64::abs));
    differences.max_by(f64::total_cmp)
}

fn distance<'a>(
    rows: impl Iterator<Item = &'a Row>,
    simulated: impl Fn(&Row) -> Simulated,
) -> Option<f64> {
    let of_row = |row: &Row| {
        let expected = simulated(row).mean_response_time_ns;
        let measured = row.measured.as_ref().ok()?.mean_response_time_ns;
        Some((measured - expected).abs() / expected)
    };
    let distances: Vec<f64> = rows.filter_map(of_row).collect();
    (!distances.is_empty()).then(|| distances.iter().sum::<f64>() / distances.len() as f64)
}

fn of_means(means: Means, rows: &[Row]) -> Overall {
    let rows_of = || rows.iter().filter(|row| row.means == means);
    let each: Vec<Ratios> = rows_of().filter_map(|row| ratios(row, rows)).collect();
    let some = |value: f64| (!each.is_empty()).then_some(value);
    let mean = |of: fn(&Ratios) -> f64| each.iter().map(of).sum::<f64>() / each.len() as f64;
    let extreme = |from: f64, choose: fn(f64, f64) -> f64| {
        each.iter().map(|one| one.measured).fold(from, choose)
    };
    let mut differences: Vec<(f64, u32)> = rows_of()
        .filter_map(|row| {
            let one = ratios(row, rows)?;
            Some(((one.measured - one.with_overheads).abs(), row.set))
        })
        .collect();
    differences.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut overall = Overall {
        means,
        sets: each.len(),
        mean: (!each.is_empty()).then(|| Ratios {
            simulated: mean(|one| one.simulated),
            with_overheads: mean(|one| one.with_overheads),
            measured: mean(|one| one.measured),
        }),
        measured_range: some(extreme(f64::INFINITY, f64::min)).zip(some(extreme(0.0, f64::max))),
        distance_simulated: distance(rows_of(), |row| row.simulated),
        distance_with_overheads: distance(rows_of(), |row| row.with_overheads),
        largest_difference: differences.first().map(|(most, _)| *most),
        largest_difference_set: differences.first().map(|(_, set)| *set),
        largest_difference_elsewhere: differences.get(1).map(|(most, _)| *most),
        mean_difference: some(mean(|one| one.measured - one.with_overheads)),
        hard_jobs: 0,
        deadline_misses_simulated: 0,
        deadline_misses: 0,
        stalls: Stalls::default(),
        lost_ns: 0,
        repeated: 0,
        refused: None,
    };
    for row in rows_of() {
        match &row.measured {
            Ok(measured) => {
                overall.hard_jobs += measured.hard_jobs;
                overall.deadline_misses += measured.deadline_misses;
                overall.deadline_misses_simulated += row.with_overheads.deadline_misses;
                overall.stalls = overall.stalls.and(measured.stalls);
                overall.lost_ns += measured.lost_ns;
                overall.repeated += measured.attempts - 1;
            }
            Err(reason) => overall.refused = Some(reason.clone()),
        }
    }
    overall
}
