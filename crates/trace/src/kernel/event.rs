//! One event of the kernel, decoded.

use tailbound_time::Instant;

use super::lock_call::{LockCall, LockStep};

/// The name of a thread, as the kernel keeps it: at most 15 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadName([u8; 16]);

impl ThreadName {
    /// The name in a field of 16 bytes that zeros fill up.
    pub fn of_field(field: [u8; 16]) -> Self {
        Self(field)
    }

    /// The field: the name, and zeros behind it.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The name as text; bytes that are no UTF-8 are replaced.
    pub fn text(&self) -> String {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(16);
        String::from_utf8_lossy(&self.0[..length]).into_owned()
    }
}

impl From<&str> for ThreadName {
    /// The first 15 bytes of a text.
    fn from(text: &str) -> Self {
        let mut field = [0; 16];
        let kept = &text.as_bytes()[..text.len().min(15)];
        field[..kept.len()].copy_from_slice(kept);
        Self(field)
    }
}

/// The state in which a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffCpuState {
    /// It could go on: another thread took the CPU, or its reservation did not let it.
    Runnable,
    /// It sleeps, and a signal wakes it.
    Sleeping,
    /// It sleeps, and no signal wakes it: input and output, page faults, locks of the kernel.
    Uninterruptible,
    /// A signal stopped it, or a debugger did.
    Stopped,
    /// It has ended.
    Ended,
}

/// A CPU goes from one thread to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadSwitch {
    /// The thread that leaves.
    pub previous: u32,
    /// Its name.
    pub previous_name: ThreadName,
    /// The state in which it leaves.
    pub state: OffCpuState,
    /// The thread that comes; 0 is the idle one.
    pub next: u32,
    /// Its name.
    pub next_name: ThreadName,
    /// The rank of the thread that leaves: the kernel's `prio`, lower is more urgent; negative is
    /// SCHED_DEADLINE, below 100 real-time.
    pub previous_rank: i32,
    /// The rank of the thread that comes.
    pub next_rank: i32,
}

/// Interrupt vectors of x86 that have no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Vector {
    /// The timer of the CPU.
    LocalTimer,
    /// A request to schedule, from another CPU.
    Reschedule,
    /// A function call for another CPU.
    CallFunction,
    /// Work of interrupts put off.
    IrqWork,
}

/// Work in interrupt context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InterruptContext {
    /// The handler of a line, by its number.
    Line(u32),
    /// A vector without a line.
    Vector(Vector),
    /// A softirq, by its number.
    Soft(u32),
}

/// Names of the softirqs, in the order of their numbers.
const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

impl InterruptContext {
    /// The name of the interrupt; `line_name` knows those of lines.
    pub fn name(self, line_name: impl Fn(u32) -> Option<String>) -> String {
        match self {
            Self::Line(number) => match line_name(number) {
                Some(name) => format!("irq {number} ({name})"),
                None => format!("irq {number}"),
            },
            Self::Vector(Vector::LocalTimer) => "local timer".into(),
            Self::Vector(Vector::Reschedule) => "reschedule interrupt".into(),
            Self::Vector(Vector::CallFunction) => "function call interrupt".into(),
            Self::Vector(Vector::IrqWork) => "irq work".into(),
            Self::Soft(number) => match SOFTIRQS.get(number as usize) {
                Some(name) => format!("softirq {name}"),
                None => format!("softirq {number}"),
            },
        }
    }
}

