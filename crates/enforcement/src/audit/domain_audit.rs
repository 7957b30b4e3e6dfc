//! The members of one domain, and one look at them.

use std::collections::BTreeMap;
use std::io;

use tailbound_linux::process::RunTimes;
use tailbound_model::CpuSet;
use tailbound_time::{Duration, Instant};

use super::order::{Claim, CpuDemand, priorities};
use super::record::{Adoption, AdoptionRecord};
use super::rules::{Fault, Rules, Seen, ThreadVerdict, is_real_time};
use super::{AuditSummary, AuditedDomain};
use crate::SchedulingSetting;
use crate::change::is_of_agent;
use crate::executor::{members, threads_below};
use crate::kernel::{KernelState, KernelView};

/// What is known of a member.
#[derive(Clone, Debug)]
struct AuditedMember {
    /// The thread, and what it had before it got something else.
    before: Adoption,
    /// Where its adoption is recorded; the journal tells of the first members.
    slot: Option<usize>,
    /// Whether it runs without the domain's policy: it gave that up by itself, or was demoted.
    lowered: bool,
    /// How often it left the domain's CPUs.
    strays: u32,
    /// Its real-time policy by itself, if it is no ordinary thread.
    own: Option<SchedulingSetting>,
    /// The policy that it has since the latest look.
    now: Option<SchedulingSetting>,
    /// The times that it had run and waited at the latest look.
    run_times: Option<RunTimes>,
    /// The demand that it has for the CPU as an ordinary thread.
    demand: CpuDemand,
}

impl AuditedMember {
    fn new(before: Adoption, slot: Option<usize>) -> Self {
        Self {
            own: before.had.filter(|had| is_real_time(*had)),
            before,
            slot,
            lowered: false,
            strays: 0,
            now: None,
            run_times: None,
            demand: CpuDemand::default(),
        }
    }
}

/// How often a thread may leave the domain's CPUs and be brought back: programs place their threads when
/// they start. One that goes on leaving would be elsewhere most of the time, so it loses the priority.
const STRAYS_BORNE: u32 = 3;
/// How many looks pass before children are adopted again after that, since each would be borne so often.
const LOOKS_WITHOUT_ADOPTION: u64 = 1_000;

/// The members of one domain. A look changes only what the rules call wrong.
#[derive(Debug)]
pub struct DomainAudit {
    pub(super) audited: AuditedDomain,
    members: BTreeMap<u32, AuditedMember>,
    pub(super) summary: AuditSummary,
    /// From which look on children are adopted.
    adopts_from: u64,
    /// When the members were put in order.
    ordered_at: Option<Instant>,
}

impl DomainAudit {
    /// A domain whose first members are those that the journal tells of.
    pub fn new(audited: AuditedDomain) -> Self {
        let mut this = Self {
            members: BTreeMap::new(),
            summary: AuditSummary::default(),
            adopts_from: 0,
            ordered_at: None,
            audited,
        };
        this.take_journaled();
        this
    }

    /// Goes on with other rules, and with what is known of the members.
    pub fn update(&mut self, audited: AuditedDomain) {
        self.audited = audited;
        self.take_journaled();
    }

    fn take_journaled(&mut self) {
        self.summary.cpuset = self.audited.cpuset;
        for journaled in &self.audited.journaled {
            let member = self.members.get(&journaled.tid);
            if member.is_some_and(|member| member.before.started == journaled.started) {
                continue;
            }
            let before = Adoption {
                tid: journaled.tid,
                started: journaled.started,
                had: Some(journaled.had),
                affinity: None,
            };
            self.members
                .insert(journaled.tid, AuditedMember::new(before, None));
        }
    }

    /// What is audited.
    pub fn audited(&self) -> &AuditedDomain {
        &self.audited
    }

    /// What was found so far.
    pub fn summary(&self) -> &AuditSummary {
        &self.summary
    }

    /// Looks at every member once, and corrects what is wrong.
    pub fn look(&mut self, kernel: &mut dyn KernelState, record: &mut AdoptionRecord) {
        self.summary.passes += 1;
        self.take_in(kernel);
        let listed = self.listed(kernel);
        for (&tid, cpus) in &listed {
            let is_new = !self.members.contains_key(&tid);
            let Err(error) = self.look_at(kernel, record, tid, cpus) else {
                continue;
            };
            // What could not be corrected is as new to the next look.
            if is_new {
                self.forget(record, tid);
            }
            let has_ended = error.kind() == io::ErrorKind::NotFound;
            self.summary.failures += u64::from(!has_ended);
        }
        let absent = self.members.keys().filter(|tid| !listed.contains_key(tid));
        for tid in absent.copied().collect::<Vec<u32>>() {
            self.look_after_absent(kernel, record, tid);
        }
        self.put_in_order(kernel, record, &listed);
    }

