//! Where a service listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tailbound_model::{DatabaseLogin, Service};

use crate::MeasurementError;
use crate::protocol::postgresql_login::DatabaseUser;

/// Where a service listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
    /// A database at one of these.
    Database(Box<DatabaseEndpoint>),
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
    /// [`MeasurementError::BadEndpoint`]; [`MeasurementError::BadPlan`] if a password cannot be read.
    pub fn of_service(service: &Service, base: &Path) -> Result<Self, MeasurementError> {
        let address = Self::resolve(&service.endpoint, base)?;
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
            Self::Database(database) => database.address.fmt(out),
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
