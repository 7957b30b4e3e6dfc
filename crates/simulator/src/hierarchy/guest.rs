//! Guests with one queue for several virtual CPUs.

use tailbound_reservation::Account;

use super::engine::Engine;
use super::level::{Child, Level};
use super::plan::{self, Rank};
use super::problem::PlanError;

/// A guest in the course of a simulation. Its queue is a level without a parent; the level of each of its
/// virtual CPUs has all tasks as members, of which at most the one that the guest put there is ready.
pub(super) struct Guest {
    queue: usize,
    /// The levels of its virtual CPUs.
    vcpus: Vec<usize>,
    /// The member that each of them has.
    assigned: Vec<Option<usize>>,
}

impl Guest {
    /// The level of its first virtual CPU.
    pub(super) fn first_vcpu(&self) -> usize {
        self.vcpus[0]
    }
}

impl Engine {
    /// Adds the virtual CPUs of a guest to a level, and its tasks. Its queue comes with
    /// [`Engine::add_queues`], behind all reservations, which are numbered by their levels.
    pub(super) fn add_guest(&mut self, guest: &plan::Guest, outer: usize) -> Result<(), PlanError> {
        if guest.vcpus.is_empty() {
            return Err(PlanError::NoVirtualCpu);
        }
        let tasks = self.tasks.len()..self.tasks.len() + guest.tasks.len();
        let mut vcpus = Vec::new();
        for vcpu in &guest.vcpus {
            let number = self.levels.len();
            let account = vcpu.account(number)?;
            let position = self.levels[outer].add(Child::Level(number));
            let parent = Some((outer, position));
            let mut level = Level::new(parent, vcpu.rank, account, true, None);
            for task in tasks.clone() {
                level.add(Child::Task(task));
            }
            self.levels.push(level);
            vcpus.push(number);
        }
        for (member, task) in guest.tasks.iter().enumerate() {
            if task.boost.is_some() && guest.vcpus.len() > 1 {
                let task = self.tasks.len();
                return Err(PlanError::BoostInGuest { task });
            }
            // Where the queue will be is known when all levels are there.
            self.add_task(task, usize::MAX, member);
        }
        let assigned = vec![None; vcpus.len()];
        self.guests.push(Guest {
            queue: tasks.start,
            vcpus,
            assigned,
        });
        Ok(())
    }

    /// Adds the queues of the guests.
    pub(super) fn add_queues(&mut self, plans: &[&plan::Guest]) {
        for (index, guest) in plans.iter().enumerate() {
            let first = self.guests[index].queue;
            let number = self.levels.len();
            let mut level = Level::new(None, Rank::Fixed(0), Account::unlimited(), true, None);
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
        let Guest { queue, vcpus, .. } = &self.guests[guest];
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
}
