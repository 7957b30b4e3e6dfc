"""Periodic and sporadic tasks: least budgets, deadlines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Iterable, Literal, Mapping, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _native
from ._native import AnalysisError
from ._optional import frame
from ._plots import Curve, Picture, unit_for
from ._response import Backend
from ._times import (
    Nanoseconds,
    Time,
    Times,
    count,
    many_nanoseconds,
    nanoseconds,
    optional_nanoseconds,
    refuse,
    timedeltas,
)

Policy = Literal["fp", "rm", "dm", "audsley", "edf"]
"""``"fp"``: fixed priorities, the first task first; ``"rm"`` and ``"dm"``: the task with the shorter period,
or deadline, first; ``"audsley"``: some order of fixed priorities in which all deadlines are met; ``"edf"``:
the job with the earliest deadline first."""

Servers = Union[str, Sequence[str]]
"""Reservation servers as on the command line: a rule, a budget and a period, ``"deferrable:2ms/6ms"``, or
several of them."""

_POLICIES: dict[str, Policy] = {
    "rate-monotonic": "rm",
    "deadline-monotonic": "dm",
    "earliest-deadline-first": "edf",
}


_OPTIONAL = ("deadline", "offset", "jitter", "blocking")
"""The times that a task may have besides its execution time and its period."""


class Task:
    """A task: an execution time at most every period.

    Parameters
    ----------
    execution:
        The worst-case execution time.
    period:
        The period, or the least time between two releases.
    deadline:
        Relative to the release; the period if left out. For :func:`analyze`.
    offset:
        The first release. Left out for a sporadic task, of which nothing but the least time between
        releases is known. For :func:`least_budget` and :func:`bandwidth_curve`.
    jitter:
        The longest time from the arrival of a job to its readiness; none if left out. Deadlines and
        response times count from the arrival. For :func:`analyze` and :func:`interface`.
    blocking:
        The longest time for which tasks of lower priorities keep a job waiting, such as by a critical
        section; none if left out. For :func:`analyze` under fixed priorities.
    name:
        What to call it in tables.
    """

    __slots__ = (
        "execution_ns",
        "period_ns",
        "deadline_ns",
        "offset_ns",
        "jitter_ns",
        "blocking_ns",
        "name",
    )

    execution_ns: int
    period_ns: int
    deadline_ns: Optional[int]
    offset_ns: Optional[int]
    jitter_ns: Optional[int]
    blocking_ns: Optional[int]
    name: Optional[str]

    def __init__(
        self,
        execution: Optional[Time] = None,
        period: Optional[Time] = None,
        *,
        deadline: Optional[Time] = None,
        offset: Optional[Time] = None,
        jitter: Optional[Time] = None,
        blocking: Optional[Time] = None,
        name: Optional[str] = None,
        execution_ns: Optional[int] = None,
        period_ns: Optional[int] = None,
        deadline_ns: Optional[int] = None,
        offset_ns: Optional[int] = None,
        jitter_ns: Optional[int] = None,
        blocking_ns: Optional[int] = None,
    ) -> None:
        self.execution_ns = nanoseconds(execution, execution_ns, "execution")
        self.period_ns = nanoseconds(period, period_ns, "period")
        self.deadline_ns = optional_nanoseconds(deadline, deadline_ns, "deadline")
        self.offset_ns = optional_nanoseconds(offset, offset_ns, "offset")
        self.jitter_ns = optional_nanoseconds(jitter, jitter_ns, "jitter")
        self.blocking_ns = optional_nanoseconds(blocking, blocking_ns, "blocking")
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and all(
            getattr(self, field) == getattr(other, field) for field in self.__slots__
        )

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, field) for field in self.__slots__))

    def __repr__(self) -> str:
        told = _native.format_duration
        parts = [repr(told(self.execution_ns)), repr(told(self.period_ns))]
        for key in _OPTIONAL:
            value = getattr(self, f"{key}_ns")
            if value is not None:
                parts.append(f"{key}={told(value)!r}")
        if self.name is not None:
            parts.append(f"name={self.name!r}")
        return f"Task({', '.join(parts)})"


Tasks = Union[Iterable[Union[Task, str, Mapping[str, Any]]], Any]
"""Tasks, texts as on the command line (``"10ms/100ms/90ms"`` is execution time, period and deadline,
``"40ms/250ms+150ms"`` has an offset, ``"10ms/100ms,jitter=5ms,blocking=1ms"`` both of these), mappings with the arguments of :class:`Task`, a
``pandas.DataFrame`` with such columns, or a :class:`TaskSet` that :func:`generate` made."""


def _task(row: object) -> Task:
    if isinstance(row, Task):
        return row
    if isinstance(row, str):
        try:
            execution_ns, period_ns, deadline_ns, offset_ns, jitter_ns, blocking_ns = (
                _native.parse_task(row)
            )
        except AnalysisError as error:
            raise refuse(f"task {row!r}: {error}") from None
        return Task(
            execution_ns=execution_ns,
            period_ns=period_ns,
            deadline_ns=deadline_ns,
            offset_ns=offset_ns,
            jitter_ns=jitter_ns,
            blocking_ns=blocking_ns,
        )
    if not isinstance(row, Mapping):
        raise refuse(
            f'a task is not {row!r}; give Task("10ms", "100ms"), the text "10ms/100ms", or a '
            "mapping with execution and period"
        )
    known = ("execution", "period", *_OPTIONAL)
    allowed = {"name", *known, *(f"{one}_ns" for one in known)}
    unknown = [key for key in row if key not in allowed]
    if unknown:
        raise refuse(
            f"a task has no {unknown[0]!r}; its keys are {', '.join(sorted(allowed))}"
        )
    return Task(**{key: _cell(key, value) for key, value in row.items() if not _missing(value)})


def _cell(key: str, value: Any) -> Any:
    """A value of a table: pandas makes floats of a column of integers with a gap."""
    whole = key.endswith("_ns") and isinstance(value, float) and value.is_integer()
    return int(value) if whole else value


def _missing(value: object) -> bool:
    """What an empty cell of a table holds."""
    if value is None:
        return True
    if isinstance(value, float):
        return value != value
    if isinstance(value, np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NaTType", "NAType")


def tasks_of(given: Tasks) -> list[Task]:
    """The tasks of a list, a table or a set; at least one."""
    tasks = [_task(row) for row in _rows(given)]
    if not tasks:
        raise refuse("there is no task; give at least one")
    return tasks


def _rows(given: Any) -> list[Any]:
    """The members of a list or a table."""
    if isinstance(given, (Task, Mapping, str)):
        raise refuse(
            'tasks are a list, such as [Task(...), Task(...)] or ["10ms/100ms", "20ms/200ms"]; put '
            "the task into one"
        )
    if hasattr(given, "sets"):
        raise refuse(
            f"these are {len(given.sets)} sets of tasks, and one at a time is looked at: give the first by [0], or "
            "take them one by one"
        )
    table = hasattr(given, "columns")
    if hasattr(given, "tasks") and not table:
        # A generated set of tasks.
        given = given.tasks
    try:
        return list(given.to_dict("records") if table else given)
    except TypeError:
        raise refuse(f"tasks are a list or a DataFrame, not {given!r}") from None


def released(given: Tasks) -> list[tuple[int, int, Optional[int]]]:
    """Execution times, periods and offsets. Deadlines play no part: tasks that run as on a CPU of
    their own meet those that they meet there."""
    rows = _rows(given)
    tasks = tasks_of(rows)
    for task in tasks:
        if task.jitter_ns or task.blocking_ns:
            raise refuse(
                f"{task!r} has jitter or blocking, which this analysis does not look at; leave it out"
            )
    # As on the command line, a text without an offset is a periodic task that starts at zero.
    starts = [
        0 if isinstance(row, str) and task.offset_ns is None else task.offset_ns
        for row, task in zip(rows, tasks)
    ]
    return [(task.execution_ns, task.period_ns, start) for task, start in zip(tasks, starts)]


METHOD = (
    "the most that a CPU of its own works in any window of a period (Li 2021, section 3.2, W(P) "
    "times P)"
)


@dataclass(frozen=True)
class LeastBudget:
    """The answer of :func:`least_budget`."""

    period: np.timedelta64
    """The period of the reservation."""
    budget: np.timedelta64
    """The least budget with which the tasks run as on a CPU of their own; exact."""
    utilisation: float
    """What the tasks use of a CPU in the long run; no bandwidth is below."""
    method: str = METHOD
    """The method, with its source."""

    @property
    def bandwidth(self) -> float:
        """Budget / period: W(P) of the thesis."""
        return float(self.budget / self.period)


@dataclass(frozen=True, eq=False)
class BandwidthCurve:
    """The curve W(P): the answer of :func:`bandwidth_curve`."""

    periods: npt.NDArray[np.timedelta64]
    """The periods, as asked."""
    budgets: npt.NDArray[np.timedelta64]
    """The least budget at each."""
    utilisation: float
    """What the tasks use of a CPU in the long run; no bandwidth is below."""
    method: str = METHOD
    """The method, with its source."""

    @property
    def bandwidths(self) -> npt.NDArray[np.float64]:
        """Budgets / periods."""
        shares: npt.NDArray[np.float64] = self.budgets / self.periods
        return shares

    def to_frame(self) -> Any:
        """The curve as a ``pandas.DataFrame``, one row per period."""
        return frame(
            {"period": self.periods, "budget": self.budgets, "bandwidth": self.bandwidths}
        )

    def plot(self, backend: Backend = "altair", *, axes: Any = None) -> Any:
        """The least bandwidth by period, and the utilisation below it."""
        order = np.argsort(self.periods)
        at_ns = self.periods[order].astype(np.int64)
        factor, unit = unit_for(float(at_ns.max()))
        x = at_ns / factor
        flat = np.full(len(x), self.utilisation)
        curves = [
            Curve("least bandwidth W(P)", x, self.bandwidths[order]),
            Curve("utilisation", x, flat),
        ]
        return Picture(f"period in {unit}", "bandwidth", curves).draw(backend, axes)


def hyperperiod(tasks: Tasks) -> np.timedelta64:
    """The least common multiple of the periods, up to an hour."""
    found: np.timedelta64 = timedeltas([_native.hyperperiod(released(tasks))])[0]
    return found


def least_budget(
    tasks: Tasks, period: Optional[Time] = None, *, period_ns: Optional[int] = None
) -> LeastBudget:
    """The least budget of a deferrable server of the highest priority with which the tasks run as
    on a CPU of their own, wherever the replenishments lie.

    A text without an offset is a periodic task that starts at zero, as on the command line; a
    :class:`Task` without one is sporadic. Deadlines play no part: tasks that run as on a CPU of
    their own meet those that they meet there, which :func:`analyze` says.

    ``period`` is that of the server; if left out, the tasks' hyperperiod, at which the bandwidth is
    the utilisation (Li 2021, Theorem 2).
    """
    rows = released(tasks)
    asked = optional_nanoseconds(period, period_ns, "period")
    value = _native.hyperperiod(rows) if asked is None else asked
    (budget,), utilisation = _native.bandwidth_curve(rows, [value])
    length, found = timedeltas([value, budget])
    return LeastBudget(length, found, utilisation)


def bandwidth_curve(
    tasks: Tasks,
    periods: Optional[Times] = None,
    *,
    periods_ns: Optional[Nanoseconds] = None,
) -> BandwidthCurve:
    """The least budgets at many periods, each as of :func:`least_budget`: W(P), figure 3.3 of the
    thesis."""
    rows = released(tasks)
    values, _ = many_nanoseconds(periods, periods_ns, "periods")
    budgets, utilisation = _native.bandwidth_curve(rows, values)
    return BandwidthCurve(timedeltas(values), timedeltas(budgets), utilisation)


@dataclass(frozen=True)
class TaskResponse:
    """What :func:`analyze` says of one task."""

    task: Task
    """The task."""
    response_time: Optional[np.timedelta64]
    """The longest time from arrival to completion; ``None`` where there is none."""
    meets_deadline: bool
    """Whether that is within the deadline."""
    why: Optional[str]
    """Why the deadline is not met."""


@dataclass(frozen=True)
class OverloadedWindow:
    """A stretch of time in which more must be executed than fits, under earliest deadline first."""

    length: np.timedelta64
    """How long it is."""
    demand: np.timedelta64
    """How much must be executed in it."""


@dataclass(frozen=True)
class Schedulability:
    """The answer of :func:`analyze`."""

    schedulable: bool
    """Whether every job of every task meets its deadline."""
    policy: Policy
    """The order of execution."""
    tasks: list[TaskResponse]
    """One answer per task: under fixed priorities the highest priority first, otherwise in the order of
    the tasks. Empty where Audsley's assignment finds no order."""
    window: Optional[OverloadedWindow]
    """Under earliest deadline first the first window that does not fit, where there is one."""
    method: str
    """The method, with its source."""
    assumptions: list[str]
    """What it takes for granted."""
    why: Optional[str] = None
    """Why a deadline can be missed, where that is more than what the tasks say."""

    def __bool__(self) -> bool:
        return self.schedulable

    def to_frame(self) -> Any:
        """A ``pandas.DataFrame`` with a row per task."""
        times = {
            "execution": [one.task.execution_ns for one in self.tasks],
            "period": [one.task.period_ns for one in self.tasks],
            "deadline": [_deadline_ns(one.task) for one in self.tasks],
        }
        for key in ("jitter", "blocking"):
            values = [getattr(one.task, f"{key}_ns") or 0 for one in self.tasks]
            if any(values):
                times[key] = values
        columns: dict[str, Any] = {"name": [one.task.name for one in self.tasks]}
        columns.update({name: timedeltas(values) for name, values in times.items()})
        nat = np.timedelta64("NaT", "ns")
        found = [nat if one.response_time is None else one.response_time for one in self.tasks]
        columns["response_time"] = np.array(found, dtype="timedelta64[ns]")
        columns["meets_deadline"] = [one.meets_deadline for one in self.tasks]
        return frame(columns)


