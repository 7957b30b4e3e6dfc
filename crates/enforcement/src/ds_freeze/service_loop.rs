//! The loop of a manager thread.
//!
//! Nothing in here allocates, frees, takes a lock, looks into /proc or waits for a child: a
//! SCHED_FIFO thread that does can hold up the CPU that it is there to serve. It reads clocks,
//! polls, and reads and writes files that were opened before.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tailbound_linux::clock::{Monotonic, sleep_until, thread_cpu_time};
use tailbound_linux::thread::{DescriptorState, PollSet};
use tailbound_reservation::edge_delay::Attendance;
use tailbound_shared_memory::Doorbell;
use tailbound_time::{Clock, Duration, Instant};

use super::RealTimeLimit;
use super::allowance::{Allowance, PauseState};
use super::domain::{LONGEST_BOOST, ServedState};
use super::heartbeat::HeartbeatRow;
use super::mailbox::{ManagerMailbox, ManagerReply, ManagerRequest, Note};

/// How many domains one manager serves at most: what its tables have room for.
pub(super) const MOST_DOMAINS: usize = 64;

/// The longest sleep, so that the heartbeat stays fresh whatever the periods are.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// So many wake-ups in a row without anything to do are believed; more, and the loop pauses for
/// [`PAUSE`] each time, so that no defect of ours or of the kernel turns it into a busy loop.
const BELIEVED_IDLE_WAKE_UPS: u32 = 8;
const PAUSE: Duration = Duration::from_micros(200);

/// What the loop shares with its handle.
#[derive(Debug)]
pub(super) struct SharedLoop {
    pub(super) mailbox: ManagerMailbox,
    pub(super) stop: AtomicBool,
    pub(super) wake_ups: AtomicU64,
}

/// A manager at work.
pub(super) struct ServiceLoop {
    pub(super) shared: Arc<SharedLoop>,
    // Boxed where it is made, so that the loop moves a pointer and never the state itself.
    #[allow(clippy::vec_box)]
    pub(super) domains: Vec<Box<ServedState>>,
    pub(super) heartbeat: Option<HeartbeatRow>,
    pub(super) heartbeat_margin: Duration,
    allowance: Allowance,
    /// Until then boosts, which no budget bounds, count in the allowance's memory.
    boosts_matter_until: Instant,
    /// CPU time of this thread that the allowance has been told of.
    own_accounted: Duration,
    attendance: Attendance,
    polled: PollSet,
    /// Where the mailbox lies in the poll set.
    mail_place: usize,
}

impl ServiceLoop {
    /// A loop over no domains yet; allocates all that it ever needs.
    pub(super) fn new(
        shared: Arc<SharedLoop>,
        heartbeat: Option<HeartbeatRow>,
        heartbeat_margin: Duration,
        limit: RealTimeLimit,
    ) -> Self {
        let mut this = Self {
            shared,
            domains: Vec::with_capacity(MOST_DOMAINS),
            heartbeat,
            heartbeat_margin,
            allowance: Allowance::new(limit),
            boosts_matter_until: Instant::ORIGIN,
            own_accounted: Duration::ZERO,
            attendance: Attendance::default(),
            polled: PollSet::with_capacity(MOST_DOMAINS + 1),
            mail_place: 0,
        };
        this.enlist();
        this
    }

    /// Runs until it is told to stop; then every domain is thawed.
    pub(super) fn run(&mut self) {
        let mut idle_in_a_row = 0;
        let mut intended = None;
        while !self.shared.stop.load(Ordering::Acquire) {
            let mut busy = self.look_after_domains(intended) | self.keep_to_the_allowance();
            let mail = self.polled.readiness(self.mail_place) == DescriptorState::Readable;
            if mail {
                self.shared.mailbox.wake().silence();
                busy |= self.read_mail();
            }
            idle_in_a_row = if busy { 0 } else { idle_in_a_row + 1 };
            if idle_in_a_row > BELIEVED_IDLE_WAKE_UPS {
                let _slept = sleep_until(Monotonic.now() + PAUSE);
            }
            intended = self.sleep();
        }
        self.end();
    }

    /// Serves what is due; whether anything was.
    fn look_after_domains(&mut self, intended: Option<Instant>) -> bool {
        let now = Monotonic.now();
        let mut busy = false;
        for domain in &mut self.domains {
            if let Some(intended) = intended {
                domain.note_wake_up(intended, now);
            }
            let alarmed = match domain.place.map(|place| self.polled.readiness(place)) {
                Some(DescriptorState::Gone) => {
                    if let Some(place) = domain.place {
                        self.polled.silence(place);
                    }
                    domain.give_up_alarm();
                    false
                }
                Some(DescriptorState::Readable) => true,
                Some(DescriptorState::Quiet) | None => false,
            };
            busy |= domain.serve(alarmed, &self.attendance);
            if let Some((begin, end)) = domain.take_switch() {
                self.attendance.note_switch(begin, end);
            }
        }
        busy
    }

    /// Whether the domains could use the allowance up, or wait for it.
    fn allowance_matters(&self) -> bool {
        let servers = self.domains.iter().map(|domain| domain.share_here());
        let held = self.domains.iter().any(|domain| domain.is_held());
        let boosted = Monotonic.now() < self.boosts_matter_until;
        held || boosted || !self.allowance.limit().is_out_of_reach_of(servers)
    }

