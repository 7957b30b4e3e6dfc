//! The choice of what runs, and until when it needs no look.

use super::engine::Engine;
use super::level::Child;
use super::processor::assign;
use crate::timers::NEVER;

impl Engine {
    /// Chooses what runs from now on, if anything has happened that may matter to that.
    pub(super) fn choose(&mut self) {
        if self.by_event {
            self.choose_by_event();
        } else if !self.stale && !self.new_limit {
            return;
        } else if self.stale && self.cpus.len() == 1 && !self.has_overheads {
            let length = self.select_for_one();
            self.limits.set(0, self.now.saturating_add(length));
        } else {
            if self.stale {
                self.select();
            }
            if self.stale && self.has_overheads {
                self.charge();
            }
            for cpu in 0..self.cpus.len() {
                self.set_limit(cpu);
            }
        }
        self.stale = false;
        self.new_limit = false;
    }

    /// Chooses anew what runs on the CPUs to which something has happened. The others go on as they do.
    fn choose_by_event(&mut self) {
        if self.stale {
            self.select_by_event();
        }
        let touched = std::mem::take(&mut self.touched);
        // No CPU gets a level before all have given up theirs.
        for cpu in &touched {
            self.book_for_later(*cpu);
            self.set_cpu_of_levels(*cpu, None);
        }
        for cpu in &touched {
            let processor = &mut self.cpus[*cpu];
            processor.touched = false;
            processor.member = self.levels[0].member_on(*cpu);
            processor.passing.clear();
            if *cpu == 0 {
                processor.passing.extend(&self.host_passing);
            }
            self.descend(*cpu);
            self.set_cpu_of_levels(*cpu, Some(*cpu));
            self.set_limit(*cpu);
        }
        self.touched = touched;
        self.touched.clear();
    }

    /// The members of the host that come first get its CPUs.
    fn select_by_event(&mut self) {
        let mut changed = std::mem::take(&mut self.chosen);
        let mut passing = Vec::new();
        let root = &mut self.levels[0];
        root.choose_for_cpus(self.cpus.len(), &mut changed, &mut passing);
        for cpu in changed.drain(..) {
            self.touch(cpu);
        }
        self.chosen = changed;
        let passing = self.levels_of(&passing);
        if passing != self.host_passing {
            self.host_passing = passing;
            self.touch(0);
        }
    }

    /// Notes of the levels that run on a CPU, or whose budgets pass there, that they do, or that they
    /// do not. The host runs on all.
    fn set_cpu_of_levels(&mut self, cpu: usize, to: Option<usize>) {
        let processor = &self.cpus[cpu];
        let running = processor.path.iter().skip(1).map(|(level, _)| level);
        for level in running.chain(&processor.passing) {
            self.levels[*level].cpu = to;
        }
    }

    /// The reservations among these members of the host.
    fn levels_of(&self, members: &[usize]) -> Vec<usize> {
        let children = members
            .iter()
            .map(|member| self.levels[0].children[*member]);
        let levels = children.filter_map(|child| match child {
            Child::Level(level) => Some(level),
            Child::Task(_) => None,
        });
        levels.collect()
    }

    fn set_limit(&mut self, cpu: usize) {
        let length = self.length_of(cpu);
        self.limits.set(cpu, self.now.saturating_add(length));
    }

    /// From the host down to the task on the only CPU, which does nothing else; returns how long it can
    /// go on so. What [`Self::select`] and [`Self::length_of`] find in two walks, since most simulations
    /// are of one CPU.
    fn select_for_one(&mut self) -> u64 {
        let processor = &mut self.cpus[0];
        processor.path.clear();
        processor.passing.clear();
        processor.running = None;
        let (mut length, mut level) = (NEVER, 0);
        loop {
            let scheduler = &mut self.levels[level];
            let first = scheduler.first();
            if let Some(member) = scheduler.passing_before(first)
                && let Child::Level(passing) = scheduler.children[member]
            {
                processor.passing.push(passing);
            }
            let Some(member) = first else { break };
            processor.path.push((level, member));
            length = length
                .min(scheduler.turn(member))
                .min(scheduler.account.left());
            match scheduler.children[member] {
                Child::Level(inner) => level = inner,
                Child::Task(task) => {
                    scheduler.begin(member);
                    processor.running = Some(task);
                    break;
                }
            }
        }
        processor.member = processor.path.first().map(|(_, member)| *member);
        for passing in &processor.passing {
            length = length.min(self.levels[*passing].account.left());
        }
        let (running, speed) = (processor.running, processor.speed);
        running.map_or(length, |task| length.min(self.length_of_work(task, speed)))
    }

