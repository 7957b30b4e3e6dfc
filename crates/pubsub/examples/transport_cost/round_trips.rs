//! Round trips between two programs.

use std::time::{Duration as Limit, Instant};

use serde_json::{Value, json};

use super::Settings;
use super::end_program::EndProgram;
use super::link::{Inlet, Outlet, Place, TRANSPORTS, Way, inlet, outlet};
use super::statistics::Turns;

/// The sizes of messages. The largest one fits into a datagram with the headers of every transport, and stands for 64 KiB.
const SIZES: [usize; 3] = [64, 1_024, 64_000];
/// The round trips of a way in a turn, without those before it that warm up the caches.
const TRIPS: usize = 250;
const WARM_UP: usize = 20;

/// One way to use a transport, with a program that sends everything back.
pub struct RoundTrip {
    outlet: Box<dyn Outlet>,
    inlet: Box<dyn Inlet>,
    _echo: EndProgram,
}

impl RoundTrip {
    pub fn over(transport: &str, way: Way, settings: &Settings, place: Place) -> Self {
        let echo = EndProgram::start("echo", transport, way, settings, place);
        let mut ends = Self {
            inlet: inlet(transport, way, "pong", place),
            outlet: outlet(transport, way, "ping", place),
            _echo: echo,
        };
        let begin = Instant::now();
        let payload = vec![1; place.longest];
        while {
            ends.outlet.send(&payload);
            !ends
                .inlet
                .receive(Some(Limit::from_millis(50)), &mut |_| {})
        } {
            assert!(
                begin.elapsed().as_secs() < 30,
                "{transport}: no answer came"
            );
        }
        // Of the messages until then, some answers are still on their way.
        while ends
            .inlet
            .receive(Some(Limit::from_millis(100)), &mut |_| {})
        {}
        ends
    }

    pub fn trip(&mut self, payload: &[u8]) {
        self.outlet.send(payload);
        while !self.inlet.receive(None, &mut |_| {}) {}
    }

    /// The times of a turn, in nanoseconds.
    fn turn(&mut self, payload: &[u8]) -> Vec<u64> {
        for _ in 0..WARM_UP {
            self.trip(payload);
        }
        let trip_ns = |_| {
            let begin = Instant::now();
            self.trip(payload);
            begin.elapsed().as_nanos() as u64
        };
        (0..TRIPS).map(trip_ns).collect()
    }
}

pub fn main(settings: &Settings) {
    let rows = SIZES.map(|size| of_size(settings, size)).concat();
    println!("{}", serde_json::to_string_pretty(&rows).unwrap());
}

fn of_size(settings: &Settings, size: usize) -> Vec<Value> {
    let place = Place {
        run: settings.run,
        subscribers: 1,
        longest: size,
    };
    let ways = TRANSPORTS.iter().flat_map(|transport| {
        let ways = Way::ALL.into_iter();
        ways.map(|way| (*transport, way))
    });
    let mut ways = ways
        .map(|(transport, way)| {
            let ends = RoundTrip::over(transport, way, settings, place);
            (transport, way, ends, Turns::default())
        })
        .collect::<Vec<_>>();
    let payload = vec![1; size];
    let begin = Instant::now();
    let mut turn = 0;
    while begin.elapsed().as_secs_f64() < settings.seconds {
        // The order goes round, so that nothing always follows the same neighbour.
        let count = ways.len();
        for place in 0..count {
            let (_, _, ends, turns) = &mut ways[(turn + place) % count];
            turns.add(ends.turn(&payload));
        }
        turn += 1;
    }
    let bare = |transport: &str| {
        let mut bare = ways
            .iter()
            .filter(|(name, way, ..)| *name == transport && *way == Way::Bare);
        &bare.next().unwrap().3
    };
    let row = |(transport, way, _, turns): &(&str, Way, RoundTrip, Turns)| {
        json!({
            "transport": transport,
            "way": way.name(),
            "bytes": size,
            "cpus": settings.cpus,
            "result": turns.row(bare(transport)),
        })
    };
    ways.iter().map(row).collect()
}
