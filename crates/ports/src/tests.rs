//! Both ends of ports, and memories that are none.
#![allow(clippy::unwrap_used)]

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::*;
use tailbound_time::Instant;

const SIZE: PortSize = PortSize {
    longest: 12,
    messages: 2,
};

fn ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// Both sides of a queuing port.
fn queue() -> (QueuingSender, QueuingReceiver) {
    let mut sender = QueuingSender::create(SIZE).unwrap();
    let receiver = QueuingReceiver::open(sender.as_fd()).unwrap();
    sender.connect(receiver.as_fd()).unwrap();
    (sender, receiver)
}

#[test]
fn the_newest_sample_is_read_with_its_age() {
    let mut writer = SamplingWriter::create(SIZE).unwrap();
    let reader = SamplingReader::open(writer.as_fd(), Duration::from_millis(20)).unwrap();
    assert_eq!(reader.size(), SIZE);
    let mut room = [0; 12];
    assert_eq!(reader.read(&mut room).unwrap(), None);
    writer.write_at(ms(90), b"old").unwrap();
    writer.write_at(ms(100), b"the newest").unwrap();
    let seen = |at| {
        let mut room = [0; 12];
        let sample = reader.read_at(ms(at), &mut room).unwrap().unwrap();
        assert_eq!(&room[..sample.length], b"the newest");
        (sample.number, sample.age, sample.valid)
    };
    assert_eq!(seen(120), (2, Duration::from_millis(20), true));
    assert_eq!(seen(121), (2, Duration::from_millis(21), false));
    // A clock that the writer reads later than the reader has read its own makes no age below zero.
    assert_eq!(seen(99), (2, Duration::ZERO, true));
}

#[test]
fn messages_that_do_not_fit_are_refused_and_change_nothing() {
    let mut writer = SamplingWriter::create(SIZE).unwrap();
    let reader = SamplingReader::open(writer.as_fd(), Duration::MAX).unwrap();
    writer.write(b"fits").unwrap();
    let long = writer.write(b"thirteen long").unwrap_err();
    assert!(matches!(
        long,
        PortError::TooLong {
            length: 13,
            room: 12
        }
    ));
    let small = reader.read(&mut [0; 3]).unwrap_err();
    assert!(matches!(small, PortError::TooLong { room: 3, .. }));
    assert_eq!(reader.read(&mut [0; 4]).unwrap().unwrap().number, 1);
}

#[test]
fn a_queue_says_when_it_is_full_and_when_it_is_empty() {
    let (mut sender, mut receiver) = queue();
    let mut room = [0; 12];
    assert_eq!(receiver.receive(&mut room).unwrap(), None);
    assert_eq!(sender.send(b"one").unwrap(), 1);
    assert_eq!(sender.send(b"two").unwrap(), 2);
    let full = sender.send(b"three").unwrap_err();
    assert!(matches!(full, PortError::Full { messages: 2 }), "{full}");
    let first = receiver.receive(&mut room).unwrap().unwrap();
    assert_eq!(
        (&room[..3], first.number, first.waiting),
        (&b"one"[..], 1, 1)
    );
    assert_eq!(sender.send(b"three").unwrap(), 3);
    let short = receiver.receive(&mut room[..2]).unwrap_err();
    assert!(matches!(short, PortError::TooLong { .. }), "{short}");
    for (number, text) in [(2, &b"two"[..]), (3, b"three")] {
        let message = receiver.receive(&mut room).unwrap().unwrap();
        assert_eq!((&room[..message.length], message.number), (text, number));
    }
    assert_eq!(receiver.receive(&mut room).unwrap(), None);
}

#[test]
fn sides_that_do_not_belong_together_are_refused() {
    let mut unconnected = QueuingSender::create(SIZE).unwrap();
    let early = unconnected.send(b"one").unwrap_err();
    assert!(matches!(early, PortError::Full { messages: 0 }), "{early}");
    let sampling = SamplingWriter::create(SIZE).unwrap();
    let other = QueuingReceiver::open(sampling.as_fd()).unwrap_err();
    assert!(matches!(other, PortError::NoPort { .. }), "{other}");
    let larger = QueuingSender::create(PortSize {
        longest: 13,
        ..SIZE
    })
    .unwrap();
    let receiver = QueuingReceiver::open(larger.as_fd()).unwrap();
    let refused = unconnected.connect(receiver.as_fd()).unwrap_err();
    assert!(refused.to_string().contains("another size"), "{refused}");
    let anything = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let nothing = SamplingReader::open(anything.as_fd(), Duration::ZERO).unwrap_err();
    assert!(nothing.to_string().contains("maker alone"), "{nothing}");
    for (longest, messages) in [(0, 4), (1 << 25, 4), (8, 1), (8, 1 << 17)] {
        let size = PortSize { longest, messages };
        assert!(matches!(
            SamplingWriter::create(size),
            Err(PortError::Size { .. })
        ));
    }
}

proptest! {
    /// Whatever one side leaves in its memory, the other one answers or refuses, and no more than what was sent comes out
    /// of a queue.
    #[test]
    fn garbled_memories_do_no_harm(
        writes in prop::collection::vec((0_usize..12, prop_oneof![0_u64..20, any::<u64>()]), 1..8),
    ) {
        let mut writer = SamplingWriter::create(SIZE).unwrap();
        let reader = SamplingReader::open(writer.as_fd(), Duration::ZERO).unwrap();
        let (mut sender, mut receiver) = queue();
        writer.write(b"sample").unwrap();
        sender.send(b"message").unwrap();
        for (place, value) in writes {
            writer.memory.words()[place % writer.memory.words().len()].store(value, Ordering::Relaxed);
            sender.own.words()[place % sender.own.words().len()].store(value, Ordering::Relaxed);
            let mut room = [0; 12];
            if let Ok(Some(sample)) = reader.read(&mut room) {
                prop_assert!(sample.length <= SIZE.longest);
            }
            for _ in 0..3 {
                match receiver.receive(&mut room) {
                    Ok(Some(message)) => prop_assert!(message.length <= SIZE.longest),
                    Ok(None) | Err(_) => break,
                }
            }
            let _told = (writer.write(b"again"), sender.send(b"again"));
        }
    }
}
