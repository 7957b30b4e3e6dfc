//! Bounds from known parameters.

use serde::{Deserialize, Serialize};
use tailbound_distribution::Evidence;
use tailbound_time::{Duration, nanoseconds};

use super::arithmetic::{not_analysed, sum, times};
use crate::AnalysisError;
use crate::recovery::election_messages;

/// The symbols of the thesis's Table 5.1, each an upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// s_e: start of the election on a server that lost its leader.
    #[serde(rename = "election_start_ns", with = "nanoseconds")]
    pub election_start: Duration,
    /// j: how far apart the servers notice the failure.
    #[serde(rename = "jitter_ns", with = "nanoseconds")]
    pub jitter: Duration,
    /// w: how long a server waits for further votes (`finalizeWait`); not used by the complete-vote
    /// rule.
    #[serde(rename = "wait_ns", with = "nanoseconds")]
    pub wait: Duration,
    /// d: transmission of one message.
    #[serde(rename = "transmission_ns", with = "nanoseconds")]
    pub transmission: Duration,
    /// h: processing of one vote.
    #[serde(rename = "processing_ns", with = "nanoseconds")]
    pub processing: Duration,
    /// b: one write of an epoch to the disk, synced.
    #[serde(rename = "disk_ns", with = "nanoseconds")]
    pub disk: Duration,
    /// s_r: connection, synchronisation and start without anything below.
    #[serde(rename = "recovery_start_ns", with = "nanoseconds")]
    pub recovery_start: Duration,
    /// h_r: messages about epochs, per server (the thesis's DEVP).
    #[serde(rename = "epoch_processing_ns", with = "nanoseconds")]
    pub epoch_processing: Duration,
}

/// What takes longer: a message on its way or its processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// A message is on its way for longer than all of them take to be processed (eq. 5.3).
    Wide,
    /// Processing dominates (eq. 5.4).
    Local,
}

/// How an ensemble recovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryProtocol {
    /// Upstream: one election with the fixed wait, four synced writes (eq. 5.6).
    Vanilla,
    /// The thesis's RTZK-L: FCLE and FQCE, epochs on disk.
    ThesisLite,
    /// The thesis's RTZK: another flood for the EpochTable, no disk (eq. 5.5, 5.7, 5.8).
    ThesisFull,
    /// Ours: the election ends with the last vote, one synced write at most.
    CompleteVote {
        /// Whether the new leader's log ends with transactions not known to be committed; then the
        /// acknowledgement of the history waits for one synced write, on all servers at once.
        uncommitted_tail: bool,
    },
}

/// An upper bound of a recovery, from the moment when the first server gives the leader up until the
/// servers accept requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecoveryBound {
    /// T_e: the election.
    pub election_ns: u64,
    /// T_r: connection, synchronisation and start.
    pub recovery_ns: u64,
    /// T = T_e + T_r (eq. 5.1).
    pub total_ns: u64,
    /// Which equations.
    pub method: &'static str,
    /// What must be true for it to hold.
    pub assumptions: Vec<String>,
}

/// The shortest wait w that elects no false leader: w > j + d (eq. 5.2).
///
/// # Errors
/// The sum is beyond all durations.
pub fn shortest_wait(jitter: Duration, transmission: Duration) -> Result<Duration, AnalysisError> {
    sum(&[jitter, transmission, Duration::from_nanos(1)])
}

impl RecoveryProtocol {
    /// Bounds the recovery of an ensemble in which `alive` servers take part: those of the
    /// configuration without the failed leader.
    ///
    /// # Errors
    /// The wait is too short for its purpose (eq. 5.2), no server takes part, or a sum is beyond all
    /// durations.
    pub fn bound(
        self,
        parameters: &Parameters,
        alive: u32,
        network: Network,
    ) -> Result<RecoveryBound, AnalysisError> {
        if alive == 0 {
            return Err(not_analysed("no server is left to recover"));
        }
        let election = self.election(parameters, alive, network)?;
        let recovery = self.recovery(parameters, alive)?;
        Ok(RecoveryBound {
            election_ns: election.as_nanos(),
            recovery_ns: recovery.as_nanos(),
            total_ns: sum(&[election, recovery])?.as_nanos(),
            method: self.method(network),
            assumptions: self.assumptions(),
        })
    }

