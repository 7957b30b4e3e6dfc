//! What transitions are told, ask for and come to, in words.

use tailbound_modes::transition::{
    Ending, HeldMode, TransitionAction, TransitionEvent, TransitionOutcome,
};
use tailbound_time::{Duration, Instant};

/// An instant, as a length since the origin.
pub fn instant(at: Instant) -> String {
    Duration::from_nanos(at.as_nanos()).to_string()
}

/// What happens.
pub fn event(event: &TransitionEvent, now: Instant) -> String {
    match event {
        TransitionEvent::InterfaceAccepted {
            domain,
            in_force_at,
        } => format!("{domain} accepted, in force at {}", instant(*in_force_at)),
        TransitionEvent::InterfaceRefused { domain, reason } => {
            format!("{domain} refused: {reason}")
        }
        TransitionEvent::Acknowledged {
            domain,
            switched_at,
            ..
        } => match *switched_at == now {
            true => format!("{domain} switched"),
            false => format!("{domain} switched at {}", instant(*switched_at)),
        },
        TransitionEvent::Failed {
            domain,
            reason,
            rolled_back,
        } => match rolled_back {
            true => format!("{domain} failed, tasks as before: {reason}"),
            false => format!("{domain} failed, tasks in doubt: {reason}"),
        },
        TransitionEvent::Disconnected { domain } => format!("{domain} disconnected"),
        TransitionEvent::Woken => "woken".to_owned(),
    }
}

/// What is to be done, indented below what it comes of.
pub fn action(action: &TransitionAction, now: Instant) -> String {
    match action {
        TransitionAction::SetInterface {
            domain,
            interface,
            not_before,
        } => {
            let share = format!("{}/{}", interface.budget, interface.period);
            match *not_before > now {
                true => format!("  set {domain} {share} from {}", instant(*not_before)),
                false => format!("  set {domain} {share}"),
            }
        }
        TransitionAction::Send {
            domain,
            mode,
            stop,
            start,
        } => {
            let mut words = format!("  send {domain} {mode}:");
            for (verb, tasks) in [("stop", stop), ("start", start)] {
                if !tasks.is_empty() {
                    words.push_str(&format!(" {verb} {}", tasks.join(" ")));
                }
            }
            words
        }
        TransitionAction::Boost {
            domain,
            if_exhausted,
        } => match if_exhausted {
            true => format!("  boost {domain} if exhausted"),
            false => format!("  boost {domain}"),
        },
        TransitionAction::Unboost { domain } => format!("  unboost {domain}"),
        TransitionAction::Withdraw { domain } => format!("  withdraw {domain}"),
    }
}

/// What came of a transition, and after how long: its ending, and what holds in each domain.
pub fn outcome(outcome: &TransitionOutcome, latency: Duration) -> Vec<String> {
    let ending = match &outcome.ending {
        Ending::Completed => "completed".to_owned(),
        Ending::GivenUp(cause) => format!("given up, {cause}"),
        Ending::Partly(causes) => {
            let causes: Vec<String> = causes.values().map(ToString::to_string).collect();
            format!("in part, {}", causes.join("; "))
        }
    };
    let mut lines = vec![format!("after {latency}: {ending}")];
    for (domain, settled) in &outcome.domains {
        let tasks = settled.tasks.map_or("unknown", held);
        let interface = held(settled.interface);
        lines.push(format!("  {domain}: interface {interface}, tasks {tasks}"));
    }
    lines
}

fn held(held: HeldMode) -> &'static str {
    match held {
        HeldMode::Old => "old",
        HeldMode::New => "new",
        HeldMode::Fallback => "fallback",
    }
}
