//! The file of a recording of locks: what [`LockStudy`](crate::LockStudy) takes, in the chunks of all recordings.
//!
//! | bytes | an event, little-endian |
//! | --- | --- |
//! | 0..8 | the instant on CLOCK_MONOTONIC in nanoseconds |
//! | 8..12 | the thread |
//! | 12 | the operation: 0 process, 1 to 4 acquired (mutex, read lock, write lock, spin lock), 5 released, 6 wait began, 7 wait ended, 8 handed over |
//! | 13 | flags: 1 follows losses, 2 has the instant of a request |
//! | 16..24 | the address of the lock, or the number of the process or of the other thread |
//! | 24..32 | the address behind the call |
//! | 32..40 | the instant of the request |

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use tailbound_trace::kernel::LockKind;
use tailbound_trace::recording::{
    ChunkIndex, ChunkKind, ChunkWriter, KernelRecordingError, PositionedBytes,
};

use crate::events::{LockEvent, LockOperation};
use crate::loss_marks::LossMarks;
use crate::mapped_modules::MappedModules;

const EVENT_BYTES: usize = 40;
/// Bytes of events that a chunk has, so that little is lost with a garbled one.
const CHUNK_BYTES: usize = EVENT_BYTES * 1024;
const RELEASED: u8 = 5;
const WAIT_BEGAN: u8 = 6;
const WAIT_ENDED: u8 = 7;
const HANDED_OVER: u8 = 8;
const FOLLOWS_LOSS: u8 = 1;
const HAS_REQUEST: u8 = 2;
/// The beginning of a recording of locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRecordingHeader {
    /// The words of the command.
    pub command: Vec<String>,
}

/// The sums at the end of a recording of locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRecordingEnd {
    /// Events that were lost to full buffers.
    pub lost: u64,
    /// Events that were being written when their writers were killed.
    pub unfinished: u64,
    /// The bound of the error of instants in nanoseconds.
    pub clock_error_ns: u64,
}

/// The mappings of a process, as /proc/PID/maps has them.
#[derive(Serialize, Deserialize)]
struct ProcessMappings {
    process: u32,
    mappings: String,
}

/// Writes a recording of locks; what was written stays readable wherever the writer ends.
#[derive(Debug)]
pub struct LockRecordingWriter<W> {
    chunks: ChunkWriter<W>,
    events: Vec<u8>,
}

impl<W: Write> LockRecordingWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(out: W, header: &LockRecordingHeader) -> io::Result<Self> {
        let mut chunks = ChunkWriter::new(out)?;
        chunks.write_json(ChunkKind::LockHeader, header)?;
        let events = Vec::with_capacity(CHUNK_BYTES);
        Ok(Self { chunks, events })
    }

    /// Writes the next event of a thread. Events of different threads come in any order.
    ///
    /// # Errors
    /// What the destination says, such as that the disk is full.
    pub fn write(&mut self, event: &LockEvent) -> io::Result<()> {
        self.events.extend(event_bytes(event));
        match self.events.len() < CHUNK_BYTES {
            true => Ok(()),
            false => self.write_events(),
        }
    }

    fn write_events(&mut self) -> io::Result<()> {
        if !self.events.is_empty() {
            self.chunks.write(ChunkKind::LockEvents, 0, &self.events)?;
            self.events.clear();
        }
        Ok(())
    }

    /// Ends the file; `mappings` has the text of /proc/PID/maps of each process.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn finish(
        mut self,
        mappings: BTreeMap<u32, String>,
        end: &LockRecordingEnd,
    ) -> io::Result<W> {
        self.write_events()?;
        for (process, mappings) in mappings {
            let mappings = ProcessMappings { process, mappings };
            self.chunks.write_json(ChunkKind::LockMappings, &mappings)?;
        }
        self.chunks.write_json(ChunkKind::LockEnd, end)?;
        self.chunks.flush()?;
        Ok(self.chunks.into_inner())
    }
}

