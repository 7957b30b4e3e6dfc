//! TLS to services: what a client has read of files, and the session of one connection.

mod service_verifier;

use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::ClientConnection;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, OtherError, RootCertStore};
use tailbound_model::{HttpVersion, ServiceTls};

use crate::MeasurementError;
use crate::stream::Socket;
use service_verifier::ServiceVerifier;

/// The rights of a private key that other users must not have.
const RIGHTS_OF_OTHERS: u32 = 0o077;

/// What all connections to one service over TLS have in common.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    server_name: ServerName<'static>,
    authority: PathBuf,
}

impl PartialEq for TlsClient {
    fn eq(&self, other: &Self) -> bool {
        self.server_name == other.server_name && self.authority == other.authority
    }
}

impl Eq for TlsClient {}

/// The TLS of one connection.
#[derive(Debug)]
pub(crate) struct TlsSession {
    connection: ClientConnection,
    client: Arc<TlsClient>,
}

/// A fault of a handshake that a later try repeats.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct LastingTlsFault(String);

impl LastingTlsFault {
    /// The handshake ended without an agreement on the version of HTTP.
    pub(crate) fn of_version() -> io::Error {
        let text = "the service offers no such version of HTTP; change http_version";
        io::Error::other(Self(text.into()))
    }

    /// Whether an error is one.
    pub(crate) fn is_cause_of(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|cause| cause.is::<Self>())
    }
}

fn bad_file(key: &str, file: &Path, reason: impl ToString, remedy: &str) -> MeasurementError {
    MeasurementError::BadPlan {
        what: format!("tls.{key}: {}: {}", file.display(), reason.to_string()),
        remedy: remedy.into(),
    }
}