_EVERY_OFFSET = "every offset: those of the tasks are not looked at"
_NO_ORDER = "in every order of priorities a deadline can be missed"


def _deadline_ns(task: Task) -> int:
    return task.period_ns if task.deadline_ns is None else task.deadline_ns


def _policy(given: Any) -> Policy:
    """The policy of a generated set; fixed priorities for other tasks."""
    scheduling = getattr(given, "scheduling", None)
    if scheduling is None:
        return "fp"
    if scheduling not in _POLICIES:
        raise refuse(
            f"the set is served {scheduling}, for which there is no analysis of deadlines here; choose "
            'a policy: "rm", "dm" or "edf"'
        )
    return _POLICIES[scheduling]


def _above(given: Servers) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def analyze_tasks(
    tasks: Tasks,
    policy: Optional[Policy] = None,
    *,
    preemptive: bool = True,
    above: Servers = (),
) -> Schedulability:
    """What :func:`tailbound.analyze` answers for tasks on one CPU."""
    if policy is None:
        policy = _policy(tasks)
    known = tasks_of(tasks)
    rows = sporadic(known)
    unused = [_EVERY_OFFSET] if any(task.offset_ns for task in known) else []
    servers = _above(above)
    if policy == "edf":
        answer = json.loads(_native.earliest_deadline_first(rows, preemptive, servers))
    else:
        answer = json.loads(_native.fixed_priority(rows, policy, preemptive, servers))
    if answer is None:
        given = json.loads(_native.fixed_priority(rows, "fp", preemptive, servers))
        method = f"Audsley's assignment (2001) by {given['method']}"
        assumptions = given["assumptions"] + unused
        return Schedulability(False, policy, [], None, method, assumptions, _NO_ORDER)
    window = None
    if answer.get("window_ns") is not None:
        window = OverloadedWindow(*timedeltas([answer["window_ns"], answer["demand_ns"]]))
    return Schedulability(
        answer["schedulable"],
        policy,
        [_response(known, row) for row in answer["tasks"]],
        window,
        answer["method"],
        answer["assumptions"] + unused,
        answer.get("why"),
    )


