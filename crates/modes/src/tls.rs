//! TLS 1.3 on connections that never block, with certificates at both ends.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use webpki::EndEntityCert;

/// So often is read from a socket at a time.
const MOST_READS: usize = 16;

/// The files by which an end shows who it is, and knows who the other one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Its certificate, and those between that and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who vouches for the other end.
    pub authority: PathBuf,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file is not what it should be.
    #[error("{}: {reason}; {remedy}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
        /// What would be right.
        remedy: &'static str,
    },
    /// The files do not fit each other, or what TLS says otherwise.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// Nobody is vouched for.
    #[error("TLS: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

fn wrong(file: &Path, reason: impl ToString, remedy: &'static str) -> TlsError {
    TlsError::File {
        file: file.to_owned(),
        reason: reason.to_string(),
        remedy,
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let remedy = "name a PEM file with certificates";
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| wrong(file, error, remedy))?;
    match read.is_empty() {
        true => Err(wrong(file, "it holds no certificate", remedy)),
        false => Ok(read),
    }
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    use std::os::unix::fs::PermissionsExt;
    let remedy = "name a PEM file with a private key";
    let about = std::fs::metadata(file).map_err(|error| wrong(file, error, remedy))?;
    if about.permissions().mode() & 0o077 != 0 {
        let reason = "other users may use this private key";
        return Err(wrong(
            file,
            reason,
            "chmod 600 it, and make a new one if they have",
        ));
    }
    PrivateKeyDer::from_pem_file(file).map_err(|error| wrong(file, error, remedy))
}

fn roots(file: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        let added = roots.add(certificate);
        added.map_err(|error| wrong(file, error, "name certificates of authorities"))?;
    }
    Ok(Arc::new(roots))
}

/// What a host needs for agents.
///
/// # Errors
/// Which file is wrong, or that they do not fit each other.
pub fn host(files: &Files) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(
        roots(&files.authority)?,
        Arc::clone(&provider),
    )
    .build()?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&files.certificate)?, key(&files.key)?)?;
    Ok(Arc::new(config))
}

/// What an agent needs for its host.
///
/// # Errors
/// As [`host`].
pub fn agent(files: &Files) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots(&files.authority)?)
        .with_client_auth_cert(certificates(&files.certificate)?, key(&files.key)?)?;
    Ok(Arc::new(config))
}

/// Whether a certificate is that of a domain's agent: whether it names the domain.
pub fn names(certificate: &CertificateDer<'_>, domain: &str) -> bool {
    let Ok(name) = ServerName::try_from(domain) else {
        return false;
    };
    let entity = EndEntityCert::try_from(certificate);
    entity.is_ok_and(|entity| entity.verify_is_valid_for_subject_name(&name).is_ok())
}

/// Whom a certificate names, for people.
pub fn named(certificate: &CertificateDer<'_>) -> String {
    let Ok(entity) = EndEntityCert::try_from(certificate) else {
        return "nobody".to_owned();
    };
    let names: Vec<&str> = entity.valid_dns_names().take(4).collect();
    match names.is_empty() {
        true => "nobody".to_owned(),
        false => names.join(", "),
    }
}

/// A connection that is encrypted, or about to be.
pub struct TlsStream {
    socket: TcpStream,
    tls: rustls::Connection,
}

impl TlsStream {
    /// The host's end of a connection, which must not block.
    ///
    /// # Errors
    /// What TLS says.
    pub fn host(socket: TcpStream, config: &Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let tls = ServerConnection::new(Arc::clone(config))?.into();
        Ok(Self { socket, tls })
    }

    /// An agent's end of a connection, which must not block, to a host of this name.
    ///
    /// # Errors
    /// What TLS says.
    pub fn agent(
        socket: TcpStream,
        config: &Arc<ClientConfig>,
        host: ServerName<'static>,
    ) -> Result<Self, rustls::Error> {
        let tls = ClientConnection::new(Arc::clone(config), host)?.into();
        Ok(Self { socket, tls })
    }

    /// Goes on with the handshake; whether it is over, and well.
    ///
    /// # Errors
    /// Why it fails.
    pub fn shake_hands(&mut self) -> io::Result<bool> {
        let moved = self.take_in();
        // An alert says to the other end why.
        let output = self.give_out();
        if !moved? && self.tls.is_handshaking() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        output?;
        Ok(!self.tls.is_handshaking())
    }

    /// The certificate of the other end, once hands are shaken.
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        let chain = self.tls.peer_certificates()?;
        chain.first().map(|first| first.clone().into_owned())
    }

    /// Whether something was received that has not been read yet.
    pub fn holds_more(&mut self) -> bool {
        let state = self.tls.process_new_packets();
        state.is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    /// Takes in what has come, within bounds: records without content may come without end. `false` at
    /// the end of the stream.
    fn take_in(&mut self) -> io::Result<bool> {
        for _ in 0..MOST_READS {
            match self.tls.read_tls(&mut self.socket) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let state = self.tls.process_new_packets().map_err(invalid)?;
            // Before more is taken in, this is to be read.
            if state.plaintext_bytes_to_read() > 0 {
                return Ok(true);
            }
        }
        // The rest waits in the socket.
        Ok(true)
    }

    fn give_out(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What is said here is short: an end that takes so little in is as good as gone. Only
                // before the connection is made there is nothing to take it in.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return match self.tls.is_handshaking() {
                        true => Ok(()),
                        false => Err(io::ErrorKind::ConnectionReset.into()),
                    };
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for _ in 0..2 {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            let taken = self.take_in();
            let output = self.give_out();
            let more = taken?;
            output?;
            if !more && !self.holds_more() {
                return Ok(0);
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.tls.writer().write(bytes)?;
        self.give_out()?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.give_out()
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
