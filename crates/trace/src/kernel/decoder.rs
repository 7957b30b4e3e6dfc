//! From an event's bytes to a [`KernelEvent`], by the layouts of the kernel that recorded it.

use std::collections::BTreeMap;

use super::event::{
    InterruptContext, KernelEventKind, OffCpuState, ThreadName, ThreadSwitch, Vector,
};
use super::layout::{EventLayout, Field};
use super::lock_call::{ExecutionContext, LockCall, LockKind, LockProbe, LockResult, LockStep};

/// Every event that is decoded, as `system/name`. A recording takes those that the kernel has.
pub const DECODED_EVENTS: [&str; 26] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup_new",
    "sched/sched_process_exit",
    "task/task_newtask",
    "task/task_rename",
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit",
    "irq_vectors/reschedule_entry",
    "irq_vectors/reschedule_exit",
    "irq_vectors/call_function_entry",
    "irq_vectors/call_function_exit",
    "irq_vectors/call_function_single_entry",
    "irq_vectors/call_function_single_exit",
    "irq_vectors/irq_work_entry",
    "irq_vectors/irq_work_exit",
    "timer/hrtimer_expire_entry",
    "power/cpu_idle",
    "exceptions/page_fault_user",
    "exceptions/page_fault_kernel",
    "cgroup/cgroup_freeze",
    "cgroup/cgroup_unfreeze",
];

/// Events that are decoded where they were asked for, as `system/name`.
const FURTHER_EVENTS: [&str; 4] = [
    "raw_syscalls/sys_enter",
    "raw_syscalls/sys_exit",
    "lock/contention_begin",
    "lock/contention_end",
];

/// The system of an event that is decoded, such as `sched` of `sched_switch`.
pub fn system_of(event: &str) -> Option<&'static str> {
    let events = DECODED_EVENTS.iter().chain(&FURTHER_EVENTS);
    let mut split = events.filter_map(|path| path.split_once('/'));
    match split.find(|(_, name)| *name == event) {
        Some((system, _)) => Some(system),
        None => LockProbe::of_name(event).map(|_| "kprobes"),
    }
}

/// The place of the thread's number in the common fields of every event, in bytes.
const COMMON_THREAD: usize = 4;
/// The place of the flags that say which context the event is of.
const COMMON_FLAGS: usize = 2;
/// CLONE_THREAD of `task_newtask`: the new thread is of the same process.
const CLONE_THREAD: u64 = 0x0001_0000;
/// Bits of `prev_state`, in the order of the kernel's report of tasks (`TASK_REPORT`).
const STATE_SLEEPING: u64 = 0x01;
const STATE_UNINTERRUPTIBLE: u64 = 0x02;
const STATE_STOPPED: u64 = 0x04 | 0x08;
const STATE_ENDED: u64 = 0x10 | 0x20;
const STATE_PARKED_OR_IDLE: u64 = 0x40 | 0x80;

/// What an event needs to be decoded.
#[derive(Clone, Debug)]
enum EventReading {
    ThreadSwitch(Box<SwitchFields>),
    Waking(NameFields, Field),
    NewThread(NameFields, Field),
    Rename(NameFields),
    WakingNew(NameFields, Field),
    Exit(Field),
    Line(Field, bool),
    Soft(Field, bool),
    Vector(Vector, bool),
    Timer(Field, Field),
    Idle(Field),
    CallEntry(Field, Field),
    CallExit(Field, Field),
    ContentionBegin(Field, Field),
    ContentionEnd(Field),
    LockCall(LockStep, LockKind, Field, Field),
    LockReturn(LockResult, LockKind, Field),
    PageFault(Field, bool),
    Freezer(Field, Field, bool),
}

#[derive(Clone, Debug)]
struct SwitchFields {
    previous: NameFields,
    previous_rank: Field,
    state: Field,
    next: NameFields,
    next_rank: Field,
}

#[derive(Clone, Debug)]
struct NameFields {
    thread: Field,
    name: Field,
}

/// Decodes the events of one kernel.
#[derive(Clone, Debug, Default)]
pub struct EventDecoder {
    /// By the number of the event.
    readings: Vec<Option<EventReading>>,
}

impl EventDecoder {
    /// A decoder of events with these layouts; events that are not known are skipped, and so are
    /// those without a field that is needed.
    pub fn new<'a>(layouts: impl IntoIterator<Item = &'a EventLayout>) -> Self {
        let mut by_id = BTreeMap::new();
        for layout in layouts {
            if let Some(reading) = EventReading::of(layout) {
                by_id.insert(usize::from(layout.id), reading);
            }
        }
        let count = by_id.last_key_value().map_or(0, |(id, _)| id + 1);
        let mut readings = vec![None; count];
        for (id, reading) in by_id {
            readings[id] = Some(reading);
        }
        Self { readings }
    }

    /// The thread and the kind of an event; `None` for one that is not known, or is cut short.
    pub fn decode(&self, bytes: &[u8]) -> Option<(u32, KernelEventKind)> {
        let id = u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?);
        let reading = self.readings.get(usize::from(id))?.as_ref()?;
        let thread = bytes.get(COMMON_THREAD..COMMON_THREAD + 4)?;
        let thread = u32::from_le_bytes(thread.try_into().ok()?);
        Some((thread, reading.decode(bytes)?))
    }
}

