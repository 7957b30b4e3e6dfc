//! The kernel's events as Perfetto's own, in bundles of one CPU.

use std::collections::BTreeMap;
use std::io::Write;

use tailbound_perfetto::PacketWriter;
use tailbound_perfetto::message::{
    CpuIdle, FtraceEvent, FtraceEventBundle, FtraceEventKind, IrqHandlerEntry, IrqHandlerExit,
    SchedProcessExit, SchedSwitch, SchedWaking, Softirq, SysEnter, SysExit, TaskNewtask,
    TaskRename, TracePacket,
};

use crate::export::fields::interrupt_name;
use crate::kernel::{InterruptContext, KernelEvent, KernelEventKind, OffCpuState, ThreadSwitch};
use crate::recording::RecordingHeader;

/// Events of a bundle.
const BUNDLE: usize = 512;
/// CLONE_THREAD of `task_newtask`.
const CLONE_THREAD: u64 = 0x0001_0000;
/// The number of vectors that have no line: Perfetto shows the name.
const NO_LINE: i32 = -1;

/// The events of each CPU that are not written yet, at most one bundle of each.
pub(super) struct KernelBundles<'a> {
    header: &'a RecordingHeader,
    bundles: BTreeMap<u32, FtraceEventBundle>,
}

impl<'a> KernelBundles<'a> {
    pub(super) fn new(header: &'a RecordingHeader) -> Self {
        Self {
            header,
            bundles: BTreeMap::new(),
        }
    }

    /// Takes an event; events that Perfetto has no message for are left out.
    pub(super) fn take(&mut self, event: &KernelEvent, packets: &mut PacketWriter<impl Write>) {
        let bundle = self.bundles.entry(event.cpu).or_default();
        let is_lost = matches!(event.kind, KernelEventKind::Lost { .. });
        if bundle.event.len() >= BUNDLE || (is_lost && !bundle.event.is_empty()) {
            write(event.cpu, std::mem::take(bundle), packets);
        }
        if is_lost {
            bundle.lost_events = Some(true);
        }
        if let Some(kind) = ftrace_event(event, self.header) {
            bundle.event.push(FtraceEvent {
                timestamp_ns: Some(event.at.as_nanos()),
                pid: Some(event.thread),
                event: Some(kind),
            });
        }
    }

    pub(super) fn finish(self, packets: &mut PacketWriter<impl Write>) {
        for (cpu, bundle) in self.bundles {
            if !bundle.event.is_empty() {
                write(cpu, bundle, packets);
            }
        }
    }
}

fn write(cpu: u32, bundle: FtraceEventBundle, packets: &mut PacketWriter<impl Write>) {
    let bundle = FtraceEventBundle {
        cpu: Some(cpu),
        ..bundle
    };
    packets.write(TracePacket {
        ftrace_events: Some(bundle),
        ..TracePacket::default()
    });
}

fn ftrace_event(event: &KernelEvent, header: &RecordingHeader) -> Option<FtraceEventKind> {
    let number = |number: u32| Some(number.cast_signed());
    Some(match &event.kind {
        KernelEventKind::ThreadSwitch(switch) => FtraceEventKind::SchedSwitch(sched_switch(switch)),
        KernelEventKind::Waking {
            thread,
            name,
            target_cpu,
        } => FtraceEventKind::SchedWaking(SchedWaking {
            comm: Some(name.text()),
            pid: number(*thread),
            target_cpu: number(*target_cpu),
        }),
        KernelEventKind::NewThread {
            thread,
            name,
            same_process,
        } => FtraceEventKind::TaskNewtask(TaskNewtask {
            pid: number(*thread),
            comm: Some(name.text()),
            clone_flags: Some(u64::from(*same_process) * CLONE_THREAD),
        }),
        KernelEventKind::Rename { thread, name } => FtraceEventKind::TaskRename(TaskRename {
            pid: number(*thread),
            newcomm: Some(name.text()),
        }),
        KernelEventKind::Exit { thread } => FtraceEventKind::SchedProcessExit(SchedProcessExit {
            pid: number(*thread),
        }),
        KernelEventKind::InterruptEntry(InterruptContext::Soft(vec)) => {
            FtraceEventKind::SoftirqEntry(Softirq { vec: Some(*vec) })
        }
        KernelEventKind::InterruptExit(InterruptContext::Soft(vec)) => {
            FtraceEventKind::SoftirqExit(Softirq { vec: Some(*vec) })
        }
        KernelEventKind::InterruptEntry(interrupt) => {
            FtraceEventKind::IrqHandlerEntry(IrqHandlerEntry {
                irq: Some(line(*interrupt)),
                name: Some(interrupt_name(*interrupt, header)),
            })
        }
        KernelEventKind::InterruptExit(interrupt) => {
            FtraceEventKind::IrqHandlerExit(IrqHandlerExit {
                irq: Some(line(*interrupt)),
                ret: Some(1),
            })
        }
        KernelEventKind::CallEntry { number, .. } => FtraceEventKind::SysEnter(SysEnter {
            id: Some(number.cast_signed()),
        }),
        KernelEventKind::CallExit { number, result } => FtraceEventKind::SysExit(SysExit {
            id: Some(number.cast_signed()),
            ret: Some(*result),
        }),
        KernelEventKind::Idle { begins } => cpu_idle(event.cpu, *begins),
        KernelEventKind::TimerExpiry { .. }
        | KernelEventKind::ContentionBegin { .. }
        | KernelEventKind::ContentionEnd { .. }
        | KernelEventKind::Lock(_)
        | KernelEventKind::PageFault { .. }
        | KernelEventKind::Freezer { .. }
        | KernelEventKind::Lost { .. } => return None,
    })
}

fn cpu_idle(cpu: u32, begins: bool) -> FtraceEventKind {
    // The kernel writes all bits where idling ends; its state of idling is not kept.
    let state = if begins { 0 } else { u32::MAX };
    FtraceEventKind::CpuIdle(CpuIdle {
        state: Some(state),
        cpu_id: Some(cpu),
    })
}

fn sched_switch(switch: &ThreadSwitch) -> SchedSwitch {
    // The bits that the kernel writes.
    let state = match switch.state {
        OffCpuState::Runnable => 0,
        OffCpuState::Sleeping => 1,
        OffCpuState::Uninterruptible => 2,
        OffCpuState::Stopped => 4,
        OffCpuState::Ended => 16,
    };
    SchedSwitch {
        prev_comm: Some(switch.previous_name.text()),
        prev_pid: Some(switch.previous.cast_signed()),
        prev_prio: Some(switch.previous_rank),
        prev_state: Some(state),
        next_comm: Some(switch.next_name.text()),
        next_pid: Some(switch.next.cast_signed()),
        next_prio: Some(switch.next_rank),
    }
}

fn line(interrupt: InterruptContext) -> i32 {
    match interrupt {
        InterruptContext::Line(line) => line.cast_signed(),
        _ => NO_LINE,
    }
}
