//! One publisher, 16 subscribers, each a program of its own.

use std::time::{Duration as Limit, Instant};

use serde_json::{Value, json};
use tailbound_linux::clock::Monotonic;
use tailbound_time::Clock;

use super::Settings;
use super::end_program::EndProgram;
use super::link::{Outlet, Place, TRANSPORTS, Way, outlet};
use super::statistics::Turns;

const SUBSCRIBERS: u32 = 16;
/// The time between two messages; all subscribers have had the one before by then.
const PAUSE: Limit = Limit::from_millis(3);
/// The messages of a way in a turn.
const MESSAGES: usize = 20;

struct FanOut {
    transport: &'static str,
    way: Way,
    outlet: Box<dyn Outlet>,
    subscribers: Vec<EndProgram>,
    /// The times at which messages were sent, turn by turn.
    sent_ns: Vec<Vec<u64>>,
}

impl FanOut {
    fn over(transport: &'static str, way: Way, settings: &Settings, place: Place) -> Self {
        let outlet = outlet(transport, way, "ping", place);
        let subscriber = |_| EndProgram::start("note", transport, way, settings, place);
        Self {
            transport,
            way,
            outlet,
            subscribers: (0..SUBSCRIBERS).map(subscriber).collect(),
            sent_ns: Vec::new(),
        }
    }

    fn send(&mut self, stamp: u64) {
        let mut payload = [0; 64];
        payload[..8].copy_from_slice(&stamp.to_le_bytes());
        self.outlet.send(&payload);
        std::thread::sleep(PAUSE);
    }

    fn turn(&mut self) {
        let sent_ns = (0..MESSAGES).map(|_| {
            let now_ns = Monotonic.now().as_nanos();
            self.send(now_ns);
            now_ns
        });
        let sent_ns = sent_ns.collect();
        self.sent_ns.push(sent_ns);
    }

    /// The latencies, turn by turn, without the first turn, in which the ends get to know each other.
    fn end(mut self) -> (&'static str, Way, Turns) {
        for _ in 0..20 {
            self.send(0);
        }
        let noted = self.subscribers.into_iter().map(EndProgram::numbers);
        let latencies = noted.flat_map(|numbers| {
            let pairs = numbers.as_chunks::<2>().0.to_vec();
            pairs
                .into_iter()
                .map(|[sent_ns, latency_ns]| (sent_ns, latency_ns))
        });
        let mut by_message = std::collections::BTreeMap::<u64, Vec<u64>>::new();
        for (sent_ns, latency_ns) in latencies {
            by_message.entry(sent_ns).or_default().push(latency_ns);
        }
        let mut turns = Turns::default();
        for turn in self.sent_ns.iter().skip(1) {
            let arrived = turn.iter().filter_map(|sent_ns| by_message.get(sent_ns));
            let arrived = arrived.flatten().copied().collect::<Vec<_>>();
            turns.lost += (turn.len() * SUBSCRIBERS as usize - arrived.len()) as u64;
            turns.add(arrived);
        }
        (self.transport, self.way, turns)
    }
}

pub fn main(settings: &Settings) {
    let place = Place {
        run: settings.run,
        subscribers: SUBSCRIBERS,
        longest: 64,
    };
    let mut ways = Vec::new();
    for transport in TRANSPORTS {
        for way in Way::ALL {
            ways.push(FanOut::over(transport, way, settings, place));
        }
    }
    // Messages of the number 1 make the ends known to each other.
    for _ in 0..100 {
        ways.iter_mut().for_each(|way| way.send(1));
    }
    let begin = Instant::now();
    let mut turn = 0;
    while begin.elapsed().as_secs_f64() < settings.seconds {
        let count = ways.len();
        for place in 0..count {
            ways[(turn + place) % count].turn();
        }
        turn += 1;
    }
    let results = ways.into_iter().map(FanOut::end).collect::<Vec<_>>();
    let rows = results.iter().map(|(transport, way, turns)| {
        let bare = |(name, way, _): &&(&str, Way, Turns)| name == transport && *way == Way::Bare;
        let bare = &results.iter().find(bare).unwrap().2;
        json!({
            "transport": transport,
            "way": way.name(),
            "bytes": 64,
            "subscribers": SUBSCRIBERS,
            "cpus": settings.cpus,
            "result": turns.row(bare),
        })
    });
    let rows = rows.collect::<Vec<Value>>();
    println!("{}", serde_json::to_string_pretty(&rows).unwrap());
}
