//! Synthetic applications: a schedulable set of hard tasks, a soft load, and one hyperperiod of jobs.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_analysis::SporadicTask;
use tailbound_simulator::generate::UniformShares;
use tailbound_simulator::hierarchy::Job;
use tailbound_time::Duration;

use crate::feasibility::Feasibility;

/// The hyperperiod of every application.
const HYPERPERIOD: Duration = Duration::from_millis(1000);

/// Which periods there are, and how long an application lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The periods that hard tasks have, in milliseconds: divisors of one second.
    pub periods_ms: &'static [u64],
    /// How long jobs come: whole seconds.
    pub length: Duration,
}

/// What is simulated: one hyperperiod, as in the paper.
pub const SIMULATED: Shape = Shape {
    periods_ms: &[5, 8, 10, 20, 25, 40, 50, 100, 125, 200, 250, 500],
    length: HYPERPERIOD,
};

/// The mean time between soft jobs lies between these, in milliseconds.
const SOFT_GAPS_MS: (f64, f64) = (10.0, 50.0);

/// So many sets are drawn before a combination is given up.
const MOST_DRAWS: usize = 100_000;

/// What an application is to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The experiment, 1 or 2; 3 is real execution.
    pub experiment: u8,
    /// The number of hard tasks.
    pub hard_tasks: usize,
    /// The share of the CPU that hard tasks need in the worst case, in percent.
    pub hard_load: u32,
    /// The share of the CPU that soft jobs need, in percent.
    pub soft_load: u32,
    /// The number of the application among those of this kind.
    pub number: u32,
    /// How much hard jobs leave of their worst case on average, in thousandths.
    pub gain_thousandths: u32,
}

/// An application.
#[derive(Clone, Debug)]
pub struct Application {
    /// What it is like.
    pub request: Request,
    /// The hard tasks, in rate-monotonic order.
    pub tasks: Vec<SporadicTask>,
    /// Hard and soft jobs in order of release.
    pub jobs: Vec<Job>,
    /// How long jobs come.
    pub length: Duration,
}

/// Why there is no application.
#[derive(Debug, thiserror::Error)]
pub enum ApplicationError {
    /// No schedulable set was found.
    #[error(
        "{MOST_DRAWS} sets of {hard_tasks} tasks with a load of {hard_load}% were drawn, and none was \
         schedulable"
    )]
    NotFound {
        /// The number of hard tasks.
        hard_tasks: usize,
        /// Their load, in percent.
        hard_load: u32,
    },
    /// The analysis refuses the tasks.
    #[error(transparent)]
    Analysis(#[from] tailbound_analysis::AnalysisError),
}

/// Draws an application that is schedulable with an allowance for every hard job; the same shape,
/// request and seed yield the same one.
pub fn generate(
    shape: &Shape,
    request: Request,
    seed: u64,
    allowance: Duration,
) -> Result<Application, ApplicationError> {
    let mut random = stream(request, seed);
    for _ in 0..MOST_DRAWS {
        let tasks = hard_tasks(shape, request, &mut random)?;
        if Feasibility::of(&tasks, allowance)?.is_none() {
            continue;
        }
        let jobs = jobs(shape.length, request, &tasks, &mut random);
        return Ok(Application {
            request,
            tasks,
            jobs,
            length: shape.length,
        });
    }
    Err(ApplicationError::NotFound {
        hard_tasks: request.hard_tasks,
        hard_load: request.hard_load,
    })
}

