"""Ports between programs, over memory that the kernel lets one side alone write.

A sampling port has the newest message, with its age and whether it is valid; a queuing port has messages in
order, and says when it is full and when it is empty. No call waits. A program that ``tailbound run``
starts takes the ports of the description by name::

    from tailbound import ports

    position = ports.SamplingReader.inherited("position")
    sample = position.read()
    if sample is not None and sample.valid:
        steer(sample.payload)

Programs that start each other pass descriptors themselves. Times are whole nanoseconds of
CLOCK_MONOTONIC. What fails raises :class:`PortError`, whose ``kind`` names the reason in one word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from . import _native
from ._native import PortError
from ._times import Time, count, nanoseconds

__all__ = [
    "PortError",
    "QueuedMessage",
    "QueuingReceiver",
    "QueuingSender",
    "Sample",
    "SamplingReader",
    "SamplingWriter",
]


@dataclass(frozen=True)
class Sample:
    """The newest message of a sampling port."""

    payload: bytes
    number: int
    """From 1: the same number twice is the same message."""
    written_time_ns: int
    age_ns: int
    valid: bool
    """Whether it is no older than the validity of the port."""


@dataclass(frozen=True)
class QueuedMessage:
    """A message that was taken out of a queuing port."""

    payload: bytes
    number: int
    """From 1, without gaps."""
    written_time_ns: int
    age_ns: int
    waiting: int
    """The number of messages that wait behind it."""


class SamplingWriter:
    """Writes the newest message of a sampling port."""

    def __init__(self, native: _native.SamplingWriter) -> None:
        self._native = native

    @staticmethod
    def inherited(name: str) -> SamplingWriter:
        """The end of a port of the description."""
        return SamplingWriter(_native.SamplingWriter.inherited(name))

    @staticmethod
    def create(longest: int, messages: int = 4) -> SamplingWriter:
        """A port of our own, for messages of so many bytes, with room for so many of them."""
        row = (count(longest, "longest"), count(messages, "messages"))
        return SamplingWriter(_native.SamplingWriter.create(*row))

    @property
    def descriptor(self) -> int:
        """The descriptor for readers, as long as the writer lives."""
        return self._native.descriptor()

    def write(self, message: bytes) -> int:
        """Makes a message the newest one; its number."""
        return self._native.write(message)


class SamplingReader:
    """Reads the newest message of a sampling port."""

    def __init__(self, native: _native.SamplingReader) -> None:
        self._native = native

    @staticmethod
    def inherited(name: str) -> SamplingReader:
        """The end of a port of the description."""
        return SamplingReader(_native.SamplingReader.inherited(name))

    @staticmethod
    def open(descriptor: int, validity: Time) -> SamplingReader:
        """The port of a writer's descriptor, of which the reader has a copy then."""
        validity_ns = nanoseconds(validity, None, "validity")
        return SamplingReader(_native.SamplingReader.open(descriptor, validity_ns))

    def read(self) -> Optional[Sample]:
        """The newest message, if there is one."""
        sample = self._native.read()
        return None if sample is None else Sample(sample[0], *sample[1])


class QueuingSender:
    """Sends messages in order."""

    def __init__(self, native: _native.QueuingSender) -> None:
        self._native = native

    @staticmethod
    def inherited(name: str) -> QueuingSender:
        """The end of a port of the description."""
        return QueuingSender(_native.QueuingSender.inherited(name))

    @staticmethod
    def create(longest: int, messages: int) -> QueuingSender:
        """A port of our own, for messages of so many bytes, of which so many may wait."""
        row = (count(longest, "longest"), count(messages, "messages"))
        return QueuingSender(_native.QueuingSender.create(*row))

    @property
    def descriptor(self) -> int:
        """The descriptor for the receiver, as long as the sender lives."""
        return self._native.descriptor()

    def connect(self, descriptor: int) -> None:
        """Takes the receiver's descriptor. Before that the port is full."""
        self._native.connect(descriptor)

    def send(self, message: bytes) -> bool:
        """Sends a message; ``False`` if the port is full, and the message was not sent."""
        try:
            self._native.send(message)
        except PortError as error:
            if error.kind == "full":
                return False
            raise
        return True


class QueuingReceiver:
    """Receives messages in order."""

    def __init__(self, native: _native.QueuingReceiver) -> None:
        self._native = native

    @staticmethod
    def inherited(name: str) -> QueuingReceiver:
        """The end of a port of the description."""
        return QueuingReceiver(_native.QueuingReceiver.inherited(name))

    @staticmethod
    def open(descriptor: int) -> QueuingReceiver:
        """The port of a sender's descriptor, of which the receiver has a copy then."""
        return QueuingReceiver(_native.QueuingReceiver.open(descriptor))

    @property
    def descriptor(self) -> int:
        """The descriptor for the sender, as long as the receiver lives."""
        return self._native.descriptor()

    def receive(self) -> Optional[QueuedMessage]:
        """Takes the next message out, if there is one."""
        message = self._native.receive()
        return None if message is None else QueuedMessage(message[0], *message[1])
