//! A client of the daemon.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time;

use tailbound_enforcement::{LedgerSummary, Plan, ReservationRequest};
use tailbound_linux::HostCapabilities;
use tailbound_linux::control_socket::{connect_within, peer_credentials};
use tailbound_linux::process::{effective_uid, lock_holders};
use tailbound_model::{ResourceInterface, WhenEmpty};
use tailbound_time::Duration;

use crate::control_frame::{
    self, ControlDecoder, FrameError, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX,
};
use crate::deadline::{is_timeout, remaining, std_duration, write_within};
use crate::launch::{self, LaunchError, StartOptions};
use crate::protocol::{
    ControlRequest, DaemonStatus, Lease, Refusal, RefusalKind, Response, Selection,
};
use crate::standstill::{ProcessCondition, Standstill};
use crate::state_directory::StateDirectory;
use crate::subsystem_request::SubsystemRequest;

/// How long an answer may take that waits for nothing but the daemon itself.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long an answer may take for which reservations are made, changed or taken back: for a turn, for room
/// that others give back, for many threads.
const CHANGED_WITHIN: Duration = Duration::from_secs(75);
/// How long the daemon may take to read a request.
const SENT_WITHIN: Duration = Duration::from_secs(10);
/// How long a daemon that is stopped is waited for, whatever it is asked.
const STOPPED_AT_MOST: Duration = Duration::from_secs(10);
/// How often it is looked at while it does not answer.
const LOOK_EVERY: time::Duration = time::Duration::from_millis(200);

