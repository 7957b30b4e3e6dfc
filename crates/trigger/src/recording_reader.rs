//! A recording from the side of the reader, in this process or another one, while it is written or afterwards.

use std::fs::File;
use std::io;

use crate::clock::{ClockConversion, ClockPair};
use crate::layout::{ARGUMENTS, RecordingFault, RecordingLayout, RecordingMemory};
use crate::mapped_file::MappedFile;
use crate::ring_buffer::SlotLabel;

/// An event of a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerEvent {
    /// The number of the trigger; [`RecordingReader::name`] has its name.
    pub site: u16,
    /// The thread, as the kernel numbers it.
    pub thread: u32,
    /// The instant, on the clock of the recording; [`RecordingReader::conversion`] takes it to CLOCK_MONOTONIC.
    pub instant: u64,
    /// Whether events were lost before this one: of the thread, or of any that has no buffer of its own.
    pub follows_loss: bool,
    /// The arguments; further ones are zero.
    arguments: [u64; ARGUMENTS],
    count: u8,
}

impl TriggerEvent {
    /// The arguments of the trigger, as many as the recording had room for.
    pub fn arguments(&self) -> &[u64] {
        &self.arguments[..usize::from(self.count)]
    }
}

/// The remains of a recording whose writers were killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salvage {
    /// Events that were being written.
    pub unfinished: u64,
    /// Slots that no trigger writes so.
    pub garbled: u64,
}

/// The reader of a recording; there is one at a time.
#[derive(Debug)]
pub struct RecordingReader {
    memory: RecordingMemory<'static>,
    conversion: ClockConversion,
    garbled: u64,
    /// The memory, which outlives what lies in it.
    _mapping: MappedFile,
}

impl RecordingReader {
    /// Opens the recording in `file`.
    ///
    /// # Errors
    /// `InvalidData` for a file that is no recording of this version or is too short, otherwise what the kernel says.
    pub fn open(file: &File) -> io::Result<Self> {
        let mapping = MappedFile::of_file(file).map_err(|error| match file.metadata() {
            Ok(metadata) if metadata.len() == 0 => RecordingFault::NoRecording.into(),
            _ => error,
        })?;
        // SAFETY: whole pages, which stay mapped until the reader is dropped; it hands out no reference into them.
        let memory = unsafe { RecordingMemory::new(mapping.base(), mapping.bytes()) };
        let memory = memory.map_err(io::Error::from)?;
        Ok(Self {
            memory,
            conversion: ClockConversion::new(&[memory.first_pair()]),
            garbled: 0,
            _mapping: mapping,
        })
    }

    /// The sizes of the recording, and its clock.
    pub fn layout(&self) -> RecordingLayout {
        self.memory.layout()
    }

    /// Takes the events that are ready, at most as many as there are slots: of each thread in their order, of
    /// different threads not. Reads both clocks, too; call it a few times a second for a small error of the clocks.
    pub fn drain(&mut self, mut visit: impl FnMut(&TriggerEvent)) {
        self.conversion.add(ClockPair::sample(self.layout().clock));
        let mut arguments = [0; ARGUMENTS];
        for ring in (0..self.layout().rings).filter_map(|number| self.memory.ring(number)) {
            for _ in 0..ring.slots() {
                let Some((label, instant)) = ring.read(&mut arguments) else {
                    break;
                };
                match self.event(label, instant, &arguments) {
                    Some(event) => visit(&event),
                    None => self.garbled += 1,
                }
            }
        }
    }

    /// Visits all events that are left after the death of the writers, those behind unfinished ones too.
    pub fn salvage(&self, mut visit: impl FnMut(&TriggerEvent)) -> Salvage {
        let mut salvage = Salvage {
            unfinished: 0,
            garbled: self.garbled,
        };
        for ring in (0..self.layout().rings).filter_map(|number| self.memory.ring(number)) {
            let unfinished =
                ring.salvage(&mut [0; ARGUMENTS], |label, instant, arguments| match self
                    .event(label, instant, arguments)
                {
                    Some(event) => visit(&event),
                    None => salvage.garbled += 1,
                });
            salvage.unfinished += u64::from(unfinished);
        }
        salvage
    }

    fn event(&self, label: SlotLabel, instant: u64, arguments: &[u64]) -> Option<TriggerEvent> {
        let room = self.layout().arguments as usize;
        let is_possible = label.site > 0 && usize::from(label.arguments) <= ARGUMENTS;
        let count = usize::from(label.arguments).min(room);
        let mut event = TriggerEvent {
            site: label.site,
            thread: label.thread,
            instant,
            follows_loss: label.follows_loss,
            arguments: [0; ARGUMENTS],
            count: count as u8,
        };
        event.arguments[..count].copy_from_slice(arguments.get(..count)?);
        is_possible.then_some(event)
    }

    /// The name of a trigger; `None` for one that the recording has no name of.
    pub fn name(&self, site: u16) -> Option<String> {
        self.memory.name(site.into())
    }

