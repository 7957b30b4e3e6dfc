//! Inherited ports: both ends within one process, and entries that are none.
#![allow(clippy::unwrap_used)]

use std::os::fd::AsRawFd;

use proptest::prelude::*;

use crate::inheritance::inherited_of;
use crate::*;

const SIZE: PortSize = PortSize {
    longest: 16,
    messages: 2,
};
const LIMIT: Duration = Duration::from_secs(3_600);

/// The port of an end, as its program inherits it.
fn port(end: &PortEnd) -> InheritedPort {
    let variable = format!("other:queuing-sender:8:1:0:3 {}", end.entry());
    inherited_of(&variable, "position").unwrap()
}

#[test]
fn readers_find_what_an_inherited_writer_writes_whoever_begins() {
    let channel = PortEnds::sampling("position", SIZE, LIMIT, 2).unwrap();
    let mut readers: Vec<InheritedReader> = channel
        .readers
        .iter()
        .map(|end| port(end).sampling_reader().unwrap())
        .collect();
    let mut room = [0; 16];
    assert_eq!(readers[0].read(&mut room).unwrap(), None);
    let mut writer = port(&channel.writer).sampling_writer().unwrap();
    assert_eq!(readers[0].read(&mut room).unwrap(), None);
    writer.write(b"12.5").unwrap();
    for reader in &mut readers {
        let sample = reader.read(&mut room).unwrap().unwrap();
        assert_eq!((&room[..sample.length], sample.valid), (&b"12.5"[..], true));
    }
}

#[test]
fn a_writer_that_begins_anew_takes_over_when_the_old_message_is_no_longer_valid() {
    let channel = PortEnds::sampling("position", SIZE, Duration::ZERO, 1).unwrap();
    let mut reader = port(&channel.readers[0]).sampling_reader().unwrap();
    let mut room = [0; 16];
    for text in [&b"old"[..], b"new"] {
        let mut writer = port(&channel.writer).sampling_writer().unwrap();
        writer.write(text).unwrap();
        // Of age zero within the resolution of the clock, a message is still valid.
        std::thread::sleep(std::time::Duration::from_millis(1));
        let sample = reader.read(&mut room).unwrap().unwrap();
        assert_eq!((&room[..sample.length], sample.number), (text, 1));
    }
}

#[test]
fn a_queue_is_full_until_its_receiver_is_there_and_empty_until_its_sender_is() {
    let channel = PortEnds::queuing("position", SIZE).unwrap();
    let mut receiver = port(&channel.readers[0]).queuing_receiver().unwrap();
    let mut room = [0; 16];
    assert_eq!(receiver.receive(&mut room).unwrap(), None);
    let mut sender = port(&channel.writer).queuing_sender().unwrap();
    let early = sender.send(b"one").unwrap_err();
    assert!(matches!(early, PortError::Full { messages: 0 }), "{early}");
    assert_eq!(receiver.receive(&mut room).unwrap(), None);
    for text in [&b"one"[..], b"two"] {
        sender.send(text).unwrap();
    }
    let full = sender.send(b"three").unwrap_err();
    assert!(matches!(full, PortError::Full { messages: 2 }), "{full}");
    for text in [&b"one"[..], b"two"] {
        let message = receiver.receive(&mut room).unwrap().unwrap();
        assert_eq!(&room[..message.length], text);
    }
    assert_eq!(receiver.receive(&mut room).unwrap(), None);
}

#[test]
fn both_ends_of_a_queue_may_begin_anew_together() {
    let channel = PortEnds::queuing("position", SIZE).unwrap();
    let mut room = [0; 16];
    for _ in 0..3 {
        let mut sender = port(&channel.writer).queuing_sender().unwrap();
        let mut receiver = port(&channel.readers[0]).queuing_receiver().unwrap();
        // The first round leaves its last answers in the sockets, so that the next one finds old ones.
        assert_eq!(receiver.receive(&mut room).unwrap(), None);
        for text in [&b"one"[..], b"two", b"three"] {
            sender.send(text).unwrap();
            let message = receiver.receive(&mut room).unwrap().unwrap();
            assert_eq!(&room[..message.length], text);
        }
        let _unread = sender.send(b"left");
        drop(sender);
        let mut other = port(&channel.writer).queuing_sender().unwrap();
        assert_eq!(receiver.receive(&mut room).unwrap().unwrap().number, 4);
        assert_eq!(receiver.receive(&mut room).unwrap(), None);
        assert_eq!(other.send(b"anew").unwrap(), 1);
        assert_eq!(receiver.receive(&mut room).unwrap().unwrap().number, 1);
        // An end that nobody takes.
        drop(port(&channel.writer).queuing_sender().unwrap());
    }
}

