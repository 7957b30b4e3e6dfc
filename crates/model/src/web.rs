//! What a service of HTTP is spoken to with: the version of HTTP, and TLS.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::description::{Protocol, Service};

/// The versions of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum HttpVersion {
    /// HTTP/1.1: the requests of a connection are answered in their order.
    #[default]
    #[serde(rename = "1.1")]
    One,
    /// HTTP/2: each request has a stream of its own, and any stream may be answered first.
    #[serde(rename = "2")]
    Two,
}

/// The certificates by which the client of a service knows the service, and the service its client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceTls {
    /// The certificates of the authority that vouches for the service; a PEM file, relative to the description. The
    /// authorities of the system are not consulted.
    pub authority: PathBuf,
    /// The name in the certificate of the service; by default the host name or address of `endpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The certificate of the client, and those between this certificate and its authority; a PEM file. Only where the
    /// service asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// The private key of `certificate`; a PEM file that no other user may read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

impl Service {
    /// The host that `endpoint` names, without the port; `None` for a Unix socket.
    pub fn endpoint_host(&self) -> Option<&str> {
        if self.endpoint.starts_with("unix:") {
            return None;
        }
        let (host, _) = self.endpoint.rsplit_once(':')?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        Some(bare.unwrap_or(host))
    }

    /// The name that the certificate of the service has, where the service speaks TLS and something says the name.
    pub fn server_name(&self) -> Option<&str> {
        let tls = self.tls.as_ref()?;
        tls.server_name.as_deref().or_else(|| self.endpoint_host())
    }

    /// Whether the replies of one connection may come in another order than the requests.
    pub fn has_streams(&self) -> bool {
        self.protocol == Protocol::Http && self.http_version == HttpVersion::Two
    }
}
