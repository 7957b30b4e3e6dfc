//! Requests, answers and notes for a thread that never waits for a lock.
//!
//! A requester puts a request into the only slot and rings; the manager looks between its wake-ups with
//! `try_lock` alone. Every holder of the slot rings after letting go of it, so another look follows a look
//! that met a locked slot. The requester allocates everything before, and frees everything after.

use std::sync::{PoisonError, TryLockError};

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// A counter that wakes the thread that waits for it, such as an eventfd.
pub trait Doorbell {
    /// Wakes the thread that waits, or the next one that will; never blocks.
    fn ring(&self);

    /// Makes the bell quiet until the next ring; never blocks.
    fn silence(&self);
}

#[derive(Debug)]
struct Slot<Request, Reply, Note> {
    request: Option<Request>,
    reply: Option<Reply>,
    notes: Vec<Note>,
}

/// The slot between one manager and those who ask it. A note needs no answer: it is left in the mailbox,
/// and its author goes on at once.
#[derive(Debug)]
pub struct Mailbox<Request, Reply, Note, Ring> {
    slot: Mutex<Slot<Request, Reply, Note>>,
    most_notes: usize,
    /// One requester at a time.
    turn: Mutex<()>,
    wake: Ring,
    answered: Ring,
    /// For a requester that looks without sleeping.
    has_reply: AtomicBool,
}

impl<Request, Reply, Note, Ring: Doorbell> Mailbox<Request, Reply, Note, Ring> {
    /// A mailbox with room for so many notes. The bell `wake` wakes the manager, and `answered` the
    /// requester.
    pub fn new(most_notes: usize, wake: Ring, answered: Ring) -> Self {
        Self {
            slot: Mutex::new(Slot {
                request: None,
                reply: None,
                notes: Vec::with_capacity(most_notes),
            }),
            most_notes,
            turn: Mutex::new(()),
            wake,
            answered,
            has_reply: AtomicBool::new(false),
        }
    }

    /// The bell that wakes the manager.
    pub fn wake(&self) -> &Ring {
        &self.wake
    }

    /// The bell that wakes the requester.
    pub fn answered(&self) -> &Ring {
        &self.answered
    }

    /// Whether the request that waits has an answer by now.
    pub fn has_reply(&self) -> bool {
        self.has_reply.load(Ordering::Acquire)
    }

    /// Asks for an answer. `wait` waits a while for it, by [`Mailbox::answered`] or otherwise, and says
    /// whether there is time for another wait; if not, the request is withdrawn, and the result is `None`.
    pub fn ask(&self, request: Request, mut wait: impl FnMut() -> bool) -> Option<Reply> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.answered.silence();
        self.has_reply.store(false, Ordering::Release);
        let mut slot = self.lock();
        (slot.request, slot.reply) = (Some(request), None);
        drop(slot);
        self.wake.ring();
        loop {
            let has_time = wait();
            self.answered.silence();
            if let Some(outcome) = self.outcome(!has_time) {
                return outcome;
            }
        }
    }

    /// The answer, if there is one; `Some(None)` if there is none and the request was withdrawn.
    fn outcome(&self, withdraw: bool) -> Option<Option<Reply>> {
        let mut slot = self.lock();
        let reply = slot.reply.take();
        let over = reply.is_some() || withdraw;
        if over {
            slot.request = None;
        }
        drop(slot);
        // The manager may have met the locked slot, with a note to take if not with a request.
        self.wake.ring();
        over.then_some(reply)
    }

    /// Leaves a note; whether there was room for it, which there is unless the manager is stuck.
    pub fn leave(&self, note: Note) -> bool {
        let mut slot = self.lock();
        let has_room = slot.notes.len() < self.most_notes;
        if has_room {
            slot.notes.push(note);
        }
        drop(slot);
        self.wake.ring();
        has_room
    }

    /// Takes the notes in the order in which they were left, and answers the request that waits; whether
    /// there was anything. For the manager; never waits.
    pub fn take_up<Manager>(
        &self,
        manager: &mut Manager,
        heed: impl Fn(&mut Manager, Note),
        answer: impl FnOnce(&mut Manager, &mut Request) -> Reply,
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
            self.answered.ring();
        }
        some
    }

    fn lock(&self) -> MutexGuard<'_, Slot<Request, Reply, Note>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
