//! A host and its agents without a kernel: what transitions ask for happens after a while, or not, and what
//! holds at every instant is written down.

use std::collections::{BTreeMap, BTreeSet};

use tailbound_model::{AgentPlace, BudgetScope, Cpu, Priority, ResourceInterface};
use tailbound_modes::transition::{
    DomainChange, DomainMode, Limits, Options, Transition, TransitionAction, TransitionEvent,
    TransitionOutcome,
};
use tailbound_time::{Duration, Fraction, Instant};

use super::words;

/// How an agent behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// It answers after so long.
    Answers(Duration),
    /// It says that it cannot, after so long, and has put its tasks back.
    Fails(Duration),
    /// It never answers.
    Hangs,
    /// It ends, after so long.
    Ends(Duration),
}

/// A local mode on CPU 0.
pub fn mode(name: &str, budget_us: u64, period_us: u64, tasks: &[&str]) -> DomainMode {
    DomainMode {
        name: name.into(),
        interface: ResourceInterface {
            budget: Duration::from_micros(budget_us),
            period: Duration::from_micros(period_us),
            priority: Priority(10),
            cpus: [Cpu(0)].into(),
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        },
        tasks: tasks.iter().map(|task| (*task).to_owned()).collect(),
    }
}

/// A change of one domain with an agent inside.
pub fn change(domain: &str, from: DomainMode, to: DomainMode) -> DomainChange {
    DomainChange {
        offset: Duration::ZERO,
        fallback_offset: Duration::ZERO,
        domain: domain.into(),
        from,
        to,
        tasks_known: true,
        fallback: None,
        agent: Some(AgentPlace::Inside),
    }
}

/// So many percent of CPU 0.
pub fn limit(percent: u64) -> Limits {
    Limits::new().with(Cpu(0), Fraction::new(percent, 100))
}

/// What was in force of a domain, and which mode's tasks ran, from when on.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub interfaces: Vec<(Instant, ResourceInterface)>,
    pub tasks: Vec<(Instant, BTreeSet<String>)>,
}

/// The host.
pub struct World {
    pub now: Instant,
    pub agents: BTreeMap<String, Agent>,
    pub histories: BTreeMap<String, History>,
    /// How long it takes to accept an interface.
    pub accepting: Duration,
    /// Interfaces of these domains are refused.
    pub refuses: BTreeSet<String>,
    /// Interfaces of these domains are refused so many times.
    pub refuses_at_first: BTreeMap<String, usize>,
    pub boosted: BTreeSet<String>,
    /// So many agents were boosted at once.
    pub most_boosted: usize,
    /// What happened and what was done about it, a line each.
    pub trace: Vec<String>,
    events: BTreeMap<(Instant, usize), TransitionEvent>,
    tasks_then: BTreeMap<usize, BTreeSet<String>>,
    next: usize,
}

impl World {
    pub fn of(changes: &[DomainChange]) -> Self {
        let history = |change: &DomainChange| History {
            interfaces: vec![(Instant::ORIGIN, change.from.interface.clone())],
            tasks: vec![(Instant::ORIGIN, change.from.tasks.clone())],
        };
        let answers = Agent::Answers(Duration::from_micros(50));
        let names = || changes.iter().map(|change| change.domain.clone());
        Self {
            now: Instant::from_nanos(1_234_567),
            agents: names().map(|name| (name, answers)).collect(),
            histories: names().zip(changes.iter().map(history)).collect(),
            accepting: Duration::from_micros(5),
            refuses: BTreeSet::new(),
            refuses_at_first: BTreeMap::new(),
            boosted: BTreeSet::new(),
            most_boosted: 0,
            trace: Vec::new(),
            events: BTreeMap::new(),
            tasks_then: BTreeMap::new(),
            next: 0,
        }
    }

    fn later(&mut self, after: Duration, event: TransitionEvent) -> usize {
        self.next += 1;
        let at = self.now.saturating_add(after);
        self.events.insert((at, self.next), event);
        self.next
    }

    fn carry_out(&mut self, action: TransitionAction) {
        match action {
            TransitionAction::SetInterface {
                domain,
                interface,
                not_before,
            } => self.set_interface(domain, interface, not_before),
            TransitionAction::Send {
                domain,
                stop,
                start,
                ..
            } => self.send(domain, &stop, start),
            TransitionAction::Boost { domain, .. } => {
                assert!(self.boosted.insert(domain), "boosted twice");
                self.most_boosted = self.most_boosted.max(self.boosted.len());
            }
            TransitionAction::Unboost { domain } => {
                assert!(self.boosted.remove(&domain), "was not boosted");
            }
            TransitionAction::Withdraw { .. } => {}
        }
    }

    fn set_interface(&mut self, domain: String, interface: ResourceInterface, not_before: Instant) {
        let left = self.refuses_at_first.get_mut(&domain);
        let not_yet = left.is_some_and(|left| match left.checked_sub(1) {
            Some(less) => {
                *left = less;
                true
            }
            None => false,
        });
        if not_yet || self.refuses.contains(&domain) {
            let reason = "no".to_owned();
            self.later(
                self.accepting,
                TransitionEvent::InterfaceRefused { domain, reason },
            );
            return;
        }
        // In force at the first replenishment, on a grid from zero, that is allowed.
        let history = self.histories.get_mut(&domain).unwrap();
        let period_ns = history.interfaces.last().unwrap().1.period.as_nanos();
        let earliest = not_before.max(self.now.saturating_add(self.accepting));
        let grid = earliest.as_nanos().div_ceil(period_ns) * period_ns;
        let in_force_at = Instant::from_nanos(grid);
        // One that would be in force then, or later, is replaced.
        history.interfaces.retain(|(at, _)| *at < in_force_at);
        history.interfaces.push((in_force_at, interface));
        self.later(
            self.accepting,
            TransitionEvent::InterfaceAccepted {
                domain,
                in_force_at,
            },
        );
    }

