//! A trace that Perfetto opens, with the CPUs and threads as the kernel recorded them, and tracks of ours beside.

mod kernel_events;
mod programs;
mod schedules;
mod tracks;

use std::io::{BufRead, Write};

use tailbound_perfetto::message::{Process, ProcessTree, Thread, TracePacket};
use tailbound_perfetto::{PacketWriter, RECORDED_SEQUENCE};

use super::error::ExportError;
use super::program_events::ProgramEvents;
use super::thread_names::ThreadNames;
use crate::recording::{KernelRecording, PositionedBytes, RecordedProcess};
use kernel_events::KernelBundles;
use tracks::{RecordedTracks, write_requests, write_stalls};

/// The simulated schedules that stand beside a recording: their names for errors, and their bytes.
pub type SimulatedTraces<'a> = Vec<(String, Box<dyn BufRead + 'a>)>;

/// Writes the recording for <https://ui.perfetto.dev> and its trace processor, in nanoseconds of CLOCK_MONOTONIC.
///
/// - The kernel's events of scheduling, wake-ups, interrupts, softirqs, idling and system calls are Perfetto's own, so
///   that it shows CPUs, threads and processes as of any Linux trace.
/// - Under "recorded" stand tracks of the names that a simulated schedule of the same description has: "CPUs" with the
///   threads that ran and, below, the late looks of the sampler of stalls; "Reservations" with a slice for each time
///   that a domain was frozen, and the instants "ran out" and "replenished"; "Tasks" with a slice for each request from
///   its intended send time to its reply, as many beside each other as there were at once, up to 256.
/// - Events of programs are instants on the tracks of their threads, with their arguments.
/// - Under "simulated" stand the tracks of the traces that `tailbound simulate --export-schedule` wrote. Their time
///   begins at the first intended send time of the recording, or at its beginning if it has no load.
///
/// # Errors
/// The recording or a simulated trace cannot be read, or `out` not be written.
pub fn write_perfetto<B: PositionedBytes, W: Write>(
    recording: &KernelRecording<B>,
    programs: &ProgramEvents,
    simulated: SimulatedTraces<'_>,
    out: W,
) -> Result<W, ExportError> {
    let decoder = recording.decoder()?;
    let header = recording.header();
    let mut packets = PacketWriter::new(out, RECORDED_SEQUENCE);
    packets.write(process_tree(header.started.as_nanos(), &header.processes));
    let mut tracks = RecordedTracks::new(header, &mut packets);
    let mut bundles = KernelBundles::new(header);
    let mut names = ThreadNames::new(header);
    let mut events = recording.events(&decoder);
    while let Some(event) = events.next_event()? {
        names.note(&event);
        tracks.take(&event, &mut packets);
        bundles.take(&event, &mut packets);
    }
    bundles.finish(&mut packets);
    tracks.finish(&mut packets);
    let mut processes = header.processes.clone();
    if let Some(end) = recording.end() {
        packets.write(process_tree(end.ended.as_nanos(), &end.processes));
        processes.extend(end.processes.iter().cloned());
    }
    programs::write_programs(programs, &processes, &names, &mut packets);
    write_stalls(recording, &mut tracks, &mut packets)?;
    let first = write_requests(recording, &tracks, &mut packets)?;
    let begin = first.unwrap_or(header.started.as_nanos());
    schedules::append(simulated, begin, &mut packets)?;
    Ok(packets.finish()?)
}

/// The processes and their threads. The command line of a process is not recorded; the name of its first thread stands
/// for it.
fn process_tree(at: u64, recorded: &[RecordedProcess]) -> TracePacket {
    let mut tree = ProcessTree::default();
    for process in recorded {
        let pid = process.pid.cast_signed();
        for (thread, name) in process.named_threads() {
            tree.threads.push(Thread {
                tid: Some(thread.cast_signed()),
                name: Some(name.to_owned()),
                tgid: Some(pid),
            });
        }
        let first = process.named_threads().next();
        tree.processes.push(Process {
            pid: Some(pid),
            ppid: None,
            cmdline: first.into_iter().map(|(_, name)| name.to_owned()).collect(),
        });
    }
    TracePacket {
        timestamp_ns: Some(at),
        process_tree: Some(tree),
        ..TracePacket::default()
    }
}
