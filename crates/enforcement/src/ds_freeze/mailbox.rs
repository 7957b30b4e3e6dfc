//! How requests reach a running manager without ever making it wait.
//!
//! A requester puts a request into the only slot and signals; the manager looks in between
//! wake-ups with `try_lock` alone. Whoever holds the slot signals after letting go of it, so a
//! missed try is made up for. Everything is allocated before, and freed after, by the requester.
//!
//! What needs no answer is a [`Note`]: it is left in the mailbox, and who leaves it goes on at once.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use tailbound_linux::clock::Monotonic;
use tailbound_linux::thread::{PollSet, WakeUp};
use tailbound_time::{Clock, Duration, Instant};

use super::domain::ServedState;
use tailbound_reservation::metered_server::{ChangeAt, ServerParameters};

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
}

/// What a manager is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// Let a domain, by its number, run without budget, until an instant at most: a manager that reads
    /// this late does not make up for it.
    Boost {
        domain: u64,
        until: Instant,
        /// Only if it stands still for want of budget.
        if_exhausted: bool,
    },
    /// The boost of a domain is over.
    Unboost { domain: u64 },
}

/// There is room for so many notes: as many as domains can have boosts begun and ended.
pub(super) const MOST_NOTES: usize = 2 * super::service_loop::MOST_DOMAINS;

/// What it answers.
#[derive(Debug)]
pub(super) enum Reply {
    /// Done.
    Done,
    /// Done; the change is in force from then on.
    InForce(Instant),
    /// Done; what was removed, for the requester to drop.
    Removed(Box<ServedState>),
    /// There is no such domain.
    Unknown,
    /// There is no room for another domain, or for another change that waits.
    Full,
}

#[derive(Debug)]
struct Slot {
    request: Option<Request>,
    reply: Option<Reply>,
    notes: Vec<Note>,
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
            slot: Mutex::new(Slot {
                request: None,
                reply: None,
                notes: Vec::with_capacity(MOST_NOTES),
            }),
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
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        (slot.request, slot.reply) = (Some(request), None);
        drop(slot);
        self.wake.signal();
        let look_until = began.saturating_add(LOOKED_FOR);
        while !self.has_reply.load(Ordering::Acquire) && Monotonic.now() < look_until {
            std::hint::spin_loop();
        }
        let mut waiting = PollSet::with_capacity(1);
        waiting.push(Some(self.answered.as_fd()));
        loop {
            let left = give_up.saturating_since(Monotonic.now());
            if let Some(outcome) = self.outcome(left.is_zero()) {
                return outcome;
            }
            if waiting.wait(left.min(Duration::from_millis(20))).is_err() {
                return self.outcome(true).flatten();
            }
            self.answered.take();
        }
    }

    /// The answer, if there is one; `Some(None)` if there is none and the request was withdrawn.
    fn outcome(&self, withdraw: bool) -> Option<Option<Reply>> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = slot.reply.take();
        let over = reply.is_some() || withdraw;
        if over {
            slot.request = None;
        }
        drop(slot);
        // The manager may have come by while the slot was held, for a note if not for the request.
        self.wake.signal();
        over.then_some(reply)
    }

    /// Leaves a note; whether there was room for it, which there is unless the manager is stuck.
    pub(super) fn leave(&self, note: Note) -> bool {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = slot.notes.len() < MOST_NOTES;
        if has_room {
            slot.notes.push(note);
        }
        drop(slot);
        self.wake.signal();
        has_room
    }

    /// For the manager: takes the notes that were left, in order, and answers the request that waits,
    /// if there is one; whether there was anything. Never waits.
    pub(super) fn take_up<M>(
        &self,
        manager: &mut M,
        heed: impl Fn(&mut M, Note),
        answer: impl FnOnce(&mut M, &mut Request) -> Reply,
    ) -> bool {
        let mut slot = match self.slot.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let slot = &mut *slot;
        let mut some = !slot.notes.is_empty();
        for note in slot.notes.drain(..) {
            heed(manager, note);
        }
        if slot.reply.is_none()
            && let Some(request) = &mut slot.request
        {
            some = true;
            slot.reply = Some(answer(manager, request));
            self.has_reply.store(true, Ordering::Release);
            self.answered.signal();
        }
        some
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
                    let before = answers;
                    let some = mailbox.take_up(
                        &mut answers,
                        |_, note| panic!("{note:?} was not left"),
                        |answers, request| {
                            *answers += 1;
                            assert!(matches!(request, Request::Remove(_)));
                            Reply::Unknown
                        },
                    );
                    assert_eq!(some, answers > before);
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
        let gone = |_: &mut (), _: &mut Request| panic!("the request should be gone");
        assert!(!mailbox.take_up(&mut (), |(), _| {}, gone));
    }

    #[test]
    fn notes_are_taken_once_in_order_and_as_many_as_there_is_room_for() {
        let mailbox = Mailbox::new().expect("eventfd");
        let note = |domain: u64| Note::Unboost { domain };
        for domain in 0..MOST_NOTES as u64 {
            assert!(mailbox.leave(note(domain)));
        }
        assert!(!mailbox.leave(note(1_000)));
        let mut taken = Vec::new();
        let take = |taken: &mut Vec<Note>| {
            let nobody = |_: &mut Vec<Note>, _: &mut Request| panic!("nobody asks");
            mailbox.take_up(taken, |taken, note| taken.push(note), nobody)
        };
        // A manager that reads mail is at work, and does not pause.
        assert!(take(&mut taken));
        assert!(!take(&mut taken));
        let all: Vec<Note> = (0..MOST_NOTES as u64).map(note).collect();
        assert_eq!(taken, all);
        assert!(mailbox.leave(note(7)));
    }
}
