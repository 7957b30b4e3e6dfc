//! `time-partitions`: SCHED_FIFO for the domain, and a manager that thaws its cgroup at the begin of each of its windows and
//! freezes it at the end. The cgroups are those of `ds-freeze`, and so is the manager.

use tailbound_linux::HostCapabilities;
use tailbound_model::{BackendKind, Window};
use tailbound_reservation::window_server::FrameWindows;
use tailbound_time::Duration;

use super::{DsFreeze, check_range};
use crate::error::{AdmissionError, EnforcementError};
use crate::{Backend, MissingRequirement, Plan, ReservationRequest, Site};

/// Cyclic time partitions.
pub struct TimePartitions;

impl Backend for TimePartitions {
    fn kind(&self) -> BackendKind {
        BackendKind::TimePartitions
    }

    fn missing(&self, host: &HostCapabilities) -> Vec<MissingRequirement> {
        DsFreeze.missing(host)
    }

    fn missing_for(
        &self,
        request: &ReservationRequest,
        host: &HostCapabilities,
    ) -> Vec<MissingRequirement> {
        DsFreeze.missing_for(request, host)
    }

    fn check_interface(
        &self,
        request: &ReservationRequest,
        _: &HostCapabilities,
    ) -> Result<(), AdmissionError> {
        let interface = &request.interface;
        let refused = |reason: String| AdmissionError::Windows {
            domain: request.domain.clone(),
            reason,
        };
        FrameWindows::with_slack(interface.period, &interface.windows, &interface.slack)
            .map_err(|error| refused(error.to_string()))?;
        let total: Duration = interface.windows.iter().map(|window| window.length).sum();
        if interface.budget != total {
            return Err(refused(format!(
                "its budget of {} is not the sum of its windows, {total}",
                interface.budget
            )));
        }
        let least = request.backend.traits().smallest_budget;
        let short = |window: &&Window| window.length < least;
        if let Some(window) = interface.windows.iter().find(short) {
            return Err(refused(format!(
                "its window of {} at {} is too short to be opened and closed; a window lasts at least {least}",
                window.length, window.offset
            )));
        }
        check_range(
            request,
            "its manager wakes up at both ends of each window, 10 to 20 microseconds each",
        )
    }

    fn plan(&self, request: &ReservationRequest, site: Site<'_>) -> Result<Plan, EnforcementError> {
        let plan = DsFreeze.plan(request, site)?;
        let mapping = mapping(request, &plan);
        Ok(Plan { mapping, ..plan })
    }
}

fn mapping(request: &ReservationRequest, plan: &Plan) -> Vec<String> {
    let interface = &request.interface;
    let mut lines = vec![format!(
        "priority {0} -> SCHED_FIFO {0}; managers run at SCHED_FIFO 98",
        interface.priority.0
    )];
    lines.extend(interface.windows.iter().map(|window| {
        format!(
            "window {} to {} of each {} -> our manager thaws the cgroup at the begin and freezes it at the end; frames \
             begin at the multiples of {} on CLOCK_MONOTONIC",
            window.offset,
            window.end(),
            interface.period,
            interface.period
        )
    }));
    lines.extend(interface.slack.iter().map(|window| {
        format!(
            "slack {} to {} -> thawed as well, below the partition whose window it is",
            window.offset,
            window.end()
        )
    }));
    lines.extend(plan.managers.iter().map(|manager| {
        let group = manager.cgroup.display();
        format!("CPU {} -> {group}/cgroup.freeze", manager.cpu)
    }));
    lines
}
