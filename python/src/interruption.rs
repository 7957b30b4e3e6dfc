//! Long work, during which Ctrl-C is heard.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// How often Python is asked whether a signal has come.
const LISTEN_EVERY: Duration = Duration::from_millis(50);

/// Does the work in a thread of its own while other Python threads run, and asks for signals meanwhile.
///
/// After a signal whose handler raises an exception, as that of Ctrl-C does, nobody waits for the work any
/// more: it ends by itself, or with the process.
///
/// # Errors
/// What a signal handler raised, and that there is no thread to be had.
pub fn interruptible<T: Send + 'static>(
    python: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::channel();
    let worker = thread::Builder::new().name("tailbound".into());
    let worker = worker.spawn(move || {
        // Nobody listens any more after a signal.
        let _heard = sender.send(work());
    });
    let worker = worker.map_err(|error| PyOSError::new_err(error.to_string()))?;
    loop {
        let (back, outcome) = python.detach(move || {
            let outcome = receiver.recv_timeout(LISTEN_EVERY);
            (receiver, outcome)
        });
        receiver = back;
        match outcome {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => python.check_signals()?,
            // The work has panicked, and Python is to hear of it.
            Err(RecvTimeoutError::Disconnected) => {
                let panic = worker.join().err();
                std::panic::resume_unwind(panic.unwrap_or_else(|| Box::new("no answer")));
            }
        }
    }
}
