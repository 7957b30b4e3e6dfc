//! The members of one domain, and one look at them.

use std::collections::BTreeMap;
use std::io;

use tailbound_model::CpuSet;

use super::record::{Adoption, AdoptionRecord};
use super::rules::{Fault, Rules, Seen, Verdict, is_real_time};
use super::{AuditSummary, AuditedDomain};
use crate::SchedulingSetting;
use crate::change::is_of_agent;
use crate::executor::{members, threads_below};
use crate::kernel::{KernelState, KernelView};

/// What is known of a member.
#[derive(Clone, Debug)]
struct Member {
    /// The thread, and what it had before it got something else.
    before: Adoption,
    /// Where its adoption is recorded; the journal tells of the first members.
    slot: Option<usize>,
    /// Whether it runs without the domain's policy: it gave that up by itself, or was demoted.
    lowered: bool,
    /// How often it left the domain's CPUs.
    strays: u32,
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
    members: BTreeMap<u32, Member>,
    pub(super) summary: AuditSummary,
    /// From which look on children are adopted.
    adopts_from: u64,
}

impl DomainAudit {
    /// A domain whose first members are those that the journal tells of.
    pub fn new(audited: AuditedDomain) -> Self {
        let mut this = Self {
            members: BTreeMap::new(),
            summary: AuditSummary::default(),
            adopts_from: 0,
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
            let known = self.members.get(&journaled.tid);
            if known.is_some_and(|member| member.before.started == journaled.started) {
                continue;
            }
            let member = Member {
                before: Adoption {
                    tid: journaled.tid,
                    started: journaled.started,
                    had: Some(journaled.had),
                    affinity: None,
                },
                slot: None,
                lowered: false,
                strays: 0,
            };
            self.members.insert(journaled.tid, member);
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
            match fault {
                Fault::Newcomer => self.summary.adopted += 1,
                Fault::Raised => self.summary.set_back += 1,
            }
        }
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
        verdict: &Verdict,
    ) -> io::Result<()> {
        debug_assert!(
            !self.members.contains_key(&tid),
            "a member is enrolled once"
        );
        let before = Adoption {
            tid,
            started: kernel.started(tid)?,
            had: verdict.scheduling.map(|_| seen.scheduling),
            affinity: verdict.affinity.as_ref().map(|_| seen.affinity.clone()),
        };
        let slot = match before.had.is_some() || before.affinity.is_some() {
            // Whatever the error is, it does not mean that the thread has ended.
            true => Some(record.enter(&before).map_err(io::Error::other)?),
            false => None,
        };
        let member = Member {
            lowered: before.had.is_none() && !is_real_time(seen.scheduling),
            before,
            slot,
            strays: 0,
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
