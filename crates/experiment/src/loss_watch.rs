//! Notices that reservations end before whoever asked for them wanted it: somebody reverts them, or
//! the daemon is gone.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tailbound_control::{Client, DaemonStatus, EndReason};

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
    /// As [`LossWatch::begin`], beside health monitors of some of the domains: their reservations may end with their
    /// programs, and be made anew.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn begin_beside_monitors(
        state: &Path,
        domains: Vec<String>,
        monitored: BTreeSet<String>,
    ) -> std::io::Result<Self> {
        let watched = WatchedDomains { domains, monitored };
        Self::over(ask_of(state), LOOK_EVERY, watched, |_| {})
    }

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
        let watched = WatchedDomains {
            domains,
            monitored: BTreeSet::new(),
        };
        Self::over(ask_of(state), LOOK_EVERY, watched, tell)
    }

    /// The same over what `ask` knows of the daemon, asked this often; `None` where the daemon does not
    /// answer.
    fn over(
        mut ask: impl FnMut() -> Option<DaemonStatus> + Send + 'static,
        every: Duration,
        watched: WatchedDomains,
        tell: impl FnOnce(&str) + Send + 'static,
    ) -> std::io::Result<Self> {
        let watch = Self {
            ended: Arc::default(),
            loss: Arc::default(),
        };
        let (ended, loss) = (Arc::clone(&watch.ended), Arc::clone(&watch.loss));
        let look = move || {
            while !ended.load(Ordering::SeqCst) {
                let cause = match ask() {
                    Some(status) => lost(&status, &watched),
                    None => Some(format!(
                        "the reservation of {} has ended: tailboundd has ended or does not answer",
                        watched.domains.join(", ")
                    )),
                };
                if let Some(cause) = cause.filter(|_| !ended.load(Ordering::SeqCst)) {
                    // Who is told may end what was reserved for, and whoever waits for that end asks
                    // for the loss at once.
                    *loss.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause.clone());
                    tell(&cause);
                    return;
                }
                let until = Instant::now() + every;
                while Instant::now() < until {
                    if ended.load(Ordering::SeqCst) {
                        return;
                    }
                    std::thread::sleep(STEP.min(until.saturating_duration_since(Instant::now())));
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

/// The domains whose reservations are watched.
#[derive(Clone, Debug, Default)]
struct WatchedDomains {
    domains: Vec<String>,
    /// Those of them whose programs have a health monitor.
    monitored: BTreeSet<String>,
}

/// Asks the daemon that serves a state directory, with one connection for as long as that holds.
fn ask_of(state: &Path) -> impl FnMut() -> Option<DaemonStatus> + Send + 'static {
    let state = state.to_owned();
    let mut client = None;
    move || {
        if client.is_none() {
            client = Client::connect(&state).ok();
        }
        client.as_mut()?.status().ok()
    }
}

/// Which of the reservations that this process asked for is there no more, and why. That of a monitored domain is lost
/// where somebody else has taken it back.
fn lost(status: &DaemonStatus, watched: &WatchedDomains) -> Option<String> {
    let own = std::process::id();
    let is_ours = |origin: Option<&tailbound_control::Origin>| {
        // A process namespace between us and the daemon hides the number.
        origin.is_none_or(|origin| [0, own].contains(&origin.peer.pid))
    };
    watched.domains.iter().find_map(|domain| {
        let mut held = status.reservations.iter();
        if held.any(|one| one.enforced.domain == *domain && is_ours(one.origin.as_ref())) {
            return None;
        }
        let mut endings = status.ended.iter().rev();
        let ending = endings.find(|one| one.domain == *domain && is_ours(one.origin.as_ref()));
        let reason = ending.map(|ending| &ending.reason);
        if watched.monitored.contains(domain) && matches!(reason, None | Some(EndReason::Empty {}))
        {
            return None;
        }
        Some(match reason {
            Some(reason) => format!("the reservation of \"{domain}\" was {reason}"),
            None => format!("the reservation of \"{domain}\" has ended"),
        })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;
    use std::sync::mpsc;

    use tailbound_control::{
        EarlyEnding, EndReason, HeldBy, Origin, Peer, Presence, ReservationStatus, WatchdogStatus,
    };
    use tailbound_enforcement::{DomainStatus, Recovery, Target};
    use tailbound_model::{
        BackendKind, BackendOptions, BudgetScope, Cpu, Priority, ResourceInterface,
    };

    use super::*;

    fn peer(pid: u32) -> Peer {
        Peer {
            uid: 0,
            pid,
            command: "tailbound run".into(),
            connected_at_s: 1,
        }
    }

    fn origin(pid: u32) -> Option<Origin> {
        let peer = peer(pid);
        Some(Origin { number: 1, peer })
    }

    /// A daemon with one reservation of `domain` by the process `pid`.
    fn holding(domain: &str, pid: u32) -> DaemonStatus {
        let reservation = ReservationStatus {
            enforced: DomainStatus {
                domain: domain.into(),
                target: Target::Processes(vec![1]),
                interface: ResourceInterface {
                    budget: tailbound_time::Duration::from_millis(1),
                    period: tailbound_time::Duration::from_millis(2),
                    priority: Priority::HIGHEST,
                    cpus: [Cpu(0)].into(),
                    budget_scope: BudgetScope::EachCpu,
                    windows: Vec::new(),
                    slack: Vec::new(),
                },
                backend: BackendKind::default(),
                options: BackendOptions::default(),
                interference: Default::default(),
                threads: 1,
                ledger: None,
                audit: None,
            },
            held_by: HeldBy::Connection,
            origin: origin(pid),
            presence: Presence::InForce,
            dropped: Vec::new(),
        };
        DaemonStatus {
            release: "1".into(),
            pid: 7,
            reservations: vec![reservation],
            connections: 1,
            watchdog: WatchdogStatus::default(),
            recovered: Recovery::default(),
            ended: Vec::new(),
            subsystems: BTreeMap::new(),
        }
    }

    /// The domain "store", and those with a health monitor.
    fn watched(monitored: &[&str]) -> WatchedDomains {
        WatchedDomains {
            domains: vec!["store".into()],
            monitored: monitored.iter().map(ToString::to_string).collect(),
        }
    }

    fn lost_of(status: &DaemonStatus) -> Option<String> {
        lost(status, &watched(&[]))
    }

    #[test]
    fn a_reservation_of_ours_is_not_lost_and_one_of_others_is_none_of_ours() {
        let own = std::process::id();
        assert_eq!(lost_of(&holding("store", own)), None);
        // A process namespace hides the number.
        assert_eq!(lost_of(&holding("store", 0)), None);
        let gone = lost_of(&holding("store", own + 1)).unwrap();
        assert_eq!(gone, "the reservation of \"store\" has ended");
        assert!(lost_of(&holding("web", own)).is_some());
    }

    #[test]
    fn the_latest_ending_of_ours_tells_why() {
        let own = std::process::id();
        let mut status = holding("web", own);
        let ending = |pid, reason| EarlyEnding {
            domain: "store".into(),
            origin: origin(pid),
            reason,
        };
        status.ended = vec![
            ending(own, EndReason::Empty {}),
            ending(own, EndReason::Reverted { by: peer(9) }),
            ending(own + 1, EndReason::Daemon {}),
        ];
        let why = lost_of(&status).unwrap();
        assert!(why.contains("taken back by"), "{why}");
    }

    #[test]
    fn a_monitored_reservation_is_lost_to_others_alone() {
        let own = std::process::id();
        let mut status = holding("web", own);
        let monitored = watched(&["store"]);
        assert_eq!(lost(&status, &monitored), None);
        let ending = |reason| EarlyEnding {
            domain: "store".into(),
            origin: origin(own),
            reason,
        };
        status.ended = vec![ending(EndReason::Empty {})];
        assert_eq!(lost(&status, &monitored), None);
        assert!(lost_of(&status).is_some());
        status
            .ended
            .push(ending(EndReason::Reverted { by: peer(9) }));
        assert!(lost(&status, &monitored).is_some());
    }

    #[test]
    fn the_first_loss_is_told_once_and_kept() {
        let own = std::process::id();
        let (sender, receiver) = mpsc::channel();
        let mut seen = vec![
            None,
            Some(holding("store", own)),
            Some(holding("store", own)),
        ];
        let ask = move || seen.pop().flatten();
        let tell = move |loss: &str| sender.send(loss.to_owned()).unwrap();
        let watch = LossWatch::over(ask, Duration::ZERO, watched(&[]), tell).unwrap();
        let loss = receiver.recv().unwrap();
        assert!(loss.contains("does not answer"), "{loss}");
        // The sender is gone: nothing is told twice.
        assert!(receiver.recv().is_err());
        assert_eq!(watch.loss(), Some(loss));
    }

    #[test]
    fn a_loss_is_on_record_before_anybody_is_told() {
        let (turn, turns) = mpsc::channel();
        let (go_on, may_end) = mpsc::channel::<()>();
        let tell = move |_: &str| {
            turn.send(()).unwrap();
            // What a command does that ends by what it was told, while the telling still lasts.
            may_end.recv().unwrap();
        };
        let watch = LossWatch::over(|| None, Duration::ZERO, watched(&[]), tell).unwrap();
        turns.recv().unwrap();
        let loss = watch.loss();
        go_on.send(()).unwrap();
        assert!(loss.is_some_and(|loss| loss.contains("does not answer")));
    }
}
