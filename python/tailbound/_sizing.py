"""Which reservation keeps promises."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, Iterable, Literal, Mapping, Optional, Union

import numpy as np

from . import _native
from ._native import AnalysisError
from ._load import Batch, Service, ServiceNs, batch_law, service_law
from ._optional import frame
from ._plots import Curve, Picture, unit_for
from ._response import Backend
from ._tasks import Tasks, released
from ._times import (
    Interval,
    Nanoseconds,
    Time,
    Times,
    count,
    interval,
    many_nanoseconds,
    nanoseconds,
    per_second,
    refuse,
    timedeltas,
)

SizedServer = Literal["deferrable", "periodic", "polling", "constant-bandwidth"]
"""The kinds of server that are sized: those that have a budget."""

Promises = Union[str, Iterable[str], Mapping[float, Time]]
"""Shares of responses with their latencies, ``{0.99: "30ms"}``, or as on the command line
``"p99=30ms"``, several in a list or with commas between them."""


@dataclass(frozen=True)
class Choice:
    """The answer for one period."""

    period: np.timedelta64
    """The period."""
    budget: Optional[np.timedelta64]
    """The least budget that keeps all promises, to within ``resolution`` above it; ``None`` if no
    budget is shown to."""
    budget_with_margin: Optional[np.timedelta64]
    """The budget with the margin for what the model leaves out, at most the period."""
    resolution: np.timedelta64
    """How much less was not shown to be enough."""
    on_front: bool
    """Whether no other choice needs as little bandwidth at as long a period."""

    @property
    def bandwidth(self) -> Optional[float]:
        """Budget / period, without the margin."""
        return None if self.budget is None else float(self.budget / self.period)


@dataclass(frozen=True)
class Infeasible:
    """The proof that a promise cannot be kept: what a CPU of its own reaches."""

    probability: float
    """The promised share of responses."""
    latency: np.timedelta64
    """Within this latency."""
    share_at_most: float
    """The share that a CPU of its own keeps within it, at most."""
    dedicated_latency: Interval
    """The latency that it reaches for the promised share."""

    def __str__(self) -> str:
        latency = _native.format_duration(int(self.latency.astype(np.int64)))
        return (
            f"not even a CPU of its own keeps {self.probability:.6g} of the responses within "
            f"{latency}: it reaches {self.share_at_most:.4f} at most, and "
            f"{self.dedicated_latency} for that share"
        )


@dataclass(frozen=True)
class Sizing:
    """The answer of :func:`size`."""

    choices: list[Choice]
    """One per period, in the order asked."""
    best: Optional[Choice]
    """The one with the least bandwidth, of several the one with the longest period."""
    infeasible: list[Infeasible]
    """Promises that not even a CPU of its own keeps; empty where there may be an answer."""
    assumptions: list[str]
    """What is taken for granted."""

    @property
    def front(self) -> list[Choice]:
        """What nothing beats in both: less bandwidth, and a longer period, which costs less
        overhead."""
        return [choice for choice in self.choices if choice.on_front]

    def to_frame(self) -> Any:
        """The choices as a ``pandas.DataFrame``, one row per period."""

        def column(values: list[Optional[np.timedelta64]]) -> Any:
            nat = np.timedelta64("NaT", "ns")
            return np.array([nat if one is None else one for one in values], "timedelta64[ns]")

        return frame(
            {
                "period": column([one.period for one in self.choices]),
                "budget": column([one.budget for one in self.choices]),
                "bandwidth": [
                    np.nan if one.bandwidth is None else one.bandwidth for one in self.choices
                ],
                "budget_with_margin": column([one.budget_with_margin for one in self.choices]),
                "on_front": [one.on_front for one in self.choices],
            }
        )

    def plot(self, backend: Backend = "altair", *, axes: Any = None) -> Any:
        """The least bandwidth by period, what is on the front marked."""
        kept = [one for one in self.choices if one.bandwidth is not None]
        if not kept:
            why = "; ".join(str(one) for one in self.infeasible) or "no budget keeps the promises"
            raise refuse(f"there is nothing to plot: {why}")
        longest = max(one.period / np.timedelta64(1, "ns") for one in kept)
        factor, unit = unit_for(float(longest))
        nanosecond = np.timedelta64(1, "ns")

        def curve(name: str, choices: list[Choice], points: bool) -> Curve:
            ordered = sorted(choices, key=lambda one: one.period)
            x = np.array([one.period / nanosecond / factor for one in ordered])
            y = np.array([one.bandwidth for one in ordered], dtype=float)
            return Curve(name, x, y, points=points)

        curves = [curve("least bandwidth", kept, False), curve("front", self.front, True)]
        return Picture(f"period in {unit}", "bandwidth", curves).draw(backend, axes)


def size(
    *,
    rate: Optional[str] = None,
    service: Optional[Service] = None,
    promises: Optional[Promises] = None,
    tasks: Optional[Tasks] = None,
    periods: Optional[Times] = None,
    points: int = 20,
    server: SizedServer = "deferrable",
    batch: Batch = 1,
    margin_points: float = 5.0,
    service_samples: Optional[Times] = None,
    service_ns: Optional[ServiceNs] = None,
    service_samples_ns: Optional[Nanoseconds] = None,
    promises_ns: Optional[Mapping[float, int]] = None,
    periods_ns: Optional[Nanoseconds] = None,
) -> Sizing:
    """The least budget at each period: with which all promises are kept, or with which periodic
    tasks run as on a CPU of their own.

    Parameters
    ----------
    rate, service, service_samples, batch:
        The load of a queue, as of :func:`tailbound.predict`.
    promises:
        Shares of responses with their latencies: ``{0.9: "80ms", 0.99: "200ms"}``, or as on the
        command line ``"p90=80ms,p99=200ms"``.
    tasks:
        Periodic tasks in place of a queue and its promises, as of :func:`tailbound.least_budget`.
    periods:
        The periods to look at, or a range of them, ``"1ms..100ms"``.
    points:
        How many periods of a range are looked at, evenly spread by ratio.
    server:
        ``"deferrable"``, ``"periodic"``, ``"polling"`` or ``"constant-bandwidth"``; tasks are on a
        deferrable one.
    margin_points:
        Percentage points that are added to the bandwidth, in ``budget_with_margin``, for what the
        model leaves out.

    Raises
    ------
    AnalysisError
        Where the load is too much for a CPU, or no method holds. That promises cannot be kept is
        no error: ``Sizing.infeasible`` proves it.
    """
    values = _periods(periods, periods_ns, points)
    if not isinstance(server, str):
        raise refuse(f'server is {server!r}; give a name such as "deferrable"')
    if tasks is not None:
        of_queue = (rate, service, service_samples, promises, service_ns, service_samples_ns)
        if any(one is not None for one in (*of_queue, promises_ns)) or batch != 1:
            raise refuse(
                "tasks come with their own releases and execution times, and run as on a CPU of "
                "their own; give either tasks, or a rate, a service and promises"
            )
        if server != "deferrable":
            raise refuse(f'tasks are sized for a deferrable server, not for "{server}"')
        return _sizing(_native.size_periodic(released(tasks), values, _points(margin_points)))
    if rate is None:
        raise refuse('rate is missing; give rate="200/s", or tasks=["10ms/100ms"]')
    batches = batch_law(batch)
    answer = _native.size(
        per_second(rate),
        service_law(service, service_ns, service_samples, service_samples_ns),
        batches,
        _promised(promises, promises_ns),
        server,
        values,
        _points(margin_points),
    )
    return _sizing(answer)


def _sizing(answer: _native._Sizing) -> Sizing:
    choices, best, infeasible, assumptions = answer
    found = [_choice(*row) for row in choices]
    return Sizing(
        choices=found,
        best=None if best is None else found[best],
        infeasible=[_infeasible(*row) for row in infeasible],
        assumptions=assumptions,
    )


def _points(margin: object) -> float:
    if isinstance(margin, bool) or not isinstance(margin, Real):
        raise refuse(f"margin_points is {margin!r}; give percentage points such as 5.0")
    return float(margin)


def _periods(
    periods: Optional[Times], periods_ns: Optional[Nanoseconds], points: int
) -> list[int]:
    """The periods in nanoseconds, a range of them spread as the command line spreads it."""
    if not isinstance(periods, str) or periods_ns is not None:
        return many_nanoseconds(periods, periods_ns, "periods")[0]
    try:
        low, high = _native.parse_period_range(periods)
    except AnalysisError as error:
        raise refuse(f"periods: {error}") from None
    return _native.spread_periods(low, high, count(points, "points", 1))


def _promised(
    promises: Optional[Promises], promises_ns: Optional[Mapping[float, int]]
) -> list[tuple[float, int]]:
    if (promises is None) == (promises_ns is None):
        raise refuse('give promises={0.99: "80ms"}, or promises_ns={0.99: 80_000_000}')
    if promises is not None and not isinstance(promises, Mapping):
        return _written(promises)
    given: Mapping[float, Any] = promises if promises is not None else promises_ns or {}
    if not isinstance(given, Mapping):
        raise refuse(f"promises_ns is {given!r}; give shares with latencies: {{0.99: 80_000_000}}")
    found: list[tuple[float, int]] = []
    for share, latency in given.items():
        if isinstance(share, bool) or not isinstance(share, Real) or not 0.0 < share < 1.0:
            raise refuse(f"a promise is for a share between 0 and 1, not {share!r}; p99 is 0.99")
        if promises is not None:
            found.append((float(share), nanoseconds(latency, None, "promises")))
        else:
            found.append((float(share), nanoseconds(None, latency, "promises")))
    return found


def _written(promises: Any) -> list[tuple[float, int]]:
    """Promises as texts."""
    texts = promises.split(",") if isinstance(promises, str) else promises
    if not isinstance(texts, Iterable):
        texts = [texts]
    found = []
    for text in texts:
        if not isinstance(text, str):
            raise refuse(
                f"promises is {promises!r}; give shares with latencies, such as "
                '{0.99: "80ms"}, or texts such as "p99=80ms"'
            )
        try:
            found.append(_native.parse_promise(text))
        except AnalysisError as error:
            raise refuse(f"promises: {error}") from None
    return found


def _one(value_ns: Optional[int]) -> Optional[np.timedelta64]:
    return None if value_ns is None else timedeltas([value_ns])[0]


def _choice(
    period_ns: int,
    budget_ns: Optional[int],
    with_margin_ns: Optional[int],
    resolution_ns: int,
    on_front: bool,
) -> Choice:
    return Choice(
        period=timedeltas([period_ns])[0],
        budget=_one(budget_ns),
        budget_with_margin=_one(with_margin_ns),
        resolution=timedeltas([resolution_ns])[0],
        on_front=on_front,
    )


def _infeasible(
    probability: float,
    latency_ns: int,
    share_at_most: float,
    lower_ns: int,
    upper_ns: Optional[int],
) -> Infeasible:
    return Infeasible(
        probability=probability,
        latency=timedeltas([latency_ns])[0],
        share_at_most=share_at_most,
        dedicated_latency=interval([lower_ns], [upper_ns], True),
    )
