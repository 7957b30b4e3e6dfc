//! Ports: sampling and queuing ports, inherited or opened by descriptors. No call waits.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tailbound_linux::spawn::copy_of_descriptor;
use tailbound_ports::{
    InheritedReader, InheritedReceiver, InheritedSender, PortError as Refused, PortSize, Sample,
    inherited,
};
use tailbound_time::Duration;

pyo3::create_exception!(
    tailbound,
    PortError,
    pyo3::exceptions::PyException,
    "A port was not opened, or a message not passed.\n\n`kind` names the reason in one word: \"size\", \"refused\", \
     \"no-port\", \"other-role\", \"too-long\", \"full\", \"overtaken\" or \"garbled\"."
);

/// Number, time of writing, age, and whether valid or how many wait.
type MessageRow<T> = (u64, u64, u64, T);
type Passed<'py, T> = Option<(Bound<'py, PyBytes>, MessageRow<T>)>;

fn raised(python: Python<'_>, kind: &str, text: impl ToString) -> PyErr {
    let error = PortError::new_err(text.to_string());
    match error.value(python).setattr("kind", kind) {
        Ok(()) => error,
        Err(other) => other,
    }
}

fn refused(python: Python<'_>, error: &Refused) -> PyErr {
    let kind = match error {
        Refused::Size { .. } => "size",
        Refused::Memory { .. } | Refused::Exchange { .. } => "refused",
        Refused::NoPort { .. } | Refused::NotInherited { .. } => "no-port",
        Refused::OtherRole { .. } => "other-role",
        Refused::TooLong { .. } => "too-long",
        Refused::Full { .. } => "full",
        Refused::Overtaken => "overtaken",
        Refused::Garbled => "garbled",
    };
    raised(python, kind, error)
}

fn copied(python: Python<'_>, descriptor: RawFd) -> PyResult<OwnedFd> {
    copy_of_descriptor(descriptor).map_err(|error| raised(python, "no-port", error))
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The writing end of a sampling port.
#[pyclass(frozen, module = "tailbound._native")]
pub struct SamplingWriter(Mutex<tailbound_ports::SamplingWriter>);

#[pymethods]
impl SamplingWriter {
    #[staticmethod]
    fn inherited(python: Python<'_>, name: &str) -> PyResult<Self> {
        let writer = inherited(name).and_then(|port| port.sampling_writer());
        let writer = writer.map_err(|error| refused(python, &error))?;
        Ok(Self(Mutex::new(writer)))
    }

    #[staticmethod]
    fn create(python: Python<'_>, longest: usize, messages: usize) -> PyResult<Self> {
        let writer = tailbound_ports::SamplingWriter::create(PortSize { longest, messages });
        let writer = writer.map_err(|error| refused(python, &error))?;
        Ok(Self(Mutex::new(writer)))
    }

    fn descriptor(&self) -> RawFd {
        lock(&self.0).as_fd().as_raw_fd()
    }

    fn write(&self, python: Python<'_>, message: &[u8]) -> PyResult<u64> {
        let number = lock(&self.0).write(message);
        number.map_err(|error| refused(python, &error))
    }
}

enum SampleSource {
    Opened(tailbound_ports::SamplingReader),
    Inherited(InheritedReader),
}

/// The reading end of a sampling port, with room for a message.
#[pyclass(frozen, module = "tailbound._native")]
pub struct SamplingReader(Mutex<(SampleSource, Vec<u8>)>);

#[pymethods]
impl SamplingReader {
    #[staticmethod]
    fn inherited(python: Python<'_>, name: &str) -> PyResult<Self> {
        let port = inherited(name).map_err(|error| refused(python, &error))?;
        let room = vec![0; port.size().longest];
        let reader = port.sampling_reader();
        let reader = reader.map_err(|error| refused(python, &error))?;
        Ok(Self(Mutex::new((SampleSource::Inherited(reader), room))))
    }

    #[staticmethod]
    fn open(python: Python<'_>, descriptor: RawFd, validity_ns: u64) -> PyResult<Self> {
        let descriptor = copied(python, descriptor)?;
        let validity = Duration::from_nanos(validity_ns);
        let reader = tailbound_ports::SamplingReader::open(descriptor.as_fd(), validity);
        let reader = reader.map_err(|error| refused(python, &error))?;
        let room = vec![0; reader.size().longest];
        Ok(Self(Mutex::new((SampleSource::Opened(reader), room))))
    }

    fn read<'py>(&self, python: Python<'py>) -> PyResult<Passed<'py, bool>> {
        let mut own = lock(&self.0);
        let (source, room) = &mut *own;
        let sample = match source {
            SampleSource::Opened(reader) => reader.read(room),
            SampleSource::Inherited(reader) => reader.read(room),
        };
        let sample = sample.map_err(|error| refused(python, &error))?;
        Ok(sample.map(|sample: Sample| {
            let row = (
                sample.number,
                sample.written.as_nanos(),
                sample.age.as_nanos(),
                sample.valid,
            );
            (PyBytes::new(python, &room[..sample.length]), row)
        }))
    }
}