/// The kind of an event, with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelEventKind {
    /// A CPU goes from one thread to another.
    ThreadSwitch(ThreadSwitch),
    /// A thread is woken, by the thread of the event.
    Waking {
        /// The thread that wakes up.
        thread: u32,
        /// Its name.
        name: ThreadName,
        /// The CPU that it will run on, if nothing moves it.
        target_cpu: u32,
    },
    /// The thread of the event makes another.
    NewThread {
        /// The new thread.
        thread: u32,
        /// Its name.
        name: ThreadName,
        /// Whether it belongs to the same process.
        same_process: bool,
    },
    /// A thread has another name from here on.
    Rename {
        /// The thread.
        thread: u32,
        /// Its name.
        name: ThreadName,
    },
    /// A thread ends.
    Exit {
        /// The thread.
        thread: u32,
    },
    /// Work in interrupt context begins on the CPU of the event.
    InterruptEntry(InterruptContext),
    /// Work in interrupt context ends.
    InterruptExit(InterruptContext),
    /// A high-resolution timer expires.
    TimerExpiry {
        /// The address of its function.
        function: u64,
        /// The timer's own address, which tells it from others with the same function.
        timer: u64,
    },
    /// The thread of the event enters a system call.
    CallEntry {
        /// The call's number.
        number: u64,
        /// The first argument, a descriptor in calls that read and write.
        first: u64,
        /// The third argument, a count or an operation.
        third: u64,
    },
    /// The thread of the event leaves a system call.
    CallExit {
        /// The call's number.
        number: u64,
        /// The result; negative is an error.
        result: i64,
    },
    /// The thread of the event begins to wait for a lock of the kernel.
    ContentionBegin {
        /// The lock's address.
        lock: u64,
        /// Kind of the lock, as the kernel's LCB_F_ flags.
        flags: u32,
    },
    /// The thread of the event has the lock, or gave up.
    ContentionEnd {
        /// The lock's address.
        lock: u64,
    },
    /// A probe of a function of locks was met.
    Lock(LockCall),
    /// The thread of the event touched memory that was not there.
    PageFault {
        /// The address.
        address: u64,
        /// Whether the program did, and not the kernel on its behalf.
        by_user: bool,
    },
    /// A cgroup is frozen or thawed.
    Freezer {
        /// The cgroup's number.
        cgroup: u64,
        /// Its path below the root of its hierarchy.
        path: String,
        /// Whether it is frozen from here on.
        frozen: bool,
    },
    /// A CPU becomes idle, or ends being idle.
    Idle {
        /// Whether it becomes idle.
        begins: bool,
    },
    /// Events were lost before this one, on its CPU.
    Lost {
        /// How many; `None` where the kernel did not say.
        count: Option<u64>,
    },
}

impl KernelEventKind {
    /// The name of the kind, close to the kernel's own.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ThreadSwitch(_) => "sched_switch",
            Self::Waking { .. } => "sched_waking",
            Self::NewThread { .. } => "task_newtask",
            Self::Rename { .. } => "task_rename",
            Self::Exit { .. } => "sched_process_exit",
            Self::InterruptEntry(_) => "interrupt_entry",
            Self::InterruptExit(_) => "interrupt_exit",
            Self::TimerExpiry { .. } => "hrtimer_expire_entry",
            Self::CallEntry { .. } => "sys_enter",
            Self::CallExit { .. } => "sys_exit",
            Self::ContentionBegin { .. } => "contention_begin",
            Self::ContentionEnd { .. } => "contention_end",
            Self::Lock(call) => match call.step {
                LockStep::Request => "lock_request",
                LockStep::Attempt => "lock_attempt",
                LockStep::Outcome { .. } => "lock_outcome",
                LockStep::Release => "lock_release",
            },
            Self::PageFault { .. } => "page_fault",
            Self::Freezer { frozen: true, .. } => "cgroup_freeze",
            Self::Freezer { frozen: false, .. } => "cgroup_unfreeze",
            Self::Idle { .. } => "cpu_idle",
            Self::Lost { .. } => "lost",
        }
    }
}

/// One event of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelEvent {
    /// When, on the clock of the recording.
    pub at: Instant,
    /// Where.
    pub cpu: u32,
    /// The thread that the CPU was running.
    pub thread: u32,
    /// The event itself.
    pub kind: KernelEventKind,
}
