//! What holds in every interleaving: by `make loom` in all of them with up to three preemptions, by
//! `cargo test` in those that real threads happen to take.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(loom)]
use loom::thread;
#[cfg(not(loom))]
use std::thread;

use crate::seqlock::Seqlock;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex};
use crate::{
    Doorbell, Mailbox, NoticeBoard, RingError, RingLayout, RingReceiver, RingSender, SampleWriter,
    SlotError, SlotLayout, read_sample,
};

/// Runs a test once in every interleaving, or often on real threads.
fn explore(test: impl Fn() + Send + Sync + 'static) {
    #[cfg(loom)]
    loom::model(test);
    #[cfg(not(loom))]
    for _ in 0..500 {
        test();
    }
}

#[test]
fn a_reader_never_sees_a_torn_triple_and_never_goes_back() {
    explore(|| {
        let lock = Arc::new(Seqlock::default());
        let writer = thread::spawn({
            let lock = Arc::clone(&lock);
            move || {
                lock.write([1; 3]);
                lock.write([2; 3]);
            }
        });
        let mut latest = 0;
        for _ in 0..2 {
            if let Ok(Some([first, second, third])) = lock.read() {
                assert_eq!([first, second], [third; 2], "torn");
                assert!(first >= latest);
                latest = first;
            }
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_reader_after_the_last_write_sees_it() {
    explore(|| {
        let lock = Arc::new(Seqlock::default());
        let written = Arc::new(AtomicBool::new(false));
        let writer = thread::spawn({
            let (lock, written) = (Arc::clone(&lock), Arc::clone(&written));
            move || {
                lock.write([1; 3]);
                lock.write([2; 3]);
                written.store(true, Ordering::Release);
            }
        });
        if written.load(Ordering::Acquire) {
            assert_eq!(lock.read(), Ok(Some([2; 3])));
        }
        writer.join().unwrap();
        assert_eq!(lock.read(), Ok(Some([2; 3])));
    });
}

/// The owner opens period 2 while an order for it is posted: a poster that still finds period 1 may
/// promise that the owner of period 2 has the order.
#[test]
fn an_order_that_is_early_enough_is_read_in_time() {
    explore(|| {
        let board = Arc::new(NoticeBoard::default());
        board.show([1, 0, 0]);
        let owner = thread::spawn({
            let board = Arc::clone(&board);
            move || {
                board.show([2, 0, 0]);
                board.latest_post(&mut 0)
            }
        });
        board.post([7, 8]);
        let is_promise = board.shown().is_some_and(|[period, ..]| period < 2);
        let order = owner.join().unwrap();
        assert!(order.is_none_or(|order| order == [7, 8]));
        assert!(order.is_some() || !is_promise, "a promise was broken");
    });
}

#[test]
fn an_order_is_read_once_and_only_a_later_one_replaces_it() {
    explore(|| {
        let board = Arc::new(NoticeBoard::default());
        let poster = thread::spawn({
            let board = Arc::clone(&board);
            move || {
                for order in 1..=3 {
                    board.post([order, order]);
                }
            }
        });
        let mut seen = 0;
        let mut orders: Vec<_> = (0..2)
            .filter_map(|_| board.latest_post(&mut seen))
            .collect();
        poster.join().unwrap();
        orders.extend(board.latest_post(&mut seen));
        assert_eq!(board.latest_post(&mut seen), None, "an order came twice");
        assert_eq!(orders.last(), Some(&[3, 3]), "the last order is lost");
        assert!(orders.is_sorted_by(|before, after| before < after));
        assert!(orders.iter().all(|[first, second]| first == second));
    });
}

#[test]
fn an_order_stays_readable_while_the_next_is_written() {
    explore(|| {
        let board = Arc::new(NoticeBoard::default());
        board.post([1, 1]);
        let poster = thread::spawn({
            let board = Arc::clone(&board);
            move || board.post([2, 2])
        });
        let order = board.latest_post(&mut 0);
        assert!(order == Some([1, 1]) || order == Some([2, 2]), "{order:?}");
        poster.join().unwrap();
    });
}

/// A bell for which a thread can wait. A wake-up that is lost leaves a thread waiting for ever, which loom
/// reports.
#[derive(Debug)]
struct Chime {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Chime {
    fn new() -> Self {
        Self {
            rung: Mutex::new(false),
            heard: Condvar::new(),
        }
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.heard.wait(rung).unwrap();
        }
    }
}

impl Doorbell for Chime {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.heard.notify_one();
    }

    fn silence(&self) {
        *self.rung.lock().unwrap() = false;
    }
}

/// A counter that a requester and a manager both raise. Loom switches threads only where they touch the same
/// thing, and the unlocking of a lock is none: without the counter no look would meet a locked slot.
#[derive(Clone, Debug, Default)]
struct Crossing(Arc<AtomicU64>);

impl Crossing {
    fn pass(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A request that passes the crossing as the requester drops it, with the slot locked.
#[derive(Debug, Default)]
struct Errand(Crossing);

impl Drop for Errand {
    fn drop(&mut self) {
        self.0.pass();
    }
}

type TestMailbox = Mailbox<Errand, u64, u32, Chime>;

fn mailbox() -> Arc<TestMailbox> {
    Arc::new(Mailbox::new(4, Chime::new(), Chime::new()))
}

/// What a manager has taken up: notes and requests.
#[derive(Debug, Default)]
struct Taken {
    notes: Vec<u32>,
    requests: u64,
    crossing: Crossing,
}

impl Taken {
    /// Looks into the mailbox once; the answer to a request is its number, from 1.
    fn take_up(&mut self, mailbox: &TestMailbox) {
        let heed = |taken: &mut Self, note| taken.notes.push(note);
        self.crossing.pass();
        mailbox.take_up(self, heed, |taken, _| {
            taken.requests += 1;
            taken.requests
        });
    }

    /// Serves as a manager does, asleep unless its bell rings, until it has taken up so much.
    fn serve(&mut self, mailbox: &TestMailbox, notes: usize, requests: u64) {
        while self.notes.len() < notes || self.requests < requests {
            mailbox.wake().wait();
            mailbox.wake().silence();
            self.take_up(mailbox);
        }
    }
}

#[test]
fn every_note_wakes_the_manager_and_is_taken_once_in_order() {
    explore(|| {
        let mailbox = mailbox();
        let author = thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            move || assert!(mailbox.leave(1) && mailbox.leave(2))
        });
        let mut taken = Taken::default();
        taken.serve(&mailbox, 2, 0);
        author.join().unwrap();
        assert_eq!(taken.notes, [1, 2]);
    });
}

/// The author of the note and the requester hold the slot in turns, and the manager misses some looks.
#[test]
fn a_request_is_answered_once_beside_a_note_and_no_wake_up_is_lost() {
    explore(|| {
        let (mailbox, mut taken) = (mailbox(), Taken::default());
        let author = thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            move || assert!(mailbox.leave(1))
        });
        let requester = thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            let errand = Errand(taken.crossing.clone());
            move || {
                // As in the product, the first wait does not sleep.
                let mut waits = 0;
                mailbox.ask(errand, || {
                    waits += 1;
                    if waits > 1 {
                        mailbox.answered().wait();
                    }
                    true
                })
            }
        });
        taken.serve(&mailbox, 1, 1);
        assert_eq!(requester.join().unwrap(), Some(1));
        author.join().unwrap();
        taken.take_up(&mailbox);
        assert_eq!((taken.notes, taken.requests), (vec![1], 1));
    });
}

