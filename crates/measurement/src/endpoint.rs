//! Where a service listens.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailbound_model::{DatabaseLogin, HttpVersion, Protocol, Service};

use crate::MeasurementError;
use crate::protocol::postgresql_login::DatabaseUser;
pub use crate::tls::TlsClient;

/// The length of messages where nobody says another one, in bytes.
pub const MESSAGE_BYTES: usize = 64;

/// Where a service listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
    /// A database at one of these.
    Database(Box<DatabaseEndpoint>),
    /// HTTP over TLS, in version 2, or both, at one of these.
    Web(Box<WebEndpoint>),
    /// Messages with bounds.
    Messages(MessageEndpoint),
}

/// Where a service of HTTP listens that is not spoken to in clear text of version 1.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebEndpoint {
    /// Where it listens.
    pub address: Endpoint,
    /// The version of HTTP.
    pub version: HttpVersion,
    /// What the connections know of TLS; nothing is encrypted without.
    pub tls: Option<Arc<TlsClient>>,
}

/// Where a service listens whose requests and replies are messages of one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageEndpoint {
    /// What carries the messages.
    pub carrier: MessageCarrier,
    /// The length of a message, in bytes.
    pub size: usize,
}

/// The carrier of messages, with the address that they go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageCarrier {
    /// Datagrams of UDP to an address.
    Datagrams(SocketAddr),
    /// Echo requests of ICMP to an address.
    Echo(Ipv4Addr),
    /// Topics in a data space.
    Topics(TopicEndpoint),
}

/// The data space in which a service has its topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicEndpoint {
    /// The name of the transport, as in `[topics]`.
    pub transport: String,
    /// The address that the transport needs, as there.
    pub address: String,
}

/// A database, and who logs in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseEndpoint {
    /// Where it listens.
    pub address: Endpoint,
    /// Who logs in.
    pub user: DatabaseUser,
}

impl Endpoint {
    /// Where a service listens, and who logs in there, if anybody does; relative paths start at `base`.
    ///
    /// # Errors
    /// [`MeasurementError::BadEndpoint`]; [`MeasurementError::BadPlan`] if a password or a file of TLS cannot be read.
    pub fn of_service(service: &Service, base: &Path) -> Result<Self, MeasurementError> {
        let address = match service.protocol {
            Protocol::IcmpEcho => Self::echo(&service.endpoint)?,
            _ => Self::resolve(&service.endpoint, base)?,
        };
        let size = service.message_size.map(|bytes| bytes as usize);
        let address = address.with_message_size(size.unwrap_or(MESSAGE_BYTES));
        if service.tls.is_some() || service.has_streams() {
            return Self::of_web(service, address, base);
        }
        Ok(match &service.login {
            None => address,
            Some(login) => Self::Database(Box::new(DatabaseEndpoint {
                address,
                user: DatabaseUser {
                    user: login.user.clone(),
                    database: login.database.as_ref().unwrap_or(&login.user).clone(),
                    password: password(login, base)?,
                },
            })),
        })
    }

    fn of_web(service: &Service, address: Self, base: &Path) -> Result<Self, MeasurementError> {
        let version = service.http_version;
        let tls = match &service.tls {
            None => None,
            Some(tls) => {
                let name = service.server_name().unwrap_or_default();
                Some(Arc::new(TlsClient::read(tls, name, version, base)?))
            }
        };
        Ok(Self::Web(Box::new(WebEndpoint {
            address,
            version,
            tls,
        })))
    }

    /// The same with messages of this length; over a stream it has no meaning.
    #[must_use]
    pub fn with_message_size(self, size: usize) -> Self {
        match self {
            Self::Messages(endpoint) => Self::Messages(MessageEndpoint { size, ..endpoint }),
            stream => stream,
        }
    }

    fn echo(text: &str) -> Result<Self, MeasurementError> {
        let address = text.parse().map_err(|_| MeasurementError::BadEndpoint {
            text: text.into(),
            why: "echo requests go to an IPv4 address without a port".into(),
        })?;
        Ok(Self::of_carrier(MessageCarrier::Echo(address)))
    }

    fn of_carrier(carrier: MessageCarrier) -> Self {
        let size = MESSAGE_BYTES;
        Self::Messages(MessageEndpoint { carrier, size })
    }

