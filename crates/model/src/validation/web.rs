//! The version of HTTP and the TLS of services.

use std::net::IpAddr;
use std::path::Path;

use super::Check;
use crate::description::{Protocol, Service};
use crate::parser::KeyPath;
use crate::web::{HttpVersion, ServiceTls};

/// The longest name of a host, in bytes (RFC 1035, section 2.3.4, without the last dot).
const HOST_NAME_BYTES_MAX: usize = 253;

/// Checks that version and TLS stand only where HTTP is spoken, and that the TLS is whole.
pub(super) fn web(check: &mut Check<'_>, place: &KeyPath, service: &Service) {
    let is_web = service.protocol == Protocol::Http;
    if service.http_version != HttpVersion::One && !is_web {
        check.error(
            &place.key("http_version"),
            "a service of this protocol does not speak HTTP",
            "leave it out; it is for protocol = \"http\"",
        );
    }
    let Some(tls) = &service.tls else {
        return;
    };
    let here = place.key("tls");
    if !is_web {
        return check.error(
            &here,
            "TLS to a service of this protocol is not supported",
            "leave it out; it is for protocol = \"http\"",
        );
    }
    server_name(check, &here, service, tls);
    tls.check_files(&here, check);
}

fn server_name(check: &mut Check<'_>, here: &KeyPath, service: &Service, tls: &ServiceTls) {
    match (&tls.server_name, service.endpoint_host()) {
        (None, None) => check.error(
            here,
            "nothing says which name the certificate of the service has",
            "add server_name, such as \"shop.test\": a Unix socket has no host name",
        ),
        (Some(name), _) if !is_host(name) => check.error(
            &here.key("server_name"),
            format!("{name:?} is no host name and no IP address"),
            "write the name in the certificate of the service, such as \"shop.test\", without a port",
        ),
        _ => {}
    }
}

/// Whether a certificate can have this name.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len())
            && label.bytes().all(plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.parse::<IpAddr>().is_ok()
        || (name.len() <= HOST_NAME_BYTES_MAX && name.split('.').all(is_label))
}

impl ServiceTls {
    /// Adds the problems of the files of certificates and keys, which stand at a place.
    pub fn check_files(&self, here: &KeyPath, check: &mut Check<'_>) {
        let named = [
            ("authority", Some(&self.authority)),
            ("certificate", self.certificate.as_ref()),
            ("key", self.key.as_ref()),
        ];
        for (key, path) in named {
            if path.is_some_and(|path| path == Path::new("")) {
                check.error(&here.key(key), "the path is empty", "name a PEM file");
            }
        }
        match (&self.certificate, &self.key) {
            (Some(_), None) => check.error(
                &here.key("certificate"),
                "the private key of the certificate is missing",
                "add `key`, or leave `certificate` out where the service asks for no certificate",
            ),
            (None, Some(_)) => check.error(
                &here.key("key"),
                "the certificate of the private key is missing",
                "add `certificate`, or leave `key` out where the service asks for no certificate",
            ),
            _ => {}
        }
    }
}