impl EventReading {
    fn of(layout: &EventLayout) -> Option<Self> {
        let field = |name: &str| layout.field(name).cloned();
        let named = |thread: &str, name: &str| {
            let (thread, name) = (field(thread)?, field(name)?);
            Some(NameFields { thread, name })
        };
        let vector = |vector: Vector| Some(Self::Vector(vector, layout.name.ends_with("_entry")));
        match layout.name.as_str() {
            "sched_switch" => Some(Self::ThreadSwitch(Box::new(SwitchFields {
                previous: named("prev_pid", "prev_comm")?,
                previous_rank: field("prev_prio")?,
                state: field("prev_state")?,
                next: named("next_pid", "next_comm")?,
                next_rank: field("next_prio")?,
            }))),
            "sched_waking" => Some(Self::Waking(named("pid", "comm")?, field("target_cpu")?)),
            "sched_wakeup_new" => {
                Some(Self::WakingNew(named("pid", "comm")?, field("target_cpu")?))
            }
            "task_newtask" => Some(Self::NewThread(
                named("pid", "comm")?,
                field("clone_flags")?,
            )),
            "task_rename" => Some(Self::Rename(named("pid", "newcomm")?)),
            "sched_process_exit" => Some(Self::Exit(field("pid")?)),
            "irq_handler_entry" => Some(Self::Line(field("irq")?, true)),
            "irq_handler_exit" => Some(Self::Line(field("irq")?, false)),
            "softirq_entry" => Some(Self::Soft(field("vec")?, true)),
            "softirq_exit" => Some(Self::Soft(field("vec")?, false)),
            "local_timer_entry" | "local_timer_exit" => vector(Vector::LocalTimer),
            "reschedule_entry" | "reschedule_exit" => vector(Vector::Reschedule),
            "call_function_entry"
            | "call_function_exit"
            | "call_function_single_entry"
            | "call_function_single_exit" => vector(Vector::CallFunction),
            "irq_work_entry" | "irq_work_exit" => vector(Vector::IrqWork),
            "hrtimer_expire_entry" => Some(Self::Timer(field("function")?, field("hrtimer")?)),
            "cpu_idle" => Some(Self::Idle(field("state")?)),
            "sys_enter" => Some(Self::CallEntry(field("id")?, field("args")?)),
            "sys_exit" => Some(Self::CallExit(field("id")?, field("ret")?)),
            "contention_begin" => Some(Self::ContentionBegin(field("lock_addr")?, field("flags")?)),
            "contention_end" => Some(Self::ContentionEnd(field("lock_addr")?)),
            "page_fault_user" => Some(Self::PageFault(field("address")?, true)),
            "page_fault_kernel" => Some(Self::PageFault(field("address")?, false)),
            "cgroup_freeze" => Some(Self::Freezer(field("id")?, field("path")?, true)),
            "cgroup_unfreeze" => Some(Self::Freezer(field("id")?, field("path")?, false)),
            name => match LockProbe::of_name(name)? {
                LockProbe::Call(step, kind) => {
                    Some(Self::LockCall(step, kind, field("lock")?, field("caller")?))
                }
                LockProbe::Return(taken, kind) => {
                    Some(Self::LockReturn(taken, kind, field("result")?))
                }
            },
        }
    }

    /// The event of a lock.
    fn lock_event(&self, bytes: &[u8]) -> Option<KernelEventKind> {
        Some(match self {
            Self::ContentionBegin(lock, flags) => KernelEventKind::ContentionBegin {
                lock: lock.number(bytes)?,
                flags: flags.number(bytes)? as u32,
            },
            Self::ContentionEnd(lock) => KernelEventKind::ContentionEnd {
                lock: lock.number(bytes)?,
            },
            _ => KernelEventKind::Lock(self.lock_call(bytes)?),
        })
    }

    /// The step of a lock that an event is of.
    fn lock_call(&self, bytes: &[u8]) -> Option<LockCall> {
        let context = ExecutionContext::of_flags(*bytes.get(COMMON_FLAGS)?);
        Some(match self {
            Self::LockCall(step, kind, lock, caller) => LockCall {
                step: *step,
                kind: *kind,
                lock: lock.number(bytes)?,
                caller: caller.number(bytes)?,
                context,
            },
            Self::LockReturn(taken, kind, result) => LockCall {
                step: LockStep::Outcome {
                    is_taken: (result.number(bytes)? == 0) == (*taken == LockResult::Zero),
                },
                kind: *kind,
                lock: 0,
                caller: 0,
                context,
            },
            _ => return None,
        })
    }

