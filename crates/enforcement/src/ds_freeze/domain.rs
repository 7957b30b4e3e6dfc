//! A domain as its manager serves it: the state machine bound to the cgroup's control files.

mod boost;
mod escape;
mod rest;
mod stop_control;
mod usage_meter;
mod windows;

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tailbound_linux::clock::Monotonic;
use tailbound_linux::perf::CgroupAlarm;
use tailbound_linux::thread::PollSet;
use tailbound_model::{Cpu, Priority, Window};
use tailbound_time::{Clock, Duration, Instant};
use tailbound_trigger::trigger;

use self::boost::Boost;
use self::escape::EscapeSign;
use self::rest::DomainRest;
use self::stop_control::BackgroundUse;
pub(super) use self::stop_control::StopControl;
use self::usage_meter::UsageMeter;
use super::budget_seqlock::BudgetSeqlock;
use super::error::ManagerError;
use super::ledger::{Ledger, STALL};
use super::manager::{Detection, ManagerOptions};
use super::pace::Pace;
use tailbound_reservation::edge_delay::Attendance;
use tailbound_reservation::metered_server::{
    Actions, ChangeAt, ClosedPeriod, FixedGridServer, ServerParameters, StopLead, Switch,
};
use tailbound_reservation::window_server::WindowServer;

/// The smallest budget that is served: stopping takes about a tenth of it.
pub const SMALLEST_BUDGET: Duration = Duration::from_micros(100);

pub use boost::LONGEST_BOOST;

/// The alarm goes off again and again, once per length that it was armed for, for as long as the
/// domain runs. Short lengths are looked after by the clock instead: an alarm every 10 us keeps a
/// CPU whose interrupts take as long from doing anything else, the manager included (seen in a
/// virtual machine, for tens of milliseconds).
const SHORTEST_ARMED: Duration = Duration::from_micros(200);

/// What an alarm that is not wanted is armed for.
const OUT_OF_REACH: Duration = Duration::from_secs(3_600);

/// How many domains were taken up by managers of this process.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// A reservation that a manager is to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedDomain {
    /// The domain's name, unique for the manager.
    pub name: String,
    /// The absolute directory of its cgroup v2, which is there: it holds everything of the domain that runs on this CPU
    /// and on `other_cpus`, and nothing that runs on another CPU.
    pub cgroup: PathBuf,
    /// The CPUs beside the manager's that share the budget.
    pub other_cpus: Vec<Cpu>,
    /// The windows of each period in which alone the domain runs, if it is a time partition: the period is the frame
    /// then, and the budget their sum.
    pub windows: Vec<Window>,
    /// The windows of other time partitions, each of a higher priority, in which the domain is not stopped.
    pub slack: Vec<Window>,
    /// The CPU time that a time partition may use after a window before that counts as an overrun.
    pub overrun_tolerance: Duration,
    /// CPU time per period, on all CPUs together.
    pub budget: Duration,
    /// The distance between replenishments.
    pub period: Duration,
    /// The fixed priority of the domain's threads (set elsewhere); the manager looks at higher
    /// ones first.
    pub priority: Priority,
    /// Threads of the kernel in the cgroup, which have the priority only while there is budget; none where the cgroup is
    /// frozen.
    pub demoted: Vec<u32>,
    /// The first grid point (CLOCK_MONOTONIC); `None` is when the manager takes the domain up.
    /// Until then the domain stands still.
    pub first_replenishment: Option<Instant>,
}

/// A domain in the manager's hands. Dropping it thaws it.
#[derive(Debug)]
pub(super) struct ServedState {
    pub(super) name: String,
    /// Tells it from all others of this process, earlier ones of its name too.
    pub(super) number: u64,
    pub(super) priority: Priority,
    pub(super) ledger: Arc<Ledger>,
    pub(super) stop: Arc<StopControl>,
    pub(super) budget_seqlock: Arc<BudgetSeqlock>,
    /// The number of the last posted budget that was taken up.
    posted_seen: u64,
    /// Where its alarm lies in the poll set.
    pub(super) place: Option<usize>,
    origin: Option<Instant>,
    parameters: ServerParameters,
    policy: StopLead,
    meter: UsageMeter,
    /// The number of CPUs that may spend the budget at the same time.
    pub(super) cpus: u64,
    alarm: Option<CgroupAlarm>,
    /// Whether the alarm waits for CPU time to be used.
    armed: bool,
    /// Whether a busy domain is looked at by the clock, although there is an alarm.
    clock_if_busy: bool,
    pace: Pace,
    shortest_poll: Duration,
    server: Option<FixedGridServer>,
    /// Of a time partition, in place of `server`.
    windows: Option<WindowServer>,
    next_look: Option<Instant>,
    rest: Option<DomainRest>,
    used_before: Duration,
    /// What the allowance of the CPU has been told of.
    used_accounted: Duration,
    /// Since when it stands still for the sake of the allowance.
    held_since: Option<Instant>,
    boost: Option<Boost>,
    /// Until when a boost begins as soon as the budget is used up.
    standby: Option<Instant>,
    /// What was used under boosts that are over.
    boosted: Duration,
    background: BackgroundUse,
    /// Whether the host held the manager up in the latest period.
    stalled: bool,
    /// The latest switch that the manager has not asked for yet.
    latest_switch: Option<(Instant, Instant)>,
    escape: EscapeSign,
}