    fn select(&mut self) {
        if let [processor] = self.cpus.as_mut_slice() {
            let root = &self.levels[0];
            let first = root.first();
            processor.passing.clear();
            if let Some(member) = root.passing_before(first)
                && let Child::Level(passing) = root.children[member]
            {
                processor.passing.push(passing);
            }
            processor.member = first;
        } else if self.pinned.is_empty() {
            self.select_for_several();
        } else {
            self.select_for_each();
        }
        for cpu in 0..self.cpus.len() {
            self.descend(cpu);
        }
    }

    /// The first of those that are pinned to each CPU.
    fn select_for_each(&mut self) {
        let root = &self.levels[0];
        for (processor, pinned) in self.cpus.iter_mut().zip(&self.pinned) {
            let (first, passing) = root.first_among(pinned);
            processor.member = first;
            processor.passing.clear();
            if let Some(Child::Level(level)) = passing.map(|member| root.children[member]) {
                processor.passing.push(level);
            }
        }
    }

    fn select_for_several(&mut self) {
        let mut chosen = std::mem::take(&mut self.chosen);
        let mut passing = Vec::new();
        chosen.clear();
        let root = &self.levels[0];
        let staying = root.first_of_several(self.cpus.len(), &mut chosen, &mut passing);
        assign(&mut self.cpus, &self.by_speed, &chosen, staying);
        self.chosen = chosen;
        for processor in &mut self.cpus {
            processor.passing.clear();
        }
        // Which CPU a budget would have been used on does not matter to it.
        let levels = self.levels_of(&passing);
        if let Some(first) = self.cpus.first_mut() {
            first.passing.extend(levels);
        }
    }

    /// From the chosen member of the outermost level down to the task.
    fn descend(&mut self, cpu: usize) {
        let processor = &mut self.cpus[cpu];
        let before = processor.running.take();
        processor.path.clear();
        let mut level = 0;
        let mut next = processor.member;
        while let Some(member) = next {
            processor.path.push((level, member));
            match self.levels[level].children[member] {
                Child::Level(inner) => {
                    level = inner;
                    let scheduler = &self.levels[level];
                    next = scheduler.first();
                    if let Some(member) = scheduler.passing_before(next)
                        && let Child::Level(passing) = scheduler.children[member]
                    {
                        processor.passing.push(passing);
                    }
                }
                Child::Task(task) => {
                    self.levels[level].begin(member);
                    processor.running = Some(task);
                    break;
                }
            }
        }
        processor.looks |= processor.running != before;
    }

    /// What the operating system takes for the choice.
    fn charge(&mut self) {
        for (cpu, processor) in self.cpus.iter_mut().enumerate() {
            if std::mem::take(&mut processor.looks) {
                processor.take(self.costs.scheduler_invocation, self.now);
            }
            let Some(task) = processor.running else {
                continue;
            };
            let Some(first) = self.tasks[task].backlog.first_mut() else {
                continue;
            };
            if processor.last.replace(task) != Some(task) {
                processor.take(self.costs.context_switch, self.now);
            }
            if first.cpu.replace(cpu).is_some_and(|before| before != cpu) {
                processor.take(self.costs.migration, self.now);
            }
        }
    }

    /// How long a CPU can go on as it does.
    fn length_of(&self, cpu: usize) -> u64 {
        let processor = &self.cpus[cpu];
        let passing = processor.passing.iter();
        let mut length = passing
            .map(|level| self.levels[*level].account.left())
            .min()
            .unwrap_or(NEVER);
        if processor.kernel_until > self.now {
            return length.min(processor.kernel_until - self.now);
        }
        for (level, member) in &processor.path {
            length = length
                .min(self.levels[*level].turn(*member))
                .min(self.left_of(*level));
        }
        let Some(task) = processor.running else {
            return length;
        };
        length.min(self.length_of_work(task, processor.speed))
    }

    /// How long the first job of a task takes, to its end or to the next boundary of its sections.
    #[inline]
    fn length_of_work(&self, task: usize, speed: u64) -> u64 {
        let Some(first) = self.tasks[task].backlog.first() else {
            return NEVER;
        };
        let work = if self.locks.has_sections(task) {
            let boundary = self
                .locks
                .until_boundary(task, first.boundary, first.done());
            first.left.min(boundary)
        } else {
            first.left
        };
        match speed {
            1 => work,
            speed => work.div_ceil(speed),
        }
    }
}
