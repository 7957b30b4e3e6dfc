"""Response times of a queue on a reservation server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _native
from ._load import Batch, ExecutionTime, ExecutionTimeNs, batch_law, execution_time_law
from ._optional import frame
from ._plots import Curve, Picture, unit_for
from ._times import (
    Interval,
    Nanoseconds,
    Time,
    Times,
    count,
    interval,
    many_nanoseconds,
    optional_nanoseconds,
    per_second,
    refuse,
    timedeltas,
)

Server = Literal["deferrable", "periodic", "polling", "constant-bandwidth", "dedicated"]
"""The rule by which CPU time is given."""

Backend = Literal["altair", "matplotlib"]
"""What draws."""

TOLD = (0.5, 0.9, 0.95, 0.99, 0.999)
"""The probabilities whose quantiles are told if none are named."""


class ProbabilityBounds(NamedTuple):
    """Bounds of probabilities: one of each, or an array of each."""

    lower: Any
    """At least this."""
    upper: Any
    """At most this."""


class Distance(NamedTuple):
    """Bounds of the Wasserstein-1 distance, the mean distance between quantiles."""

    lower: np.timedelta64
    """The distance is at least this."""
    middle: np.timedelta64
    """The distance between the quantiles halfway through their bounds."""
    upper: np.timedelta64
    """The distance is at most this."""
    covered: float
    """The probability up to which quantiles were compared."""


def _probabilities(p: Any) -> tuple[list[float], bool]:
    try:
        array = np.asarray(p, dtype=float)
    except (TypeError, ValueError):
        raise refuse(f"a quantile's probability is {p!r}; choose one in (0, 1)") from None
    if array.ndim > 1:
        raise refuse("quantiles take one probability, or a list of them in one dimension")
    return [float(one) for one in np.atleast_1d(array)], array.ndim == 0


class Distribution:
    """Latencies: a lower and an upper bound for every question.

    Predicted ones are made by :func:`predict`; :func:`simulate` makes those of each task, whose
    bounds are the ends of classes that are at most 1/512 of their values wide.
    """

    def __init__(self, answer: _native.Answer, what: str) -> None:
        self._answer = answer
        self._what = what

    def cdf(
        self, at: Optional[Times] = None, *, at_ns: Optional[Nanoseconds] = None
    ) -> ProbabilityBounds:
        """Bounds of the share of responses that take at most ``at``.

        One time gives two floats, a list or array of times two arrays.
        """
        times, single = many_nanoseconds(at, at_ns, "at")
        lower, upper = self._answer.cdf(times)
        if single:
            return ProbabilityBounds(lower[0], upper[0])
        return ProbabilityBounds(np.array(lower), np.array(upper))

    def quantile(self, p: Union[float, Sequence[float], npt.NDArray[Any]]) -> Interval:
        """Bounds of the time that the share ``p`` of responses does not exceed, ``0 < p < 1``.

        One probability gives one interval, a list or array an interval of arrays.
        """
        probabilities, single = _probabilities(p)
        lower, upper = self._answer.quantile(probabilities)
        return interval(lower, upper, single)

    @property
    def mean(self) -> Interval:
        """Bounds of the mean."""
        lower, upper = self._answer.mean()
        return interval([lower], [upper], True)

    @property
    def method(self) -> str:
        """The method by name, with its source."""
        return self._answer.method

    @property
    def assumptions(self) -> list[str]:
        """What the method takes for granted."""
        return self._answer.assumptions

    @property
    def evidence(self) -> str:
        """``"bound"`` if the bounds are proved to enclose the truth, otherwise ``"estimate"``."""
        return self._answer.evidence

    def to_frame(
        self, p: Union[float, Sequence[float], npt.NDArray[Any], None] = None
    ) -> Any:
        """Quantiles as a ``pandas.DataFrame``: ``probability``, ``lower``, ``upper``."""
        probabilities, _ = _probabilities(TOLD if p is None else p)
        bounds = self.quantile(probabilities)
        return frame(
            {"probability": probabilities, "lower": bounds.lower, "upper": bounds.upper}
        )

    def compare(
        self,
        other: Union["Distribution", Times, None] = None,
        *,
        samples_ns: Optional[Nanoseconds] = None,
        p: Union[float, Sequence[float], npt.NDArray[Any]] = TOLD,
        up_to: float = 0.999,
        steps: int = 1000,
    ) -> "Comparison":
        """How far these latencies are from others, or from measured ones.

        ``other`` is predicted or simulated, or samples as a list or array of times; ``samples_ns``
        are samples in nanoseconds. Quantiles are compared at ``p``; distances are taken over the
        quantiles up to ``up_to``, of step functions with so many ``steps`` (more are closer).
        """
        right: Optional[_native.Answer] = None
        samples: Optional[list[int]] = None
        if isinstance(other, Distribution):
            if samples_ns is not None:
                raise refuse("compare with one: other response times, or samples")
            right, name = other._answer, str(other)
        else:
            samples, single = many_nanoseconds(other, samples_ns, "samples")
            if single:
                raise refuse("one sample is no distribution; give a list or an array of them")
            name = f"{len(samples)} samples"
        probabilities, _ = _probabilities(p)
        if any(not 0.0 < one < 1.0 for one in probabilities):
            raise refuse("quantiles are compared at probabilities in (0, 1)")
        ours, theirs, distance, largest = _native.compare(
            self._answer, right, samples, probabilities, up_to, count(steps, "steps", 1)
        )
        near, middle, far = timedeltas(distance)
        return Comparison(
            probability=np.array(probabilities),
            left=interval(*ours, single=False),
            right=interval(*theirs, single=False),
            wasserstein1=Distance(near, middle, far, up_to),
            kolmogorov_smirnov=ProbabilityBounds(*largest),
            _curves=(self, other if right is not None else samples),
            names=(str(self), name),
        )

    def plot(
        self,
        backend: Backend = "altair",
        *,
        up_to: float = 0.999,
        points: int = 200,
        axes: Any = None,
        name: Optional[str] = None,
    ) -> Any:
        """The distribution function up to a probability, as a band between its bounds.

        Gives an Altair chart, or matplotlib axes (``axes`` if given).
        """
        longest = _end(self.quantile(up_to))
        factor, unit = unit_for(longest)
        curve = self._curve(name or str(self), longest, points, factor)
        return Picture(f"response time in {unit}", "share of responses", [curve]).draw(
            backend, axes
        )

    def _curve(self, name: str, longest_ns: float, points: int, factor: float) -> Curve:
        at = np.unique(np.linspace(0, longest_ns, max(points, 2)).astype(np.int64))
        bounds = self.cdf(at_ns=at)
        return Curve(name, at / factor, bounds.upper, lower=bounds.lower)

    def __str__(self) -> str:
        return self._what

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._what}, {self.evidence}>"


class ResponseTimes(Distribution):
    """The response times of a queue on a reservation server, made by :func:`predict`."""

    @property
    def utilisation(self) -> float:
        """The load, in CPUs."""
        found = self._answer.utilisation
        assert found is not None, "a predicted queue has a load"
        return found

    @property
    def bandwidth(self) -> float:
        """The reservation, in CPUs."""
        found = self._answer.bandwidth
        assert found is not None, "a predicted queue has a reservation"
        return found

    @property
    def proved(self) -> Optional[Distribution]:
        """The bracket that is proved, where the answers are a sharper estimate; ``None`` where they are
        proved themselves, and where nothing is."""
        proved = self._answer.proved()
        return None if proved is None else Distribution(proved, f"{self}, as it is proved")


def _end(bounds: Interval) -> float:
    """The upper bound in nanoseconds, or twice the lower one where there is none."""
    upper = bounds.upper_ns
    return float(2 * bounds.lower_ns if upper is None else upper)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two distributions of response times beside one another."""

    probability: npt.NDArray[Any]
    """The probabilities whose quantiles are compared."""
    left: Interval
    """The quantiles of the first."""
    right: Interval
    """The quantiles of the second."""
    wasserstein1: Distance
    """The mean distance between the quantiles, with bounds."""
    kolmogorov_smirnov: ProbabilityBounds
    """The largest difference of the distribution functions, with bounds."""
    names: tuple[str, str]
    """What the two are."""
    _curves: tuple[Distribution, Any]

    @property
    def difference(self) -> Interval:
        """Second minus first, quantile by quantile, with bounds; below zero where the second is
        shorter."""
        return Interval(
            self.right.lower - self.left.upper, self.right.upper - self.left.lower
        )

    def to_frame(self) -> Any:
        """The quantiles as a ``pandas.DataFrame``, one row per probability."""
        difference = self.difference
        return frame(
            {
                "probability": self.probability,
                "left_lower": self.left.lower,
                "left_upper": self.left.upper,
                "right_lower": self.right.lower,
                "right_upper": self.right.upper,
                "difference_lower": difference.lower,
                "difference_upper": difference.upper,
            }
        )

    def plot(
        self, backend: Backend = "altair", *, points: int = 200, axes: Any = None
    ) -> Any:
        """Both distribution functions in one picture."""
        left, right = self._curves
        up_to = self.wasserstein1.covered
        longest = _end(left.quantile(up_to))
        if isinstance(right, Distribution):
            longest = max(longest, _end(right.quantile(up_to)))
        factor, unit = unit_for(longest)
        curves = [left._curve(self.names[0], longest, points, factor)]
        if isinstance(right, Distribution):
            curves.append(right._curve(self.names[1], longest, points, factor))
        else:
            ordered = np.sort(np.array(right))
            share = np.arange(1, len(ordered) + 1) / len(ordered)
            shown = ordered <= longest
            curves.append(
                Curve(self.names[1], ordered[shown] / factor, share[shown], step=True)
            )
        return Picture(f"response time in {unit}", "share of responses", curves).draw(
            backend, axes
        )


