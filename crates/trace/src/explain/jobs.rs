//! Jobs of threads that no load generator drives: from waking up to sleeping again.

use std::collections::HashMap;

use crate::kernel::{KernelEvent, KernelEventKind, OffCpuState};

/// A job of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadJob {
    pub(crate) thread: u32,
    pub(crate) release: u64,
    pub(crate) completion: u64,
}

/// Jobs of threads with certain names, found as events go by.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobWatch {
    open: HashMap<u32, u64>,
}

impl JobWatch {
    /// The releases of the jobs that are under way.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.open.values().copied().min()
    }

    /// Takes in an event; the job that it ends. `is_wanted` knows the threads that are asked about.
    pub(crate) fn take(
        &mut self,
        event: &KernelEvent,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Option<ThreadJob> {
        let at = event.at.as_nanos();
        match &event.kind {
            KernelEventKind::Waking { thread, .. } if is_wanted(*thread) => {
                self.open.entry(*thread).or_insert(at);
                None
            }
            KernelEventKind::ThreadSwitch(switch) if switch.state != OffCpuState::Runnable => {
                let release = self.open.remove(&switch.previous)?;
                // Who waits for a device or a lock of the kernel goes on with the same job.
                if switch.state == OffCpuState::Uninterruptible {
                    self.open.insert(switch.previous, release);
                    return None;
                }
                Some(ThreadJob {
                    thread: switch.previous,
                    release,
                    completion: at,
                })
            }
            _ => None,
        }
    }
}
