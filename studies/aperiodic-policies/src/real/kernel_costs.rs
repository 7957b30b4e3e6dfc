//! What this kernel takes for the things that the simulator charges for.
//!
//! A thread that only reads the clock sees how much time is gone when another one has visited its CPU.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::{Serialize, Serializer};
use tailbound_linux::clock::{Monotonic, cpu_time_of_thread, sleep_until};
use tailbound_linux::process::own_thread;
use tailbound_linux::scheduling::{SchedulingSetting, set_scheduling};
use tailbound_linux::thread::ThreadError;
use tailbound_time::{Clock, Duration, Instant};

use super::busy::BusyWork;
use super::threads::{joined, start};
use crate::settings::Settings;

/// Visits of each kind; their median counts.
const VISITS: u64 = 150;
/// From one visit to the next.
const PAUSE: Duration = Duration::from_micros(500);
/// Hand-overs that are timed at once, and how often.
const HAND_OVERS: u32 = 200;
const ROUNDS: usize = 50;
/// All loops end by then, whatever holds them up.
const LONGEST: Duration = Duration::from_secs(5);
/// The watcher's SCHED_FIFO priority, and above it the visitor's.
const WATCHER: u8 = 5;
const VISITOR: u8 = 98;

/// What was measured, by CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct KernelCosts {
    /// The loop of jobs.
    #[serde(skip)]
    pub busy: BusyWork,
    /// From one thread to another of the same rank, by sched_yield: a look of the scheduler included.
    #[serde(rename = "context_switch_ns", serialize_with = "nanoseconds")]
    pub context_switch: Duration,
    /// A thread wakes up by its timer, does nothing, and sleeps again.
    #[serde(rename = "visit_ns", serialize_with = "nanoseconds")]
    pub visit: Duration,
    /// The same, but it reads another thread's CPU clock and changes its rank.
    #[serde(rename = "visit_with_change_ns", serialize_with = "nanoseconds")]
    pub visit_with_change: Duration,
}

impl KernelCosts {
    /// Measures on `cpu`, which is idle for a part of it. Where nothing else wants that CPU it takes less
    /// than a second. What does not end by [`LONGEST`] is given up.
    ///
    /// # Errors
    /// If threads cannot be what they have to be, or something of a higher priority has the CPU.
    pub fn measure(cpu: u32) -> Result<Self, ThreadError> {
        let until = Monotonic.now() + LONGEST;
        Ok(Self {
            busy: calibrated(cpu)?,
            context_switch: context_switch(cpu, until)?,
            visit: visit(cpu, false, until)?,
            visit_with_change: visit(cpu, true, until)?,
        })
    }

    /// In the simulator's words. A job costs an interrupt and two switches, which is a visit; a look
    /// cannot be told from the switch that it leads to. A replenishment or promotion is a visit of the
    /// manager.
    pub fn settings(&self) -> Settings {
        let interrupt = self.visit.saturating_sub(self.context_switch * 2);
        Settings::of_kernel(interrupt, self.context_switch, self.visit_with_change)
    }
}

/// Times the loop of jobs on that CPU.
fn calibrated(cpu: u32) -> Result<BusyWork, ThreadError> {
    std::thread::scope(|scope| {
        let (ready, handle) = start(scope, cpu, WATCHER, |()| BusyWork::calibrate())?;
        let _begun = ready.begin.send(());
        drop(ready);
        joined(handle).ok_or_else(given_up)
    })
}

/// Runs `watch` on a thread of the watcher's rank, and beside it `other` at `priority`. Either is told
/// when it has to have ended, the latter also the watcher's thread.
///
/// Both stand ready before one of them begins, and the watcher gives the other one the word: a loop of
/// one that waits for the other never keeps it from the CPU, or from beginning.
fn beside<T: Send>(
    cpu: u32,
    until: Instant,
    (priority, other): (u8, impl FnOnce(Instant, u32) + Send),
    watch: impl FnOnce(Instant) -> Option<T> + Send,
) -> Result<T, ThreadError> {
    std::thread::scope(|scope| {
        let body = |(until, watcher)| other(until, watcher);
        let (second, other) = start(scope, cpu, priority, body)?;
        let body = move |until| {
            let _begun = second.begin.send((until, own_thread()));
            watch(until)
        };
        let (first, watcher) = start(scope, cpu, WATCHER, body)?;
        let _begun = first.begin.send(until);
        // The watcher's thread stays as long as the other one knows it.
        let _done = joined(other);
        drop(first);
        joined(watcher).flatten().ok_or_else(given_up)
    })
}

