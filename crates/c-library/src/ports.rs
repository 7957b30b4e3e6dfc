//! Ports from C: those that a program inherits, and those whose descriptors programs pass to each other themselves.

use std::ffi::{c_char, c_int};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use tailbound_linux::spawn::copy_of_descriptor;
use tailbound_ports::{
    InheritedReader, InheritedReceiver, InheritedSender, PortError, PortSize, QueuedMessage,
    QueuingReceiver, QueuingSender, Sample, SamplingReader, SamplingWriter, inherited,
};
use tailbound_time::Duration;

use crate::handle::{self, Handle};
use crate::input;
use crate::layout::{QueuedMessageLayout, SampleLayout};
use crate::status::{CallFailure, call};

/// The reading end of a sampling port.
enum SampleOrigin {
    Opened(SamplingReader),
    Inherited(InheritedReader),
}

/// The sending end of a queuing port.
enum MessageSink {
    Created(QueuingSender),
    Inherited(InheritedSender),
}

/// The receiving end of a queuing port.
enum MessageSource {
    Opened(QueuingReceiver),
    Inherited(InheritedReceiver),
}

type WriterHandle = Handle<SamplingWriter>;
type ReaderHandle = Handle<SampleOrigin>;
type SenderHandle = Handle<MessageSink>;
type ReceiverHandle = Handle<MessageSource>;

/// Opens the writing end of an inherited sampling port.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_sampling_writer_inherit(
    name: *const c_char,
    place: *mut *mut WriterHandle,
) -> c_int {
    // SAFETY: the header demands NULL or a text, and NULL or a place for a pointer.
    call(|| unsafe {
        let name = input::text(name, "the name of the port")?;
        handle::store(place, inherited(name)?.sampling_writer()?)
    })
}

/// Opens the reading end of an inherited sampling port.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_sampling_reader_inherit(
    name: *const c_char,
    place: *mut *mut ReaderHandle,
) -> c_int {
    // SAFETY: as above.
    call(|| unsafe {
        let name = input::text(name, "the name of the port")?;
        let reader = inherited(name)?.sampling_reader()?;
        handle::store(place, SampleOrigin::Inherited(reader))
    })
}

/// Opens the sending end of an inherited queuing port.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_queuing_sender_inherit(
    name: *const c_char,
    place: *mut *mut SenderHandle,
) -> c_int {
    // SAFETY: as above.
    call(|| unsafe {
        let name = input::text(name, "the name of the port")?;
        let sender = inherited(name)?.queuing_sender()?;
        handle::store(place, MessageSink::Inherited(sender))
    })
}

/// Opens the receiving end of an inherited queuing port.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_queuing_receiver_inherit(
    name: *const c_char,
    place: *mut *mut ReceiverHandle,
) -> c_int {
    // SAFETY: as above.
    call(|| unsafe {
        let name = input::text(name, "the name of the port")?;
        let receiver = inherited(name)?.queuing_receiver()?;
        handle::store(place, MessageSource::Inherited(receiver))
    })
}

/// Makes a sampling port.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_sampling_writer_create(
    longest: usize,
    messages: usize,
    place: *mut *mut WriterHandle,
) -> c_int {
    let size = PortSize { longest, messages };
    // SAFETY: the header demands NULL or a place for a pointer.
    call(|| unsafe { handle::store(place, SamplingWriter::create(size)?) })
}

/// Opens a sampling port of another program.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_sampling_reader_open(
    descriptor: c_int,
    validity_ns: u64,
    place: *mut *mut ReaderHandle,
) -> c_int {
    call(|| {
        let descriptor = copy_of(descriptor)?;
        let validity = Duration::from_nanos(validity_ns);
        let reader = SamplingReader::open(descriptor.as_fd(), validity)?;
        // SAFETY: as above.
        unsafe { handle::store(place, SampleOrigin::Opened(reader)) }
    })
}