def _response(tasks: list[Task], row: dict[str, Any]) -> TaskResponse:
    found = row["response_time_ns"]
    response = None if found is None else timedeltas([found])[0]
    return TaskResponse(tasks[row["task"] - 1], response, row["meets_deadline"], row["why"])


def sporadic(tasks: Iterable[Task]) -> list[tuple[int, int, int, int, int]]:
    """Execution times, periods, deadlines, jitters and blockings."""
    return [
        (
            task.execution_ns,
            task.period_ns,
            _deadline_ns(task),
            task.jitter_ns or 0,
            task.blocking_ns or 0,
        )
        for task in tasks
    ]


def assign_priorities(
    tasks: Tasks, *, preemptive: bool = True, above: Servers = ()
) -> Optional[list[Task]]:
    """An order of fixed priorities, the highest first, in which every task meets its deadline on one
    CPU; ``None`` where no order does.

    Audsley's optimal assignment by response times: deadlines may be shorter or longer than periods.
    ``preemptive`` and ``above`` are those of :func:`analyze`.
    """
    found = analyze_tasks(tasks, "audsley", preemptive=preemptive, above=above)
    return [one.task for one in found.tasks] or None


@dataclass(frozen=True)
class TestVerdict:
    """What one test says of tasks, among those of :func:`deadline_tests`."""

    # The name does not make it a test of pytest's.
    __test__ = False

    scheduling: str
    """The scheduling that the test is for: a policy, or ``"any"``."""
    test: str
    """The test by name."""
    outcome: Literal["schedulable", "unschedulable", "undecided", "not-applicable"]
    """``"undecided"`` where the test is not exact and does not decide."""
    why: Optional[str]
    """Why the test does not fit."""
    method: str
    """The method, with its source."""
    assumptions: tuple[str, ...]
    """What it takes for granted."""

    def __bool__(self) -> bool:
        return self.outcome == "schedulable"


