//! Who is ready in a level, and who comes first.

use std::collections::BTreeSet;

use tailbound_reservation::Account;

use super::cpu_queue::CpuQueue;
use super::members::MemberSet;
use super::plan::Rank;
use crate::timers::NEVER;

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    /// A task, by its position among all.
    Task(usize),
    /// The level inside of a reservation, by its position among all.
    Level(usize),
}

/// The place of a member in the order of its level; the lower one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemberPlace {
    /// By the member's rank.
    pub(super) rank: u64,
    /// Among equals: when it got ready, or its turn ended, in the order of such things.
    pub(super) since: u64,
}

impl MemberPlace {
    /// A number that is in the order of the places.
    #[inline]
    pub(super) fn as_one(self) -> u128 {
        (u128::from(self.rank) << 64) | u128::from(self.since)
    }
}

/// What boosts a level: the jobs of a task that are not done, of which the last one was released last and
/// ends last, so that it counts.
#[derive(Clone, Copy, Debug)]
struct LevelBoost {
    task: usize,
    /// When the boost ends at the latest.
    until: u64,
    jobs: u64,
}

/// The ready members of a level of which several run at a time.
#[derive(Clone, Debug)]
enum Several {
    /// In their order; who runs is chosen anew each time.
    InOrder(BTreeSet<(MemberPlace, usize)>),
    /// With the CPUs that they have.
    OnCpus(CpuQueue),
}

/// A scheduler in the course of a simulation.
#[derive(Clone, Debug)]
pub(super) struct LevelState {
    /// The level and the position in it that it is a member of.
    pub(super) parent: Option<(usize, usize)>,
    /// Its rank as a member of that level.
    pub(super) rank: Rank,
    pub(super) account: Account,
    preemptive: bool,
    /// The CPU that deals with what happens to it.
    pub(super) home: usize,
    /// The guest whose queue it is.
    pub(super) guest: Option<usize>,
    /// The guest whose virtual CPUs share its budget.
    pub(super) shared_by: Option<usize>,
    /// The CPU on which it runs, or its budget passes, where the engine books what CPUs do only when
    /// something happens to them.
    pub(super) cpu: Option<usize>,
    /// The tasks whose jobs boost it.
    boosts: Vec<LevelBoost>,
    /// The length of a turn among equals; never ending without turns.
    quantum: u64,
    /// What is left of each member's turn.
    turns: Vec<u64>,
    pub(super) children: Vec<Child>,
    places: Vec<MemberPlace>,
    ready: MemberSet,
    /// The first of the ready members, where one of them runs at a time.
    first_ready: Option<usize>,
    /// Where several of the ready members run at a time.
    several: Option<Several>,
    /// Members without work whose budget passes.
    passing: MemberSet,
    /// The members whose jobs have begun and may not be interrupted from within.
    begun: MemberSet,
}

impl LevelState {
    pub(super) fn new(
        parent: Option<(usize, usize)>,
        rank: Rank,
        account: Account,
        preemptive: bool,
        quantum: Option<u64>,
    ) -> Self {
        Self {
            parent,
            rank,
            account,
            preemptive,
            home: 0,
            guest: None,
            shared_by: None,
            cpu: None,
            boosts: Vec::new(),
            quantum: quantum.unwrap_or(NEVER),
            turns: Vec::new(),
            children: Vec::new(),
            places: Vec::new(),
            ready: MemberSet::default(),
            first_ready: None,
            several: None,
            passing: MemberSet::default(),
            begun: MemberSet::default(),
        }
    }

    /// Several members of the level run at a time: on the CPUs of the host, or on the virtual CPUs of a
    /// guest.
    pub(super) fn run_several(&mut self) {
        self.several = Some(Several::InOrder(BTreeSet::new()));
    }

    /// The members, all of which it has by now, have one queue for so many CPUs of equal speed.
    pub(super) fn run_on_cpus(&mut self, cpus: usize) {
        self.several = Some(Several::OnCpus(CpuQueue::new(self.children.len(), cpus)));
    }

    /// Adds a member that is not ready.
    pub(super) fn add(&mut self, child: Child) -> usize {
        self.children.push(child);
        self.places.push(MemberPlace { rank: 0, since: 0 });
        self.turns.push(self.quantum);
        self.children.len() - 1
    }

    /// A job of a task boosts it, until an instant at most.
    pub(super) fn boost(&mut self, task: usize, until: u64) {
        let boost = self.boosts.iter_mut().find(|boost| boost.task == task);
        match boost {
            Some(boost) => {
                boost.until = until;
                boost.jobs += 1;
            }
            None => self.boosts.push(LevelBoost {
                task,
                until,
                jobs: 1,
            }),
        }
    }

