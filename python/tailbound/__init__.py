"""Latency tails of time-sensitive services on shared hosts.

- :func:`predict`: the response times of a queue on a reservation server
- :func:`size`: the reservation that keeps promises
- :func:`least_budget`, :func:`bandwidth_curve`: what periodic tasks need to run as on a CPU of
  their own
- :func:`analyze`: whether tasks meet their deadlines
- :func:`simulate`: what becomes of every domain and task of a description
- :func:`sweep`: the same at many points, on all cores or a cluster
- :func:`generate`: random sets of tasks, as the literature draws them

Times are texts with a unit (``"40ms"``), ``datetime.timedelta`` or ``numpy.timedelta64``; every
argument that is a time has a twin ending in ``_ns`` for whole nanoseconds. Results are bounds, in
``numpy.timedelta64``. Whatever cannot be answered raises :class:`AnalysisError`, which says what to
change.
"""

from . import thesis
from ._native import AnalysisError, Description, __version__
from ._generation import TaskSet, TaskSets, generate
from ._response import (
    Comparison,
    Distance,
    Distribution,
    ProbabilityBounds,
    ResponseTimes,
    predict,
)
from ._simulation import (
    SimulatedCpu,
    SimulatedDomain,
    SimulatedTask,
    Simulation,
    simulate,
)
from ._sizing import Choice, Infeasible, Sizing, size
from ._sweep import SweepResult, sweep
from ._tasks import (
    BandwidthCurve,
    LeastBudget,
    OverloadedWindow,
    Schedulability,
    Task,
    TaskResponse,
    analyze,
    bandwidth_curve,
    hyperperiod,
    least_budget,
)
from ._times import Interval

__all__ = [
    "AnalysisError",
    "BandwidthCurve",
    "Choice",
    "Comparison",
    "Description",
    "Distance",
    "Distribution",
    "Infeasible",
    "Interval",
    "LeastBudget",
    "OverloadedWindow",
    "ProbabilityBounds",
    "ResponseTimes",
    "Schedulability",
    "SimulatedCpu",
    "SimulatedDomain",
    "SimulatedTask",
    "Simulation",
    "Sizing",
    "SweepResult",
    "Task",
    "TaskResponse",
    "TaskSet",
    "TaskSets",
    "__version__",
    "analyze",
    "bandwidth_curve",
    "generate",
    "hyperperiod",
    "least_budget",
    "predict",
    "simulate",
    "size",
    "sweep",
    "thesis",
]
