//! The delay with which a manager comes to an edge of a window, split by its causes.
//!
//! A manager sleeps until an edge, stops and thaws domains one after the other, and does work of its own in between.
//! [`Attendance`] keeps when the manager slept and when it switched domains; it has a fixed size, so that a manager does
//! not allocate.

use tailbound_time::{Duration, Instant};

/// An edge that is served sooner than this after its instant is on time.
pub const LEAST_DELAY: Duration = Duration::from_millis(1);

/// So many of the latest switches are kept. A manager serves at most as many domains at one edge.
const KEPT_SWITCHES: usize = 64;

/// The cause of the largest part of a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayCause {
    /// The sleep of the manager ended late: the CPU was away, in a hypervisor or in interrupts.
    Host,
    /// The kernel took long to stop other domains or to let them go on.
    Partition,
    /// The manager was at work otherwise.
    Manager,
}

/// The delay of an edge, in parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeDelay {
    /// The part in which the manager slept.
    pub host: Duration,
    /// The part in which the manager stopped other domains or let them go on.
    pub partition: Duration,
    /// The rest.
    pub manager: Duration,
}

impl EdgeDelay {
    /// All parts together.
    pub fn total(&self) -> Duration {
        self.host + self.partition + self.manager
    }

    /// The cause of the largest part; none for a delay below [`LEAST_DELAY`].
    pub fn cause(&self) -> Option<DelayCause> {
        if self.total() < LEAST_DELAY {
            return None;
        }
        let others = self.partition.max(self.manager);
        Some(match self.host >= others {
            true => DelayCause::Host,
            false if self.partition >= self.manager => DelayCause::Partition,
            false => DelayCause::Manager,
        })
    }
}

/// The time between two instants, in which a manager slept or switched a domain.
type Interlude = (Instant, Instant);

/// The latest sleep and the latest switches of a manager.
#[derive(Clone, Debug)]
pub struct Attendance {
    sleep: Interlude,
    switches: [Interlude; KEPT_SWITCHES],
    next_place: usize,
}

impl Default for Attendance {
    fn default() -> Self {
        let nothing = (Instant::ORIGIN, Instant::ORIGIN);
        Self {
            sleep: nothing,
            switches: [nothing; KEPT_SWITCHES],
            next_place: 0,
        }
    }
}

impl Attendance {
    /// Notes a sleep that has ended.
    pub fn note_sleep(&mut self, begin: Instant, end: Instant) {
        self.sleep = (begin, end);
    }

    /// Notes the time that the kernel took to stop a domain or to let it go on.
    pub fn note_switch(&mut self, begin: Instant, end: Instant) {
        self.switches[self.next_place] = (begin, end);
        self.next_place = (self.next_place + 1) % KEPT_SWITCHES;
    }

    /// The delay of an edge that is served at an instant.
    pub fn delay(&self, edge: Instant, served_at: Instant) -> EdgeDelay {
        let late = (edge, served_at);
        let total = length(late);
        let host = common(late, self.sleep);
        let switches = self.switches.iter();
        let partition: Duration = switches.map(|switch| common(late, *switch)).sum();
        debug_assert!(
            host + partition <= total,
            "a manager does one thing at a time"
        );
        EdgeDelay {
            host,
            partition,
            manager: total.saturating_sub(host + partition),
        }
    }
}

fn length((begin, end): Interlude) -> Duration {
    end.saturating_since(begin)
}

/// The length of the part that two interludes share.
fn common(one: Interlude, other: Interlude) -> Duration {
    length((one.0.max(other.0), one.1.min(other.1)))
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

    fn parts(delay: EdgeDelay) -> [u64; 3] {
        [delay.host, delay.partition, delay.manager].map(|part| part.as_nanos() / 1_000)
    }

    #[test]
    fn a_sleep_beyond_the_edge_is_the_host() {
        let mut attendance = Attendance::default();
        attendance.note_sleep(at(1_000), at(6_500));
        let delay = attendance.delay(at(5_000), at(6_510));
        assert_eq!(parts(delay), [1_500, 0, 10]);
        assert_eq!(delay.cause(), Some(DelayCause::Host));
    }

    #[test]
    fn a_slow_stop_of_another_domain_is_the_partition() {
        let mut attendance = Attendance::default();
        // One switch is over before the edge, one lies across the edge.
        attendance.note_sleep(at(1_000), at(4_000));
        attendance.note_switch(at(4_000), at(4_300));
        attendance.note_switch(at(4_500), at(6_800));
        let delay = attendance.delay(at(5_000), at(7_000));
        assert_eq!(parts(delay), [0, 1_800, 200]);
        assert_eq!(delay.cause(), Some(DelayCause::Partition));
    }

    #[test]
    fn the_rest_is_the_manager() {
        let mut attendance = Attendance::default();
        attendance.note_sleep(at(1_000), at(5_100));
        attendance.note_switch(at(5_100), at(5_200));
        let delay = attendance.delay(at(5_000), at(6_400));
        assert_eq!(parts(delay), [100, 100, 1_200]);
        assert_eq!(delay.cause(), Some(DelayCause::Manager));
    }

    #[test]
    fn an_edge_is_late_from_one_millisecond_on() {
        let mut attendance = Attendance::default();
        attendance.note_sleep(at(1_000), at(5_999));
        assert_eq!(attendance.delay(at(5_000), at(5_999)).cause(), None);
        attendance.note_sleep(at(1_000), at(6_000));
        let late = attendance.delay(at(5_000), at(6_000));
        assert_eq!(
            (late.cause(), late.total()),
            (Some(DelayCause::Host), LEAST_DELAY)
        );
        // An edge ahead, such as one that a change of windows has put off.
        assert_eq!(attendance.delay(at(7_000), at(6_000)), EdgeDelay::default());
    }

    proptest! {
        /// A manager that sleeps, then switches and works in turns: the parts are exactly the times of each, after the edge.
        #[test]
        fn the_parts_of_a_delay_are_the_times_after_the_edge(
            slept in 1_u64..5_000, turns in prop::collection::vec((0_u64..2_000, 0_u64..2_000), 0..40), edge in 0_u64..20_000,
        ) {
            let mut attendance = Attendance::default();
            let after_edge = |begin: u64, end: u64| end.saturating_sub(begin.max(edge));
            attendance.note_sleep(at(0), at(slept));
            let mut now = slept;
            let (host, mut partition, mut manager) = (after_edge(0, slept), 0, 0);
            for (work, switch) in turns {
                manager += after_edge(now, now + work);
                now += work;
                attendance.note_switch(at(now), at(now + switch));
                partition += after_edge(now, now + switch);
                now += switch;
            }
            let delay = attendance.delay(at(edge), at(now));
            prop_assert_eq!(parts(delay), [host, partition, manager]);
            prop_assert_eq!(delay.total(), us(now.saturating_sub(edge)));
        }
    }
}