    /// The first of the jobs with which a task boosts it is done.
    pub(super) fn end_boost(&mut self, task: usize) {
        for boost in self.boosts.iter_mut().filter(|boost| boost.task == task) {
            boost.jobs -= 1;
        }
        self.boosts.retain(|boost| boost.jobs > 0);
    }

    /// Takes note of whether it is boosted now; returns until when, and 0 if it is not.
    pub(super) fn boosted_until(&mut self, now: u64) -> u64 {
        let until = self.boosts.iter().map(|boost| boost.until).max();
        let until = until.filter(|until| now < *until).unwrap_or(0);
        self.account.set_boosted(until > 0);
        until
    }

    #[inline]
    pub(super) fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    #[inline]
    pub(super) fn is_ready(&self, member: usize) -> bool {
        self.ready.contains(member)
    }

    /// The place that a member has, or had last.
    #[inline]
    pub(super) fn place(&self, member: usize) -> MemberPlace {
        self.places[member]
    }

    /// Whether the budget of a member passes.
    #[inline]
    pub(super) fn passes(&self, member: usize) -> bool {
        !self.passing.is_empty() && self.passing.contains(member)
    }

    #[inline]
    pub(super) fn set_ready(&mut self, member: usize, place: MemberPlace) {
        if self.several.is_some() {
            self.set_ready_among_several(member, place);
            return;
        }
        self.places[member] = place;
        self.ready.insert(member);
        match self.first_ready {
            Some(first) if first == member => self.first_ready = self.least(&self.ready),
            Some(first) if self.order(first) < (place, member) => {}
            _ => self.first_ready = Some(member),
        }
    }

    #[inline]
    pub(super) fn set_unready(&mut self, member: usize) {
        if self.several.is_some() {
            self.leave_several(member);
        }
        self.ready.remove(member);
        self.turns[member] = self.quantum;
        if self.first_ready == Some(member) {
            self.first_ready = self.least(&self.ready);
        }
    }

    // Out of line: most levels run one member at a time, and are slower around the code of a tree.
    #[inline(never)]
    fn set_ready_among_several(&mut self, member: usize, place: MemberPlace) {
        match &mut self.several {
            Some(Several::InOrder(in_order)) => {
                in_order.remove(&(self.places[member], member));
                in_order.insert((place, member));
            }
            Some(Several::OnCpus(queue)) => queue.enter(member, place.as_one()),
            None => {}
        }
        self.places[member] = place;
        self.ready.insert(member);
    }

    /// A ready member is about to be no longer ready, or to get another place.
    #[inline(never)]
    fn leave_several(&mut self, member: usize) {
        match &mut self.several {
            Some(Several::InOrder(in_order)) => {
                in_order.remove(&(self.places[member], member));
            }
            Some(Several::OnCpus(queue)) => queue.leave(member),
            None => {}
        }
    }

    /// How long a member may run before its equals have their turn.
    #[inline]
    pub(super) fn turn(&self, member: usize) -> u64 {
        self.turns[member]
    }

    /// A member ran for so long; returns whether that ends its turn, or the budget of the level.
    #[inline]
    pub(super) fn spend(&mut self, member: usize, length: u64) -> bool {
        if self.quantum != NEVER {
            self.turns[member] -= length;
        }
        self.account.spend(length) | (self.turns[member] == 0)
    }

    /// Whether the budget of a member passes at this place from now on, or at none; returns whether
    /// that is new.
    #[inline]
    pub(super) fn set_passing(&mut self, member: usize, place: Option<MemberPlace>) -> bool {
        let passed = self.passes(member);
        let Some(place) = place else {
            if passed {
                self.passing.remove(member);
            }
            return passed;
        };
        let is_new = !passed || self.places[member] != place;
        self.leave_several(member);
        self.places[member] = place;
        self.passing.insert(member);
        is_new
    }

    /// Its turn is over: it stands behind its equals.
    #[inline]
    pub(super) fn end_turn(&mut self, member: usize, since: u64) {
        let place = MemberPlace {
            since,
            ..self.places[member]
        };
        self.turns[member] = self.quantum;
        if self.several.is_some() && self.ready.contains(member) {
            self.set_ready(member, place);
        } else {
            self.places[member] = place;
            self.first_ready = self.least(&self.ready);
        }
    }

    /// Since when a member is ready, or its budget passes.
    #[inline]
    pub(super) fn since(&self, member: usize) -> Option<u64> {
        let present = self.ready.contains(member) || self.passing.contains(member);
        present.then(|| self.places[member].since)
    }

    /// A job of the member runs, and may not be interrupted from within where that is the rule.
    #[inline]
    pub(super) fn begin(&mut self, member: usize) {
        if !self.preemptive {
            self.begun.insert(member);
        }
    }

