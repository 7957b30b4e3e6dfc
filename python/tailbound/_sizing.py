"""Which reservation keeps promises."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Iterable, Literal, Mapping, Optional, Union

import numpy as np

from . import _native
from ._native import AnalysisError
from ._description import description_of
from ._load import Batch, ExecutionTime, ExecutionTimeNs, batch_law, execution_time_law
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

LimitForm = Literal["kubernetes", "systemd", "docker"]
"""The forms in which a CPU limit is set."""

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
    evidence: str
    """``bound`` where the budgets, and what is infeasible, are proved, else ``estimate``."""
    assumptions: list[str]
    """What is taken for granted."""
    limit: Optional[str] = None
    """The least CPU limit of ``best``, such as ``"383m"``, where a limit was asked for."""
    limit_with_margin: Optional[str] = None
    """The same limit with the margin."""
    _stanzas: Mapping[str, str] = field(default_factory=dict, repr=False)

    def stanza(self, form: LimitForm = "kubernetes") -> str:
        """The text that sets ``limit_with_margin``: ``resources`` of a container in a manifest of
        Kubernetes, a drop-in of systemd, or options of ``docker run`` and ``podman run``."""
        if not self._stanzas:
            raise refuse(
                "a stanza sets a CPU limit, and none was found; ask for one with limit=True"
            )
        if form not in self._stanzas:
            raise refuse(f"there is no stanza of {form!r}; choose one of {list(self._stanzas)}")
        return self._stanzas[form]

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


@dataclass(frozen=True)
class ServiceSizing:
    """The reservation of a service of a description in a mode."""

    mode: Optional[str]
    """The mode, where the description has modes."""
    service: str
    domain: str
    refused: Optional[str]
    """Why there is no answer."""
    rule: Optional[str]
    """By what the budgets were found."""
    sizing: Optional[Sizing]
    """The least budget at each period, and the choice."""
    stanza: Optional[str]
    """The reservation of the choice, as TOML to paste."""
    does_not_fit: Optional[str]
    """Why the description with it would not be admitted, if so."""


def size_description(
    given: object,
    service: Optional[str],
    periods: Optional[str],
    points: int,
    server: Optional[str],
    margin_points: float,
    limit: bool,
) -> list[ServiceSizing]:
    """What :func:`tailbound.size` answers for a description."""
    asked = None if periods is None else _range(periods)
    rows = _native.size_description(
        description_of(given),
        service,
        _native.limit_periods(asked) if limit else asked,
        count(points, "points", 1),
        _points(margin_points),
        server,
        limit,
    )
    found = []
    for (mode, name, domain, refused), budgets in rows:
        answer, rule, stanza, misfit = (None,) * 4 if budgets is None else budgets
        sizing = None if answer is None else _sizing(answer)
        found.append(
            ServiceSizing(mode, name, domain, refused, rule, sizing, stanza, misfit)
        )
    return found


def size_load(
    *,
    rate: Optional[str] = None,
    execution_time: Optional[ExecutionTime] = None,
    slo: Optional[Promises] = None,
    tasks: Optional[Tasks] = None,
    periods: Optional[Times] = None,
    points: int = 20,
    server: SizedServer = "deferrable",
    batch: Batch = 1,
    margin_points: float = 5.0,
    limit: bool = False,
    execution_time_samples: Optional[Times] = None,
    execution_time_ns: Optional[ExecutionTimeNs] = None,
    execution_time_samples_ns: Optional[Nanoseconds] = None,
    slo_ns: Optional[Mapping[float, int]] = None,
    periods_ns: Optional[Nanoseconds] = None,
) -> Sizing:
    """What :func:`tailbound.size` answers for a queue, or for tasks."""
    if limit and periods is None and periods_ns is None:
        values = [_native.limit_periods(None)[0]]
    else:
        values = periods_of(periods, periods_ns, points)
    if limit and values:
        _native.limit_periods((min(values), max(values)))
    if not isinstance(server, str):
        raise refuse(f'server is {server!r}; give a name such as "deferrable"')
    if tasks is not None:
        times = (execution_time, execution_time_samples, execution_time_ns, execution_time_samples_ns)
        if any(one is not None for one in (rate, *times, slo, slo_ns)) or batch != 1:
            raise refuse(
                "tasks come with their own releases and execution times, and run as on a CPU of "
                "their own; give either tasks, or a rate, an execution_time and an slo"
            )
        if limit:
            raise refuse("a CPU limit is sized for promises, not for tasks; leave limit out")
        if server != "deferrable":
            raise refuse(f'tasks are sized for a deferrable server, not for "{server}"')
        return _sizing(_native.size_periodic(released(tasks), values, _points(margin_points)))
    if rate is None:
        raise refuse('rate is missing; give rate="200/s", or tasks=["10ms/100ms"]')
    batches = batch_law(batch)
    answer = _native.size(
        per_second(rate),
        execution_time_law(
            execution_time, execution_time_ns, execution_time_samples, execution_time_samples_ns
        ),
        batches,
        _promised(slo, slo_ns),
        server,
        values,
        _points(margin_points),
        limit,
    )
    return _sizing(answer)


def _sizing(answer: _native._Sizing) -> Sizing:
    choices, best, infeasible, evidence, assumptions, limit = answer
    least, with_margin, stanzas = (None, None, []) if limit is None else limit
    found = [_choice(*row) for row in choices]
    return Sizing(
        choices=found,
        best=None if best is None else found[best],
        infeasible=[_infeasible(*row) for row in infeasible],
        evidence=evidence,
        assumptions=assumptions,
        limit=least,
        limit_with_margin=with_margin,
        _stanzas=dict(stanzas),
    )


def _points(margin: object) -> float:
    if isinstance(margin, bool) or not isinstance(margin, Real):
        raise refuse(f"margin_points is {margin!r}; give percentage points such as 5.0")
    return float(margin)


def periods_of(
    periods: Optional[Times], periods_ns: Optional[Nanoseconds], points: int
) -> list[int]:
    """The periods in nanoseconds, a range of them spread as the command line spreads it."""
    if not isinstance(periods, str) or periods_ns is not None:
        return many_nanoseconds(periods, periods_ns, "periods")[0]
    low, high = _range(periods)
    return _native.spread_periods(low, high, count(points, "points", 1))


def _range(periods: object) -> tuple[int, int]:
    """The shortest and the longest period of a range."""
    if not isinstance(periods, str):
        raise refuse(f'periods of a description are a range such as "1ms..100ms", not {periods!r}')
    try:
        return _native.parse_period_range(periods)
    except AnalysisError as error:
        raise refuse(f"periods: {error}") from None


def _promised(
    slo: Optional[Promises], slo_ns: Optional[Mapping[float, int]]
) -> list[tuple[float, int]]:
    if (slo is None) == (slo_ns is None):
        raise refuse('give slo={0.99: "80ms"}, or slo_ns={0.99: 80_000_000}')
    if slo is not None and not isinstance(slo, Mapping):
        return _written(slo)
    given: Mapping[float, Any] = slo if slo is not None else slo_ns or {}
    if not isinstance(given, Mapping):
        raise refuse(f"slo_ns is {given!r}; give shares with latencies: {{0.99: 80_000_000}}")
    found: list[tuple[float, int]] = []
    for share, latency in given.items():
        if isinstance(share, bool) or not isinstance(share, Real) or not 0.0 < share < 1.0:
            raise refuse(f"a promise is for a share between 0 and 1, not {share!r}; p99 is 0.99")
        if slo is not None:
            found.append((float(share), nanoseconds(latency, None, "slo")))
        else:
            found.append((float(share), nanoseconds(None, latency, "slo")))
    return found


def _written(slo: Any) -> list[tuple[float, int]]:
    """Promises as texts."""
    texts = slo.split(",") if isinstance(slo, str) else slo
    if not isinstance(texts, Iterable):
        texts = [texts]
    found = []
    for text in texts:
        if not isinstance(text, str):
            raise refuse(
                f"slo is {slo!r}; give shares with latencies, such as "
                '{0.99: "80ms"}, or texts such as "p99=80ms"'
            )
        try:
            found.append(_native.parse_promise(text))
        except AnalysisError as error:
            raise refuse(f"slo: {error}") from None
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
