//! A thread that answers requests for the report, one after another.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration as Pause, Instant as Moment};
use std::{fs, thread};

use tailbound_linux::thread::{PollSet, WakeUp};
use tailbound_time::Duration;

/// The longest head of a request that is read.
const LONGEST_HEAD: usize = 8192;
/// How long one request may take.
const REQUEST_WITHIN: Pause = Pause::from_secs(1);
/// The wait after a connection that could not be taken.
const RETRY_AFTER: Pause = Pause::from_millis(50);
/// The longest wait, which only bounds what a missed wake-up could cost.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// Where reports are asked for.
enum LevelSocket {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

impl LevelSocket {
    /// Listens at `unix:PATH` or `http://IP:PORT`.
    fn bind(address: &str) -> io::Result<Self> {
        let socket = match (
            address.strip_prefix("unix:"),
            address.strip_prefix("http://"),
        ) {
            (Some(path), _) => {
                let path = Path::new(path);
                remove_deserted(path)?;
                Self::Unix(UnixListener::bind(path)?, path.to_owned())
            }
            (_, Some(place)) => {
                let place: SocketAddr = place
                    .trim_end_matches('/')
                    .parse()
                    .map_err(|_| no_address(address))?;
                Self::Tcp(TcpListener::bind(place)?)
            }
            _ => return Err(no_address(address)),
        };
        match &socket {
            Self::Unix(listener, _) => listener.set_nonblocking(true)?,
            Self::Tcp(listener) => listener.set_nonblocking(true)?,
        }
        Ok(socket)
    }

    /// The port of a TCP socket.
    fn port(&self) -> u16 {
        match self {
            Self::Unix(..) => 0,
            Self::Tcp(listener) => listener.local_addr().map_or(0, |address| address.port()),
        }
    }

    /// Answers the request that waits, if one does; one that takes too long gets none.
    ///
    /// # Errors
    /// If no connection can be taken, such as with too many open files.
    fn answer_next(&self, answer: &impl Fn(&str) -> String) -> io::Result<()> {
        // Whoever has left, or sends what is no request, costs nothing but its own answer.
        let _left = match self {
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                let limit_waits = |limit| {
                    stream.set_nonblocking(false)?;
                    stream.set_read_timeout(Some(limit))?;
                    stream.set_write_timeout(Some(limit))
                };
                converse(&stream, limit_waits, answer)
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                let limit_waits = |limit| {
                    stream.set_nonblocking(false)?;
                    stream.set_read_timeout(Some(limit))?;
                    stream.set_write_timeout(Some(limit))
                };
                converse(&stream, limit_waits, answer)
            }
        };
        Ok(())
    }
}

impl AsFd for LevelSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener, _) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for LevelSocket {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // Somebody else may have removed it.
            let _gone = fs::remove_file(path);
        }
    }
}

fn no_address(address: &str) -> io::Error {
    let text = format!("\"{address}\" is no address; write unix:PATH or http://IP:PORT");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Removes the socket of a program that has ended; one that is listened at stays.
fn remove_deserted(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Ok(()),
    }
}

/// Reads the head of a request and writes the answer.
fn converse<S>(
    stream: &S,
    limit_waits: impl Fn(Pause) -> io::Result<()>,
    answer: &impl Fn(&str) -> String,
) -> io::Result<()>
where
    for<'a> &'a S: Read + Write,
{
    let deadline = Moment::now() + REQUEST_WITHIN;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Moment::now());
        if left.is_zero() || head.len() > LONGEST_HEAD {
            return Err(io::ErrorKind::TimedOut.into());
        }
        limit_waits(left)?;
        let mut reader = stream;
        let read = reader.read(&mut part)?;
        if read == 0 {
            break;
        }
        head.extend_from_slice(&part[..read]);
    }
    let mut writer = stream;
    writer.write_all(answer(&String::from_utf8_lossy(&head)).as_bytes())
}

/// `ReportListener` answers until it is dropped.
pub(crate) struct ReportListener {
    thread: Option<JoinHandle<()>>,
    wake: Arc<WakeUp>,
    is_over: Arc<AtomicBool>,
    /// The port that reports are asked for at; 0 of a Unix socket.
    pub port: u16,
}

impl ReportListener {
    /// Answers requests at an address from now on.
    ///
    /// # Errors
    /// If there is no such address, or nobody can listen there.
    pub fn start(
        address: &str,
        answer: impl Fn(&str) -> String + Send + 'static,
    ) -> io::Result<Self> {
        let socket = LevelSocket::bind(address)?;
        let port = socket.port();
        let (wake, is_over) = (Arc::new(WakeUp::new()?), Arc::new(AtomicBool::new(false)));
        let (wake_of_thread, over) = (Arc::clone(&wake), Arc::clone(&is_over));
        let serve = move || {
            let mut waiting = PollSet::with_capacity(2);
            while !over.load(Ordering::Acquire) {
                waiting.clear();
                waiting.push(Some(socket.as_fd()));
                waiting.push(Some(wake_of_thread.as_fd()));
                if waiting.wait(LONGEST_WAIT).is_err() {
                    return;
                }
                let taken = socket.answer_next(&answer);
                if taken.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
                    thread::sleep(RETRY_AFTER);
                }
            }
        };
        let thread = thread::Builder::new().name("service-level".to_owned());
        let thread = Some(thread.spawn(serve)?);
        Ok(Self {
            thread,
            wake,
            is_over,
            port,
        })
    }
}

impl Drop for ReportListener {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.wake.signal();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
