//! Soft jobs in a process of their own, for enforcement does not put the process that it runs in under a
//! reservation.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};
use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::memory::{lock_touched_pages, touch_stack};
use tailbound_linux::spawn::{kill_group, spawn_on};
use tailbound_simulator::hierarchy::{Completion, Job};
use tailbound_time::{Clock, Duration, Instant};

use super::Role;
use super::busy::{BusyWork, Stalls};
use super::threads::{Executed, Span, execute};

/// What the worker prints when it stands ready.
const READY: &str = "ready";

/// So long its end is waited for once it was killed, with a look so often.
const LONGEST_END: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);

/// What the worker is told, in one line.
#[derive(Debug, Serialize, Deserialize)]
struct Orders {
    /// CLOCK_MONOTONIC.
    start_ns: u64,
    /// CLOCK_MONOTONIC.
    end_ns: u64,
    busy: BusyWork,
    /// Task, number, release and work.
    jobs: Vec<(usize, u64, u64, u64)>,
}

/// What it tells in the end.
#[derive(Debug, Serialize, Deserialize)]
struct WorkReport {
    /// Task, number, release and end.
    completions: Vec<(usize, u64, u64, u64)>,
    used: Duration,
    stalls: Stalls,
    on_cpu: Vec<(u64, u64)>,
}

/// The process.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts it; it has no reservation yet, and dies with the calling thread.
    pub fn start(cpu: u32) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(Role::SoftJobs.arguments());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn_on(&mut command, &BTreeSet::from([cpu]))?;
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut worker = Self {
            child,
            stdout: BufReader::new(stdout),
        };
        let mut line = String::new();
        worker.stdout.read_line(&mut line)?;
        match line.trim() == READY {
            true => Ok(worker),
            false => Err(io::Error::other(
                "the process of the soft jobs did not come up",
            )),
        }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives it its jobs.
    pub fn begin(&mut self, jobs: &[Job], span: Span, busy: BusyWork) -> io::Result<()> {
        let jobs = jobs.iter();
        let orders = Orders {
            start_ns: span.start.as_nanos(),
            end_ns: span.end.as_nanos(),
            busy,
            jobs: jobs
                .map(|job| (job.task, job.number, job.release, job.work))
                .collect(),
        };
        let line = serde_json::to_string(&orders)? + "\n";
        let mut stdin = self.child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(line.as_bytes())
    }

    /// What it has done. It must not be under a reservation any more, lest it stand still.
    pub fn finish(mut self) -> io::Result<Executed> {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text)?;
        let report: WorkReport = serde_json::from_str(&text)?;
        let completions = report.completions.into_iter();
        let completion = |(task, number, release, end)| Completion {
            task,
            number,
            release,
            end,
        };
        Ok(Executed {
            completions: completions.map(completion).collect(),
            used: report.used,
            stalls: report.stalls,
            on_cpu: report.on_cpu,
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _gone_already = kill_group(&self.child);
        if !reap(&mut self.child, LONGEST_END) {
            let pid = self.child.id();
            eprintln!(
                "process {pid} of the soft jobs was killed and does not end, as if it stood still under its \
                 reservation; the process that restores the host goes on"
            );
        }
    }
}

/// Waits for its end, and says whether that came. Standing still a process may outlive SIGKILL.
fn reap(child: &mut Child, at_most: Duration) -> bool {
    let until = Monotonic.now() + at_most;
    loop {
        match child.try_wait() {
            Ok(None) if Monotonic.now() < until => {}
            Ok(status) => return status.is_some(),
            Err(_) => return false,
        }
        if sleep_until(Monotonic.now() + LOOK).is_err() {
            return false;
        }
    }
}

/// The worker's side.
pub fn work() -> io::Result<()> {
    lock_touched_pages()?;
    touch_stack();
    println!("{READY}");
    io::stdout().flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let orders: Orders = serde_json::from_str(&line)?;
    let jobs = orders.jobs.into_iter();
    let job = |(task, number, release, work)| Job {
        delay_ns: 0,
        task,
        number,
        release,
        work,
    };
    let jobs: Vec<Job> = jobs.map(job).collect();
    let span = Span {
        start: Instant::from_nanos(orders.start_ns),
        end: Instant::from_nanos(orders.end_ns),
    };
    let executed = execute(&jobs, span, &orders.busy, |_, _| {});
    let completions = executed.completions.into_iter();
    let report = WorkReport {
        completions: completions
            .map(|done| (done.task, done.number, done.release, done.end))
            .collect(),
        used: executed.used,
        stalls: executed.stalls,
        on_cpu: executed.on_cpu,
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nobody_waits_without_bound_for_a_process_that_does_not_end() {
        let mut command = Command::new("sleep");
        let mut child = spawn_on(command.arg("600"), &BTreeSet::new()).unwrap();
        assert!(!reap(&mut child, LOOK * 4));
        kill_group(&child).unwrap();
        assert!(reap(&mut child, Duration::from_secs(60)));
    }
}