impl ServedState {
    /// Opens everything that serving `domain` on `cpu` needs.
    pub(super) fn open(
        domain: &ServedDomain,
        cpu: u32,
        options: &ManagerOptions,
    ) -> Result<Self, ManagerError> {
        let cpus = domain.other_cpus.len() as u64 + 1;
        let parameters = checked_parameters(&domain.name, domain.budget, domain.period, cpus)?;
        let stop = StopControl::open(domain)?;
        let mut meter = UsageMeter::open(domain, cpu)?;
        let windows = windows::server_of(domain, &mut meter)?;
        let alarm = match options.detection {
            // Windows pass by the clock, used or not.
            _ if windows.is_some() => None,
            // The use of other CPUs sets off no alarm here: the clock tells when the budget can be used up at the
            // earliest.
            _ if cpus > 1 => None,
            Detection::Polling => None,
            Detection::Alarm | Detection::Automatic => {
                match CgroupAlarm::open(&domain.cgroup, cpu, domain.budget) {
                    Ok(alarm) => Some(alarm),
                    Err(_) if options.detection == Detection::Automatic => None,
                    Err(cause) => {
                        let domain = domain.name.clone();
                        return Err(ManagerError::Alarm { domain, cause });
                    }
                }
            }
        };
        let ledger = Arc::new(match windows {
            Some(_) => Ledger::of_windows(domain.overrun_tolerance),
            None => Ledger::of_budget(),
        });
        ledger.set_polling(alarm.is_none() && cpus == 1 && windows.is_none());
        Ok(Self {
            name: domain.name.clone(),
            number: OPENED.fetch_add(1, Ordering::Relaxed),
            priority: domain.priority,
            ledger,
            stop: Arc::new(stop),
            background: BackgroundUse::default(),
            budget_seqlock: Arc::default(),
            posted_seen: 0,
            place: None,
            origin: domain.first_replenishment,
            parameters,
            policy: options.stop_lead,
            meter,
            cpus,
            alarm,
            armed: true,
            clock_if_busy: options.detection == Detection::Automatic,
            pace: Pace::default(),
            shortest_poll: options.shortest_poll,
            server: None,
            windows,
            next_look: None,
            rest: None,
            used_before: Duration::ZERO,
            used_accounted: Duration::ZERO,
            held_since: None,
            boost: None,
            standby: None,
            boosted: Duration::ZERO,
            stalled: false,
            latest_switch: None,
            escape: EscapeSign::new(options.bell.clone(), cpus),
        })
    }

    /// Enters its alarm, if it has one, into `set`.
    pub(super) fn enlist(&mut self, set: &mut PollSet) {
        self.place = Some(set.push(self.alarm.as_ref().map(AsFd::as_fd)));
    }

    /// The alarm died (its cgroup was removed, or the kernel dropped it): poll from here on.
    pub(super) fn give_up_alarm(&mut self) {
        self.ledger.count_failure();
        self.ledger.set_polling(true);
        self.place = None;
        self.next_look = Some(Instant::ORIGIN);
        // The event is closed when the domain is: closing frees memory.
    }

    /// When the manager has to be back for this domain.
    pub(super) fn next_wake(&self) -> Instant {
        if let Some(windows) = &self.windows {
            return self.next_wake_of(windows);
        }
        let Some(server) = &self.server else {
            return Instant::ORIGIN;
        };
        let grid = match self.rest {
            Some(rest) => rest.until,
            None => server.next_replenishment(),
        };
        let ends = self.boost.map_or(grid, |boost| boost.until.min(grid));
        self.next_look.map_or(ends, |look| look.min(ends))
    }

