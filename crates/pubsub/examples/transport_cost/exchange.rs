//! The allocations of a round trip, and its system calls, which strace counts from outside.

use allocation_counter::measure;
use serde_json::json;

use super::Settings;
use super::link::{Place, TRANSPORTS, Way};
use super::round_trips::RoundTrip;

/// The round trips of which the allocations are counted.
const TRIPS: u64 = 1_000;

fn settings() -> Settings {
    Settings {
        cpus: [0, 1],
        seconds: 0.0,
        run: std::process::id(),
    }
}

fn round_trip(transport: &str, way: Way) -> RoundTrip {
    let settings = settings();
    let place = Place {
        run: settings.run,
        subscribers: 1,
        longest: 64,
    };
    RoundTrip::over(transport, way, &settings, place)
}

/// Makes so many round trips. The difference between two counts is what the round trips in between called.
pub fn calls(transport: &str, way: &str, count: &str) {
    let mut ends = round_trip(transport, Way::parse(way));
    for _ in 0..count.parse::<u64>().unwrap() {
        ends.trip(&[1; 64]);
    }
}

/// The allocations of a round trip at this end, in the thread that sends and receives, by the allocator of Rust.
pub fn allocations() {
    let rows = TRANSPORTS.iter().flat_map(|transport| {
        let ways = [Way::Bare, Way::Own].into_iter();
        ways.map(move |way| {
            let mut ends = round_trip(transport, way);
            for _ in 0..100 {
                ends.trip(&[1; 64]);
            }
            let counted = measure(|| (0..TRIPS).for_each(|_| ends.trip(&[1; 64])));
            json!({
                "transport": transport,
                "way": way.name(),
                "allocations": counted.count_total as f64 / TRIPS as f64,
                "bytes": counted.bytes_total as f64 / TRIPS as f64,
            })
        })
    });
    let rows = rows.collect::<Vec<_>>();
    println!("{}", serde_json::to_string_pretty(&rows).unwrap());
}
