//! The ways to a host beside its Unix socket, and who may come in by which.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustls::pki_types::CertificateDer;
use tailbound_linux::control_socket::PeerCredentials;
use tailbound_linux::vsock::VsockListener;
use tailbound_model::{AgentLink, AgentListeners};

use super::Authority;
use super::doorman::Doorman;
use super::ports::Port;
use crate::tls::{self, Files, TlsError};

/// How the agents of a host's domains come to it.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    /// The way of each agent; one that is not named here uses the Unix socket.
    pub links: BTreeMap<String, AgentLink>,
    /// Where the host listens.
    pub listeners: AgentListeners,
    /// The users whose virtual machines the domains are. They may hold the ports, as root and our own
    /// user may.
    pub owners: BTreeMap<String, u32>,
}

/// Why a way cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WayError {
    /// The files for TLS are wrong.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Nobody can connect there.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Why not.
        source: io::Error,
    },
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AgentPeer {
    /// A process of this host.
    Process(PeerCredentials),
    /// Whoever holds a port of the machine that is this domain.
    Port(String),
    /// A process of the guest with this context identifier.
    Guest(u32),
    /// Who has the key of this certificate.
    Certified(CertificateDer<'static>),
}

impl AgentPeer {
    /// For people.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Process(peer) => format!("process {} of user {}", peer.pid, peer.uid),
            Self::Port(domain) => format!("the port of domain \"{domain}\""),
            Self::Guest(cid) => format!("the guest {cid}"),
            Self::Certified(certificate) => {
                format!("the certificate of {}", tls::named(certificate))
            }
        }
    }

    /// By whom refusals are counted: a process that ends and another of its user are one.
    pub(super) fn source(&self) -> String {
        match self {
            Self::Process(peer) => format!("user {}", peer.uid),
            _ => self.in_words(),
        }
    }
}

/// What is open.
#[derive(Default)]
pub(super) struct Doors {
    links: BTreeMap<String, AgentLink>,
    pub(super) ports: Vec<Port>,
    pub(super) guests: Option<VsockListener>,
    pub(super) doorman: Option<Doorman>,
}

impl Doors {
    pub(super) fn open(ways: Ways) -> Result<Self, WayError> {
        let own = tailbound_linux::process::effective_uid();
        let ports = ways.links.iter().filter_map(|(domain, link)| match link {
            AgentLink::VirtioSerial { path } => {
                let owners = [0, own].into_iter().chain(ways.owners.get(domain).copied());
                let owners: BTreeSet<u32> = owners.collect();
                Some(Port::new(domain.clone(), path.clone(), owners))
            }
            _ => None,
        });
        let ports = ports.collect();
        let listen = |address: String| move |source| WayError::Listen { address, source };
        let guests = match ways.listeners.vsock_port {
            Some(port) => {
                let listener = VsockListener::bind(port);
                Some(listener.map_err(listen(format!("vsock port {port}")))?)
            }
            None => None,
        };
        let doorman = match ways.listeners.tls {
            Some(tls) => {
                let config = tls::host(&Files {
                    certificate: tls.certificate,
                    key: tls.key,
                    authority: tls.authority,
                })?;
                let doorman = Doorman::start(&tls.listen, config);
                Some(doorman.map_err(listen(tls.listen))?)
            }
            None => None,
        };
        Ok(Self {
            links: ways.links,
            ports,
            guests,
            doorman,
        })
    }

    /// Whether a domain is the guest with this context identifier.
    pub(super) fn expects_guest(&self, from: u32) -> bool {
        let mut links = self.links.values();
        links.any(|link| matches!(link, AgentLink::Vsock { cid } if *cid == from))
    }

    /// Whether somebody may be the agent of a domain, or why not.
    pub(super) fn admit(
        &self,
        peer: &AgentPeer,
        domain: &str,
        authority: &Authority,
    ) -> Result<(), String> {
        let fits = match (self.links.get(domain), peer) {
            (None | Some(AgentLink::Unix {}), AgentPeer::Process(process)) => {
                return authority(process, domain);
            }
            (Some(AgentLink::VirtioSerial { .. }), AgentPeer::Port(of)) => of == domain,
            (Some(AgentLink::Vsock { cid }), AgentPeer::Guest(from)) => from == cid,
            (Some(AgentLink::Tls {}), AgentPeer::Certified(certificate)) => {
                tls::names(certificate, domain)
            }
            _ => false,
        };
        match fits {
            true => Ok(()),
            false => Err("the description says otherwise".to_owned()),
        }
    }
}
