//! The whole analysis of a description: deadlines, CPUs, changes of mode.

use serde::Serialize;
use tailbound_analysis::resolution::{only_simulated, with_agents, with_fallen};
use tailbound_analysis::transitions::{TransitionBound, transitions};
use tailbound_model::{Description, InputFiles};

use crate::AssessmentError;
use crate::chains::{ChainVerdict, judge_chains};
use crate::protocols::{ProtocolVerdict, protocols};
use crate::schedulability::{DeadlineVerdict, ModeVerdict, TaskVerdict, judge};

/// Whether a description keeps all deadlines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analysis {
    /// Whether every deadline is shown to be met, every CPU holds its reservations, and every change of mode
    /// keeps what its protocol promises.
    pub schedulable: bool,
    /// Every mode, also with domains fallen back; one of a description without modes.
    pub modes: Vec<ModeVerdict>,
    /// Every chain, in each mode.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<ChainVerdict>,
    /// How long changes between modes take at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<TransitionBound>,
    /// The verdict on the protocol of mode changes, for each change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<ProtocolVerdict>,
}

/// Analyses every mode of a description with what its agents take, and the changes between its modes.
///
/// # Errors
/// The description has neither tasks nor reservations, or something that only simulation answers for, or a
/// reservation that cannot be derived.
pub fn analyze(
    description: &Description,
    inputs: &InputFiles,
) -> Result<Analysis, AssessmentError> {
    refuse_what_is_only_simulated(description)?;
    let fallen = with_fallen(description)?;
    let whole = with_agents(&fallen.description);
    let modes = judge(&whole, inputs)?;
    let chains = judge_chains(&whole, &modes);
    let is_empty = |mode: &ModeVerdict| mode.tasks.is_empty() && mode.cpus.is_empty();
    if modes.iter().all(is_empty) {
        return Err(AssessmentError::Empty {
            what: "neither tasks nor reservations, so there is nothing to analyse",
        });
    }
    let protocols = protocols(description)?;
    let kept = protocols.iter().all(|one| one.transit.is_ok());
    let in_time = chains.iter().all(ChainVerdict::is_fine);
    Ok(Analysis {
        schedulable: kept && in_time && modes.iter().all(|mode| mode.schedulable),
        modes,
        chains,
        transitions: transitions(description)?,
        protocols,
    })
}

/// Refuses a description with something that only simulation covers.
///
/// # Errors
/// The part that only simulation covers.
pub fn refuse_what_is_only_simulated(description: &Description) -> Result<(), AssessmentError> {
    let mut domains = description.domains.keys();
    let why = domains.find_map(|name| only_simulated(description, name));
    match why {
        None => Ok(()),
        Some(why) => Err(AssessmentError::OnlySimulated { why }),
    }
}

impl Analysis {
    /// Everything that stands against the description, in words; empty where it is schedulable.
    pub fn objections(&self) -> Vec<String> {
        let of_modes = self.modes.iter().flat_map(objections_in);
        let of_protocols = self.protocols.iter().filter_map(ProtocolVerdict::objection);
        let of_chains = self.chains.iter().filter_map(ChainVerdict::objection);
        of_modes.chain(of_chains).chain(of_protocols).collect()
    }
}

fn objections_in(mode: &ModeVerdict) -> Vec<String> {
    let mut objections = Vec::new();
    let place = match &mode.mode {
        Some(mode) => format!(" in mode {mode}"),
        None => String::new(),
    };
    let named = |wanted: DeadlineVerdict| -> Vec<String> {
        let tasks = mode.tasks.iter().filter(|task| task.verdict == wanted);
        tasks.map(TaskVerdict::name).collect()
    };
    let (missed, undecided) = (
        named(DeadlineVerdict::Missed),
        named(DeadlineVerdict::Undecided),
    );
    if !missed.is_empty() {
        objections.push(format!(
            "a deadline can be missed{place}: {}",
            missed.join(", ")
        ));
    }
    if !undecided.is_empty() {
        let undecided = undecided.join(", ");
        objections.push(format!(
            "not shown to meet its deadline{place}: {undecided}"
        ));
    }
    for cpu in mode.cpus.iter().filter(|cpu| !cpu.admitted) {
        let (host, number) = (&cpu.host, cpu.cpu);
        objections.push(format!(
            "CPU {number} of host {host} cannot hold its reservations{place}: {}",
            cpu.failures.join("; ")
        ));
    }
    objections
}
