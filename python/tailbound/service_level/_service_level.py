"""The service level of an application: a controller with a clock, for threads, asyncio and workers."""

from __future__ import annotations

import logging
import os
import random as random_numbers
import threading
import time
import weakref
from types import TracebackType
from typing import Callable, Optional, Type, Union

from ._controller import Controller
from ._report import Report, mean_level
from ._settings import Settings, Time, nanoseconds
from ._workers import WorkerFolder

_LOG = logging.getLogger("tailbound.service_level")


class Request:
    """A request that is served. It ends once: at the end of a ``with`` block, or by ``end()``."""

    def __init__(self, service_level: ServiceLevel, token: int, optional: bool) -> None:
        self._service_level = service_level
        self._token = token
        self.optional = optional
        """Whether optional content is served."""

    def end(self) -> None:
        """Ends the request; does nothing where it has ended."""
        self._service_level._end(self._token)

    def __enter__(self) -> Request:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.end()


class ServiceLevel:
    """The service level of this process.

    With ``workers``, the path of a folder, preferably in memory such as ``/run/shop``, the processes of an
    application see each other: each has a level of its own, a report merges all of them, and a process that
    had no request for a window takes the mean level of the others. ``clock`` and ``random`` are for tests.
    """

    def __init__(
        self,
        deadline: Time,
        *,
        interval: Time = "1s",
        window: Time = "5s",
        pole: float = 0.9,
        rise: float = 0.1,
        initial_level: float = 1.0,
        workers: Union[None, str, "os.PathLike[str]"] = None,
        clock: Callable[[], int] = time.monotonic_ns,
        random: Callable[[], float] = random_numbers.random,
    ) -> None:
        self.settings = Settings(deadline, interval, window, pole, rise, initial_level)
        self._clock = clock
        self._random = random
        self._folder = None if workers is None else WorkerFolder(workers)
        self._start()
        _restart_in_children(self)

    def _start(self) -> None:
        # The clock is read under the lock, so that the controller's time does not go back.
        self._lock = threading.Lock()
        self._controller = Controller(self.settings, self._clock())

    def _start_in_child(self) -> None:
        """Forgets the requests of the parent, which end there."""
        if self._folder is not None:
            self._folder.leave()
        self._start()

    def request(self, waited_ns: int = 0) -> Request:
        """Begins a request, and draws whether its optional content is served."""
        with self._lock:
            now_ns = self._clock()
            self._follow(now_ns)
            token = self._controller.begin(now_ns, waited_ns)
            level = self._controller.level(now_ns)
            self._publish(now_ns)
        # A level of 1 serves every request, since what is drawn is below 1.
        return Request(self, token, self._random() < level)

    def _end(self, token: int) -> None:
        with self._lock:
            now_ns = self._clock()
            self._controller.end(token, now_ns)
            self._publish(now_ns)

    def observe(self, latency: Time) -> None:
        """Takes a latency that the application has measured itself, of a request that has ended now."""
        latency_ns = nanoseconds(latency, "latency")
        with self._lock:
            now_ns = self._clock()
            self._follow(now_ns)
            self._controller.observe(latency_ns, now_ns)
            self._publish(now_ns)

    def level(self) -> float:
        """The probability that optional content is served in this process."""
        with self._lock:
            return self._controller.level(self._clock())

    def report(self) -> Report:
        """The state of this process, merged with that of the other workers where there is a folder."""
        with self._lock:
            now_ns = self._clock()
            report = self._controller.report(now_ns)
            self._publish(now_ns)
            serves = self._folder is None or self._folder.has_joined
        if self._folder is None:
            return report
        others = self._folder.others(self.settings.deadline_ns, now_ns)
        # A process that has served no request, such as the parent of all workers, is none of them.
        return report.merged(others) if serves or not others else others[0].merged(others[1:])

    def _follow(self, now_ns: int) -> None:
        """Takes the level of the other workers before a request to a worker without others: its own is old."""
        if self._folder is None or not self._controller.is_idle(now_ns):
            return
        others = self._folder.others(self.settings.deadline_ns, now_ns)
        if others and (
            not self._folder.has_joined or any(one.latency_ns is not None for one in others)
        ):
            self._controller.start_from(mean_level(others))
        if not self._folder.has_joined:
            try:
                self._folder.join()
            except OSError as error:
                # A request is no place to fail for the sake of a report.
                _LOG.warning("workers: this process is not in the report: %s", error)
                self._folder = None

    def _publish(self, now_ns: int) -> None:
        if self._folder is not None and self._folder.has_joined:
            controller = self._controller
            kept_ns, oldest_ns = controller.kept_ns(now_ns), controller.oldest_ns(now_ns)
            self._folder.write(controller.report(now_ns), now_ns, kept_ns, oldest_ns)


def _restart_in_children(service_level: ServiceLevel) -> None:
    """Has a service level start anew in every process that is forked, such as a worker of a server that
    loads the application first. A lock that another thread held at the fork would stay held there.
    """
    reference = weakref.ref(service_level)

    def restart() -> None:
        alive = reference()
        if alive is not None:
            alive._start_in_child()

    os.register_at_fork(after_in_child=restart)