    /// A wake-up meant for `intended` came at `now`: notes if the host held the manager up.
    /// The edges of windows have an account of their own.
    pub(super) fn note_wake_up(&mut self, intended: Instant, now: Instant) {
        self.stalled |= self.windows.is_none() && now.saturating_since(intended) > STALL;
    }

    /// When the latest switch began and ended, unless that has been said before.
    pub(super) fn take_switch(&mut self) -> Option<(Instant, Instant)> {
        self.latest_switch.take()
    }

    /// Does what is due: gives a budget whose time has come, or looks whether it is used up.
    /// `alarmed`: its alarm is readable. Whether anything was due.
    pub(super) fn serve(&mut self, alarmed: bool, attendance: &Attendance) -> bool {
        let now = Monotonic.now();
        let overflow = match &self.alarm {
            Some(alarm) if alarmed => alarm.take(),
            _ => None,
        };
        if let Some(at) = overflow.and_then(|overflow| overflow.at) {
            self.note_wake_up(at, now);
        }
        if now < self.next_wake() && overflow.is_none() {
            return false;
        }
        self.ledger.count_wake_up();
        if self.windows.is_some() {
            self.serve_windows(now, attendance);
            return true;
        }
        if self.boost.is_some_and(|boost| boost.until <= now) {
            self.unboost(now);
        }
        let used = self.used();
        self.escape.look(now, self.used_before);
        self.pace.look(now, used);
        if self.server.is_none() {
            let origin = self.origin.unwrap_or(now);
            let server = FixedGridServer::new(self.parameters, self.policy, origin, used);
            self.server = Some(server);
        }
        if self.replenish(now, used) {
            self.begin_rest(now, used);
        }
        true
    }

    /// Lets the server say what is to be done, with a posted budget if it opens a period. Whether a period ended in which
    /// nothing was used, nor since.
    fn replenish(&mut self, now: Instant, used: Duration) -> bool {
        let Some(server) = &mut self.server else {
            return false;
        };
        let opened = server.opens_at(now);
        let rest = self.rest.take();
        // Nobody ran in a rest but just now: the latest period began on time, and pays for it.
        let (begun, used_by_then) = match (rest, opened) {
            (Some(rest), Some(opened)) => (opened, rest.used),
            _ => (now, used),
        };
        if let Some(opened) = opened {
            show(&self.budget_seqlock, opened, server);
            take_posted(
                &self.budget_seqlock,
                &mut self.posted_seen,
                server,
                begun,
                used_by_then,
            );
        }
        let (mut actions, closed) = server.replenish(begun, used_by_then);
        if used > used_by_then {
            let switch = actions.switch;
            actions = server.observed(used);
            actions.switch = actions.switch.or(switch);
        }
        if let Some(opened) = opened {
            // The period may have changed.
            show(&self.budget_seqlock, opened, server);
        }
        if let Some(opened) = opened {
            trigger!("ds_freeze.replenished", self.number, opened.as_nanos());
        }
        let idle = closed.is_some_and(|closed| closed.used.is_zero()) && used == used_by_then;
        if let Some(closed) = closed {
            self.enter(&closed, (now, rest.is_some()));
        }
        self.carry_out(actions, now);
        idle
    }

    /// Changes its budget and period; when that is in force. `None` if too many changes wait already.
    pub(super) fn change(&mut self, parameters: ServerParameters, at: ChangeAt) -> Option<Instant> {
        let used = self.used();
        let now = Monotonic.now();
        self.end_rest(now, used);
        let Some(server) = &mut self.server else {
            self.parameters = parameters;
            return Some(self.origin.unwrap_or(now).max(now));
        };
        // What was posted before is older than this.
        take_posted(
            &self.budget_seqlock,
            &mut self.posted_seen,
            server,
            now,
            used,
        );
        let in_force_at = match at {
            ChangeAt::NextReplenishment => server.in_force_at(Instant::ORIGIN)?,
            ChangeAt::ReplenishmentFrom(from) => server.in_force_at(from)?,
            ChangeAt::Now => now,
        };
        let changed = server.change(parameters, at, now, used);
        if let Some(opened) = server.opened_at() {
            show(&self.budget_seqlock, opened, server);
        }
        if let Some((actions, closed)) = changed {
            if let Some(closed) = closed {
                self.enter(&closed, (now, false));
            }
            self.carry_out(actions, now);
        }
        Some(in_force_at)
    }

