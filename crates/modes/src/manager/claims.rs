//! What agents have said of tasks, as far as nothing puts it in doubt.
//!
//! A task counts as said to be stopped from an agent's answer to an order that names it among those to stop,
//! until the agent is told to start it. It no longer counts where nobody knows what the agent did: it could not
//! switch, was told to go back, or was gone.

use std::collections::BTreeMap;

use tailbound_time::Instant;

/// What all agents have said.
#[derive(Debug, Default)]
pub(super) struct Claims {
    by_domain: BTreeMap<String, OfDomain>,
}

#[derive(Debug, Default)]
struct OfDomain {
    /// Since when each task is said to be stopped.
    stopped: BTreeMap<String, Instant>,
    /// The last order, by its number, with the tasks that it stops, until it is answered.
    open: Option<(u64, Vec<String>)>,
}

impl Claims {
    /// An agent is told to stop and start tasks.
    pub(super) fn note_order(
        &mut self,
        domain: &str,
        number: u64,
        (stop, start): (&[String], &[String]),
    ) {
        let claims = self.by_domain.entry(domain.to_owned()).or_default();
        claims.stopped.retain(|task, _| !start.contains(task));
        claims.open = Some((number, stop.to_vec()));
    }

    /// An agent has said that it did so.
    pub(super) fn done(&mut self, domain: &str, number: u64, now: Instant) {
        let Some(claims) = self.by_domain.get_mut(domain) else {
            return;
        };
        if let Some((_, stop)) = claims.open.take_if(|(open, _)| *open == number) {
            for task in stop {
                claims.stopped.entry(task).or_insert(now);
            }
        }
    }

    /// Nobody knows what the agent did.
    pub(super) fn doubt(&mut self, domain: &str) {
        self.by_domain.remove(domain);
    }

    /// Since when an agent says that a task is stopped.
    pub(super) fn said_stopped(&self, domain: &str, task: &str) -> Option<Instant> {
        self.by_domain.get(domain)?.stopped.get(task).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: &[String] = &[];

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    fn names(task: &str) -> Vec<String> {
        vec![task.to_owned()]
    }

    #[test]
    fn a_task_is_said_to_be_stopped_from_the_answer_to_the_next_start_or_doubt() {
        let mut claims = Claims::default();
        let (x, y) = (names("x"), names("y"));
        claims.note_order("a", 1, (&x, &y));
        assert_eq!(claims.said_stopped("a", "x"), None, "told is not done");
        claims.done("a", 2, at(5));
        claims.done("b", 1, at(5));
        assert_eq!(
            claims.said_stopped("a", "x"),
            None,
            "another order's answer"
        );
        claims.done("a", 1, at(6));
        assert_eq!(claims.said_stopped("a", "x"), Some(at(6)));
        assert_eq!(claims.said_stopped("a", "y"), None);
        // Said again, it is said since the first time.
        claims.note_order("a", 2, (&x, NONE));
        assert_eq!(claims.said_stopped("a", "x"), Some(at(6)));
        claims.done("a", 2, at(9));
        assert_eq!(claims.said_stopped("a", "x"), Some(at(6)));
        // An answer counts once.
        claims.note_order("a", 3, (&y, &x));
        assert_eq!(claims.said_stopped("a", "x"), None, "it may start by now");
        claims.done("a", 2, at(10));
        assert_eq!(claims.said_stopped("a", "x"), None);
        claims.done("a", 3, at(11));
        assert_eq!(claims.said_stopped("a", "y"), Some(at(11)));
        claims.doubt("a");
        claims.done("a", 3, at(12));
        assert_eq!(claims.said_stopped("a", "y"), None);
    }
}
