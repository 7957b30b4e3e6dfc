//! Where a report is.

/// `ReportAddress` is the address of a report, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportAddress {
    /// Whether the report is fetched over TLS.
    pub is_secure: bool,
    /// The host, without the brackets of an address of version 6.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path with its query.
    pub path: String,
}

impl ReportAddress {
    /// The parts of `http://HOST:PORT/PATH` or `https://HOST:PORT/PATH`; port 80 or 443 and path `/` if left out. `None` for
    /// anything else.
    pub fn parse(url: &str) -> Option<Self> {
        let (is_secure, rest) = match url.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, url.strip_prefix("http://")?),
        };
        if !rest.chars().all(|letter| letter.is_ascii_graphic()) {
            return None;
        }
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (host, port) = match authority.rsplit_once(':') {
            // A colon within brackets belongs to an address of version 6.
            Some((host, port)) if !port.contains(']') => (host, port.parse::<u16>().ok()?),
            _ => (authority, if is_secure { 443 } else { 80 }),
        };
        let host = match host.strip_prefix('[') {
            Some(inside) => inside.strip_suffix(']')?,
            None => host,
        };
        if host.is_empty() || port == 0 || host.contains(['@', '[', ']']) {
            return None;
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Some(Self {
            is_secure,
            host: host.to_owned(),
            port,
            path: format!("{slash}{path}"),
        })
    }

    /// Host and port, as the head of a request has them.
    pub fn authority(&self) -> String {
        let (host, port) = (&self.host, self.port);
        match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (url, authority, path, is_secure) in [
            ("http://127.0.0.1:80/a?b=1", "127.0.0.1:80", "/a?b=1", false),
            ("http://[::1]:8080", "[::1]:8080", "/", false),
            ("http://[::1]/m", "[::1]:80", "/m", false),
            ("http://host?q", "host:80", "/?q", false),
            ("https://host/", "host:443", "/", true),
            ("https://host:8443/r", "host:8443", "/r", true),
        ] {
            let address = ReportAddress::parse(url).unwrap();
            assert_eq!(address.authority(), authority);
            assert_eq!(
                (address.path.as_str(), address.is_secure),
                (path, is_secure)
            );
        }
        for none in [
            "ftp://host/",
            "host:80/",
            "http://",
            "http://:80/",
            "http://host:port/",
            "http://host:0/",
            "http://[::1/",
            "http://host/a b",
            "http://host/\r\nX: y",
            "http://user@host/",
        ] {
            assert_eq!(ReportAddress::parse(none), None, "{none}");
        }
    }
}
