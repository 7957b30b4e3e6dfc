//! The state machine of a transition: phases of its domains, switches of tasks, boosts, fallbacks.

use std::collections::{BTreeMap, BTreeSet};

use tailbound_model::{AgentPlace, TaskStart};
use tailbound_time::Instant;

use super::capacity::{Capacity, CapacityOverload, Holdings, Limits};
use super::domain::{Direction, DomainChange, DomainMode, switch};
use super::events::{Options, TransitionAction, TransitionEvent};
use super::outcome::{Cause, Ending, HeldMode, Settled, TransitionOutcome};
use super::policy::{boosts, boosts_at_once, grows_last, is_one_by_one};
use super::timeline::{StepKind, Timeline};

/// Why there is no transition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    /// A domain changes twice.
    #[error("domain \"{0}\" is there twice; name it once")]
    Twice(String),
    /// The virtual CPUs of a domain cannot move.
    #[error(
        "domain \"{0}\": its reservation moves to other CPUs, which a mode change cannot do; keep the \
         CPUs in all modes"
    )]
    Moves(String),
    /// The new mode has more than there is.
    #[error("the new mode does not fit: {0}")]
    DoesNotFit(#[from] CapacityOverload),
}

/// How far a domain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has not begun.
    Waiting,
    /// It grows, and its interface was asked for.
    Growing,
    /// Its interface was accepted, and is in force from then on.
    BeforeForce(Instant),
    /// Its agent was told to stop old tasks, and has time until then to answer.
    Stopping(Instant),
    /// Its old tasks are stopped, and the new ones start then.
    BeforeStart(Instant),
    /// Its agent was told to switch, and has time until then to answer.
    Asked(Instant),
    /// Its tasks are switched, and its smaller interface was asked for.
    Shrinking,
    /// Its agent was told to stop what is not in the fallback, and has time until then.
    StoppingToFallBack(Instant),
    /// That is stopped, and the fallback's tasks start then.
    BeforeFallback(Instant),
    /// Its agent was told to go to the fallback's tasks, and has time until then.
    FallingBack(Instant),
    /// The interface of the fallback was asked for.
    Reducing,
    /// It is done.
    Settled,
}