    /// The interrupt that an event is of.
    fn interrupt(&self, bytes: &[u8]) -> Option<InterruptContext> {
        Some(match self {
            Self::Line(line, _) => InterruptContext::Line(line.number(bytes)? as u32),
            Self::Soft(soft, _) => InterruptContext::Soft(soft.number(bytes)? as u32),
            Self::Vector(vector, _) => InterruptContext::Vector(*vector),
            _ => return None,
        })
    }

    fn decode(&self, bytes: &[u8]) -> Option<KernelEventKind> {
        let number = |field: &Field| field.number(bytes);
        Some(match self {
            Self::ThreadSwitch(fields) => KernelEventKind::ThreadSwitch(fields.decode(bytes)?),
            Self::Waking(fields, cpu) | Self::WakingNew(fields, cpu) => {
                let (thread, name) = fields.decode(bytes)?;
                let target_cpu = number(cpu)? as u32;
                KernelEventKind::Waking {
                    thread,
                    name,
                    target_cpu,
                }
            }
            Self::NewThread(fields, flags) => {
                let (thread, name) = fields.decode(bytes)?;
                let same_process = number(flags)? & CLONE_THREAD != 0;
                KernelEventKind::NewThread {
                    thread,
                    name,
                    same_process,
                }
            }
            Self::Rename(fields) => {
                let (thread, name) = fields.decode(bytes)?;
                KernelEventKind::Rename { thread, name }
            }
            Self::Exit(thread) => KernelEventKind::Exit {
                thread: number(thread)? as u32,
            },
            Self::Line(_, true) | Self::Soft(_, true) | Self::Vector(_, true) => {
                KernelEventKind::InterruptEntry(self.interrupt(bytes)?)
            }
            Self::Line(..) | Self::Soft(..) | Self::Vector(..) => {
                KernelEventKind::InterruptExit(self.interrupt(bytes)?)
            }
            Self::Timer(function, timer) => KernelEventKind::TimerExpiry {
                function: number(function)?,
                timer: number(timer)?,
            },
            Self::Idle(state) => KernelEventKind::Idle {
                // The kernel writes -1 where idling ends.
                begins: number(state)? as u32 != u32::MAX,
            },
            Self::CallEntry(call, arguments) => KernelEventKind::CallEntry {
                number: number(call)?,
                first: arguments.element(bytes, 0)?,
                third: arguments.element(bytes, 2)?,
            },
            Self::CallExit(call, result) => KernelEventKind::CallExit {
                number: number(call)?,
                result: number(result)? as i64,
            },
            Self::ContentionBegin(..)
            | Self::ContentionEnd(_)
            | Self::LockCall(..)
            | Self::LockReturn(..) => self.lock_event(bytes)?,
            Self::PageFault(address, by_user) => KernelEventKind::PageFault {
                address: number(address)?,
                by_user: *by_user,
            },
            Self::Freezer(cgroup, path, frozen) => KernelEventKind::Freezer {
                cgroup: number(cgroup)?,
                path: path.text(bytes)?,
                frozen: *frozen,
            },
        })
    }
}

impl NameFields {
    fn decode(&self, bytes: &[u8]) -> Option<(u32, ThreadName)> {
        let name = ThreadName::of_field(self.name.name_bytes(bytes)?);
        Some((self.thread.number(bytes)? as u32, name))
    }
}

impl SwitchFields {
    fn decode(&self, bytes: &[u8]) -> Option<ThreadSwitch> {
        let (previous, previous_name) = self.previous.decode(bytes)?;
        let (next, next_name) = self.next.decode(bytes)?;
        Some(ThreadSwitch {
            previous,
            previous_name,
            state: off_cpu_state(self.state.number(bytes)?),
            next,
            next_name,
            previous_rank: self.previous_rank.number(bytes)? as i32,
            next_rank: self.next_rank.number(bytes)? as i32,
        })
    }
}

/// The state that `prev_state` says: a thread that was preempted has none of the bits, whatever it was about to do.
fn off_cpu_state(bits: u64) -> OffCpuState {
    match bits {
        _ if bits & STATE_ENDED != 0 => OffCpuState::Ended,
        _ if bits & STATE_STOPPED != 0 => OffCpuState::Stopped,
        _ if bits & STATE_UNINTERRUPTIBLE != 0 => OffCpuState::Uninterruptible,
        _ if bits & (STATE_SLEEPING | STATE_PARKED_OR_IDLE) != 0 => OffCpuState::Sleeping,
        _ => OffCpuState::Runnable,
    }
}
