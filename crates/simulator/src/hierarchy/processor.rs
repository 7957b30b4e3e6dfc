//! A CPU in the course of a simulation.

use super::members::MemberSet;

/// What a CPU does.
#[derive(Clone, Debug)]
pub(super) struct Processor {
    /// Work per nanosecond.
    pub(super) speed: u64,
    /// The member of the outermost level that it runs.
    pub(super) member: Option<usize>,
    /// The members that run, from the host down to the task.
    pub(super) path: Vec<(usize, usize)>,
    /// The levels whose budget passes although they do nothing.
    pub(super) passing: Vec<usize>,
    /// The task that runs, or will when the operating system is done.
    pub(super) running: Option<usize>,
    /// The task that ran last.
    pub(super) last: Option<usize>,
    /// Until when what it did is booked: told, and charged to jobs, budgets and turns.
    pub(super) booked: u64,
    /// Whether something has happened that may matter to what it runs, or for how long.
    pub(super) touched: bool,
    /// Until when the operating system has it.
    pub(super) kernel_until: u64,
    /// Whether the scheduler looks what to run because of something that happened here.
    pub(super) looks: bool,
}

impl Processor {
    pub(super) fn new(speed: u64) -> Self {
        Self {
            speed,
            member: None,
            path: Vec::new(),
            passing: Vec::new(),
            running: None,
            last: None,
            booked: 0,
            touched: false,
            kernel_until: 0,
            looks: false,
        }
    }

    /// The operating system takes so much, behind what it does already.
    pub(super) fn take(&mut self, cost: u64, now: u64) {
        if cost > 0 {
            self.kernel_until = self.kernel_until.max(now).saturating_add(cost);
        }
    }
}

/// Which CPU runs which of the chosen members of the outermost level, which come in their order.
///
/// The first `staying` of them do not leave the CPUs that they have. Of the others the first get the
/// fastest CPUs; among CPUs that are equally fast a member stays where it is. `by_speed` are the CPUs,
/// fastest first.
pub(super) fn assign(cpus: &mut [Processor], by_speed: &[usize], chosen: &[usize], staying: usize) {
    let (staying, mut moving) = chosen.split_at(staying);
    let stays = |cpu: &Processor| cpu.member.is_some_and(|member| staying.contains(&member));
    let free: Vec<usize> = by_speed
        .iter()
        .copied()
        .filter(|cpu| !stays(&cpus[*cpu]))
        .collect();
    let speeds: Vec<u64> = cpus.iter().map(|cpu| cpu.speed).collect();
    for group in free.chunk_by(|one, other| speeds[*one] == speeds[*other]) {
        let (members, rest) = moving.split_at(group.len().min(moving.len()));
        moving = rest;
        assign_equals(cpus, group, members);
    }
}

fn assign_equals(cpus: &mut [Processor], group: &[usize], members: &[usize]) {
    let chosen = MemberSet::of(members);
    let mut staying = MemberSet::default();
    for cpu in group {
        let processor = &mut cpus[*cpu];
        processor.member = processor.member.filter(|member| chosen.contains(*member));
        if let Some(member) = processor.member {
            staying.insert(member);
        }
    }
    let mut free = 0;
    for member in members.iter().filter(|member| !staying.contains(**member)) {
        while cpus[group[free]].member.is_some() {
            free += 1;
        }
        cpus[group[free]].member = Some(*member);
    }
}
