//! The kernel's clocks, and sleeping on them.

use std::io;

use tailbound_time::{Clock, ClockId, Duration, Instant};

use crate::system_call::{check, timespec};

/// CLOCK_MONOTONIC: what timers and sleeps of the kernel use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

/// CLOCK_MONOTONIC_RAW: the hardware's own rate, for measuring; never to sleep on.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicRaw;

impl Clock for Monotonic {
    fn id(&self) -> ClockId {
        ClockId::Monotonic
    }

    #[inline]
    fn now(&self) -> Instant {
        Instant::from_nanos(read_ns(libc::CLOCK_MONOTONIC).unwrap_or(0))
    }
}

impl Clock for MonotonicRaw {
    fn id(&self) -> ClockId {
        ClockId::MonotonicRaw
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(read_ns(libc::CLOCK_MONOTONIC_RAW).unwrap_or(0))
    }
}

/// CPU time that the calling thread has used since it began.
pub fn thread_cpu_time() -> Duration {
    Duration::from_nanos(read_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0))
}

/// CPU time that this process has used since it began, all threads together.
pub fn process_cpu_time() -> Duration {
    Duration::from_nanos(read_ns(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0))
}

/// CPU time that thread `tid` *of this process* has used.
///
/// Exact while that thread sleeps; up to a tick old while it runs on another CPU.
///
/// # Errors
/// EINVAL where `tid` is no thread of this process (the kernel hides the clocks of others).
pub fn cpu_time_of_thread(tid: u32) -> io::Result<Duration> {
    // The kernel's encoding (linux/posix-timers_types.h): the complement of the id above three
    // bits, of which 4 says "one thread" and 2 "the scheduler's clock".
    let clock = (!(tid as libc::clockid_t) << 3) | 4 | 2;
    read_ns(clock).map(Duration::from_nanos)
}

/// CPU time that process `pid` has used, all its threads together; any process may be asked.
///
/// # Errors
/// EINVAL where there is no such process.
pub fn cpu_time_of_process(pid: u32) -> io::Result<Duration> {
    let clock = (!(pid as libc::clockid_t) << 3) | 2;
    read_ns(clock).map(Duration::from_nanos)
}

/// Sleeps until `instant` of CLOCK_MONOTONIC; a signal does not cut it short, a past instant
/// returns at once.
///
/// # Errors
/// What `clock_nanosleep` reports other than EINTR.
pub fn sleep_until(instant: Instant) -> io::Result<()> {
    let target = timespec(instant.as_nanos());
    loop {
        // SAFETY: `target` is a valid timespec for the length of the call; no remainder is asked.
        let outcome = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &target,
                std::ptr::null_mut(),
            )
        };
        match outcome {
            0 => return Ok(()),
            libc::EINTR => {}
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// Steps CLOCK_REALTIME by `seconds`. A step and the opposite step leave the clock exactly as it would be
/// without both; CLOCK_MONOTONIC does not notice.
///
/// # Errors
/// EPERM without CAP_SYS_TIME.
pub fn step_wall_clock(seconds: i64) -> io::Result<()> {
    // SAFETY: all bytes zero are a valid `timex`, which asks for nothing.
    let mut step: libc::timex = unsafe { std::mem::zeroed() };
    step.modes = libc::ADJ_SETOFFSET;
    step.time.tv_sec = seconds as libc::time_t;
    // SAFETY: `step` is a valid place for the request and the answer.
    check(unsafe { libc::adjtimex(&mut step) }).map(drop)
}

#[inline]
fn read_ns(clock: libc::clockid_t) -> io::Result<u64> {
    let mut now = timespec(0);
    // SAFETY: `now` is a valid place for the answer.
    check(unsafe { libc::clock_gettime(clock, &mut now) })?;
    Ok(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn clocks_move_forward() {
        let before = (Monotonic.now(), MonotonicRaw.now());
        sleep_until(before.0 + Duration::from_millis(2)).expect("sleep");
        assert!(Monotonic.now() >= before.0 + Duration::from_millis(2));
        assert!(MonotonicRaw.now() > before.1);
    }

    #[test]
    fn a_past_instant_does_not_sleep_for_ever() {
        sleep_until(Instant::ORIGIN).expect("sleep");
    }

    #[test]
    fn own_clocks_can_be_read_by_id() {
        let tid = crate::process::own_thread();
        let before = thread_cpu_time();
        let by_id = cpu_time_of_thread(tid).expect("own thread");
        assert!(by_id >= before && by_id <= thread_cpu_time());
        let of_process = cpu_time_of_process(std::process::id()).expect("own process");
        assert!(of_process <= process_cpu_time());
    }

    #[test]
    fn a_step_of_nothing_is_taken_or_not_permitted() {
        match step_wall_clock(0) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
    }

    #[test]
    fn the_clock_of_a_stranger_thread_is_refused() {
        assert!(cpu_time_of_thread(1).is_err());
    }
}
