//! The messages that a publisher may send in a window of a length.

use tailbound_messages::Contract;
use tailbound_model::{ArrivalCurve, Task};
use tailbound_time::Duration;

/// The windows of a curve that a comparison goes through: so many repetitions of the slowest point.
const REPETITIONS: u64 = 16;

/// A bound on messages: the arrivals of jobs, each delayed by up to a jitter, and a contract where one cuts the excess off.
///
/// The delay of the events of a curve by up to a jitter J admits in a window of length t as many as the curve admits in t + J
/// (Richter, *Compositional Scheduling Analysis*, 2005; Le Boudec and Thiran, *Network Calculus*, 2001, section 1.4.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    curves: Vec<(ArrivalCurve, Duration)>,
}

/// A window in which more messages may come than are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    /// The length of the window.
    pub window: Duration,
    /// The messages that may come in it.
    pub sent: u64,
    /// The messages that are admitted in it.
    pub admitted: u64,
}

impl Excess {
    /// The messages that may come, in words.
    pub fn sent_in_words(&self) -> String {
        match self.window == Duration::from_nanos(1) {
            true => format!("up to {} messages come at once", self.sent),
            false => format!("up to {} messages come within {}", self.sent, self.window),
        }
    }
}

impl Traffic {
    /// The bound on the jobs of a task that become ready, or end, up to `jitter` after their arrival; `None` where the
    /// arrivals promise no distance.
    pub fn of_task(task: &Task, jitter: Duration) -> Option<Self> {
        let curve = ArrivalCurve::of(&task.arrivals)?;
        Some(Self {
            curves: vec![(curve, jitter)],
        })
    }

    /// The bound that a contract enforces; `None` if the contract has no message or no interval.
    pub fn of_contract(contract: &Contract) -> Option<Self> {
        let Contract {
            messages,
            interval,
            least_distance,
            ..
        } = *contract;
        let messages = u64::from(messages);
        let by_distance = least_distance.checked_mul(messages)?;
        let mut points = vec![(messages, interval.max(by_distance))];
        if messages > 1 && !least_distance.is_zero() {
            points.insert(0, (1, least_distance));
        }
        let curve = ArrivalCurve::new(points)?;
        Some(Self {
            curves: vec![(curve, Duration::ZERO)],
        })
    }

    /// The same, of which what comes later is only the part that `other` admits as well.
    pub fn limited_by(mut self, other: Option<Self>) -> Self {
        self.curves
            .extend(other.into_iter().flat_map(|other| other.curves));
        self
    }

    /// The same after a further delay between nothing and `jitter`.
    pub fn delayed(mut self, jitter: Duration) -> Self {
        for (_, delay) in &mut self.curves {
            *delay = delay.saturating_add(jitter);
        }
        self
    }

    /// The most messages in a half-open window of that length.
    pub fn most(&self, window: Duration) -> u64 {
        if window.is_zero() {
            return 0;
        }
        let each = self.curves.iter();
        let counts = each.map(|(curve, jitter)| curve.most_events(window.saturating_add(*jitter)));
        counts.min().unwrap_or(u64::MAX)
    }

    /// The windows at which the bound steps up, up to some repetitions of each curve.
    fn steps(&self) -> Vec<Duration> {
        let one = Duration::from_nanos(1);
        let mut steps = vec![one];
        for (curve, jitter) in &self.curves {
            let (_, slowest) = curve.rate();
            for times in 0..REPETITIONS {
                let whole = Duration::from_nanos(slowest.as_nanos().saturating_mul(times));
                let ends = curve.points().iter().map(|(_, distance)| *distance);
                let ends = ends.chain([Duration::ZERO]);
                let windows = ends.map(|end| whole.saturating_add(end).saturating_add(one));
                steps.extend(windows.map(|window| window.saturating_sub(*jitter).max(one)));
            }
        }
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// The shortest window, among those at which a bound steps up, in which the senders may send more than `self` admits.
    ///
    /// The comparison goes through some repetitions of each sender and through the rates of the long run; a promise that
    /// holds in all of them and is broken between is not noticed.
    pub fn excess_of(&self, senders: &[Self]) -> Option<Excess> {
        let mut windows: Vec<Duration> = senders.iter().flat_map(Self::steps).collect();
        windows.sort_unstable();
        windows.dedup();
        let excess = |window: Duration| {
            let sent = senders.iter().map(|one| one.most(window));
            let sent = sent.fold(0, u64::saturating_add);
            let admitted = self.most(window);
            (sent > admitted).then_some(Excess {
                window,
                sent,
                admitted,
            })
        };
        // A window of 10,000 of the longest cycles shows rates that differ by a ten-thousandth.
        let cycles = senders.iter().chain([self]).flat_map(|one| &one.curves);
        let longest = cycles.map(|(curve, _)| curve.rate().1).max();
        let long_run = longest.map(|cycle| {
            let length = cycle.as_nanos().saturating_mul(10_000);
            Duration::from_nanos(length).saturating_add(Duration::from_nanos(1))
        });
        windows.into_iter().chain(long_run).find_map(excess)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tailbound_model::{Arrivals, ExecutionTime};

    use super::*;

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn periodic(period_ms: u64, jitter_ms: u64) -> Traffic {
        let arrivals = Arrivals::Periodic {
            period: ms(period_ms),
            offset: Duration::ZERO,
        };
        let execution = ExecutionTime::Constant { value: ms(1) };
        Traffic::of_task(&Task::of(arrivals, execution), ms(jitter_ms)).unwrap()
    }

    #[test]
    fn a_promise_with_the_jitter_of_the_sender_admits_it() {
        assert_eq!(periodic(10, 3).excess_of(&[periodic(10, 3)]), None);
        let excess = periodic(10, 2).excess_of(&[periodic(10, 3)]).unwrap();
        assert_eq!((excess.sent, excess.admitted), (2, 1));
        assert_eq!(excess.window, ms(7) + Duration::from_nanos(1));
    }

    #[test]
    fn rates_of_the_long_run_count() {
        let two = [periodic(10, 0), periodic(15, 0)];
        assert_eq!(periodic(6, 6).excess_of(&two), None);
        assert!(periodic(7, 70).excess_of(&two).is_some());
    }

    #[test]
    fn a_contract_admits_its_messages_in_each_interval_and_keeps_its_distance() {
        let contract = Contract {
            messages: 3,
            bytes: None,
            interval: ms(100),
            least_distance: ms(5),
            violation: tailbound_messages::ExcessRule::Drop,
        };
        let traffic = Traffic::of_contract(&contract).unwrap();
        let most = |window| traffic.most(ms(window));
        assert_eq!([0, 5, 6, 11, 100, 101].map(most), [0, 1, 2, 3, 3, 4]);
    }
}