    fn election(
        self,
        p: &Parameters,
        alive: u32,
        network: Network,
    ) -> Result<Duration, AnalysisError> {
        let complete = matches!(self, RecoveryProtocol::CompleteVote { .. });
        if !complete && p.wait < shortest_wait(p.jitter, p.transmission)? {
            return Err(not_analysed(&format!(
                "a wait of {} is not above jitter {} plus transmission {} (eq. 5.2): the election \
                 may end with a false leader, then nothing bounds the recovery",
                p.wait, p.jitter, p.transmission
            )));
        }
        let there_and_back = times(p.transmission, 2)?;
        let votes = times(p.processing, election_messages(alive))?;
        let flood = match (complete, network) {
            // The last server's vote reaches all, and their answers reach each other.
            (true, _) => sum(&[there_and_back, votes])?,
            (false, Network::Wide) => sum(&[there_and_back, p.wait])?,
            (false, Network::Local) => sum(&[votes, p.wait])?,
        };
        let floods = if self == RecoveryProtocol::ThesisFull {
            2
        } else {
            1
        };
        sum(&[p.election_start, p.jitter, times(flood, floods)?])
    }

    fn recovery(self, p: &Parameters, alive: u32) -> Result<Duration, AnalysisError> {
        let more = match self {
            RecoveryProtocol::Vanilla | RecoveryProtocol::ThesisLite => times(p.disk, 4)?,
            RecoveryProtocol::ThesisFull => times(p.epoch_processing, u64::from(alive))?,
            RecoveryProtocol::CompleteVote { uncommitted_tail } => {
                times(p.disk, u64::from(uncommitted_tail))?
            }
        };
        sum(&[p.recovery_start, more])
    }

