//! The windows of a time partition as a manager opens and closes them: the rule of `time-partitions`.
//!
//! It knows no kernel: whoever drives it tells the time and the CPU time that the domain has used in total, and carries
//! out the [`Switch`] that comes back. Frames begin at the multiples of their length on the one clock of the host, so
//! that the windows of all partitions, on all CPUs, lie in one common frame (ARINC 653: the major time frame).
//!
//! A window passes whether it is used or not, and whoever comes late to it has that much less of it: no part of a window
//! is made up for, since the time behind it belongs to others.
//!
//! A partition may have *slack*: windows of others in which it is not stopped, and runs whenever those leave the CPU, by its
//! lower priority, which the kernel sees to. Nothing is promised of them, and they have no account: the CPU time used in
//! them is counted apart.

use tailbound_model::Window;
use tailbound_time::{Duration, Instant};

use crate::ReservationError;
use crate::metered_server::{ClosedPeriod, MOST_PENDING, Switch};
use crate::rules::windows::check_windows;

/// So many windows a partition has in one frame at most, with those of others in which it may run.
pub const MOST_WINDOWS: usize = 32;

/// The windows of a partition in each frame. It has a fixed size: a manager that takes it up does not allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameWindows {
    frame: Duration,
    windows: [PlacedWindow; MOST_WINDOWS],
    count: usize,
    /// The number of those that are its own.
    own: u64,
}

/// A window of a frame in which a partition is not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlacedWindow {
    window: Window,
    /// Its place among the partition's own windows; `None` for a window of another partition.
    own: Option<u64>,
}

/// A window of one frame on the clock of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FramedWindow {
    /// Its place among all own windows since the clock began; `None` for a window of another partition.
    index: Option<u64>,
    begin: Instant,
    end: Instant,
}

impl FrameWindows {
    /// The windows of a frame, without slack.
    ///
    /// # Errors
    /// Windows that are none, too many, out of order, overlapping, or longer than the frame.
    pub fn new(frame: Duration, windows: &[Window]) -> Result<Self, ReservationError> {
        Self::with_slack(frame, windows, &[])
    }

    /// The windows of a frame, and those of others in which the partition may run.
    ///
    /// # Errors
    /// As [`FrameWindows::new`], of all of them together.
    pub fn with_slack(
        frame: Duration,
        windows: &[Window],
        slack: &[Window],
    ) -> Result<Self, ReservationError> {
        check_windows(windows, frame.as_nanos())?;
        let own = (0..).zip(windows).map(|(place, window)| PlacedWindow {
            window: *window,
            own: Some(place),
        });
        let of_others = slack.iter().map(|window| PlacedWindow {
            window: *window,
            own: None,
        });
        let mut all: Vec<PlacedWindow> = own.chain(of_others).collect();
        all.sort_by_key(|placed| placed.window.offset);
        let in_order: Vec<Window> = all.iter().map(|placed| placed.window).collect();
        check_windows(&in_order, frame.as_nanos())?;
        if all.len() > MOST_WINDOWS {
            return Err(ReservationError::TooManyWindows {
                windows: all.len(),
                most: MOST_WINDOWS,
            });
        }
        let mut fixed = [all[0]; MOST_WINDOWS];
        fixed[..all.len()].copy_from_slice(&all);
        Ok(Self {
            frame,
            windows: fixed,
            count: all.len(),
            own: windows.len() as u64,
        })
    }

    /// The distance between the begins of frames.
    pub fn frame(&self) -> Duration {
        self.frame
    }

    /// The window that is open at an instant, or else the next one.
    fn at_or_after(&self, now: Instant) -> FramedWindow {
        let frame_ns = self.frame.as_nanos();
        let frames = now.as_nanos() / frame_ns;
        let into = Duration::from_nanos(now.as_nanos() % frame_ns);
        let all = &self.windows[..self.count];
        let place = all.iter().position(|placed| into < placed.window.end());
        let (frames, place) = match place {
            Some(place) => (frames, place),
            None => (frames.saturating_add(1), 0),
        };
        let begin_of_frame = Instant::from_nanos(frames.saturating_mul(frame_ns));
        let PlacedWindow { window, own } = all[place];
        FramedWindow {
            index: own.map(|own| frames.saturating_mul(self.own).saturating_add(own)),
            begin: begin_of_frame.saturating_add(window.offset),
            end: begin_of_frame.saturating_add(window.end()),
        }
    }
}

/// A window whose account is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompleteWindow {
    /// Its account.
    pub period: ClosedPeriod,
    /// CPU time that the domain used between its end and the next window, after it was told to stop.
    pub ran_on: Duration,
}

