//! The state of the recorded host as events go by: who runs where, who waits, and for what.

use std::collections::{BTreeSet, HashMap};

use super::calls::{CallMeaning, CallTable};
use super::cause::{LatencyCause, PartId, PartTable};
use super::domain_supply::WithheldDomain;
use super::thread_log::{NOBODY, ThreadActivity, ThreadLog};
use crate::kernel::{
    InterruptContext, KernelEvent, KernelEventKind, OffCpuState, ThreadName, ThreadSwitch,
};
use crate::recording::{RecordedProcess, RecordingHeader};

/// The idle thread of every CPU.
const IDLE: u32 = 0;

/// What a thread is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadMode {
    /// It runs.
    OnCpu,
    /// It could run.
    Runnable,
    /// It sleeps.
    Sleeping,
    /// It sleeps for a device or for memory.
    Uninterruptible,
    /// A signal stopped it.
    Stopped,
}

/// A system call that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenCall {
    pub(crate) number: u64,
    pub(crate) descriptor: u32,
}

/// A thread.
#[derive(Clone, Debug)]
pub(crate) struct ThreadState {
    name: ThreadName,
    pub(crate) process: u32,
    domain: Option<usize>,
    mode: ThreadMode,
    cpu: u32,
    rank: i32,
    on_since: u64,
    call: Option<OpenCall>,
    has_faulted: bool,
    contends: bool,
    /// When it ended: what it did may still be asked for.
    ended: Option<u64>,
    /// Whether it sleeps in the freezer, and so until it is woken, thawed or not.
    in_freezer: bool,
    /// When it was woken last.
    pub(crate) woken: u64,
    /// The connection that it works for.
    pub(crate) owner: u32,
    /// What it did, for threads that somebody asks about.
    pub(crate) log: Option<ThreadLog>,
    /// The part that it stands for when it preempts another; made when first needed.
    preempts: Option<PartId>,
    /// The same where the other belongs to its domain.
    goes_before: Option<PartId>,
}

impl ThreadState {
    fn rename(&mut self, name: ThreadName) {
        self.name = name;
        (self.preempts, self.goes_before) = (None, None);
    }
}

#[derive(Clone, Debug, Default)]
struct CpuState {
    current: u32,
    interrupts: Vec<InterruptContext>,
    stalled_until: u64,
    /// Threads with a log that could run here and do not.
    waiting: BTreeSet<u32>,
}

/// The host.
#[derive(Debug)]
pub(crate) struct HostState<'a> {
    header: &'a RecordingHeader,
    pub(crate) calls: CallTable,
    pub(crate) parts: PartTable,
    threads: HashMap<u32, ThreadState>,
    cpus: HashMap<u32, CpuState>,
    domains: Vec<WithheldDomain>,
    interrupt_parts: HashMap<InterruptContext, PartId>,
    call_parts: HashMap<(u64, bool), PartId>,
    fixed: FixedParts,
    /// Threads that are watched from their beginning.
    expected: BTreeSet<u32>,
    now: u64,
}

/// Parts without a detail of their own.
#[derive(Clone, Copy, Debug)]
struct FixedParts {
    withheld: PartId,
    outside_window: PartId,
    stall: PartId,
    stopped: PartId,
    waking: PartId,
    page_fault: PartId,
    device: PartId,
    kernel_lock: PartId,
    unknown: PartId,
}

impl FixedParts {
    fn new(parts: &mut PartTable) -> Self {
        Self {
            withheld: parts.number(LatencyCause::BudgetUsedUp, ""),
            outside_window: parts.number(LatencyCause::OutsideWindow, ""),
            stall: parts.number(LatencyCause::HostStall, ""),
            stopped: parts.number(LatencyCause::Stopped, ""),
            waking: parts.number(LatencyCause::Preempted, "an idle CPU that wakes up"),
            page_fault: parts.number(LatencyCause::Blocked, "page fault"),
            device: parts.number(LatencyCause::Blocked, "input and output"),
            kernel_lock: parts.number(LatencyCause::Blocked, "lock of the kernel"),
            unknown: parts.number(LatencyCause::Blocked, "unknown"),
        }
    }
}

