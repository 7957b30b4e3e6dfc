//! Ctrl-C: the first ends cleanly and reports, the second aborts; both leave the host restored.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::failure::Failure;
use crate::held_command::{Ender, HeldCommand};

/// What the second signal ends first.
static TO_KILL: Mutex<Option<Ender>> = Mutex::new(None);

/// Has the second signal kill `command`, with its group, before this process ends; its death with
/// us would leave its children.
pub fn kill_at_abort(command: &HeldCommand) {
    *TO_KILL.lock().unwrap_or_else(PoisonError::into_inner) = Some(command.ender());
}

/// Raises the returned flag at the first SIGINT or SIGTERM; the second ends the process at once,
/// and the daemon takes back what hung on our connection.
///
/// # Errors
/// The kernel refuses a handler.
pub fn watch() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(AtomicU32::new(0));
    let raised = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        raised.store(true, Ordering::SeqCst);
        if seen.fetch_add(1, Ordering::SeqCst) == 0 {
            eprintln!("\ntailbound: ending cleanly; once more to abort");
        } else {
            let to_kill = TO_KILL
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(command) = to_kill {
                command.kill();
            }
            // Children die with us, and the daemon reverts when our connection closes.
            std::process::exit(130);
        }
    })
    .map_err(|error| Failure::error(format!("cannot watch for Ctrl-C: {error}")))?;
    Ok(stop)
}