/// A step of a server: the effects that it has had, and the switch that is to be carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowStep {
    /// Stop the domain or let it go on; `None` leaves it as it is.
    pub switch: Option<Switch>,
    /// The edge that was due; none in the first step, and in one before the next edge.
    pub edge: Option<Instant>,
    /// Whether a window ended.
    pub ended: bool,
    /// The window before the one that opened.
    pub complete: Option<CompleteWindow>,
}

/// The state of one time partition.
#[derive(Clone, Debug)]
pub struct WindowServer {
    windows: FrameWindows,
    /// The windows that hold from the first begin of a frame on that is not before an instant, one after the other.
    pending: [Option<(Instant, FrameWindows)>; MOST_PENDING],
    /// The window that is open.
    open: Option<FramedWindow>,
    /// What is known of the window that was opened last; none before the first.
    latest: Option<ClosedPeriod>,
    /// The index of the window after that.
    expected: u64,
    /// Windows that passed unserved before other windows came into force.
    missed_before: u64,
    /// What the domain had used when the latest window was opened, or closed.
    used_at_edge: Duration,
    /// The CPU time that it has used in windows of others.
    slack_used: Duration,
    /// `None` before the first step.
    next_edge: Option<Instant>,
    /// Whether the domain is stopped; `None` before the first switch and after one that failed.
    frozen: Option<bool>,
}

impl WindowServer {
    /// The server of a partition that has used `used` so far. Whether the domain runs is not known, so the first step says.
    pub fn new(windows: FrameWindows, used: Duration) -> Self {
        Self {
            windows,
            pending: [None; MOST_PENDING],
            open: None,
            latest: None,
            expected: 0,
            missed_before: 0,
            used_at_edge: used,
            slack_used: Duration::ZERO,
            next_edge: None,
            frozen: None,
        }
    }

    /// When a window is opened or closed next.
    pub fn next_edge(&self) -> Instant {
        self.next_edge.unwrap_or(Instant::ORIGIN)
    }

    /// The CPU time that the domain has used in windows of others so far.
    pub fn slack_used(&self) -> Duration {
        self.slack_used
    }

    /// Whether a window is open, its own or one of another partition.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The length of the frame.
    pub fn frame(&self) -> Duration {
        self.windows.frame
    }

    /// Forgets whether the domain is stopped: the last switch failed, or somebody else switched.
    pub fn forget_switch(&mut self) {
        self.frozen = None;
    }

    /// Goes on with other windows of a frame of the same length, from the first begin of a frame on that is not before
    /// an instant; when that is. `None` if too many changes wait already, or the frame is another one.
    pub fn change(
        &mut self,
        windows: FrameWindows,
        from: Instant,
        now: Instant,
    ) -> Option<Instant> {
        if windows.frame != self.windows.frame {
            return None;
        }
        let frame_ns = self.windows.frame.as_nanos();
        let latest = self.pending.iter().flatten().map(|(at, _)| *at).max();
        let passed = now.as_nanos() / frame_ns;
        let next = Instant::from_nanos(passed.saturating_add(1).saturating_mul(frame_ns));
        let from = from.max(next).max(latest.unwrap_or(Instant::ORIGIN));
        let frames = from.as_nanos().div_ceil(frame_ns);
        let in_force_at = Instant::from_nanos(frames.saturating_mul(frame_ns));
        // Of two changes at one begin of a frame the later one holds.
        let same = self
            .pending
            .iter()
            .position(|one| matches!(one, Some((at, _)) if *at == in_force_at));
        let place = same.or_else(|| self.pending.iter().position(Option::is_none))?;
        self.pending[place] = Some((in_force_at, windows));
        self.next_edge = self.next_edge.map(|edge| edge.min(in_force_at));
        Some(in_force_at)
    }

    /// Does what is due by `now`, when the domain has used `used` in total.
    pub fn advance(&mut self, now: Instant, used: Duration) -> WindowStep {
        let mut step = WindowStep {
            edge: self.next_edge.filter(|edge| *edge <= now),
            ..WindowStep::default()
        };
        self.take_up_changes(now);
        let next = self.windows.at_or_after(now);
        let is_open = next.begin <= now;
        // It has ended, or a change has cut it short.
        if let Some(open) = self.open.filter(|open| !is_open || *open != next) {
            self.close(open, now, used);
            step.ended = open.index.is_some();
        }
        if is_open && self.open.is_none() {
            step.complete = self.begin(next, now, used);
        }
        let edge = if is_open { next.end } else { next.begin };
        let changes = self.pending.iter().flatten().map(|(at, _)| *at);
        let next_edge = changes.fold(edge, Instant::min);
        debug_assert!(next_edge > now, "what is due has been done");
        self.next_edge = Some(next_edge);
        let frozen = !is_open;
        step.switch = (self.frozen != Some(frozen)).then_some(match frozen {
            true => Switch::Freeze,
            false => Switch::Thaw,
        });
        self.frozen = Some(frozen);
        step
    }

