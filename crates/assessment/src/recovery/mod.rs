//! How long a ZooKeeper ensemble is without service after its leader fails: predicted bounds beside the
//! longest recoveries that were measured.

mod breakdown;
mod error;
mod judgement;

use std::collections::BTreeSet;

use serde::Serialize;
use tailbound_analysis::recovery::CpuShare;
use tailbound_distribution::Evidence;
use tailbound_time::{Duration, nanoseconds};

pub use breakdown::{Breakdown, RecoveryCase, ServerRecovery};
pub use error::RecoveryError;

use judgement::judge;

/// The host in question where it is not the one of the breakdown: others use its CPUs.
#[derive(Debug)]
pub struct BusyHost {
    /// The CPU time of the servers there.
    pub share: CpuShare,
    /// The recoveries that were measured there.
    pub against: Option<Breakdown>,
    /// The name of the variant there, where it has another one.
    pub variant: Option<String>,
}

impl BusyHost {
    /// The recoveries of one kind that were measured there, if any were measured.
    fn of(&self, case: &RecoveryCase) -> Option<Vec<&ServerRecovery>> {
        let variant = self.variant.as_ref().unwrap_or(&case.variant);
        let against = self.against.as_ref()?;
        Some(against.of(variant, &case.cause))
    }
}

/// One phase of the recoveries of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseBound {
    /// The kind of recovery.
    #[serde(flatten)]
    pub case: RecoveryCase,
    /// The name of the phase.
    pub phase: &'static str,
    /// The bound where all threads of the servers have CPUs, if the host in question is busy.
    #[serde(
        rename = "alone_ns",
        with = "nanoseconds::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub alone: Option<Duration>,
    /// The bound or the estimate for the host in question; none without anything to predict from.
    #[serde(rename = "predicted_ns", with = "nanoseconds::optional")]
    pub predicted: Option<Duration>,
    /// The evidence of the prediction: a bound where an equation has it for the phase and, on a busy host, a theorem
    /// stretches it; what envelopes of measured recoveries tell is an estimate.
    pub evidence: Option<Evidence>,
    /// The longest one measured.
    #[serde(rename = "measured_max_ns", with = "nanoseconds")]
    pub measured_max: Duration,
    /// How many were measured.
    pub recoveries: usize,
    /// Whether the prediction held; none where the two cannot be compared.
    pub holds: Option<bool>,
}

/// Predicted and measured recoveries.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RecoveryAnswer {
    /// The phases of every kind of recovery, and the total of each.
    pub phases: Vec<PhaseBound>,
    /// How the bounds came about.
    pub methods: BTreeSet<String>,
    /// The assumptions of the bounds.
    pub assumptions: BTreeSet<String>,
    /// The kinds without a recovery to compare with.
    #[serde(skip)]
    pub unmeasured: Vec<RecoveryCase>,
}

/// Predicts every kind of recovery in `breakdown`, with `margin` percent added to what is only estimated.
/// The recoveries of the breakdown are of a host with CPUs for all; `busy` is the host in question, if
/// another one.
///
/// # Errors
/// No equation is known for a variant, or a bound cannot be computed.
pub fn predict_recovery(
    breakdown: &Breakdown,
    margin: u32,
    busy: Option<&BusyHost>,
) -> Result<RecoveryAnswer, RecoveryError> {
    let mut answer = RecoveryAnswer::default();
    for case in breakdown.cases() {
        judge(breakdown, &case, margin, busy, &mut answer)?;
    }
    Ok(answer)
}