    fn method(self, network: Network) -> &'static str {
        match (self, network) {
            (RecoveryProtocol::CompleteVote { .. }, _) => {
                "complete vote: T_e = s_e + j + 2d + M(M+1)/2 h; T_r = s_r + b if the log has an \
                 uncommitted tail"
            }
            (RecoveryProtocol::ThesisFull, Network::Local) => "thesis, eq. 5.8 (5.4, 5.5, 5.7)",
            (RecoveryProtocol::ThesisFull, Network::Wide) => "thesis, eq. 5.3, 5.5, 5.7",
            (_, Network::Local) => "thesis, eq. 5.4 and 5.6, one election",
            (_, Network::Wide) => "thesis, eq. 5.3 and 5.6, one election",
        }
    }

    /// The evidence of the equations: upstream promises neither one round of votes nor a first connection that succeeds,
    /// so that nothing is proved of it.
    pub fn evidence(self) -> Evidence {
        match self {
            RecoveryProtocol::Vanilla => Evidence::Estimate,
            RecoveryProtocol::ThesisLite
            | RecoveryProtocol::ThesisFull
            | RecoveryProtocol::CompleteVote { .. } => Evidence::Bound,
        }
    }

    fn assumptions(self) -> Vec<String> {
        let mut all = vec![
            "one failure: a quorum lives, the new leader does not fail before it serves".to_owned(),
            "the parameters are upper bounds".to_owned(),
        ];
        let own = match self {
            RecoveryProtocol::Vanilla => {
                "one round of votes suffices and the first connection succeeds, which upstream does \
                 not promise: without FCLE and FQCE this is no upper bound"
            }
            RecoveryProtocol::ThesisLite | RecoveryProtocol::ThesisFull => {
                "no vote arrives later than the wait after the one before it"
            }
            RecoveryProtocol::CompleteVote { .. } => {
                "the election channel of the failed leader is known to be closed or silent, and all \
                 other voters with an open channel vote; the reserve of epochs is not used up"
            }
        };
        all.push(own.to_owned());
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    /// Table 5.3, with d = 3 ms.
    fn thesis() -> Parameters {
        let ms = Duration::from_millis;
        Parameters {
            election_start: ms(35),
            jitter: ms(13),
            wait: ms(20),
            transmission: ms(3),
            processing: ms(3),
            disk: ms(0),
            recovery_start: ms(55),
            epoch_processing: ms(25),
        }
    }

    #[test]
    fn the_thesiss_parameters_give_eq_5_8() {
        for (alive, election, recovery) in [(2, 106, 105), (4, 148, 155), (6, 214, 205)] {
            let bound = RecoveryProtocol::ThesisFull
                .bound(&thesis(), alive, Network::Local)
                .unwrap();
            assert_eq!(bound.election_ns, election * 1_000_000);
            assert_eq!(bound.recovery_ns, recovery * 1_000_000);
            assert_eq!(bound.total_ns, (election + recovery) * 1_000_000);
        }
    }

    #[test]
    fn the_wait_must_outlast_jitter_and_transmission() {
        assert_eq!(
            shortest_wait(Duration::from_millis(13), Duration::from_millis(3)).unwrap(),
            Duration::from_nanos(16_000_001)
        );
        let short = Parameters {
            wait: Duration::from_millis(16),
            ..thesis()
        };
        let refused = RecoveryProtocol::ThesisLite
            .bound(&short, 2, Network::Local)
            .unwrap_err();
        assert!(refused.to_string().contains("eq. 5.2"), "{refused}");
        let ours = RecoveryProtocol::CompleteVote {
            uncommitted_tail: false,
        };
        assert!(ours.bound(&short, 2, Network::Local).is_ok());
    }

    #[test]
    fn sums_beyond_all_durations_are_refused() {
        let huge = Parameters {
            processing: Duration::from_nanos(u64::MAX),
            ..thesis()
        };
        assert!(
            RecoveryProtocol::ThesisFull
                .bound(&huge, 6, Network::Local)
                .is_err()
        );
        assert!(
            RecoveryProtocol::ThesisFull
                .bound(&thesis(), 0, Network::Local)
                .is_err()
        );
    }

    /// Plays one election: the servers enter within the jitter, each vote takes up to d and is
    /// processed in turn, a server that learns of a better vote tells it to all. The last moment at
    /// which any server processes a vote is when all hold the same one.
    fn play(entries: &[u64], delays: &[u64], d: u64, h: u64) -> u64 {
        let servers = entries.len();
        let mut votes: Vec<usize> = (0..servers).collect();
        let mut busy: Vec<u64> = entries.to_vec();
        let mut drawn = delays.iter().cycle();
        let mut queue: Vec<(u64, usize, usize)> = Vec::new();
        let mut send = |queue: &mut Vec<_>, at: u64, from: usize, vote: usize| {
            for to in (0..servers).filter(|&to| to != from) {
                queue.push((at + drawn.next().unwrap() % (d + 1), to, vote));
            }
        };
        for (server, &at) in entries.iter().enumerate() {
            send(&mut queue, at, server, server);
        }
        let mut last = *entries.iter().max().unwrap();
        while let Some(index) = (0..queue.len()).min_by_key(|&i| queue[i].0) {
            let (at, to, vote) = queue.swap_remove(index);
            busy[to] = busy[to].max(at) + h;
            last = last.max(busy[to]);
            if vote > votes[to] {
                votes[to] = vote;
                let now = busy[to];
                send(&mut queue, now, to, vote);
            }
        }
        assert!(votes.iter().all(|&vote| vote == servers - 1));
        last
    }

    proptest! {
        #[test]
        fn no_election_played_outlasts_the_bound(
            entries in prop::collection::vec(0_u64..1000, 2..7),
            delays in prop::collection::vec(0_u64..1000, 1..60),
            d in 0_u64..500,
            h in 0_u64..100,
        ) {
            let parameters = Parameters {
                election_start: Duration::from_nanos(0),
                jitter: Duration::from_nanos(*entries.iter().max().unwrap()),
                wait: Duration::from_nanos(0),
                transmission: Duration::from_nanos(d),
                processing: Duration::from_nanos(h),
                disk: Duration::from_nanos(0),
                recovery_start: Duration::from_nanos(0),
                epoch_processing: Duration::from_nanos(0),
            };
            let alive = u32::try_from(entries.len()).unwrap();
            let bound = RecoveryProtocol::CompleteVote { uncommitted_tail: false }
                .bound(&parameters, alive, Network::Local)
                .unwrap();
            prop_assert!(play(&entries, &delays, d, h) <= bound.election_ns);
        }
    }
}