/// Why a client does not get what it asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody listens.
    #[error("tailboundd is not running ({} does not answer); start it with \"tailboundd\" or the systemd unit", .socket.display())]
    NotRunning {
        /// The socket.
        socket: PathBuf,
    },
    /// The socket may not be used.
    #[error("no permission for {}; run the command as root (sudo)", .socket.display())]
    NoPermission {
        /// The socket.
        socket: PathBuf,
    },
    /// Somebody else listens.
    #[error("{} belongs to uid {uid}, neither root nor this user; set TAILBOUND_STATE_DIR to a directory that you trust", .socket.display())]
    NotTrusted {
        /// The socket.
        socket: PathBuf,
        /// Who listens.
        uid: u32,
    },
    /// The daemon speaks another version of the protocol.
    #[error("{0}; restart tailboundd (its reservations are taken back when it ends)")]
    Version(String),
    /// The daemon says no; [`Refusal::kind`] tells programs why, its text tells people.
    #[error(transparent)]
    Refused(Refusal),
    /// The daemon ended, or closed the connection.
    #[error(
        "tailboundd closed the connection; reservations leased to it are taken back: connect again"
    )]
    Closed,
    /// The daemon does not answer in time: what was found of it.
    #[error("{0}")]
    Slow(Standstill),
    /// The daemon was stopped, and was ended while it was asked.
    #[error(
        "tailboundd (process {}) was stopped when it was asked ({}) and has been ended since; its watchdog \
         takes everything back: ask again", .0.daemon, .0.condition
    )]
    Ended(Standstill),
    /// The daemon's answer is none to this request, or no valid frame.
    #[error(
        "tailboundd gave an answer that makes no sense ({0}); use tailbound and tailboundd of one release"
    )]
    Nonsense(String),
    /// The daemon could not be started.
    #[error(transparent)]
    NotStarted(#[from] LaunchError),
    /// The socket failed.
    #[error("the control socket {}: {source}", .socket.display())]
    Socket {
        /// The socket.
        socket: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl ClientError {
    /// The daemon's refusal, if that is what it is.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The kind of the daemon's refusal, if that is what it is.
    pub fn refusal_kind(&self) -> Option<RefusalKind> {
        self.refusal().map(|refusal| refusal.kind)
    }
}

/// A connection to the daemon.
///
/// Reservations made with [`Lease::Connection`] live as long as this value: dropping it, or the
/// death of this process, takes them back.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    socket: PathBuf,
    decoder: ControlDecoder,
    /// How long an answer may take.
    answer_within: Duration,
    /// The process that listens, as the kernel noted it; 0 if it is not visible.
    listener: u32,
    /// What was seen of it when we connected.
    stop: Stop,
    daemon: u32,
}

impl Client {
    /// Connects to the daemon that serves `state_directory`.
    ///
    /// # Errors
    /// If there is none, or it cannot be trusted or understood.
    pub fn connect(state_directory: &Path) -> Result<Self, ClientError> {
        Self::connect_within(state_directory, ANSWER_WITHIN)
    }

    /// As [`Client::connect`], to a daemon that says who it is within `limit`.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_within(state_directory: &Path, limit: Duration) -> Result<Self, ClientError> {
        let socket = StateDirectory::new(state_directory).socket();
        let stream = connect_within(&socket, limit.min(SENT_WITHIN))
            .map_err(|source| connect_error(state_directory, &socket, source))?;
        let failed = |source| ClientError::Socket {
            socket: socket.clone(),
            source,
        };
        let peer = peer_credentials(&stream).map_err(failed)?;
        if peer.uid != 0 && peer.uid != effective_uid() {
            return Err(ClientError::NotTrusted {
                socket,
                uid: peer.uid,
            });
        }
        let mut client = Self {
            stream,
            socket,
            decoder: ControlDecoder::new(RESPONSE_BYTES_MAX),
            answer_within: limit,
            listener: peer.pid,
            stop: Stop::default(),
            daemon: 0,
        };
        let hello = ControlRequest::Hello {
            client: concat!("tailbound ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        // One that is stopped may be ended before it is looked at again.
        client.stop.look(peer.pid);
        match client.ask_within(&hello, limit) {
            Ok(Response::Hello { pid, .. }) => {
                client.daemon = pid;
                Ok(client)
            }
            Ok(other) => Err(nonsense(&other)),
            // The kernel takes connections for a daemon that is ending, until the last of its
            // threads has closed the socket. One that never says who it is serves nobody.
            Err(ClientError::Closed) => Err(ClientError::NotRunning {
                socket: client.socket,
            }),
            Err(error) => Err(error),
        }
    }

    /// Connects to the daemon that serves `state_directory`; starts one if there is none. A daemon
    /// that starts takes back first what dead ones left.
    ///
    /// # Errors
    /// If there is none and none can be started, or it cannot be trusted or understood.
    pub fn connect_or_start(
        state_directory: &Path,
        options: &StartOptions,
    ) -> Result<Self, ClientError> {
        let deadline = time::Instant::now() + std_duration(options.start_within);
        let mut connected = Self::connect(state_directory);
        while let Err(ClientError::NotRunning { .. } | ClientError::Ended(_)) = connected {
            launch::start(state_directory, options)?;
            connected = Self::connect(state_directory);
            if remaining(deadline).is_none() {
                break;
            }
            if connected.is_err() {
                // The one that serves this directory ended between the two calls.
                std::thread::sleep(time::Duration::from_millis(20));
            }
        }
        connected
    }

    /// The daemon's process.
    pub fn daemon_pid(&self) -> u32 {
        self.daemon
    }

    /// What `requests` would change; changes nothing.
    ///
    /// # Errors
    /// Why they would be refused, or why the daemon cannot be asked.
    pub fn plan(&mut self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, ClientError> {
        let requests = requests.to_vec();
        match self.ask(&ControlRequest::Plan { requests })? {
            Response::Planned { plans } => Ok(plans),
            other => Err(nonsense(&other)),
        }
    }

    /// Makes all of `requests`, or none; tells what was done.
    ///
    /// # Errors
    /// Why they are refused, or why the daemon cannot be asked.
    pub fn apply(
        &mut self,
        requests: &[ReservationRequest],
        lease: Lease,
    ) -> Result<Vec<Plan>, ClientError> {
        self.apply_with(requests, lease, BTreeMap::new())
    }

    /// As [`Client::apply`], with what becomes of some domains' reservations once those have no
    /// members; by default that depends on what each is for.
    ///
    /// # Errors
    /// As there.
    pub fn apply_with(
        &mut self,
        requests: &[ReservationRequest],
        lease: Lease,
        when_empty: BTreeMap<String, WhenEmpty>,
    ) -> Result<Vec<Plan>, ClientError> {
        let request = ControlRequest::Apply {
            requests: requests.to_vec(),
            lease,
            when_empty,
        };
        match self.ask(&request)? {
            Response::Applied { plans } => Ok(plans),
            other => Err(nonsense(&other)),
        }
    }

    /// Changes budget, period or priority of an active reservation; its CPUs stay.
    ///
    /// # Errors
    /// Why the old one still holds, or why the daemon cannot be asked.
    pub fn change(
        &mut self,
        domain: &str,
        interface: &ResourceInterface,
    ) -> Result<Plan, ClientError> {
        let request = ControlRequest::Change {
            domain: domain.to_owned(),
            interface: interface.clone(),
        };
        match self.ask(&request)? {
            Response::Changed { plan } => Ok(*plan),
            other => Err(nonsense(&other)),
        }
    }

    /// The host as the daemon found it when it started, with which it plans reservations.
    ///
    /// # Errors
    /// If the daemon cannot be asked.
    pub fn host(&mut self) -> Result<HostCapabilities, ClientError> {
        match self.ask(&ControlRequest::Host {})? {
            Response::Host { host } => Ok(*host),
            other => Err(nonsense(&other)),
        }
    }

    /// Takes back what `selection` names; tells the domains.
    ///
    /// # Errors
    /// If there is no such domain, something could not be put back, or the daemon cannot be asked.
    pub fn revert(&mut self, selection: Selection) -> Result<Vec<String>, ClientError> {
        match self.ask(&ControlRequest::Revert { selection })? {
            Response::Reverted { domains } => Ok(domains),
            other => Err(nonsense(&other)),
        }
    }

    /// What is enforced, by whom, and how the watchdog is.
    ///
    /// # Errors
    /// If the daemon cannot be asked.
    pub fn status(&mut self) -> Result<DaemonStatus, ClientError> {
        match self.ask(&ControlRequest::Status {})? {
            Response::Status { status } => Ok(*status),
            other => Err(nonsense(&other)),
        }
    }

    /// What the managers have seen of each domain.
    ///
    /// # Errors
    /// If the daemon cannot be asked.
    pub fn ledger(&mut self) -> Result<BTreeMap<String, LedgerSummary>, ClientError> {
        match self.ask(&ControlRequest::Ledger {})? {
            Response::Ledger { domains } => Ok(domains),
            other => Err(nonsense(&other)),
        }
    }

    /// The daemon's metrics as Prometheus text.
    ///
    /// # Errors
    /// If the daemon cannot be asked.
    pub fn metrics(&mut self) -> Result<String, ClientError> {
        match self.ask(&ControlRequest::Metrics {})? {
            Response::Metrics { text } => Ok(text),
            other => Err(nonsense(&other)),
        }
    }

    /// Asks one subsystem.
    ///
    /// # Errors
    /// Why it refuses, or why the daemon cannot be asked.
    pub fn ask_subsystem<R: SubsystemRequest>(
        &mut self,
        request: &R,
    ) -> Result<R::Response, ClientError> {
        let nonsense = |error: serde_json::Error| ClientError::Nonsense(error.to_string());
        let limit = match request.changes_something() {
            true => CHANGED_WITHIN,
            false => ANSWER_WITHIN,
        };
        let request = ControlRequest::Subsystem {
            name: R::SUBSYSTEM.to_owned(),
            body: serde_json::to_value(request).map_err(nonsense)?,
        };
        match self.ask_within(&request, limit)? {
            Response::Subsystem { body } => serde_json::from_value(body).map_err(nonsense),
            other => Err(self::nonsense(&other)),
        }
    }

    /// Has everything taken back and the daemon end.
    ///
    /// # Errors
    /// If something could not be put back, or the daemon cannot be asked.
    pub fn shutdown(mut self) -> Result<(), ClientError> {
        match self.ask(&ControlRequest::Shutdown {})? {
            Response::ShuttingDown {} => Ok(()),
            other => Err(nonsense(&other)),
        }
    }

    fn ask(&mut self, request: &ControlRequest) -> Result<Response, ClientError> {
        self.ask_within(request, time_for(request))
    }

    fn ask_within(
        &mut self,
        request: &ControlRequest,
        limit: Duration,
    ) -> Result<Response, ClientError> {
        self.answer_within = limit;
        let bytes = control_frame::encode(request, REQUEST_BYTES_MAX).map_err(frame_error)?;
        // A refusal may be waiting for us even where the daemon takes no more.
        let sent = write_within(&self.stream, &bytes, SENT_WITHIN);
        match self.answer() {
            Ok(Response::Refused { refusal }) if refusal.kind == RefusalKind::Version => {
                Err(ClientError::Version(refusal.message))
            }
            Ok(Response::Refused { refusal }) => Err(ClientError::Refused(refusal)),
            Ok(response) => Ok(response),
            Err(error) => Err(match sent {
                Err(source) if is_timeout(&source) => self.slow(SENT_WITHIN),
                _ => error,
            }),
        }
    }

    fn slow(&self, limit: Duration) -> ClientError {
        ClientError::Slow(Standstill::find(self.listener, limit))
    }

    fn answer(&mut self) -> Result<Response, ClientError> {
        let limit = self.answer_within;
        let deadline = time::Instant::now() + std_duration(limit);
        let mut bytes = [0; 64 * 1024];
        let mut stop = std::mem::take(&mut self.stop);
        loop {
            if let Some(payload) = self.decoder.next_payload().map_err(frame_error)? {
                return control_frame::decode(&payload).map_err(frame_error);
            }
            let left = remaining(deadline).ok_or_else(|| self.slow(limit))?;
            let received = self
                .stream
                .set_read_timeout(Some(left.min(LOOK_EVERY)))
                .and_then(|()| self.stream.read(&mut bytes));
            match received {
                Ok(0) => return Err(stop.closed()),
                Ok(count) => self.decoder.push(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {
                    if stop.look(self.listener) >= std_duration(STOPPED_AT_MOST) {
                        return Err(self.slow(STOPPED_AT_MOST));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(stop.closed());
                }
                Err(source) => {
                    return Err(ClientError::Socket {
                        socket: self.socket.clone(),
                        source,
                    });
                }
            }
        }
    }
}

/// How long the answer to a request may take.
fn time_for(request: &ControlRequest) -> Duration {
    match request {
        ControlRequest::Apply { .. }
        | ControlRequest::Change { .. }
        | ControlRequest::Subsystem { .. }
        | ControlRequest::Revert { .. }
        | ControlRequest::Shutdown {} => CHANGED_WITHIN,
        ControlRequest::Hello { .. }
        | ControlRequest::Plan { .. }
        | ControlRequest::Host {}
        | ControlRequest::Status {}
        | ControlRequest::Ledger {}
        | ControlRequest::Metrics {} => ANSWER_WITHIN,
    }
}

/// What is seen of the daemon's process while it does not answer.
#[derive(Debug, Default)]
struct Stop {
    since: Option<time::Instant>,
    seen: Option<Standstill>,
}

impl Stop {
    /// Looks at it; for how long it has been stopped at every look.
    fn look(&mut self, daemon: u32) -> time::Duration {
        if !ProcessCondition::of(daemon).is_stopped() {
            *self = Self::default();
            return time::Duration::ZERO;
        }
        let since = *self.since.get_or_insert_with(time::Instant::now);
        if self.seen.is_none() {
            self.seen = Some(Standstill::find(daemon, STOPPED_AT_MOST));
        }
        since.elapsed()
    }

    /// Why the daemon has closed the connection.
    fn closed(self) -> ClientError {
        self.seen.map_or(ClientError::Closed, ClientError::Ended)
    }
}

fn connect_error(state_directory: &Path, socket: &Path, source: io::Error) -> ClientError {
    if is_timeout(&source) {
        // So many wait in its queue that no further one is let in.
        let lock = File::open(StateDirectory::new(state_directory).lock_path());
        let holders = lock
            .and_then(|lock| lock_holders(&lock))
            .unwrap_or_default();
        let daemon = holders.first().copied().unwrap_or(0);
        return ClientError::Slow(Standstill::find(daemon, SENT_WITHIN));
    }
    let socket = socket.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::ConnectionRefused => ClientError::NotRunning { socket },
        io::ErrorKind::PermissionDenied => ClientError::NoPermission { socket },
        _ => ClientError::Socket { socket, source },
    }
}

fn frame_error(error: FrameError) -> ClientError {
    match error {
        FrameError::Version { .. } => ClientError::Version(error.to_string()),
        FrameError::TooLong { .. } => {
            ClientError::Refused(Refusal::new(RefusalKind::BadRequest, error.to_string()))
        }
        other => ClientError::Nonsense(other.to_string()),
    }
}

fn nonsense(response: &Response) -> ClientError {
    let mut text = format!("{response:?}");
    if let Some((end, _)) = text.char_indices().nth(120) {
        text.truncate(end);
    }
    ClientError::Nonsense(text)
}
