//! Where an application's report is.

use core::net::SocketAddr;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The path of a report where a source names none.
const USUAL_PATH: &str = "/tailbound/service-level";

/// `SourceAddress` is the place of an application's report. Addresses are numeric, or `localhost`: no name is looked up while a
/// host is overloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceAddress {
    /// Over HTTP.
    Http {
        /// The address.
        address: SocketAddr,
        /// The path, with its query.
        path: String,
    },
    /// Over HTTP on a Unix socket, at the usual path.
    Unix {
        /// The socket.
        socket: PathBuf,
        /// The path of the report.
        path: String,
    },
    /// From a Prometheus server.
    Prometheus {
        /// The address.
        address: SocketAddr,
    },
}

/// Why a text is no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no place of a report")]
pub struct SourceAddressError(String);

impl FromStr for SourceAddress {
    type Err = SourceAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = if let Some(server) = text.strip_prefix("prometheus:") {
            split(server)
                .filter(|(_, path)| ["", "/"].contains(path))
                .map(|(address, _)| Self::Prometheus { address })
        } else if let Some(socket) = text.strip_prefix("unix:") {
            let (socket, path) = (PathBuf::from(socket), USUAL_PATH.to_owned());
            socket.is_absolute().then_some(Self::Unix { socket, path })
        } else {
            split(text).map(|(address, path)| {
                let path = if path.is_empty() { USUAL_PATH } else { path }.to_owned();
                Self::Http { address, path }
            })
        };
        let is_plain = text.chars().all(|one| one.is_ascii_graphic());
        parsed
            .filter(|_| is_plain)
            .ok_or_else(|| SourceAddressError(text.to_owned()))
    }
}

/// The address and the path of a URL.
fn split(url: &str) -> Option<(SocketAddr, &str)> {
    let rest = url.strip_prefix("http://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let address = match authority.strip_prefix("localhost:") {
        Some(port) => SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?)),
        None => authority.parse().ok()?,
    };
    (address.port() != 0).then_some((address, path))
}

impl fmt::Display for SourceAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { address, path } => write!(out, "http://{address}{path}"),
            Self::Unix { socket, .. } => write!(out, "unix:{}", socket.display()),
            Self::Prometheus { address } => write!(out, "prometheus:http://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn sources_round_trip() {
        for (text, whole) in [
            (
                "http://127.0.0.1:80",
                "http://127.0.0.1:80/tailbound/service-level",
            ),
            (
                "http://localhost:80/level?format=json",
                "http://127.0.0.1:80/level?format=json",
            ),
            ("http://[::1]:80/x", "http://[::1]:80/x"),
            ("unix:/run/a", "unix:/run/a"),
            (
                "prometheus:http://127.0.0.1:9090/",
                "prometheus:http://127.0.0.1:9090",
            ),
        ] {
            let source: SourceAddress = text.parse().unwrap();
            assert_eq!(source.to_string(), whole);
            assert_eq!(whole.parse::<SourceAddress>().unwrap(), source);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "http://",
            "https://127.0.0.1:80/",
            "http://shop:80/",
            "http://127.0.0.1/",
            "http://127.0.0.1:0/",
            "unix:run/a",
            "http://127.0.0.1:80/a b",
            "http://127.0.0.1:80/a\r\nHost: x",
            "prometheus:http://127.0.0.1:9090/x",
            "prometheus:unix:/a",
        ] {
            assert!(text.parse::<SourceAddress>().is_err(), "{text}");
        }
    }
}
