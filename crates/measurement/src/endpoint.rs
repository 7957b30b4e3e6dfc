//! Where a service listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::MeasurementError;

/// Where a service listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
}

impl Endpoint {
    /// Reads `unix:PATH` or `ADDRESS:PORT`; a relative path starts at `base`, a host name is
    /// looked up.
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
        }
    }
}
