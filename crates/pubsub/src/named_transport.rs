//! Transports by their names in descriptions.

use std::net::Ipv4Addr;

use tailbound_linux::network_interface::interface_address;

use crate::{Rtps, Transport, TransportError, Udp};

/// The names of the transports that some builds lack, and the features that they are built with.
const FEATURES: [(&str, &str); 4] = [
    ("shared-memory", "iceoryx2"),
    ("zeromq", "zeromq"),
    ("cyclone-dds", "cyclone"),
    ("zenoh", "zenoh"),
];

/// The transport of this name at this address, as descriptions have both; `None` if this build has none of the name.
///
/// | Name | Address |
/// | --- | --- |
/// | `udp` | the name or the address of an interface, and a port: multicast over it |
/// | `rtps` | the name or the address of an interface and the number of a domain: `127.0.0.1:0` |
/// | `shared-memory` (feature `iceoryx2`) | the name of the data space on this host |
/// | `zeromq` (feature `zeromq`) | the name of the data space on this host |
/// | `zenoh` (feature `zenoh`) | the addresses with ports at which the programs listen, one each, with commas between |
/// | `cyclone-dds` (feature `cyclone`) | the name or the address of an interface and the number of a domain: `127.0.0.1:0` |
///
/// # Errors
/// If the address is none of the transport's, or the kernel or the middleware refuses.
pub fn named_transport(
    name: &str,
    address: &str,
) -> Option<Result<Box<dyn Transport>, TransportError>> {
    Some(match name {
        "udp" => udp(address),
        "rtps" => rtps(address),
        #[cfg(feature = "iceoryx2")]
        "shared-memory" => crate::SharedMemory::join(address).map(|joined| Box::new(joined) as _),
        #[cfg(feature = "zeromq")]
        "zeromq" => crate::ZeroMq::on_host(address).map(|joined| Box::new(joined) as _),
        #[cfg(feature = "cyclone")]
        "cyclone-dds" => cyclone(address),
        #[cfg(feature = "zenoh")]
        "zenoh" => zenoh(address),
        _ => return None,
    })
}

/// The feature with which a build has the transport of this name; `None` if every build has it, or none.
pub fn transport_feature(name: &str) -> Option<&'static str> {
    let entry = FEATURES.iter().find(|(transport, _)| *transport == name);
    entry.map(|(_, feature)| *feature)
}

fn udp(address: &str) -> Result<Box<dyn Transport>, TransportError> {
    let place = interface_and_number(address).filter(|(_, port)| *port > 0);
    let Some((interface, port)) = place else {
        let needed = "an interface and a port are needed, such as 127.0.0.1:7410 or lo:7410";
        return Err(refused("udp", address, needed.to_owned()));
    };
    let interface = address_of(interface).map_err(|reason| refused("udp", address, reason))?;
    Ok(Box::new(Udp::multicast(interface, port)))
}

fn rtps(address: &str) -> Result<Box<dyn Transport>, TransportError> {
    let (domain, interface) = domain_and_interface("rtps", address)?;
    Ok(Box::new(Rtps::join(domain, interface)?))
}

/// The number of a domain of DDS, which stands in the place of a port, and the address of the interface.
fn domain_and_interface(
    transport: &'static str,
    address: &str,
) -> Result<(u16, Ipv4Addr), TransportError> {
    let Some((interface, domain)) = interface_and_number(address) else {
        let needed =
            "an interface and the number of a domain are needed, such as 127.0.0.1:0 or lo:0";
        return Err(refused(transport, address, needed.to_owned()));
    };
    let interface = address_of(interface).map_err(|reason| refused(transport, address, reason))?;
    Ok((domain, interface))
}

#[cfg(feature = "cyclone")]
fn cyclone(address: &str) -> Result<Box<dyn Transport>, TransportError> {
    let (domain, interface) = domain_and_interface("cyclone-dds", address)?;
    let joined = crate::CycloneDds::join(domain.into(), interface)?;
    Ok(Box::new(joined))
}

/// The name or the address of an interface, and the number behind it.
fn interface_and_number(address: &str) -> Option<(&str, u16)> {
    let (interface, number) = address.rsplit_once(':')?;
    Some((interface, number.parse().ok()?))
}

/// The IPv4 address of an interface that is given by its name or address, or why there is none.
fn address_of(interface: &str) -> Result<Ipv4Addr, String> {
    interface.parse().or_else(|_| {
        interface_address(interface)
            .map_err(|cause| format!("the IPv4 address of `{interface}`: {cause}"))
    })
}

fn refused(transport: &'static str, address: &str, reason: String) -> TransportError {
    TransportError::Refused {
        transport,
        attempt: format!("use the address `{address}`"),
        reason,
    }
}

#[cfg(feature = "zenoh")]
fn zenoh(address: &str) -> Result<Box<dyn Transport>, TransportError> {
    let addresses: Result<Vec<std::net::SocketAddr>, _> =
        address.split(',').map(|one| one.trim().parse()).collect();
    let Ok(addresses) = addresses else {
        let needed = "addresses with ports are needed, such as 127.0.0.1:7447,127.0.0.1:7448";
        return Err(refused("zenoh", address, needed.to_owned()));
    };
    Ok(Box::new(crate::ZenohMesh::among(&addresses)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_address_that_is_none_is_refused_with_what_would_be_right() {
        for (address, remedy) in [
            ("here", "127.0.0.1:7410"),
            ("127.0.0.1:0", "lo:7410"),
            ("no-such-one:7410", "`no-such-one`"),
        ] {
            let refused = named_transport("udp", address).unwrap().err().unwrap();
            assert!(refused.to_string().contains(remedy), "{refused}");
        }
        let of_domains = [
            "rtps",
            #[cfg(feature = "cyclone")]
            "cyclone-dds",
        ];
        for name in of_domains {
            for (address, remedy) in [
                ("lo", "127.0.0.1:0"),
                ("127.0.0.1", "lo:0"),
                ("no-such-one:0", "`no-such-one`"),
            ] {
                let refused = named_transport(name, address).unwrap().err().unwrap();
                assert!(refused.to_string().contains(remedy), "{refused}");
            }
        }
    }

    #[test]
    fn a_transport_has_the_name_that_it_is_asked_for_by() {
        let udp = named_transport("udp", "127.0.0.1:7410").unwrap().unwrap();
        assert_eq!(udp.traits().name, "udp");
        assert!(named_transport("udp", "lo:7410").unwrap().is_ok());
        assert!(named_transport("carrier-pigeon", "x").is_none());
        assert_eq!(transport_feature("carrier-pigeon"), None);
    }

    #[test]
    fn a_transport_that_a_build_lacks_has_a_feature() {
        for (name, feature) in FEATURES {
            assert_eq!(transport_feature(name), Some(feature));
        }
        #[cfg(not(feature = "zeromq"))]
        assert!(named_transport("zeromq", "x").is_none());
    }
}