/// A recording of locks that is read. Memory holds an index of 32 bytes for each chunk of a thousand events.
#[derive(Debug)]
pub struct LockRecording<B> {
    chunks: ChunkIndex<B>,
    header: LockRecordingHeader,
    end: Option<LockRecordingEnd>,
}

impl<B: PositionedBytes> LockRecording<B> {
    /// Looks through the chunks of a recording.
    ///
    /// # Errors
    /// No recording, one of the kernel's events, another version, no header, or what the source says.
    pub fn open(bytes: B) -> Result<Self, KernelRecordingError> {
        let mut chunks = ChunkIndex::open(bytes, &[ChunkKind::LockEvents])?;
        let header = chunks.first_json(ChunkKind::LockHeader)?;
        let without_header = match chunks.places_of(ChunkKind::Header, None).next() {
            Some(_) => KernelRecordingError::NoLocks,
            None => KernelRecordingError::NoHeader,
        };
        let header = header.ok_or(without_header)?;
        let end = chunks.first_json(ChunkKind::LockEnd)?;
        if end.is_none() {
            chunks.remark(
                "the recording has no end: the recorder was killed, or the file is cut short; losses were not counted, \
                 and places have no names",
            );
        }
        Ok(Self {
            chunks,
            header,
            end,
        })
    }

    /// The command.
    pub fn header(&self) -> &LockRecordingHeader {
        &self.header
    }

    /// The sums at the end; `None` for a recording that was cut short.
    pub fn end(&self) -> Option<&LockRecordingEnd> {
        self.end.as_ref()
    }

    /// Faults of the file that were read around.
    pub fn remarks(&self) -> &[String] {
        self.chunks.remarks()
    }

    /// The files that each process had mapped.
    ///
    /// # Errors
    /// Mappings that cannot be read.
    pub fn modules(&self) -> Result<BTreeMap<u32, MappedModules>, KernelRecordingError> {
        let places = self.chunks.places_of(ChunkKind::LockMappings, None);
        let mut modules = BTreeMap::new();
        for place in places {
            let of_process: ProcessMappings = self.chunks.json(place)?;
            let parsed = MappedModules::parse(&of_process.mappings);
            modules.insert(of_process.process, parsed);
        }
        Ok(modules)
    }

    /// Visits all events, of each thread in their order. Returns the number of chunks of events that cannot be read;
    /// the next event of every thread behind one follows losses.
    ///
    /// # Errors
    /// What the source says.
    pub fn visit(&self, mut visit: impl FnMut(&LockEvent)) -> Result<u64, KernelRecordingError> {
        let mut marks = LossMarks::default();
        let mut end = None;
        for place in self.chunks.places_of(ChunkKind::LockEvents, None) {
            // Chunks of events follow each other; one whose header is garbled is missing between two of them.
            if end.is_some_and(|end| end != place.start()) {
                marks.note_loss();
            }
            end = Some(place.end());
            let Some(content) = self.chunks.content(place)? else {
                marks.note_loss();
                continue;
            };
            let rows = content.chunks(EVENT_BYTES);
            for event in rows.map(event_of_bytes) {
                let Some(mut event) = event else {
                    marks.note_loss();
                    continue;
                };
                event.follows_loss |= marks.follows_loss(event.thread);
                visit(&event);
            }
        }
        Ok(marks.losses())
    }
}