    /// The number of events that were lost because their buffer was full.
    pub fn lost(&self) -> u64 {
        let rings = (0..self.layout().rings).filter_map(|number| self.memory.ring(number));
        rings.map(|ring| u64::from(ring.lost())).sum()
    }

    /// The conversion of instants to CLOCK_MONOTONIC, by the readings at the beginning and at every [`Self::drain`].
    pub fn conversion(&self) -> &ClockConversion {
        &self.conversion
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::FileExt;

    use proptest::prelude::*;

    use super::*;
    use crate::clock::EventClock;

    fn layout() -> RecordingLayout {
        RecordingLayout {
            arguments: 2,
            slots: 4,
            rings: 2,
            names: 2,
            clock: EventClock::Monotonic,
        }
    }

    fn written() -> File {
        let file = layout().anonymous_file().unwrap();
        let reader = RecordingReader::open(&file).unwrap();
        reader.memory.enter_name(1, "a.b");
        let label = SlotLabel {
            site: 1,
            thread: 7,
            follows_loss: false,
            arguments: 3,
        };
        for ring in [0, 1].map(|number| reader.memory.ring(number).unwrap()) {
            for number in 0..6 {
                ring.write(label, number, &[number + 10, 20, 30]);
            }
        }
        file
    }

    #[test]
    fn a_recording_is_read_with_its_names_and_losses() {
        let mut reader = RecordingReader::open(&written()).unwrap();
        let mut events = Vec::new();
        reader.drain(|event| events.push(*event));
        assert_eq!(events.len(), 8);
        assert_eq!(events[1].arguments(), [11, 20], "the third has no room");
        assert_eq!((events[1].thread, events[1].instant), (7, 1));
        assert_eq!(reader.lost(), 4);
        assert_eq!(reader.name(1).as_deref(), Some("a.b"));
        assert_eq!([0, 2, 9].map(|site| reader.name(site)), [None, None, None]);
        assert_eq!(reader.salvage(|_| ()), Salvage::default());
        let next = SlotLabel {
            site: 1,
            thread: 7,
            follows_loss: false,
            arguments: 0,
        };
        for ring in [0, 1].map(|number| reader.memory.ring(number).unwrap()) {
            assert!(ring.write(next, 9, &[]) && ring.write(next, 10, &[]));
        }
        let mut follow_loss = Vec::new();
        reader.drain(|event| follow_loss.push(event.follows_loss));
        assert_eq!(follow_loss, [true, false, true, false]);
    }

    #[test]
    fn other_files_are_refused() {
        let open = |change: &dyn Fn(&File)| {
            let file = tempfile();
            layout().prepare(&file).unwrap();
            change(&file);
            RecordingReader::open(&file).unwrap_err().to_string()
        };
        let put = |place: u64, number: u32| {
            move |file: &File| file.write_all_at(&number.to_ne_bytes(), place).unwrap()
        };
        let sizes = "a recording of triggers with impossible sizes in its header";
        assert_eq!(
            open(&|file| file.set_len(0).unwrap()),
            "not a recording of triggers"
        );
        assert_eq!(
            open(&|file| file.set_len(100).unwrap()),
            "not a recording of triggers"
        );
        assert_eq!(open(&put(0, 7)), "not a recording of triggers");
        let version = "a recording of triggers of version 9; this program reads version 1";
        assert_eq!(open(&put(8, 9)), version);
        assert_eq!(open(&put(12, 9)), sizes);
        assert_eq!(open(&put(16, 5)), sizes);
        assert_eq!(open(&put(28, 5)), sizes);
        let truncated = "a recording of triggers that ends before its last buffer";
        assert_eq!(open(&put(16, 8)), truncated);
    }

    /// A file without a name that may be shortened.
    fn tempfile() -> File {
        let flags = libc::MFD_CLOEXEC;
        // SAFETY: the name is a constant string, and the descriptor is new.
        unsafe { std::os::fd::FromRawFd::from_raw_fd(libc::memfd_create(c"test".as_ptr(), flags)) }
    }

    proptest! {
        /// Any words anywhere behind the magic, the version and the sizes, which other tests garble.
        #[test]
        fn a_garbled_recording_is_read_to_an_end(
            garbled in proptest::collection::vec((4_u64..700, any::<u64>()), 0..40),
            small in proptest::collection::vec((528_u64..700, 0_u64..4), 0..40),
        ) {
            let file = written();
            for (word, value) in garbled.into_iter().chain(small) {
                let place = (word * 8).min(layout().bytes() as u64 - 8);
                file.write_all_at(&value.to_ne_bytes(), place).unwrap();
            }
            let mut reader = RecordingReader::open(&file).unwrap();
            let mut events = 0;
            let room = u64::from(layout().rings * layout().slots);
            reader.drain(|event| events += 1 + u64::from(event.site == 0));
            let salvage = reader.salvage(|event| events += u64::from(event.arguments().len() > 8));
            prop_assert!(events <= room);
            prop_assert!(salvage.unfinished <= room && salvage.garbled <= 2 * room);
            reader.lost();
            reader.name(1);
            reader.conversion().monotonic_ns(5);
        }
    }
}
