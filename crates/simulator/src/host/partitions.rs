//! Time partitions: domains that run in windows of the major frame.

use tailbound_model::{Domain, DomainKind};

use super::layout::ReservationNode;
use super::mapping::Mapping;
use super::problem::HostError;
use super::subsystems::SimulatedSubsystem;
use crate::hierarchy::Rule;

/// `TimePartitions` gives time partitions their windows.
pub(super) struct TimePartitions;

impl SimulatedSubsystem for TimePartitions {
    fn supply(
        &self,
        mapping: &Mapping<'_>,
        domain: &Domain,
        group: &mut ReservationNode,
    ) -> Result<bool, HostError> {
        if domain.kind != DomainKind::TimePartition {
            return Ok(false);
        }
        let Some(frame) = mapping.host.major_frame else {
            let host = mapping.name.to_owned();
            return Err(HostError::NoFrame { host });
        };
        group.rule = Rule::Windows(domain.windows.clone());
        group.period = frame;
        Ok(true)
    }
}