    fn take_up_changes(&mut self, now: Instant) {
        while let Some(place) = self.first_due(now) {
            if let Some((at, windows)) = self.pending[place].take() {
                // The change is at the begin of a frame, from which on indices count the new windows.
                let frames = at.as_nanos() / self.windows.frame.as_nanos();
                let first = |own: u64| frames.saturating_mul(own);
                let missed = first(self.windows.own).saturating_sub(self.expected);
                self.missed_before = self.missed_before.saturating_add(missed);
                self.expected = first(windows.own);
                self.windows = windows;
            }
        }
    }

    /// The earliest change that is due.
    fn first_due(&self, now: Instant) -> Option<usize> {
        let waiting = self.pending.iter().enumerate();
        let due = waiting.filter_map(|(place, one)| one.as_ref().map(|(at, _)| (*at, place)));
        due.filter(|(at, _)| *at <= now)
            .min()
            .map(|(_, place)| place)
    }

    /// Opens a window. Where it is one of its own: the account of the one before, to which belongs what was used outside of
    /// windows in between. The rest of a window that is open already at the first step is on time.
    fn begin(
        &mut self,
        window: FramedWindow,
        now: Instant,
        used: Duration,
    ) -> Option<CompleteWindow> {
        let between = used.saturating_sub(self.used_at_edge);
        if let Some(before) = &mut self.latest {
            before.overrun = before.overrun.saturating_add(between);
        }
        self.open = Some(window);
        self.used_at_edge = used;
        let index = window.index?;
        let missed = index.saturating_sub(self.expected);
        let missed = missed.saturating_add(std::mem::take(&mut self.missed_before));
        self.expected = index.saturating_add(1);
        let complete = self.latest.take().map(|mut before| {
            before.skipped = missed;
            CompleteWindow {
                period: before,
                ran_on: between,
            }
        });
        let (given_at, from) = match self.next_edge {
            Some(_) => (now, window.begin),
            None => (window.begin, now),
        };
        self.latest = Some(ClosedPeriod {
            index,
            grid_start: window.begin,
            replenished_at: given_at,
            budget: window.end.saturating_since(from),
            ..ClosedPeriod::default()
        });
        complete
    }