/// Makes the sending end of a queuing port.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_queuing_sender_create(
    longest: usize,
    messages: usize,
    place: *mut *mut SenderHandle,
) -> c_int {
    let size = PortSize { longest, messages };
    // SAFETY: as above.
    call(|| unsafe { handle::store(place, MessageSink::Created(QueuingSender::create(size)?)) })
}

/// Opens the receiving end of a queuing port of another program.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_queuing_receiver_open(
    descriptor: c_int,
    place: *mut *mut ReceiverHandle,
) -> c_int {
    call(|| {
        let descriptor = copy_of(descriptor)?;
        let receiver = QueuingReceiver::open(descriptor.as_fd())?;
        // SAFETY: as above.
        unsafe { handle::store(place, MessageSource::Opened(receiver)) }
    })
}

/// Gives a sender the descriptor of its receiver.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_queuing_sender_connect(
    sender: *const SenderHandle,
    descriptor: c_int,
) -> c_int {
    let connect = |sender: &mut MessageSink| match sender {
        MessageSink::Created(sender) => {
            sender.connect(copy_of(descriptor)?.as_fd())?;
            Ok(0)
        }
        MessageSink::Inherited(_) => Err(passes_by_itself()),
    };
    // SAFETY: the header demands NULL or an open sender.
    call(|| unsafe { handle::with(sender, connect) })
}

/// The descriptor for the readers.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_sampling_writer_descriptor(writer: *const WriterHandle) -> c_int {
    let number = |writer: &mut SamplingWriter| Ok(writer.as_fd().as_raw_fd());
    // SAFETY: the header demands NULL or an open writer.
    call(|| unsafe { handle::with(writer, number) })
}

/// The descriptor for the receiver.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_queuing_sender_descriptor(sender: *const SenderHandle) -> c_int {
    let number = |sender: &mut MessageSink| match sender {
        MessageSink::Created(sender) => Ok(sender.as_fd().as_raw_fd()),
        MessageSink::Inherited(_) => Err(passes_by_itself()),
    };
    // SAFETY: the header demands NULL or an open sender.
    call(|| unsafe { handle::with(sender, number) })
}

/// The descriptor for the sender.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_queuing_receiver_descriptor(
    receiver: *const ReceiverHandle,
) -> c_int {
    let number = |receiver: &mut MessageSource| match receiver {
        MessageSource::Opened(receiver) => Ok(receiver.as_fd().as_raw_fd()),
        MessageSource::Inherited(_) => Err(passes_by_itself()),
    };
    // SAFETY: the header demands NULL or an open receiver.
    call(|| unsafe { handle::with(receiver, number) })
}

/// Makes a message the newest one.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_sampling_write(
    writer: *const WriterHandle,
    message: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: the header demands NULL or an open writer, and `length` bytes.
    call(|| unsafe {
        let message = input::bytes(message, length, "the message")?;
        handle::with(writer, |writer| Ok(writer.write(message).map(|_| 0)?))
    })
}

/// Copies the newest message: 1, or 0 before the first one.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_sampling_read(
    reader: *const ReaderHandle,
    room: *mut u8,
    room_length: usize,
    place: *mut SampleLayout,
) -> c_int {
    // SAFETY: the header demands NULL or an open reader, `room_length` bytes, and NULL or a place for a sample.
    call(|| unsafe {
        let room = input::room(room, room_length, "the room for the message")?;
        let sample = |reader: &mut SampleOrigin| {
            let sample = match reader {
                SampleOrigin::Opened(reader) => reader.read(room)?,
                SampleOrigin::Inherited(reader) => reader.read(room)?,
            };
            let Some(sample) = sample else { return Ok(0) };
            input::write(place, sample_layout(sample), "the sample").map(|()| 1)
        };
        handle::with(reader, sample)
    })
}