def predict_queue(
    *,
    rate: str,
    execution_time: Optional[ExecutionTime] = None,
    budget: Optional[Time] = None,
    period: Optional[Time] = None,
    server: Server = "deferrable",
    batch: Batch = 1,
    execution_time_samples: Optional[Times] = None,
    execution_time_ns: Optional[ExecutionTimeNs] = None,
    execution_time_samples_ns: Optional[Nanoseconds] = None,
    budget_ns: Optional[int] = None,
    period_ns: Optional[int] = None,
) -> ResponseTimes:
    """What :func:`tailbound.predict` answers for a queue."""
    rate_per_second = per_second(rate)
    law = execution_time_law(
        execution_time, execution_time_ns, execution_time_samples, execution_time_samples_ns
    )
    budget_value = optional_nanoseconds(budget, budget_ns, "budget")
    period_value = optional_nanoseconds(period, period_ns, "period")
    if not isinstance(server, str):
        raise refuse(f'server is {server!r}; give a name such as "deferrable"')
    answer = _native.predict(
        rate_per_second, law, batch_law(batch), server, budget_value, period_value
    )
    what = f"{server} server"
    if budget_value is not None and period_value is not None:
        told = [_native.format_duration(one) for one in (budget_value, period_value)]
        what = f"{server} server, {told[0]} in {told[1]}"
    return ResponseTimes(answer, what)
