//! One queue for several CPUs of equal speed: which of the ready members has which CPU.
//!
//! Those that come first have a CPU, and keep it as long as they are among the first. The members that
//! wait stand in a heap by their places, those that run in a tournament, the last of them first: a
//! change costs the logarithm of the number of members that wait, and of CPUs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::members::MemberSet;
use crate::timers::Tournament;

/// The key of a member that does not wait, and of a CPU without a member.
const NO_PLACE: u128 = u128::MAX;

/// The members of a level and the CPUs, each member with at most one of them.
#[derive(Clone, Debug)]
pub(super) struct CpuQueue {
    /// The members that are ready and have no CPU, by their places; and places that have been given up,
    /// which count no more.
    waiting: BinaryHeap<Reverse<(u128, usize)>>,
    /// The place at which each member waits.
    places: Vec<u128>,
    /// The complements of the places of the members on the CPUs. As long as a CPU is free, nobody has to
    /// give way, and what stands here of it does not matter.
    running: Tournament<u128>,
    /// The member on each CPU.
    members: Vec<Option<usize>>,
    /// The CPU of each member.
    cpus: Vec<Option<usize>>,
    /// The CPUs without a member.
    free: MemberSet,
    /// The CPUs whose members have ceased to be ready since the last choice.
    vacated: Vec<usize>,
    /// Room for the members that get a CPU by one choice, with their places.
    coming: Vec<(usize, u128)>,
}

impl CpuQueue {
    /// So many members, none of them ready, and so many CPUs.
    pub(super) fn new(members: usize, cpus: usize) -> Self {
        let mut free = MemberSet::default();
        (0..cpus).for_each(|cpu| free.insert(cpu));
        Self {
            waiting: BinaryHeap::new(),
            places: vec![NO_PLACE; members],
            running: Tournament::with(cpus, NO_PLACE),
            members: vec![None; cpus],
            cpus: vec![None; members],
            free,
            vacated: Vec::new(),
            coming: Vec::new(),
        }
    }

    /// The member on a CPU.
    #[inline]
    pub(super) fn member_on(&self, cpu: usize) -> Option<usize> {
        self.members[cpu]
    }

    /// The CPU of a member.
    #[inline]
    pub(super) fn cpu_of(&self, member: usize) -> Option<usize> {
        self.cpus[member]
    }

    /// The members that have CPUs, in the order of these.
    pub(super) fn members_on_cpus(&self) -> impl Iterator<Item = usize> {
        self.members.iter().copied().flatten()
    }

    /// A member is ready at a place, whether it was ready before or not.
    #[inline]
    pub(super) fn enter(&mut self, member: usize, place: u128) {
        match self.cpus[member] {
            Some(cpu) => self.running.set(cpu, !place),
            None => self.wait_at(place, member),
        }
    }

    /// A member is not ready. It loses its CPU by the next choice, if it is not ready again by then.
    #[inline]
    pub(super) fn leave(&mut self, member: usize) {
        match self.cpus[member] {
            Some(cpu) => self.vacated.push(cpu),
            None => self.places[member] = NO_PLACE,
        }
    }

    /// Gives the CPUs to the first of the ready members, and says of each CPU that has another one than
    /// before which it is; of some CPUs first that they have none.
    ///
    /// The first of those that come get the first of the CPUs that have become free.
    #[inline]
    pub(super) fn choose(
        &mut self,
        ready: &MemberSet,
        mut changed: impl FnMut(usize, Option<usize>),
    ) {
        while let Some(cpu) = self.vacated.pop() {
            if self.members[cpu].is_some_and(|member| !ready.contains(member)) {
                self.take_from(cpu);
                changed(cpu, None);
            }
        }
        let mut coming = std::mem::take(&mut self.coming);
        let (mut free, mut all_have_places) = (self.free.len(), false);
        while let Some((member, place)) = self.first_waiting() {
            if free > 0 {
                free -= 1;
            } else {
                if !all_have_places {
                    self.free
                        .iter()
                        .for_each(|cpu| self.running.set(cpu, NO_PLACE));
                    all_have_places = true;
                }
                let last = self.running.earliest();
                let Some(cpu) = self.running.due(last).filter(|_| place < !last) else {
                    break;
                };
                self.running.set(cpu, NO_PLACE);
                if let Some(interrupted) = self.take_from(cpu) {
                    self.wait_at(!last, interrupted);
                }
            }
            self.places[member] = NO_PLACE;
            coming.push((member, place));
        }
        for (member, place) in coming.drain(..) {
            if let Some(cpu) = self.free.first() {
                self.give_to(cpu, member, place);
                changed(cpu, Some(member));
            }
        }
        self.coming = coming;
    }

    #[inline]
    fn wait_at(&mut self, place: u128, member: usize) {
        if std::mem::replace(&mut self.places[member], place) == place {
            return;
        }
        self.waiting.push(Reverse((place, member)));
        // A member that never comes first may give up any number of places.
        if self.waiting.len() > 4 * self.places.len() + 16 {
            let places = &self.places;
            self.waiting
                .retain(|Reverse((place, member))| places[*member] == *place);
        }
    }

    #[inline]
    fn first_waiting(&mut self) -> Option<(usize, u128)> {
        loop {
            let Reverse((place, member)) = *self.waiting.peek()?;
            if self.places[member] == place {
                return Some((member, place));
            }
            self.waiting.pop();
        }
    }

    #[inline]
    fn take_from(&mut self, cpu: usize) -> Option<usize> {
        let member = self.members[cpu].take();
        if let Some(member) = member {
            self.cpus[member] = None;
        }
        self.free.insert(cpu);
        member
    }

    #[inline]
    fn give_to(&mut self, cpu: usize, member: usize, place: u128) {
        self.members[cpu] = Some(member);
        self.cpus[member] = Some(cpu);
        self.running.set(cpu, !place);
        self.free.remove(cpu);
    }
}
