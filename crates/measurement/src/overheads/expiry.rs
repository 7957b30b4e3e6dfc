//! What the expiry of a timer takes from a thread that is busy: the longest gap around it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::timer::ExpiryTimer;
use tailbound_time::{Clock, Duration, Instant};

use super::partner::{self, FIFO_PRIORITY, refused};
use super::series::Cost;
use super::turns::in_turns;
use crate::MeasurementError;

/// From arming a timer to its expiry: the thread is busy by then.
const AHEAD: Duration = Duration::from_micros(30);
/// How long after it a gap is its doing.
const AFTERWARDS: Duration = Duration::from_micros(50);
/// How often a stall may hit the moment at which a timer is armed.
const MOST_ATTEMPTS: u32 = 100;
/// What a woken thread of lower priority has to wait again.
const REST: Duration = Duration::from_micros(50);

/// What expiries take.
pub(super) struct ExpiryCosts {
    /// To arm a timer, beyond a reading of the clock: what a thread pays itself to be woken.
    pub arming: Option<Cost>,
    /// Of a timer that nobody waits for: the interrupt alone.
    pub interrupt: Option<Cost>,
    /// Of one that wakes a thread of lower priority, which does not run yet.
    pub with_wake_up: Option<Cost>,
    /// Of one that wakes a thread of higher priority, which runs and waits again.
    pub preemption: Option<Cost>,
}

/// Is busy until a while after `expiry`; the longest gap that ends after `expiry`. `None` where it was
/// not busy by then.
fn longest_gap(expiry: Instant) -> Option<Duration> {
    let end = expiry.saturating_add(AFTERWARDS);
    let mut last = Monotonic.now();
    if last >= expiry {
        return None;
    }
    let mut longest = Duration::ZERO;
    while last < end {
        let now = Monotonic.now();
        if now >= expiry {
            longest = longest.max(now.saturating_since(last));
        }
        last = now;
    }
    Some(longest)
}

fn quiet() -> Result<Duration, MeasurementError> {
    in_time(|_| Ok(()))
}

fn disturbed(timer: &ExpiryTimer) -> Result<Duration, MeasurementError> {
    in_time(|expiry| timer.arm(expiry).map_err(refused("arm a timer")))
}

/// The longest gap around an expiry that `arm` set up. Where the machine stalled meanwhile, it is set up
/// once more.
fn in_time(
    arm: impl Fn(Instant) -> Result<(), MeasurementError>,
) -> Result<Duration, MeasurementError> {
    for _ in 0..MOST_ATTEMPTS {
        let expiry = Monotonic.now().saturating_add(AHEAD);
        arm(expiry)?;
        if let Some(gap) = longest_gap(expiry) {
            return Ok(gap);
        }
    }
    Err(MeasurementError::BadPlan {
        what: format!("overheads: to arm a timer takes longer than {AHEAD} on this host"),
        remedy: "measure while the host, and the hypervisor below it, is less busy".into(),
    })
}

/// To arm a timer that is left to expire later, while nothing is timed.
fn armed(timer: &ExpiryTimer) -> Result<Duration, MeasurementError> {
    let expiry = Monotonic.now().saturating_add(AHEAD);
    let begin = Monotonic.now();
    timer.arm(expiry).map_err(refused("arm a timer"))?;
    let taken = Monotonic.now().saturating_since(begin);
    let _late_at_worst = longest_gap(expiry);
    Ok(taken)
}

fn reading() -> Result<Duration, MeasurementError> {
    let begin = Monotonic.now();
    Ok(Monotonic.now().saturating_since(begin))
}

fn timer() -> Result<ExpiryTimer, MeasurementError> {
    ExpiryTimer::new().map_err(refused("make a timer"))
}

/// With the calling thread alone.
pub(super) fn alone(length: Duration) -> Result<ExpiryCosts, MeasurementError> {
    let unheard = timer()?;
    let mut interrupted = || disturbed(&unheard);
    let [without, interrupt, read, arming] = in_turns(
        length,
        [&mut quiet, &mut interrupted, &mut reading, &mut || {
            armed(&unheard)
        }],
    )?;
    Ok(ExpiryCosts {
        arming: Cost::between(&arming, &read),
        interrupt: Cost::between(&interrupt, &without),
        with_wake_up: None,
        preemption: None,
    })
}

/// With a thread below and one above the calling one, which is at [`FIFO_PRIORITY`].
pub(super) fn with_sleepers(length: Duration) -> Result<ExpiryCosts, MeasurementError> {
    let (unheard, lower, higher) = (timer()?, timer()?, timer()?);
    let ended = AtomicBool::new(false);
    let wait =
        |timer: &ExpiryTimer| while timer.wait().is_ok() && !ended.load(Ordering::Acquire) {};
    thread::scope(|scope| {
        let outcome = (|| {
            partner::start(scope, FIFO_PRIORITY - 1, || wait(&lower))?;
            partner::start(scope, FIFO_PRIORITY + 1, || wait(&higher))?;
            let mut interrupted = || disturbed(&unheard);
            let mut waking = || {
                let gap = disturbed(&lower);
                let _no_rest_at_worst = sleep_until(Monotonic.now() + REST);
                gap
            };
            let mut preempted = || disturbed(&higher);
            in_turns(
                length,
                [
                    &mut quiet,
                    &mut interrupted,
                    &mut waking,
                    &mut preempted,
                    &mut reading,
                    &mut || armed(&unheard),
                ],
            )
        })();
        ended.store(true, Ordering::Release);
        for timer in [&lower, &higher] {
            timer.arm(Instant::ORIGIN).map_err(refused("arm a timer"))?;
        }
        let [without, interrupt, with_wake_up, preemption, read, arming] = outcome?;
        Ok(ExpiryCosts {
            arming: Cost::between(&arming, &read),
            interrupt: Cost::between(&interrupt, &without),
            with_wake_up: Cost::between(&with_wake_up, &without),
            preemption: Cost::between(&preemption, &without),
        })
    })
}
