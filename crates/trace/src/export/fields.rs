//! The fields of an event by name, for formats that have fields.

use crate::kernel::{InterruptContext, KernelEventKind, LockCall, LockStep, OffCpuState};
use crate::recording::RecordingHeader;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExportedValue {
    /// A number that is never negative.
    Number(u64),
    /// A number with a sign.
    Signed(i64),
    /// Text.
    Text(String),
}

type NamedFields = Vec<(&'static str, ExportedValue)>;

/// The fields of an event; events of one name have the same fields, of the same types. The names of calls and of
/// interrupt lines are those of the header.
pub(super) fn fields(kind: &KernelEventKind, header: &RecordingHeader) -> NamedFields {
    let number = |number: u32| ExportedValue::Number(number.into());
    let call = |number: u64| {
        let name = header.calls.get(&number).cloned();
        ExportedValue::Text(name.unwrap_or_else(|| number.to_string()))
    };
    match kind {
        KernelEventKind::ThreadSwitch(_)
        | KernelEventKind::Waking { .. }
        | KernelEventKind::NewThread { .. }
        | KernelEventKind::Rename { .. }
        | KernelEventKind::Exit { .. } => thread_fields(kind),
        KernelEventKind::InterruptEntry(interrupt) | KernelEventKind::InterruptExit(interrupt) => {
            vec![(
                "interrupt",
                ExportedValue::Text(interrupt_name(*interrupt, header)),
            )]
        }
        KernelEventKind::TimerExpiry { function, timer } => {
            let name = header.timer_functions.get(function).cloned();
            vec![
                ("function", ExportedValue::Number(*function)),
                (
                    "function_name",
                    ExportedValue::Text(name.unwrap_or_default()),
                ),
                ("timer", ExportedValue::Number(*timer)),
            ]
        }
        KernelEventKind::CallEntry {
            number,
            first,
            third,
        } => vec![
            ("call", call(*number)),
            ("first", ExportedValue::Number(*first)),
            ("third", ExportedValue::Number(*third)),
        ],
        KernelEventKind::CallExit { number, result } => vec![
            ("call", call(*number)),
            ("result", ExportedValue::Signed(*result)),
        ],
        KernelEventKind::ContentionBegin { lock, flags } => {
            vec![
                ("lock", ExportedValue::Number(*lock)),
                ("flags", number(*flags)),
            ]
        }
        KernelEventKind::ContentionEnd { lock } => vec![("lock", ExportedValue::Number(*lock))],
        KernelEventKind::Lock(call) => lock_fields(call),
        KernelEventKind::PageFault { address, by_user } => {
            vec![
                ("address", ExportedValue::Number(*address)),
                ("by_user", number((*by_user).into())),
            ]
        }
        KernelEventKind::Freezer { cgroup, path, .. } => {
            vec![
                ("cgroup", ExportedValue::Number(*cgroup)),
                ("path", ExportedValue::Text(path.clone())),
            ]
        }
        KernelEventKind::Idle { begins } => vec![("begins", number((*begins).into()))],
        // Zero where the kernel did not count.
        KernelEventKind::Lost { count } => {
            vec![("count", ExportedValue::Number(count.unwrap_or(0)))]
        }
    }
}

fn lock_fields(call: &LockCall) -> NamedFields {
    let is_taken = call.step == LockStep::Outcome { is_taken: true };
    vec![
        ("kind", ExportedValue::Text(call.kind.name().into())),
        ("lock", ExportedValue::Number(call.lock)),
        ("caller", ExportedValue::Number(call.caller)),
        ("is_taken", ExportedValue::Number(is_taken.into())),
    ]
}

fn thread_fields(kind: &KernelEventKind) -> NamedFields {
    let number = |number: u32| ExportedValue::Number(number.into());
    match kind {
        KernelEventKind::ThreadSwitch(switch) => vec![
            ("prev_tid", number(switch.previous)),
            (
                "prev_name",
                ExportedValue::Text(switch.previous_name.text()),
            ),
            (
                "prev_rank",
                ExportedValue::Signed(switch.previous_rank.into()),
            ),
            (
                "prev_state",
                ExportedValue::Text(state_name(switch.state).into()),
            ),
            ("next_tid", number(switch.next)),
            ("next_name", ExportedValue::Text(switch.next_name.text())),
            ("next_rank", ExportedValue::Signed(switch.next_rank.into())),
        ],
        KernelEventKind::Waking {
            thread,
            name,
            target_cpu,
        } => vec![
            ("woken_tid", number(*thread)),
            ("woken_name", ExportedValue::Text(name.text())),
            ("target_cpu", number(*target_cpu)),
        ],
        KernelEventKind::NewThread {
            thread,
            name,
            same_process,
        } => vec![
            ("new_tid", number(*thread)),
            ("new_name", ExportedValue::Text(name.text())),
            ("same_process", number((*same_process).into())),
        ],
        KernelEventKind::Rename { thread, name } => {
            vec![
                ("renamed_tid", number(*thread)),
                ("new_name", ExportedValue::Text(name.text())),
            ]
        }
        KernelEventKind::Exit { thread } => vec![("ended_tid", number(*thread))],
        _ => Vec::new(),
    }
}

/// The name of an interrupt, with that of its line.
pub(super) fn interrupt_name(interrupt: InterruptContext, header: &RecordingHeader) -> String {
    interrupt.name(|line| header.interrupt_lines.get(&line).cloned())
}

fn state_name(state: OffCpuState) -> &'static str {
    match state {
        OffCpuState::Runnable => "runnable",
        OffCpuState::Sleeping => "sleeping",
        OffCpuState::Uninterruptible => "uninterruptible",
        OffCpuState::Stopped => "stopped",
        OffCpuState::Ended => "ended",
    }
}