    /// Moves what has entered the container to the other members. Nothing of it has to be recorded: it is where the
    /// group of the members is emptied to.
    fn take_in(&mut self, kernel: &mut dyn KernelState) {
        let Some((entrance, group)) = &self.audited.entrance else {
            return;
        };
        // A container that has ended has no such group.
        for pid in kernel.processes_in(entrance).unwrap_or_default() {
            match kernel.move_process(pid, group) {
                Ok(()) => self.summary.entered += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => self.summary.failures += 1,
            }
        }
    }

    /// The threads that are in the domain now, with their CPUs.
    fn listed(&self, kernel: &dyn KernelView) -> BTreeMap<u32, CpuSet> {
        let mut listed = BTreeMap::new();
        for (group, cpus) in &self.audited.groups {
            let threads = threads_below(kernel, group).into_iter();
            listed.extend(threads.map(|tid| (tid, cpus.clone())));
        }
        if let Some((inheritance, cpus)) = &self.audited.found_by {
            let threads = members(kernel, inheritance).into_iter();
            listed.extend(threads.map(|tid| (tid, cpus.clone())));
        }
        listed
    }

    fn look_at(
        &mut self,
        kernel: &mut dyn KernelState,
        record: &mut AdoptionRecord,
        tid: u32,
        cpus: &CpuSet,
    ) -> io::Result<()> {
        let seen = Seen {
            scheduling: kernel.scheduling(tid)?,
            affinity: kernel.affinity(tid)?,
        };
        self.note_lowering(kernel, record, tid, &seen)?;
        self.note_own_policy(tid, seen.scheduling);
        let rules = Rules {
            scheduling: self.audited.scheduling,
            cpus: cpus.clone(),
        };
        let is_new = !self.members.contains_key(&tid);
        let mut verdict = rules.judge(is_new, &seen);
        if self.summary.passes < self.adopts_from {
            verdict.scheduling = verdict
                .scheduling
                .filter(|(_, why)| *why != Fault::Newcomer);
        }
        if is_new {
            self.enrol(kernel, record, tid, &seen, &verdict)?;
        }
        if let Some(cpus) = verdict.affinity {
            kernel.set_affinity(tid, &cpus)?;
            // A newcomer from elsewhere has not strayed.
            if !is_new {
                self.summary.brought_back += 1;
                if self.has_strayed_too_often(kernel, tid, &seen)? {
                    return Ok(());
                }
            }
        }
        if let Some((setting, fault)) = verdict.scheduling {
            kernel.set_scheduling(tid, setting)?;
            self.note_policy(tid, setting);
            match fault {
                Fault::Newcomer => self.summary.adopted += 1,
                Fault::Raised => self.summary.set_back += 1,
            }
        }
        Ok(())
    }

    /// Whether a thread of this policy has a place in the domain's order.
    fn orders(&self, setting: SchedulingSetting) -> bool {
        self.audited.band.is_some() && is_real_time(setting) && !is_of_agent(setting)
    }

    fn note_policy(&mut self, tid: u32, setting: SchedulingSetting) {
        if let Some(member) = self.members.get_mut(&tid) {
            member.now = Some(setting);
        }
    }

    /// A real-time policy that neither the reservation nor the latest look gave to a member is its own choice.
    fn note_own_policy(&mut self, tid: u32, seen: SchedulingSetting) {
        let chosen = self.orders(seen) && Some(seen) != self.audited.scheduling;
        let Some(member) = self.members.get_mut(&tid) else {
            return;
        };
        if chosen && member.now.is_some_and(|before| before != seen) {
            member.own = Some(seen);
        }
        member.now = Some(seen);
    }

    /// Gives each member its priority in the domain's band.
    fn put_in_order(
        &mut self,
        kernel: &mut dyn KernelState,
        record: &mut AdoptionRecord,
        listed: &BTreeMap<u32, CpuSet>,
    ) {
        let Some(band) = self.audited.band else {
            return;
        };
        let now = kernel.now();
        let since = self.ordered_at.replace(now).unwrap_or(now);
        let due = self.due_in(now.saturating_since(since));
        // Threads of different CPUs wait for nothing of each other.
        let mut by_cpus: BTreeMap<&CpuSet, Vec<u32>> = BTreeMap::new();
        for (&tid, cpus) in listed {
            let policy = self.members.get(&tid).and_then(|member| member.now);
            if policy.is_some_and(|policy| self.orders(policy)) {
                by_cpus.entry(cpus).or_default().push(tid);
            }
        }
        for tids in by_cpus.into_values() {
            let claims = self.claims(kernel, &tids, due);
            for (tid, priority) in tids.into_iter().zip(priorities(band, &claims)) {
                let Err(error) = self.place(kernel, record, tid, priority) else {
                    continue;
                };
                let has_ended = error.kind() == io::ErrorKind::NotFound;
                self.summary.failures += u64::from(!has_ended);
            }
        }
    }

