//! The ways from an agent to its host, and where each begins.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tailbound_linux::polling::open_non_blocking;
use tailbound_linux::vsock::VsockStream;
use tailbound_time::Duration;

use crate::agent::link::{ConnectError, Connector, Link, UnixConnector};
use crate::agent::port::PortLink;
use crate::agent::service::Patience;
use crate::tls::{self, Files, TlsError, TlsStream};

/// Where the kernel keeps the ports of a guest, by their names.
const PORTS: &str = "/dev/virtio-ports";
/// How long a host may take to accept a connection.
const CONNECT_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);
/// Where the link does not tell that the other end has gone, the host asks each second.
const SILENT_FOR: Duration = Duration::from_secs(10);

/// Where the host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// At a Unix socket.
    Unix(PathBuf),
    /// At a port of this guest.
    Port(PathBuf),
    /// At a vsock port of a machine.
    Vsock {
        /// The machine's context identifier.
        cid: u32,
        /// The port.
        port: u32,
    },
    /// At a TCP port, by TLS.
    Tls {
        /// The host's name or address, which its certificate has to name.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Address {
    /// Reads `unix:PATH`, `virtio:NAME`, `virtio:/PATH`, `vsock:CID:PORT` or `tls:HOST:PORT`.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        if rest.is_empty() || rest.contains('\0') {
            return None;
        }
        match kind {
            "unix" => Some(Self::Unix(rest.into())),
            "virtio" if rest.starts_with('/') => Some(Self::Port(rest.into())),
            "virtio" if rest.contains('/') || rest.starts_with('.') => None,
            "virtio" => Some(Self::Port(PathBuf::from(PORTS).join(rest))),
            "vsock" => {
                let (cid, port) = rest.split_once(':')?;
                Some(Self::Vsock {
                    cid: cid.parse().ok()?,
                    port: port.parse().ok()?,
                })
            }
            "tls" => {
                let (host, port) = rest.rsplit_once(':')?;
                let bare = host
                    .strip_prefix('[')
                    .and_then(|host| host.strip_suffix(']'));
                let host = bare.unwrap_or(host).to_owned();
                ServerName::try_from(host.as_str()).ok()?;
                Some(Self::Tls {
                    host,
                    port: port.parse().ok().filter(|port| *port > 0)?,
                })
            }
            _ => None,
        }
    }

    /// How long an agent waits there for what.
    pub fn patience(&self) -> Patience {
        let silence = match self {
            Self::Unix(_) => None,
            Self::Port(_) | Self::Vsock { .. } | Self::Tls { .. } => Some(SILENT_FOR),
        };
        Patience {
            silence,
            ..Patience::default()
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
            Self::Port(path) => write!(out, "virtio:{}", path.display()),
            Self::Vsock { cid, port } => write!(out, "vsock:{cid}:{port}"),
            Self::Tls { host, port } if host.contains(':') => write!(out, "tls:[{host}]:{port}"),
            Self::Tls { host, port } => write!(out, "tls:{host}:{port}"),
        }
    }
}

enum Way {
    Unix(UnixConnector),
    Port(PathBuf),
    Vsock {
        cid: u32,
        port: u32,
    },
    Tls {
        host: String,
        port: u16,
        config: Arc<ClientConfig>,
    },
}

/// Makes links to a host at any address.
pub struct Route {
    address: Address,
    way: Way,
}

impl Route {
    /// To the host at `address`. `files` are needed for TLS; `host_uid` is who may listen at a Unix
    /// socket, beside root and this process's user.
    ///
    /// # Errors
    /// If a file for TLS is wrong, or missing.
    pub fn to(
        address: Address,
        files: Option<&Files>,
        host_uid: Option<u32>,
    ) -> Result<Self, TlsError> {
        let way = match &address {
            Address::Unix(path) => {
                let connector = UnixConnector::new(path.clone());
                Way::Unix(match host_uid {
                    Some(uid) => connector.trusting(uid),
                    None => connector,
                })
            }
            Address::Port(path) => Way::Port(path.clone()),
            &Address::Vsock { cid, port } => Way::Vsock { cid, port },
            Address::Tls { host, port } => {
                let missing = || TlsError::File {
                    file: PathBuf::new(),
                    reason: "no files for TLS are named".to_owned(),
                    remedy: "give --certificate, --key and --authority",
                };
                Way::Tls {
                    host: host.clone(),
                    port: *port,
                    config: tls::agent(files.ok_or_else(missing)?)?,
                }
            }
        };
        Ok(Self { address, way })
    }
}

impl Connector for Route {
    type Link = Box<dyn Link>;

    fn connect(&mut self) -> Result<Box<dyn Link>, ConnectError> {
        let connected: io::Result<Box<dyn Link>> = match &mut self.way {
            Way::Unix(connector) => return Ok(Box::new(connector.connect()?)),
            Way::Port(path) => open_non_blocking(path)
                .and_then(PortLink::new)
                .map(|link| Box::new(link) as Box<dyn Link>),
            Way::Vsock { cid, port } => {
                VsockStream::connect(*cid, *port).map(|link| Box::new(link) as Box<dyn Link>)
            }
            Way::Tls { host, port, config } => {
                connect_tls(host, *port, config).map(|link| Box::new(link) as Box<dyn Link>)
            }
        };
        connected.map_err(|source| ConnectError::Unreachable {
            address: self.address.to_string(),
            source,
        })
    }
}

fn connect_tls(host: &str, port: u16, config: &Arc<ClientConfig>) -> io::Result<TlsStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
            Ok(socket) => {
                socket.set_nonblocking(true)?;
                socket.set_nodelay(true)?;
                let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
                return TlsStream::agent(socket, config, name).map_err(io::Error::other);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in [
            "unix:/run/modes",
            "virtio:/dev/vport0p1",
            "vsock:2:7171",
            "tls:cell.example:7171",
            "tls:192.0.2.1:7171",
            "tls:[2001:db8::1]:7171",
        ] {
            let address = Address::parse(text).map(|address| address.to_string());
            assert_eq!(address.as_deref(), Some(text));
        }
        let named = Address::parse("virtio:tailbound");
        let port = Address::Port("/dev/virtio-ports/tailbound".into());
        assert_eq!(named, Some(port));
        for wrong in [
            "unix:",
            "tcp:x",
            "virtio:../x",
            "virtio:",
            "vsock:2",
            "vsock:x:1",
            "tls:host",
            "tls:host:0",
            "tls::1",
            "tls:a b:1",
            "/run/modes",
        ] {
            assert_eq!(Address::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_address_panics(text in "(unix|virtio|vsock|tls)?:?\\PC{0,20}") {
            if let Some(address) = Address::parse(&text) {
                prop_assert_eq!(Address::parse(&address.to_string()), Some(address));
            }
        }
    }
}