    /// The member's job is done, or gives up its CPU by itself.
    #[inline]
    pub(super) fn end(&mut self, member: usize) {
        self.begun.remove(member);
    }

    /// The member that comes first.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        if !self.begun.is_empty() {
            let mut begun = self.begun.iter().filter(|it| self.ready.contains(*it));
            if let Some(first) = begun.next() {
                return Some(first);
            }
        }
        self.first_ready
    }

    /// The member whose budget passes now: the first of those that come before the one that runs.
    #[inline]
    pub(super) fn passing_before(&self, running: Option<usize>) -> Option<usize> {
        if self.passing.is_empty() {
            return None;
        }
        let first = self.least(&self.passing)?;
        let before = running.is_none_or(|running| self.order(first) < self.order(running));
        before.then_some(first)
    }

    /// The member of a set that comes first, and the one whose budget passes meanwhile.
    pub(super) fn first_among(&self, set: &MemberSet) -> (Option<usize>, Option<usize>) {
        let among = |members: &MemberSet| {
            let mut both = MemberSet::default();
            let inside = members.iter().filter(|member| set.contains(*member));
            inside.for_each(|member| both.insert(member));
            both
        };
        let mut begun = self.begun.iter().filter(|it| set.contains(*it));
        let begun = begun.find(|member| self.ready.contains(*member));
        let first = begun.or_else(|| self.least(&among(&self.ready)));
        let passing = self.least(&among(&self.passing)).filter(|passing| {
            first.is_none_or(|running| self.order(*passing) < self.order(running))
        });
        (first, passing)
    }

    /// The first of the ready members, so many or less, in order.
    pub(super) fn first_ready_of(&self, count: usize) -> Vec<usize> {
        self.ready_in_order().take(count).collect()
    }

    fn ready_in_order(&self) -> impl Iterator<Item = usize> {
        let in_order = match &self.several {
            Some(Several::InOrder(in_order)) => Some(in_order),
            _ => None,
        };
        in_order.into_iter().flatten().map(|(_, member)| *member)
    }

    /// The first members, one for each of so many CPUs, and those whose budgets pass as if they were
    /// among them. Returns how many of the first have begun and may not be interrupted.
    pub(super) fn first_of_several(
        &self,
        cpus: usize,
        chosen: &mut Vec<usize>,
        passing: &mut Vec<usize>,
    ) -> usize {
        let has_begun = |member: &usize| self.begun.contains(*member);
        let in_order = self.ready_in_order();
        if self.begun.is_empty() {
            chosen.extend(in_order.take(cpus));
        } else {
            let (begun, others): (Vec<usize>, Vec<usize>) = in_order.partition(has_begun);
            chosen.extend(begun.into_iter().chain(others).take(cpus));
        }
        self.add_passing(chosen.iter().copied(), cpus, passing);
        chosen.partition_point(has_begun)
    }

    /// Adds the members whose budgets pass as if they were among the first, of which so many have CPUs.
    fn add_passing(
        &self,
        chosen: impl Iterator<Item = usize>,
        cpus: usize,
        passing: &mut Vec<usize>,
    ) {
        if self.passing.is_empty() {
            return;
        }
        let mut all: Vec<usize> = chosen.chain(self.passing.iter()).collect();
        all.sort_unstable_by_key(|member| (!self.begun.contains(*member), self.order(*member)));
        let first = all.iter().take(cpus);
        passing.extend(first.filter(|member| self.passing.contains(**member)));
    }

    /// Gives so many CPUs to the first of the ready members; says which CPUs have other members than
    /// before, and whose budgets pass.
    pub(super) fn choose_for_cpus(
        &mut self,
        cpus: usize,
        changed: &mut Vec<usize>,
        passing: &mut Vec<usize>,
    ) {
        if let Some(Several::OnCpus(queue)) = &mut self.several {
            queue.choose(&self.ready, |cpu, _| changed.push(cpu));
        }
        if let Some(Several::OnCpus(queue)) = &self.several {
            self.add_passing(queue.members_on_cpus(), cpus, passing);
        }
    }

    /// The member that a CPU has by the last choice.
    #[inline]
    pub(super) fn member_on(&self, cpu: usize) -> Option<usize> {
        match &self.several {
            Some(Several::OnCpus(queue)) => queue.member_on(cpu),
            _ => None,
        }
    }

    fn order(&self, member: usize) -> (MemberPlace, usize) {
        (self.places[member], member)
    }

    /// The member that comes first; among equal places the one that stands first.
    #[inline]
    fn least(&self, members: &MemberSet) -> Option<usize> {
        members.least_by(|member| self.places[member])
    }
}