/// Sends a message.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_queuing_send(
    sender: *const SenderHandle,
    message: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: the header demands NULL or an open sender, and `length` bytes.
    call(|| unsafe {
        let message = input::bytes(message, length, "the message")?;
        let send = |sender: &mut MessageSink| {
            match sender {
                MessageSink::Created(sender) => sender.send(message)?,
                MessageSink::Inherited(sender) => sender.send(message)?,
            };
            Ok(0)
        };
        handle::with(sender, send)
    })
}

/// Takes the next message out: 1, or 0 from an empty port.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_queuing_receive(
    receiver: *const ReceiverHandle,
    room: *mut u8,
    room_length: usize,
    place: *mut QueuedMessageLayout,
) -> c_int {
    // SAFETY: the header demands NULL or an open receiver, `room_length` bytes, and NULL or a place for a message.
    call(|| unsafe {
        let room = input::room(room, room_length, "the room for the message")?;
        if place.is_null() {
            return Err(CallFailure::invalid("the place of the message is NULL"));
        }
        let receive = |receiver: &mut MessageSource| {
            let message = match receiver {
                MessageSource::Opened(receiver) => receiver.receive(room)?,
                MessageSource::Inherited(receiver) => receiver.receive(room)?,
            };
            let Some(message) = message else { return Ok(0) };
            input::write(place, message_layout(message), "the message").map(|()| 1)
        };
        handle::with(receiver, receive)
    })
}

/// Closes the writing end of a sampling port.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_sampling_writer_close(writer: *mut WriterHandle) -> c_int {
    // SAFETY: the header demands NULL or an open writer.
    unsafe { handle::close(writer) }
}

/// Closes the reading end of a sampling port.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_sampling_reader_close(reader: *mut ReaderHandle) -> c_int {
    // SAFETY: the header demands NULL or an open reader.
    unsafe { handle::close(reader) }
}

/// Closes the sending end of a queuing port.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_queuing_sender_close(sender: *mut SenderHandle) -> c_int {
    // SAFETY: the header demands NULL or an open sender.
    unsafe { handle::close(sender) }
}

/// Closes the receiving end of a queuing port.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_queuing_receiver_close(receiver: *mut ReceiverHandle) -> c_int {
    // SAFETY: the header demands NULL or an open receiver.
    unsafe { handle::close(receiver) }
}

/// A copy of a descriptor of the caller.
fn copy_of(descriptor: RawFd) -> Result<OwnedFd, CallFailure> {
    let no_descriptor = |_| CallFailure::invalid(format!("{descriptor} is no open descriptor"));
    copy_of_descriptor(descriptor).map_err(no_descriptor)
}

fn passes_by_itself() -> CallFailure {
    CallFailure::invalid("an inherited port passes its descriptors by itself")
}

fn sample_layout(sample: Sample) -> SampleLayout {
    SampleLayout {
        number: sample.number,
        length: sample.length,
        written_time_ns: sample.written.as_nanos(),
        age_ns: sample.age.as_nanos(),
        valid: u32::from(sample.valid),
    }
}

fn message_layout(message: QueuedMessage) -> QueuedMessageLayout {
    QueuedMessageLayout {
        number: message.number,
        length: message.length,
        written_time_ns: message.written.as_nanos(),
        age_ns: message.age.as_nanos(),
        waiting: message.waiting,
    }
}

impl From<PortError> for CallFailure {
    fn from(error: PortError) -> Self {
        use crate::Status;
        let status = match &error {
            PortError::Size { .. } | PortError::OtherRole { .. } => Status::Invalid,
            PortError::Memory { .. } | PortError::Exchange { .. } => Status::Refused,
            PortError::NoPort { .. } | PortError::NotInherited { .. } => Status::NoPort,
            PortError::TooLong { .. } => Status::TooLong,
            PortError::Full { .. } => Status::Full,
            PortError::Overtaken => Status::Overtaken,
            PortError::Garbled => Status::Garbled,
        };
        Self::new(status, error.to_string())
    }
}