#[test]
fn a_request_is_answered_or_withdrawn_and_never_both() {
    explore(|| {
        let (mailbox, mut taken) = (mailbox(), Taken::default());
        let errand = Errand(taken.crossing.clone());
        let manager = thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            move || {
                taken.take_up(&mailbox);
                taken
            }
        });
        let reply = mailbox.ask(errand, || false);
        let has_reply = mailbox.has_reply();
        let mut taken = manager.join().unwrap();
        taken.take_up(&mailbox);
        assert_eq!(reply, (taken.requests == 1).then_some(1));
        assert_eq!(reply.is_some(), has_reply);
    });
}

/// Words for both threads, as shared memory outlives them.
fn words(count: usize) -> &'static [AtomicU64] {
    let words: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
    words.leak()
}

/// A message of `number` in every byte.
fn message(number: u64) -> [u8; 10] {
    [u8::try_from(number).unwrap(); 10]
}

// Both sides are made before the threads begin: of the accesses to an atomic loom compares each with the latest one alone,
// so that a thread's own look at its count would hide that of the other thread.

#[test]
fn a_sample_is_never_torn_and_never_goes_back() {
    explore(|| {
        let layout = SlotLayout {
            longest: 10,
            slots: 2,
        };
        let memory = words(layout.words());
        let mut writer = SampleWriter::new(memory, layout).unwrap();
        let writer = thread::spawn(move || {
            for number in 1..=3 {
                assert_eq!(writer.write(number * 7, &message(number)), Ok(number));
            }
        });
        let mut latest = 0;
        let mut room = [0; 10];
        match read_sample(memory, layout, &mut room) {
            Ok(Some(sample)) => {
                assert_eq!(room, message(sample.number), "torn");
                assert_eq!((sample.stamp, sample.length), (sample.number * 7, 10));
                latest = sample.number;
            }
            Ok(None) => {}
            Err(error) => assert_eq!(error, SlotError::Overtaken),
        }
        writer.join().unwrap();
        let sample = read_sample(memory, layout, &mut room).unwrap().unwrap();
        assert_eq!((sample.number, room), (3, message(3)));
        assert!(sample.number >= latest);
    });
}

#[test]
fn a_ring_loses_no_message_and_keeps_their_order() {
    explore(|| {
        let layout = RingLayout {
            longest: 10,
            slots: 1,
        };
        let (of_sender, of_receiver) = (words(layout.sender_words()), words(1));
        let mut sender = RingSender::new(of_sender, of_receiver, layout).unwrap();
        let mut receiver = RingReceiver::new(of_receiver, of_sender, layout).unwrap();
        let sender = thread::spawn(move || {
            let mut sent = 0;
            for stamp in 1..=3 {
                match sender.send(stamp, &message(sent + 1)) {
                    Ok(number) => {
                        sent += 1;
                        assert_eq!(number, sent);
                    }
                    Err(error) => assert_eq!(error, RingError::Full),
                }
            }
            sent
        });
        let mut room = [0; 10];
        let mut received = 0;
        let mut take = || {
            if let Some(taken) = receiver.receive(&mut room).unwrap() {
                received += 1;
                assert_eq!((taken.number, room), (received, message(received)));
            }
            received
        };
        take();
        take();
        let sent = sender.join().unwrap();
        // Of a ring with one slot, one at most is left.
        assert_eq!(take(), sent);
    });
}