    /// What the domain's budget amounts to in such a time.
    fn due_in(&self, time: Duration) -> Duration {
        let (budget, period) = (self.audited.budget, self.audited.period);
        let ns = u128::from(budget.as_nanos()) * u128::from(time.as_nanos());
        let ns = ns / u128::from(period.as_nanos().max(1));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    fn claims(&mut self, kernel: &dyn KernelView, tids: &[u32], due: Duration) -> Vec<Claim> {
        let own = |this: &Self, tid: &u32| this.members.get(tid)?.own.and_then(real_time_priority);
        let ordinary = tids.iter().filter(|tid| own(self, tid).is_none()).count();
        let mut claims = Vec::with_capacity(tids.len());
        for tid in tids {
            claims.push(match own(self, tid) {
                Some(priority) => Claim::RealTime(priority),
                // One alone takes turns with nobody.
                None if ordinary < 2 => Claim::Ordinary(CpuDemand::default()),
                None => Claim::Ordinary(self.demand_of(kernel, *tid, due)),
            });
        }
        claims
    }

    fn demand_of(&mut self, kernel: &dyn KernelView, tid: u32, due: Duration) -> CpuDemand {
        let (Ok(now), Some(member)) = (kernel.run_times(tid), self.members.get_mut(&tid)) else {
            return CpuDemand::default();
        };
        let before = member.run_times.replace(now).unwrap_or(now);
        let since = RunTimes {
            used: now.used.saturating_sub(before.used),
            waited: now.waited.saturating_sub(before.waited),
        };
        member.demand = member.demand.after(since, due);
        member.demand
    }

    /// Gives a member a priority of the band, if it has another; what it had before is recorded first.
    fn place(
        &mut self,
        kernel: &mut dyn KernelState,
        record: &mut AdoptionRecord,
        tid: u32,
        priority: u8,
    ) -> io::Result<()> {
        let Some(member) = self.members.get_mut(&tid) else {
            return Ok(());
        };
        let Some(now) = member.now else {
            return Ok(());
        };
        let reset_on_fork = true;
        let setting = match member.own {
            Some(SchedulingSetting::RoundRobin { .. }) => SchedulingSetting::RoundRobin {
                priority,
                reset_on_fork,
            },
            _ => SchedulingSetting::Fifo {
                priority,
                reset_on_fork,
            },
        };
        if setting == now {
            return Ok(());
        }
        if member.before.had.is_none() {
            let before = Adoption {
                had: Some(now),
                ..member.before.clone()
            };
            // Nothing is known of it to a later look if it cannot be recorded now.
            let slot = record.enter(&before).map_err(io::Error::other)?;
            member.before = before;
            if let Some(replaced) = member.slot.replace(slot) {
                record.clear(replaced);
            }
        }
        kernel.set_scheduling(tid, setting)?;
        member.now = Some(setting);
        Ok(())
    }

    /// Counts that a member has left its CPUs; whether it lost the priority for that.
    fn has_strayed_too_often(
        &mut self,
        kernel: &mut dyn KernelState,
        tid: u32,
        seen: &Seen,
    ) -> io::Result<bool> {
        let Some(member) = self.members.get_mut(&tid) else {
            return Ok(false);
        };
        member.strays = member.strays.saturating_add(1);
        let given = self.audited.scheduling.is_some() && is_real_time(seen.scheduling);
        if !given || member.strays < STRAYS_BORNE {
            return Ok(false);
        }
        let had = member
            .before
            .had
            .unwrap_or(SchedulingSetting::Other { nice: 0 });
        let demoted = demote(kernel, tid, had)?;
        member.lowered |= demoted;
        if demoted {
            member.now = Some(had);
        }
        self.summary.demoted += u64::from(demoted);
        self.adopts_from = self.summary.passes + LOOKS_WITHOUT_ADOPTION;
        Ok(demoted)
    }

    /// A member that is no longer scheduled in real time has lowered itself, unless it has ended and its
    /// number is another thread's.
    fn note_lowering(
        &mut self,
        kernel: &dyn KernelView,
        record: &mut AdoptionRecord,
        tid: u32,
        seen: &Seen,
    ) -> io::Result<()> {
        let given = self.audited.scheduling.is_some();
        let Some(member) = self.members.get_mut(&tid).filter(|_| given) else {
            return Ok(());
        };
        let low = !is_real_time(seen.scheduling);
        if low == member.lowered {
            return Ok(());
        }
        if kernel.started(tid)? != member.before.started {
            self.forget(record, tid);
            return Ok(());
        }
        member.lowered = low;
        self.summary.lowered += u64::from(low);
        Ok(())
    }

    /// Knows a thread from now on; what it had is recorded before it gets something else.
    fn enrol(
        &mut self,
        kernel: &dyn KernelView,
        record: &mut AdoptionRecord,
        tid: u32,
        seen: &Seen,
        verdict: &ThreadVerdict,
    ) -> io::Result<()> {
        debug_assert!(
            !self.members.contains_key(&tid),
            "a member is enrolled once"
        );
        let before = Adoption {
            tid,
            started: kernel.started(tid)?,
            had: (verdict.scheduling.is_some() || self.orders(seen.scheduling))
                .then_some(seen.scheduling),
            affinity: verdict.affinity.as_ref().map(|_| seen.affinity.clone()),
        };
        let slot = match before.had.is_some() || before.affinity.is_some() {
            // Whatever the error is, it does not mean that the thread has ended.
            true => Some(record.enter(&before).map_err(io::Error::other)?),
            false => None,
        };
        let lowered = before.had.is_none() && !is_real_time(seen.scheduling);
        let member = AuditedMember {
            lowered,
            now: Some(seen.scheduling),
            ..AuditedMember::new(before, slot)
        };
        self.members.insert(tid, member);
        Ok(())
    }

    /// A member that is listed no more has ended, or somebody moved it: then it keeps its place, but not
    /// the priority that we gave it.
    fn look_after_absent(
        &mut self,
        kernel: &mut dyn KernelState,
        record: &mut AdoptionRecord,
        tid: u32,
    ) {
        let Some(member) = self.members.get(&tid) else {
            return;
        };
        let lives = kernel
            .started(tid)
            .is_ok_and(|now| now == member.before.started);
        let group = self.audited.groups.iter().find(|(group, _)| {
            let at = kernel.cgroup_of(tid, group);
            at.is_ok_and(|at| at.starts_with(group))
        });
        if lives && group.is_some() {
            // It moved between groups of the domain while they were listed.
            return;
        }
        if let (true, Some(had)) = (lives, member.before.had) {
            match demote(kernel, tid, had) {
                Ok(demoted) => self.summary.demoted += u64::from(demoted),
                Err(_) => {
                    // The next look tries again.
                    self.summary.failures += 1;
                    return;
                }
            }
        }
        self.forget(record, tid);
    }

    fn forget(&mut self, record: &mut AdoptionRecord, tid: u32) {
        if let Some(slot) = self.members.remove(&tid).and_then(|member| member.slot) {
            record.clear(slot);
        }
    }

    /// Gives adopted members what they had before; the journal has the others.
    pub fn release(&mut self, kernel: &mut dyn KernelState, record: &mut AdoptionRecord) {
        for member in std::mem::take(&mut self.members).into_values() {
            // What fails stays recorded.
            if let Some(slot) = member.slot
                && member.before.take_back(kernel).is_ok()
            {
                record.clear(slot);
            }
        }
    }
}

/// The priority of a real-time policy; that of SCHED_DEADLINE is above all.
fn real_time_priority(setting: SchedulingSetting) -> Option<u8> {
    use SchedulingSetting as S;
    match setting {
        S::Fifo { priority, .. } | S::RoundRobin { priority, .. } => Some(priority),
        S::Deadline { .. } => Some(u8::MAX),
        S::Other { .. } | S::Batch { .. } | S::Idle => None,
    }
}

/// Takes a real-time policy from a thread; whether it had one. Agents keep theirs.
pub(super) fn demote(
    kernel: &mut dyn KernelState,
    tid: u32,
    to: SchedulingSetting,
) -> io::Result<bool> {
    let outcome = kernel.scheduling(tid).and_then(|now| {
        let ours = is_real_time(now) && !is_of_agent(now) && now != to;
        match ours {
            true => kernel.set_scheduling(tid, to).map(|()| true),
            false => Ok(false),
        }
    });
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        outcome => outcome,
    }
}
