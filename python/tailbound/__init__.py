"""Latency tails of time-sensitive services on shared hosts.

- :func:`predict`: the response times of a queue on a reservation server
- :func:`size`: the reservation that keeps promises
- :func:`least_budget`, :func:`bandwidth_curve`: what periodic tasks need to run as on a CPU of
  their own
- :func:`analyze`: whether tasks meet their deadlines
- :func:`analyze_global`, :func:`assign_priorities`, :func:`deadline_tests`: several CPUs, orders of
  priorities, every test side by side
- :func:`interface`: the least reservations on which tasks, or domains, meet their deadlines
- :func:`simulate`: what becomes of every domain, task and chain of a description
- :func:`size_frame`: the major frame and the windows of time partitions
- :func:`sweep`: the same at many points, on all cores or a cluster
- :func:`frequency_model`: execution times at other clock frequencies
- :func:`generate`: random sets of tasks, as the literature draws them

Times are texts with a unit (``"40ms"``), ``datetime.timedelta`` or ``numpy.timedelta64``; every
argument that is a time has a twin ending in ``_ns`` for whole nanoseconds. Results are bounds, in
``numpy.timedelta64``. Whatever cannot be answered raises :class:`AnalysisError`, which says what to
change.
"""

from . import thesis
from ._native import AnalysisError, Description, __version__
from ._chains import FrameSizing, SimulatedChain, SimulatedTopic, SizedWindow, size_frame
from ._description import (
    Analysis,
    ChainPrediction,
    ChainTime,
    ChainVerdict,
    CpuVerdict,
    ModeVerdict,
    Predictions,
    PromiseOutlook,
    ServicePrediction,
    TaskVerdict,
)
from ._frequency import FrequencyModel, Slowdown, frequency_model
from ._generation import TaskSets, generate
from ._interfaces import (
    CpuInterface,
    DescriptionInterfaces,
    DomainInterface,
    InterfaceChoice,
    Interfaces,
    ModeInterfaces,
    ResourceInterface,
    interface,
    least_interface,
)
from ._response import (
    Comparison,
    Distance,
    Distribution,
    ProbabilityBounds,
    ResponseTimes,
)
from ._schedule import Schedule
from ._simulation import (
    SimulatedCpu,
    SimulatedDomain,
    SimulatedTask,
    Simulation,
    simulate,
)
from ._sizing import Choice, Infeasible, ServiceSizing, Sizing
from ._sweep import SweepResult, sweep
from ._task_set import TaskSet
from ._tasks import (
    BandwidthCurve,
    GlobalSchedulability,
    LeastBudget,
    OverloadedWindow,
    Schedulability,
    Task,
    TaskResponse,
    TestVerdict,
    analyze_global,
    assign_priorities,
    bandwidth_curve,
    deadline_tests,
    hyperperiod,
    least_budget,
)
from ._times import Interval
from ._verbs import analyze, predict, size

__all__ = [
    "Analysis",
    "AnalysisError",
    "BandwidthCurve",
    "ChainPrediction",
    "ChainTime",
    "ChainVerdict",
    "Choice",
    "Comparison",
    "CpuInterface",
    "CpuVerdict",
    "Description",
    "DescriptionInterfaces",
    "Distance",
    "Distribution",
    "DomainInterface",
    "FrameSizing",
    "FrequencyModel",
    "GlobalSchedulability",
    "Infeasible",
    "InterfaceChoice",
    "Interfaces",
    "Interval",
    "LeastBudget",
    "ModeInterfaces",
    "ModeVerdict",
    "OverloadedWindow",
    "Predictions",
    "PromiseOutlook",
    "ProbabilityBounds",
    "ResourceInterface",
    "ResponseTimes",
    "Schedulability",
    "Schedule",
    "ServicePrediction",
    "ServiceSizing",
    "SimulatedChain",
    "SimulatedCpu",
    "SimulatedDomain",
    "SimulatedTask",
    "SimulatedTopic",
    "Simulation",
    "SizedWindow",
    "Sizing",
    "Slowdown",
    "SweepResult",
    "Task",
    "TaskResponse",
    "TaskSet",
    "TaskSets",
    "TaskVerdict",
    "TestVerdict",
    "__version__",
    "analyze",
    "analyze_global",
    "assign_priorities",
    "bandwidth_curve",
    "deadline_tests",
    "frequency_model",
    "generate",
    "hyperperiod",
    "interface",
    "least_budget",
    "least_interface",
    "predict",
    "simulate",
    "size",
    "size_frame",
    "sweep",
    "thesis",
]
