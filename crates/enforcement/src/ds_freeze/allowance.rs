//! How much of its CPU a manager may let real-time threads use at a stretch.
//!
//! The kernel keeps a part of each second from SCHED_FIFO (real-time throttling, and the fair server
//! since 6.8): whoever goes on for 950 ms of a second is put aside for the rest of it, the manager
//! with its domains. While the manager stands still, budgets are neither given nor taken; and on
//! Linux 6.18, beside a busy ordinary program, that has lasted for more than a second now and then. So
//! a manager stays clear of it: whenever its domains and itself have used 940 ms
//! within the kernel's second, it stops the domains until older use has left the window.
//! Nobody is held up who is busy for less; who is busy for longer meets a hole of 60 ms a second, as
//! he would have from the kernel, but with a manager that is awake.

use tailbound_analysis::admission::RealTimeLimit;
use tailbound_time::{Duration, Instant};

/// How often a look is due, in thousandths of the kernel's period: between looks it is not known
/// who ran when.
const LOOK_EVERY_PER_MILLE: u64 = 50;
/// The least between two looks, and the least pause.
const SHORTEST_LOOK_PER_MILLE: u64 = 2;
/// Looks nearer to one another than this share one entry in the memory.
const ENTRY_EVERY_PER_MILLE: u64 = 10;
/// More entries than fit into a window.
const ENTRIES: usize = 128;
/// As much of a time, in thousandths, may be missing from the use of somebody who never rested.
const LOST_PER_MILLE: u64 = 50;

/// What is to be done with the domains of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PauseState {
    /// They may run.
    Clear,
    /// They have to stand still.
    Paused,
}

/// How much had been used in all at a moment.
#[derive(Clone, Copy, Debug, Default)]
struct UsageReading {
    at: Instant,
    total: Duration,
}

/// The account of one CPU: what was used lately, and since when.
#[derive(Debug)]
pub(super) struct Allowance {
    limit: RealTimeLimit,
    /// A ring, oldest first from `first`; never empty after the first look.
    entries: [UsageReading; ENTRIES],
    first: usize,
    count: usize,
    latest: UsageReading,
    next_look: Instant,
}

impl Allowance {
    pub(super) fn new(limit: RealTimeLimit) -> Self {
        Self {
            limit,
            entries: [UsageReading::default(); ENTRIES],
            first: 0,
            count: 0,
            latest: UsageReading::default(),
            next_look: Instant::ORIGIN,
        }
    }

    /// What it watches over.
    pub(super) fn limit(&self) -> &RealTimeLimit {
        &self.limit
    }

    /// When [`Allowance::look`] is due.
    pub(super) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// At `now` real-time threads have used `used` more than at the last look.
    pub(super) fn look(&mut self, now: Instant, used: Duration) -> PauseState {
        let now = now.max(self.latest.at);
        let used = counted(now.saturating_since(self.latest.at), used);
        self.latest = UsageReading {
            at: now,
            total: self.latest.total.saturating_add(used),
        };
        self.remember();
        let left = self.limit.most().saturating_sub(self.used_in_window());
        let shortest = self.limit.part(SHORTEST_LOOK_PER_MILLE);
        let longest = self.limit.part(LOOK_EVERY_PER_MILLE);
        self.next_look = now.saturating_add(left.max(shortest).min(longest));
        if left < shortest {
            PauseState::Paused
        } else {
            PauseState::Clear
        }
    }

    /// The most that can have been used within one window before the last look.
    fn used_in_window(&self) -> Duration {
        let begin = self.latest.at.saturating_sub(self.limit.window());
        let Some(first) = self.entries().find(|entry| entry.at >= begin) else {
            return Duration::ZERO;
        };
        let before = self.entries().take_while(|entry| entry.at < begin).last();
        // Of what was used across the beginning of the window, as much as can lie within it does.
        let across = before.map_or(Duration::ZERO, |before| {
            let used = first.total.saturating_sub(before.total);
            used.min(first.at.saturating_since(begin))
        });
        let since = self.latest.total.saturating_sub(first.total);
        since.saturating_add(across)
    }

    fn entries(&self) -> impl Iterator<Item = UsageReading> {
        (0..self.count).map(|place| self.entries[(self.first + place) % ENTRIES])
    }

    /// Enters the last look, and forgets what lies before the window, but for one entry.
    fn remember(&mut self) {
        let begin = self.latest.at.saturating_sub(self.limit.window());
        while self.count > 1 && self.entries[(self.first + 1) % ENTRIES].at < begin {
            self.first = (self.first + 1) % ENTRIES;
            self.count -= 1;
        }
        let newest = (self.first + self.count.saturating_sub(1)) % ENTRIES;
        let spacing = self.limit.part(ENTRY_EVERY_PER_MILLE);
        let near = self.latest.at.saturating_since(self.entries[newest].at) < spacing;
        if self.count > 0 && near {
            return;
        }
        if self.count == ENTRIES {
            self.first = (self.first + 1) % ENTRIES;
            self.count -= 1;
        }
        self.entries[(self.first + self.count) % ENTRIES] = self.latest;
        self.count += 1;
        debug_assert!(
            self.first < ENTRIES && self.count <= ENTRIES,
            "the ring has its places"
        );
    }
}

