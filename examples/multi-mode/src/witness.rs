//! Whether something else had the CPU: other real-time programs, or nobody, because the hypervisor had it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_time::{Clock, Duration};

use crate::case::PERIOD;

/// Below all reservations, above all ordinary programs.
const PRIORITY: u8 = 20;
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Reservations of three quarters of the CPU leave some of it in every two periods.
const USUAL_PERIODS: u64 = 2;

/// A thread on the CPU of the domains that notes how late it comes.
pub struct Witness {
    disturbed_ns: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    /// Starts it.
    ///
    /// # Errors
    /// There can be no thread. If it may not have its priority, it says so, and sees ordinary load, too.
    pub fn start(cpu: u32) -> std::io::Result<Self> {
        let (disturbed_ns, ended) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (seen, end) = (Arc::clone(&disturbed_ns), Arc::clone(&ended));
        let look = move || {
            if let Err(error) =
                pin_current_thread(cpu).and_then(|()| make_current_thread_fifo(PRIORITY))
            {
                eprintln!("the witness of disturbances: {error}");
            }
            while !end.load(Ordering::Relaxed) {
                let wanted = Monotonic.now().saturating_add(LOOK_EVERY);
                if sleep_until(wanted).is_err() {
                    return;
                }
                let late = Monotonic.now().saturating_since(wanted);
                let beyond = late.saturating_sub(PERIOD * USUAL_PERIODS);
                seen.fetch_add(beyond.as_nanos(), Ordering::Relaxed);
            }
        };
        let thread = Builder::new().name("witness".into()).spawn(look)?;
        Ok(Self {
            disturbed_ns,
            ended,
            thread: Some(thread),
        })
    }

    /// How long it was kept from the CPU since the last call, beyond what reservations explain.
    pub fn disturbed_ns(&self) -> u64 {
        self.disturbed_ns.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It panics nowhere.
            let _ended = thread.join();
        }
    }
}
