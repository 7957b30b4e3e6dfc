//! Requests from inside the domain: a named pipe into which anything that may write to it writes
//! the names of modes, one a line.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::thread;

use crate::agent::controls::AgentHandle;
use crate::wire::{NAME_BYTES_MAX, Name};

/// Why a request was not passed on, told to the log.
#[derive(Debug, thiserror::Error)]
#[error("the request {shown:?} is not passed on: {why}")]
pub struct NotPassedOn {
    /// How the line begins.
    pub shown: String,
    /// Why.
    pub why: String,
}

/// Has a thread pass the lines of the named pipe at `path` on as requests, for as long as this
/// process lives. Start it before the agent's thread is given a real-time priority.
///
/// # Errors
/// `InvalidInput` where there is something else than a named pipe; else what the kernel says.
pub fn pass_on_from(
    path: &Path,
    handle: AgentHandle,
    mut log: impl FnMut(NotPassedOn) + Send + 'static,
) -> io::Result<()> {
    // With a writer of our own it does not end when the last of the others closes it.
    let pipe = OpenOptions::new().read(true).write(true).open(path)?;
    if !pipe.metadata()?.file_type().is_fifo() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no named pipe; make one with mkfifo",
        ));
    }
    thread::Builder::new()
        .name("requests".to_owned())
        .spawn(move || {
            let mut lines = BufReader::new(pipe);
            while let Ok(line) = next_line(&mut lines) {
                if let Err(error) = pass_on(&line, &handle) {
                    log(error);
                }
            }
        })?;
    Ok(())
}

/// The next line, or the next part of one that is too long for a name.
fn next_line(lines: &mut BufReader<File>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let limit = NAME_BYTES_MAX as u64 + 1;
    lines.by_ref().take(limit).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line)
}

fn pass_on(line: &[u8], handle: &AgentHandle) -> Result<(), NotPassedOn> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    let refused = |why: String| NotPassedOn {
        shown: text.chars().take(40).collect(),
        why,
    };
    let mode: Name = text.parse().map_err(|why| refused(format!("{why}")))?;
    handle
        .request(mode)
        .map_err(|why| refused(format!("{why}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_become_requests_and_nothing_else_does() {
        let handle = AgentHandle::new().unwrap();
        pass_on(b"calibrate\n", &handle).unwrap();
        assert!(pass_on(b"not a name\n", &handle).is_err());
        assert!(pass_on(b"\n", &handle).is_err());
        assert_eq!(
            handle.take_request().map(String::from),
            Some("calibrate".into())
        );
        assert_eq!(handle.take_request(), None);
    }

    #[test]
    fn only_named_pipes_are_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let handle = AgentHandle::new().unwrap();
        let refused = pass_on_from(file.path(), handle, |_| {}).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }

    proptest! {
        #[test]
        fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let handle = AgentHandle::new().unwrap();
            let _outcome = pass_on(&line, &handle);
        }
    }
}
