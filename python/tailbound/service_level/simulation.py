"""An overload played without a server: requests at a queue, served by the rule of the controller.

Requests come at random (Poisson) with a rate that changes from phase to phase. Servers take them in the
order of arrival; each needs an exponential time for its mandatory part and, with the probability of the
service level, another for its optional part. The controller is that of the middleware, with the
simulation's clock::

    from tailbound.service_level import Settings, simulation

    phases = [simulation.Phase("60s", 8), simulation.Phase("120s", 40)]
    played = simulation.simulate(Settings("1s"), phases, mandatory="10ms", optional="50ms")

The same arguments always give the same result.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass
from typing import Deque, Dict, Iterator, List, Optional, Sequence, Tuple

from ._controller import Controller
from ._settings import Settings, Time, nanoseconds


@dataclass(frozen=True)
class Phase:
    """A time with one rate of requests."""

    duration: Time
    rate: float
    """Requests a second."""


@dataclass(frozen=True)
class Moment:
    """The state at the end of an interval of the controller."""

    time_s: float
    service_level: float
    latency_s: Optional[float]
    """The longest latency of the window."""
    matching_value: Optional[float]
    queue: int
    """The number of requests that wait or are served."""


@dataclass(frozen=True)
class ServedRequest:
    """A request with its fate."""

    arrival_s: float
    latency_s: float
    optional: bool


@dataclass(frozen=True)
class StepResponse:
    """The result of a simulation."""

    deadline_s: float
    moments: List[Moment]
    requests: List[ServedRequest]

    def between(self, begin_s: float, end_s: float) -> StepResponse:
        """The part of the moments and arrivals in a span of time."""
        return StepResponse(
            self.deadline_s,
            [one for one in self.moments if begin_s <= one.time_s < end_s],
            [one for one in self.requests if begin_s <= one.arrival_s < end_s],
        )

    def mean_level(self) -> float:
        """The mean service level of the moments."""
        return sum(one.service_level for one in self.moments) / len(self.moments)

    def latency(self, probability: float) -> float:
        """A quantile of the requests' latencies, in seconds."""
        if not self.requests:
            raise ValueError("there are no requests in this span of time; give a longer one")
        latencies = sorted(one.latency_s for one in self.requests)
        return latencies[min(len(latencies) - 1, int(probability * len(latencies)))]

    def svg(self) -> str:
        """A picture as SVG: the level, and the longest latency with the deadline, over time."""
        return _svg(self)

    def _repr_svg_(self) -> str:
        """The picture in a notebook."""
        return self.svg()


def simulate(
    settings: Settings,
    phases: Sequence[Phase],
    *,
    mandatory: Time,
    optional: Time,
    servers: int = 1,
    seed: int = 1,
    fixed_level: Optional[float] = None,
) -> StepResponse:
    """Plays the phases one after the other. With ``fixed_level`` nobody controls."""
    means_ns = (nanoseconds(mandatory, "mandatory"), nanoseconds(optional, "optional"))
    if servers < 1:
        raise ValueError(f"servers is {servers}; give at least 1")
    for phase in phases:
        if not phase.rate > 0:
            raise ValueError(f"rate is {phase.rate!r}; give requests a second above zero")
    queue = _Queue(settings, means_ns, servers, seed, fixed_level)
    queue.play(
        list(_arrivals(phases, seed)), sum(nanoseconds(one.duration, "duration") for one in phases)
    )
    return StepResponse(settings.deadline_ns / 1e9, queue.moments, queue.requests)


def _arrivals(phases: Sequence[Phase], seed: int) -> Iterator[int]:
    """The times of arrival. They have a generator of their own: the same come with and without a controller."""
    numbers = random.Random(f"arrivals {seed}")
    begin_ns = 0
    for phase in phases:
        end_ns = begin_ns + nanoseconds(phase.duration, "duration")
        at_ns: float = begin_ns
        while (at_ns := at_ns + numbers.expovariate(phase.rate) * 1e9) < end_ns:
            yield int(at_ns)
        begin_ns = end_ns


