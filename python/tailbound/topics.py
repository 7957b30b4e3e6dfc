"""Publish and subscribe: messages between programs by topics, with those in Rust and C, too.

::

    from tailbound import topics

    topic = topics.Topic("people", "Positions", longest=1024)
    with topics.DataSpace.udp_multicast("127.0.0.1", 7400) as space:
        with space.subscriber(topic) as subscriber, space.publisher(topic) as publisher:
            publisher.publish(b"two at the door")
            if subscriber.wait("1s"):
                message = subscriber.take()

Messages are bytes. Other threads of Python run while a subscriber waits. Times are texts with a unit or
``timedelta``, as in the rest of the package; what comes out is whole nanoseconds of the data space's
clock. What fails raises :class:`TopicError`, whose ``kind`` names the reason in one word.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, Optional, Type, TypeVar

from . import _native
from ._native import TopicError
from ._times import Time, count, nanoseconds, optional_nanoseconds, refuse

__all__ = [
    "Contract",
    "Counts",
    "DataSpace",
    "Event",
    "Message",
    "Publisher",
    "Quality",
    "Route",
    "Subscriber",
    "SubscriberThread",
    "Topic",
    "TopicError",
]

_SLICE_NS = 100_000_000
"""The longest wait without a look at signals and at the end of a thread."""


@dataclass(frozen=True)
class Quality:
    """How a topic is delivered. A transport that lacks a quality refuses the topic."""

    history: int = 1
    """The number of messages that wait; a newer one takes the place of the oldest."""
    reliable: bool = False
    """Whether lost messages are sent again."""
    deadline: Optional[Time] = None
    """The longest distance between messages of a publisher; a longer one is an event."""
    lifespan: Optional[Time] = None
    """The age above which a message is not delivered."""
    lease: Optional[Time] = None
    """The time without a sign of life after which a publisher is lost."""

    def _row(self) -> tuple[int, bool, Optional[int], Optional[int], Optional[int]]:
        times = [
            optional_nanoseconds(value, None, name)
            for name, value in [
                ("deadline", self.deadline),
                ("lifespan", self.lifespan),
                ("lease", self.lease),
            ]
        ]
        return (count(self.history, "history", 1), self.reliable, times[0], times[1], times[2])


@dataclass(frozen=True)
class Contract:
    """The traffic that each publisher may cause."""

    messages: int
    """The number of messages in each interval, wherever it begins."""
    interval: Time
    bytes: Optional[int] = None
    """The bytes in each interval; if left out, ``messages`` times the longest message."""
    least_distance: Optional[Time] = None
    violation: str = "drop"
    """The fate of the others: ``"drop"`` or ``"hold-back"``."""

    def _row(self) -> tuple[int, Optional[int], int, int, bool]:
        if self.violation not in ("drop", "hold-back"):
            raise refuse(f'violation is {self.violation!r}; write "drop" or "hold-back"')
        distance_ns = optional_nanoseconds(self.least_distance, None, "least_distance")
        return (
            count(self.messages, "messages"),
            self.bytes,
            nanoseconds(self.interval, None, "interval"),
            distance_ns or 0,
            self.violation == "hold-back",
        )


@dataclass(frozen=True)
class Topic:
    """A topic. Publishers and subscribers agree on name and type."""

    name: str
    type_name: str
    longest: int
    """The longest payload, in bytes."""
    publishers: int = 1
    """The number of publishers that there is room for."""
    subscribers: int = 1
    quality: Quality = field(default_factory=Quality)
    contract: Optional[Contract] = None

    def _row(self) -> Any:
        return (
            self.name,
            self.type_name,
            count(self.longest, "longest", 1),
            count(self.publishers, "publishers", 1),
            count(self.subscribers, "subscribers", 1),
            self.quality._row(),
            None if self.contract is None else self.contract._row(),
        )


@dataclass(frozen=True)
class Route:
    """The ends of a topic over datagrams to addresses, as this program sees them."""

    topic: str
    listen: Optional[str] = None
    """The address at which the subscriber of this program receives."""
    peers: Iterable[str] = ()
    """The addresses of the subscribers that the publisher of this program sends to."""


@dataclass(frozen=True)
class Message:
    """A message as a subscriber gets it."""

    payload: bytes
    source: int
    """The publisher."""
    sequence: int
    """The publisher's number of the message, from 0."""
    instance: int
    """The instance, a hash of its key; 0 without keys."""
    source_time_ns: int
    """The time at which the message was published."""
    origin_time_ns: int
    """The time of the oldest measurement in the message, for messages that are made of it."""
    arrival_time_ns: int
    disposes: bool
    """Whether the message says that its instance is gone."""

    @property
    def data_age_ns(self) -> int:
        """The time since the oldest measurement in the message."""
        return max(0, self.arrival_time_ns - self.origin_time_ns)

    @property
    def age_ns(self) -> int:
        """The time since the message was published."""
        return max(0, self.arrival_time_ns - self.source_time_ns)


