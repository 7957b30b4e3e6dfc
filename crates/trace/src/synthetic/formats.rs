//! The formats of synthetic events, and events in these formats.

use std::fmt::Write as _;

use crate::kernel::{
    ExecutionContext, InterruptContext, KernelEventKind, LockCall, LockKind, LockStep, OffCpuState,
    ThreadName, ThreadSwitch, Vector,
};

/// The number of the first format.
const FIRST_ID: u16 = 300;
/// Bytes of the fields that every event has.
const COMMON_BYTES: usize = 8;
/// CLONE_THREAD of `task_newtask`.
const CLONE_THREAD: u64 = 0x0001_0000;

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormatType {
    /// `char NAME[16]`: a thread's name.
    Name,
    /// `int`.
    Int,
    /// `unsigned int`.
    UnsignedInt,
    /// `long`.
    Long,
    /// `unsigned long`.
    UnsignedLong,
    /// `unsigned long NAME[6]`.
    Arguments,
    /// `__data_loc char[] NAME`: text behind the fields.
    Text,
}

/// The value of a field.
enum FormatValue<'a> {
    Name(ThreadName),
    Number(u64),
    Arguments([u64; 6]),
    Text(&'a str),
}

type FieldRow = (&'static str, FormatType);

use FormatType::{Arguments, Int, Long, Name, Text, UnsignedInt, UnsignedLong};

const LINE: &[FieldRow] = &[("irq", Int)];
const SOFT: &[FieldRow] = &[("vec", UnsignedInt)];
const VECTOR: &[FieldRow] = &[("vector", Int)];
const FAULT: &[FieldRow] = &[
    ("address", UnsignedLong),
    ("ip", UnsignedLong),
    ("error_code", UnsignedLong),
];
const LOCK_CALL: &[FieldRow] = &[
    ("__probe_ip", UnsignedLong),
    ("lock", UnsignedLong),
    ("caller", UnsignedLong),
];
const FREEZER: &[FieldRow] = &[
    ("root", Int),
    ("level", Int),
    ("id", UnsignedLong),
    ("path", Text),
];
const WAKING: &[FieldRow] = &[
    ("comm", Name),
    ("pid", Int),
    ("prio", Int),
    ("target_cpu", Int),
];

/// Every format: a name, and the fields in their order.
const FORMATS: &[(&str, &[FieldRow])] = &[
    (
        "sched_switch",
        &[
            ("prev_comm", Name),
            ("prev_pid", Int),
            ("prev_prio", Int),
            ("prev_state", Long),
            ("next_comm", Name),
            ("next_pid", Int),
            ("next_prio", Int),
        ],
    ),
    ("sched_waking", WAKING),
    ("sched_wakeup_new", WAKING),
    (
        "sched_process_exit",
        &[("comm", Name), ("pid", Int), ("prio", Int)],
    ),
    (
        "task_newtask",
        &[("pid", Int), ("comm", Name), ("clone_flags", UnsignedLong)],
    ),
    (
        "task_rename",
        &[("pid", Int), ("oldcomm", Name), ("newcomm", Name)],
    ),
    ("irq_handler_entry", LINE),
    ("irq_handler_exit", LINE),
    ("softirq_entry", SOFT),
    ("softirq_exit", SOFT),
    ("local_timer_entry", VECTOR),
    ("local_timer_exit", VECTOR),
    ("reschedule_entry", VECTOR),
    ("reschedule_exit", VECTOR),
    ("call_function_entry", VECTOR),
    ("call_function_exit", VECTOR),
    ("irq_work_entry", VECTOR),
    ("irq_work_exit", VECTOR),
    (
        "hrtimer_expire_entry",
        &[
            ("hrtimer", UnsignedLong),
            ("now", Long),
            ("function", UnsignedLong),
        ],
    ),
    (
        "cpu_idle",
        &[("state", UnsignedInt), ("cpu_id", UnsignedInt)],
    ),
    ("page_fault_user", FAULT),
    ("page_fault_kernel", FAULT),
    ("cgroup_freeze", FREEZER),
    ("cgroup_unfreeze", FREEZER),
    (
        "contention_begin",
        &[("lock_addr", UnsignedLong), ("flags", UnsignedInt)],
    ),
    (
        "contention_end",
        &[("lock_addr", UnsignedLong), ("ret", Int)],
    ),
    ("sys_enter", &[("id", Long), ("args", Arguments)]),
    ("sys_exit", &[("id", Long), ("ret", Long)]),
    ("tb_request_mutex_mutex_lock", LOCK_CALL),
    ("tb_request_read_down_read", LOCK_CALL),
    ("tb_request_write_down_write", LOCK_CALL),
    ("tb_request_spin__raw_spin_lock", LOCK_CALL),
    ("tb_attempt_spin__raw_spin_trylock", LOCK_CALL),
    (
        "tb_taken_spin__raw_spin_trylock",
        &[("__probe_func", UnsignedLong), ("result", Int)],
    ),
    ("tb_release_mutex_mutex_unlock", LOCK_CALL),
    ("tb_release_read_up_read", LOCK_CALL),
    ("tb_release_write_up_write", LOCK_CALL),
    ("tb_release_spin__raw_spin_unlock", LOCK_CALL),
];

impl FormatType {
    fn bytes(self) -> usize {
        match self {
            Self::Name => 16,
            Self::Int | Self::UnsignedInt | Self::Text => 4,
            Self::Long | Self::UnsignedLong => 8,
            Self::Arguments => 48,
        }
    }

    fn alignment(self) -> usize {
        match self {
            Self::Name => 1,
            Self::Arguments => 8,
            _ => self.bytes(),
        }
    }

    fn declaration(self, name: &str) -> String {
        match self {
            Self::Name => format!("char {name}[16]"),
            Self::Int => format!("int {name}"),
            Self::UnsignedInt => format!("unsigned int {name}"),
            Self::Long => format!("long {name}"),
            Self::UnsignedLong => format!("unsigned long {name}"),
            Self::Arguments => format!("unsigned long {name}[6]"),
            Self::Text => format!("__data_loc char[] {name}"),
        }
    }

    fn is_signed(self) -> bool {
        matches!(self, Self::Int | Self::Long)
    }

    /// The field in the format of `printf` and the expression for it; an array of numbers is not printed.
    fn printed(self, name: &str) -> Option<(&'static str, String)> {
        match self {
            Self::Name => Some(("%s", format!("REC->{name}"))),
            Self::Int => Some(("%d", format!("REC->{name}"))),
            Self::UnsignedInt => Some(("%u", format!("REC->{name}"))),
            Self::Long => Some(("%ld", format!("REC->{name}"))),
            Self::UnsignedLong => Some(("%lu", format!("REC->{name}"))),
            Self::Text => Some(("%s", format!("__get_str({name})"))),
            Self::Arguments => None,
        }
    }
}

/// The fields with their places, and the length of all.
fn places(fields: &[FieldRow]) -> (Vec<usize>, usize) {
    let mut end = COMMON_BYTES;
    let mut place = |(_, kind): &FieldRow| {
        let start = end.next_multiple_of(kind.alignment());
        end = start + kind.bytes();
        start
    };
    let places = fields.iter().map(&mut place).collect();
    (places, end.next_multiple_of(4))
}

/// The texts of all formats, as tracefs gives them.
pub(super) fn format_texts() -> Vec<String> {
    let text = |(index, (name, fields)): (usize, &(&str, &[FieldRow]))| {
        let id = FIRST_ID + index as u16;
        let mut text = format!("name: {name}\nID: {id}\nformat:\n");
        for (declaration, offset, size, signed) in [
            ("unsigned short common_type", 0, 2, 0),
            ("unsigned char common_flags", 2, 1, 0),
            ("unsigned char common_preempt_count", 3, 1, 0),
            ("int common_pid", 4, 4, 1),
        ] {
            let _written = writeln!(
                text,
                "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
            );
        }
        text.push('\n');
        for ((name, kind), offset) in fields.iter().zip(places(fields).0) {
            let (size, signed) = (kind.bytes(), u8::from(kind.is_signed()));
            let declaration = kind.declaration(name);
            let _written = writeln!(
                text,
                "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
            );
        }
        let printed = fields
            .iter()
            .filter_map(|(name, kind)| Some((name, kind.printed(name)?)));
        let (formats, expressions): (Vec<String>, Vec<String>) = printed
            .map(|(name, (format, expression))| (format!("{name}={format}"), expression))
            .unzip();
        let _written = writeln!(
            text,
            "\nprint fmt: \"{}\", {}",
            formats.join(" "),
            expressions.join(", ")
        );
        text
    };
    FORMATS.iter().enumerate().map(text).collect()
}

/// The bytes of an event; `None` for a loss, which is no event.
pub(super) fn encode(thread: u32, kind: &KernelEventKind) -> Option<Vec<u8>> {
    let (name, values) = values(kind)?;
    let index = FORMATS.iter().position(|(format, _)| *format == name)?;
    let fields = FORMATS[index].1;
    let (places, length) = places(fields);
    let mut bytes = vec![0; length];
    bytes[..2].copy_from_slice(&(FIRST_ID + index as u16).to_le_bytes());
    bytes[2] = flags(kind);
    bytes[4..8].copy_from_slice(&thread.to_le_bytes());
    for (((_, kind), place), value) in fields.iter().zip(places).zip(values) {
        let end = place + kind.bytes();
        match value {
            FormatValue::Name(name) => bytes[place..end].copy_from_slice(name.bytes()),
            FormatValue::Number(number) => {
                bytes[place..end].copy_from_slice(&number.to_le_bytes()[..kind.bytes()]);
            }
            FormatValue::Arguments(numbers) => {
                let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
                bytes.splice(place..end, numbers);
            }
            FormatValue::Text(text) => {
                let location = (bytes.len() as u32) | ((text.len() as u32 + 1) << 16);
                bytes[place..end].copy_from_slice(&location.to_le_bytes());
                bytes.extend(text.as_bytes());
                bytes.push(0);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
        }
    }
    Some(bytes)
}

/// The name of an event's format, and the values of its fields in their order.
fn values(kind: &KernelEventKind) -> Option<(&'static str, Vec<FormatValue<'_>>)> {
    use FormatValue as Value;
    Some(match kind {
        KernelEventKind::ThreadSwitch(switch) => ("sched_switch", switch_values(switch)),
        KernelEventKind::InterruptEntry(interrupt) => interrupt_values(*interrupt, true),
        KernelEventKind::InterruptExit(interrupt) => interrupt_values(*interrupt, false),
        KernelEventKind::TimerExpiry { function, timer } => (
            "hrtimer_expire_entry",
            vec![Value::Number(*timer), NOTHING, Value::Number(*function)],
        ),
        KernelEventKind::CallEntry {
            number,
            first,
            third,
        } => {
            let arguments = Value::Arguments([*first, 0, *third, 0, 0, 0]);
            ("sys_enter", vec![Value::Number(*number), arguments])
        }
        KernelEventKind::CallExit { number, result } => {
            let values = vec![Value::Number(*number), Value::Number(*result as u64)];
            ("sys_exit", values)
        }
        KernelEventKind::ContentionBegin { lock, flags } => {
            ("contention_begin", vec![Value::Number(*lock), of(*flags)])
        }
        KernelEventKind::ContentionEnd { lock } => {
            ("contention_end", vec![Value::Number(*lock), NOTHING])
        }
        KernelEventKind::Lock(call) => lock_values(call),
        KernelEventKind::PageFault { address, by_user } => {
            let name = match by_user {
                true => "page_fault_user",
                false => "page_fault_kernel",
            };
            (name, vec![Value::Number(*address), NOTHING, NOTHING])
        }
        KernelEventKind::Freezer { cgroup, path, .. } => {
            let values = vec![NOTHING, NOTHING, Value::Number(*cgroup), Value::Text(path)];
            (kind.name(), values)
        }
        KernelEventKind::Idle { begins } => {
            let state = if *begins { 1 } else { u32::MAX };
            ("cpu_idle", vec![of(state), NOTHING])
        }
        KernelEventKind::Lost { .. } => return None,
        _ => return life_values(kind),
    })
}

/// The name of a probe's format, and its values.
fn lock_values(call: &LockCall) -> (&'static str, Vec<FormatValue<'static>>) {
    let name = match (call.step, call.kind) {
        (LockStep::Request, LockKind::Mutex) => "tb_request_mutex_mutex_lock",
        (LockStep::Request, LockKind::Read) => "tb_request_read_down_read",
        (LockStep::Request, LockKind::Write) => "tb_request_write_down_write",
        (LockStep::Request, LockKind::Spin) => "tb_request_spin__raw_spin_lock",
        (LockStep::Attempt, _) => "tb_attempt_spin__raw_spin_trylock",
        (LockStep::Outcome { .. }, _) => "tb_taken_spin__raw_spin_trylock",
        (LockStep::Release, LockKind::Mutex) => "tb_release_mutex_mutex_unlock",
        (LockStep::Release, LockKind::Read) => "tb_release_read_up_read",
        (LockStep::Release, LockKind::Write) => "tb_release_write_up_write",
        (LockStep::Release, LockKind::Spin) => "tb_release_spin__raw_spin_unlock",
    };
    let address = FormatValue::Number;
    let values = match call.step {
        LockStep::Outcome { is_taken } => vec![NOTHING, of(u32::from(is_taken))],
        _ => vec![NOTHING, address(call.lock), address(call.caller)],
    };
    (name, values)
}

/// The common flags of an event: those of the context that it says.
fn flags(kind: &KernelEventKind) -> u8 {
    let KernelEventKind::Lock(call) = kind else {
        return 0;
    };
    match call.context {
        ExecutionContext::Thread => 0,
        ExecutionContext::SoftInterrupt => 0x10,
        ExecutionContext::HardInterrupt => 0x08,
        ExecutionContext::Unmaskable => 0x40,
    }
}

/// The same of events in the life of a thread.
fn life_values(kind: &KernelEventKind) -> Option<(&'static str, Vec<FormatValue<'_>>)> {
    use FormatValue as Value;
    let values = match kind {
        KernelEventKind::Waking {
            thread,
            name,
            target_cpu,
        } => vec![Value::Name(*name), of(*thread), NOTHING, of(*target_cpu)],
        KernelEventKind::NewThread {
            thread,
            name,
            same_process,
        } => {
            let flags = u64::from(*same_process) * CLONE_THREAD;
            vec![of(*thread), Value::Name(*name), Value::Number(flags)]
        }
        KernelEventKind::Rename { thread, name } => {
            vec![of(*thread), Value::Name(*name), Value::Name(*name)]
        }
        KernelEventKind::Exit { thread } => {
            vec![Value::Name(ThreadName::default()), of(*thread), NOTHING]
        }
        _ => return None,
    };
    Some((kind.name(), values))
}

fn switch_values(switch: &ThreadSwitch) -> Vec<FormatValue<'static>> {
    let rank = |rank: i32| FormatValue::Number(i64::from(rank) as u64);
    vec![
        FormatValue::Name(switch.previous_name),
        of(switch.previous),
        rank(switch.previous_rank),
        FormatValue::Number(state_bits(switch.state)),
        FormatValue::Name(switch.next_name),
        of(switch.next),
        rank(switch.next_rank),
    ]
}

const NOTHING: FormatValue<'static> = FormatValue::Number(0);

fn of(number: u32) -> FormatValue<'static> {
    FormatValue::Number(number.into())
}