fn stream(request: Request, seed: u64) -> ChaCha8Rng {
    let mut key = [0_u8; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8] = request.experiment;
    key[9] = request.hard_tasks as u8;
    key[10..14].copy_from_slice(&request.hard_load.to_le_bytes());
    key[14..18].copy_from_slice(&request.soft_load.to_le_bytes());
    key[18..22].copy_from_slice(&request.number.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

/// Uniform in (0, 1).
fn unit(random: &mut impl Rng) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// Hard tasks whose loads are uniform among those with the right sum ([`UniformShares`]; sums beyond one
/// task are never asked for, so nothing is discarded), with deadlines at the periods.
///
/// Load and period of a task are drawn one after the other from one stream. The simulator's
/// `generate::task_set` draws them from two, so that its sets of the same seed are other ones.
fn hard_tasks(
    shape: &Shape,
    request: Request,
    random: &mut impl Rng,
) -> Result<Vec<SporadicTask>, tailbound_analysis::AnalysisError> {
    let mut shares = UniformShares::new(
        request.hard_tasks as u32,
        f64::from(request.hard_load) / 100.0,
    );
    let mut tasks = Vec::with_capacity(request.hard_tasks);
    for _ in 0..request.hard_tasks {
        let share = shares.next_share(|| unit(random));
        let place = (unit(random) * shape.periods_ms.len() as f64) as usize;
        let period = Duration::from_millis(shape.periods_ms[place]);
        let execution = (share * period.as_nanos() as f64) as u64;
        let execution = Duration::from_nanos(execution.max(1000));
        tasks.push(SporadicTask::implicit(execution, period)?);
    }
    tasks.sort_by_key(SporadicTask::period);
    Ok(tasks)
}

/// All jobs from a critical instant on.
fn jobs(
    length: Duration,
    request: Request,
    tasks: &[SporadicTask],
    random: &mut impl Rng,
) -> Vec<Job> {
    let mut jobs: Vec<(u64, usize, u64)> = Vec::new();
    let most_left = f64::from(request.gain_thousandths) / 500.0;
    for (index, task) in tasks.iter().enumerate() {
        let mut release = Duration::ZERO;
        while release < length {
            let left = unit(random) * most_left;
            let work = task.execution().as_nanos() as f64 * (1.0 - left);
            jobs.push((release.as_nanos(), index, (work as u64).max(1)));
            release = release.saturating_add(task.period());
        }
    }
    let (shortest, longest) = SOFT_GAPS_MS;
    let gap = 1e6 * shortest * (longest / shortest).powf(unit(random));
    let mean_work = gap * f64::from(request.soft_load) / 100.0;
    let exponential = |random: &mut _| -f64::ln(unit(random));
    let mut release = gap * exponential(random);
    // The first soft job comes early enough in any case.
    release = release.min(HYPERPERIOD.as_nanos() as f64 / 10.0);
    while release < length.as_nanos() as f64 {
        let work = mean_work * exponential(random);
        jobs.push((release as u64, tasks.len(), (work as u64).max(1)));
        release += gap * exponential(random);
    }
    jobs.sort_unstable();
    let numbered = jobs.into_iter().enumerate();
    numbered
        .map(|(number, (release, task, work))| Job {
            delay_ns: 0,
            task,
            number: number as u64,
            release,
            work,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn request() -> Request {
        Request {
            experiment: 1,
            hard_tasks: 8,
            hard_load: 60,
            soft_load: 30,
            number: 0,
            gain_thousandths: 25,
        }
    }

    #[test]
    fn an_application_is_as_requested() {
        let application = generate(&SIMULATED, request(), 1, Duration::ZERO).unwrap();
        let load: f64 = application
            .tasks
            .iter()
            .map(|task| task.execution().as_nanos() as f64 / task.period().as_nanos() as f64)
            .sum();
        assert!((load - 0.6).abs() < 0.002, "{load}");
        for job in &application.jobs {
            let Some(task) = application.tasks.get(job.task) else {
                continue;
            };
            let worst = task.execution().as_nanos();
            assert!(job.work <= worst && job.work as f64 > 0.94 * worst as f64);
            assert_eq!(HYPERPERIOD.as_nanos() % task.period().as_nanos(), 0);
        }
        let soft = application.jobs.iter().filter(|job| job.task == 8);
        assert!(soft.count() > 5);
    }

    #[test]
    fn the_seed_decides() {
        let jobs = |seed| {
            generate(&SIMULATED, request(), seed, Duration::ZERO)
                .unwrap()
                .jobs
        };
        assert_eq!(jobs(1), jobs(1));
        assert_ne!(jobs(1), jobs(2));
    }
}
