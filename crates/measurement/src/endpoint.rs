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
