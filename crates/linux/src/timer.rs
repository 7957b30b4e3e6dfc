//! A timer of the kernel that expires once, with or without somebody who waits for it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;

use tailbound_time::Instant;

use crate::system_call::{check, descriptor, timespec};

/// A one-shot timer on CLOCK_MONOTONIC (timerfd). Its expiry is an interrupt on the CPU that armed it,
/// and wakes who waits for it, if anybody does.
#[derive(Debug)]
pub struct ExpiryTimer(File);

impl ExpiryTimer {
    /// A timer that is not armed.
    ///
    /// # Errors
    /// What timerfd_create reports, such as too many open files.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes two numbers, and makes a descriptor.
        let made = unsafe {
            descriptor(libc::timerfd_create(
                libc::CLOCK_MONOTONIC,
                libc::TFD_CLOEXEC,
            ))
        };
        Ok(Self(File::from(made?)))
    }

    /// Arms it for `instant` of CLOCK_MONOTONIC in place of what it was armed for; a past instant
    /// expires at once.
    ///
    /// # Errors
    /// What timerfd_settime reports.
    pub fn arm(&self, instant: Instant) -> io::Result<()> {
        // Zero would disarm it.
        let setting = libc::itimerspec {
            it_interval: timespec(0),
            it_value: timespec(instant.as_nanos().max(1)),
        };
        // SAFETY: the descriptor is ours, `setting` is valid for the call, and no old one is asked.
        let outcome = unsafe {
            libc::timerfd_settime(
                self.0.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &setting,
                std::ptr::null_mut(),
            )
        };
        check(outcome).map(drop)
    }

    /// Waits for the expiry; at once where it was before.
    ///
    /// # Errors
    /// What the kernel reports other than an interruption by a signal.
    pub fn wait(&self) -> io::Result<()> {
        (&self.0).read_exact(&mut [0; 8])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::clock::Monotonic;
    use tailbound_time::{Clock, Duration};

    #[test]
    fn a_timer_expires_not_before_its_time_and_can_be_armed_again() {
        let timer = ExpiryTimer::new().expect("timerfd");
        for _ in 0..2 {
            let at = Monotonic.now() + Duration::from_millis(1);
            timer.arm(at).expect("arm");
            timer.wait().expect("wait");
            assert!(Monotonic.now() >= at);
        }
        timer.arm(Instant::ORIGIN).expect("arm");
        timer.wait().expect("a past instant");
    }
}
