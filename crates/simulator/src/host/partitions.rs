//! Time partitions: domains that run in windows of the major frame, and in what others leave of theirs.

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
        let receiver = group.domain.as_deref().unwrap_or_default();
        let slack = mapping.description.slack_of(receiver);
        let slack = mapping.host.opened_windows(&slack);
        // Decisions and context switches are the engine's.
        let windows = mapping.host.opened_windows(&reservation.windows);
        // Windows without slack have nobody else in them; with it, the priorities say who comes first.
        if !slack.is_empty() || !reservation.slack.is_empty() {
            group.rank = mapping.rank_of(reservation, None, frame);
        }
        group.rule = match slack.is_empty() {
            true => Rule::Windows(windows),
            false => Rule::WindowsAndSlack { windows, slack },
        };
        group.period = frame;
        Ok(true)
    }
}
