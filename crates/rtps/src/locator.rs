//! The well-known addresses of participants (DDSI-RTPS 2.3, section 9.6.1).

use std::net::{Ipv4Addr, SocketAddrV4};

/// The highest number of a domain with well-known ports for 120 participants on a host.
pub const HIGHEST_DOMAIN: u16 = 230;
/// The highest number of a participant on a host.
pub const HIGHEST_PARTICIPANT: u16 = 119;

/// The first port of domain 0, and the distances of ports between domains and between participants.
const BASE_PORT: u16 = 7_400;
const PORTS_OF_DOMAIN: u16 = 250;
const PORTS_OF_PARTICIPANT: u16 = 2;
/// The place of the discovery by unicast among the ports of a domain.
const UNICAST_OFFSET: u16 = 10;

/// The group and port at which the participants of a domain announce themselves; `domain` is at most [`HIGHEST_DOMAIN`].
pub fn discovery_group(domain: u16) -> SocketAddrV4 {
    let port = BASE_PORT + PORTS_OF_DOMAIN * domain.min(HIGHEST_DOMAIN);
    SocketAddrV4::new(Ipv4Addr::new(239, 255, 0, 1), port)
}

/// The port at which a participant receives discovery by unicast; `participant` is at most [`HIGHEST_PARTICIPANT`].
pub fn participant_port(domain: u16, participant: u16) -> u16 {
    let participant = participant.min(HIGHEST_PARTICIPANT);
    discovery_group(domain).port() + UNICAST_OFFSET + PORTS_OF_PARTICIPANT * participant
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_of_the_standard() {
        assert_eq!(discovery_group(0).to_string(), "239.255.0.1:7400");
        assert_eq!(discovery_group(3).port(), 8_150);
        assert_eq!(participant_port(0, 0), 7_410);
        assert_eq!(participant_port(1, 2), 7_664);
        assert_eq!(
            participant_port(HIGHEST_DOMAIN, HIGHEST_PARTICIPANT),
            65_148
        );
    }
}
