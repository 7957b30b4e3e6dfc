//! The socket on which the daemon is asked: its own, or one that a service manager has made and passed to it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use tailbound_control::state_directory::StateDirectory;
use tailbound_linux::control_socket::passed_listener;

use crate::daemon::{DaemonError, READY_LINE, system};

/// The listening control socket.
pub(crate) struct ControlListener {
    socket: UnixListener,
    /// The path to remove in the end; none where a service manager goes on to listen.
    own_path: Option<PathBuf>,
}

impl ControlListener {
    /// The socket of the directory, whose lock we have: the one that was passed, or a new one that every user may
    /// connect to. Says that we are ready.
    pub fn of(
        directory: &StateDirectory,
        passed: Option<UnixListener>,
    ) -> Result<Self, DaemonError> {
        let (socket, own_path) = match passed {
            // Who may connect is the manager's affair (SocketMode=); who may do what stays ours.
            Some(socket) => (socket, None),
            None => (bind(directory)?, Some(directory.socket())),
        };
        socket
            .set_nonblocking(true)
            .map_err(system("set up the control socket"))?;
        // Whoever started us may not care to read it.
        let _ = writeln!(io::stdout(), "{READY_LINE}");
        Ok(Self { socket, own_path })
    }

    /// The socket itself.
    pub fn socket(&self) -> &UnixListener {
        &self.socket
    }
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        if let Some(path) = &self.own_path {
            // Gone already if somebody tidied up.
            let _ = fs::remove_file(path);
        }
    }
}

/// The socket that a service manager has passed to us, if it has.
pub(crate) fn passed(directory: &StateDirectory) -> Result<Option<UnixListener>, DaemonError> {
    let attempt = "take the socket that the service manager passes";
    let Some(socket) = passed_listener().map_err(system(attempt))? else {
        return Ok(None);
    };
    let address = socket.local_addr().map_err(system(attempt))?;
    match address.as_pathname() {
        Some(path) if path == directory.socket() => Ok(Some(socket)),
        other => Err(DaemonError::OtherSocket {
            passed: other.map_or_else(|| "no path".to_owned(), |path| path.display().to_string()),
            own: directory.socket(),
        }),
    }
}

fn bind(directory: &StateDirectory) -> Result<UnixListener, DaemonError> {
    let path = directory.socket();
    // We have the lock, so a socket that is there belongs to a dead daemon.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(system("remove the old socket")(error));
        }
        _ => {}
    }
    let socket =
        UnixListener::bind(&path).map_err(|source| DaemonError::Socket { path, source })?;
    directory.open_socket_to_everyone()?;
    Ok(socket)
}
