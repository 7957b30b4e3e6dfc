//! A host and its agents for tests: what transitions ask for happens after a while, or not, and what
//! holds at every instant is written down.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};

use tailbound_model::{AgentPlace, Cpu, Priority, ResourceInterface};
use tailbound_time::{Duration, Fraction, Instant};

use super::{Action, DomainChange, Event, Limits, LocalMode, Options, Outcome, Transition};

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
pub fn mode(name: &str, budget_us: u64, period_us: u64, tasks: &[&str]) -> LocalMode {
    LocalMode {
        name: name.into(),
        interface: ResourceInterface {
            budget: Duration::from_micros(budget_us),
            period: Duration::from_micros(period_us),
            priority: Priority(10),
            cpus: [Cpu(0)].into(),
        },
        tasks: tasks.iter().map(|task| (*task).to_owned()).collect(),
    }
}

/// A change of one domain with an agent inside.
pub fn change(domain: &str, from: LocalMode, to: LocalMode) -> DomainChange {
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
    /// What was done, in words.
    pub log: Vec<String>,
    events: BTreeMap<(Instant, usize), Event>,
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
            log: Vec::new(),
            events: BTreeMap::new(),
            tasks_then: BTreeMap::new(),
            next: 0,
        }
    }

    fn later(&mut self, after: Duration, event: Event) -> usize {
        self.next += 1;
        let at = self.now.saturating_add(after);
        self.events.insert((at, self.next), event);
        self.next
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::SetInterface {
                domain,
                interface,
                not_before,
            } => self.set_interface(domain, interface, not_before),
            Action::Send {
                domain,
                mode,
                stop,
                start,
            } => {
                self.log.push(format!("send {domain} {mode}"));
                self.send(domain, &stop, start);
            }
            Action::Boost { domain, .. } => {
                self.log.push(format!("boost {domain}"));
                assert!(self.boosted.insert(domain), "boosted twice");
                self.most_boosted = self.most_boosted.max(self.boosted.len());
            }
            Action::Unboost { domain } => {
                self.log.push(format!("unboost {domain}"));
                assert!(self.boosted.remove(&domain), "was not boosted");
            }
            Action::Withdraw { domain } => self.log.push(format!("withdraw {domain}")),
        }
    }

    fn set_interface(&mut self, domain: String, interface: ResourceInterface, not_before: Instant) {
        let bandwidth = format!("{}/{}", interface.budget, interface.period);
        self.log.push(format!("set {domain} {bandwidth}"));
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
            self.later(self.accepting, Event::InterfaceRefused { domain, reason });
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
            Event::InterfaceAccepted {
                domain,
                in_force_at,
            },
        );
    }

    fn send(&mut self, domain: String, stop: &[String], start: Vec<String>) {
        match self.agents[&domain] {
            Agent::Hangs => {}
            Agent::Ends(after) => {
                self.later(after, Event::Disconnected { domain });
            }
            Agent::Fails(after) => {
                let (reason, rolled_back) = ("it broke".to_owned(), true);
                self.later(
                    after,
                    Event::Failed {
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
                let answer = Event::Acknowledged {
                    domain,
                    received_at: at,
                    switched_at: at,
                };
                let number = self.later(after, answer);
                self.tasks_then.insert(number, tasks);
            }
        }
    }

    /// Runs a transition to its end.
    pub fn run(&mut self, transition: &mut Transition) -> Outcome {
        let mut actions = transition.begin(self.now);
        for _ in 0..10_000 {
            for action in actions {
                self.carry_out(action);
            }
            if let Some(outcome) = transition.outcome() {
                assert!(self.boosted.is_empty(), "a boost is left");
                return outcome;
            }
            let event = self.events.first_key_value().map(|(key, _)| *key);
            let woken = transition.next_wake();
            let event = event.filter(|(at, _)| woken.is_none_or(|woken| *at <= woken));
            let next = match event {
                Some(key) => self.events.remove_entry(&key),
                None => None,
            };
            actions = match next {
                Some(((at, number), event)) => {
                    self.now = self.now.max(at);
                    if let (Some(tasks), Event::Acknowledged { domain, .. }) =
                        (self.tasks_then.remove(&number), &event)
                    {
                        let history = self.histories.get_mut(domain).unwrap();
                        history.tasks.push((at, tasks));
                    }
                    transition.handle(event, self.now)
                }
                None => {
                    let woken = woken.expect("nothing happens any more, and it is not over");
                    self.now = self.now.max(woken);
                    transition.handle(Event::Woken, self.now)
                }
            };
        }
        panic!("it does not end");
    }

    /// What is in force of a domain at an instant.
    pub fn in_force(&self, domain: &str, at: Instant) -> &ResourceInterface {
        let interfaces = self.histories[domain].interfaces.iter();
        let last = interfaces.rev().find(|(from, _)| *from <= at);
        &last.unwrap().1
    }

    /// The most that was in force of CPU 0 at any instant, in thousandths, rounded up.
    pub fn most_in_force(&self) -> u64 {
        let all = self
            .histories
            .values()
            .flat_map(|history| &history.interfaces);
        let sum_at = |at: Instant| {
            let shares = self.histories.keys().map(|domain| {
                let found = self.in_force(domain, at);
                (found.budget.as_nanos() * 1_000).div_ceil(found.period.as_nanos())
            });
            shares.sum()
        };
        all.map(|(at, _)| sum_at(*at)).max().unwrap_or(0)
    }
}

/// A transition and its world.
pub fn run(
    changes: &[DomainChange],
    limits: Limits,
    options: Options,
    prepare: impl FnOnce(&mut World),
) -> (World, Transition, Outcome) {
    let mut transition = Transition::new(changes.to_vec(), limits, options).unwrap();
    let mut world = World::of(changes);
    prepare(&mut world);
    let outcome = world.run(&mut transition);
    (world, transition, outcome)
}
