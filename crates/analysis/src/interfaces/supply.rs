//! What a reservation gives at least.

use tailbound_time::Duration;

/// A lower bound of the CPU time that a resource gives in any window of a given length while its
/// tasks have work: a supply bound function (Shin and Lee 2003, section 4), never falling.
pub trait SupplyBound {
    /// The CPU time in any window of this length, rounded down.
    fn supplied_down(&self, window: Duration) -> Duration;

    /// The shortest window in which at least `work` is given; [`Duration::MAX`] where none is.
    fn time_to_supply(&self, work: Duration) -> Duration;

    /// The CPU time in the long run as a fraction, (budget, period): CPUs.
    fn rate(&self) -> (u64, u64);

    /// A delay such that any window of length t gives at least rate (t - delay): the linear bound.
    fn delay_up(&self) -> Duration;

    /// The length after which the bound repeats: that much later it is higher by the rate times
    /// the length, for windows from [`delay_up`](Self::delay_up) on.
    fn repeats_after(&self) -> Duration;

    /// The name of the model, with its source.
    fn name(&self) -> &'static str;
}

/// A CPU of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedicatedCpu;

impl SupplyBound for DedicatedCpu {
    fn supplied_down(&self, window: Duration) -> Duration {
        window
    }

    fn time_to_supply(&self, work: Duration) -> Duration {
        work
    }

    fn rate(&self) -> (u64, u64) {
        (1, 1)
    }

    fn delay_up(&self) -> Duration {
        Duration::ZERO
    }

    fn repeats_after(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn name(&self) -> &'static str {
        "dedicated CPU"
    }
}
