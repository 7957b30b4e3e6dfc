//! A time partition in the manager's hands: opened and closed by the clock.

use tailbound_reservation::edge_delay::{Attendance, DelayCause};
use tailbound_reservation::window_server::{CompleteWindow, FrameWindows, WindowServer};
use tailbound_time::{Duration, Instant};

use super::usage_meter::UsageMeter;
use super::{ServedDomain, ServedState};
use crate::ds_freeze::error::ManagerError;

/// The server of a domain with windows; none for one without.
pub(super) fn server_of(
    domain: &ServedDomain,
    meter: &mut UsageMeter,
) -> Result<Option<WindowServer>, ManagerError> {
    if domain.windows.is_empty() {
        return Ok(None);
    }
    let windows = FrameWindows::with_slack(domain.period, &domain.windows, &domain.slack);
    let windows = windows.map_err(|cause| ManagerError::Windows {
        domain: domain.name.clone(),
        cause,
    })?;
    let used = meter.used().unwrap_or_default();
    Ok(Some(WindowServer::new(windows, used)))
}

impl ServedState {
    /// The length of the frame of a time partition.
    pub(in crate::ds_freeze) fn frame(&self) -> Option<Duration> {
        self.windows.as_ref().map(WindowServer::frame)
    }

    /// When the manager has to be back for a partition.
    pub(super) fn next_wake_of(&self, windows: &WindowServer) -> Instant {
        let edge = windows.next_edge();
        self.next_look.map_or(edge, |look| look.min(edge))
    }

    /// Opens or closes what is due.
    pub(super) fn serve_windows(&mut self, now: Instant, attendance: &Attendance) {
        let used = self.used();
        self.escape.look(now, self.used_before);
        let Some(windows) = &mut self.windows else {
            return;
        };
        let step = windows.advance(now, used);
        self.ledger.note_slack(windows.slack_used());
        let delay = step.edge.map(|edge| attendance.delay(edge, now));
        let cause = delay.and_then(|delay| delay.cause());
        if let (Some(delay), Some(cause)) = (delay, cause) {
            self.ledger.note_late_edge(cause, delay.total());
        }
        let by_host = cause == Some(DelayCause::Host);
        if let Some(complete) = step.complete {
            self.enter_window(&complete, by_host && step.ended);
        }
        self.stalled |= by_host;
        self.next_look = None;
        if self.held_since.is_some() {
            // The end of that asks the windows again.
            return;
        }
        if let Some(switch) = step.switch {
            self.switch(switch, now);
        }
    }

    /// Enters a window that has passed. `late_end`: the host held the manager up at its end.
    fn enter_window(&mut self, complete: &CompleteWindow, late_end: bool) {
        self.ledger
            .enter(&complete.period, self.stalled || late_end);
        self.ledger.note_window(complete);
        self.stalled = false;
    }

    /// Changes the windows of a partition; when that is in force. `None` if there is no room for another change, if the
    /// domain is no time partition, or if its frame has another length.
    pub(in crate::ds_freeze) fn change_windows(
        &mut self,
        changed: FrameWindows,
        from: Instant,
        now: Instant,
    ) -> Option<Instant> {
        self.windows.as_mut()?.change(changed, from, now)
    }
}
