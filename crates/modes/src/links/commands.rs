//! Requests of this process: commands of people, and triggers.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;

/// Somebody in this process who wants a mode, and wakes the one that waits for agents.
#[derive(Debug)]
pub struct Commands {
    pub(super) sender: Sender<(u64, String)>,
    pub(super) wake: UnixStream,
}

impl Commands {
    /// Asks for a mode under a number by which the answer is found.
    ///
    /// # Errors
    /// If nobody takes commands any more.
    pub fn ask(&self, number: u64, mode: String) -> io::Result<()> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.sender.send((number, mode)).map_err(gone)?;
        match io::Write::write(&mut &self.wake, &[0]) {
            // A full pipe wakes as well as another byte would.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other.map(|_| ()),
        }
    }
}
