//! The recording of the process: events of triggers go to the ring of their thread, or to the one for all.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::clock::EventClock;
use crate::layout::RecordingMemory;
use crate::mapped_file::MappedFile;
use crate::ring_buffer::{Ring, SlotLabel};
use crate::site::TriggerSite;

/// A recording that this process writes to. It is never unmapped, since a thread may be in the middle of a write.
#[derive(Debug)]
struct EventSink {
    mapping: MappedFile,
    memory: RecordingMemory<'static>,
    clock: EventClock,
    everyone: Ring<'static>,
}

/// The recording under way, or null.
static CURRENT: AtomicPtr<EventSink> = AtomicPtr::new(ptr::null_mut());
/// Recordings that have ended, whose memory goes back to the system when the next one begins.
static ENDED: Mutex<Vec<&'static EventSink>> = Mutex::new(Vec::new());

fn ended() -> MutexGuard<'static, Vec<&'static EventSink>> {
    ENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn current() -> Option<&'static EventSink> {
    // SAFETY: null, or a recording that was leaked.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// The part of a recording that one thread has.
struct ThreadRing {
    recording: Cell<*const EventSink>,
    ring: Cell<Option<Ring<'static>>>,
    thread: Cell<u32>,
    /// Whether the thread is in the middle of a write, into which a signal handler must not write.
    is_writing: Cell<bool>,
}

thread_local! {
    static THREAD_RING: ThreadRing = const {
        ThreadRing {
            recording: Cell::new(ptr::null()),
            ring: Cell::new(None),
            thread: Cell::new(0),
            is_writing: Cell::new(false),
        }
    };
}

impl ThreadRing {
    /// Joins a recording: takes a ring of it that no thread has, if there is one.
    #[cold]
    fn join(&self, recording: &'static EventSink) {
        self.leave();
        self.thread.set(thread_id());
        let first = self.thread.get();
        let own = recording.memory.layout().rings - 1;
        // Threads begin at different rings, so that most claim the first that they try.
        let numbers = (0..own).map(|offset| 1 + first.wrapping_add(offset) % own);
        let mut rings = numbers.filter_map(|number| recording.memory.ring(number));
        self.ring.set(rings.find(|ring| ring.claim(first)));
        self.recording.set(recording);
    }

    fn leave(&self) {
        if let Some(ring) = self.ring.take() {
            ring.release();
        }
    }
}

impl Drop for ThreadRing {
    fn drop(&mut self) {
        self.leave();
    }
}

fn thread_id() -> u32 {
    // SAFETY: gettid takes nothing.
    unsafe { libc::gettid() }.unsigned_abs()
}

/// The callback of triggers that record. Does nothing without a recording.
pub(crate) extern "C" fn record(site: &TriggerSite, arguments: *const u64, count: u32) {
    let Some(recording) = current() else {
        return;
    };
    let instant = recording.clock.now();
    // SAFETY: the trigger passes so many arguments.
    let arguments = unsafe { slice::from_raw_parts(arguments, count as usize) };
    let mut label = SlotLabel {
        site: site.number() as u16,
        thread: 0,
        follows_loss: false,
        arguments: count as u8,
    };
    let written = THREAD_RING.try_with(|own| {
        if own.is_writing.replace(true) {
            // A signal handler on top of a write: the ring of the thread has one writer at a time.
            label.thread = thread_id();
            recording.everyone.write(label, instant, arguments);
            return;
        }
        // The signal's handler is of this thread, so that the order of the compiler is enough.
        compiler_fence(Ordering::SeqCst);
        if !ptr::eq(own.recording.get(), recording) {
            own.join(recording);
        }
        label.thread = own.thread.get();
        let ring = own.ring.get().unwrap_or(recording.everyone);
        ring.write(label, instant, arguments);
        compiler_fence(Ordering::SeqCst);
        own.is_writing.set(false);
    });
    if written.is_err() {
        // The thread is ending, and has left its ring.
        label.thread = thread_id();
        recording.everyone.write(label, instant, arguments);
    }
}

/// Begins to record into `file`, which [`RecordingLayout`](crate::layout::RecordingLayout) prepared.
///
/// # Errors
/// `AlreadyExists` while another recording is under way, `InvalidData` for a file that is no recording, otherwise
/// what the kernel says.
pub(crate) fn begin(file: &File) -> io::Result<()> {
    let mut ended = ended();
    if current().is_some() {
        let text = "another recording of this process is under way";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    let mapping = MappedFile::of_file(file)?;
    // SAFETY: the mapping is of whole pages, and lives as long as the process, since the recording is leaked.
    let memory = unsafe { RecordingMemory::<'static>::new(mapping.base(), mapping.bytes()) };
    let memory = memory.map_err(io::Error::from)?;
    let everyone = memory.ring(0).ok_or(io::ErrorKind::InvalidData)?;
    for recording in ended.drain(..) {
        recording.mapping.empty();
    }
    forget_rings_of_parents();
    let clock = memory.layout().clock;
    let recording = EventSink {
        mapping,
        memory,
        clock,
        everyone,
    };
    CURRENT.store(Box::into_raw(Box::new(recording)), Ordering::Release);
    Ok(())
}

/// Ends the recording; a thread that is writing finishes its event.
pub(crate) fn end() {
    let mut ended = ended();
    // SAFETY: as in `current`.
    let recording = unsafe { CURRENT.swap(ptr::null_mut(), Ordering::AcqRel).as_ref() };
    ended.extend(recording);
}

/// Enters the name of a trigger into the recording under way, if there is one.
pub(crate) fn enter_name(number: u32, name: &str) {
    if let Some(recording) = current() {
        recording.memory.enter_name(number, name);
    }
}

/// Has children of fork take a ring of their own: that of the thread that forked is still the parent's.
fn forget_rings_of_parents() {
    static ONCE: Once = Once::new();
    extern "C" fn forget() {
        let _ = THREAD_RING.try_with(|own| {
            own.ring.set(None);
            own.is_writing.set(false);
            own.recording.set(ptr::null());
        });
    }
    // SAFETY: the function is of this program, and touches the memory of the calling thread only.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forget));
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::layout::RecordingLayout;

    #[test]
    fn a_signal_handler_on_top_of_a_write_leaves_the_ring_of_the_thread_alone() {
        static SITE: TriggerSite = TriggerSite::new("test.handler\0");
        SITE.prepare(1, record);
        let layout = RecordingLayout {
            rings: 2,
            ..RecordingLayout::default()
        };
        begin(&layout.anonymous_file().unwrap()).unwrap();
        let memory = current().unwrap().memory;
        SITE.fire(&[1]);
        THREAD_RING.with(|own| own.is_writing.set(true));
        SITE.fire(&[2]);
        THREAD_RING.with(|own| own.is_writing.set(false));
        SITE.fire(&[3]);
        end();
        let arguments = [0, 1].map(|number| {
            let ring = memory.ring(number).unwrap();
            let read = || {
                let mut argument = [0];
                ring.read(&mut argument)
                    .map(|(label, _)| (label.thread, argument[0]))
            };
            std::iter::from_fn(read).collect::<Vec<_>>()
        });
        let own = thread_id();
        assert_eq!(arguments, [vec![(own, 2)], vec![(own, 1), (own, 3)]]);
    }
}
