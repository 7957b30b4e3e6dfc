//! Steering an agent from other threads of its process.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tailbound_linux::thread::WakeUp;

use crate::wire::Name;

/// How many requests wait for the host at most.
const REQUESTS_MAX: usize = 16;

/// A request that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{REQUESTS_MAX} requests wait for the host already; ask again once it has taken them")]
pub struct TooManyRequests;

/// Asks an agent for things, from any thread.
#[derive(Clone, Debug)]
pub struct AgentHandle(Arc<SharedRequests>);

#[derive(Debug)]
struct SharedRequests {
    wake: WakeUp,
    requests: Mutex<VecDeque<Name>>,
    ends: AtomicBool,
}

impl AgentHandle {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(SharedRequests {
            wake: WakeUp::new()?,
            requests: Mutex::new(VecDeque::new()),
            ends: AtomicBool::new(false),
        })))
    }

    /// Asks the host for a global mode, as soon as there is a connection. Whether the host grants
    /// it shows in what it then tells to switch.
    ///
    /// # Errors
    /// If too many requests wait already.
    pub fn request(&self, mode: Name) -> Result<(), TooManyRequests> {
        let mut requests = self.requests();
        if requests.len() >= REQUESTS_MAX {
            return Err(TooManyRequests);
        }
        requests.push_back(mode);
        drop(requests);
        self.0.wake.signal();
        Ok(())
    }

    /// Ends the agent; its tasks stay as they are.
    pub fn end(&self) {
        self.0.ends.store(true, Ordering::Release);
        self.0.wake.signal();
    }

    pub(super) fn is_ended(&self) -> bool {
        self.0.ends.load(Ordering::Acquire)
    }

    /// Forgets the wake-ups so far; what they were for is looked for afterwards.
    pub(super) fn quieten(&self) {
        self.0.wake.take();
    }

    pub(super) fn take_request(&self) -> Option<Name> {
        self.requests().pop_front()
    }

    fn requests(&self) -> std::sync::MutexGuard<'_, VecDeque<Name>> {
        self.0
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for AgentHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}