def deadline_tests(
    tasks: Tasks, cpus: int = 1, *, preemptive: bool = True, above: Servers = ()
) -> list[TestVerdict]:
    """Every test that fits the tasks, side by side, each with its source: the answer of
    ``tailbound analyze --tests``.

    The tasks meet their deadlines if ``any(deadline_tests(...))``. On several CPUs any job may run on any
    of them. ``preemptive`` and ``above`` are those of :func:`analyze`.
    """
    known = sporadic(tasks_of(tasks))
    text = _native.deadline_tests(known, count(cpus, "cpus", 1), preemptive, _above(above))
    return [
        TestVerdict(**{**row, "assumptions": tuple(row["assumptions"])}) for row in json.loads(text)
    ]


GlobalTest = Literal["fp", "edf", "edf-density", "edf-interference"]
"""``"fp"``: response times under global fixed priorities, the first task first; ``"edf"``: response
times under global earliest deadline first; ``"edf-density"`` and ``"edf-interference"``: simpler tests
of the same."""


@dataclass(frozen=True)
class GlobalSchedulability:
    """The answer of :func:`analyze_global`."""

    accepted: bool
    """Whether the test proves that every job meets its deadline; ``False`` proves nothing."""
    response_bounds: list[Optional[np.timedelta64]]
    """Upper bounds of the response times in the order of the tasks; ``None`` where there is no bound,
    and an empty list where the test has none."""
    method: str
    """The method, with its source."""
    assumptions: list[str]
    """What it takes for granted."""

    def __bool__(self) -> bool:
        return self.accepted


def analyze_global(tasks: Tasks, cpus: int, test: GlobalTest = "edf") -> GlobalSchedulability:
    """Whether a test proves that tasks meet their deadlines on several CPUs, any job on any of them.

    Every test is sufficient only: what it does not accept may be schedulable.
    """
    known = tasks_of(tasks)
    found = _native.global_test(sporadic(known), count(cpus, "cpus", 1), test)
    if found is None:
        raise refuse(
            f'there is no test {test!r}; choose "fp", "edf", "edf-density" or "edf-interference"'
        )
    accepted, bounds, method = found
    told = [None if bound is None else timedeltas([bound])[0] for bound in bounds]
    return GlobalSchedulability(accepted, told, method[0], method[1])
