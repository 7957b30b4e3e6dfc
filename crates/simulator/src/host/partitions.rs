//! Time partitions: domains that run in windows of the major frame.

use tailbound_model::Domain;

use super::layout::ReservationNode;
use super::mapping::Mapping;
use super::problem::HostError;
use super::subsystems::SimulatedSubsystem;
use crate::hierarchy::Rule;

/// `PartitionWindows` gives time partitions their windows.
pub(super) struct PartitionWindows;

impl SimulatedSubsystem for PartitionWindows {
    fn supply(
        &self,
        mapping: &Mapping<'_>,
        domain: &Domain,
        group: &mut ReservationNode,
    ) -> Result<bool, HostError> {
        let windowed = domain.reservation.as_ref();
        let Some(reservation) = windowed.filter(|it| it.backend.has_windows()) else {
            return Ok(false);
        };
        let Some(frame) = mapping.host.major_frame else {
            let host = mapping.name.to_owned();
            return Err(HostError::NoFrame { host });
        };
        // Decisions and context switches are the engine's.
        group.rule = Rule::Windows(mapping.host.opened_windows(&reservation.windows));
        group.period = frame;
        Ok(true)
    }
}
