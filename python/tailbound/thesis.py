"""The discretisation of H. Li's thesis (2021, section 4.2), to compare with.

It lets at most one job arrive per slot, which makes its responses too short by a share of the order
of one slot. :func:`tailbound.predict` has no such bias and tells its error; use that.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _native
from ._response import _probabilities
from ._times import (
    Nanoseconds,
    Time,
    Times,
    count,
    many_nanoseconds,
    nanoseconds,
    per_second,
    timedeltas,
)

__all__ = ["Discretised", "discretised"]


class Discretised:
    """What the thesis's own method answers. Made by :func:`discretised`."""

    def __init__(self, found: _native.Discretised) -> None:
        self._found = found

    def cdf(self, at: Optional[Times] = None, *, at_ns: Optional[Nanoseconds] = None) -> Any:
        """The share of responses that take at most ``at``: a float, or an array of them."""
        times, single = many_nanoseconds(at, at_ns, "at")
        shares = np.array(self._found.cdf(times))
        return float(shares[0]) if single else shares

    def quantile(self, p: Union[float, Sequence[float], npt.NDArray[Any]]) -> Any:
        """The time that the share ``p`` of responses does not exceed; ``NaT`` beyond the workloads
        that are kept."""
        probabilities, single = _probabilities(p)
        found = timedeltas(self._found.quantile(probabilities))
        return found[0] if single else found

    @property
    def lost(self) -> float:
        """What was lost beyond the workloads that are kept, as a share of all jobs."""
        return self._found.lost


def discretised(
    *,
    rate: str,
    execution_time: Optional[Time] = None,
    budget: Optional[Time] = None,
    period: Optional[Time] = None,
    slots: int = 20,
    workloads: int = 400,
    tolerance: float = 1e-10,
    execution_time_ns: Optional[int] = None,
    budget_ns: Optional[int] = None,
    period_ns: Optional[int] = None,
) -> Discretised:
    """The response times of a constant execution time on a deferrable server, by algorithms 1 and 2
    of the thesis with their errors corrected.

    ``slots`` is N, the slots of an execution time, of which budget and period must hold whole
    numbers; ``workloads`` is M, how many workloads are kept, in slots.
    """
    found = _native.discretised(
        per_second(rate),
        nanoseconds(execution_time, execution_time_ns, "execution_time"),
        nanoseconds(budget, budget_ns, "budget"),
        nanoseconds(period, period_ns, "period"),
        count(slots, "slots", 1),
        count(workloads, "workloads", 1),
        tolerance,
    )
    return Discretised(found)