#[test]
fn a_full_sender_looks_for_a_receiver_that_answered_its_predecessor() {
    let channel = PortEnds::queuing("position", SIZE).unwrap();
    let mut receiver = port(&channel.readers[0]).queuing_receiver().unwrap();
    let mut room = [0; 16];
    let predecessor = port(&channel.writer).queuing_sender().unwrap();
    assert_eq!(receiver.receive(&mut room).unwrap(), None);
    drop(predecessor);
    let mut sender = port(&channel.writer).queuing_sender().unwrap();
    for number in 1..=2 {
        assert_eq!(sender.send(b"order").unwrap(), number);
    }
    sender.send(b"order").unwrap_err();
    for number in 1..=2 {
        let message = receiver.receive(&mut room).unwrap().unwrap();
        assert_eq!(message.number, number);
    }
    assert_eq!(sender.send(b"order").unwrap(), 3);
}

#[test]
fn the_wrong_end_another_name_and_another_descriptor_are_refused() {
    let channel = PortEnds::sampling("position", SIZE, LIMIT, 1).unwrap();
    let other_role = port(&channel.readers[0]).sampling_writer().unwrap_err();
    assert!(
        matches!(other_role, PortError::OtherRole { .. }),
        "{other_role}"
    );
    assert_eq!(port(&channel.writer).role(), PortRole::SamplingWriter);
    let other_name = inherited_of(&channel.writer.entry(), "speed").unwrap_err();
    assert!(
        other_name.to_string().contains("it has position"),
        "{other_name}"
    );
    let none = inherited_of("", "speed").unwrap_err();
    assert!(none.to_string().contains("tailbound run"), "{none}");
    let closed = inherited_of("position:sampling-reader:8:2:0:1000000", "position");
    assert!(matches!(closed, Err(PortError::Exchange { .. })));
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let no_socket = format!("position:sampling-reader:8:2:0:{}", file.as_raw_fd());
    let mut reader = inherited_of(&no_socket, "position")
        .unwrap()
        .sampling_reader()
        .unwrap();
    assert!(matches!(
        reader.read(&mut [0; 8]),
        Err(PortError::Exchange { .. })
    ));
    assert!(PortEnds::sampling("position", PortSize { longest: 0, ..SIZE }, LIMIT, 1).is_err());
}

/// A message through the socket that is no port ends in a refusal, and in nothing else.
#[test]
fn a_descriptor_that_is_no_port_is_refused() {
    let channel = PortEnds::sampling("position", SIZE, LIMIT, 1).unwrap();
    let mut reader = port(&channel.readers[0]).sampling_reader().unwrap();
    let sockets: Vec<_> = channel.writer.sockets().collect();
    let copy = sockets[0].try_clone_to_owned().unwrap();
    let socket = std::os::unix::net::UnixStream::from(copy);
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let send = |descriptors: &[std::os::fd::BorrowedFd<'_>]| {
        tailbound_linux::control_socket::send_with_descriptors(&socket, b"garbage", descriptors)
            .unwrap()
    };
    send(&[std::os::fd::AsFd::as_fd(&file)]);
    let refused = reader.read(&mut [0; 16]).unwrap_err();
    assert!(matches!(refused, PortError::NoPort { .. }), "{refused}");
    send(&[]);
    assert_eq!(reader.read(&mut [0; 16]).unwrap(), None);
}

proptest! {
    /// Any text of the environment variable is refused or has the port, and nothing else.
    #[test]
    fn any_variable_is_answered(text in "[a-z:0-9, -]{0,60}", name in "[a-z]{0,3}") {
        let _ = inherited_of(&text, &name);
        let entry = format!("{name}:sampling-writer:8:{text}:0:99999");
        let _ = inherited_of(&entry, &name);
    }
}
