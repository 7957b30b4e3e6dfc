"""Which reservation keeps promises."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Mapping, Optional

import numpy as np

from . import _native
from ._load import Batch, Service, ServiceNs, batch_law, service_law
from ._optional import frame
from ._plots import Curve, Picture, unit_for
from ._response import Backend
from ._times import (
    Interval,
    Nanoseconds,
    Time,
    Times,
    interval,
    many_nanoseconds,
    nanoseconds,
    per_second,
    refuse,
    timedeltas,
)

SizedServer = Literal["deferrable", "periodic"]
"""The kinds of server that are sized."""


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
    rate: str,
    service: Optional[Service] = None,
    promises: Optional[Mapping[float, Time]] = None,
    periods: Optional[Times] = None,
    server: SizedServer = "deferrable",
    batch: Batch = 1,
    margin_points: float = 5.0,
    service_samples: Optional[Times] = None,
    service_ns: Optional[ServiceNs] = None,
    service_samples_ns: Optional[Nanoseconds] = None,
    promises_ns: Optional[Mapping[float, int]] = None,
    periods_ns: Optional[Nanoseconds] = None,
) -> Sizing:
    """The least budget at each period with which all promises are kept.

    Parameters
    ----------
    rate, service, service_samples, batch:
        The load, as of :func:`tailbound.predict`.
    promises:
        Shares of responses with their latencies: ``{0.9: "80ms", 0.99: "200ms"}``.
    periods:
        The periods to look at.
    server:
        ``"deferrable"`` or ``"periodic"``.
    margin_points:
        Percentage points that are added to the bandwidth, in ``budget_with_margin``, for what the
        model leaves out.

    Raises
    ------
    AnalysisError
        Where the load is too much for a CPU, or no method holds. That promises cannot be kept is
        no error: ``Sizing.infeasible`` proves it.
    """
    rate_per_second = per_second(rate)
    law = service_law(service, service_ns, service_samples, service_samples_ns)
    period_values, _ = many_nanoseconds(periods, periods_ns, "periods")
    choices, best, infeasible = _native.size(
        rate_per_second,
        law,
        batch_law(batch),
        _promised(promises, promises_ns),
        server,
        period_values,
        float(margin_points),
    )
    found = [_choice(*row) for row in choices]
    return Sizing(
        choices=found,
        best=None if best is None else found[best],
        infeasible=[_infeasible(*row) for row in infeasible],
    )


def _promised(
    promises: Optional[Mapping[float, Time]], promises_ns: Optional[Mapping[float, int]]
) -> list[tuple[float, int]]:
    if (promises is None) == (promises_ns is None):
        raise refuse('give promises={0.99: "80ms"}, or promises_ns={0.99: 80_000_000}')
    given: Mapping[float, Any] = promises if promises is not None else promises_ns or {}
    if not isinstance(given, Mapping):
        raise refuse(f'promises is {given!r}; give shares with latencies, such as {{0.99: "80ms"}}')
    found: list[tuple[float, int]] = []
    for share, latency in given.items():
        if isinstance(share, bool) or not isinstance(share, Real) or not 0.0 < share < 1.0:
            raise refuse(f"a promise is for a share between 0 and 1, not {share!r}; p99 is 0.99")
        if promises is not None:
            found.append((float(share), nanoseconds(latency, None, "promises")))
        else:
            found.append((float(share), nanoseconds(None, latency, "promises")))
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
