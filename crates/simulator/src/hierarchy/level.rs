//! Who is ready in a level, and who comes first.

use super::account::Account;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// By the member's rank.
    pub(super) rank: u64,
    /// Among equals: when it got ready, or its turn ended, in the order of such things.
    pub(super) since: u64,
}

/// A scheduler in the course of a simulation.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// The level and the position in it that it is a member of.
    pub(super) parent: Option<(usize, usize)>,
    pub(super) account: Account,
    preemptive: bool,
    /// The length of a turn among equals; never ending without turns.
    quantum: u64,
    /// What is left of each member's turn.
    turns: Vec<u64>,
    pub(super) children: Vec<Child>,
    places: Vec<Place>,
    ready: Members,
    /// Members without work whose budget passes.
    passing: Members,
    /// The members whose jobs have begun and may not be interrupted from within.
    begun: Members,
}

impl Level {
    pub(super) fn new(
        parent: Option<(usize, usize)>,
        account: Account,
        preemptive: bool,
        quantum: Option<u64>,
    ) -> Self {
        Self {
            parent,
            account,
            preemptive,
            quantum: quantum.unwrap_or(NEVER),
            turns: Vec::new(),
            children: Vec::new(),
            places: Vec::new(),
            ready: Members::default(),
            passing: Members::default(),
            begun: Members::default(),
        }
    }

    /// Adds a member that is not ready.
    pub(super) fn add(&mut self, child: Child) -> usize {
        self.children.push(child);
        self.places.push(Place { rank: 0, since: 0 });
        self.turns.push(self.quantum);
        self.children.len() - 1
    }

    #[inline]
    pub(super) fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    #[inline]
    pub(super) fn is_ready(&self, member: usize) -> bool {
        self.ready.contains(member)
    }

    #[inline]
    pub(super) fn set_ready(&mut self, member: usize, place: Place) {
        self.places[member] = place;
        self.ready.insert(member);
    }

    #[inline]
    pub(super) fn set_unready(&mut self, member: usize) {
        self.ready.remove(member);
        self.turns[member] = self.quantum;
    }

    /// How long a member may run before its equals have their turn.
    #[inline]
    pub(super) fn turn(&self, member: usize) -> u64 {
        self.turns[member]
    }

    /// A member ran for so long.
    #[inline]
    pub(super) fn spend_turn(&mut self, member: usize, length: u64) {
        if self.quantum != NEVER {
            self.turns[member] -= length;
        }
    }

    #[inline]
    pub(super) fn set_passing(&mut self, member: usize, place: Option<Place>) {
        match place {
            Some(place) => {
                self.places[member] = place;
                self.passing.insert(member);
            }
            None if self.passing.is_empty() => {}
            None => self.passing.remove(member),
        }
    }

    /// Its turn is over: it stands behind its equals.
    #[inline]
    pub(super) fn end_turn(&mut self, member: usize, since: u64) {
        self.places[member].since = since;
        self.turns[member] = self.quantum;
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
        self.least(&self.ready)
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

    /// The first members, one for each of so many CPUs, and those whose budgets pass as if they were
    /// among them. Returns how many of the first have begun and may not be interrupted.
    pub(super) fn first_of_several(
        &self,
        cpus: usize,
        chosen: &mut Vec<usize>,
        passing: &mut Vec<usize>,
    ) -> usize {
        let key = |member: &usize| (!self.begun.contains(*member), self.order(*member));
        chosen.extend(self.ready.iter());
        chosen.sort_unstable_by_key(key);
        if !self.passing.is_empty() {
            let mut all: Vec<usize> = chosen.iter().copied().chain(self.passing.iter()).collect();
            all.sort_unstable_by_key(key);
            let first = all.iter().take(cpus);
            passing.extend(first.filter(|member| self.passing.contains(**member)));
        }
        chosen.truncate(cpus);
        chosen.partition_point(|member| self.begun.contains(*member))
    }

    fn order(&self, member: usize) -> (Place, usize) {
        (self.places[member], member)
    }

    /// The member that comes first; among equal places the one that stands first.
    #[inline]
    fn least(&self, members: &Members) -> Option<usize> {
        let mut least = None;
        for (index, word) in members.words.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let member = index * 64 + rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let place = self.places[member];
                if least.is_none_or(|(known, _)| place < known) {
                    least = Some((place, member));
                }
            }
        }
        least.map(|(_, member)| member)
    }
}

/// A set of positions in a level.
#[derive(Clone, Debug, Default)]
struct Members {
    words: Vec<u64>,
    count: usize,
}

impl Members {
    fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let member = (rest != 0).then(|| index * 64 + rest.trailing_zeros() as usize);
                rest &= rest.wrapping_sub(1);
                member
            })
        })
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    fn contains(&self, member: usize) -> bool {
        let word = self.words.get(member / 64).copied().unwrap_or(0);
        word >> (member % 64) & 1 == 1
    }

    #[inline]
    fn insert(&mut self, member: usize) {
        if self.contains(member) {
            return;
        }
        if self.words.len() <= member / 64 {
            self.words.resize(member / 64 + 1, 0);
        }
        self.words[member / 64] |= 1 << (member % 64);
        self.count += 1;
    }

    #[inline]
    fn remove(&mut self, member: usize) {
        if self.contains(member) {
            self.words[member / 64] &= !(1 << (member % 64));
            self.count -= 1;
        }
    }
}
