//! Events of programs, on the tracks of their threads.

use std::collections::BTreeMap;
use std::io::Write;

use tailbound_perfetto::message::{ThreadDescriptor, TrackDescriptor};
use tailbound_perfetto::{Annotation, PacketEvent, PacketWriter};

use crate::export::program_events::ProgramEvents;
use crate::export::thread_names::ThreadNames;
use crate::recording::RecordedProcess;

/// Names of the arguments, of which a trigger has eight at most.
const ARGUMENTS: [&str; 8] = [
    "argument 1",
    "argument 2",
    "argument 3",
    "argument 4",
    "argument 5",
    "argument 6",
    "argument 7",
    "argument 8",
];

/// Writes an instant for each event on the track of its thread, which is the one that Perfetto shows the scheduling of
/// the thread on. `processes` are those that the recording knows; a thread of none of them counts as a process.
pub(super) fn write_programs(
    programs: &ProgramEvents,
    processes: &[RecordedProcess],
    names: &ThreadNames,
    packets: &mut PacketWriter<impl Write>,
) {
    let mut tracks: BTreeMap<u32, u64> = BTreeMap::new();
    for event in &programs.events {
        let thread = event.thread;
        let track = *tracks.entry(thread).or_insert_with(|| {
            let mut owners = processes.iter().rev();
            let owner =
                owners.find(|process| process.named_threads().any(|(tid, _)| tid == thread));
            let pid = owner.map_or(thread, |process| process.pid);
            packets.describe(TrackDescriptor {
                thread: Some(ThreadDescriptor {
                    pid: Some(pid.cast_signed()),
                    tid: Some(thread.cast_signed()),
                    thread_name: Some(names.name(thread)).filter(|name| !name.is_empty()),
                }),
                ..TrackDescriptor::default()
            })
        });
        let mut instant = PacketEvent::named(&event.trigger);
        let arguments = ARGUMENTS.iter().zip(&event.arguments);
        instant.annotations = arguments
            .map(|(name, value)| Annotation::Number(name, *value))
            .collect();
        packets.instant(track, event.instant_ns, instant);
    }
}
