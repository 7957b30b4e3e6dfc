//! What is in force at every instant, over many changes that follow each other sooner than reservations
//! take hold: requests that preempt, changes that are taken back, and domains of different periods.
//!
//! The reservations are those of the `ds-freeze` back end, by its own state machine.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use tailbound_enforcement::ReservationChange;
use tailbound_enforcement::ds_freeze::{ChangeAt, StopLead};
use tailbound_model::{
    AgentPlace, BudgetScope, ChangePolicy, Cpu, Priority, RequestsMeanwhile, TaskStart,
};
use tailbound_reservation::metered_server::{FixedGridServer, ServerParameters};

use tailbound_time::{Duration, Fraction};

use super::super::*;
use crate::table::{AgentEntry, Settings};
use crate::transition::Options;

/// How an agent answers, and after how long.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Done(u64),
    Failed(u64),
    Never,
}

#[derive(Default)]
struct PromiseStage {
    now: Instant,
    servers: BTreeMap<String, FixedGridServer>,
    news: BTreeMap<(Instant, usize), AgentEvent>,
    answers: Vec<Answer>,
    sent: usize,
    most_in_force: u64,
    overload: Option<String>,
    /// Whether the back end can be asked for later instants.
    can_wait: bool,
}

/// In millionths.
fn share(parameters: ServerParameters) -> u64 {
    parameters.budget.as_nanos() * 1_000_000 / parameters.period.as_nanos()
}

impl PromiseStage {
    /// Lets time pass up to an instant, and every server replenish on its way there.
    fn pass(&mut self, until: Instant) {
        loop {
            let due = self.servers.values();
            let Some(next) = due.map(FixedGridServer::next_replenishment).min() else {
                break;
            };
            if next > until {
                break;
            }
            for server in self.servers.values_mut() {
                if server.next_replenishment() == next {
                    server.replenish(next, Duration::ZERO);
                }
            }
            let sum: u64 = self.servers.values().map(|it| share(it.parameters())).sum();
            if sum > self.most_in_force {
                self.most_in_force = sum;
                let shares = self.servers.iter();
                let shares = shares.map(|(name, it)| (name, it.parameters()));
                self.overload = Some(format!("{next:?}: {:?}", shares.collect::<Vec<_>>()));
            }
        }
        self.now = self.now.max(until);
    }

    fn later(&mut self, after_us: u64, news: AgentEvent) {
        let at = self.now + Duration::from_micros(after_us);
        let number = self.news.len() + self.sent * 1_000;
        self.news.insert((at, number), news);
    }
}

#[derive(Clone, Default)]
struct PromiseHost(Rc<RefCell<PromiseStage>>);

impl Clock for PromiseHost {
    fn id(&self) -> tailbound_time::ClockId {
        tailbound_time::ClockId::Virtual
    }

    fn now(&self) -> Instant {
        self.0.borrow().now
    }
}

impl Reservations for PromiseHost {
    fn change(&mut self, change: ReservationChange<'_>) -> Result<Instant, String> {
        let (domain, interface) = (change.domain, change.interface);
        let mut stage = self.0.borrow_mut();
        let now = stage.now;
        assert!(
            stage.can_wait || change.not_before <= now,
            "this back end cannot wait"
        );
        let server = stage.servers.get_mut(domain).unwrap();
        let parameters = ServerParameters {
            budget: interface.budget,
            period: interface.period,
        };
        let in_force_at = server.in_force_at(change.not_before).ok_or("too many")?;
        let at = ChangeAt::ReplenishmentFrom(change.not_before);
        assert!(server.change(parameters, at, now, Duration::ZERO).is_none());
        Ok(in_force_at)
    }

    fn can_wait(&self, _domain: &str) -> bool {
        self.0.borrow().can_wait
    }

    fn boost(&mut self, _domain: &str, _at_most: Duration, _if_exhausted: bool) {}

    fn unboost(&mut self, _domain: &str) {}
}

impl Agents for PromiseHost {
    fn send(&mut self, domain: &str, order: Order) -> bool {
        let Order::Change { number, .. } = order else {
            return true;
        };
        let mut stage = self.0.borrow_mut();
        let answer = stage.answers[stage.sent % stage.answers.len()];
        stage.sent += 1;
        let (domain, at) = (domain.to_owned(), stage.now);
        match answer {
            Answer::Done(after_us) => stage.later(
                after_us,
                AgentEvent::Done {
                    domain,
                    number,
                    received_at: at,
                    switched_at: at,
                },
            ),
            Answer::Failed(after_us) => stage.later(
                after_us,
                AgentEvent::Failed {
                    domain,
                    number,
                    reason: "it broke".into(),
                    rolled_back: true,
                },
            ),
            Answer::Never => {}
        }
        true
    }

    fn expect(&mut self, _soon: bool) {}

    fn wait(&mut self, until: Option<Instant>) -> Option<AgentEvent> {
        let mut stage = self.0.borrow_mut();
        let next = stage.news.first_key_value().map(|(key, _)| *key);
        match (next, until) {
            (Some(key), until) if until.is_none_or(|until| key.0 <= until) => {
                let at = key.0;
                stage.pass(at);
                stage.news.remove(&key)
            }
            (_, Some(until)) => {
                stage.pass(until);
                None
            }
            _ => panic!("nothing ever comes"),
        }
    }
}

