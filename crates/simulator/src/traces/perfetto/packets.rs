//! The tracks of a simulated schedule, each described before its first use.

use std::collections::BTreeMap;
use std::io;

use tailbound_perfetto::message::{ChildOrdering, CounterDescriptor, TrackDescriptor, Unit};
use tailbound_perfetto::{Annotation, PacketEvent, PacketWriter, SIMULATED_SEQUENCE};

use crate::traces::balance::BalanceKind;
use crate::traces::setting::Setting;

/// What a track is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Track {
    Cpus,
    Cpu(usize),
    Reservations,
    Reservation(usize),
    Balance(usize, BalanceKind),
    Tasks,
    Task(usize),
    Lane(usize, usize),
}

impl Track {
    fn parent(self) -> Option<Self> {
        match self {
            Self::Cpus | Self::Reservations | Self::Tasks => None,
            Self::Cpu(_) => Some(Self::Cpus),
            Self::Reservation(_) => Some(Self::Reservations),
            Self::Balance(reservation, _) => Some(Self::Reservation(reservation)),
            Self::Task(_) => Some(Self::Tasks),
            Self::Lane(task, _) => Some(Self::Task(task)),
        }
    }

    fn name(self, setting: &Setting) -> String {
        match self {
            Self::Cpus => "CPUs".into(),
            Self::Cpu(cpu) => format!("CPU {cpu}"),
            Self::Reservations => "Reservations".into(),
            Self::Reservation(number) => setting.reservation(number).map_or_else(
                || format!("reservation {number}"),
                |reservation| reservation.name.clone(),
            ),
            Self::Balance(_, BalanceKind::Left) => "budget left".into(),
            Self::Balance(_, BalanceKind::Used) => "used since replenishment".into(),
            Self::Tasks => "Tasks".into(),
            Self::Task(task) => setting.task_name(task),
            // Tracks of one name beside each other are drawn as one, on as many lines as needed.
            Self::Lane(..) => "jobs".into(),
        }
    }

    /// Its place among its siblings.
    fn rank(self) -> i32 {
        let place = match self {
            Self::Cpus | Self::Balance(..) | Self::Lane(..) => 0,
            Self::Reservations => 1,
            Self::Tasks => 2,
            Self::Cpu(place) | Self::Reservation(place) | Self::Task(place) => place,
        };
        i32::try_from(place).unwrap_or(i32::MAX)
    }
}

/// Packets, and the numbers of the tracks that were described.
#[derive(Debug)]
pub(super) struct Packets<W> {
    writer: PacketWriter<W>,
    tracks: BTreeMap<Track, u64>,
}

impl<W: io::Write> Packets<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            writer: PacketWriter::new(out, SIMULATED_SEQUENCE),
            tracks: BTreeMap::new(),
        }
    }

    pub(super) fn finish(self) -> io::Result<W> {
        self.writer.finish()
    }

    /// What a track is known by in the file, where it is described before its first use.
    pub fn uuid(&mut self, track: Track, setting: &Setting) -> u64 {
        if let Some(uuid) = self.tracks.get(&track) {
            return *uuid;
        }
        let parent_uuid = track.parent().map(|parent| self.uuid(parent, setting));
        let counter = matches!(track, Track::Balance(..)).then_some(CounterDescriptor {
            unit: Some(Unit::TimeNs.into()),
        });
        let ordered = matches!(track, Track::Cpus | Track::Reservations | Track::Tasks);
        let uuid = self.writer.describe(TrackDescriptor {
            name: Some(track.name(setting)),
            parent_uuid,
            counter,
            child_ordering: ordered.then(|| ChildOrdering::Explicit.into()),
            sibling_order_rank: Some(track.rank()),
            ..TrackDescriptor::default()
        });
        self.tracks.insert(track, uuid);
        uuid
    }

    pub(super) fn begin(&mut self, track: u64, at: u64, event: PacketEvent) {
        self.writer.begin(track, at, event);
    }

    pub(super) fn instant(&mut self, track: u64, at: u64, event: PacketEvent) {
        self.writer.instant(track, at, event);
    }

    pub(super) fn end(&mut self, track: u64, at: u64, annotations: Vec<Annotation>) {
        self.writer.end(track, at, annotations);
    }

    pub(super) fn count(&mut self, track: u64, at: u64, value: u64) {
        self.writer.count(track, at, value);
    }
}
