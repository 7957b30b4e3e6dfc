//! Caps: the rule by which a quota gives CPU time, and what an answer about it takes for granted.

use std::fmt;

use serde::{Deserialize, Serialize};
use tailbound_model::{ReservationServer, ServerKind};
use tailbound_time::Duration;

/// The rule by which a cap gives CPU time to a domain where nothing else needs the CPU: that of a deferrable server. A
/// quota that lasts the whole period never stops a domain that runs one thread at a time.
pub fn rule_of_cap(quota: Duration, period: Duration) -> ReservationServer {
    match quota >= period {
        true => ReservationServer::Dedicated,
        false => ServerKind::Deferrable.with(quota, period),
    }
}

/// `CapAssumption` is one thing that an answer about a capped domain takes for granted, and that no cap guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapAssumption {
    /// The domain runs whenever it has quota left.
    NothingElseNeedsTheCpu,
    /// The threads of the domain need the CPU one at a time.
    OneThreadAtATime,
    /// No part of the quota outlives its period.
    QuotaEndsWithThePeriod,
}

impl CapAssumption {
    /// All of them; each answer about a cap rests on all.
    pub const ALL: [Self; 3] = [
        Self::NothingElseNeedsTheCpu,
        Self::OneThreadAtATime,
        Self::QuotaEndsWithThePeriod,
    ];
}

impl fmt::Display for CapAssumption {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NothingElseNeedsTheCpu => {
                "nothing else needs the CPU while quota is left: a cap keeps a domain from more CPU time, and promises none"
            }
            Self::OneThreadAtATime => {
                "one thread at a time needs the CPU: several at once use up the quota sooner"
            }
            Self::QuotaEndsWithThePeriod => {
                "the quota that is left at the end of a period is lost: of it the kernel keeps up to 1ms on each CPU"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_of_the_whole_period_is_a_cpu_of_its_own() {
        let ms = Duration::from_millis;
        assert_eq!(rule_of_cap(ms(100), ms(100)), ReservationServer::Dedicated);
        assert_eq!(rule_of_cap(ms(250), ms(100)), ReservationServer::Dedicated);
        let below = ServerKind::Deferrable.with(ms(99), ms(100));
        assert_eq!(rule_of_cap(ms(99), ms(100)), below);
    }
}
