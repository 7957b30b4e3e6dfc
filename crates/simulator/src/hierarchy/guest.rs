//! Guests with one queue for several virtual CPUs.

use tailbound_reservation::Account;

use super::engine::Engine;
use super::level::{Child, LevelState};
use super::plan::{self, Rank};
use super::problem::HierarchyError;

/// A guest in the course of a simulation. Its queue is a level without a parent; the level of each of its
/// virtual CPUs has all tasks as members, of which at most the one that the guest put there is ready.
pub(super) struct GuestState {
    queue: usize,
    /// The levels of its virtual CPUs.
    vcpus: Vec<usize>,
    /// The member that each of them has.
    assigned: Vec<Option<usize>>,
    /// Whether they share one budget.
    shares_budget: bool,
    /// Whether that is used up, and all know it.
    is_exhausted: bool,
}

impl GuestState {
    /// The level of its first virtual CPU.
    pub(super) fn first_vcpu(&self) -> usize {
        self.vcpus[0]
    }
}

impl Engine {
    /// Adds the virtual CPUs of a guest to a level, and its tasks. Its queue comes with
    /// [`Engine::add_queues`], behind all reservations, which are numbered by their levels.
    pub(super) fn add_guest(
        &mut self,
        guest: &plan::Guest,
        outer: usize,
    ) -> Result<(), HierarchyError> {
        if guest.vcpus.is_empty() {
            return Err(HierarchyError::NoVirtualCpu);
        }
        if guest.shares_budget && outer > 0 {
            return Err(HierarchyError::SharedInside);
        }
        let tasks = self.tasks.len()..self.tasks.len() + guest.tasks.len();
        let mut vcpus = Vec::new();
        for vcpu in &guest.vcpus {
            let number = self.levels.len();
            let account = guest.account(vcpu, number)?;
            let position = self.levels[outer].add(Child::Level(number));
            let parent = Some((outer, position));
            let mut level = LevelState::new(parent, vcpu.rank, account, true, None);
            level.shared_by = guest.shares_budget.then_some(self.guests.len());
            for task in tasks.clone() {
                level.add(Child::Task(task));
            }
            self.levels.push(level);
            vcpus.push(number);
        }
        for (member, task) in guest.tasks.iter().enumerate() {
            if task.boost.is_some() && guest.vcpus.len() > 1 {
                let task = self.tasks.len();
                return Err(HierarchyError::BoostInGuest { task });
            }
            // Where the queue will be is known when all levels are there.
            self.add_task(task, usize::MAX, member);
        }
        let assigned = vec![None; vcpus.len()];
        self.guests.push(GuestState {
            queue: tasks.start,
            vcpus,
            assigned,
            shares_budget: guest.shares_budget,
            is_exhausted: false,
        });
        Ok(())
    }

    /// Adds the queues of the guests.
    pub(super) fn add_queues(&mut self, plans: &[&plan::Guest]) {
        for (index, guest) in plans.iter().enumerate() {
            let first = self.guests[index].queue;
            let number = self.levels.len();
            let mut level = LevelState::new(None, Rank::Fixed(0), Account::unlimited(), true, None);
            level.guest = Some(index);
            level.run_several();
            for task in first..first + guest.tasks.len() {
                level.add(Child::Task(task));
                self.tasks[task].level = number;
            }
            self.levels.push(level);
            self.guests[index].queue = number;
        }
    }

    /// Gives the first tasks of a guest a virtual CPU each, after something about them has changed.
    pub(super) fn distribute(&mut self, guest: usize) {
        let GuestState { queue, vcpus, .. } = &self.guests[guest];
        let first = self.levels[*queue].first_ready_of(vcpus.len());
        for position in 0..self.guests[guest].vcpus.len() {
            let has = self.guests[guest].assigned[position];
            let Some(member) = has.filter(|member| !first.contains(member)) else {
                continue;
            };
            // Another one may take its place at once, without the virtual CPU falling idle.
            let next = first
                .iter()
                .find(|it| !self.guests[guest].assigned.contains(&Some(**it)));
            self.guests[guest].assigned[position] = next.copied();
            let vcpu = self.guests[guest].vcpus[position];
            match next {
                Some(next) => {
                    self.put(guest, vcpu, *next);
                    self.member_unready(vcpu, member);
                }
                None => self.member_unready(vcpu, member),
            }
        }
        for member in first {
            let guest_now = &mut self.guests[guest];
            let at = guest_now.assigned.iter().position(|it| *it == Some(member));
            let at = at.or_else(|| guest_now.assigned.iter().position(Option::is_none));
            let Some(position) = at else { continue };
            guest_now.assigned[position] = Some(member);
            let vcpu = guest_now.vcpus[position];
            self.put(guest, vcpu, member);
        }
    }

    /// A member of the queue is at the same place on a virtual CPU.
    fn put(&mut self, guest: usize, vcpu: usize, member: usize) {
        let place = self.levels[self.guests[guest].queue].place(member);
        if !self.levels[vcpu].is_ready(member) || self.levels[vcpu].place(member) != place {
            self.member_ready(vcpu, member, place);
        }
    }

    /// The time for which a level can go on with its budget, which other CPUs may spend as well.
    pub(super) fn left_of(&self, level: usize) -> u64 {
        let left = self.levels[level].account.left();
        let Some(guest) = self.levels[level].shared_by else {
            return left;
        };
        let vcpus = &self.guests[guest].vcpus;
        let runs = |(level, _): &(usize, usize)| vcpus.contains(level);
        let spending = self.cpus.iter().filter(|cpu| cpu.path.iter().any(runs));
        left / (spending.count() as u64).max(1)
    }

    /// Takes from the others what one virtual CPU has used of a shared budget.
    pub(super) fn spend_of_others(&mut self, level: usize, length: u64) {
        let Some(guest) = self.levels[level].shared_by else {
            return;
        };
        for position in 0..self.guests[guest].vcpus.len() {
            let other = self.guests[guest].vcpus[position];
            if other != level {
                self.ended |= self.levels[other].account.spend(length);
            }
        }
    }

    /// Stops all virtual CPUs whose shared budget is used up but for less than a nanosecond each.
    pub(super) fn end_shared_budgets(&mut self) {
        for guest in 0..self.guests.len() {
            if !self.guests[guest].shares_budget {
                continue;
            }
            let vcpus = self.guests[guest].vcpus.clone();
            let left = self.levels[vcpus[0]].account.left();
            let is_exhausted = left < vcpus.len() as u64;
            let was_exhausted =
                std::mem::replace(&mut self.guests[guest].is_exhausted, is_exhausted);
            if !is_exhausted || was_exhausted && left == 0 {
                continue;
            }
            for level in vcpus {
                self.levels[level].account.spend(left);
                self.settle(level);
            }
            for cpu in &mut self.cpus {
                cpu.looks = true;
            }
        }
    }
}