fn certificates(key: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, MeasurementError> {
    let remedy = "name a PEM file with certificates";
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| bad_file(key, file, error, remedy))?;
    match read.is_empty() {
        true => Err(bad_file(
            key,
            file,
            "the file has no certificate in PEM form",
            remedy,
        )),
        false => Ok(read),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, MeasurementError> {
    let remedy = "name a PEM file with a private key";
    let about = std::fs::metadata(file).map_err(|error| bad_file("key", file, error, remedy))?;
    let rights: Permissions = about.permissions();
    if rights.mode() & RIGHTS_OF_OTHERS != 0 {
        let reason = "other users may use this private key";
        return Err(bad_file("key", file, reason, "chmod 600 it"));
    }
    PrivateKeyDer::from_pem_file(file).map_err(|error| bad_file("key", file, error, remedy))
}

/// Whoever judges the certificates of a service by those in a file.
fn verifier(
    file: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<ServiceVerifier>, MeasurementError> {
    let bad = |reason: String| {
        bad_file(
            "authority",
            file,
            reason,
            "name certificates of authorities",
        )
    };
    let listed = certificates("authority", file)?;
    let mut roots = RootCertStore::empty();
    for certificate in &listed {
        let added = roots.add(certificate.clone());
        added.map_err(|error| bad(error.to_string()))?;
    }
    ServiceVerifier::new(roots, listed, provider)
        .map(Arc::new)
        .map_err(|error| bad(error.to_string()))
}

impl TlsClient {
    /// Reads the files that a description names, relative to `base`.
    ///
    /// # Errors
    /// [`MeasurementError::BadPlan`], which names the file.
    pub fn read(
        tls: &ServiceTls,
        server_name: &str,
        version: HttpVersion,
        base: &Path,
    ) -> Result<Self, MeasurementError> {
        let authority = base.join(&tls.authority);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = verifier(&authority, Arc::clone(&provider))?;
        let tls_fault = |error: rustls::Error| MeasurementError::BadPlan {
            what: format!("tls: {error}"),
            remedy: "name a certificate and the private key that belongs to it".into(),
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(tls_fault)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match (&tls.certificate, &tls.key) {
            (Some(certificate), Some(key)) => builder
                .with_client_auth_cert(
                    certificates("certificate", &base.join(certificate))?,
                    private_key(&base.join(key))?,
                )
                .map_err(tls_fault)?,
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![alpn(version).to_vec()];
        let server_name = ServerName::try_from(server_name.to_owned()).map_err(|error| {
            MeasurementError::BadPlan {
                what: format!("tls.server_name: {server_name:?}: {error}"),
                remedy: "write the name in the certificate of the service".into(),
            }
        })?;
        Ok(Self {
            config: Arc::new(config),
            server_name,
            authority,
        })
    }

    /// What a fault of TLS means for whoever described the service.
    fn fault(&self, error: rustls::Error) -> io::Error {
        let authority = self.authority.display();
        let name = self.server_name.to_str();
        let text = match &error {
            rustls::Error::InvalidCertificate(why) => match why {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "the certificate of the service has expired; renew it".into()
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    "the certificate of the service is not valid yet; check the clocks".into()
                }
                CertificateError::NotValidForName => {
                    format!("the certificate of the service is not for {name}; set tls.server_name")
                }
                CertificateError::NotValidForNameContext { presented, .. }
                    if presented.is_empty() =>
                {
                    format!(
                        "the certificate of the service names no host (subjectAltName), and so not {name}; make another one"
                    )
                }
                CertificateError::NotValidForNameContext { presented, .. } => format!(
                    "the certificate of the service is for {}, not for {name}; set tls.server_name",
                    bare_names(presented)
                ),
                CertificateError::UnknownIssuer => format!(
                    "the certificate of the service is vouched for by none of {authority}; \
                     name its authority in tls.authority"
                ),
                CertificateError::Other(OtherError(other)) => format!(
                    "the certificate of the service is refused ({other}); where it vouches for itself, name its file in \
                     tls.authority"
                ),
                other => format!("the certificate of the service is refused: {other}"),
            },
            rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                "the service offers no such version of HTTP; change http_version".into()
            }
            rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
                "the service asks for a certificate; name it in tls.certificate, with tls.key"
                    .into()
            }
            rustls::Error::InvalidMessage(_) => {
                return io::Error::other(format!("{error}; does the service speak TLS?"));
            }
            _ => return io::Error::other(format!("TLS: {error}")),
        };
        io::Error::other(LastingTlsFault(text))
    }
}

/// The names of a certificate, which the library gives with their kinds, as in `DnsName("shop.test")`.
fn bare_names(presented: &[String]) -> String {
    let bare = |name: &String| {
        let (_, name) = name.split_once('(').unwrap_or(("", name));
        name.trim_matches(['"', ')']).to_owned()
    };
    presented.iter().map(bare).collect::<Vec<_>>().join(", ")
}

/// The name of a version of HTTP in handshakes (RFC 7301, section 6; RFC 9113, section 3.1).
fn alpn(version: HttpVersion) -> &'static [u8] {
    match version {
        HttpVersion::One => b"http/1.1",
        HttpVersion::Two => b"h2",
    }
}

impl TlsSession {
    /// The session of a new connection; nothing is sent yet.
    ///
    /// # Errors
    /// What TLS says.
    pub(crate) fn begin(client: &Arc<TlsClient>) -> io::Result<Self> {
        let name = client.server_name.clone();
        let connection = ClientConnection::new(Arc::clone(&client.config), name)
            .map_err(|error| client.fault(error))?;
        Ok(Self {
            connection,
            client: Arc::clone(client),
        })
    }

    /// Whether the service has agreed to speak this version; where nothing was agreed on, HTTP/1.1 is spoken.
    pub(crate) fn has_agreed_on(&self, version: HttpVersion) -> bool {
        match self.connection.alpn_protocol() {
            Some(protocol) => protocol == alpn(version),
            None => version == HttpVersion::One,
        }
    }

    /// Goes on with the handshake; whether it is over.
    ///
    /// # Errors
    /// Why it fails.
    pub(crate) fn shake_hands(&mut self, socket: &Socket) -> io::Result<bool> {
        self.give_out(socket)?;
        while self.connection.is_handshaking() {
            match self.take_in(socket)? {
                None => return Ok(false),
                Some(0) => {
                    let text = "the service closed the connection during the handshake of TLS";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
                }
                Some(_) => self.give_out(socket)?,
            }
        }
        Ok(true)
    }

    /// See [`crate::stream::Stream::write_some`].
    pub(crate) fn write_some(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            let count = self.connection.writer().write(&bytes[taken..])?;
            taken += count;
            self.give_out(socket)?;
            if count == 0 || taken == bytes.len() || self.has_unsent() {
                return Ok(taken);
            }
        }
    }

    /// Whether records wait for room in the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        self.connection.wants_write()
    }

    /// See [`crate::stream::Stream::read_some`].
    pub(crate) fn read_some(
        &mut self,
        socket: &Socket,
        buffer: &mut [u8],
    ) -> io::Result<Option<usize>> {
        loop {
            match self.connection.reader().read(buffer) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let text = "the service closed the connection without the end of TLS";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
                }
                Err(error) => return Err(error),
            }
            let taken = self.take_in(socket)?;
            // Where reading went well, a socket that takes nothing any more shows with the next write.
            let _shows_with_the_next_write = self.give_out(socket);
            if taken.is_none() {
                return Ok(None);
            }
        }
    }

    /// Takes in records as far as they have come: `None` if nothing has, 0 at the end.
    fn take_in(&mut self, mut socket: &Socket) -> io::Result<Option<usize>> {
        let count = loop {
            match self.connection.read_tls(&mut socket) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        if let Err(error) = self.connection.process_new_packets() {
            // An alert says to the service why.
            let _the_fault_itself_matters = self.give_out(socket);
            return Err(self.client.fault(error));
        }
        Ok(Some(count))
    }

    fn give_out(&mut self, mut socket: &Socket) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
