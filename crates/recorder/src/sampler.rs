//! The sampler of stalls: a real-time thread of each CPU that notes when its wake-up comes late.
//!
//! Above every domain, and asleep nearly always: what delays it is the kernel with interrupts off, interrupts
//! themselves, or a hypervisor that has taken the CPU. Which of them, a reader tells by the events in the gap.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::polling::wake_current_thread_on_time;
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_time::{Clock, Duration, Instant};
use tailbound_trace::recording::SamplerDelay;

/// The most urgent priority that a thread of ours takes while it records; managers of reservations have 98.
const FIFO_PRIORITY: u8 = 97;

/// How stalls are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplerOptions {
    /// From one wake-up to the next.
    pub period: Duration,
    /// Wake-ups that are later than this are kept.
    pub threshold: Duration,
}

impl Default for SamplerOptions {
    /// A wake-up each millisecond; kept if it is 0.2 ms late.
    fn default() -> Self {
        Self {
            period: Duration::from_millis(1),
            threshold: Duration::from_micros(200),
        }
    }
}

/// The delays of wake-ups, as instants go by.
#[derive(Debug)]
struct WakeUps {
    options: SamplerOptions,
    due: Instant,
}

impl WakeUps {
    /// Notes that the wake-up due came at `now`; the delay if it is kept. Wake-ups that fell due meanwhile are passed
    /// over: the one delay holds them.
    fn came(&mut self, now: Instant) -> Option<(Instant, Instant)> {
        let due = self.due;
        let late = now.saturating_since(due);
        let periods = late.as_nanos() / self.options.period.as_nanos().max(1);
        self.due = due.saturating_add(
            self.options
                .period
                .checked_mul(periods + 1)
                .unwrap_or(self.options.period),
        );
        (late > self.options.threshold).then_some((due, now))
    }
}

/// Starts the sampler of a CPU; it ends soon after `stop` is true.
pub(crate) fn start_sampler(
    cpu: u32,
    options: SamplerOptions,
    stop: Arc<AtomicBool>,
    delays: Sender<SamplerDelay>,
) -> std::io::Result<JoinHandle<Result<(), String>>> {
    let sample = move || {
        pin_current_thread(cpu).map_err(|cause| cause.to_string())?;
        make_current_thread_fifo(FIFO_PRIORITY).map_err(|cause| cause.to_string())?;
        // FIFO threads have no slack; where the kernel refused, the next line would matter.
        let _refused_without_harm = wake_current_thread_on_time();
        let due = Monotonic.now().saturating_add(options.period);
        let mut wake_ups = WakeUps { options, due };
        while !stop.load(Ordering::Relaxed) {
            sleep_until(wake_ups.due).map_err(|cause| cause.to_string())?;
            if let Some((due, woke)) = wake_ups.came(Monotonic.now())
                && delays.send(SamplerDelay { cpu, due, woke }).is_err()
            {
                break;
            }
        }
        Ok(())
    };
    std::thread::Builder::new()
        .name(format!("stalls-{cpu}"))
        .spawn(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_one_delay_and_the_grid_stays() {
        let at = |micros: u64| Instant::ORIGIN + Duration::from_micros(micros);
        let options = SamplerOptions::default();
        let mut wake_ups = WakeUps {
            options,
            due: at(1_000),
        };
        assert_eq!(wake_ups.came(at(1_100)), None);
        assert_eq!(wake_ups.came(at(5_600)), Some((at(2_000), at(5_600))));
        assert_eq!(wake_ups.due, at(6_000));
        assert_eq!(wake_ups.came(at(6_010)), None);
        assert_eq!(wake_ups.due, at(7_000));
    }
}
