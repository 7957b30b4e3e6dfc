//! Signals that a program takes when it asks for them, in place of handlers.

use std::io;
use std::mem;
use std::ptr;

use tailbound_time::Duration;

use crate::system_call::{check, timespec};

/// A signal to a program that serves until it is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceSignal {
    /// SIGHUP: the configuration may have changed.
    Reload,
    /// SIGUSR1: somebody wants to know the state.
    Report,
    /// SIGINT or SIGTERM.
    End,
}

impl ServiceSignal {
    const NUMBERS: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGUSR1, libc::SIGINT, libc::SIGTERM];

    fn of(number: libc::c_int) -> Self {
        match number {
            libc::SIGHUP => Self::Reload,
            libc::SIGUSR1 => Self::Report,
            _ => Self::End,
        }
    }
}

/// The signals to this program, which wait until they are taken. They are held back in the thread that makes the queue and in
/// those that it starts, so it is made before others are started. When the queue is dropped they have their usual effect again in
/// this thread.
#[derive(Debug)]
pub struct SignalQueue {
    before: libc::sigset_t,
}

impl SignalQueue {
    /// Holds the signals back from now on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open() -> io::Result<Self> {
        let signals = signals();
        let mut before = no_signals();
        // SAFETY: both sets are filled, and live through the call.
        let error =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, &raw mut before) };
        match error {
            0 => Ok(Self { before }),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }

    /// The next signal, if one comes within this time. Signals of one kind that came meanwhile count as one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn take(&self, limit: Duration) -> io::Result<Option<ServiceSignal>> {
        let (signals, limit) = (signals(), timespec(limit.as_nanos()));
        // SAFETY: the set and the time live through the call, which writes nothing without a place for it.
        let number =
            unsafe { libc::sigtimedwait(&raw const signals, ptr::null_mut(), &raw const limit) };
        match check(number) {
            Ok(number) => Ok(Some(ServiceSignal::of(number))),
            Err(error) => match error.raw_os_error() {
                // Another signal was handled, or the time is over.
                Some(libc::EAGAIN | libc::EINTR) => Ok(None),
                _ => Err(error),
            },
        }
    }
}

impl Drop for SignalQueue {
    fn drop(&mut self) {
        // SAFETY: the set is the one that the kernel gave, and lives through the call.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}

fn no_signals() -> libc::sigset_t {
    // SAFETY: all zeros are a value of the type, and the call makes it an empty set.
    unsafe {
        let mut none: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut none);
        none
    }
}

fn signals() -> libc::sigset_t {
    let mut signals = no_signals();
    for number in ServiceSignal::NUMBERS {
        // SAFETY: the set has been made, and the numbers are those of signals.
        unsafe { libc::sigaddset(&raw mut signals, number) };
    }
    signals
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn raise(number: libc::c_int) {
        // SAFETY: sends a signal to the calling thread, where it is held back.
        assert_eq!(
            unsafe { libc::pthread_kill(libc::pthread_self(), number) },
            0
        );
    }

    #[test]
    fn signals_wait_until_they_are_taken() {
        let queue = SignalQueue::open().unwrap();
        assert_eq!(queue.take(Duration::ZERO).unwrap(), None);
        raise(libc::SIGHUP);
        raise(libc::SIGHUP);
        raise(libc::SIGTERM);
        let next = || queue.take(Duration::ZERO).unwrap();
        assert_eq!(next(), Some(ServiceSignal::Reload));
        assert_eq!(next(), Some(ServiceSignal::End));
        assert_eq!(next(), None);
        raise(libc::SIGUSR1);
        assert_eq!(next(), Some(ServiceSignal::Report));
    }
}
