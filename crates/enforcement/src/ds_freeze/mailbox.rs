//! What a running manager is asked, and the mailbox through which requests and notes reach it.
//!
//! The mailbox itself, which never makes the manager wait, is [`tailbound_shared_memory::Mailbox`]; its
//! bells are eventfds here, which the manager polls beside its other descriptors.

use std::io;
use std::os::fd::AsFd;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::thread::{PollSet, WakeUp};
use tailbound_shared_memory::Mailbox;
use tailbound_time::{Clock, Duration, Instant};

use super::domain::ServedState;
use tailbound_reservation::metered_server::{ChangeAt, ServerParameters};
use tailbound_reservation::window_server::FrameWindows;

/// So long a requester looks for the answer without sleeping: to be woken takes longer than most
/// answers do.
const LOOKED_FOR: Duration = Duration::from_micros(50);

/// The longest sleep of a requester between two looks.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

/// What a manager can be asked.
#[derive(Debug)]
pub(super) enum ManagerRequest {
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
    /// Change the windows of a time partition, from the first begin of a frame on that is not before an instant.
    ChangeWindows {
        name: String,
        windows: Box<FrameWindows>,
        from: Instant,
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
pub(super) enum ManagerReply {
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

/// The mailbox of a manager.
pub(super) type ManagerMailbox = Mailbox<ManagerRequest, ManagerReply, Note, WakeUp>;

/// A mailbox with its two eventfds.
pub(super) fn open_mailbox() -> io::Result<ManagerMailbox> {
    Ok(Mailbox::new(MOST_NOTES, WakeUp::new()?, WakeUp::new()?))
}

/// Asks and waits for the answer; `None` if none came within `at_most`, and then the request is
/// withdrawn.
pub(super) fn ask(
    mailbox: &ManagerMailbox,
    request: ManagerRequest,
    at_most: Duration,
) -> Option<ManagerReply> {
    let mut answered = PollSet::with_capacity(1);
    answered.push(Some(mailbox.answered().as_fd()));
    // From the first wait, which begins at once where nobody else asks.
    let mut give_up = None;
    mailbox.ask(request, || {
        let Some(give_up) = give_up else {
            let began = Monotonic.now();
            give_up = Some(began.saturating_add(at_most));
            let look_until = began.saturating_add(LOOKED_FOR);
            while !mailbox.has_reply() && Monotonic.now() < look_until {
                std::hint::spin_loop();
            }
            return true;
        };
        let left = give_up.saturating_since(Monotonic.now());
        let slept = answered.wait(left.min(LONGEST_SLEEP));
        slept.is_ok() && Monotonic.now() < give_up
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_request_is_answered_once() {
        let mailbox = open_mailbox().expect("eventfd");
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
                            assert!(matches!(request, ManagerRequest::Remove(_)));
                            ManagerReply::Unknown
                        },
                    );
                    assert_eq!(some, answers > before);
                    std::thread::yield_now();
                }
            });
            for _ in 0..3 {
                let reply = ask(
                    &mailbox,
                    ManagerRequest::Remove("a".into()),
                    Duration::from_secs(20),
                );
                assert!(matches!(reply, Some(ManagerReply::Unknown)));
            }
        });
    }

    #[test]
    fn a_request_that_nobody_takes_is_withdrawn() {
        let mailbox = open_mailbox().expect("eventfd");
        let reply = ask(
            &mailbox,
            ManagerRequest::Remove("a".into()),
            Duration::from_millis(5),
        );
        assert!(reply.is_none());
        let gone = |_: &mut (), _: &mut ManagerRequest| panic!("the request should be gone");
        assert!(!mailbox.take_up(&mut (), |(), _| {}, gone));
    }

    #[test]
    fn notes_are_taken_once_in_order_and_as_many_as_there_is_room_for() {
        let mailbox = open_mailbox().expect("eventfd");
        let note = |domain: u64| Note::Unboost { domain };
        for domain in 0..MOST_NOTES as u64 {
            assert!(mailbox.leave(note(domain)));
        }
        assert!(!mailbox.leave(note(1_000)));
        let mut taken = Vec::new();
        let take = |taken: &mut Vec<Note>| {
            let nobody = |_: &mut Vec<Note>, _: &mut ManagerRequest| panic!("nobody asks");
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
