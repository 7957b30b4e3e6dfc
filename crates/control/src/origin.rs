//! Whom reservations come from, and how those ended that somebody may still ask about.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tailbound_linux::control_socket::PeerCredentials;
use tailbound_linux::process::command_line;

/// How many endings are remembered.
const ENDINGS_MAX: usize = 64;
/// The longest command that is remembered, in characters.
const COMMAND_CHARACTERS_MAX: usize = 160;

/// Who asks the daemon for something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// The effective user.
    pub uid: u32,
    /// The process; 0 if it is in a process namespace that the daemon does not see.
    pub pid: u32,
    /// The command line of that process.
    pub command: String,
    /// When it connected, in seconds since 1970.
    pub connected_at_s: u64,
}

impl Peer {
    /// Who is at the other end of a connection that is made now.
    pub fn of(credentials: &PeerCredentials) -> Self {
        let words = command_line(credentials.pid).unwrap_or_default();
        let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed();
        Self {
            uid: credentials.uid,
            pid: credentials.pid,
            command: readable(&words),
            connected_at_s: since_1970.map_or(0, |since| since.as_secs()),
        }
    }

    /// The daemon itself, which makes again what another daemon had when it died.
    pub fn daemon() -> Self {
        Self {
            uid: tailbound_linux::process::effective_uid(),
            pid: std::process::id(),
            command: "tailboundd".into(),
            connected_at_s: 0,
        }
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { uid, pid, .. } = self;
        match self.command.is_empty() {
            true => write!(out, "process {pid} of uid {uid}"),
            false => write!(out, "`{}` (process {pid} of uid {uid})", self.command),
        }
    }
}

/// Words as one line that a terminal shows as it is: with the program's name in place of its path.
fn readable(words: &[String]) -> String {
    let mut words = words.iter().map(String::as_str);
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or(program);
    let line: Vec<&str> = std::iter::once(program).chain(words).collect();
    let line = line.join(" ");
    let plain = line.chars().map(|letter| match letter.is_control() {
        true => '?',
        false => letter,
    });
    let mut plain: String = plain.collect();
    if let Some((end, _)) = plain.char_indices().nth(COMMAND_CHARACTERS_MAX) {
        plain.truncate(end);
        plain.push_str("...");
    }
    plain
}

/// Whom a reservation comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Counts what was applied: reservations that were applied together have one number.
    pub number: u64,
    /// Who asked for it.
    #[serde(flatten)]
    pub peer: Peer,
}

/// Why a reservation ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "why")]
pub enum EndReason {
    /// Somebody reverted it.
    Reverted {
        /// Who.
        #[serde(flatten)]
        by: Peer,
    },
    /// It had no members any more.
    Empty {},
    /// The daemon took it back: it ended, or no watchdog could be started.
    Daemon {},
}

impl std::fmt::Display for EndReason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reverted { by } => write!(out, "taken back by {by}"),
            Self::Empty {} => write!(out, "released, since all its members had ended"),
            Self::Daemon {} => write!(out, "taken back by the daemon itself; see tailboundd.log"),
        }
    }
}

/// A reservation that ended before whoever asked for it wanted it to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyEnding {
    /// Its domain.
    pub domain: String,
    /// Whom it came from.
    pub origin: Option<Origin>,
    /// Why it ended.
    #[serde(flatten)]
    pub reason: EndReason,
}

/// The latest endings, the newest last.
#[derive(Clone, Debug, Default)]
pub struct Endings(VecDeque<EarlyEnding>);

impl Endings {
    /// Remembers one.
    pub fn add(&mut self, ending: EarlyEnding) {
        if self.0.len() == ENDINGS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(ending);
    }

    /// Forgets some.
    pub fn forget(&mut self, which: impl Fn(&EarlyEnding) -> bool) {
        self.0.retain(|ending| !which(ending));
    }

    /// All that are remembered.
    pub fn list(&self) -> Vec<EarlyEnding> {
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_command_is_one_readable_line() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let command = readable(&words("/usr/bin/tailbound apply arm\u{1b}[2J.toml"));
        assert_eq!(command, "tailbound apply arm?[2J.toml");
        let long = readable(&words(&format!("tailbound {}", "ä".repeat(1000))));
        assert_eq!(long.chars().count(), COMMAND_CHARACTERS_MAX + 3);
        assert_eq!(readable(&[]), "");
    }

    #[test]
    fn endings_are_bounded_and_survive_their_way_over_the_socket() {
        let mut endings = Endings::default();
        let peer = Peer {
            uid: 0,
            pid: 7,
            command: "tailbound revert".into(),
            connected_at_s: 1,
        };
        for number in 0..2 * ENDINGS_MAX as u64 {
            endings.add(EarlyEnding {
                domain: format!("d{number}"),
                origin: Some(Origin {
                    number,
                    peer: peer.clone(),
                }),
                reason: EndReason::Reverted { by: peer.clone() },
            });
        }
        let list = endings.list();
        assert_eq!(list.len(), ENDINGS_MAX);
        assert_eq!(list.last().unwrap().domain, "d127");
        let text = serde_json::to_string(&list).unwrap();
        assert_eq!(
            serde_json::from_str::<Vec<EarlyEnding>>(&text).unwrap(),
            list
        );
    }
}
