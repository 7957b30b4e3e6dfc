//! The programs at the other ends: one that sends everything back, and one that notes when messages come.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration as Limit;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::die_with_parent;
use tailbound_time::Clock;

use super::Settings;
use super::link::{Inlet, Place, Way, flooded_inlet, inlet, outlet};

/// An end program; it ends when this is dropped.
pub struct EndProgram(Child);

impl EndProgram {
    pub fn start(kind: &str, transport: &str, way: Way, settings: &Settings, place: Place) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["end", kind, transport, way.name()])
            .args([settings.cpus[1], place.run, place.subscribers].map(|number| number.to_string()))
            .arg(place.longest.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Self(die_with_parent(&mut command).spawn().unwrap())
    }

    pub fn process(&self) -> u32 {
        self.0.id()
    }

    /// Everything that the program wrote, as numbers, after it has ended by itself.
    pub fn numbers(mut self) -> Vec<u64> {
        let mut bytes = Vec::new();
        let mut output = self.0.stdout.take().unwrap();
        output.read_to_end(&mut bytes).unwrap();
        let words = bytes.as_chunks::<8>().0.iter();
        words.map(|word| u64::from_le_bytes(*word)).collect()
    }
}

impl Drop for EndProgram {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn main(arguments: &[&str]) {
    let &[kind, transport, way, cpu, run, subscribers, longest] = arguments else {
        panic!("an end program has other arguments than {arguments:?}");
    };
    super::pin(cpu.parse().unwrap());
    let place = Place {
        run: run.parse().unwrap(),
        subscribers: subscribers.parse().unwrap(),
        longest: longest.parse().unwrap(),
    };
    match kind {
        "echo" => echo(transport, Way::parse(way), place),
        "note" => note(inlet(transport, Way::parse(way), "ping", place)),
        "note-flooded" => note(flooded_inlet(transport, place)),
        "flood" => super::flood::flood(transport, Way::parse(way), place),
        _ => panic!("there is no end program {kind}"),
    }
}

/// Sends every message back.
fn echo(transport: &str, way: Way, place: Place) {
    let mut inlet = inlet(transport, way, "ping", place);
    let mut outlet = outlet(transport, way, "pong", place);
    loop {
        inlet.receive(None, &mut |payload| outlet.send(payload));
    }
}

/// Notes the latencies of messages that begin with the time at which they were sent. A message of zeros asks for them.
fn note(mut inlet: Box<dyn Inlet>) {
    let mut latencies_ns = Vec::with_capacity(1 << 16);
    let mut ends = false;
    while !ends {
        // A program whose publisher is gone ends, too.
        let received = inlet.receive(Some(Limit::from_secs(60)), &mut |payload| {
            let arrival_ns = Monotonic.now().as_nanos();
            let sent = payload
                .first_chunk()
                .map_or(0, |sent| u64::from_le_bytes(*sent));
            match sent {
                0 => ends = true,
                // A message that makes the ends known to each other.
                1 => {}
                sent => latencies_ns.extend([sent, arrival_ns.saturating_sub(sent)]),
            }
        });
        ends |= !received;
    }
    let bytes = latencies_ns.iter().flat_map(|number| number.to_le_bytes());
    let bytes = bytes.collect::<Vec<_>>();
    std::io::stdout().write_all(&bytes).unwrap();
}
