//! A real periodic task: releases jobs on a grid, executes them in a loop of known length, and tells how
//! many missed their deadlines.
//!
//! It releases nothing before its first SIGCONT. Each SIGCONT begins a new grid at once; a job that was cut
//! by the stop before is not counted. A job whose deadline has passed before it begins is missed, and is
//! not executed. Every line of its output is one write, so that tasks of a virtual machine share a console.
//!
//! The loop is timed at the start, before anything is reserved, as the shortest of many short runs. The CPU
//! clock would not do for jobs: in a virtual machine it goes on while the virtual CPU is kept waiting.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use signal_hook::consts::{SIGCONT, SIGTERM};
use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::thread::make_current_thread_fifo;
use tailbound_time::{Clock, Duration};

/// How often the loop is timed; the shortest counts, for whatever else there is only prolongs it.
const CALIBRATIONS: u32 = 400;
/// The iterations of one timing: some tenths of a millisecond, which are seldom interrupted.
const CALIBRATION_ITERATIONS: u64 = 100_000;
/// Signals are looked at after so many iterations.
const CHUNK_ITERATIONS: u64 = 20_000;
/// Between looks at whether the task was started.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Releases jobs on a grid and tells how many missed their deadlines
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The name in every line of output
    #[arg(long)]
    name: String,
    /// Between two releases; the deadline, too
    #[arg(long)]
    period: Duration,
    /// CPU time of each job, as the loop takes it where nothing else runs
    #[arg(long)]
    work: Duration,
    /// Between two lines of output
    #[arg(long, default_value = "250ms")]
    report: Duration,
    /// Run at this SCHED_FIFO priority after the loop is timed
    #[arg(long)]
    fifo: Option<u8>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("periodic {}: {error}", arguments.name);
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let signals = Signals {
        continued: Arc::default(),
        ended: Arc::default(),
    };
    signal_hook::flag::register(SIGCONT, Arc::clone(&signals.continued))?;
    signal_hook::flag::register(SIGTERM, Arc::clone(&signals.ended))?;
    if arguments.period.is_zero() || arguments.report.is_zero() {
        return Err("--period and --report must be above zero".into());
    }
    let per_ms = iterations_per_ms();
    let job = iterations_of(arguments.work, per_ms);
    if let Some(priority) = arguments.fifo {
        make_current_thread_fifo(priority)?;
    }
    tell(&format!("periodic {} ready {per_ms}\n", arguments.name))?;
    while !signals.continued.load(Ordering::Relaxed) && !signals.ended() {
        sleep_until(Monotonic.now().saturating_add(LOOK_AGAIN_AFTER))?;
    }
    let mut counts = Counts::default();
    let mut release = Monotonic.now();
    let mut reported_at = release;
    while !signals.ended() {
        sleep_until(release)?;
        if signals.new_grid() {
            release = Monotonic.now();
        }
        let deadline = release.saturating_add(arguments.period);
        let dropped = Monotonic.now() > deadline;
        if !dropped && !spin(job, &signals) {
            // Cut: the next pass begins a new grid.
            continue;
        }
        let now = Monotonic.now();
        counts.job(now.saturating_since(release), arguments.period);
        release = deadline;
        if now.saturating_since(reported_at) >= arguments.report {
            reported_at = now;
            tell(&counts.line(&arguments.name))?;
        }
    }
    tell(&counts.line(&arguments.name))?;
    Ok(())
}

/// What the task was sent.
struct Signals {
    continued: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Signals {
    fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Whether a SIGCONT has come since the last call.
    fn new_grid(&self) -> bool {
        self.continued.swap(false, Ordering::Relaxed)
    }
}

/// What has become of jobs.
#[derive(Debug, Default)]
struct Counts {
    jobs: u64,
    missed: u64,
    /// Since the last line.
    longest: Duration,
}

impl Counts {
    fn job(&mut self, response: Duration, deadline: Duration) {
        self.jobs += 1;
        self.missed += u64::from(response > deadline);
        self.longest = self.longest.max(response);
    }

    /// Jobs and misses since the start, and the longest response time since the last line, in ns.
    fn line(&mut self, name: &str) -> String {
        let longest = std::mem::take(&mut self.longest);
        let Self { jobs, missed, .. } = self;
        format!("periodic {name} {jobs} {missed} {}\n", longest.as_nanos())
    }
}

fn tell(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}

fn iterations_per_ms() -> u64 {
    let shortest = (0..CALIBRATIONS)
        .map(|_| {
            let begin = Monotonic.now();
            burn(CALIBRATION_ITERATIONS);
            Monotonic.now().saturating_since(begin).as_nanos()
        })
        .min()
        .unwrap_or(1);
    CALIBRATION_ITERATIONS * 1_000_000 / shortest.max(1)
}

fn iterations_of(work: Duration, per_ms: u64) -> u64 {
    let iterations = u128::from(work.as_nanos()) * u128::from(per_ms) / 1_000_000;
    u64::try_from(iterations).unwrap_or(u64::MAX)
}

/// Executes a job; `false` if it was cut, by a stop or the end.
fn spin(iterations: u64, signals: &Signals) -> bool {
    let mut left = iterations;
    while left > 0 {
        if signals.continued.load(Ordering::Relaxed) || signals.ended() {
            return false;
        }
        let chunk = left.min(CHUNK_ITERATIONS);
        burn(chunk);
        left -= chunk;
    }
    true
}

fn burn(iterations: u64) {
    let mut value = iterations;
    for _ in 0..iterations {
        value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005) | 1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_job_that_takes_longer_than_its_deadline_is_missed() {
        let mut counts = Counts::default();
        counts.job(ms(20), ms(20));
        counts.job(ms(21), ms(20));
        assert_eq!(counts.line("arm.m0a"), "periodic arm.m0a 2 1 21000000\n");
        counts.job(ms(3), ms(20));
        assert_eq!(counts.line("arm.m0a"), "periodic arm.m0a 3 1 3000000\n");
    }

    #[test]
    fn a_job_is_cut_by_a_signal_and_counts_iterations_otherwise() {
        let signals = Signals {
            continued: Arc::default(),
            ended: Arc::default(),
        };
        assert!(spin(3 * CHUNK_ITERATIONS + 1, &signals));
        signals.continued.store(true, Ordering::Relaxed);
        assert!(!spin(1, &signals) && signals.new_grid() && spin(1, &signals));
        assert_eq!(iterations_of(ms(3), 500_000), 1_500_000);
        assert!(iterations_per_ms() > 0);
    }
}