impl<'a> HostState<'a> {
    /// The host at the beginning of a recording. `later` are processes that its end names.
    pub(crate) fn new(header: &'a RecordingHeader, later: &[RecordedProcess]) -> Self {
        let mut parts = PartTable::default();
        let mut host = Self {
            header,
            calls: CallTable::new(&header.calls),
            fixed: FixedParts::new(&mut parts),
            parts,
            threads: HashMap::new(),
            cpus: HashMap::new(),
            domains: header.domains.iter().map(WithheldDomain::new).collect(),
            interrupt_parts: HashMap::new(),
            call_parts: HashMap::new(),
            expected: BTreeSet::new(),
            now: header.started.as_nanos(),
        };
        for process in header.processes.iter().chain(later) {
            for thread in &process.threads {
                host.insert(thread.tid, thread.name.as_str().into(), process.pid);
            }
            host.domains
                .iter_mut()
                .for_each(|domain| domain.note_cgroups(process));
        }
        host
    }

    fn insert(&mut self, tid: u32, name: ThreadName, process: u32) {
        let domain = self
            .domains
            .iter()
            .position(|domain| domain.has(tid, process));
        let state = ThreadState {
            name,
            process,
            domain,
            mode: ThreadMode::Sleeping,
            cpu: u32::MAX,
            rank: 120,
            on_since: self.now,
            call: None,
            has_faulted: false,
            contends: false,
            ended: None,
            in_freezer: false,
            woken: 0,
            owner: NOBODY,
            log: None,
            preempts: None,
            goes_before: None,
        };
        self.threads.insert(tid, state);
    }

    /// A thread.
    pub(crate) fn thread(&self, tid: u32) -> Option<&ThreadState> {
        self.threads.get(&tid)
    }

    /// The name of a thread.
    pub(crate) fn thread_name(&self, tid: u32) -> String {
        self.threads
            .get(&tid)
            .map_or_else(|| tid.to_string(), |thread| thread.name.text())
    }

    /// Every thread of some processes.
    pub(crate) fn threads_of(&self, processes: &BTreeSet<u32>) -> Vec<u32> {
        let threads = self.threads.iter();
        let own = threads.filter(|(_, thread)| processes.contains(&thread.process));
        own.map(|(tid, _)| *tid).collect()
    }

    /// The thread of a domain that has one alone.
    pub(crate) fn only_thread_of(&self, domain: &str) -> Option<u32> {
        let domain = self
            .domains
            .iter()
            .position(|state| state.name() == domain)?;
        let threads = self.threads.iter();
        let mut own = threads.filter(|(_, thread)| thread.domain == Some(domain));
        let only = own.next().map(|(tid, _)| *tid);
        only.filter(|_| own.next().is_none())
    }

    /// Keeps a log of a thread that is about to be made.
    pub(crate) fn watch_when_known(&mut self, tid: u32) {
        self.expected.insert(tid);
    }

    /// Keeps a log of what a thread does from here on.
    pub(crate) fn watch(&mut self, tid: u32) {
        if let Some(thread) = self.threads.get_mut(&tid)
            && thread.log.is_none()
        {
            thread.log = Some(ThreadLog::default());
            self.relabel(tid);
        }
    }

    /// Forgets what threads did before an instant.
    pub(crate) fn forget_before(&mut self, instant: u64) {
        self.threads
            .retain(|_, thread| thread.ended.is_none_or(|ended| ended >= instant));
        for thread in self.threads.values_mut() {
            if let Some(log) = &mut thread.log {
                log.forget_before(instant);
            }
        }
    }

    /// A thread works for another connection from here on.
    pub(crate) fn set_owner(&mut self, tid: u32, owner: u32) {
        if let Some(thread) = self.threads.get_mut(&tid)
            && thread.owner != owner
        {
            thread.owner = owner;
            self.relabel(tid);
        }
    }

    /// A CPU that was silent although its sampler was due has been taken away until then.
    pub(crate) fn stall(&mut self, cpu: u32, at: u64, until: u64) {
        self.now = self.now.max(at);
        self.cpus.entry(cpu).or_default().stalled_until = until;
        self.relabel_cpu(cpu);
    }

