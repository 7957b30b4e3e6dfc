//! The tracks below "recorded", named as those of a simulated schedule.

use std::collections::BTreeMap;
use std::io::Write;

use tailbound_perfetto::message::{ChildOrdering, TrackDescriptor};
use tailbound_perfetto::{Annotation, EventName, PacketEvent, PacketWriter};

use crate::explain::WithheldDomain;
use crate::kernel::{KernelEvent, KernelEventKind};
use crate::recording::{KernelRecording, KernelRecordingError, PositionedBytes, RecordingHeader};

/// So many requests of one task have a slice of their own at once; those beyond have an instant.
const LANES: usize = 256;

/// The name of the instant of a request beyond.
const BEYOND: &str = "one of too many at once";

/// The tracks, and what is open on them.
pub(super) struct RecordedTracks {
    cpus: BTreeMap<u32, CpuTrack>,
    domains: Vec<DomainTrack>,
    tasks: u64,
    latest: u64,
}

struct CpuTrack {
    uuid: u64,
    busy: bool,
}

struct DomainTrack {
    uuid: u64,
    state: WithheldDomain,
    frozen: bool,
}

impl RecordedTracks {
    pub(super) fn new(header: &RecordingHeader, packets: &mut PacketWriter<impl Write>) -> Self {
        let root = describe(packets, "recorded", None, 0);
        let parent = |packets: &mut PacketWriter<_>, name: &str, rank: usize| {
            describe(packets, name, Some(root), rank)
        };
        let cpus = parent(packets, "CPUs", 0);
        let reservations = parent(packets, "Reservations", 1);
        let tasks = parent(packets, "Tasks", 2);
        let cpu = |cpu: &u32| {
            let name = format!("CPU {cpu}");
            let uuid = describe(packets, &name, Some(cpus), *cpu as usize);
            (*cpu, CpuTrack { uuid, busy: false })
        };
        let cpus = header.cpus.iter().map(cpu).collect();
        let mut domains = Vec::new();
        for (rank, domain) in header.domains.iter().enumerate() {
            let mut state = WithheldDomain::new(domain);
            header
                .processes
                .iter()
                .for_each(|process| state.note_cgroups(process));
            let uuid = describe(packets, &domain.name, Some(reservations), rank);
            domains.push(DomainTrack {
                uuid,
                state,
                frozen: false,
            });
        }
        Self {
            cpus,
            domains,
            tasks,
            latest: 0,
        }
    }

    /// Takes an event: a switch of threads, or of the freezer.
    pub(super) fn take(&mut self, event: &KernelEvent, packets: &mut PacketWriter<impl Write>) {
        let at = event.at.as_nanos();
        self.latest = at;
        match &event.kind {
            KernelEventKind::ThreadSwitch(switch) => {
                let Some(cpu) = self.cpus.get_mut(&event.cpu) else {
                    return;
                };
                if std::mem::replace(&mut cpu.busy, switch.next != 0) {
                    packets.end(cpu.uuid, at, Vec::new());
                }
                if switch.next != 0 {
                    let mut slice = PacketEvent::named(&switch.next_name.text());
                    slice
                        .annotations
                        .push(Annotation::Number("thread", switch.next.into()));
                    packets.begin(cpu.uuid, at, slice);
                }
            }
            KernelEventKind::Lost { .. } => {
                // Nobody knows how long the thread went on.
                if let Some(cpu) = self.cpus.get_mut(&event.cpu)
                    && std::mem::take(&mut cpu.busy)
                {
                    packets.end(cpu.uuid, at, Vec::new());
                }
            }
            KernelEventKind::Freezer { path, frozen, .. } => {
                for domain in &mut self.domains {
                    domain.state.freeze(path, *frozen);
                    domain.show(at, packets);
                }
            }
            _ => {}
        }
    }

    /// Ends what is open.
    pub(super) fn finish(&mut self, packets: &mut PacketWriter<impl Write>) {
        for cpu in self.cpus.values().filter(|cpu| cpu.busy) {
            packets.end(cpu.uuid, self.latest, Vec::new());
        }
        for domain in self.domains.iter().filter(|domain| domain.frozen) {
            packets.end(domain.uuid, self.latest, Vec::new());
        }
    }
}