impl Phase {
    /// By when its agent has to answer, if it was told something.
    fn answers_by(self) -> Option<Instant> {
        match self {
            Self::Stopping(until)
            | Self::Asked(until)
            | Self::StoppingToFallBack(until)
            | Self::FallingBack(until) => Some(until),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
struct Running {
    change: DomainChange,
    phase: Phase,
    boosted: bool,
    /// How many domains had shrunk when its larger interface was asked for; if it is refused, it is asked
    /// for again when more have.
    asked_after: Option<usize>,
    settled: Settled,
}

/// One transition.
#[derive(Clone, Debug)]
pub struct Transition {
    options: Options,
    domains: Vec<Running>,
    capacity: Capacity,
    /// Why domains are not in their new modes, where the others went on.
    without: BTreeMap<String, Cause>,
    /// Whether a domain that cannot change ends nothing for the others.
    regardless: bool,
    given_up: Option<Cause>,
    timeline: Timeline,
    out: Vec<TransitionAction>,
}

impl Transition {
    /// A transition that changes all of these domains, within limits for them together.
    ///
    /// # Errors
    /// If a domain is there twice or moves, or the new mode does not fit.
    pub fn new(
        mut changes: Vec<DomainChange>,
        limits: Limits,
        options: Options,
    ) -> Result<Self, TransitionError> {
        changes.sort_by(DomainChange::by_gain);
        let mut capacity = Capacity::new(limits.clone());
        let mut after = Capacity::new(limits);
        let mut names = BTreeSet::new();
        for change in &changes {
            if !names.insert(change.domain.clone()) {
                return Err(TransitionError::Twice(change.domain.clone()));
            }
            if change.from.interface.cpus != change.to.interface.cpus {
                return Err(TransitionError::Moves(change.domain.clone()));
            }
            capacity.hold(&change.domain, &change.from.interface);
            after.room_from(&change.domain, &change.to.interface, Instant::ORIGIN)?;
            after.hold(&change.domain, &change.to.interface);
        }
        let domains = changes.into_iter().map(|change| Running {
            phase: match change.is_nothing() {
                true => Phase::Settled,
                false => Phase::Waiting,
            },
            settled: Settled {
                interface: match change.changes_interface() {
                    true => HeldMode::Old,
                    false => HeldMode::New,
                },
                tasks: change.tasks_known.then_some(match change.switches_tasks() {
                    true => HeldMode::Old,
                    false => HeldMode::New,
                }),
            },
            boosted: false,
            asked_after: None,
            change,
        });
        Ok(Self {
            options,
            domains: domains.collect(),
            capacity,
            without: BTreeMap::new(),
            regardless: false,
            given_up: None,
            timeline: Timeline::default(),
            out: Vec::new(),
        })
    }

    /// The same transition, which a domain that cannot change does not end for the others: to take
    /// another one back.
    #[must_use]
    pub fn regardless(mut self) -> Self {
        self.regardless = true;
        self
    }

    /// The same transition after another one, which has accepted what is not in force yet.
    #[must_use]
    pub fn after(mut self, holdings: &Holdings) -> Self {
        self.capacity.take_over(holdings);
        self
    }

    /// What the domains have and were promised, for the transition after this one.
    pub fn holdings(&self) -> Holdings {
        self.capacity.holdings()
    }

    /// Begins.
    pub fn begin(&mut self, now: Instant) -> Vec<TransitionAction> {
        debug_assert!(self.timeline.began_at.is_none(), "a transition begins once");
        self.capacity.pass(now);
        self.timeline.began_at = Some(now);
        self.go_on(now)
    }

    /// Takes note of what has happened; what is to be done then.
    pub fn handle(&mut self, event: TransitionEvent, now: Instant) -> Vec<TransitionAction> {
        self.capacity.pass(now);
        match event {
            TransitionEvent::InterfaceAccepted {
                domain,
                in_force_at,
            } => self.accepted(&domain, in_force_at, now),
            TransitionEvent::InterfaceRefused { domain, reason } => {
                self.refused(&domain, reason, now)
            }
            TransitionEvent::Acknowledged {
                domain,
                received_at,
                switched_at,
            } => self.acknowledged(&domain, received_at, switched_at, now),
            TransitionEvent::Failed {
                domain,
                reason,
                rolled_back,
            } => self.failed(&domain, reason, rolled_back, now),
            TransitionEvent::Disconnected { domain } => self.disconnected(&domain, now),
            TransitionEvent::Woken => {}
        }
        self.go_on(now)
    }

    /// Begins nothing more: what is under way is ended. For a request that comes before the others.
    pub fn give_up(&mut self, now: Instant) -> Vec<TransitionAction> {
        self.given_up.get_or_insert(Cause::Preempted);
        self.go_on(now)
    }

    /// When to wake it at the latest; `None` if only events matter.
    pub fn next_wake(&self) -> Option<Instant> {
        let phases = self.domains.iter().map(|running| running.phase);
        phases
            .filter_map(|phase| match phase {
                Phase::BeforeForce(at) | Phase::BeforeStart(at) | Phase::BeforeFallback(at) => {
                    Some(at)
                }
                phase => phase.answers_by(),
            })
            .min()
    }

    /// What came of it; `None` before its end.
    pub fn outcome(&self) -> Option<TransitionOutcome> {
        let over = self.domains.iter().all(|running| self.is_over(running));
        over.then(|| TransitionOutcome {
            ending: match &self.given_up {
                Some(cause) if !self.all_done() => Ending::GivenUp(cause.clone()),
                _ if self.without.is_empty() => Ending::Completed,
                _ => Ending::Partly(self.without.clone()),
            },
            domains: self
                .domains
                .iter()
                .map(|running| (running.change.domain.clone(), running.settled.clone()))
                .collect(),
        })
    }

    /// What has happened so far.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    fn is_over(&self, running: &Running) -> bool {
        match running.phase {
            Phase::Settled => true,
            Phase::Waiting => self.given_up.is_some(),
            _ => false,
        }
    }

    /// Notes why a domain does not change, which ends the transition unless it goes on regardless.
    fn fail(&mut self, domain: &str, cause: Cause) {
        if self.regardless {
            self.without.entry(domain.to_owned()).or_insert(cause);
        } else {
            self.given_up.get_or_insert(cause);
        }
    }

    /// Whether nothing was left in its old mode.
    fn all_done(&self) -> bool {
        self.domains.iter().all(|running| {
            let settled = &running.settled;
            settled.interface != HeldMode::Old
                && settled.tasks.is_some_and(|tasks| tasks != HeldMode::Old)
        })
    }

    fn place(&self, domain: &str) -> Option<usize> {
        let mut domains = self.domains.iter();
        domains.position(|running| running.change.domain == domain)
    }

    fn note(&mut self, place: usize, now: Instant, kind: StepKind) {
        let domain = self.domains[place].change.domain.clone();
        self.timeline.note(now, &domain, kind);
    }

    /// Does what can be done now, and returns it.
    fn go_on(&mut self, now: Instant) -> Vec<TransitionAction> {
        for place in 0..self.domains.len() {
            match self.domains[place].phase {
                Phase::BeforeForce(at) if at <= now => self.ask(place, now),
                Phase::BeforeStart(at) if at <= now => self.start(place, now),
                Phase::BeforeFallback(at) if at <= now => self.start_fallback(place, now),
                phase if phase.answers_by().is_some_and(|until| until <= now) => {
                    self.timed_out(place, now);
                }
                _ => {}
            }
        }
        while let Some(place) = self.next_to_begin(now) {
            self.begin_domain(place, now);
        }
        self.boost(now);
        if self.timeline.ended_at.is_none() && self.outcome().is_some() {
            self.timeline.ended_at = Some(now);
        }
        std::mem::take(&mut self.out)
    }

    /// The next domain that may begin, by the policy and by what there is room for.
    fn next_to_begin(&mut self, now: Instant) -> Option<usize> {
        if self.given_up.is_some() {
            return None;
        }
        let policy = self.options.policy;
        let one_by_one = is_one_by_one(policy);
        for place in 0..self.domains.len() {
            let running = &self.domains[place];
            if running.phase == Phase::Settled {
                continue;
            }
            if running.phase != Phase::Waiting {
                if one_by_one {
                    return None;
                }
                continue;
            }
            if running.change.direction() == Direction::Shrinks
                || !running.change.changes_interface()
            {
                return Some(place);
            }
            let shrinks = |other: &Running| other.change.direction() == Direction::Shrinks;
            let mut others = self.domains.iter().filter(|other| shrinks(other));
            if grows_last(policy) && others.any(|other| other.phase != Phase::Settled) {
                return None;
            }
            if running.asked_after == Some(self.have_shrunk()) {
                continue;
            }
            let change = &running.change;
            match self
                .capacity
                .room_from(&change.domain, &change.to.interface, now)
            {
                Ok(_) => return Some(place),
                // Later ones may need less, or are on other CPUs; one by one, nothing else comes.
                Err(overload) if one_by_one || self.nothing_under_way() => {
                    if self.nobody_will_shrink() {
                        self.given_up = Some(overload.into());
                        return None;
                    }
                }
                Err(_) => {}
            }
        }
        None
    }

    fn nothing_under_way(&self) -> bool {
        self.domains
            .iter()
            .all(|running| matches!(running.phase, Phase::Waiting | Phase::Settled))
    }

    fn nobody_will_shrink(&self) -> bool {
        !self.domains.iter().any(|running| {
            running.phase != Phase::Settled && running.change.direction() == Direction::Shrinks
        })
    }

    fn have_shrunk(&self) -> usize {
        let shrunk = self.domains.iter().filter(|running| {
            running.phase == Phase::Settled && running.change.direction() == Direction::Shrinks
        });
        shrunk.count()
    }

    fn begin_domain(&mut self, place: usize, now: Instant) {
        let change = &self.domains[place].change;
        match change.direction() {
            Direction::Grows => self.set_interface(place, &change.to.clone(), Phase::Growing, now),
            Direction::Shrinks => self.ask(place, now),
        }
    }

    /// Asks for the interface of a mode, from when on there is room for it.
    fn set_interface(&mut self, place: usize, mode: &DomainMode, phase: Phase, now: Instant) {
        let domain = self.domains[place].change.domain.clone();
        match self.capacity.room_from(&domain, &mode.interface, now) {
            Ok(not_before) => {
                self.domains[place].phase = phase;
                if phase == Phase::Growing {
                    self.domains[place].asked_after = Some(self.have_shrunk());
                    self.capacity.promise(&domain, &mode.interface, not_before);
                }
                self.note(place, now, StepKind::InterfaceAsked);
                self.out.push(TransitionAction::SetInterface {
                    domain,
                    interface: mode.interface.clone(),
                    not_before,
                });
            }
            // The last line of defence: the callers have looked before.
            Err(overload) => {
                self.fail(&domain, overload.into());
                self.settle(place, now);
            }
        }
    }

    fn accepted(&mut self, domain: &str, in_force_at: Instant, now: Instant) {
        let Some(place) = self.place(domain) else {
            return;
        };
        let (mode, held) = match self.domains[place].phase {
            Phase::Growing | Phase::Shrinking => (&self.domains[place].change.to, HeldMode::New),
            Phase::Reducing => match &self.domains[place].change.fallback {
                Some(fallback) => (fallback, HeldMode::Fallback),
                None => return,
            },
            _ => return,
        };
        self.capacity
            .accept(domain, &mode.interface.clone(), in_force_at);
        self.domains[place].settled.interface = held;
        self.note(place, now, StepKind::InterfaceAccepted { in_force_at });
        match (self.domains[place].phase, self.options.start) {
            (Phase::Growing, TaskStart::InForce) if in_force_at > now => {
                self.domains[place].phase = Phase::BeforeForce(in_force_at);
            }
            (Phase::Growing, _) => self.ask(place, now),
            _ => self.settle(place, now),
        }
    }

    fn refused(&mut self, domain: &str, reason: String, now: Instant) {
        let Some(place) = self.place(domain) else {
            return;
        };
        let phase = self.domains[place].phase;
        if !matches!(phase, Phase::Growing | Phase::Shrinking | Phase::Reducing) {
            return;
        }
        if phase == Phase::Growing {
            self.capacity.refuse(domain);
        }
        let refused = reason.clone();
        self.note(place, now, StepKind::InterfaceRefused { reason: refused });
        // A back end may need more room than shares tell: perhaps there is when others have shrunk.
        let since = self.domains[place].asked_after != Some(self.have_shrunk());
        let hope = self.given_up.is_none() && (since || !self.nobody_will_shrink());
        if phase == Phase::Growing && hope {
            self.domains[place].phase = Phase::Waiting;
            return;
        }
        let owned = domain.to_owned();
        self.fail(
            domain,
            Cause::Refused {
                domain: owned,
                reason,
            },
        );
        self.settle(place, now);
    }

    fn settle(&mut self, place: usize, now: Instant) {
        // Nothing ends the boost of a settled domain, whose tasks would run without a budget for good.
        assert!(
            !self.domains[place].boosted,
            "a domain that settles is boosted no more"
        );
        self.domains[place].phase = Phase::Settled;
        self.note(place, now, StepKind::Settled);
    }

    /// Tells the agent to switch, or goes on if there is nothing to switch.
    fn ask(&mut self, place: usize, now: Instant) {
        let change = self.domains[place].change.clone();
        if !change.switches_tasks() {
            self.domains[place].settled.tasks = change.tasks_known.then_some(HeldMode::New);
            self.tasks_are_switched(place, now);
            return;
        }
        let (stop, start) = change.switch();
        if change.offset.is_zero() || start.is_empty() {
            self.domains[place].phase = Phase::Asked(now.saturating_add(self.options.timeout));
            self.send(place, &change.to, stop, start, now);
        } else if stop.is_empty() {
            self.domains[place].phase = Phase::BeforeStart(now.saturating_add(change.offset));
        } else {
            self.domains[place].phase = Phase::Stopping(now.saturating_add(self.options.timeout));
            self.send(place, &change.to, stop, Vec::new(), now);
        }
    }

    /// Tells the agent to start new tasks, now that nothing can be left of the old ones.
    fn start(&mut self, place: usize, now: Instant) {
        let change = self.domains[place].change.clone();
        let (_, start) = change.switch();
        self.domains[place].phase = Phase::Asked(now.saturating_add(self.options.timeout));
        self.send(place, &change.to, Vec::new(), start, now);
    }

    fn send(
        &mut self,
        place: usize,
        mode: &DomainMode,
        stop: Vec<String>,
        start: Vec<String>,
        now: Instant,
    ) {
        self.note(place, now, StepKind::Sent);
        let domain = self.domains[place].change.domain.clone();
        let mode = mode.name.clone();
        // What is not known to run is stopped, and what is not known not to run is started.
        self.domains[place].settled.tasks = None;
        self.out.push(TransitionAction::Send {
            domain,
            mode,
            stop,
            start,
        });
    }

    fn acknowledged(
        &mut self,
        domain: &str,
        received_at: Instant,
        switched_at: Instant,
        now: Instant,
    ) {
        let Some(place) = self.place(domain) else {
            return;
        };
        let step = StepKind::Acknowledged {
            received_at,
            switched_at,
        };
        match self.domains[place].phase {
            Phase::Stopping(_) => {
                self.note(place, now, step);
                self.unboost(place, now);
                // From the news of it, which comes no earlier than the stop.
                let offset = self.domains[place].change.offset;
                self.domains[place].phase = Phase::BeforeStart(now.saturating_add(offset));
            }
            Phase::Asked(_) => {
                self.note(place, now, step);
                self.unboost(place, now);
                self.domains[place].settled.tasks = Some(HeldMode::New);
                self.tasks_are_switched(place, now);
            }
            Phase::StoppingToFallBack(_) => {
                self.note(place, now, step);
                self.unboost(place, now);
                let offset = self.domains[place].change.fallback_offset;
                self.domains[place].phase = Phase::BeforeFallback(now.saturating_add(offset));
            }
            Phase::FallingBack(_) => {
                self.note(place, now, step);
                self.unboost(place, now);
                self.domains[place].settled.tasks = Some(HeldMode::Fallback);
                self.reduce(place, now);
            }
            _ => {}
        }
    }

    fn tasks_are_switched(&mut self, place: usize, now: Instant) {
        let change = self.domains[place].change.clone();
        let shrinks = change.direction() == Direction::Shrinks;
        if shrinks && change.changes_interface() {
            self.set_interface(place, &change.to, Phase::Shrinking, now);
        } else {
            self.settle(place, now);
        }
    }

    /// Boosts agents that wait for an answer: of those on one CPU, only some at a time.
    fn boost(&mut self, now: Instant) {
        let Some(if_exhausted) = boosts(self.options.policy) else {
            return;
        };
        for place in 0..self.domains.len() {
            let running = &self.domains[place];
            let waits = running.phase.answers_by().is_some();
            let inside = running.change.agent == Some(AgentPlace::Inside);
            if !waits || running.boosted || !inside {
                continue;
            }
            let own = &running.change.from.interface.cpus;
            let here = |other: &&Running| {
                !other.change.from.interface.cpus.is_disjoint(own) && other.boosted
            };
            let boosted = self.domains.iter().filter(here).count();
            if boosted >= boosts_at_once(self.options.policy) {
                continue;
            }
            self.domains[place].boosted = true;
            self.note(place, now, StepKind::Boosted);
            let domain = self.domains[place].change.domain.clone();
            self.out.push(TransitionAction::Boost {
                domain,
                if_exhausted,
            });
        }
    }

    fn unboost(&mut self, place: usize, now: Instant) {
        if !std::mem::take(&mut self.domains[place].boosted) {
            return;
        }
        self.note(place, now, StepKind::Unboosted);
        let domain = self.domains[place].change.domain.clone();
        self.out.push(TransitionAction::Unboost { domain });
    }

    fn failed(&mut self, domain: &str, reason: String, rolled_back: bool, now: Instant) {
        let Some(place) = self.place(domain) else {
            return;
        };
        let phase = self.domains[place].phase;
        if phase.answers_by().is_none() {
            return;
        }
        self.note(
            place,
            now,
            StepKind::Failed {
                reason: reason.clone(),
                rolled_back,
            },
        );
        self.unboost(place, now);
        // What is as before the start of new tasks is without the old ones.
        let asked_once = match phase {
            Phase::Stopping(_) => true,
            Phase::Asked(_) => !self.waited(place),
            _ => false,
        };
        let old = (rolled_back && asked_once).then_some(HeldMode::Old);
        self.domains[place].settled.tasks = old;
        let cause = Cause::Failed {
            domain: domain.to_owned(),
            reason,
        };
        match (phase, self.domains[place].change.fallback.clone()) {
            // It answers, so it is asked once more, for less.
            (Phase::Stopping(_) | Phase::Asked(_), Some(fallback)) => {
                self.without.insert(domain.to_owned(), cause);
                self.ask_for_fallback(place, &fallback, now);
            }
            (Phase::Stopping(_) | Phase::Asked(_), None) => {
                self.fail(domain, cause);
                self.settle(place, now);
            }
            _ => self.reduce(place, now),
        }
    }

    /// Whether its new tasks had to wait.
    fn waited(&self, place: usize) -> bool {
        let change = &self.domains[place].change;
        let (stop, start) = change.switch();
        !change.offset.is_zero() && !start.is_empty() && !stop.is_empty()
    }

    fn ask_for_fallback(&mut self, place: usize, fallback: &DomainMode, now: Instant) {
        let change = &self.domains[place].change;
        let either: BTreeSet<String> = change.from.tasks.union(&change.to.tasks).cloned().collect();
        let (stop, _) = switch(&either, &fallback.tasks);
        let until = now.saturating_add(self.options.timeout);
        if change.fallback_offset.is_zero() || fallback.tasks.is_empty() {
            let start = fallback.tasks.iter().cloned().collect();
            self.domains[place].phase = Phase::FallingBack(until);
            self.send(place, fallback, stop, start, now);
        } else {
            self.domains[place].phase = Phase::StoppingToFallBack(until);
            self.send(place, fallback, stop, Vec::new(), now);
        }
    }

    /// Tells the agent to start the fallback's tasks, now that nothing can be left of others.
    fn start_fallback(&mut self, place: usize, now: Instant) {
        let Some(fallback) = self.domains[place].change.fallback.clone() else {
            return;
        };
        let start = fallback.tasks.iter().cloned().collect();
        self.domains[place].phase = Phase::FallingBack(now.saturating_add(self.options.timeout));
        self.send(place, &fallback, Vec::new(), start, now);
    }

    fn timed_out(&mut self, place: usize, now: Instant) {
        let waited = self.options.timeout;
        let domain = self.domains[place].change.domain.clone();
        self.lose(place, Cause::NoAnswer { domain, waited }, now);
    }

    fn disconnected(&mut self, domain: &str, now: Instant) {
        let Some(place) = self.place(domain) else {
            return;
        };
        let phase = self.domains[place].phase;
        if phase.answers_by().is_some() {
            let domain = domain.to_owned();
            self.lose(place, Cause::NoAgent { domain }, now);
        }
    }

    /// Does without the answer of an agent: the boost is over, and the domain gets no more than its
    /// fallback, whatever runs in it.
    fn lose(&mut self, place: usize, cause: Cause, now: Instant) {
        self.note(place, now, StepKind::TimedOut);
        self.unboost(place, now);
        let domain = self.domains[place].change.domain.clone();
        self.out.push(TransitionAction::Withdraw {
            domain: domain.clone(),
        });
        if self.domains[place].change.fallback.is_some() {
            self.without.entry(domain).or_insert(cause);
            self.reduce(place, now);
        } else {
            self.fail(&domain, cause);
            self.settle(place, now);
        }
    }

    /// Gives a domain the interface of its fallback, if that is less than it has.
    fn reduce(&mut self, place: usize, now: Instant) {
        let running = &self.domains[place];
        let Some(fallback) = running.change.fallback.clone() else {
            self.settle(place, now);
            return;
        };
        let has = match running.settled.interface {
            HeldMode::New => &running.change.to,
            _ => &running.change.from,
        };
        if fallback.bandwidth() > has.bandwidth() || fallback.interface == has.interface {
            self.settle(place, now);
            return;
        }
        self.set_interface(place, &fallback, Phase::Reducing, now);
    }
}