    fn send(&mut self, domain: String, stop: &[String], start: Vec<String>) {
        match self.agents[&domain] {
            Agent::Hangs => {}
            Agent::Ends(after) => {
                self.later(after, TransitionEvent::Disconnected { domain });
            }
            Agent::Fails(after) => {
                let (reason, rolled_back) = ("it broke".to_owned(), true);
                self.later(
                    after,
                    TransitionEvent::Failed {
                        domain,
                        reason,
                        rolled_back,
                    },
                );
            }
            Agent::Answers(after) => {
                let mut tasks = self.histories[&domain].tasks.last().unwrap().1.clone();
                tasks.retain(|task| !stop.contains(task));
                tasks.extend(start);
                let at = self.now.saturating_add(after);
                let answer = TransitionEvent::Acknowledged {
                    domain,
                    received_at: at,
                    switched_at: at,
                };
                let number = self.later(after, answer);
                self.tasks_then.insert(number, tasks);
            }
        }
    }

    /// Begins a transition now.
    pub fn begin(&mut self, transition: &mut Transition) -> Vec<TransitionAction> {
        let actions = transition.begin(self.now);
        self.note("begin", &actions);
        actions
    }

    /// Lets something happen to a transition now.
    pub fn feed(
        &mut self,
        transition: &mut Transition,
        event: TransitionEvent,
    ) -> Vec<TransitionAction> {
        let words = words::event(&event, self.now);
        let actions = transition.handle(event, self.now);
        self.note(&words, &actions);
        actions
    }

    /// Has a transition given up now.
    pub fn give_up(&mut self, transition: &mut Transition) -> Vec<TransitionAction> {
        let actions = transition.give_up(self.now);
        self.note("give up", &actions);
        actions
    }

    fn note(&mut self, event: &str, actions: &[TransitionAction]) {
        self.trace
            .push(format!("{} {event}", words::instant(self.now)));
        let actions = actions.iter().map(|action| words::action(action, self.now));
        self.trace.extend(actions);
    }

    /// Runs a transition to its end.
    pub fn run(&mut self, transition: &mut Transition) -> TransitionOutcome {
        let mut actions = self.begin(transition);
        for _ in 0..10_000 {
            for action in actions {
                self.carry_out(action);
            }
            if let Some(outcome) = transition.outcome() {
                assert!(self.boosted.is_empty(), "a boost is left");
                return outcome;
            }
            let event = self.next_event(transition);
            actions = self.feed(transition, event);
        }
        panic!("it does not end");
    }

    /// What happens next, at which the clock then stands: what was to come of an action, or the wake that
    /// the transition asks for.
    fn next_event(&mut self, transition: &Transition) -> TransitionEvent {
        let woken = transition.next_wake();
        let first = self.events.first_key_value().map(|(key, _)| *key);
        let first = first.filter(|(at, _)| woken.is_none_or(|woken| *at <= woken));
        let Some(((at, number), event)) = first.and_then(|key| self.events.remove_entry(&key))
        else {
            let woken = woken.expect("nothing happens any more, and it is not over");
            self.now = self.now.max(woken);
            return TransitionEvent::Woken;
        };
        self.now = self.now.max(at);
        if let (Some(tasks), TransitionEvent::Acknowledged { domain, .. }) =
            (self.tasks_then.remove(&number), &event)
        {
            let history = self.histories.get_mut(domain).unwrap();
            history.tasks.push((at, tasks));
        }
        event
    }

    /// What is in force of a domain at an instant.
    pub fn in_force(&self, domain: &str, at: Instant) -> &ResourceInterface {
        let interfaces = self.histories[domain].interfaces.iter();
        let last = interfaces.rev().find(|(from, _)| *from <= at);
        &last.unwrap().1
    }

    /// The most that was in force of a CPU at any instant, in thousandths, rounded up.
    pub fn most_in_force(&self, cpu: Cpu) -> u64 {
        let all = self
            .histories
            .values()
            .flat_map(|history| &history.interfaces);
        let sum_at = |at: Instant| {
            let interfaces = self
                .histories
                .keys()
                .map(|domain| self.in_force(domain, at));
            let here = interfaces.filter(|interface| interface.cpus.contains(&cpu));
            here.map(|interface| {
                (interface.budget.as_nanos() * 1_000).div_ceil(interface.period.as_nanos())
            })
            .sum()
        };
        all.map(|(at, _)| sum_at(*at)).max().unwrap_or(0)
    }

    /// Goes on from what another world has come to.
    pub fn follow(&mut self, before: Self) {
        self.now = before.now;
        self.histories.extend(before.histories);
    }
}

/// A transition and its world.
pub fn run(
    changes: &[DomainChange],
    limits: Limits,
    options: Options,
    prepare: impl FnOnce(&mut World),
) -> (World, Transition, TransitionOutcome) {
    let mut transition = Transition::new(changes.to_vec(), limits, options).unwrap();
    let mut world = World::of(changes);
    prepare(&mut world);
    let outcome = world.run(&mut transition);
    (world, transition, outcome)
}
