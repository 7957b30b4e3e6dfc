//! A measurement of topics over each transport, beside the transport without them.
//!
//! ```text
//! transport_cost round-trips --cpus 1,1 [--seconds N]     both ends on one CPU, or on two
//! transport_cost fan-out --cpus 0,1 [--seconds N]         one publisher, 16 subscribers
//! transport_cost flood --cpus 0,1 [--seconds N]           a publisher that keeps its contract beside one that does not
//! transport_cost calls TRANSPORT WAY COUNT                so many round trips of 64 bytes, for strace
//! transport_cost allocations                              allocations of a round trip
//! ```
//!
//! Prints a table in JSON. Every end of a topic is a program of its own. The ways take turns, many times in a run; each bare
//! transport is there twice, and `ratio` is the median over the turns of a way's median by that of the bare transport in the
//! same turn. `bench/pubsub` says how to run it.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod bare_middleware;
mod bare_rtps;
mod bare_udp;
mod end_program;
mod exchange;
mod fan_out;
mod flood;
mod link;
mod round_trips;
mod statistics;

use std::collections::BTreeSet;

use tailbound_linux::process::own_thread;
use tailbound_linux::scheduling::set_affinity;

/// The arguments of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The CPU of this program, and that of the others.
    pub cpus: [u32; 2],
    pub seconds: f64,
    /// A number that no other run on the host has.
    pub run: u32,
}

fn main() {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let words = arguments.iter().map(String::as_str).collect::<Vec<_>>();
    match words.as_slice() {
        ["end", rest @ ..] => end_program::main(rest),
        ["round-trips", rest @ ..] => round_trips::main(&settings(rest)),
        ["fan-out", rest @ ..] => fan_out::main(&settings(rest)),
        ["flood", rest @ ..] => flood::main(&settings(rest)),
        ["calls", transport, way, count] => exchange::calls(transport, way, count),
        ["allocations"] => exchange::allocations(),
        _ => panic!("write round-trips, fan-out, flood, calls or allocations; see the source"),
    }
}

fn settings(options: &[&str]) -> Settings {
    let mut settings = Settings {
        cpus: [0, 1],
        seconds: 10.0,
        run: std::process::id(),
    };
    for option in options.chunks(2) {
        match option {
            ["--cpus", cpus] => {
                let (own, other) = cpus.split_once(',').expect("--cpus takes two numbers");
                settings.cpus = [own, other].map(|cpu| cpu.parse().expect("a CPU is a number"));
            }
            ["--seconds", seconds] => settings.seconds = seconds.parse().expect("seconds"),
            other => panic!("there is no option {other:?}"),
        }
    }
    pin(settings.cpus[0]);
    settings
}

/// Keeps this thread, and those that it starts, on a CPU.
pub fn pin(cpu: u32) {
    set_affinity(own_thread(), &BTreeSet::from([cpu])).unwrap();
}
