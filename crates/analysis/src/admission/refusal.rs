//! Why reservations are not admitted.

use tailbound_model::{BackendKind, Cpu};
use tailbound_time::Duration;

/// Why a reservation is not admitted, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionRefusal {
    /// A reservation of that name holds already, or two of the requests share it.
    #[error("domain \"{0}\" has a reservation already; revert it first, or choose another name")]
    DuplicateDomain(String),
    /// The same, where the other one is from another state directory.
    #[error(
        "domain \"{domain}\" has a reservation already ({place}); revert that one first, or choose another name"
    )]
    DuplicateElsewhere {
        /// The domain.
        domain: String,
        /// Where that is from.
        place: String,
    },
    /// The sum of the bandwidths on a CPU exceeds the bound.
    #[error(
        "CPU {cpu}: domain \"{domain}\" asks for {asked_percent}, {held_percent} is held ({holders}), at most {bound_percent} can be given ({bound_reason}); \
         a budget of up to {fits} every {period} would fit"
    )]
    TooMuch {
        /// The CPU.
        cpu: Cpu,
        /// The domain that is one too many.
        domain: String,
        /// Its bandwidth in percent.
        asked_percent: String,
        /// What the others hold in percent.
        held_percent: String,
        /// The others.
        holders: String,
        /// The bound in percent.
        bound_percent: String,
        /// Where the bound comes from.
        bound_reason: String,
        /// The largest budget that would fit at this period, rounded down to nanoseconds.
        fits: Duration,
        /// The domain's period.
        period: Duration,
    },
    /// A domain would not get its budget in its period beneath those of higher or equal priority.
    #[error(
        "CPU {cpu}: beneath {above}, domain \"{domain}\" may get its {budget} only after {response}, later than its period {period} (fixed-priority deferrable servers); \
         give the shorter period the higher priority, or lower a budget"
    )]
    BudgetTooLate {
        /// The CPU.
        cpu: Cpu,
        /// The domain.
        domain: String,
        /// The domains that may run before it.
        above: String,
        /// Its budget.
        budget: Duration,
        /// Its period.
        period: Duration,
        /// When it may have got its budget at the earliest bound found: already past the period.
        response: Duration,
    },
    /// A domain with a deferrable server may lack CPU time beside others by deadlines.
    #[error(
        "CPU {cpu}: domain \"{domain}\" may lack {shortfall} of its budget at the end of a window of {window} (deferrable servers by deadlines); lower a budget"
    )]
    Shortage {
        /// The CPU.
        cpu: Cpu,
        /// The domain.
        domain: String,
        /// The window.
        window: Duration,
        /// What may be missing in it.
        shortfall: Duration,
    },
    /// A domain may take all the time that the kernel leaves to real-time threads, beside one that is guaranteed some of
    /// it.
    #[error(
        "CPU {cpu}: back end {backend} gives domain \"{domain}\" a real-time priority without a budget, so it may take \
         what domain \"{other}\" is guaranteed there; give it a reservation with a budget, or other CPUs"
    )]
    Unbounded {
        /// The CPU.
        cpu: Cpu,
        /// The domain without a budget.
        domain: String,
        /// Its back end.
        backend: BackendKind,
        /// The other one.
        other: String,
    },
    /// No test gives an answer in time.
    #[error("CPU {cpu}: whether domain \"{domain}\" gets its budget is not known: {reason}")]
    NotJudged {
        /// The CPU.
        cpu: Cpu,
        /// The domain.
        domain: String,
        /// Why not.
        reason: String,
    },
    /// A domain that is to have a CPU to itself, and another reservation there.
    #[error(
        "CPU {cpu}: domain \"{domain}\" is to have it alone, and domain \"{other}\" has a reservation there; give one of them another CPU"
    )]
    NotAlone {
        /// The CPU.
        cpu: Cpu,
        /// The domain that is to have the CPU to itself.
        domain: String,
        /// The other one.
        other: String,
    },
    /// Two back ends that spoil each other's promise on one CPU.
    #[error(
        "CPU {cpu}: domain \"{domain}\" ({backend}) and domain \"{other}\" ({other_backend}) cannot share a CPU: {reason}; use one back end per CPU"
    )]
    MixedBackends {
        /// The CPU.
        cpu: Cpu,
        /// The domain asking.
        domain: String,
        /// Its back end.
        backend: BackendKind,
        /// The domain there already.
        other: String,
        /// That one's back end.
        other_backend: BackendKind,
        /// Why not.
        reason: &'static str,
    },
    /// Two time partitions that would run at the same time.
    #[error(
        "CPU {cpu}: the window of domain \"{domain}\" from {begin} to {end} of the frame overlaps that of domain \"{other}\" from {other_begin} to {other_end}; move or shorten one of them, or use another CPU"
    )]
    WindowsOverlap {
        /// The CPU.
        cpu: Cpu,
        /// The domain asking.
        domain: String,
        /// The begin of its window, from the begin of the frame.
        begin: Duration,
        /// The end of its window.
        end: Duration,
        /// The domain there already.
        other: String,
        /// The begin of that one's window.
        other_begin: Duration,
        /// The end of that one's window.
        other_end: Duration,
    },
    /// Two time partitions whose frames have different lengths.
    #[error(
        "CPU {cpu}: domain \"{domain}\" has windows in a frame of {frame}, and domain \"{other}\" in one of {other_frame}, so that their windows come to overlap; use one frame per CPU"
    )]
    FramesDiffer {
        /// The CPU.
        cpu: Cpu,
        /// The domain asking.
        domain: String,
        /// Its frame.
        frame: Duration,
        /// The domain there already.
        other: String,
        /// The frame of the other domain.
        other_frame: Duration,
    },
}
