"""Resource interfaces: the least reservation on which tasks meet their deadlines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Optional

import numpy as np

from . import _native
from ._tasks import Tasks, sporadic, tasks_of
from ._times import (
    Nanoseconds,
    Time,
    Times,
    count,
    many_nanoseconds,
    optional_nanoseconds,
    refuse,
    timedeltas,
)

ResourceModel = Literal["periodic", "explicit-deadline", "deferrable", "multiprocessor"]
"""``"periodic"``: the budget comes somewhere in each period; ``"explicit-deadline"``: by a deadline after
the start of each period; ``"deferrable"``: a deferrable server; ``"multiprocessor"``: on several CPUs
together, the tasks by global earliest deadline first."""


@dataclass(frozen=True)
class ResourceInterface:
    """The answer of :func:`least_interface`."""

    budget: np.timedelta64
    """The least budget, what replenishments cost included; of several CPUs, of all together."""
    period: np.timedelta64
    """The period."""
    cpus: int
    """The number of CPUs at a time."""
    method: str
    """The test and the resource model, with their sources."""
    assumptions: list[str]
    """What is taken for granted."""
    tightest: Optional[str]
    """What is missing with a nanosecond less; ``None`` where that is not known."""

    @property
    def bandwidth(self) -> float:
        """Budget / period, in CPUs."""
        return float(self.budget / self.period)


def least_interface(
    tasks: Tasks,
    periods: Optional[Times] = None,
    *,
    model: ResourceModel = "periodic",
    policy: Literal["fp", "edf"] = "edf",
    deadline: Optional[Time] = None,
    jitter: Optional[Time] = None,
    cpus: int = 1,
    overhead: Optional[Time] = None,
    periods_ns: Optional[Nanoseconds] = None,
    deadline_ns: Optional[int] = None,
    jitter_ns: Optional[int] = None,
    overhead_ns: Optional[int] = None,
) -> ResourceInterface:
    """The reservation with the least bandwidth, among these periods, on which tasks meet their
    deadlines.

    Parameters
    ----------
    tasks:
        The tasks, preemptive, released at any time.
    periods:
        The periods to look at.
    model:
        The kind of reservation.
    policy:
        The order of the tasks: ``"edf"``, or ``"fp"`` with the first task first. Several CPUs have
        ``"edf"`` only.
    deadline:
        Of ``"explicit-deadline"``: by when the budget is given, after the start of each period.
    jitter:
        Of ``"deferrable"``: how long others hold the reservation up while it spends a budget; zero if
        left out, which is right at the highest priority.
    cpus:
        Of ``"multiprocessor"``: the most CPUs at a time; the fewest that suffice are taken.
    overhead:
        What each replenishment costs on each CPU; zero if left out.

    Raises
    ------
    AnalysisError
        Where no budget suffices at any of the periods, with what is missing.
    """
    if policy not in ("fp", "edf"):
        raise refuse(f'there is no policy {policy!r} for interfaces; choose "fp" or "edf"')
    own = optional_nanoseconds(deadline, deadline_ns, "deadline")
    late = optional_nanoseconds(jitter, jitter_ns, "jitter")
    if (own is not None) != (model == "explicit-deadline"):
        raise refuse('deadline belongs to model="explicit-deadline", which needs one')
    if late is not None and model != "deferrable":
        raise refuse('jitter belongs to model="deferrable"; leave it out')
    if model == "multiprocessor" and policy == "fp":
        raise refuse('several CPUs have policy="edf" only')
    budget, period, used, method, assumptions, tightest = _native.least_interface(
        sporadic(tasks_of(tasks)),
        model,
        policy == "edf",
        own or late or 0,
        count(cpus, "cpus", 1),
        many_nanoseconds(periods, periods_ns, "periods")[0],
        optional_nanoseconds(overhead, overhead_ns, "overhead") or 0,
    )
    spent, each = timedeltas([budget, period])
    return ResourceInterface(spent, each, used, method, assumptions, tightest)
