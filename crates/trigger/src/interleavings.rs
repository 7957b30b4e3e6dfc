//! What holds in every interleaving: by `make loom` in all of them with up to three preemptions, by
//! `cargo test` in those that real threads happen to take.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(loom)]
use loom::{sync::Arc, sync::atomic::AtomicU64, thread};
#[cfg(not(loom))]
use std::{sync::Arc, sync::atomic::AtomicU64, thread};

use crate::ring_buffer::{Ring, RingHeader, SlotLabel};

const SLOT_WORDS: usize = 4;

/// A ring in memory of its own.
struct RingMemory {
    header: RingHeader,
    words: Vec<AtomicU64>,
    is_shared: bool,
}

impl RingMemory {
    fn new(slots: u32, is_shared: bool) -> Arc<Self> {
        let words = (0..slots as usize * SLOT_WORDS).map(|_| AtomicU64::new(0));
        Arc::new(Self {
            header: RingHeader::new(slots),
            words: words.collect(),
            is_shared,
        })
    }

    fn ring(&self) -> Ring<'_> {
        Ring::new(&self.header, &self.words, SLOT_WORDS, self.is_shared).unwrap()
    }

    /// Writes an event whose parts all follow from `thread` and `number`.
    fn write(&self, thread: u32, number: u64) -> bool {
        let (label, instant, arguments) = event(thread, number);
        self.ring().write(label, instant, &arguments)
    }

    /// Reads an event, and fails if its parts do not belong together; gives the writer and the number.
    fn read(&self) -> Option<(u32, u64)> {
        let mut arguments = [0; 2];
        let (label, instant) = self.ring().read(&mut arguments)?;
        let number = arguments[0];
        let label = SlotLabel {
            follows_loss: false,
            ..label
        };
        assert_eq!(
            (label, instant, arguments),
            event(label.thread, number),
            "torn"
        );
        Some((label.thread, number))
    }
}

fn event(thread: u32, number: u64) -> (SlotLabel, u64, [u64; 2]) {
    let label = SlotLabel {
        site: thread as u16 + 7,
        thread,
        follows_loss: false,
        arguments: 2,
    };
    let instant = u64::from(thread) * 1_000_000 + number;
    (label, instant, [number, instant ^ 0xffff])
}

/// Runs a test once in every interleaving, or often on real threads.
fn explore(test: impl Fn() + Send + Sync + 'static) {
    #[cfg(loom)]
    loom::model(test);
    #[cfg(not(loom))]
    for _ in 0..300 {
        test();
    }
}

/// Two writers and a reader in a ring of two slots: no event is torn, doubled or reordered, and each is read or lost.
#[test]
fn each_event_of_two_writers_is_read_once_or_counted_as_lost() {
    explore(|| {
        let memory = RingMemory::new(2, true);
        let writers: Vec<_> = [(1, 2_u64), (2, 1)]
            .into_iter()
            .map(|(thread, events)| {
                let memory = Arc::clone(&memory);
                thread::spawn(move || (0..events).filter(|n| memory.write(thread, *n)).count())
            })
            .collect();
        let mut events: Vec<_> = (0..2).filter_map(|_| memory.read()).collect();
        let written: usize = writers.into_iter().map(|it| it.join().unwrap()).sum();
        events.extend(std::iter::from_fn(|| memory.read()));
        assert_eq!(events.len(), written);
        assert_eq!(memory.ring().lost() as usize, 3 - written);
        let first: Vec<_> = events.iter().filter(|(thread, _)| *thread == 1).collect();
        assert!(first.is_sorted(), "{first:?}");
        events.sort_unstable();
        events.dedup();
        assert_eq!(events.len(), written, "an event was read twice");
        // Every slot is free again: two more events fit, and a third one does not.
        let again: Vec<_> = (5..8).map(|number| memory.write(3, number)).collect();
        assert_eq!(again, [true, true, false]);
    });
}

#[test]
fn each_event_of_one_writer_is_read_in_order_or_counted_as_lost() {
    explore(|| {
        let memory = RingMemory::new(2, false);
        let writer = thread::spawn({
            let memory = Arc::clone(&memory);
            move || (0..4).filter(|number| memory.write(1, *number)).count()
        });
        let mut events: Vec<_> = (0..3).filter_map(|_| memory.read()).collect();
        let written = writer.join().unwrap();
        events.extend(std::iter::from_fn(|| memory.read()));
        assert_eq!(events.len(), written);
        assert_eq!(memory.ring().lost() as usize, 4 - written);
        assert!(events.is_sorted());
    });
}

/// A thread that ends hands its ring to the next one, which continues where it was.
#[test]
fn a_released_ring_goes_to_one_thread_with_all_that_is_in_it() {
    explore(|| {
        let memory = RingMemory::new(2, false);
        let claimants: Vec<_> = [1, 2]
            .into_iter()
            .map(|thread| {
                let memory = Arc::clone(&memory);
                thread::spawn(move || {
                    let is_mine = memory.ring().claim(thread);
                    if is_mine {
                        memory.write(thread, 0);
                        memory.ring().release();
                    }
                    is_mine
                })
            })
            .collect();
        let claims = claimants.into_iter().map(|it| it.join().unwrap());
        let written = claims.filter(|is_mine| *is_mine).count();
        let events = std::iter::from_fn(|| memory.read()).count();
        assert!(written >= 1);
        assert_eq!(events, written);
    });
}

/// Threads that write as fast as they can against a reader that does, too.
#[cfg(not(loom))]
#[test]
fn nothing_is_torn_doubled_or_reordered_in_a_storm() {
    const WRITERS: u32 = 4;
    const EVENTS: u64 = 20_000;
    let memory = RingMemory::new(64, true);
    let writers: Vec<_> = (1..=WRITERS)
        .map(|thread| {
            let memory = Arc::clone(&memory);
            thread::spawn(move || (0..EVENTS).filter(|n| memory.write(thread, *n)).count())
        })
        .collect();
    let mut latest = [None; WRITERS as usize + 1];
    let mut read = 0_u64;
    let mut drain = |memory: &RingMemory| {
        while let Some((thread, number)) = memory.read() {
            let before = latest[thread as usize].replace(number);
            assert!(before < Some(number), "{before:?} before {number}");
            read += 1;
        }
    };
    while !writers.iter().all(thread::JoinHandle::is_finished) {
        drain(&memory);
    }
    drain(&memory);
    let written: usize = writers.into_iter().map(|it| it.join().unwrap()).sum();
    assert_eq!(read, written as u64);
    assert_eq!(
        read + u64::from(memory.ring().lost()),
        EVENTS * u64::from(WRITERS)
    );
}

/// A writer that is killed leaves a busy slot, before which the reader stops and which a salvage passes over.
#[cfg(not(loom))]
#[test]
fn a_salvage_passes_over_a_slot_that_was_being_written() {
    use std::sync::atomic::Ordering;
    for is_shared in [true, false] {
        let memory = RingMemory::new(8, is_shared);
        for number in 0..4 {
            assert!(memory.write(1, number));
        }
        memory.words[SLOT_WORDS].store(1, Ordering::Relaxed);
        assert_eq!(memory.read(), Some((1, 0)));
        assert_eq!(memory.read(), None, "slot 1 is busy");
        let mut numbers = Vec::new();
        let unfinished = memory
            .ring()
            .salvage(&mut [0; 2], |_, _, arguments| numbers.push(arguments[0]));
        assert_eq!((unfinished, numbers), (1, vec![2, 3]));
    }
}
