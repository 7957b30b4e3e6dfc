//! Transports by their names in descriptions.

use std::net::SocketAddrV4;

use crate::{Transport, TransportError, Udp};

/// The transport of this name at this address, as descriptions have both.
///
/// | Name | Address |
/// | --- | --- |
/// | `udp` | the address of an interface and a port: multicast over it |
/// | `shared-memory` (feature `iceoryx2`) | the name of the data space on this host |
/// | `zeromq` (feature `zeromq`) | the name of the data space on this host |
///
/// # Errors
/// If there is no such transport, this build lacks it, or the address is none of its.
pub fn named_transport(name: &str, address: &str) -> Result<Box<dyn Transport>, TransportError> {
    match name {
        "udp" => {
            let address: SocketAddrV4 = address.parse().map_err(|_| TransportError::Refused {
                transport: "udp",
                attempt: format!("use the address `{address}`"),
                reason: "an IPv4 address and a port are needed, such as 127.0.0.1:7410".to_owned(),
            })?;
            Ok(Box::new(Udp::multicast(*address.ip(), address.port())))
        }
        #[cfg(feature = "iceoryx2")]
        "shared-memory" => Ok(Box::new(crate::SharedMemory::join(address)?)),
        #[cfg(feature = "zeromq")]
        "zeromq" => Ok(Box::new(crate::ZeroMq::on_host(address)?)),
        _ => Err(absent(name)),
    }
}

/// The transports of other builds: their names, and the features to build with.
const FEATURES: [(&str, &str); 2] = [("shared-memory", "iceoryx2"), ("zeromq", "zeromq")];

/// The refusal of a transport that this build does not have.
fn absent(name: &str) -> TransportError {
    let feature = FEATURES.iter().find(|(transport, _)| *transport == name);
    let reason = match feature {
        Some((_, feature)) => {
            format!("this build lacks it; build with `--features {feature}`, or take `udp`")
        }
        None => "there is none of that name; take `udp`, `shared-memory` or `zeromq`".to_owned(),
    };
    TransportError::Refused {
        transport: "of a description",
        attempt: format!("carry messages by `{name}`"),
        reason,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn refusal(name: &str, address: &str) -> String {
        named_transport(name, address).err().unwrap().to_string()
    }

    #[test]
    fn refusals_say_what_would_be_right() {
        let cases = [
            ("udp", "here", "127.0.0.1:7410"),
            ("carrier-pigeon", "x", "take `udp`"),
        ];
        for (name, address, remedy) in cases {
            let text = refusal(name, address);
            assert!(text.contains(remedy), "{text}");
        }
        #[cfg(not(feature = "zeromq"))]
        assert!(refusal("zeromq", "x").contains("--features zeromq"));
    }

    #[test]
    fn a_transport_has_the_name_that_it_is_asked_for_by() {
        let udp = named_transport("udp", "127.0.0.1:7410").unwrap();
        assert_eq!(udp.traits().name, "udp");
    }
}