fn given_up() -> ThreadError {
    ThreadError::System {
        attempt: "measure what scheduling costs, since the CPU is taken by something of a higher \
                  priority (choose another one by --cpu)",
        cause: io::ErrorKind::TimedOut.into(),
    }
}

/// Two threads of the same rank hand the CPU over to each other.
fn context_switch(cpu: u32, until: Instant) -> Result<Duration, ThreadError> {
    let stop = &AtomicBool::new(false);
    let partner = |until, _| {
        while !stop.load(Ordering::Relaxed) && Monotonic.now() < until {
            for _ in 0..HAND_OVERS {
                std::thread::yield_now();
            }
        }
    };
    beside(cpu, until, (WATCHER, partner), |until| {
        let mut rounds = Vec::with_capacity(ROUNDS);
        // The partner begins at the first yield, or while we wait for another thread.
        std::thread::yield_now();
        while rounds.len() < ROUNDS && Monotonic.now() < until {
            let begin = Monotonic.now();
            for _ in 0..HAND_OVERS {
                std::thread::yield_now();
            }
            let passed = Monotonic.now().saturating_since(begin);
            rounds.push(passed / u64::from(HAND_OVERS * 2));
        }
        stop.store(true, Ordering::Relaxed);
        (rounds.len() == ROUNDS).then(|| median(rounds)).flatten()
    })
}

/// The time that is gone for the watcher when the visitor was there.
fn visit(cpu: u32, change: bool, until: Instant) -> Result<Duration, ThreadError> {
    let (visits, over) = (&AtomicU64::new(0), &AtomicBool::new(false));
    let visitor = |until, watcher| {
        for visit in 0..VISITS {
            if Monotonic.now() >= until || sleep_until(Monotonic.now() + PAUSE).is_err() {
                break;
            }
            if change {
                let rank = SchedulingSetting::Fifo {
                    priority: WATCHER + (visit % 2) as u8,
                    reset_on_fork: true,
                };
                let _used = cpu_time_of_thread(watcher);
                let _same_rank_at_worst = set_scheduling(watcher, rank);
            }
            visits.fetch_add(1, Ordering::Relaxed);
        }
        over.store(true, Ordering::Relaxed);
    };
    beside(cpu, until, (VISITOR, visitor), |until| {
        let (mut lost, mut seen, mut last) = (Vec::new(), 0, Monotonic.now());
        while !over.load(Ordering::Relaxed) && last < until {
            let visited = visits.load(Ordering::Relaxed);
            // Read after the count: a visit that is counted is over.
            let now = Monotonic.now();
            if visited == seen + 1 {
                lost.push(now.saturating_since(last));
            }
            (seen, last) = (visited, now);
        }
        (seen + 1 >= VISITS).then(|| median(lost)).flatten()
    })
}

fn nanoseconds<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(length.as_nanos())
}

/// The upper one of an even number.
fn median(mut values: Vec<Duration>) -> Option<Duration> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tailbound_linux::clock::thread_cpu_time;
    use tailbound_linux::thread::current_cpu;

    use super::*;

    /// Whether real-time threads are permitted; says so if not.
    fn permitted(cpu: u32) -> bool {
        let refused = matches!(calibrated(cpu), Err(ThreadError::FifoNotPermitted { .. }));
        if refused {
            eprintln!("SKIP costs of the kernel: needs CAP_SYS_NICE");
        }
        !refused
    }

    #[test]
    fn a_watcher_that_does_nothing_but_wait_keeps_nobody_from_the_cpu() {
        let cpu = current_cpu().unwrap();
        if !permitted(cpu) {
            return;
        }
        for _ in 0..20 {
            let there = &AtomicBool::new(false);
            let visitor = |_, _| there.store(true, Ordering::Relaxed);
            let waited = beside(cpu, Monotonic.now() + LONGEST, (VISITOR, visitor), |_| {
                // Its CPU time does not go on while another one has the CPU.
                let most = thread_cpu_time() + Duration::from_millis(200);
                while !there.load(Ordering::Relaxed) && thread_cpu_time() < most {}
                Some(there.load(Ordering::Relaxed))
            });
            assert!(waited.unwrap());
        }
    }

    #[test]
    fn what_has_no_time_is_given_up() {
        let cpu = current_cpu().unwrap();
        if !permitted(cpu) {
            return;
        }
        let now = Monotonic.now();
        for outcome in [
            context_switch(cpu, now),
            visit(cpu, false, now),
            visit(cpu, true, now),
        ] {
            match outcome {
                Err(ThreadError::System { cause, .. }) => {
                    assert_eq!(cause.kind(), io::ErrorKind::TimedOut);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
