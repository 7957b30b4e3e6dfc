//! The suite that every transport passes. A transport plugs in by a [`TransportMaker`] and a test that calls [`check`].

mod contracts;
#[cfg(feature = "cyclone")]
mod cyclone;
mod delivery;
mod faults;
mod lives;
mod rtps;
#[cfg(feature = "cyclone")]
mod rtps_with_cyclone;
#[cfg(feature = "iceoryx2")]
pub mod shared_memory;
mod stage;
#[cfg(feature = "zenoh")]
mod zenoh_mesh;
#[cfg(feature = "zeromq")]
mod zero_mq;

use std::net::Ipv4Addr;

use tailbound_pubsub::{InProcess, Transport, Udp};

/// How the suite gets a transport.
pub trait TransportMaker {
    /// Makes a transport. All those of one maker are one data space, as those of programs that want to speak to each other.
    fn make(&self) -> Box<dyn Transport>;

    /// Whether a message is with the subscribers when sending it returns.
    fn delivers_at_once(&self) -> bool;

    /// The number of topics to try in one program.
    fn topics(&self) -> usize;
}

type Check = (&'static str, fn(&dyn TransportMaker));

const CHECKS: &[Check] = &[
    ("order", delivery::messages_arrive_in_order),
    ("sizes", delivery::messages_of_all_sizes_arrive_whole),
    ("history", delivery::the_newest_messages_wait),
    (
        "wait",
        delivery::a_wait_lasts_until_a_message_comes_or_its_limit,
    ),
    (
        "newest after a wait",
        delivery::the_newest_message_ends_a_wait,
    ),
    (
        "two publishers",
        delivery::two_publishers_have_their_own_order,
    ),
    (
        "sixteen subscribers",
        delivery::sixteen_subscribers_get_everything,
    ),
    (
        "late joiner",
        delivery::a_late_subscriber_misses_nothing_that_follows,
    ),
    ("callbacks", delivery::a_thread_calls_back),
    ("many topics", delivery::many_topics_stand_apart),
    ("garbage", faults::garbage_is_counted_and_passed_over),
    ("other types", faults::messages_of_another_type_are_refused),
    ("strangers", faults::a_publisher_too_many_is_refused),
    (
        "qualities",
        faults::qualities_that_the_transport_lacks_are_refused,
    ),
    (
        "idle subscriber",
        faults::a_subscriber_that_never_reads_stops_nobody,
    ),
    ("farewell", lives::a_publisher_that_ends_says_so),
    (
        "liveliness",
        lives::a_silent_publisher_is_lost_after_its_lease,
    ),
    ("deadline", lives::a_missed_deadline_is_an_event),
    ("lifespan", lives::an_old_message_is_not_delivered),
    ("dispose", lives::an_instance_is_disposed_of),
    ("contract", contracts::a_flood_gets_what_its_contract_admits),
    (
        "holding back",
        contracts::messages_are_held_back_until_the_contract_admits_them,
    ),
    (
        "own contract",
        contracts::a_publisher_hears_that_it_breaks_its_contract,
    ),
];

/// Runs the suite. A check that fails panics; the line before says which one it is.
pub fn check(maker: &dyn TransportMaker) {
    for (name, check) in CHECKS {
        println!("{}: {name}", maker.make().traits().name);
        check(maker);
    }
}

struct InProcessMaker(InProcess);

impl TransportMaker for InProcessMaker {
    fn make(&self) -> Box<dyn Transport> {
        Box::new(self.0.clone())
    }

    fn delivers_at_once(&self) -> bool {
        true
    }

    fn topics(&self) -> usize {
        10_000
    }
}

#[test]
fn the_transport_within_a_process_conforms() {
    check(&InProcessMaker(InProcess::default()));
}

struct MulticastMaker {
    port: u16,
}

impl TransportMaker for MulticastMaker {
    fn make(&self) -> Box<dyn Transport> {
        Box::new(Udp::multicast(Ipv4Addr::LOCALHOST, self.port))
    }

    fn delivers_at_once(&self) -> bool {
        true
    }

    fn topics(&self) -> usize {
        100
    }
}

#[test]
fn multicast_datagrams_conform() {
    // A port of which no other test of the host makes use now.
    let port = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = port.local_addr().unwrap().port();
    check(&MulticastMaker { port });
}
