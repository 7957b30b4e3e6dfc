//! A host and its agents, which do as they are told, or not.

use tailbound_enforcement::ReservationChange;

use super::*;

/// How an agent behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Obeys,
    Fails,
    Hangs,
    /// Says that it has switched, and has not.
    Lies,
    Absent,
}

#[derive(Default)]
pub(super) struct HostStage {
    pub(super) now: u64,
    /// How agents meet the next orders; the last manner stays.
    pub(super) manners: BTreeMap<String, VecDeque<Manner>>,
    pub(super) news: BTreeMap<(u64, usize), AgentEvent>,
    pub(super) count: usize,
    pub(super) interfaces: BTreeMap<String, ResourceInterface>,
    pub(super) running: BTreeMap<String, BTreeSet<String>>,
    pub(super) refuses: BTreeSet<String>,
    pub(super) boosted: BTreeSet<String>,
    /// How long boosts were to be at most.
    pub(super) boosts: Vec<(String, Duration)>,
    pub(super) withdrawn: Vec<String>,
    pub(super) most_percent: u64,
    pub(super) expecting: bool,
    pub(super) changing: bool,
    /// How long it was waited while nobody else could change reservations.
    pub(super) waited_in_turn_ns: u64,
    /// For so long an interface that was replaced is in force still.
    pub(super) in_force_after_ns: u64,
    /// When interfaces were asked for.
    pub(super) asked: Vec<(String, Instant)>,
    pub(super) sent: usize,
    /// Who was boosted when a message came.
    pub(super) boosted_before: BTreeSet<String>,
    /// What was sent, by domain.
    pub(super) orders: Vec<(String, Order)>,
    /// The highest number of an order that agents know of.
    pub(super) last_number: u64,
    /// Where it is noted what is about to be done.
    pub(super) noted: Option<Noted>,
}

impl HostStage {
    /// Takes note of an order; how its agent meets it.
    fn meets(&mut self, domain: &str, order: &Order) -> Manner {
        self.sent += 1;
        let boosted = self.boosted.contains(domain);
        self.boosted_before
            .extend(boosted.then(|| domain.to_owned()));
        self.orders.push((domain.into(), order.clone()));
        let manners = self.manners.get_mut(domain).unwrap();
        match order {
            Order::Change { .. } if manners.len() > 1 => manners.pop_front().unwrap(),
            _ => manners[0],
        }
    }

    fn pass(&mut self, until: u64) {
        let passed = until.saturating_sub(self.now);
        self.waited_in_turn_ns += if self.changing { passed } else { 0 };
        self.now += passed;
    }
}

#[derive(Clone, Default)]
pub(super) struct FakeHost(pub(super) Rc<RefCell<HostStage>>);

impl FakeHost {
    pub(super) fn later(&self, after_us: u64, news: AgentEvent) {
        let mut stage = self.0.borrow_mut();
        stage.count += 1;
        let key = (stage.now + after_us * 1_000, stage.count);
        stage.news.insert(key, news);
    }

    pub(super) fn manner(&self, domain: &str, manner: Manner) {
        self.manners(domain, &[manner]);
    }

    /// One manner after the other, one for each order.
    pub(super) fn manners(&self, domain: &str, manners: &[Manner]) {
        let manners = manners.iter().copied().collect();
        self.0.borrow_mut().manners.insert(domain.into(), manners);
    }

    /// The orders to a domain after so many of all.
    pub(super) fn orders_since(&self, count: usize, domain: &str) -> Vec<Order> {
        let stage = self.0.borrow();
        let of_it = stage.orders[count..].iter().filter(|(to, _)| to == domain);
        of_it.map(|(_, order)| order.clone()).collect()
    }

    pub(super) fn runs(&self, domain: &str) -> Vec<String> {
        self.0.borrow().running[domain].iter().cloned().collect()
    }

    pub(super) fn budget_ms(&self, domain: &str) -> u64 {
        self.0.borrow().interfaces[domain].budget.as_nanos() / 1_000_000
    }
}

impl Clock for FakeHost {
    fn id(&self) -> tailbound_time::ClockId {
        tailbound_time::ClockId::Virtual
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.borrow().now)
    }
}

