//! An application as a queue: requests with a mandatory and an optional part, served one at a time at the speed of the capacity.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_time::Duration;

use crate::level_controller::{INTERVAL, LevelController};
use crate::table::{LoadPhase, PhaseReport, SimulatedApplication};

/// The most requests that wait; later ones are turned away, so that an overload without end takes no memory without end.
const LONGEST_QUEUE: usize = 100_000;

/// A request that waits or is served.
#[derive(Clone, Copy, Debug)]
struct QueuedRequest {
    arrived_ns: u64,
    /// The CPU time that is left, times the period of the capacity.
    work: u128,
    /// Whether a user waits for the reply.
    of_user: bool,
}

/// `QueueModel` is a modelled application at an instant.
#[derive(Clone, Debug)]
pub(crate) struct QueueModel {
    model: SimulatedApplication,
    period: Duration,
    controller: LevelController,
    random: ChaCha8Rng,
    now_ns: u64,
    next_update_ns: u64,
    /// The phase that is under way, and its end.
    phase: usize,
    phase_begin_ns: u64,
    phase_end_ns: u64,
    next_arrival_ns: Option<u64>,
    /// The next request of each user who thinks.
    thinking: BinaryHeap<Reverse<u64>>,
    /// All users, those who wait for replies included.
    users: u32,
    queue: VecDeque<QueuedRequest>,
}

impl QueueModel {
    /// The application at the start, at the full level.
    pub fn new(model: &SimulatedApplication, period: Duration, seed: u64) -> Self {
        let mut queue = Self {
            controller: LevelController::new(model.deadline, 1.0),
            model: model.clone(),
            period,
            random: ChaCha8Rng::seed_from_u64(seed),
            now_ns: 0,
            next_update_ns: INTERVAL.as_nanos(),
            phase: 0,
            phase_begin_ns: 0,
            phase_end_ns: 0,
            next_arrival_ns: None,
            thinking: BinaryHeap::new(),
            users: 0,
            queue: VecDeque::new(),
        };
        queue.begin_phase();
        queue
    }

    /// The service level.
    pub fn level(&self) -> f64 {
        self.controller.level()
    }

    /// The longest latency of the window.
    pub fn latency(&self) -> Option<Duration> {
        self.controller.latency(self.unfinished_for())
    }

    /// The matching value that the application reports now: at the instant of a change, in the way of the phase that ends.
    pub fn reported(&self) -> Option<f64> {
        let has_just_begun = self.phase > 0 && self.phase_begin_ns == self.now_ns;
        let phase = self.phase - usize::from(has_just_begun);
        let described = self.model.phases.get(phase).map(|phase| phase.report);
        match described.unwrap_or_default() {
            PhaseReport::True => self.controller.matching_value(self.unfinished_for()),
            PhaseReport::Least => Some(-1.0),
            PhaseReport::None => None,
        }
    }

    /// Lets time pass with a capacity.
    pub fn advance(&mut self, until_ns: u64, capacity: Duration) {
        let speed = u128::from(capacity.as_nanos());
        while self.now_ns < until_ns {
            let next_ns = self.next_event_ns(speed).min(until_ns);
            let served = u128::from(next_ns - self.now_ns) * speed;
            if let Some(first) = self.queue.front_mut() {
                first.work = first.work.saturating_sub(served);
            }
            self.now_ns = next_ns;
            self.finish();
            self.update();
            if self.phase_end_ns <= self.now_ns && self.phase < self.model.phases.len() {
                self.phase += 1;
                self.begin_phase();
            }
            self.receive();
        }
    }

    fn next_event_ns(&self, speed: u128) -> u64 {
        let done_ns = self.queue.front().filter(|_| speed > 0).map(|first| {
            let left_ns = u64::try_from(first.work.div_ceil(speed)).unwrap_or(u64::MAX);
            self.now_ns.saturating_add(left_ns)
        });
        let phase_end_ns = self.load().map(|_| self.phase_end_ns);
        let thought_ns = self.thinking.peek().map(|next| next.0);
        let others_ns = [done_ns, phase_end_ns, thought_ns, self.next_arrival_ns];
        others_ns
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(u64::MAX)
            .min(self.next_update_ns)
    }

    fn load(&self) -> Option<&LoadPhase> {
        self.model.phases.get(self.phase)
    }

    fn unfinished_for(&self) -> Option<Duration> {
        let first = self.queue.front()?;
        Some(Duration::from_nanos(self.now_ns - first.arrived_ns))
    }

    /// Users come at once and leave after their thinking; an open load begins.
    fn begin_phase(&mut self) {
        self.phase_begin_ns = self.now_ns;
        let Some(phase) = self.load().cloned() else {
            self.next_arrival_ns = None;
            return;
        };
        self.phase_end_ns = self.now_ns.saturating_add(phase.length.as_nanos());
        self.next_arrival_ns = phase.rate.map(|rate| self.after(rate.mean_gap()));
        let think_time = phase.think_time.unwrap_or_default();
        while self.users < phase.users.unwrap_or(0) {
            self.users += 1;
            let wake_ns = self.after(think_time);
            self.thinking.push(Reverse(wake_ns));
        }
    }

    /// An instant after an exponentially distributed time.
    fn after(&mut self, mean: Duration) -> u64 {
        self.now_ns
            .saturating_add(self.exponential(mean).as_nanos().max(1))
    }

    fn exponential(&mut self, mean: Duration) -> Duration {
        let uniform: f64 = self.random.random();
        Duration::from_secs_f64_nearest(-libm::log1p(-uniform) * mean.as_secs_f64())
    }

    /// Requests that are served leave.
    fn finish(&mut self) {
        while self.queue.front().is_some_and(|first| first.work == 0) {
            let Some(first) = self.queue.pop_front() else {
                return;
            };
            self.controller
                .observe(Duration::from_nanos(self.now_ns - first.arrived_ns));
            if first.of_user {
                let think_time = self
                    .load()
                    .and_then(|phase| phase.think_time)
                    .unwrap_or_default();
                let wake_ns = self.after(think_time);
                self.thinking.push(Reverse(wake_ns));
            }
        }
    }

    fn update(&mut self) {
        if self.next_update_ns <= self.now_ns {
            self.next_update_ns += INTERVAL.as_nanos();
            let unfinished = self.unfinished_for();
            self.controller.end_interval(unfinished);
        }
    }

    fn receive(&mut self) {
        if self
            .next_arrival_ns
            .is_some_and(|next_ns| next_ns <= self.now_ns)
        {
            self.enqueue(false);
            let gap = self
                .load()
                .and_then(|phase| phase.rate)
                .map(tailbound_time::Rate::mean_gap);
            self.next_arrival_ns = gap.map(|gap| self.after(gap));
        }
        while self
            .thinking
            .peek()
            .is_some_and(|next| next.0 <= self.now_ns)
        {
            self.thinking.pop();
            let wanted = self.load().and_then(|phase| phase.users).unwrap_or(0);
            match self.users > wanted {
                true => self.users -= 1,
                false => self.enqueue(true),
            }
        }
    }

    fn enqueue(&mut self, of_user: bool) {
        let mut work = self.exponential(self.model.mandatory);
        let draw: f64 = self.random.random();
        let optional = self.exponential(self.model.optional);
        if draw < self.level() {
            work = work.saturating_add(optional);
        }
        if self.queue.len() >= LONGEST_QUEUE {
            return;
        }
        self.queue.push_back(QueuedRequest {
            arrived_ns: self.now_ns,
            work: u128::from(work.as_nanos().max(1)) * u128::from(self.period.as_nanos()),
            of_user,
        });
    }
}
