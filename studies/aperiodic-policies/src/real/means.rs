//! What is executed, and by what means of the kernel.

use serde::Serialize;
use tailbound_model::BackendKind;
use tailbound_simulator::aperiodic::{Policy, ServerBudget, ServerKind};
use tailbound_time::Duration;

use crate::feasibility::Feasibility;
use crate::variants::Variant;

/// A policy and the means by which it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// The soft jobs' thread has the lowest SCHED_FIFO rank.
    Background,
    /// The same once more: how far two measurements of one thing are apart.
    BackgroundAgain,
    /// The manager changes the rank of the soft jobs' thread.
    Polling,
    /// The manager changes the rank of the soft jobs' thread.
    Deferrable,
    /// The manager changes the rank of the soft jobs' thread.
    Sporadic,
    /// The manager promotes hard threads.
    DualPriority,
    /// Enforcement's `ds-freeze`: the process of the soft jobs stands still without budget.
    FrozenDeferrable,
    /// Enforcement's `deadline`: SCHED_DEADLINE, which is a hard constant-bandwidth server.
    DeadlineClass,
}

/// Those that every set is executed by, in the order of tables.
pub const ALL: [Means; 8] = [
    Means::Background,
    Means::BackgroundAgain,
    Means::Polling,
    Means::Deferrable,
    Means::Sporadic,
    Means::DualPriority,
    Means::FrozenDeferrable,
    Means::DeadlineClass,
];

impl Means {
    /// The name in tables and in the chart.
    pub fn label(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::BackgroundAgain => "background again",
            Self::Polling => "polling, ranks",
            Self::Deferrable => "deferrable, ranks",
            Self::Sporadic => "sporadic, ranks",
            Self::DualPriority => "dual priority, ranks",
            Self::FrozenDeferrable => "hard deferrable, ds-freeze",
            Self::DeadlineClass => "hard constant bandwidth, SCHED_DEADLINE",
        }
    }

    /// The back end of enforcement that serves the soft jobs; none where the manager does, or nobody.
    pub fn backend(self) -> Option<BackendKind> {
        match self {
            Self::FrozenDeferrable => Some(BackendKind::DsFreeze),
            Self::DeadlineClass => Some(BackendKind::Deadline),
            _ => None,
        }
    }

    /// Whether the manager changes ranks.
    pub fn is_by_ranks(self) -> bool {
        matches!(
            self,
            Self::Polling | Self::Deferrable | Self::Sporadic | Self::DualPriority
        )
    }

    /// The study's policy.
    fn variant(self) -> Variant {
        match self {
            Self::Background | Self::BackgroundAgain => Variant::Background,
            Self::Polling => Variant::Polling,
            Self::Deferrable | Self::FrozenDeferrable => Variant::Deferrable,
            Self::Sporadic => Variant::Sporadic,
            Self::DualPriority => Variant::Dual,
            Self::DeadlineClass => Variant::ConstantBandwidth,
        }
    }

    /// The rule of its server, if it has one.
    pub fn rule(self) -> Option<ServerKind> {
        match self.variant() {
            Variant::Polling => Some(ServerKind::Polling),
            Variant::Deferrable => Some(ServerKind::Deferrable),
            Variant::Sporadic => Some(ServerKind::Sporadic),
            Variant::ConstantBandwidth => Some(ServerKind::ConstantBandwidth),
            _ => None,
        }
    }

    /// The budget of its server, in whole microseconds, and the period.
    pub fn server(self, feasibility: &Feasibility) -> Option<ServerBudget> {
        let budget = self.variant().budget(feasibility)?;
        Some(ServerBudget {
            budget,
            period: feasibility.server_period,
            behind: 0,
        })
    }

    /// The rule that really runs, for the simulator. What stands still without budget does not go on in
    /// the background, as the study's servers do.
    pub fn policy(self, feasibility: &Feasibility) -> Policy {
        let mut policy = self.variant().policy(feasibility);
        if let Policy::Server { spills, .. } = &mut policy {
            *spills = self.backend().is_none();
        }
        policy
    }

    /// From release to promotion, where hard jobs are promoted.
    pub fn promotions(self, feasibility: &Feasibility) -> Option<&[Duration]> {
        (self == Self::DualPriority).then_some(feasibility.promotions.as_slice())
    }
}
