//! Whether a reservation holds for anybody.

use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, nanoseconds};

/// Whether a reservation holds for anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Presence {
    /// It holds for its members.
    #[default]
    InForce,
    /// All its members have ended.
    Empty {
        /// For how long, as far as was seen.
        #[serde(with = "nanoseconds")]
        for_ns: Duration,
        /// When it is released, if by nobody else.
        #[serde(with = "nanoseconds::optional")]
        released_in_ns: Option<Duration>,
    },
    /// It is booked for members that are yet to come.
    Waiting {
        /// For how long.
        #[serde(with = "nanoseconds")]
        for_ns: Duration,
    },
}

impl Presence {
    /// In a few words.
    pub fn in_words(&self) -> String {
        let seconds = |length: &Duration| format!("{} s", length.as_nanos() / 1_000_000_000);
        match self {
            Self::InForce => "in force".into(),
            Self::Empty {
                for_ns,
                released_in_ns: None,
            } => format!("no members for {}", seconds(for_ns)),
            Self::Empty {
                for_ns,
                released_in_ns: Some(left),
            } => format!(
                "no members for {}, released in {}",
                seconds(for_ns),
                seconds(left)
            ),
            Self::Waiting { for_ns } => format!("waiting for members for {}", seconds(for_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lengths_are_whole_nanoseconds_in_machine_output() {
        let empty = Presence::Empty {
            for_ns: Duration::from_secs(1),
            released_in_ns: Some(Duration::from_secs(2)),
        };
        let text = serde_json::to_string(&empty).unwrap();
        let expected = r#"{"state":"empty","for_ns":1000000000,"released_in_ns":2000000000}"#;
        assert_eq!(text, expected);
        let read: Presence = serde_json::from_str(&text).unwrap();
        assert_eq!(read, empty);
    }
}