@dataclass(frozen=True)
class Event:
    """What a subscriber is told of a publisher."""

    kind: str
    """``"appeared"``, ``"messages-lost"``, ``"contract-broken"``, ``"deadline-missed"``,
    ``"publisher-lost"`` or ``"publisher-ended"``."""
    source: int
    count: int
    """The number of messages or deadlines; 1 of other kinds."""
    breach: Optional[str]
    """The limit of the contract that was exceeded: ``"messages"``, ``"bytes"`` or ``"distance"``."""


@dataclass(frozen=True)
class Counts:
    """Messages so far, by what happened to them."""

    delivered: int
    signs: int
    lost: int
    held_back: int
    dropped: int
    of_other_topics: int
    too_long: int
    of_strangers: int
    repeated: int
    expired: int
    garbage: int


_Self = TypeVar("_Self", bound="_Closing")


class _Closing:
    """What ends with a ``with`` block."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


class DataSpace(_Closing):
    """The place where publishers and subscribers of topics meet. All programs of one use one clock:
    by default CLOCK_MONOTONIC, of one host; with ``wall`` CLOCK_REALTIME, which NTP or PTP keep
    together on several."""

    def __init__(self, native: _native.TopicSpace) -> None:
        self._native = native

    @staticmethod
    def in_process() -> DataSpace:
        """Between the threads of this process."""
        return DataSpace(_native.TopicSpace.in_process())

    @staticmethod
    def udp_multicast(interface: str, port: int, hops: int = 1, wall: bool = False) -> DataSpace:
        """Over multicast datagrams on the interface with this address, within so many networks."""
        if not 0 < port < 65_536:
            raise refuse(f"port is {port}; give one from 1 to 65535")
        if not 0 < hops < 256:
            raise refuse(f"hops is {hops}; give 1 to 255")
        return DataSpace(_native.TopicSpace.udp_multicast(interface, port, hops, wall))

    @staticmethod
    def udp_unicast(routes: Iterable[Route], wall: bool = False) -> DataSpace:
        """Over datagrams to the addresses of each topic."""
        rows = [(route.topic, route.listen, list(route.peers)) for route in routes]
        return DataSpace(_native.TopicSpace.udp_unicast(rows, wall))

    @staticmethod
    def shared_memory(name: str) -> DataSpace:
        """Over shared memory of this host, where the package was built with it."""
        return DataSpace(_native.TopicSpace.shared_memory(name))

    @staticmethod
    def zeromq_on_host(name: str, wall: bool = False) -> DataSpace:
        """Over ZeroMQ on this host, where the package was built with it."""
        return DataSpace(_native.TopicSpace.zeromq_on_host(name, wall))

    @staticmethod
    def named(transport: str, address: str, wall: bool = False) -> DataSpace:
        """By the name of the transport and the address, as descriptions have both: ``"rtps"`` and
        ``"127.0.0.1:0"`` for a domain of DDS. ``udp`` and ``rtps`` are always there, ``shared-memory``,
        ``zeromq``, ``cyclone-dds`` and ``zenoh`` where the package was built with them."""
        return DataSpace(_native.TopicSpace.named(transport, address, wall))

    def publisher(self, topic: Topic) -> Publisher:
        """Makes a publisher."""
        return Publisher(self._native.publisher(topic._row()))

    def subscriber(self, topic: Topic) -> Subscriber:
        """Makes a subscriber."""
        return Subscriber(self._native.subscriber(topic._row()))

    def close(self) -> None:
        """Closes the space; its publishers and subscribers stay."""
        self._native.close()


class Publisher(_Closing):
    """Publishes messages of a topic. Threads may share one."""

    def __init__(self, native: _native.Publisher) -> None:
        self._native = native

    @property
    def source(self) -> int:
        """The number of the publisher in its messages."""
        return self._native.source

    def publish(
        self, payload: bytes, *, key: Optional[bytes] = None, origin_ns: Optional[int] = None
    ) -> None:
        """Publishes a message: with a key, the new value of that instance; with an origin, such as
        ``origin_time_ns`` of a message, data that was made of others."""
        self._native.publish(payload, key, origin_ns)

    def dispose(self, key: bytes) -> None:
        """Says that the instance with a key is gone."""
        self._native.dispose(key)

    def assert_liveliness(self) -> None:
        """Says that the publisher lives, where it has nothing else to say within its lease."""
        self._native.assert_liveliness()

    def close(self) -> None:
        """Says farewell."""
        self._native.close()


class Subscriber(_Closing):
    """Receives messages of a topic. Calls of several threads follow each other."""

    def __init__(self, native: _native.Subscriber) -> None:
        self._native = native

    def take(self) -> Optional[Message]:
        """The next message, if one waits. Never waits itself."""
        taken = self._native.take()
        return None if taken is None else Message(taken[0], *taken[1])

    def messages(self) -> Iterator[Message]:
        """The messages that wait."""
        while (message := self.take()) is not None:
            yield message

    def wait(self, limit: Optional[Time] = None) -> bool:
        """Waits for a message to take or an event to hear of, at most this long; without a limit, for ever.
        Whether there is one."""
        limit_ns = optional_nanoseconds(limit, None, "limit")
        end_ns = None if limit_ns is None else time.monotonic_ns() + limit_ns
        while True:
            slice_ns = _SLICE_NS
            if end_ns is not None:
                slice_ns = max(0, min(slice_ns, end_ns - time.monotonic_ns()))
            if self._native.wait(slice_ns):
                return True
            if end_ns is not None and time.monotonic_ns() >= end_ns:
                return False

    def take_event(self) -> Optional[Event]:
        """The next event. Events come about in ``take`` and ``wait``."""
        event = self._native.take_event()
        return None if event is None else Event(*event)

    def events(self) -> Iterator[Event]:
        """The events that were not taken yet."""
        while (event := self.take_event()) is not None:
            yield event

    def counts(self) -> Counts:
        """Messages so far, by what happened to them."""
        return Counts(**self._native.counts())

    def on_message(
        self,
        on_message: Callable[[Message], object],
        on_event: Optional[Callable[[Event], object]] = None,
    ) -> SubscriberThread:
        """Starts a thread that calls back with each message and event. The subscriber is the thread's then."""
        return SubscriberThread(self, on_message, on_event)

    def close(self) -> None:
        """Ends the subscriber."""
        self._native.close()


class SubscriberThread(_Closing):
    """A thread that calls back until its end. What a callback raises ends the thread, and comes out of
    ``close``."""

    def __init__(
        self,
        subscriber: Subscriber,
        on_message: Callable[[Message], object],
        on_event: Optional[Callable[[Event], object]],
    ) -> None:
        self._subscriber = subscriber
        self._on_message = on_message
        self._on_event = on_event
        self._ends = threading.Event()
        self._failure: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, name="tailbound", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._ends.is_set():
                self._subscriber._native.wait(_SLICE_NS)
                for message in self._subscriber.messages():
                    self._on_message(message)
                    if self._ends.is_set():
                        break
                for event in self._subscriber.events():
                    if self._on_event is not None:
                        self._on_event(event)
        except BaseException as failure:
            self._failure = failure

    def close(self) -> None:
        """Ends the thread, within a tenth of a second and after the callback that runs."""
        self._ends.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
            self._subscriber.close()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