/// How much of the time between two looks others did not have, if so much of it was used.
///
/// What the host or interrupts took is in nobody's use, but the kernel goes by its clock: on a virtual
/// machine that lost 2% of its time no use ever came to 940 ms, and the kernel was always first. Who
/// used nearly all of the time would have used the rest.
fn counted(time: Duration, used: Duration) -> Duration {
    if time.saturating_sub(used) <= time.scaled_down(LOST_PER_MILLE, 1_000) {
        time.max(used)
    } else {
        used
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Lets somebody run who wants the CPU in stretches of `busy` and then of `idle`, and returns
    /// for each millisecond whether real-time threads had it.
    fn history(limit: RealTimeLimit, busy: u64, idle: u64, length: u64) -> Vec<bool> {
        let mut allowance = Allowance::new(limit);
        let mut standing = PauseState::Clear;
        let mut ran = Vec::new();
        let mut fresh = Duration::ZERO;
        for tick in 0..length {
            let now = Instant::ORIGIN + ms(tick);
            if now >= allowance.next_look() {
                standing = allowance.look(now, fresh);
                fresh = Duration::ZERO;
            }
            let runs = standing == PauseState::Clear && tick % (busy + idle) < busy;
            if runs {
                fresh = fresh.saturating_add(ms(1));
            }
            ran.push(runs);
        }
        ran
    }

    #[test]
    fn who_is_always_busy_gets_what_the_kernel_would_leave_nearly() {
        let ran = history(RealTimeLimit::default(), 1, 0, 10_000);
        let share = ran.iter().filter(|ran| **ran).count();
        assert!((9_300..=9_410).contains(&share), "{share}");
        let longest = ran.split(|ran| *ran).map(<[bool]>::len).max().unwrap();
        assert!(longest <= 65, "stopped for {longest} ms at a stretch");
    }

    #[test]
    fn who_is_busy_for_less_than_a_window_is_left_alone() {
        for (busy, idle) in [
            (9, 1),
            (90, 10),
            (180, 30),
            (540, 80),
            (900, 100),
            (920, 80),
        ] {
            let ran = history(RealTimeLimit::default(), busy, idle, 5_000);
            let share = ran.iter().filter(|ran| **ran).count() as u64;
            let wanted = (0..5_000).filter(|t| t % (busy + idle) < busy).count() as u64;
            assert_eq!(share, wanted, "{busy} {idle}");
        }
    }

    #[test]
    fn what_the_host_takes_from_a_busy_domain_counts_as_used() {
        // Of every 50 ms the host takes one: no use ever comes to 940 ms in a second.
        let mut allowance = Allowance::new(RealTimeLimit::default());
        let mut now = Instant::ORIGIN;
        let mut others = Duration::ZERO;
        let mut standing = allowance.look(now, Duration::ZERO);
        while now < Instant::ORIGIN + ms(10_000) {
            let length = allowance.next_look().saturating_since(now);
            now = allowance.next_look();
            let used = match standing {
                PauseState::Clear => length.scaled_down(49, 50),
                PauseState::Paused => {
                    others = others.saturating_add(length);
                    Duration::ZERO
                }
            };
            standing = allowance.look(now, used);
        }
        assert!(others >= ms(500), "{others}");
        assert!(others <= ms(700), "{others}");
    }

    #[test]
    fn short_rests_are_not_counted_where_they_are_enough() {
        assert_eq!(counted(ms(50), ms(45)), ms(45));
        assert_eq!(counted(ms(50), ms(48)), ms(50));
        assert_eq!(counted(ms(50), ms(51)), ms(51));
        assert_eq!(counted(Duration::ZERO, ms(1)), ms(1));
    }

    proptest! {
        #[test]
        fn no_second_goes_beyond_what_the_kernel_allows(
            busy in 1_u64..3_000, idle in 0_u64..500, share in 100_i64..1_000,
        ) {
            let limit = RealTimeLimit::beneath(share * 1_000, 1_000_000);
            let ran = history(limit, busy, idle, 4_000);
            let most = usize::try_from(share.min(950)).unwrap();
            for second in ran.windows(1_000) {
                prop_assert!(second.iter().filter(|ran| **ran).count() <= most);
            }
        }

        #[test]
        fn work_is_done_in_the_time_that_is_reckoned_with(work in 1_u64..4_000) {
            let limit = RealTimeLimit::default();
            let ran = history(limit, 1, 0, 6_000);
            let done = ran.iter().scan(0, |sum, ran| {
                *sum += u64::from(*ran);
                Some(*sum)
            });
            let took = done.take_while(|done| *done < work).count() as u128 + 1;
            let reckoned = limit.time_for_ns(u128::from(work) * 1_000_000) / 1_000_000;
            // The looks of this history come up to a millisecond late.
            prop_assert!(took <= reckoned + 5, "{took} {reckoned}");
        }

        #[test]
        fn any_input_is_answered(
            runtime_us in any::<i64>(), period_us in any::<u32>(),
            looks in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
        ) {
            let period_us = u64::from(period_us);
            let limit = RealTimeLimit::beneath(runtime_us, period_us);
            let mut allowance = Allowance::new(limit);
            for (now, used) in looks {
                let now = Instant::from_nanos(now);
                let _standing = allowance.look(now, Duration::from_nanos(used));
                prop_assert!(allowance.next_look() >= now);
            }
        }
    }
}