impl DomainTrack {
    fn show(&mut self, at: u64, packets: &mut PacketWriter<impl Write>) {
        let frozen = self.state.is_frozen();
        match (self.frozen, frozen) {
            (false, true) => {
                packets.instant(self.uuid, at, PacketEvent::named("ran out"));
                packets.begin(self.uuid, at, PacketEvent::named("frozen"));
            }
            (true, false) => {
                packets.end(self.uuid, at, Vec::new());
                packets.instant(self.uuid, at, PacketEvent::named("replenished"));
            }
            _ => {}
        }
        self.frozen = frozen;
    }
}

/// Writes the late looks of each CPU's sampler onto a track below the CPU's.
///
/// # Errors
/// The recording cannot be read.
pub(super) fn write_stalls<B: PositionedBytes>(
    recording: &KernelRecording<B>,
    tracks: &mut RecordedTracks,
    packets: &mut PacketWriter<impl Write>,
) -> Result<(), KernelRecordingError> {
    for (cpu, track) in &tracks.cpus {
        let delays = recording.sampler_delays(*cpu)?;
        if delays.is_empty() {
            continue;
        }
        let uuid = describe(packets, "stalls", Some(track.uuid), 0);
        let mut ended = 0;
        for delay in delays {
            // Looks that were missed together have slices one behind the other.
            let begin = delay.due.as_nanos().max(ended);
            ended = delay.woke.as_nanos().max(begin);
            packets.begin(uuid, begin, PacketEvent::named("late look"));
            packets.end(uuid, ended, Vec::new());
        }
    }
    Ok(())
}

/// Writes the requests of all loads; the first intended send time.
///
/// # Errors
/// The recording cannot be read.
pub(super) fn write_requests<B: PositionedBytes>(
    recording: &KernelRecording<B>,
    tracks: &RecordedTracks,
    packets: &mut PacketWriter<impl Write>,
) -> Result<Option<u64>, KernelRecordingError> {
    let mut tasks: BTreeMap<String, TaskLanes> = BTreeMap::new();
    let mut first: Option<u64> = None;
    for (load, place) in recording.loads()? {
        for (number, row) in recording.requests(&place).enumerate() {
            let row = row?;
            let task = load.tasks.get(row.task as usize);
            let task = task.cloned().unwrap_or_else(|| row.task.to_string());
            let name = format!("{}.{task}", load.service);
            let rank = tasks.len();
            let lanes = tasks.entry(name).or_insert_with_key(|name| TaskLanes {
                uuid: describe(packets, name, Some(tracks.tasks), rank),
                lanes: Vec::new(),
            });
            let (begin, end) = (row.intended.as_nanos(), row.replied.as_nanos());
            first = Some(first.map_or(begin, |first| first.min(begin)));
            let Some(lane) = lanes.lane(begin, end.max(begin), packets) else {
                packets.instant(lanes.uuid, begin, PacketEvent::named(BEYOND));
                continue;
            };
            let event = PacketEvent {
                name: EventName::Text(format!("#{number}")),
                flow: None,
                annotations: vec![
                    Annotation::Text("run", load.run.clone()),
                    Annotation::Number("client", row.client.into()),
                    Annotation::Truth("answered", row.answered),
                    Annotation::Truth("warm-up", row.warm_up),
                ],
            };
            packets.begin(lane, begin, event);
            packets.end(lane, end.max(begin), Vec::new());
        }
    }
    Ok(first)
}

/// The lanes of a task: a number, and until when there is a request on it.
struct TaskLanes {
    uuid: u64,
    lanes: Vec<(u64, u64)>,
}

impl TaskLanes {
    /// A lane that is free, which a request takes until `end`.
    fn lane(
        &mut self,
        begin: u64,
        end: u64,
        packets: &mut PacketWriter<impl Write>,
    ) -> Option<u64> {
        if let Some((uuid, until)) = self.lanes.iter_mut().find(|(_, until)| *until <= begin) {
            *until = end;
            return Some(*uuid);
        }
        if self.lanes.len() == LANES {
            return None;
        }
        // Tracks of one name beside each other are drawn as one, on as many lines as needed.
        let uuid = describe(packets, "jobs", Some(self.uuid), 0);
        self.lanes.push((uuid, end));
        Some(uuid)
    }
}

fn describe(
    packets: &mut PacketWriter<impl Write>,
    name: &str,
    parent_uuid: Option<u64>,
    rank: usize,
) -> u64 {
    packets.describe(TrackDescriptor {
        name: Some(name.to_owned()),
        parent_uuid,
        child_ordering: Some(ChildOrdering::Explicit.into()),
        sibling_order_rank: Some(i32::try_from(rank).unwrap_or(i32::MAX)),
        ..TrackDescriptor::default()
    })
}
