//! How requests reach a running manager without ever making it wait.
//!
//! A requester puts a request into the only slot and signals; the manager looks in between
//! wake-ups with `try_lock` alone. Whoever holds the slot signals after letting go of it, so a
//! missed try is made up for. Everything is allocated before, and freed after, by the requester.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use tailbound_linux::clock::Monotonic;
use tailbound_linux::thread::{PollSet, WakeUp};
use tailbound_time::{Clock, Duration, Instant};

use super::domain::ServedState;
use super::server::{ChangeAt, ServerParameters};

/// So long a requester looks for the answer without sleeping: to be woken takes longer than most
/// answers do.
const LOOKED_FOR: Duration = Duration::from_micros(50);

/// What a manager can be asked.
#[derive(Debug)]
pub(super) enum Request {
    /// Serve this domain too; taken out of the slot.
    Add(Option<Box<ServedState>>),
    /// Serve the domain of this name no longer.
    Remove(String),
    /// Change a domain's budget and period.
    Change {
        name: String,
        parameters: ServerParameters,
        at: ChangeAt,
    },
    /// Let a domain run without budget, for a while at most.
    Boost {
        name: String,
        at_most: Duration,
        /// Only if it stands still for want of budget.
        if_exhausted: bool,
    },
    /// The boost of a domain is over.
    Unboost(String),
}

/// What it answers.
#[derive(Debug)]
pub(super) enum Reply {
    /// Done.
    Done,
    /// Done; the change is in force from then on.
    InForce(Instant),
    /// Whether the domain is boosted now.
    Boosted(bool),
    /// Done; what was removed, for the requester to drop.
    Removed(Box<ServedState>),
    /// There is no such domain.
    Unknown,
    /// There is no room for another domain.
    Full,
}

#[derive(Debug, Default)]
struct Slot {
    request: Option<Request>,
    reply: Option<Reply>,
}

/// The slot between one manager and those who ask it.
#[derive(Debug)]
pub(super) struct Mailbox {
    slot: Mutex<Slot>,
    /// One requester at a time.
    turn: Mutex<()>,
    /// Wakes the manager.
    pub(super) wake: WakeUp,
    /// Wakes the requester.
    answered: WakeUp,
    /// Whether there is an answer, for one who looks without sleeping.
    has_reply: AtomicBool,
}

impl Mailbox {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            slot: Mutex::default(),
            turn: Mutex::default(),
            wake: WakeUp::new()?,
            answered: WakeUp::new()?,
            has_reply: AtomicBool::new(false),
        })
    }

    /// Asks and waits for the answer; `None` if none came within `at_most`, and then the request
    /// is withdrawn.
    pub(super) fn ask(&self, request: Request, at_most: Duration) -> Option<Reply> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.answered.take();
        self.has_reply.store(false, Ordering::Release);
        let began = Monotonic.now();
        let give_up = began.saturating_add(at_most);
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Slot {
            request: Some(request),
            reply: None,
        };
        self.wake.signal();
        let look_until = began.saturating_add(LOOKED_FOR);
        while !self.has_reply.load(Ordering::Acquire) && Monotonic.now() < look_until {
            std::hint::spin_loop();
        }
        let mut waiting = PollSet::with_capacity(1);
        waiting.push(Some(self.answered.as_fd()));
        loop {
            let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
            let left = give_up.saturating_since(Monotonic.now());
            if slot.reply.is_some() || left.is_zero() {
                slot.request = None;
                return slot.reply.take();
            }
            drop(slot);
            // The manager may have come by while the slot was held.
            self.wake.signal();
            if waiting.wait(left.min(Duration::from_millis(20))).is_err() {
                return None;
            }
            self.answered.take();
        }
    }

    /// For the manager: answers the request that waits, if there is one, by `answer`. Never
    /// waits.
    pub(super) fn take_up(&self, answer: impl FnOnce(&mut Request) -> Reply) {
        let mut slot = match self.slot.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let slot = &mut *slot;
        if slot.reply.is_some() {
            return;
        }
        if let Some(request) = &mut slot.request {
            slot.reply = Some(answer(request));
            self.has_reply.store(true, Ordering::Release);
            self.answered.signal();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_request_is_answered_once() {
        let mailbox = Mailbox::new().expect("eventfd");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut answers = 0;
                while answers < 3 {
                    mailbox.take_up(|request| {
                        answers += 1;
                        assert!(matches!(request, Request::Remove(_)));
                        Reply::Unknown
                    });
                    std::thread::yield_now();
                }
            });
            for _ in 0..3 {
                let reply = mailbox.ask(Request::Remove("a".into()), Duration::from_secs(20));
                assert!(matches!(reply, Some(Reply::Unknown)));
            }
        });
    }

    #[test]
    fn a_request_that_nobody_takes_is_withdrawn() {
        let mailbox = Mailbox::new().expect("eventfd");
        let reply = mailbox.ask(Request::Remove("a".into()), Duration::from_millis(5));
        assert!(reply.is_none());
        mailbox.take_up(|_| panic!("the request should be gone"));
    }
}
