//! Simulated schedules beside a recording.

use std::io::Write;

use tailbound_perfetto::message::{ChildOrdering, TracePacket, TrackDescriptor};
use tailbound_perfetto::{PacketReader, PacketWriter, SIMULATED_SEQUENCE, TraceError};

use super::SimulatedTraces;
use crate::export::error::ExportError;

/// The sequence of the first schedule in the file; the next have the next, so that numbers of tracks and names are
/// those of one schedule each.
const FIRST_SEQUENCE: u32 = 3;

/// Writes the schedules below a track "simulated", several of them below tracks with their names, with `begin` as their
/// time 0.
///
/// # Errors
/// A schedule cannot be read.
pub(super) fn append(
    traces: SimulatedTraces<'_>,
    begin: u64,
    packets: &mut PacketWriter<impl Write>,
) -> Result<(), ExportError> {
    if traces.is_empty() {
        return Ok(());
    }
    let root = describe(packets, "simulated", None);
    let several = traces.len() > 1;
    for (sequence, (name, source)) in (FIRST_SEQUENCE..).zip(traces) {
        let mut reader = PacketReader::new(source);
        let failed = |cause: TraceError| ExportError::Simulated {
            name: name.clone(),
            what: cause.to_string(),
        };
        let parent = match several {
            true => describe(packets, &name, Some(root)),
            false => root,
        };
        let moved = Relocation {
            sequence,
            parent,
            begin,
        };
        while let Some(packet) = reader.next_packet().map_err(failed)? {
            if packet.trusted_packet_sequence_id != Some(SIMULATED_SEQUENCE) {
                return Err(ExportError::Simulated {
                    name: name.clone(),
                    what: "it has packets of others".into(),
                });
            }
            packets.write_foreign(moved.packet(packet));
        }
    }
    Ok(())
}

fn describe(packets: &mut PacketWriter<impl Write>, name: &str, parent_uuid: Option<u64>) -> u64 {
    packets.describe(TrackDescriptor {
        name: Some(name.to_owned()),
        parent_uuid,
        child_ordering: Some(ChildOrdering::Explicit.into()),
        sibling_order_rank: Some(1),
        ..TrackDescriptor::default()
    })
}

/// Where the packets of a schedule go.
struct Relocation {
    sequence: u32,
    parent: u64,
    begin: u64,
}

impl Relocation {
    fn packet(&self, mut packet: TracePacket) -> TracePacket {
        packet.trusted_packet_sequence_id = Some(self.sequence);
        packet.timestamp_ns = packet.timestamp_ns.map(|at| at.saturating_add(self.begin));
        if let Some(track) = &mut packet.track_descriptor {
            track.uuid = track.uuid.map(|uuid| self.number(uuid));
            track.parent_uuid = Some(
                track
                    .parent_uuid
                    .map_or(self.parent, |uuid| self.number(uuid)),
            );
        }
        if let Some(event) = &mut packet.track_event {
            event.track_uuid = event.track_uuid.map(|uuid| self.number(uuid));
            event
                .flow_ids
                .iter_mut()
                .for_each(|flow| *flow = self.number(*flow));
        }
        packet
    }

    /// A number that no other sequence has.
    fn number(&self, number: u64) -> u64 {
        u64::from(self.sequence - 1) << 32 | (number & u64::from(u32::MAX))
    }
}
