//! Which rules there are.

use tailbound_model::{ReservationServer, ServerKind, Window};
use tailbound_time::Duration;

/// A rule of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// No limit: background, or a CPU of its own.
    Unlimited,
    /// A budget in each period.
    Server(ServerKind),
    /// A time partition: it may run within its windows of each major frame, as long as it likes
    /// (ARINC 653).
    Windows(Vec<Window>),
    /// A time partition that may also run in windows of others, which come first in them.
    WindowsAndSlack {
        /// Its own windows.
        windows: Vec<Window>,
        /// The windows of others, in order; none overlaps one of its own.
        slack: Vec<Window>,
    },
}

impl Rule {
    /// The windows that a time partition has to itself.
    pub fn windows(&self) -> Option<&[Window]> {
        match self {
            Self::Windows(windows) | Self::WindowsAndSlack { windows, .. } => Some(windows),
            Self::Unlimited | Self::Server(_) => None,
        }
    }
}

impl From<ServerKind> for Rule {
    fn from(kind: ServerKind) -> Self {
        Self::Server(kind)
    }
}

impl From<ReservationServer> for Rule {
    fn from(server: ReservationServer) -> Self {
        server.kind().map_or(Self::Unlimited, Self::Server)
    }
}

/// Why a reservation makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReservationError {
    /// A budget that is none.
    #[error(
        "a budget of {budget} in a period of {period} is none; it must be above zero and at most the \
         period"
    )]
    Budget {
        /// The budget.
        budget: Duration,
        /// The period.
        period: Duration,
    },
    /// A budget of several CPUs that is none.
    #[error(
        "a budget of {budget} in a period of {period} is none for {cpus} CPUs together; it must be at least a nanosecond \
         a CPU, and at most the period times the CPUs"
    )]
    SharedBudget {
        /// The budget.
        budget: Duration,
        /// The period.
        period: Duration,
        /// The number of CPUs that share it.
        cpus: u64,
    },
    /// A partition that never runs.
    #[error("a time partition without a window never runs; give it at least one")]
    NoWindow,
    /// More windows than there is room for.
    #[error("a time partition has {windows} windows in its frame; at most {most} can be served")]
    TooManyWindows {
        /// How many it has.
        windows: usize,
        /// How many it can have.
        most: usize,
    },
    /// A window that does not fit.
    #[error(
        "window {window} of a time partition begins at {offset} and lasts {length} in a frame of {frame}; \
         windows are in order, do not overlap, and last longer than nothing"
    )]
    Window {
        /// Which window, from 0.
        window: usize,
        /// Where it begins.
        offset: Duration,
        /// How long it lasts.
        length: Duration,
        /// The frame.
        frame: Duration,
    },
}
