//! Ctrl-C: the first ends cleanly and reports, the second aborts; both leave the host restored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration as Pause;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::signal_queue::{ServiceSignal, SignalQueue};
use tailbound_time::{Clock, Duration, Instant};

use crate::failure::Failure;
use crate::held_command::{Ender, HeldCommand};

/// Signals that follow the first within this time are one wish with it: `timeout` sends its signal to the command, and
/// again to the group that the command is in.
const ONE_WISH: Duration = Duration::from_millis(200);

/// The exit code after the second signal.
const ABORTED: i32 = 130;

/// What the second signal ends first.
static TO_KILL: Mutex<Option<Ender>> = Mutex::new(None);

/// Has the second signal kill `command`, with its group, before this process ends; its death with
/// us would leave its children.
pub fn kill_at_abort(command: &HeldCommand) {
    *TO_KILL.lock().unwrap_or_else(PoisonError::into_inner) = Some(command.ender());
}

/// Raises the returned flag at the first SIGINT or SIGTERM; a later one ends the process at once,
/// and the daemon takes back what hung on our connection.
///
/// # Errors
/// The kernel refuses a handler.
pub fn watch() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    let mut first: Option<Instant> = None;
    ctrlc::set_handler(move || {
        raised.store(true, Ordering::SeqCst);
        let now = Monotonic.now();
        let Some(first) = first else {
            first = Some(now);
            eprintln!("\ntailbound: ending cleanly; once more to abort");
            return;
        };
        if now.saturating_since(first) > ONE_WISH {
            let to_kill = TO_KILL
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(command) = to_kill {
                command.kill();
            }
            // Children die with us, and the daemon reverts when our connection closes.
            std::process::exit(ABORTED);
        }
    })
    .map_err(|error| Failure::error(format!("cannot watch for Ctrl-C: {error}")))?;
    Ok(stop)
}

/// Ends the process at the next signal of this queue that asks for it, from the one on that was taken last.
pub fn abort_at_the_next(signals: SignalQueue) {
    std::thread::spawn(move || {
        std::thread::sleep(Pause::from_nanos(ONE_WISH.as_nanos()));
        // Signals that came meanwhile are one wish with the first.
        while let Ok(Some(_)) = signals.take(Duration::ZERO) {}
        loop {
            match signals.take(Duration::from_secs(3600)) {
                Ok(None | Some(ServiceSignal::Report | ServiceSignal::Reload)) => {}
                Ok(Some(ServiceSignal::End)) => std::process::exit(ABORTED),
                Err(_) => return,
            }
        }
    });
}
