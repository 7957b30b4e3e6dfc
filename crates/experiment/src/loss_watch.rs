//! Notices that reservations end before whoever asked for them wanted it: somebody reverts them, or
//! the daemon is gone.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tailbound_control::{Client, DaemonStatus};

/// How often it is looked; a loss is noticed this late, and what the daemon takes to answer.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often the end of the watch is looked for meanwhile.
const STEP: Duration = Duration::from_millis(50);

/// Watches over reservations that this process asked for, from a thread and a connection of its own:
/// a daemon that does not answer holds up nobody.
#[derive(Debug)]
pub struct LossWatch {
    ended: Arc<AtomicBool>,
    loss: Arc<Mutex<Option<String>>>,
}

impl LossWatch {
    /// Watches over the reservations of `domains` by the daemon that serves `state`, once they are in
    /// force; `tell` hears of the first loss, as soon as it is noticed.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn begin(
        state: &Path,
        domains: Vec<String>,
        tell: impl FnOnce(&str) + Send + 'static,
    ) -> std::io::Result<Self> {
        let watch = Self {
            ended: Arc::default(),
            loss: Arc::default(),
        };
        let (ended, loss) = (Arc::clone(&watch.ended), Arc::clone(&watch.loss));
        let state = state.to_owned();
        let look = move || {
            let mut client = Client::connect(&state).ok();
            while !ended.load(Ordering::SeqCst) {
                let found = match client.as_mut().map(Client::status) {
                    Some(Ok(status)) => lost(&status, &domains),
                    Some(Err(_)) | None => Some(format!(
                        "the reservation of {} has ended: tailboundd has ended or does not answer",
                        domains.join(", ")
                    )),
                };
                if let Some(found) = found.filter(|_| !ended.load(Ordering::SeqCst)) {
                    tell(&found);
                    *loss.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                    return;
                }
                for _ in 0..LOOK_EVERY.as_millis() / STEP.as_millis() {
                    if ended.load(Ordering::SeqCst) {
                        return;
                    }
                    std::thread::sleep(STEP);
                }
            }
        };
        let thread = std::thread::Builder::new().name("loss-watch".into());
        // It is not waited for: the daemon may not answer it.
        thread.spawn(look)?;
        Ok(watch)
    }

    /// What was lost, if something was.
    pub fn loss(&self) -> Option<String> {
        let loss = self.loss.lock().unwrap_or_else(PoisonError::into_inner);
        loss.clone()
    }
}

impl Drop for LossWatch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

/// Which of the reservations that this process asked for is there no more, and why.
fn lost(status: &DaemonStatus, domains: &[String]) -> Option<String> {
    let own = std::process::id();
    let is_ours = |origin: Option<&tailbound_control::Origin>| {
        // A process namespace between us and the daemon hides the number.
        origin.is_none_or(|origin| [0, own].contains(&origin.peer.pid))
    };
    let lost = domains.iter().find(|domain| {
        let mut held = status.reservations.iter();
        !held.any(|one| one.enforced.domain == **domain && is_ours(one.origin.as_ref()))
    })?;
    let mut endings = status.ended.iter().rev();
    let ending = endings.find(|one| one.domain == *lost && is_ours(one.origin.as_ref()));
    Some(match ending {
        Some(ending) => format!("the reservation of \"{lost}\" was {}", ending.reason),
        None => format!("the reservation of \"{lost}\" has ended"),
    })
}