fn interrupt_values(
    interrupt: InterruptContext,
    entry: bool,
) -> (&'static str, Vec<FormatValue<'static>>) {
    let (names, number) = match interrupt {
        InterruptContext::Line(line) => (["irq_handler_entry", "irq_handler_exit"], line),
        InterruptContext::Soft(soft) => (["softirq_entry", "softirq_exit"], soft),
        InterruptContext::Vector(Vector::LocalTimer) => {
            (["local_timer_entry", "local_timer_exit"], 0)
        }
        InterruptContext::Vector(Vector::Reschedule) => {
            (["reschedule_entry", "reschedule_exit"], 0)
        }
        InterruptContext::Vector(Vector::CallFunction) => {
            (["call_function_entry", "call_function_exit"], 0)
        }
        InterruptContext::Vector(Vector::IrqWork) => (["irq_work_entry", "irq_work_exit"], 0),
    };
    (
        names[usize::from(!entry)],
        vec![FormatValue::Number(number.into())],
    )
}

fn state_bits(state: OffCpuState) -> u64 {
    match state {
        OffCpuState::Runnable => 0,
        OffCpuState::Sleeping => 1,
        OffCpuState::Uninterruptible => 2,
        OffCpuState::Stopped => 4,
        OffCpuState::Ended => 0x10,
    }
}
