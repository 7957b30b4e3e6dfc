//! The policies of the study.

use serde::Serialize;
use tailbound_simulator::aperiodic::{Gain, Policy, ServerBudget, ServerKind};
use tailbound_time::Duration;

use crate::feasibility::Feasibility;

/// A policy as the figures name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    Background,
    Polling,
    Deferrable,
    Sporadic,
    ConstantBandwidth,
    PriorityExchange,
    Dual,
    DualOwn,
    DualPropagated,
    DualBoth,
    Slack,
    SlackGain,
}

/// What is run for every application.
pub const ALL: [Variant; 12] = [
    Variant::Background,
    Variant::Polling,
    Variant::Deferrable,
    Variant::Sporadic,
    Variant::ConstantBandwidth,
    Variant::PriorityExchange,
    Variant::Dual,
    Variant::DualOwn,
    Variant::DualPropagated,
    Variant::DualBoth,
    Variant::Slack,
    Variant::SlackGain,
];

/// The server policies of the paper.
pub const SERVERS: [Variant; 2] = [Variant::Deferrable, Variant::Sporadic];

/// What the paper's figures show.
pub const IN_FIGURES: [Variant; 8] = [
    Variant::Deferrable,
    Variant::Sporadic,
    Variant::Slack,
    Variant::SlackGain,
    Variant::Dual,
    Variant::DualOwn,
    Variant::DualPropagated,
    Variant::DualBoth,
];

impl Variant {
    /// The name in figures and tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::Polling => "polling",
            Self::Deferrable => "deferrable (DS)",
            Self::Sporadic => "sporadic (SS)",
            Self::ConstantBandwidth => "constant bandwidth",
            Self::PriorityExchange => "priority exchange",
            Self::Dual => "dual priority (DP)",
            Self::DualOwn => "DP, self gain",
            Self::DualPropagated => "DP, propagated gain",
            Self::DualBoth => "DP, both gains",
            Self::Slack => "slack stealing (DASS)",
            Self::SlackGain => "DASS, gain",
        }
    }

    /// The budget that it has.
    pub fn budget(self, feasibility: &Feasibility) -> Option<Duration> {
        match self {
            Self::Deferrable | Self::ConstantBandwidth => feasibility.deferrable_budget,
            Self::Polling | Self::Sporadic | Self::PriorityExchange => feasibility.periodic_budget,
            _ => None,
        }
    }

    /// The policy for a set of tasks. A server for which there is no budget leaves soft jobs in the
    /// background.
    pub fn policy(self, feasibility: &Feasibility) -> Policy {
        let dual = |gain| Policy::DualPriority {
            promotions: feasibility.promotions.clone(),
            gain,
        };
        let budget = self.budget(feasibility).map(|budget| ServerBudget {
            budget,
            period: feasibility.server_period,
            behind: 0,
        });
        let server = |rule| match budget {
            Some(budget) => Policy::Server {
                rule,
                budget,
                spills: true,
            },
            None => Policy::Background,
        };
        match self {
            Self::Background => Policy::Background,
            Self::Polling => server(ServerKind::Polling),
            Self::Deferrable => server(ServerKind::Deferrable),
            Self::Sporadic => server(ServerKind::Sporadic),
            Self::ConstantBandwidth => server(ServerKind::ConstantBandwidth),
            Self::PriorityExchange => budget.map_or(Policy::Background, Policy::PriorityExchange),
            Self::Dual => dual(Gain::None),
            Self::DualOwn => dual(Gain::Own),
            Self::DualPropagated => dual(Gain::Propagated),
            Self::DualBoth => dual(Gain::Both),
            Self::Slack => Policy::SlackStealing { gain: Gain::None },
            Self::SlackGain => Policy::SlackStealing {
                gain: Gain::Propagated,
            },
        }
    }
}
