//! What the kernel and our privileges allow on this host.

/// What the kernel and our privileges allow on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HostCapabilities {}