impl Reservations for FakeHost {
    fn begin_changes(&mut self) {
        let before = std::mem::replace(&mut self.0.borrow_mut().changing, true);
        assert!(!before, "begun twice");
    }

    fn end_changes(&mut self) {
        let before = std::mem::replace(&mut self.0.borrow_mut().changing, false);
        assert!(before, "ended twice");
    }

    fn change(&mut self, change: ReservationChange<'_>) -> Result<Instant, String> {
        let (domain, interface) = (change.domain, change.interface);
        let mut stage = self.0.borrow_mut();
        assert!(stage.changing, "others may change reservations meanwhile");
        let now = Instant::from_nanos(stage.now);
        assert!(change.not_before <= now, "this back end cannot wait");
        if let Some(noted) = &stage.noted {
            let asks = StepRecord::Asks {
                domain: domain.into(),
                interface: interface.clone(),
            };
            assert_eq!(noted.0.lock().unwrap().last(), Some(&asks), "noted first");
        }
        if stage.refuses.contains(domain) {
            return Err("refused".into());
        }
        stage.interfaces.insert(domain.into(), interface.clone());
        let all = stage.interfaces.values();
        let percent = |it: &ResourceInterface| it.budget.as_nanos() * 100 / it.period.as_nanos();
        let sum = all.map(percent).sum();
        stage.most_percent = stage.most_percent.max(sum);
        stage.asked.push((domain.into(), now));
        Ok(now + Duration::from_nanos(stage.in_force_after_ns))
    }

    fn can_wait(&self, _domain: &str) -> bool {
        false
    }

    fn boost(&mut self, domain: &str, at_most: Duration, _if_exhausted: bool) {
        let mut stage = self.0.borrow_mut();
        stage.boosted.insert(domain.into());
        stage.boosts.push((domain.into(), at_most));
    }

    fn unboost(&mut self, domain: &str) {
        self.0.borrow_mut().boosted.remove(domain);
    }
}

impl Agents for FakeHost {
    fn send(&mut self, domain: &str, order: Order) -> bool {
        let manner = self.0.borrow_mut().meets(domain, &order);
        let (number, stop, start) = match order {
            Order::Change {
                number,
                stop,
                start,
                ..
            } => (number, stop, start),
            Order::Withdraw { .. } => {
                self.0.borrow_mut().withdrawn.push(domain.into());
                return manner != Manner::Absent;
            }
        };
        let domain = domain.to_owned();
        let before = std::mem::replace(&mut self.0.borrow_mut().last_number, number);
        assert!(number > before, "an agent takes {number} for {before}");
        match manner {
            Manner::Absent => return false,
            Manner::Hangs => {}
            Manner::Fails => self.later(
                50,
                AgentEvent::Failed {
                    domain,
                    number,
                    reason: "it broke".into(),
                    rolled_back: true,
                },
            ),
            Manner::Obeys | Manner::Lies => {
                if manner == Manner::Obeys {
                    let mut stage = self.0.borrow_mut();
                    let running = stage.running.get_mut(&domain).unwrap();
                    running.retain(|task| !stop.contains(task));
                    running.extend(start);
                }
                let at = self.now();
                self.later(
                    50,
                    AgentEvent::Done {
                        domain,
                        number,
                        received_at: at,
                        switched_at: at,
                    },
                );
            }
        }
        true
    }

    fn expect(&mut self, soon: bool) {
        let before = std::mem::replace(&mut self.0.borrow_mut().expecting, soon);
        assert_ne!(before, soon, "as it was");
    }

    fn wait(&mut self, until: Option<Instant>) -> Option<AgentEvent> {
        let mut stage = self.0.borrow_mut();
        let next = stage.news.first_key_value().map(|(key, _)| *key);
        match (next, until.map(Instant::as_nanos)) {
            (Some(key), until) if until.is_none_or(|until| key.0 <= until) => {
                stage.pass(key.0);
                let news = stage.news.remove(&key);
                if let Some(AgentEvent::Joined { number, .. }) = news {
                    stage.last_number = stage.last_number.max(number);
                }
                news
            }
            (_, Some(until)) => {
                stage.pass(until);
                None
            }
            _ => panic!("nothing ever comes"),
        }
    }
}