enum MessageSink {
    Created(tailbound_ports::QueuingSender),
    Inherited(InheritedSender),
}

/// The sending end of a queuing port.
#[pyclass(frozen, module = "tailbound._native")]
pub struct QueuingSender(Mutex<MessageSink>);

#[pymethods]
impl QueuingSender {
    #[staticmethod]
    fn inherited(python: Python<'_>, name: &str) -> PyResult<Self> {
        let sender = inherited(name).and_then(|port| port.queuing_sender());
        let sender = sender.map_err(|error| refused(python, &error))?;
        Ok(Self(Mutex::new(MessageSink::Inherited(sender))))
    }

    #[staticmethod]
    fn create(python: Python<'_>, longest: usize, messages: usize) -> PyResult<Self> {
        let sender = tailbound_ports::QueuingSender::create(PortSize { longest, messages });
        let sender = sender.map_err(|error| refused(python, &error))?;
        Ok(Self(Mutex::new(MessageSink::Created(sender))))
    }

    fn descriptor(&self, python: Python<'_>) -> PyResult<RawFd> {
        match &*lock(&self.0) {
            MessageSink::Created(sender) => Ok(sender.as_fd().as_raw_fd()),
            MessageSink::Inherited(_) => Err(passes_by_itself(python)),
        }
    }

    fn connect(&self, python: Python<'_>, descriptor: RawFd) -> PyResult<()> {
        let descriptor = copied(python, descriptor)?;
        match &mut *lock(&self.0) {
            MessageSink::Created(sender) => sender
                .connect(descriptor.as_fd())
                .map_err(|error| refused(python, &error)),
            MessageSink::Inherited(_) => Err(passes_by_itself(python)),
        }
    }

    fn send(&self, python: Python<'_>, message: &[u8]) -> PyResult<u64> {
        let number = match &mut *lock(&self.0) {
            MessageSink::Created(sender) => sender.send(message),
            MessageSink::Inherited(sender) => sender.send(message),
        };
        number.map_err(|error| refused(python, &error))
    }
}

enum MessageSource {
    Opened(tailbound_ports::QueuingReceiver),
    Inherited(InheritedReceiver),
}

/// The receiving end of a queuing port, with room for a message.
#[pyclass(frozen, module = "tailbound._native")]
pub struct QueuingReceiver(Mutex<(MessageSource, Vec<u8>)>);

#[pymethods]
impl QueuingReceiver {
    #[staticmethod]
    fn inherited(python: Python<'_>, name: &str) -> PyResult<Self> {
        let port = inherited(name).map_err(|error| refused(python, &error))?;
        let room = vec![0; port.size().longest];
        let receiver = port.queuing_receiver();
        let receiver = receiver.map_err(|error| refused(python, &error))?;
        Ok(Self(Mutex::new((MessageSource::Inherited(receiver), room))))
    }

    #[staticmethod]
    fn open(python: Python<'_>, descriptor: RawFd) -> PyResult<Self> {
        let descriptor = copied(python, descriptor)?;
        let receiver = tailbound_ports::QueuingReceiver::open(descriptor.as_fd());
        let receiver = receiver.map_err(|error| refused(python, &error))?;
        let room = vec![0; receiver.size().longest];
        Ok(Self(Mutex::new((MessageSource::Opened(receiver), room))))
    }

    fn descriptor(&self, python: Python<'_>) -> PyResult<RawFd> {
        match &lock(&self.0).0 {
            MessageSource::Opened(receiver) => Ok(receiver.as_fd().as_raw_fd()),
            MessageSource::Inherited(_) => Err(passes_by_itself(python)),
        }
    }

    fn receive<'py>(&self, python: Python<'py>) -> PyResult<Passed<'py, u64>> {
        let mut own = lock(&self.0);
        let (source, room) = &mut *own;
        let message = match source {
            MessageSource::Opened(receiver) => receiver.receive(room),
            MessageSource::Inherited(receiver) => receiver.receive(room),
        };
        let message = message.map_err(|error| refused(python, &error))?;
        Ok(message.map(|message| {
            let row = (
                message.number,
                message.written.as_nanos(),
                message.age.as_nanos(),
                message.waiting,
            );
            (PyBytes::new(python, &room[..message.length]), row)
        }))
    }
}

fn passes_by_itself(python: Python<'_>) -> PyErr {
    let text = "an inherited port passes its descriptors by itself";
    raised(python, "other-role", text)
}
