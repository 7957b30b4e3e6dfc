//! Deadlines of sockets: how much time is left, and writing within it.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time;

use tailbound_time::Duration;

/// Writes all of `bytes` within `limit` in total, however slowly the reader takes them.
///
/// # Errors
/// `WouldBlock` if the time is up; otherwise what the kernel says.
pub fn write_within(mut stream: &UnixStream, bytes: &[u8], limit: Duration) -> io::Result<()> {
    let deadline = time::Instant::now() + std_duration(limit);
    let mut left = bytes;
    while !left.is_empty() {
        let time_left = remaining(deadline).ok_or(io::ErrorKind::WouldBlock)?;
        stream.set_write_timeout(Some(time_left))?;
        match stream.write(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => left = left.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a socket's timeout is up.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// The time left until `deadline`; `None` if it has passed.
pub fn remaining(deadline: time::Instant) -> Option<time::Duration> {
    deadline
        .checked_duration_since(time::Instant::now())
        .filter(|left| !left.is_zero())
}

/// The same length in the standard library's type, which sockets take.
pub fn std_duration(length: Duration) -> time::Duration {
    time::Duration::from_nanos(length.as_nanos())
}