    /// Takes in an event. System calls are of interest to whoever follows conversations, too.
    pub(crate) fn take(&mut self, event: &KernelEvent) {
        self.now = event.at.as_nanos();
        self.cpus.entry(event.cpu).or_default();
        match &event.kind {
            KernelEventKind::ThreadSwitch(switch) => self.switch(event.cpu, switch),
            KernelEventKind::Waking {
                thread,
                name,
                target_cpu,
            } => self.wake(*thread, *name, *target_cpu),
            KernelEventKind::NewThread {
                thread,
                name,
                same_process,
            } => self.new_thread(event.thread, *thread, *name, *same_process),
            KernelEventKind::Rename { thread, name } => {
                if let Some(thread) = self.threads.get_mut(thread) {
                    thread.rename(*name);
                }
            }
            KernelEventKind::Exit { .. } | KernelEventKind::Idle { .. } => {}
            KernelEventKind::InterruptEntry(interrupt) => {
                self.cpus
                    .entry(event.cpu)
                    .or_default()
                    .interrupts
                    .push(*interrupt);
                self.relabel_cpu(event.cpu);
            }
            KernelEventKind::InterruptExit(interrupt) => {
                let stack = &mut self.cpus.entry(event.cpu).or_default().interrupts;
                // An exit without its entry is of the time before the recording, or its entry was lost.
                if let Some(place) = stack.iter().rposition(|one| one == interrupt) {
                    stack.truncate(place);
                }
                self.relabel_cpu(event.cpu);
            }
            KernelEventKind::TimerExpiry { function, timer } => self.replenish(*function, *timer),
            KernelEventKind::CallEntry { number, first, .. } => {
                let descriptor = u32::try_from(*first).unwrap_or(u32::MAX);
                let number = *number;
                self.set_call(event.thread, Some(OpenCall { number, descriptor }));
            }
            KernelEventKind::CallExit { .. } => self.set_call(event.thread, None),
            KernelEventKind::ContentionBegin { .. } => self.set_contends(event.thread, true),
            KernelEventKind::ContentionEnd { .. } => self.set_contends(event.thread, false),
            KernelEventKind::PageFault { .. } => {
                if let Some(thread) = self.threads.get_mut(&event.thread) {
                    thread.has_faulted = true;
                }
            }
            KernelEventKind::Freezer { path, frozen, .. } => self.freeze(path, *frozen),
            // A lock that is free makes nobody wait; waits have events of their own.
            KernelEventKind::Lock(_) => {}
            KernelEventKind::Lost { .. } => {
                self.cpus.entry(event.cpu).or_default().interrupts.clear();
                self.relabel_cpu(event.cpu);
            }
        }
    }

    fn switch(&mut self, cpu: u32, switch: &ThreadSwitch) {
        self.name_thread(switch.previous, switch.previous_name);
        self.name_thread(switch.next, switch.next_name);
        self.leave(cpu, switch);
        self.judge_budgets(cpu, switch);
        if let Some(thread) = self.threads.get_mut(&switch.previous)
            && switch.state == OffCpuState::Ended
        {
            thread.ended = Some(self.now);
        }
        let now = self.now;
        if switch.next != IDLE
            && let Some(thread) = self.threads.get_mut(&switch.next)
        {
            let before = std::mem::replace(&mut thread.cpu, cpu);
            thread.mode = ThreadMode::OnCpu;
            thread.rank = switch.next_rank;
            thread.on_since = now;
            thread.has_faulted = false;
            if let Some(domain) = thread.domain {
                self.domains[domain].runs();
            }
            for place in [before, cpu] {
                if let Some(place) = self.cpus.get_mut(&place) {
                    place.waiting.remove(&switch.next);
                }
            }
        }
        self.cpus.entry(cpu).or_default().current = switch.next;
        self.relabel(switch.previous);
        self.relabel_cpu(cpu);
    }

    /// The thread that leaves a CPU.
    fn leave(&mut self, cpu: u32, switch: &ThreadSwitch) {
        let now = self.now;
        let Some(thread) = self
            .threads
            .get_mut(&switch.previous)
            .filter(|_| switch.previous != IDLE)
        else {
            return;
        };
        let ran = now.saturating_sub(thread.on_since);
        (thread.cpu, thread.rank, thread.on_since) = (cpu, switch.previous_rank, now);
        thread.mode = match switch.state {
            OffCpuState::Runnable => ThreadMode::Runnable,
            OffCpuState::Sleeping => ThreadMode::Sleeping,
            OffCpuState::Uninterruptible => ThreadMode::Uninterruptible,
            OffCpuState::Stopped | OffCpuState::Ended => ThreadMode::Stopped,
        };
        let is_frozen = thread
            .domain
            .is_some_and(|domain| self.domains[domain].is_frozen());
        thread.in_freezer =
            is_frozen && thread.mode == ThreadMode::Sleeping && thread.call.is_none();
        if let Some(domain) = thread.domain {
            self.domains[domain].used(ran);
        }
        if thread.mode == ThreadMode::Runnable && thread.log.is_some() {
            self.cpus
                .entry(cpu)
                .or_default()
                .waiting
                .insert(switch.previous);
        }
    }