    /// Lets the server say anew what is to be done, at once or in the manager's next turn.
    fn ask_again(&mut self, now: Instant) {
        if let Some(windows) = &mut self.windows {
            windows.forget_switch();
            self.next_look = Some(now);
            return;
        }
        let used = self.used();
        let Some(server) = &mut self.server else {
            return;
        };
        server.forget_switch();
        self.replenish(now, used);
    }

    /// The most that it may use of the manager's CPU in a period, and the period.
    pub(super) fn share_here(&self) -> (Duration, Duration) {
        let ServerParameters { budget, period } = self.parameters;
        (budget.min(period), period)
    }

    /// Whether it stands still for the sake of the allowance.
    pub(super) fn is_held(&self) -> bool {
        self.held_since.is_some()
    }

    /// CPU time used on the manager's CPU since this was asked last.
    pub(super) fn newly_used(&mut self) -> Duration {
        // The kernel's bound counts what was used under boosts as well.
        let used = match self.meter.used_here() {
            Some(Ok(here)) => here.max(self.used_accounted),
            Some(Err(_)) => self.used_accounted,
            None => {
                let metered = self.metered();
                metered.saturating_sub(self.background.total(metered))
            }
        };
        let newly = used.saturating_sub(self.used_accounted);
        self.used_accounted = used;
        newly
    }

    /// Whether it would run, were it not held: it has budget left, or a window is open.
    fn has_time(&self) -> bool {
        let has_budget = self.server.as_ref().is_some_and(|it| !it.is_frozen());
        has_budget || self.windows.as_ref().is_some_and(WindowServer::is_open)
    }

    /// Stops it, whatever budget it has, until [`ServedState::release`].
    pub(super) fn hold(&mut self, now: Instant) {
        if self.held_since.is_some() {
            return;
        }
        self.unboost(now);
        let used = self.used();
        self.end_rest(now, used);
        self.held_since = Some(now);
        self.stop_watching();
        if self.has_time() {
            self.switch(Switch::Freeze, now);
        }
    }

    /// Lets it go on where it was held.
    pub(super) fn release(&mut self, now: Instant) {
        let Some(since) = self.held_since.take() else {
            return;
        };
        if self.has_time() {
            self.ledger.note_hold(now.saturating_since(since));
        }
        self.ask_again(now);
    }

    fn enter(&mut self, closed: &ClosedPeriod, (now, rested): (Instant, bool)) {
        let due = closed.grid_start + self.parameters.period;
        let late_next = closed.skipped > 0 || now.saturating_since(due) > STALL;
        let stalled = self.stalled || (late_next && !rested) || closed.lateness() > STALL;
        match rested {
            true => self.ledger.enter_rest(closed, stalled),
            false => self.ledger.enter(closed, stalled),
        }
        if !stalled && closed.overrun > STALL {
            // The CPU time of another CPU comes late, at that one's ticks.
            self.escape.ring();
        }
        self.stalled = false;
        if let Some(server) = &self.server {
            self.parameters = server.parameters();
        }
    }

    fn carry_out(&mut self, actions: Actions, now: Instant) {
        self.next_look = None;
        if self.held_since.is_some() || self.boost.is_some() {
            // It stands still, or runs; the end of that asks the server again.
            return;
        }
        if actions.switch == Some(Switch::Freeze) {
            trigger!("ds_freeze.used_up", self.number, now.as_nanos());
        }
        if actions.switch == Some(Switch::Freeze) && self.goes_on_boosted(now) {
            return;
        }
        // First the watch, then the thaw: the domain must not run unwatched.
        match actions.arm_depletion {
            Some(length) => self.watch(length, now),
            None => self.pace.stopped(),
        }
        if let Some(switch) = actions.switch {
            self.switch(switch, now);
        }
    }

    fn switch(&mut self, switch: Switch, now: Instant) {
        let freeze = switch == Switch::Freeze;
        debug_assert!(!freeze || self.boost.is_none(), "a boosted domain runs");
        debug_assert!(
            freeze || self.held_since.is_none(),
            "a domain that is held for the allowance stands still"
        );
        let before = Monotonic.now();
        let outcome = self.stop.set(freeze);
        let after = Monotonic.now();
        self.latest_switch = Some((before, after));
        self.ledger.note_switch(after.saturating_since(before));
        if outcome.is_ok() {
            if freeze {
                trigger!("ds_freeze.frozen", self.number, before.as_nanos());
            } else {
                trigger!("ds_freeze.thawed", self.number, before.as_nanos());
            }
            self.ledger.set_frozen(freeze);
            if self.stop.leaves_running() {
                self.pass_to_background(freeze);
            }
            return;
        }
        self.ledger.count_failure();
        if let Some(server) = &mut self.server {
            server.forget_switch();
        }
        if let Some(windows) = &mut self.windows {
            windows.forget_switch();
        }
        // Try again soon, but never in a loop without a pause.
        self.next_look = Some(now + self.shortest_poll.max(STALL));
    }

