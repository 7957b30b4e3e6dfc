//! What a trial does, drawn from a seed and its number.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_model::BackendKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum BackEnd {
    DsFreeze,
    Deadline,
    RtGroup,
    CfsQuota,
    Dedicated,
    None,
}

impl BackEnd {
    pub const ALL: [Self; 6] = [
        Self::DsFreeze,
        Self::Deadline,
        Self::RtGroup,
        Self::CfsQuota,
        Self::Dedicated,
        Self::None,
    ];

    pub fn kind(self) -> BackendKind {
        match self {
            Self::DsFreeze => BackendKind::DsFreeze,
            Self::Deadline => BackendKind::Deadline,
            Self::RtGroup => BackendKind::RtGroup,
            Self::CfsQuota => BackendKind::CfsQuota,
            Self::Dedicated => BackendKind::Dedicated,
            Self::None => BackendKind::None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Fault {
    DaemonKilled,
    WatchdogKilled,
    AgentsKilled,
    BothKilled,
    DaemonStopped,
    WatchdogStopped,
    DiskFull,
    ReadOnly,
    ClockBack,
    ClockForward,
    CpuUnplugged,
}

impl Fault {
    pub const ALL: [Self; 11] = [
        Self::DaemonKilled,
        Self::WatchdogKilled,
        Self::AgentsKilled,
        Self::BothKilled,
        Self::DaemonStopped,
        Self::WatchdogStopped,
        Self::DiskFull,
        Self::ReadOnly,
        Self::ClockBack,
        Self::ClockForward,
        Self::CpuUnplugged,
    ];

    /// Whether programs that have nothing to do with the trial notice it.
    pub fn harms_others(self) -> bool {
        matches!(
            self,
            Self::ClockBack | Self::ClockForward | Self::CpuUnplugged
        )
    }

    /// What brings the host back after it.
    pub fn way_back(self) -> WayBack {
        match self {
            Self::DaemonKilled | Self::DaemonStopped => WayBack::ByItself,
            Self::BothKilled => WayBack::NextStart,
            _ => WayBack::Revert,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayBack {
    /// Nobody has to do anything. Where modes were known, another daemon may hold one of them.
    ByItself,
    /// The next daemon that is started, by any command.
    NextStart,
    /// The reservations go on until they are reverted, whatever the fault.
    Revert,
}

/// What the daemon does when the fault comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Apply,
    Hold,
    Change,
    ModeChange,
    Revert,
}

#[derive(Clone, Debug)]
pub struct Trial {
    pub seed: u64,
    pub number: u64,
    pub back_end: BackEnd,
    pub fault: Fault,
    pub phase: Phase,
    /// From the begin of the phase.
    pub after: Duration,
}

impl Trial {
    /// The trial of that number.
    pub fn draw(seed: u64, number: u64, back_ends: &[BackEnd], faults: &[Fault]) -> Self {
        let mut random =
            ChaCha8Rng::seed_from_u64(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut one_of = |count: usize| (random.next_u64() % count as u64) as usize;
        // In turns, so that few trials meet all of them; drawn is what is left.
        let place = number as usize;
        let back_end = back_ends[place % back_ends.len()];
        let fault = faults[place / back_ends.len() % faults.len()];
        let phases = match fault {
            Fault::AgentsKilled => &[Phase::ModeChange][..],
            _ => &[
                Phase::Apply,
                Phase::Hold,
                Phase::Change,
                Phase::ModeChange,
                Phase::ModeChange,
                Phase::Revert,
            ],
        };
        let phase = phases[one_of(phases.len())];
        let longest_us = match phase {
            Phase::Apply | Phase::Revert => 30_000,
            Phase::Hold | Phase::Change => 60_000,
            Phase::ModeChange => 150_000,
        };
        let after = Duration::from_micros(one_of(longest_us) as u64);
        Self {
            seed,
            number,
            back_end,
            fault,
            phase,
            after,
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "trial {} (seed {}): {}, {} after {} us of {}",
            self.number,
            self.seed,
            self.back_end,
            self.fault,
            self.after.as_micros(),
            format!("{:?}", self.phase).to_lowercase()
        )
    }
}

macro_rules! named {
    ($($kind:ty),*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                let value = self.to_possible_value().expect("no value is hidden");
                out.pad(value.get_name())
            }
        }
    )*};
}
named!(BackEnd, Fault);

#[derive(Clone, Debug)]
pub enum Outcome {
    /// All is as before, so long after the fault, or after the request to revert.
    Restored(Duration),
    /// The host cannot have this trial.
    Skipped(String),
    Failed {
        /// What is wrong, and whether help mended it.
        why: Vec<String>,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restored(after) => write!(out, "restored after {} ms", after.as_millis()),
            Self::Skipped(why) => write!(out, "skipped: {why}"),
            Self::Failed { why } => write!(out, "FAILED: {}", why.join("; ")),
        }
    }
}