    /// Reads `unix:PATH`, `ADDRESS:PORT`, `udp:ADDRESS:PORT` or `topic:TRANSPORT:ADDRESS`; a relative path starts at
    /// `base`, a host name is looked up.
    ///
    /// # Errors
    /// [`MeasurementError::BadEndpoint`].
    pub fn resolve(text: &str, base: &Path) -> Result<Self, MeasurementError> {
        let bad = |why: String| MeasurementError::BadEndpoint {
            text: text.into(),
            why,
        };
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(bad("the path is empty".into()));
            }
            let path = base.join(path);
            // sockaddr_un holds 108 bytes, the last one zero.
            let length = path.as_os_str().len();
            if length > 107 {
                return Err(bad(format!(
                    "the path has {length} bytes, a Unix socket's at most 107"
                )));
            }
            return Ok(Self::Unix(path));
        }
        if let Some(address) = text.strip_prefix("udp:") {
            let address = address.parse().map_err(|_| {
                bad(format!(
                    "{address:?} is no address with a port for datagrams"
                ))
            })?;
            return Ok(Self::of_carrier(MessageCarrier::Datagrams(address)));
        }
        if let Some(rest) = text.strip_prefix("topic:") {
            let (transport, address) = rest
                .split_once(':')
                .filter(|(transport, address)| !transport.is_empty() && !address.is_empty())
                .ok_or_else(|| bad("topics need a transport and its address".into()))?;
            return Ok(Self::of_carrier(MessageCarrier::Topics(TopicEndpoint {
                transport: transport.into(),
                address: address.into(),
            })));
        }
        let mut addresses = std::net::ToSocketAddrs::to_socket_addrs(text)
            .map_err(|cause| bad(cause.to_string()))?;
        let address = addresses
            .next()
            .ok_or_else(|| bad("the name has no address".into()))?;
        Ok(Self::Tcp(address))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
            Self::Tcp(address) => write!(out, "{address}"),
            Self::Database(database) => database.address.fmt(out),
            Self::Web(web) => web.address.fmt(out),
            Self::Messages(endpoint) => match &endpoint.carrier {
                MessageCarrier::Datagrams(address) => write!(out, "udp:{address}"),
                MessageCarrier::Echo(address) => write!(out, "{address}"),
                MessageCarrier::Topics(topics) => {
                    write!(out, "topic:{}:{}", topics.transport, topics.address)
                }
            },
        }
    }
}

/// The password of a login, where it has one.
fn password(login: &DatabaseLogin, base: &Path) -> Result<Option<String>, MeasurementError> {
    let bad = |what: String, remedy: &str| MeasurementError::BadPlan {
        what,
        remedy: remedy.into(),
    };
    if let Some(name) = &login.password_variable {
        let password = std::env::var(name).map_err(|cause| {
            let what = format!("login.password_variable: {name}: {cause}");
            bad(what, "set the variable where tailbound runs")
        })?;
        return Ok(Some(password));
    }
    let Some(file) = &login.password_file else {
        return Ok(None);
    };
    let path = base.join(file);
    let text = std::fs::read_to_string(&path).map_err(|cause| {
        let what = format!(
            "login.password_file: cannot read {}: {cause}",
            path.display()
        );
        bad(what, "name a file whose first line is the password")
    })?;
    Ok(Some(text.lines().next().unwrap_or_default().to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_sockets_and_addresses() {
        let resolve = |text| Endpoint::resolve(text, Path::new("/base")).unwrap();
        assert_eq!(resolve("unix:a/s"), Endpoint::Unix("/base/a/s".into()));
        assert_eq!(resolve("unix:/run/s"), Endpoint::Unix("/run/s".into()));
        let address = Endpoint::Tcp("127.0.0.1:80".parse().unwrap());
        assert_eq!(resolve("127.0.0.1:80"), address);
        assert_eq!(resolve("[::1]:80").to_string(), "[::1]:80");
    }

    #[test]
    fn passwords_are_the_first_line_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "a b\nnot this\n").unwrap();
        let mut login = DatabaseLogin {
            user: "bench".into(),
            database: None,
            password_file: Some("secret".into()),
            password_variable: None,
        };
        let read = password(&login, folder.path()).unwrap();
        assert_eq!(read.as_deref(), Some("a b"));
        login.password_file = Some("none".into());
        let error = password(&login, folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("none") && error.contains("first line"),
            "{error}"
        );
        (login.password_file, login.password_variable) = (None, Some("TAILBOUND_NONE".into()));
        let error = password(&login, folder.path()).unwrap_err().to_string();
        assert!(error.contains("TAILBOUND_NONE"), "{error}");
    }

    #[test]
    fn says_what_is_wrong() {
        let long = format!("unix:{}", "x".repeat(108));
        for text in ["unix:", "127.0.0.1", "127.0.0.1:99999", &long] {
            let error = Endpoint::resolve(text, Path::new(""))
                .unwrap_err()
                .to_string();
            assert!(error.contains("write unix:PATH or ADDRESS:PORT"), "{error}");
        }
    }

    proptest! {
        // No bare words: those would be looked up as host names.
        #[test]
        fn no_text_panics(text in "unix:\\PC*|[0-9.:\\[\\]]{0,20}") {
            let _outcome = Endpoint::resolve(&text, Path::new("/base"));
        }
    }
}
