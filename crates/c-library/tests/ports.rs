//! Ports between programs in C or C++ and this one.

use std::process::Command;
use std::time::{Duration as Limit, Instant as Moment};

use tailbound_linux::spawn::pass_on;
use tailbound_ports::{PORTS_VARIABLE, PortEnds, PortError, PortSize};
use tailbound_time::Duration;

use crate::programs::{Language, Linkage, command, compile, run};

#[test]
fn a_program_in_c_passes_messages_by_descriptors_and_refuses_what_is_none() {
    if let Some(program) = compile("ports.c", Language::C, Linkage::Shared) {
        run(&program);
    }
}

#[test]
fn a_program_in_cpp_passes_messages_by_descriptors() {
    if let Some(program) = compile("ports.cc", Language::Cpp17, Linkage::Shared) {
        run(&program);
    }
}

/// Has a command inherit the ends of ports.
fn give(command: &mut Command, ends: [&tailbound_ports::PortEnd; 2]) {
    command.env(
        PORTS_VARIABLE,
        ends.map(tailbound_ports::PortEnd::entry).join(" "),
    );
    pass_on(
        command,
        ends.into_iter().flat_map(tailbound_ports::PortEnd::sockets),
    );
}

#[test]
fn a_program_in_c_inherits_ports() {
    let Some(program) = compile("ports.c", Language::C, Linkage::Static) else {
        return;
    };
    let size = PortSize {
        longest: 16,
        messages: 2,
    };
    let position = PortEnds::sampling("position", size, Duration::from_secs(3_600), 1).unwrap();
    let orders = PortEnds::queuing("orders", size).unwrap();
    let mut started = command(&program);
    give(
        started.arg("inherited"),
        [&position.writer, &orders.readers[0]],
    );
    let mut child = started.spawn().unwrap();
    // The other ends are inherited, too: by this program itself.
    let variable = [position.readers[0].entry(), orders.writer.entry()].join(" ");
    let inherited = |name| tailbound_ports::inherited_of(&variable, name).unwrap();
    let mut position = inherited("position").sampling_reader().unwrap();
    let mut orders = inherited("orders").queuing_sender().unwrap();
    let mut room = [0; 16];
    for text in ["go north", "go south", "end"] {
        let end = Moment::now() + Limit::from_secs(60);
        loop {
            match orders.send(text.as_bytes()) {
                Err(PortError::Full { .. }) => assert!(Moment::now() < end, "nobody receives"),
                outcome => {
                    outcome.unwrap();
                    break;
                }
            }
        }
        while position
            .read(&mut room)
            .unwrap()
            .is_none_or(|sample| &room[..sample.length] != text.as_bytes())
        {
            assert!(Moment::now() < end, "nobody writes");
            std::thread::sleep(Limit::from_millis(1));
        }
    }
    assert!(child.wait().unwrap().success());
}
