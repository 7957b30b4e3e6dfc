//! The supply of CPUs over time: a light sampler that notes when a CPU was taken away.
//!
//! A thread on each CPU looks at the clock every two milliseconds, at a priority above that of domains. A
//! look that comes late means that something took the CPU away from everything on it: the hypervisor, the
//! firmware, or the kernel itself. [`noise`](crate::noise()) looks without a pause instead, and so keeps a CPU for
//! itself; this one takes a few microseconds of each look and can go on beside what is measured.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_model::{Cpu, CpuSet};
use tailbound_time::{Clock, Duration, Instant};

use crate::MeasurementError;

/// The distance between two looks.
pub const LOOK_DISTANCE: Duration = Duration::from_millis(2);
/// A look that is late by less is on time: so long a timer and an idle CPU take to wake a thread.
const ON_TIME: Duration = Duration::from_micros(250);
/// The sampler's FIFO priority: above domains and load generators, below the managers of reservations.
const FIFO_PRIORITY: u8 = 95;
/// The most looks that are kept; ten an instant for an hour.
const MOST_LATE: usize = 100_000;

/// A look at the clock that came late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupplyGap {
    /// When the look was due.
    pub due: Instant,
    /// By how much it was late.
    pub late: Duration,
}

/// The supply of a CPU for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupplyTrace {
    /// The CPU.
    pub cpu: Cpu,
    /// The first look.
    pub begin: Instant,
    /// The last one.
    pub end: Instant,
    /// The looks that came late, in order of time.
    pub gaps: Vec<SupplyGap>,
}

impl SupplyTrace {
    /// Whether the CPU was taken away at some time between two instants, as far as the looks tell.
    pub fn is_interrupted(&self, from: Instant, until: Instant) -> bool {
        let end = |gap: &SupplyGap| gap.due.saturating_add(gap.late);
        let first = self.gaps.partition_point(|gap| end(gap) < from);
        let next = self.gaps.get(first);
        next.is_some_and(|gap| gap.due <= until)
    }

    /// Writes the late looks as CSV: `cpu,due_ns,late_ns` behind `label`, due since the first look.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_csv(&self, label: &str, out: &mut dyn Write) -> io::Result<()> {
        for gap in &self.gaps {
            let due = gap.due.saturating_since(self.begin);
            let (cpu, late) = (self.cpu, gap.late.as_nanos());
            writeln!(out, "{label},{cpu},{},{late}", due.as_nanos())?;
        }
        Ok(())
    }
}

/// Samplers that run until they are ended, or dropped.
#[derive(Debug)]
pub struct SupplySampler {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<SupplyTrace, MeasurementError>>>,
}

impl SupplySampler {
    /// Begins to sample these CPUs.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(cpus: &CpuSet) -> Result<Self, MeasurementError> {
        let mut sampler = Self {
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        for cpu in cpus {
            let (cpu, stop) = (*cpu, Arc::clone(&sampler.stop));
            let thread = std::thread::Builder::new()
                .name(format!("supply-{cpu}"))
                .spawn(move || sample(cpu, &stop))
                .map_err(|cause| MeasurementError::Host {
                    what: "start the supply sampler's thread".into(),
                    cause,
                    remedy: "raise the limit of threads".into(),
                })?;
            sampler.threads.push(thread);
        }
        Ok(sampler)
    }

    /// Ends sampling: the supply of each CPU.
    ///
    /// # Errors
    /// A CPU does not exist, or real-time priority was refused, without which a busy neighbour would look like
    /// a stall.
    pub fn finish(mut self) -> Result<Vec<SupplyTrace>, MeasurementError> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = std::mem::take(&mut self.threads).into_iter();
        let traces = ended.map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        // All threads are waited for before the first error is returned.
        let traces: Vec<Result<SupplyTrace, MeasurementError>> = traces.collect();
        traces.into_iter().collect()
    }
}

impl Drop for SupplySampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in std::mem::take(&mut self.threads) {
            let _nobody_wants_it = thread.join();
        }
    }
}

fn sample(cpu: Cpu, stop: &AtomicBool) -> Result<SupplyTrace, MeasurementError> {
    pin_current_thread(cpu.0).map_err(|cause| MeasurementError::BadPlan {
        what: format!("the supply of a CPU: {cause}"),
        remedy: "name an online CPU of this host".into(),
    })?;
    make_current_thread_fifo(FIFO_PRIORITY).map_err(|cause| MeasurementError::BadPlan {
        what: format!("the supply of CPU {cpu} was not sampled: {cause}"),
        remedy: "run it as root, or with CAP_SYS_NICE".into(),
    })?;
    let mut sleep = |instant| {
        let _early_at_worst = sleep_until(instant);
    };
    Ok(look_until(cpu, &Monotonic, &mut sleep, &|| {
        stop.load(Ordering::Relaxed)
    }))
}

/// Looks at the clock until `is_over`. A look that is due while another is late does not come: the gap ends
/// with the first one that comes.
fn look_until(
    cpu: Cpu,
    clock: &impl Clock,
    sleep: &mut dyn FnMut(Instant),
    is_over: &dyn Fn() -> bool,
) -> SupplyTrace {
    let begin = clock.now();
    let mut trace = SupplyTrace {
        cpu,
        begin,
        end: begin,
        gaps: Vec::with_capacity(1_024),
    };
    let mut due = begin.saturating_add(LOOK_DISTANCE);
    while !is_over() && trace.gaps.len() < MOST_LATE {
        sleep(due);
        trace.end = clock.now();
        let late = trace.end.saturating_since(due);
        if late > ON_TIME {
            trace.gaps.push(SupplyGap { due, late });
        }
        // Sleeping until an instant that has passed would be no look.
        while due <= trace.end {
            due = due.saturating_add(LOOK_DISTANCE);
        }
    }
    trace
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::Cell;

    use tailbound_time::ClockId;

    use super::*;

    /// A clock that stands between looks.
    struct Standing(Cell<Instant>);

    impl Clock for Standing {
        fn id(&self) -> ClockId {
            ClockId::Virtual
        }

        fn now(&self) -> Instant {
            self.0.get()
        }
    }

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    #[test]
    fn a_late_look_is_a_gap_and_the_looks_within_it_do_not_come() {
        let clock = Standing(Cell::new(at(0)));
        let mut looks = 0;
        let over = Cell::new(false);
        let mut sleep = |due: Instant| {
            looks += 1;
            // The second look comes 5 ms late, all others 50 us.
            let late = if looks == 2 { 5_000 } else { 50 };
            clock.0.set(due.saturating_add(Duration::from_micros(late)));
            over.set(looks == 4);
        };
        let trace = look_until(Cpu(0), &clock, &mut sleep, &|| over.get());
        let gap = SupplyGap {
            due: at(4_000),
            late: Duration::from_millis(5),
        };
        assert_eq!(trace.gaps, [gap]);
        // Looks at 2, 4 (at 9), 10 and 12 ms.
        assert_eq!(trace.end, at(12_050));
        assert!(trace.is_interrupted(at(1_000), at(4_000)));
        assert!(trace.is_interrupted(at(8_000), at(20_000)));
        assert!(!trace.is_interrupted(at(0), at(3_999)));
        assert!(!trace.is_interrupted(at(9_001), at(20_000)));
        let mut csv = Vec::new();
        trace.write_csv("run", &mut csv).unwrap();
        assert_eq!(String::from_utf8(csv).unwrap(), "run,0,4000000,5000000\n");
    }
}
