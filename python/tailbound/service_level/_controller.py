"""The controller of a service level: pure, with every time an argument.

The rule is one of Klein, Maggio, Arzen and Hernandez-Rodriguez for applications with optional content. Every interval the level s moves by (s / t) (1 - pole) (d - t), with the deadline d and the longest
latency t of the window; of a move upwards a tenth is carried out. s / t stands for the inverse of the gain
from level to latency, which the controller thereby estimates anew each time.
"""

from __future__ import annotations

from typing import Dict, List, Optional

from ._report import Report
from ._settings import Settings

LEAST_GAIN_LEVEL = 0.05
"""A lower level moves in steps as at this level: a level of zero could not be left otherwise."""

LEAST_GAIN_LATENCY = 0.1
"""In the gain, a latency counts as at least this share of the deadline: one near zero gives no jump."""


def next_level(level: float, latency_ns: int, settings: Settings) -> float:
    """The level after one update."""
    deadline = float(settings.deadline_ns)
    latency = float(latency_ns)
    inverse_gain = max(level, LEAST_GAIN_LEVEL) / max(latency, LEAST_GAIN_LATENCY * deadline)
    move = inverse_gain * (1.0 - settings.pole) * (deadline - latency)
    if move > 0.0:
        move *= settings.rise
    # The level is the integral of the rule, and is cut itself: nothing winds up at the ends.
    return min(1.0, max(0.0, level + move))


class Controller:
    """A service level that follows latencies.

    Times are whole nanoseconds of one clock. A clock that is set back by more than an interval goes on from
    where it was; one that is set forward counts as a gap. After a gap without calls at most one window of
    updates is made up for. Not for several threads: :class:`ServiceLevel` is.
    """

    def __init__(self, settings: Settings, start_ns: int = 0) -> None:
        self._settings = settings
        self._level = float(settings.initial_level)
        self._start_ns = start_ns
        self._now_ns = start_ns
        self._offset_ns = 0
        """What is added to the clock, so that time never goes back."""
        self._interval = 0
        """The number of the interval that is under way."""
        # The longest latency of each interval of the window, and of the one under way.
        self._longest_ns: List[Optional[int]] = [None] * (settings.intervals + 1)
        self._open: Dict[int, int] = {}
        """The beginnings of unfinished requests, by token."""
        self._tokens = 0
        self._requests = 0
        self._ended_ns: Optional[int] = None
        self.ignored = 0
        """The number of latencies that were no time: negative, or no whole nanoseconds."""

    def start_from(self, level: float) -> None:
        """Sets the level, such as to that of others that have run for longer."""
        self._level = min(1.0, max(0.0, level))

    def begin(self, at_ns: int, waited_ns: int = 0) -> int:
        """Begins a request that has waited for so long already; gives its token."""
        self._advance(at_ns)
        self._tokens += 1
        self._open[self._tokens] = self._now_ns - waited_ns
        return self._tokens

    def end(self, token: int, at_ns: int) -> None:
        """Ends a request; does nothing where it has ended."""
        self._advance(at_ns)
        start_ns = self._open.pop(token, None)
        if start_ns is not None:
            self._record(self._now_ns - start_ns)

    def observe(self, latency_ns: int, at_ns: int) -> None:
        """Takes the latency of a request that has ended now."""
        self._advance(at_ns)
        if type(latency_ns) is not int or latency_ns < 0:
            self.ignored += 1
            return
        self._record(latency_ns)

    def level(self, at_ns: int) -> float:
        """The probability that optional content is served, from 0 to 1."""
        self._advance(at_ns)
        return self._level

    def latency_ns(self, at_ns: int) -> Optional[int]:
        """The longest latency of the window and of the interval under way; none without a request.

        A request that is unfinished after the deadline counts with its age.
        """
        self._advance(at_ns)
        return self._latency_ns(self._now_ns)

    def matching_value(self, at_ns: int) -> Optional[float]:
        """1 - latency / deadline, from -1 to 1; none without a request in the window."""
        return self.report(at_ns).matching_value

    def is_idle(self, at_ns: int) -> bool:
        """Whether no request is in the window, and none is unfinished."""
        self._advance(at_ns)
        return not self._open and self._latency_ns(self._now_ns) is None

    def report(self, at_ns: int) -> Report:
        """Everything at once."""
        latency_ns = self.latency_ns(at_ns)
        age_ns = None if self._ended_ns is None else self._now_ns - self._ended_ns
        return Report(self._level, latency_ns, self._settings.deadline_ns, self._requests, age_ns)

    def oldest_ns(self, at_ns: int) -> Optional[int]:
        """The age of the unfinished request that began first."""
        self._advance(at_ns)
        first = next(iter(self._open.values()), None)
        return None if first is None else self._now_ns - first

    def kept_ns(self, at_ns: int) -> int:
        """How long the longest latency of ended requests stays in the window, if no longer one comes."""
        self._advance(at_ns)
        size = len(self._longest_ns)
        longest_ns, interval = -1, self._interval
        for number in range(max(0, self._interval - size + 1), self._interval + 1):
            latency_ns = self._longest_ns[number % size]
            if latency_ns is not None and latency_ns >= longest_ns:
                longest_ns, interval = latency_ns, number
        end_ns = self._start_ns + (interval + size) * self._settings.interval_ns
        return end_ns - self._now_ns

    def _record(self, latency_ns: int) -> None:
        place = self._interval % len(self._longest_ns)
        self._longest_ns[place] = max(latency_ns, self._longest_ns[place] or 0)
        self._requests += 1
        self._ended_ns = self._now_ns

    def _latency_ns(self, now_ns: int) -> Optional[int]:
        latencies = [latency for latency in self._longest_ns if latency is not None]
        first = next(iter(self._open.values()), None)
        if first is not None and now_ns - first > self._settings.deadline_ns:
            latencies.append(now_ns - first)
        return max(latencies, default=None)

    def _advance(self, at_ns: int) -> None:
        """Carries out the updates that are due."""
        interval_ns = self._settings.interval_ns
        now_ns = at_ns + self._offset_ns
        if now_ns < self._now_ns - interval_ns:
            self._offset_ns += self._now_ns - now_ns
        # Threads that read the clock one after the other may come in the other order.
        self._now_ns = max(self._now_ns, now_ns)
        due = (self._now_ns - self._start_ns) // interval_ns - self._interval
        for _ in range(min(due, self._settings.intervals)):
            self._update()
        if due > self._settings.intervals:
            self._interval += due - self._settings.intervals
            self._longest_ns = [None] * len(self._longest_ns)

    def _update(self) -> None:
        self._interval += 1
        self._longest_ns[self._interval % len(self._longest_ns)] = None
        boundary_ns = self._start_ns + self._interval * self._settings.interval_ns
        latency_ns = self._latency_ns(boundary_ns)
        if latency_ns is not None:
            self._level = next_level(self._level, latency_ns, self._settings)