    /// Judges the budgets of the domains whose threads could run on a CPU that goes to another thread. Often the thread that
    /// has the CPU next is more urgent and short, such as a tick's work, and only the one behind it shows that the budget
    /// was used up.
    fn judge_budgets(&mut self, cpu: u32, switch: &ThreadSwitch) {
        let next = (switch.next != IDLE).then_some(switch.next_rank);
        let Some(state) = self.cpus.get(&cpu) else {
            return;
        };
        for tid in state.waiting.iter().filter(|tid| **tid != switch.next) {
            if let Some(thread) = self.threads.get(tid)
                && let Some(domain) = thread.domain
            {
                self.domains[domain].judge(thread.rank, next);
            }
        }
    }

    fn name_thread(&mut self, tid: u32, name: ThreadName) {
        if tid == IDLE {
            return;
        }
        match self.threads.get_mut(&tid) {
            Some(thread) if thread.name == name => {}
            Some(thread) => thread.rename(name),
            None => self.insert(tid, name, tid),
        }
    }

    fn wake(&mut self, tid: u32, name: ThreadName, cpu: u32) {
        self.name_thread(tid, name);
        let now = self.now;
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        if matches!(thread.mode, ThreadMode::OnCpu | ThreadMode::Runnable) {
            return;
        }
        (thread.mode, thread.cpu, thread.woken) = (ThreadMode::Runnable, cpu, now);
        thread.in_freezer = false;
        if thread.log.is_some() {
            self.cpus.entry(cpu).or_default().waiting.insert(tid);
            self.relabel(tid);
        }
    }