    /// Stops the domains before the kernel would, and lets them go on; whether a look was due.
    fn keep_to_the_allowance(&mut self) -> bool {
        let now = Monotonic.now();
        if now < self.allowance.next_look() || self.domains.is_empty() {
            return false;
        }
        // This thread is a real-time thread as well.
        let own = thread_cpu_time();
        let mut used = own.saturating_sub(self.own_accounted);
        self.own_accounted = own;
        for domain in &mut self.domains {
            used = used.saturating_add(domain.newly_used());
        }
        // Where it cannot be used up, the account is kept all the same, at wake-ups that come anyway:
        // a change of budgets finds it up to date.
        let standing = match (self.allowance.look(now, used), self.allowance_matters()) {
            (standing, true) => standing,
            (_, false) => PauseState::Clear,
        };
        for domain in &mut self.domains {
            match standing {
                PauseState::Paused => domain.hold(now),
                PauseState::Clear => domain.release(now),
            }
        }
        true
    }

    /// Sleeps until the next thing to do; the instant, if the sleep went to its end.
    fn sleep(&mut self) -> Option<Instant> {
        let now = Monotonic.now();
        let last = now.saturating_add(LONGEST_SLEEP);
        let next = self
            .domains
            .iter()
            .map(|domain| domain.next_wake())
            .chain(self.allowance_matters().then(|| self.allowance.next_look()))
            .fold(last, Instant::min);
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.promise(next.max(now).saturating_add(self.heartbeat_margin));
        }
        let outcome = self.polled.wait(next.saturating_since(now));
        let wake_ups = &self.shared.wake_ups;
        wake_ups.store(wake_ups.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if outcome.is_err() {
            // A poll that fails would be a busy loop; fall back to sleeping.
            let _slept = sleep_until(next.min(now.saturating_add(PAUSE)));
        }
        let after = Monotonic.now();
        self.attendance.note_sleep(now, after);
        (after >= next && next > now).then_some(next)
    }

    /// Whether there was some.
    fn read_mail(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        shared.mailbox.take_up(self, Self::heed, Self::answer)
    }

    /// One of a domain that has gone meanwhile means nothing.
    fn heed(&mut self, note: Note) {
        let number = match note {
            Note::Boost { domain, .. } | Note::Unboost { domain } => domain,
        };
        let Some(domain) = self.domains.iter_mut().find(|it| it.number == number) else {
            return;
        };
        match note {
            Note::Boost {
                until,
                if_exhausted,
                ..
            } => {
                domain.boost(until, if_exhausted);
                let ends = until.saturating_add(LONGEST_BOOST);
                let forgotten = ends.saturating_add(self.allowance.limit().window());
                self.boosts_matter_until = self.boosts_matter_until.max(forgotten);
            }
            Note::Unboost { .. } => domain.unboost(Monotonic.now()),
        }
    }

    fn answer(&mut self, request: &mut ManagerRequest) -> ManagerReply {
        match request {
            ManagerRequest::Add(domain) => {
                if self.domains.len() >= MOST_DOMAINS {
                    return ManagerReply::Full;
                }
                if let Some(domain) = domain.take() {
                    self.admit(domain);
                }
                ManagerReply::Done
            }
            ManagerRequest::Remove(name) => {
                let Some(place) = self.domains.iter().position(|d| d.name == *name) else {
                    return ManagerReply::Unknown;
                };
                let domain = self.domains.remove(place);
                self.enlist();
                ManagerReply::Removed(domain)
            }
            ManagerRequest::Change {
                name,
                parameters,
                at,
            } => {
                let Some(domain) = self.domains.iter_mut().find(|d| d.name == *name) else {
                    return ManagerReply::Unknown;
                };
                let in_force_at = domain.change(*parameters, *at);
                in_force_at.map_or(ManagerReply::Full, ManagerReply::InForce)
            }
            ManagerRequest::ChangeWindows {
                name,
                windows,
                from,
            } => {
                let Some(domain) = self.domains.iter_mut().find(|d| d.name == *name) else {
                    return ManagerReply::Unknown;
                };
                let in_force_at = domain.change_windows(**windows, *from, Monotonic.now());
                in_force_at.map_or(ManagerReply::Full, ManagerReply::InForce)
            }
        }
    }

    /// Takes a domain up, before those of lower priority.
    pub(super) fn admit(&mut self, domain: Box<ServedState>) {
        let place = self
            .domains
            .partition_point(|other| other.priority >= domain.priority);
        debug_assert!(
            self.domains.len() < MOST_DOMAINS,
            "there is room without allocating"
        );
        self.domains.insert(place, domain);
        debug_assert!(
            self.domains
                .is_sorted_by_key(|one| std::cmp::Reverse(one.priority)),
            "the highest priority is looked after first"
        );
        self.enlist();
    }

    /// Fills the poll set anew; within the room that it has.
    fn enlist(&mut self) {
        self.polled.clear();
        self.mail_place = self.polled.push(Some(self.shared.mailbox.wake().as_fd()));
        for domain in &mut self.domains {
            domain.enlist(&mut self.polled);
        }
    }

    fn end(&mut self) {
        for domain in &self.domains {
            domain.let_go();
        }
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.end();
        }
    }
}