class _Queue:
    """Servers with one queue before them, and the controller."""

    def __init__(
        self,
        settings: Settings,
        means_ns: Tuple[int, int],
        servers: int,
        seed: int,
        fixed_level: Optional[float],
    ) -> None:
        self._settings = settings
        self._controller = Controller(settings)
        self._means_ns = means_ns
        self._idle = servers
        self._numbers = random.Random(f"service {seed}")
        self._fixed_level = fixed_level
        self._waiting: Deque[Tuple[int, int]] = deque()
        self._ends: List[Tuple[int, int]] = []
        """The ends of the requests that are served, with their tokens, soonest first."""
        self._arrived: Dict[int, Tuple[int, bool]] = {}
        self.moments: List[Moment] = []
        self.requests: List[ServedRequest] = []

    def play(self, arrivals: List[int], end_ns: int) -> None:
        """Plays until the end; requests that are unfinished then are left out."""
        moment_ns = self._settings.interval_ns
        upcoming = iter([*arrivals, end_ns])
        arrival_ns = next(upcoming)
        while True:
            served_ns = self._ends[0][0] if self._ends else end_ns
            now_ns = min(moment_ns, served_ns, arrival_ns)
            if now_ns >= end_ns:
                return
            if now_ns == moment_ns:
                self._record(now_ns)
                moment_ns += self._settings.interval_ns
            elif now_ns == served_ns:
                self._finish(now_ns)
            else:
                self._waiting.append((self._controller.begin(now_ns), now_ns))
                arrival_ns = next(upcoming)
            self._serve(now_ns)

    def _serve(self, now_ns: int) -> None:
        """Gives waiting requests to idle servers; each is decided on when its service begins."""
        while self._idle and self._waiting:
            token, arrival_ns = self._waiting.popleft()
            level = (
                self._controller.level(now_ns) if self._fixed_level is None else self._fixed_level
            )
            has_optional = self._numbers.random() < level
            parts = [self._numbers.expovariate(1.0) * mean_ns for mean_ns in self._means_ns]
            duration_ns = int(parts[0] + (parts[1] if has_optional else 0.0))
            heapq.heappush(self._ends, (now_ns + duration_ns, token))
            self._arrived[token] = (arrival_ns, has_optional)
            self._idle -= 1

    def _finish(self, now_ns: int) -> None:
        _, token = heapq.heappop(self._ends)
        self._controller.end(token, now_ns)
        self._idle += 1
        arrival_ns, has_optional = self._arrived.pop(token)
        latency_s = (now_ns - arrival_ns) / 1e9
        self.requests.append(ServedRequest(arrival_ns / 1e9, latency_s, has_optional))

    def _record(self, now_ns: int) -> None:
        report = self._controller.report(now_ns)
        latency_s = None if report.latency_ns is None else report.latency_ns / 1e9
        level = report.service_level if self._fixed_level is None else self._fixed_level
        queue = len(self._waiting) + len(self._ends)
        self.moments.append(Moment(now_ns / 1e9, level, latency_s, report.matching_value, queue))


_WIDTH, _HEIGHT, _LEFT, _GAP = 560, 120, 60, 50
"""The size of a panel of the picture, and the room beside and below it."""


def _svg(played: StepResponse) -> str:
    end_s = played.moments[-1].time_s
    levels = [(one.time_s, one.service_level) for one in played.moments]
    latencies = [(one.time_s, one.latency_s) for one in played.moments if one.latency_s is not None]
    most_s = max([played.deadline_s, *(latency for _, latency in latencies)])
    deadline = [(0.0, played.deadline_s), (end_s, played.deadline_s)]
    height = 2 * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 20} {height + 10}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        *_axes(10, "service level", 1.0, end_s),
        _line(10, levels, 1.0, end_s, "#1f5fa8"),
        *_axes(10 + _HEIGHT + _GAP, "longest latency in s", most_s, end_s),
        _line(10 + _HEIGHT + _GAP, latencies, most_s, end_s, "#1f5fa8"),
        _line(10 + _HEIGHT + _GAP, deadline, most_s, end_s, "#a33", 'stroke-dasharray="5 4"'),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _axes(top: int, title: str, most: float, end_s: float) -> List[str]:
    """The frame of a panel with the ends of its scales."""
    bottom, middle = top + _HEIGHT, top + _HEIGHT // 2
    texts = [
        f'<text x="{_LEFT - 6}" y="{top + 10}" text-anchor="end">{most:.3g}</text>',
        f'<text x="{_LEFT - 6}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{_LEFT}" y="{bottom + 16}">0</text>',
        f'<text x="{_LEFT + _WIDTH}" y="{bottom + 16}" text-anchor="end">{end_s:.0f}</text>',
        f'<text x="{_LEFT + _WIDTH // 2}" y="{bottom + 16}" text-anchor="middle">time in s</text>',
        f'<text x="20" y="{middle}" transform="rotate(-90 20 {middle})" text-anchor="middle">{title}</text>',
    ]
    frame = f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#999"/>'
    return [frame, *texts]


def _line(
    top: int,
    points: List[Tuple[float, float]],
    most: float,
    end_s: float,
    colour: str,
    more: str = "",
) -> str:
    places = " ".join(
        f"{_LEFT + _WIDTH * time_s / end_s:.1f},{top + _HEIGHT * (1 - value / most):.1f}"
        for time_s, value in points
    )
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5" {more}/>'