/// Of a domain: its weight in each of three modes, its period there, and whether its tasks change.
#[derive(Clone, Debug)]
struct Drawn {
    weights: [u64; 3],
    periods_us: [u64; 3],
    with_agent: bool,
    with_fallback: bool,
}

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    let period = || prop::sample::select(vec![1_000_u64, 2_000, 5_000, 7_000, 10_000, 40_000]);
    let periods = prop_oneof![
        3 => period().prop_map(|one| [one; 3]),
        1 => [period(), period(), period()],
    ];
    let weights = [1..=100_u64, 1..=100_u64, 1..=100_u64];
    let one = (weights, periods, any::<bool>(), any::<bool>());
    let one = one.prop_map(|(weights, periods_us, with_agent, with_fallback)| Drawn {
        weights,
        periods_us,
        with_agent,
        with_fallback: with_agent && with_fallback,
    });
    prop::collection::vec(one, 2..6)
}

const MODES: [&str; 3] = ["run", "rest", "off"];

/// Each mode uses the whole CPU, but for roundings.
fn table(drawn: &[Drawn], settings: Settings) -> ModeTable {
    let name = |index: usize| format!("d{index}");
    let local = |mode: usize, index: usize, budget_us: u64| DomainMode {
        name: MODES[mode].into(),
        interface: ResourceInterface {
            budget: Duration::from_micros(budget_us.max(1)),
            period: Duration::from_micros(drawn[index].periods_us[mode]),
            priority: Priority(10),
            cpus: [Cpu(0)].into(),
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        },
        tasks: [format!("{}-{mode}", name(index))].into(),
    };
    let modes = (0..MODES.len()).map(|mode| {
        let sum: u64 = drawn.iter().map(|one| one.weights[mode]).sum();
        let locals = drawn.iter().enumerate().map(|(index, one)| {
            let budget_us = one.periods_us[mode] * one.weights[mode] / sum;
            (name(index), local(mode, index, budget_us))
        });
        (MODES[mode].to_owned(), locals.collect())
    });
    let agents = drawn.iter().enumerate().filter(|(_, one)| one.with_agent);
    let agents = agents.map(|(index, one)| {
        let agent = AgentEntry {
            place: AgentPlace::Outside,
            may_request: [].into(),
            fallback: one.with_fallback.then(|| local(0, index, 1)),
        };
        (name(index), agent)
    });
    ModeTable::new("run".into(), modes.collect(), agents.collect(), settings).unwrap()
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        6 => (0..8_000_u64).prop_map(Answer::Done),
        2 => (0..8_000_u64).prop_map(Answer::Failed),
        1 => Just(Answer::Never),
    ]
}

/// Roundings of weights to whole microseconds lie below this, in millionths.
const LIMIT: u64 = 1_010_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn nothing_is_promised_twice(
        drawn in drawn(),
        answers in prop::collection::vec(answer(), 1..24),
        asked in prop::collection::vec((0..60_000_u64, 0..MODES.len()), 1..12),
        policy in prop::sample::select(vec![
            ChangePolicy::Sequential, ChangePolicy::Batch, ChangePolicy::Greedy, ChangePolicy::Prompt,
        ]),
        requests in prop::sample::select(vec![
            RequestsMeanwhile::Queue, RequestsMeanwhile::Merge, RequestsMeanwhile::Preempt,
        ]),
        in_force: bool,
        can_wait: bool,
        least_gap_us in 1..2_000_u64,
    ) {
        let settings = Settings {
            options: Options {
                policy,
                start: if in_force { TaskStart::InForce } else { TaskStart::Accepted },
                timeout: Duration::from_millis(6),
            },
            requests,
            longest_boost: Duration::from_micros(500),
            least_gap: Duration::from_micros(least_gap_us),
        };
        let table = table(&drawn, settings);
        let host = PromiseHost::default();
        for (domain, local) in table.mode("run").unwrap() {
            let parameters = ServerParameters {
                budget: local.interface.budget,
                period: local.interface.period,
            };
            let lead = StopLead::Fixed(Duration::ZERO);
            let server = FixedGridServer::new(parameters, lead, Instant::ORIGIN, Duration::ZERO);
            host.0.borrow_mut().servers.insert(domain.clone(), server);
        }
        host.0.borrow_mut().answers = answers;
        host.0.borrow_mut().can_wait = can_wait;
        host.0.borrow_mut().pass(Instant::from_nanos(1));
        for (number, (at_us, mode)) in asked.iter().enumerate() {
            let by = Asker::Command(number as u64);
            let mode = MODES[*mode].to_owned();
            host.0.borrow_mut().later(*at_us, AgentEvent::Asked { by, mode });
        }
        let limits = Limits::new().with(Cpu(0), Fraction::new(LIMIT, 1_000_000));
        let mut manager = HostModeManager::new(table, limits, host.clone(), host.clone(), host.clone());
        let mut answered = 0;
        let end = Instant::from_nanos(2_000_000_000);
        while answered < asked.len() && let Some((_, answer)) = manager.serve_one(Some(end)) {
            answered += 1 + manager.take_joined().len();
            let ending = answer.map(|report| report.outcome.ending);
            let no_room = matches!(ending, Ok(Ending::GivenUp(Cause::Overload { .. })));
            prop_assert!(!no_room, "each mode fits: {ending:?}");
        }
        prop_assert_eq!(answered, asked.len(), "each request is answered");
        let last = host.now() + Duration::from_millis(200);
        host.0.borrow_mut().pass(last);
        let stage = host.0.borrow();
        prop_assert!(stage.most_in_force <= LIMIT, "{:?}", stage.overload);
        // In the end each domain has what the manager says.
        for (domain, state) in &manager.state().domains {
            let has = stage.servers[domain].parameters();
            let expected = &state.interface.interface;
            prop_assert_eq!((has.budget, has.period), (expected.budget, expected.period), "{}", domain);
        }
    }
}