    fn new_thread(&mut self, parent: u32, tid: u32, name: ThreadName, same_process: bool) {
        let parents = self
            .threads
            .get(&parent)
            .map(|thread| (thread.process, thread.domain));
        let process = parents.map_or(tid, |(process, _)| process);
        // A number that is used again names somebody else.
        self.insert(tid, name, if same_process { process } else { tid });
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.domain = parents.and_then(|(_, domain)| domain);
        }
        if self.expected.remove(&tid) {
            self.watch(tid);
        }
    }

    fn set_call(&mut self, tid: u32, call: Option<OpenCall>) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.call = call;
            thread.has_faulted = false;
        }
    }

    fn set_contends(&mut self, tid: u32, contends: bool) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.contends = contends;
            if thread.log.is_some() {
                self.relabel(tid);
            }
        }
    }

    /// The call that a thread is in.
    pub(crate) fn open_call(&self, tid: u32) -> Option<OpenCall> {
        self.threads.get(&tid)?.call
    }

    fn freeze(&mut self, path: &str, frozen: bool) {
        for domain in &mut self.domains {
            domain.freeze(path, frozen);
        }
        self.relabel_domains();
    }

    fn replenish(&mut self, function: u64, timer: u64) {
        let Some(name) = self.header.timer_functions.get(&function) else {
            return;
        };
        let now = self.now;
        let mut changed = false;
        for domain in &mut self.domains {
            changed |= domain.replenish(name, timer, now);
        }
        if changed {
            self.relabel_domains();
        }
    }

    fn relabel_domains(&mut self) {
        let threads = self.threads.iter();
        let watched = threads.filter(|(_, thread)| thread.domain.is_some() && thread.log.is_some());
        let watched: Vec<u32> = watched.map(|(tid, _)| *tid).collect();
        watched.into_iter().for_each(|tid| self.relabel(tid));
    }

    /// Notes anew what those threads with a log do that run or wait on a CPU.
    fn relabel_cpu(&mut self, cpu: u32) {
        let Some(state) = self.cpus.get(&cpu) else {
            return;
        };
        let current = state.current;
        if state.waiting.is_empty() {
            return self.relabel(current);
        }
        let waiting: Vec<u32> = state.waiting.iter().copied().collect();
        self.relabel(current);
        waiting.into_iter().for_each(|tid| self.relabel(tid));
    }

    fn relabel(&mut self, tid: u32) {
        let Some(thread) = self.threads.get(&tid).filter(|thread| thread.log.is_some()) else {
            return;
        };
        let (now, owner) = (self.now, thread.owner);
        let activity = self.activity(tid);
        if let Some(log) = self
            .threads
            .get_mut(&tid)
            .and_then(|thread| thread.log.as_mut())
        {
            log.push(now, activity, owner);
        }
    }

    /// What a thread does now.
    fn activity(&mut self, tid: u32) -> ThreadActivity {
        let Some(thread) = self.threads.get(&tid) else {
            return ThreadActivity::Idle;
        };
        let (mode, cpu, call, contends) = (thread.mode, thread.cpu, thread.call, thread.contends);
        let (has_faulted, of_domain) = (thread.has_faulted, thread.domain);
        let domain = of_domain.map(|domain| &self.domains[domain]);
        let withheld = thread.in_freezer || domain.is_some_and(WithheldDomain::is_withheld);
        let has_windows = domain.is_some_and(WithheldDomain::has_windows);
        match mode {
            _ if thread.ended.is_some() => ThreadActivity::Idle,
            ThreadMode::Stopped => ThreadActivity::Kept(self.fixed.stopped),
            ThreadMode::OnCpu => match self.interruption(cpu) {
                Some(part) => ThreadActivity::Kept(part),
                None if contends => ThreadActivity::Kept(self.fixed.kernel_lock),
                None => ThreadActivity::Running,
            },
            _ if withheld && has_windows => ThreadActivity::Kept(self.fixed.outside_window),
            _ if withheld => ThreadActivity::Kept(self.fixed.withheld),
            ThreadMode::Runnable => ThreadActivity::Kept(self.occupant(cpu, of_domain)),
            ThreadMode::Sleeping | ThreadMode::Uninterruptible if contends => {
                ThreadActivity::Kept(self.fixed.kernel_lock)
            }
            ThreadMode::Uninterruptible => ThreadActivity::Kept(match (has_faulted, call) {
                (true, _) => self.fixed.page_fault,
                (false, Some(call)) => self.blocked_in(call, true),
                (false, None) => self.fixed.device,
            }),
            ThreadMode::Sleeping => match call {
                None => ThreadActivity::Kept(self.fixed.unknown),
                Some(call) => match self.calls.meaning(call.number) {
                    CallMeaning::AwaitsWork | CallMeaning::Reads => ThreadActivity::Idle,
                    _ => ThreadActivity::Kept(self.blocked_in(call, false)),
                },
            },
        }
    }

    /// What has a CPU in place of its thread: a hypervisor, or an interrupt.
    fn interruption(&mut self, cpu: u32) -> Option<PartId> {
        let state = self.cpus.get(&cpu)?;
        if state.stalled_until > self.now {
            return Some(self.fixed.stall);
        }
        let interrupt = *state.interrupts.last()?;
        let (parts, lines) = (&mut self.parts, &self.header.interrupt_lines);
        let part = self.interrupt_parts.entry(interrupt).or_insert_with(|| {
            let name = interrupt.name(|line| lines.get(&line).cloned());
            parts.number(LatencyCause::Interrupt, &name)
        });
        Some(*part)
    }

    /// The part of a thread that could run, and belongs to a domain, if any: who has its CPU. A thread of the same domain
    /// is the service at work for other requests.
    fn occupant(&mut self, cpu: u32, waiting_domain: Option<usize>) -> PartId {
        if let Some(part) = self.interruption(cpu) {
            return part;
        }
        let current = self.cpus.get(&cpu).map_or(IDLE, |state| state.current);
        let Some(thread) = self.threads.get_mut(&current).filter(|_| current != IDLE) else {
            return self.fixed.waking;
        };
        let is_of_same = waiting_domain.is_some() && thread.domain == waiting_domain;
        let made = match is_of_same {
            true => thread.goes_before,
            false => thread.preempts,
        };
        if let Some(part) = made {
            return part;
        }
        if is_of_same {
            let detail = format!("another thread of it has the CPU: {}", thread.name.text());
            let part = self.parts.number(LatencyCause::Queued, &detail);
            thread.goes_before = Some(part);
            return part;
        }
        let mut detail = plain_name(&thread.name.text());
        if let Some(domain) = thread.domain {
            detail = format!("{detail} of domain {}", self.domains[domain].name());
        }
        let part = self.parts.number(LatencyCause::Preempted, &detail);
        thread.preempts = Some(part);
        part
    }

    fn blocked_in(&mut self, call: OpenCall, uninterruptible: bool) -> PartId {
        let key = (call.number, uninterruptible);
        if let Some(part) = self.call_parts.get(&key) {
            return *part;
        }
        let name = self.calls.name(call.number);
        let detail = match self.calls.meaning(call.number) {
            CallMeaning::Locks => format!("lock or hand-over ({name})"),
            CallMeaning::Sleeps => format!("sleeps by itself ({name})"),
            CallMeaning::Device => format!("input and output ({name})"),
            _ if uninterruptible => format!("input and output ({name})"),
            _ => format!("in {name}"),
        };
        let part = self.parts.number(LatencyCause::Blocked, &detail);
        self.call_parts.insert(key, part);
        part
    }
}

/// A thread's name without the numbers that workers of the kernel have.
fn plain_name(name: &str) -> String {
    match name.split_once('/') {
        Some((
            kind @ ("kworker" | "ksoftirqd" | "migration" | "cpuhp" | "rcuc" | "ktimers"),
            _,
        )) => kind.to_string(),
        _ => name.to_string(),
    }
}