fn event_bytes(event: &LockEvent) -> [u8; EVENT_BYTES] {
    let (operation, lock, site, requested_ns) = match event.operation {
        LockOperation::Process(process) => (0, process.into(), 0, None),
        LockOperation::Acquired {
            kind,
            lock,
            site,
            requested_ns,
        } => (kind_number(kind), lock, site, requested_ns),
        LockOperation::Released { lock } => (RELEASED, lock, 0, None),
        LockOperation::WaitBegan { lock } => (WAIT_BEGAN, lock, 0, None),
        LockOperation::WaitEnded { lock } => (WAIT_ENDED, lock, 0, None),
        LockOperation::HandedOver { to } => (HANDED_OVER, to.into(), 0, None),
    };
    let mut bytes = [0; EVENT_BYTES];
    bytes[..8].copy_from_slice(&event.instant_ns.to_le_bytes());
    bytes[8..12].copy_from_slice(&event.thread.to_le_bytes());
    bytes[12] = operation;
    for (is_set, flag) in [
        (event.follows_loss, FOLLOWS_LOSS),
        (requested_ns.is_some(), HAS_REQUEST),
    ] {
        bytes[13] |= if is_set { flag } else { 0 };
    }
    for (place, word) in [(16, lock), (24, site), (32, requested_ns.unwrap_or(0))] {
        bytes[place..place + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn kind_number(kind: LockKind) -> u8 {
    match kind {
        LockKind::Mutex => 1,
        LockKind::Read => 2,
        LockKind::Write => 3,
        LockKind::Spin => 4,
    }
}

/// The event of a row; `None` for a row that no writer writes.
fn event_of_bytes(row: &[u8]) -> Option<LockEvent> {
    let row: &[u8; EVENT_BYTES] = row.try_into().ok()?;
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&row[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let operation = match row[12] {
        0 => LockOperation::Process(u32::try_from(word(16)).ok()?),
        RELEASED => LockOperation::Released { lock: word(16) },
        WAIT_BEGAN => LockOperation::WaitBegan { lock: word(16) },
        WAIT_ENDED => LockOperation::WaitEnded { lock: word(16) },
        HANDED_OVER => LockOperation::HandedOver {
            to: u32::try_from(word(16)).ok()?,
        },
        number => LockOperation::Acquired {
            kind: *LockKind::ALL.get(usize::from(number) - 1)?,
            lock: word(16),
            site: word(24),
            requested_ns: (row[13] & HAS_REQUEST != 0).then(|| word(32)),
        },
    };
    Some(LockEvent {
        instant_ns: word(0),
        thread: word(8) as u32,
        follows_loss: row[13] & FOLLOWS_LOSS != 0,
        operation,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(thread: u32, operation: LockOperation) -> LockEvent {
        LockEvent {
            instant_ns: 1_000,
            thread,
            follows_loss: false,
            operation,
        }
    }

    fn any_event() -> impl Strategy<Value = LockEvent> {
        let kind = proptest::sample::select(&LockKind::ALL[..]);
        let operation = prop_oneof![
            any::<u32>().prop_map(LockOperation::Process),
            any::<u64>().prop_map(|lock| LockOperation::Released { lock }),
            any::<u64>().prop_map(|lock| LockOperation::WaitBegan { lock }),
            any::<u64>().prop_map(|lock| LockOperation::WaitEnded { lock }),
            any::<u32>().prop_map(|to| LockOperation::HandedOver { to }),
            (kind, any::<[u64; 2]>(), any::<Option<u64>>()).prop_map(
                |(kind, [lock, site], requested_ns)| {
                    LockOperation::Acquired {
                        kind,
                        lock,
                        site,
                        requested_ns,
                    }
                }
            ),
        ];
        (any::<u64>(), 0..4_u32, any::<bool>(), operation).prop_map(
            |(instant_ns, thread, follows_loss, operation)| LockEvent {
                instant_ns,
                thread,
                follows_loss,
                operation,
            },
        )
    }

    fn written(events: &[LockEvent]) -> Vec<u8> {
        let header = LockRecordingHeader {
            command: vec!["true".into()],
        };
        let mut writer = LockRecordingWriter::new(Vec::new(), &header).unwrap();
        for event in events {
            writer.write(event).unwrap();
        }
        let maps = "1000-3000 r-xp 00000000 fe:00 1 /bin/true\n".to_owned();
        let end = LockRecordingEnd {
            lost: 1,
            unfinished: 2,
            clock_error_ns: 3,
        };
        writer.finish([(7, maps)].into(), &end).unwrap()
    }

    fn read(file: &[u8]) -> (Vec<LockEvent>, u64) {
        let mut events = Vec::new();
        let recording = LockRecording::open(file).unwrap();
        let gaps = recording.visit(|event| events.push(*event)).unwrap();
        (events, gaps)
    }

    #[test]
    fn what_stands_behind_a_garbled_chunk_follows_losses() {
        // In the content of the second chunk of events, and in its header.
        let chunk = CHUNK_BYTES + 20;
        for garbled in [chunk + 10_000, chunk + 4] {
            check_losses_behind(garbled);
        }
    }

    /// Garbles a byte that stands so far behind the beginning of the first chunk of events.
    fn check_losses_behind(garbled: usize) {
        let release = |thread| event(thread, LockOperation::Released { lock: 5 });
        let mut events = vec![release(1); 1024];
        events.extend([release(1); 1024]);
        events.extend([release(1), release(2), release(1)]);
        let mut file = written(&events);
        let chunks = LockRecording::open(&file[..]).unwrap().chunks;
        let first = chunks
            .places_of(ChunkKind::LockEvents, None)
            .next()
            .unwrap();
        let first = first.start() as usize;
        file[first + garbled] ^= 1;
        let (events, gaps) = read(&file);
        assert_eq!((events.len(), gaps), (1024 + 3, 1));
        let losses: Vec<_> = events[1024..].iter().map(|it| it.follows_loss).collect();
        assert_eq!(losses, [true, true, false]);
    }

    #[test]
    fn other_files_and_short_ones_are_refused_or_remarked() {
        let open = |bytes: &[u8]| {
            LockRecording::open(bytes)
                .map(drop)
                .unwrap_err()
                .to_string()
        };
        assert!(open(b"").contains("this is no recording of tailbound"));
        let file = written(&[]);
        assert!(open(&file[..30]).contains("no readable header"));
        let mut kernel = ChunkWriter::new(Vec::new()).unwrap();
        let header = tailbound_trace::recording::RecordingHeader::default();
        kernel.write_json(ChunkKind::Header, &header).unwrap();
        assert!(open(&kernel.into_inner()).contains("this is no recording of locks"));
        let as_kernel = tailbound_trace::recording::KernelRecording::open(&file[..]);
        let refusal = as_kernel.map(drop).unwrap_err().to_string();
        assert_eq!(
            refusal,
            "this is a recording of locks; print it with `tailbound trace locks FILE`"
        );
        let short = LockRecording::open(&file[..file.len() - 1]).unwrap();
        assert_eq!(short.end(), None);
        assert!(short.remarks().iter().any(|it| it.contains("has no end")));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(events in proptest::collection::vec(any_event(), 0..40)) {
            let file = written(&events);
            prop_assert_eq!(read(&file), (events, 0));
            let recording = LockRecording::open(&file[..]).unwrap();
            prop_assert_eq!(&recording.header().command, &["true"]);
            prop_assert_eq!(recording.end().unwrap().clock_error_ns, 3);
            let place = recording.modules().unwrap()[&7].place(0x2000).unwrap();
            prop_assert_eq!((place.path.as_str(), place.offset), ("/bin/true", 0x1000));
        }

        /// Any bytes anywhere, and any end: an error or events, never a panic.
        #[test]
        fn garbled_recordings_are_read_to_an_end(
            events in proptest::collection::vec(any_event(), 0..8),
            garbled in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            rows in proptest::collection::vec(any::<u8>(), 0..100),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut file = written(&events);
            let mut chunks = ChunkWriter::new(Vec::new()).unwrap();
            chunks.write_json(ChunkKind::LockHeader, &LockRecordingHeader::default()).unwrap();
            chunks.write(ChunkKind::LockEvents, 0, &rows).unwrap();
            read(&chunks.into_inner());
            for (place, value) in garbled {
                let place = place.index(file.len());
                file[place] = value;
            }
            file.truncate(cut.index(file.len() + 1));
            if let Ok(recording) = LockRecording::open(&file[..]) {
                let _ = recording.modules();
                let mut count = 0;
                recording.visit(|_| count += 1).unwrap();
                prop_assert!(count <= events.len());
            }
        }
    }
}
