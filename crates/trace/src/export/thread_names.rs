//! The names of threads at the time of an event.

use std::collections::HashMap;

use crate::kernel::{KernelEvent, KernelEventKind, ThreadName};
use crate::recording::{RecordedProcess, RecordingHeader};

/// The names of threads, as far as events have given them. A number that a later thread has again has its name from then on.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadNames {
    names: HashMap<u32, ThreadName>,
}

impl ThreadNames {
    /// The names at the beginning of a recording.
    pub(super) fn new(header: &RecordingHeader) -> Self {
        let threads = header
            .processes
            .iter()
            .flat_map(RecordedProcess::named_threads);
        let names = threads.map(|(thread, name)| (thread, ThreadName::from(name)));
        Self {
            names: names.collect(),
        }
    }

    /// Takes the names that an event gives.
    pub(super) fn note(&mut self, event: &KernelEvent) {
        match &event.kind {
            KernelEventKind::ThreadSwitch(switch) => {
                self.names.insert(switch.previous, switch.previous_name);
                self.names.insert(switch.next, switch.next_name);
            }
            KernelEventKind::Waking { thread, name, .. }
            | KernelEventKind::NewThread { thread, name, .. }
            | KernelEventKind::Rename { thread, name } => {
                self.names.insert(*thread, *name);
            }
            _ => {}
        }
    }

    /// The name of a thread; the idle thread of a CPU is `idle`.
    pub(super) fn name(&self, thread: u32) -> String {
        match thread {
            0 => "idle".into(),
            _ => self
                .names
                .get(&thread)
                .map(ThreadName::text)
                .unwrap_or_default(),
        }
    }
}
