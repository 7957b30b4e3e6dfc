//! A publisher that keeps its contract, and one that floods the same topic: messages of the first one at the subscriber of
//! both, with the flood and without it, in turn.

use std::time::{Duration as Limit, Instant};

use serde_json::{Value, json};
use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::{own_thread, send_signal};
use tailbound_linux::scheduling::{SchedulingSetting, set_scheduling};
use tailbound_pubsub::Publisher;
use tailbound_time::Clock;

use super::Settings;
use super::end_program::EndProgram;
use super::link::{Place, TRANSPORTS, Way, flooded_topic, space};
use super::statistics::quantile;

/// The time between two messages of the neighbour.
const PERIOD: Limit = Limit::from_millis(1);
/// The length of a phase with the flood or without it.
const PHASE: Limit = Limit::from_millis(500);
/// After a phase begins, this long nothing is counted.
const SETTLING: Limit = Limit::from_millis(50);

/// The numbers of the signals that halt a process and let it go on.
const STOP: i32 = 19;
const CONTINUE: i32 = 18;

/// The ways to flood, by the way of the end program: the library of the flooder refuses what its contract does not admit;
/// a flooder without a contract sends ten times as much; or as much as its CPU manages.
const FLOODS: [(Way, &str); 3] = [
    (Way::Own, "refused by its library"),
    (Way::Bare, "ten times its contract"),
    (Way::BareAgain, "without end"),
];

/// Floods a topic until it is killed.
pub fn flood(transport: &str, way: Way, place: Place) -> ! {
    // The flood takes only the CPU time that the neighbour leaves.
    set_scheduling(own_thread(), SchedulingSetting::Other { nice: 0 }).unwrap();
    let space = space(transport, place);
    let mut publisher = space.publisher(&flooded_topic(place)).unwrap();
    if way != Way::Own {
        publisher.disregard_contract();
    }
    let mut payload = [0; 64];
    payload[0] = 1;
    loop {
        let burst = if way == Way::Bare { 20 } else { 1_000 };
        for _ in 0..burst {
            // What is refused costs the flooder only.
            let _ = publisher.publish(&payload);
        }
        if way == Way::Bare {
            std::thread::sleep(Limit::from_millis(1));
        }
    }
}

pub fn main(settings: &Settings) {
    let mut rows = Vec::new();
    for transport in TRANSPORTS {
        for (way, flood) in FLOODS {
            rows.push(under(transport, way, flood, settings));
        }
    }
    println!("{}", serde_json::to_string_pretty(&rows).unwrap());
}

fn under(transport: &str, way: Way, flood: &str, settings: &Settings) -> Value {
    let place = Place {
        run: settings.run,
        subscribers: 2,
        longest: 64,
    };
    let space = space(transport, place);
    let subscriber = EndProgram::start("note-flooded", transport, Way::Own, settings, place);
    let on_own_cpu = Settings {
        cpus: [settings.cpus[0]; 2],
        ..*settings
    };
    let flooder = EndProgram::start("flood", transport, way, &on_own_cpu, place);
    let mut publisher = space.publisher(&flooded_topic(place)).unwrap();
    publisher.disregard_contract();
    for _ in 0..1_000 {
        send(&mut publisher, 1);
    }
    // Of each phase, the messages that count.
    let mut sent_ns = [Vec::new(), Vec::new()];
    let begin = Instant::now();
    let mut floods = 0;
    while begin.elapsed().as_secs_f64() < settings.seconds {
        floods = 1 - floods;
        send_signal(flooder.process(), [STOP, CONTINUE][floods]).unwrap();
        let phase = Instant::now();
        while phase.elapsed() < PHASE {
            let now_ns = Monotonic.now().as_nanos();
            send(&mut publisher, now_ns);
            if phase.elapsed() > SETTLING {
                sent_ns[floods].push(now_ns);
            }
        }
    }
    drop(flooder);
    for _ in 0..20 {
        send(&mut publisher, 0);
    }
    row(transport, flood, &sent_ns, subscriber.numbers())
}

fn send(publisher: &mut Publisher, stamp: u64) {
    let mut payload = [0; 64];
    payload[..8].copy_from_slice(&stamp.to_le_bytes());
    let _ = publisher.publish(&payload);
    std::thread::sleep(PERIOD);
}

fn row(transport: &str, flood: &str, sent_ns: &[Vec<u64>; 2], noted: Vec<u64>) -> Value {
    let pairs = noted
        .as_chunks::<2>()
        .0
        .iter()
        .map(|[sent, latency]| (*sent, *latency));
    let by_message = pairs.collect::<std::collections::BTreeMap<_, _>>();
    let phase = |sent_ns: &Vec<u64>| {
        let arrived = sent_ns
            .iter()
            .filter_map(|sent| by_message.get(sent).copied());
        let mut arrived = arrived.collect::<Vec<_>>();
        arrived.sort_unstable();
        json!({
            "sent": sent_ns.len(),
            "lost": sent_ns.len() - arrived.len(),
            "p50_ns": quantile(&arrived, 0.5),
            "p99_ns": quantile(&arrived, 0.99),
        })
    };
    json!({
        "transport": transport,
        "flood": flood,
        "without": phase(&sent_ns[0]),
        "with": phase(&sent_ns[1]),
    })
}