    /// Sees to it that the manager comes back when the domain has used `length` more.
    fn watch(&mut self, length: Duration, now: Instant) {
        self.pace.may_run(now, self.used_before);
        let by_clock = length < SHORTEST_ARMED || (self.clock_if_busy && self.pace.is_busy());
        let rearmed = match (&self.alarm, self.place) {
            (Some(alarm), Some(_)) if !by_clock => alarm.arm(length).is_ok(),
            _ => {
                self.disarm();
                false
            }
        };
        self.armed = rearmed;
        if !rearmed {
            // The budget lasts at least so long, all CPUs spending it.
            let earliest = length.scaled_down(1, self.cpus);
            self.next_look = Some(now + earliest.max(self.shortest_poll));
        }
    }

    /// An alarm that is still armed would only wake the manager once more.
    fn disarm(&mut self) {
        if let (true, Some(alarm), Some(_)) = (self.armed, &self.alarm, self.place) {
            let _woken_in_vain = alarm.arm(OUT_OF_REACH);
        }
        self.armed = false;
    }

    fn stop_watching(&mut self) {
        self.next_look = None;
        self.pace.stopped();
        self.disarm();
    }

    /// CPU time used since the domain was taken up, but for what was used under boosts.
    fn used(&mut self) -> Duration {
        let metered = match self.boost {
            Some(boost) => boost.used_at_start,
            None => self.metered(),
        };
        debug_assert!(
            self.boosted <= metered,
            "no more is used under boosts than in all"
        );
        let in_background = self.background.total(metered);
        metered
            .saturating_sub(self.boosted)
            .saturating_sub(in_background)
    }

    /// Begins or ends the time in which its threads go on without priority and budget.
    fn pass_to_background(&mut self, begins: bool) {
        let metered = self.metered();
        match begins {
            true => {
                self.background.begin(metered);
                // The alarm would go off all the while.
                self.stop_watching();
            }
            false => self.background.end(metered),
        }
    }

    /// CPU time used since the domain was taken up; as before where the kernel does not tell.
    fn metered(&mut self) -> Duration {
        match self.meter.used() {
            Ok(used) => self.used_before = used.max(self.used_before),
            Err(_) => self.ledger.count_failure(),
        }
        self.used_before
    }
}

/// Shows what whoever posts a budget has to know.
fn show(budget_seqlock: &BudgetSeqlock, opened: Instant, server: &FixedGridServer) {
    let unsettled = server.changes_period() || !server.has_room();
    budget_seqlock.show(opened, server.parameters().period, unsettled);
}

/// Tells the server of the latest posted budget, if it is news.
fn take_posted(
    budget_seqlock: &BudgetSeqlock,
    seen: &mut u64,
    server: &mut FixedGridServer,
    now: Instant,
    used: Duration,
) {
    if let Some((budget, from)) = budget_seqlock.take(seen) {
        let period = server.parameters().period;
        let parameters = ServerParameters { budget, period };
        // Nothing is to be done before the replenishment.
        let _nothing = server.change(parameters, ChangeAt::ReplenishmentFrom(from), now, used);
    }
}

impl ServedState {
    /// Lets it run for good, without the manager.
    pub(super) fn let_go(&self) {
        // Nothing can be done about a failure here: it means that the cgroup is gone.
        let _gone = self.stop.let_go();
        self.ledger.set_frozen(false);
    }
}

impl Drop for ServedState {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Budget and period, if they go together.
pub(super) fn checked_parameters(
    domain: &str,
    budget: Duration,
    period: Duration,
    cpus: u64,
) -> Result<ServerParameters, ManagerError> {
    let longest = period.checked_mul(cpus).unwrap_or(Duration::MAX);
    if budget < SMALLEST_BUDGET || budget > longest {
        return Err(ManagerError::Parameters {
            domain: domain.into(),
            budget,
            period,
            smallest: SMALLEST_BUDGET,
            longest,
        });
    }
    Ok(ServerParameters { budget, period })
}

fn open_control(cgroup: &Path, name: &str, write: bool) -> Result<File, ManagerError> {
    let file = cgroup.join(name);
    OpenOptions::new()
        .read(true)
        .write(write)
        .open(&file)
        .map_err(|cause| ManagerError::Cgroup { file, cause })
}