    /// Closes the open window. What the domain has used since the end of the window is an overrun: at most as long as
    /// whoever closes it is late.
    fn close(&mut self, open: FramedWindow, now: Instant, used: Duration) {
        let used_in_it = used.saturating_sub(self.used_at_edge);
        let overrun = now.saturating_since(open.end).min(used_in_it);
        self.open = None;
        self.used_at_edge = used;
        if open.index.is_none() {
            let in_time = used_in_it.saturating_sub(overrun);
            self.slack_used = self.slack_used.saturating_add(in_time);
            if let Some(latest) = &mut self.latest {
                latest.overrun = latest.overrun.saturating_add(overrun);
            }
        } else if let Some(latest) = &mut self.latest {
            latest.used = used_in_it;
            latest.overrun = overrun;
            latest.depleted = used_in_it >= latest.budget.scaled_down(95, 100);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn windows(frame: u64, pairs: &[(u64, u64)]) -> FrameWindows {
        let windows = pairs.iter().map(|(offset, length)| Window {
            offset: us(*offset),
            length: us(*length),
        });
        FrameWindows::new(us(frame), &windows.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_partition_runs_in_its_windows_and_the_account_says_how_late() {
        let mut server = WindowServer::new(windows(1_500, &[(700, 800)]), us(0));
        // The clock is in the frame from 3,000 on, before its window.
        let first = server.advance(at(3_100), us(0));
        assert_eq!((first.switch, first.edge), (Some(Switch::Freeze), None));
        assert_eq!(server.next_edge(), at(3_700));
        let opened = WindowStep {
            switch: Some(Switch::Thaw),
            edge: Some(at(3_700)),
            ..WindowStep::default()
        };
        assert_eq!(server.advance(at(3_705), us(0)), opened);
        assert_eq!(server.next_edge(), at(4_500));
        let ended = WindowStep {
            switch: Some(Switch::Freeze),
            edge: Some(at(4_500)),
            ended: true,
            complete: None,
        };
        assert_eq!(server.advance(at(4_502), us(797)), ended);
        let step = server.advance(at(5_200), us(800));
        assert_eq!((step.switch, step.ended), (Some(Switch::Thaw), false));
        let complete = step.complete.unwrap();
        assert_eq!(complete.ran_on, us(3));
        let closed = complete.period;
        assert_eq!((closed.lateness(), closed.budget), (us(5), us(800)));
        // 2 us after the end, and 3 us while it stood still.
        assert_eq!(
            (closed.used, closed.overrun, closed.depleted),
            (us(797), us(5), true)
        );
    }

    #[test]
    fn windows_that_touch_across_the_frame_are_one_run_and_two_accounts() {
        let mut server = WindowServer::new(windows(1_000, &[(0, 200), (800, 200)]), us(0));
        assert_eq!(server.advance(at(5_900), us(0)).switch, Some(Switch::Thaw));
        let step = server.advance(at(6_000), us(100));
        assert_eq!((step.switch, step.ended), (None, true));
        let complete = step.complete.unwrap();
        // The window from 5,800 on was open already when the partition was taken up.
        assert_eq!(complete.period.lateness(), us(0));
        assert_eq!(complete.period.budget, us(100));
        assert_eq!((complete.period.used, complete.ran_on), (us(100), us(0)));
        assert_eq!(server.next_edge(), at(6_200));
        assert_eq!(
            server.advance(at(6_200), us(300)).switch,
            Some(Switch::Freeze)
        );
    }

    #[test]
    fn in_windows_of_others_it_is_not_stopped_and_they_have_no_account() {
        let window = |offset, length| Window {
            offset: us(offset),
            length: us(length),
        };
        let slack = [window(200, 300), window(700, 100)];
        let own = [window(0, 200)];
        let windows = FrameWindows::with_slack(us(1_000), &own, &slack).unwrap();
        let mut server = WindowServer::new(windows, us(0));
        let advance = |server: &mut WindowServer, at, used| {
            let step = server.advance(at, used);
            (step.switch, step.complete.map(|complete| complete.period))
        };
        assert_eq!(advance(&mut server, at(2_000), us(0)).0, Some(Switch::Thaw));
        // Its own window ends, and that of another begins.
        assert_eq!(advance(&mut server, at(2_200), us(150)), (None, None));
        assert_eq!(server.slack_used(), us(0));
        // 10 us late: so much of what it has used may be beyond the end.
        assert_eq!(
            advance(&mut server, at(2_510), us(250)),
            (Some(Switch::Freeze), None)
        );
        assert_eq!(server.slack_used(), us(90));
        // 3 us while it was to stand still.
        assert_eq!(
            advance(&mut server, at(2_700), us(253)),
            (Some(Switch::Thaw), None)
        );
        assert_eq!(
            advance(&mut server, at(2_800), us(300)).0,
            Some(Switch::Freeze)
        );
        assert_eq!(server.slack_used(), us(137));
        let (switch, closed) = advance(&mut server, at(3_000), us(300));
        let closed = closed.unwrap();
        assert_eq!(switch, Some(Switch::Thaw));
        assert_eq!(
            (closed.used, closed.overrun, closed.skipped),
            (us(150), us(13), 0)
        );
        // Two own windows pass unserved.
        let (_, closed) = advance(&mut server, at(6_100), us(300));
        assert_eq!(closed.unwrap().skipped, 2);
    }

    #[test]
    fn slack_overlaps_no_own_window_and_counts_among_the_most() {
        let window = |offset, length| Window {
            offset: us(offset),
            length: us(length),
        };
        let own = [window(100, 100)];
        let meets = FrameWindows::with_slack(us(1_000), &own, &[window(150, 100)]);
        assert!(matches!(meets, Err(ReservationError::Window { .. })));
        let late = FrameWindows::with_slack(us(1_000), &own, &[window(950, 100)]);
        assert!(matches!(late, Err(ReservationError::Window { .. })));
        let alone = FrameWindows::with_slack(us(1_000), &[], &[window(150, 100)]);
        assert_eq!(alone, Err(ReservationError::NoWindow));
        let many: Vec<Window> = (0..MOST_WINDOWS as u64)
            .map(|place| window(300 + place, 1))
            .collect();
        assert_eq!(
            FrameWindows::with_slack(us(1_000), &own, &many),
            Err(ReservationError::TooManyWindows {
                windows: MOST_WINDOWS + 1,
                most: MOST_WINDOWS,
            })
        );
    }

    #[test]
    fn windows_that_pass_unserved_are_counted() {
        let mut server = WindowServer::new(windows(1_000, &[(0, 200), (500, 100)]), us(0));
        server.advance(at(2_000), us(0));
        server.advance(at(2_200), us(200));
        let step = server.advance(at(4_010), us(200));
        assert_eq!(step.switch, Some(Switch::Thaw));
        // The edge that was due is the begin of the first window that passed.
        assert_eq!(step.edge, Some(at(2_500)));
        assert_eq!(step.complete.unwrap().period.skipped, 3);
    }

    #[test]
    fn other_windows_hold_from_the_begin_of_a_frame_on() {
        let mut server = WindowServer::new(windows(1_000, &[(0, 500)]), us(0));
        server.advance(at(2_100), us(0));
        let late = windows(1_000, &[(500, 500)]);
        assert_eq!(server.change(late, at(2_900), at(2_200)), Some(at(3_000)));
        assert_eq!(
            server.advance(at(2_500), us(300)).switch,
            Some(Switch::Freeze)
        );
        assert_eq!(server.next_edge(), at(3_000));
        assert_eq!(server.advance(at(3_000), us(300)).switch, None);
        assert_eq!(server.next_edge(), at(3_500));
        assert_eq!(
            server.advance(at(3_500), us(300)).switch,
            Some(Switch::Thaw)
        );
        // Another frame cannot be told from here on: its begins are others.
        assert_eq!(
            server.change(windows(900, &[(0, 500)]), at(0), at(3_600)),
            None
        );
    }

    #[test]
    fn windows_are_missed_in_the_schedule_that_they_are_of() {
        let mut server = WindowServer::new(windows(1_000, &[(0, 200), (500, 100)]), us(0));
        server.advance(at(5_000), us(0));
        server.advance(at(5_200), us(0));
        let three = windows(1_000, &[(100, 100), (300, 100), (600, 100)]);
        server.change(three, at(0), at(5_300));
        // That at 5,500 is one of the old ones, those at 6,100 and 6,300 are new ones.
        let step = server.advance(at(6_600), us(0));
        assert_eq!(step.complete.unwrap().period.skipped, 3);
        let step = server.advance(at(7_100), us(0));
        assert_eq!(step.complete.unwrap().period.skipped, 0);
    }

    #[test]
    fn a_switch_that_failed_is_told_again() {
        let mut server = WindowServer::new(windows(1_000, &[(0, 500)]), us(0));
        assert_eq!(server.advance(at(2_100), us(0)).switch, Some(Switch::Thaw));
        server.forget_switch();
        assert_eq!(server.advance(at(2_110), us(0)).switch, Some(Switch::Thaw));
        assert_eq!(server.advance(at(2_120), us(0)).switch, None);
    }

    fn pattern() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((1_u64..40, 1_u64..40), 1..6).prop_map(|gaps| {
            let mut end = 0;
            let mut windows = Vec::new();
            for (gap, length) in gaps {
                windows.push((end + gap - 1, length));
                end += gap - 1 + length;
            }
            windows
        })
    }

    proptest! {
        /// Whoever comes exactly at each edge has the domain run exactly in the windows, whatever changes in between.
        #[test]
        fn an_executive_on_time_opens_exactly_the_windows(
            first in pattern(), second in pattern(), start in 0_u64..3_000, change in 0_u64..2_000,
        ) {
            let frame = 512;
            let mut server = WindowServer::new(windows(frame, &first), us(0));
            let mut now = at(start);
            let mut runs = false;
            let mut changed = None;
            let until = at(start + 5 * frame);
            let mut open = Duration::ZERO;
            let mut last = now;
            while now < until {
                if runs {
                    open += now.saturating_since(last);
                }
                last = now;
                match server.advance(now, open).switch {
                    Some(Switch::Thaw) => { prop_assert!(!runs); runs = true; }
                    Some(Switch::Freeze) => runs = false,
                    None => {}
                }
                if changed.is_none() && now >= at(start + change) {
                    changed = server.change(windows(frame, &second), now, now);
                    prop_assert!(changed.is_some());
                }
                let held = match changed { Some(from) if now >= from => &second, _ => &first };
                let into = now.as_nanos() / 1_000 % frame;
                let inside = held.iter().any(|(offset, length)| (*offset..offset + length).contains(&into));
                prop_assert_eq!(runs, inside, "{} of the frame", into);
                prop_assert_eq!(server.is_open(), inside);
                now = server.next_edge();
            }
        }
    }
}
