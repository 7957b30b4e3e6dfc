"""Resource interfaces: the least reservations on which tasks meet their deadlines."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, Optional, Union, overload

import numpy as np

from . import _native
from ._description import DescriptionLike, description_of, is_description
from ._optional import frame
from ._sizing import periods_of
from ._tasks import Tasks, sporadic, tasks_of
from ._times import ByValue, Nanoseconds, Time, Times, count, optional_nanoseconds, refuse, timedeltas

ResourceModel = Literal[
    "periodic", "explicit-deadline", "deferrable", "polling", "multiprocessor", "bounded-delay"
]
"""``"periodic"``: the budget comes somewhere in each period; ``"explicit-deadline"``: by a deadline after
the start of each period; ``"deferrable"`` and ``"polling"``: such a server; ``"multiprocessor"``: on several
CPUs together, the tasks by global earliest deadline first; ``"bounded-delay"``: a share of a CPU that is
late by a delay."""

ComponentPolicy = Literal["edf", "fp", "rm", "dm", "fifo"]
"""The order of the tasks on the reservation: earliest deadline first, the first task first, the shorter
period or deadline first, or first come, first served."""

_POLICIES: dict[str, ComponentPolicy] = {
    "fifo": "fifo",
    "rate-monotonic": "rm",
    "deadline-monotonic": "dm",
    "earliest-deadline-first": "edf",
}


@dataclass(frozen=True, eq=False)
class InterfaceChoice(ByValue):
    """The least reservation of one period, or the longest delay of one bandwidth."""

    period: np.timedelta64
    """The period; of a bounded delay that of a periodic reservation that gives no less, or ``NaT``."""
    budget: np.timedelta64
    """The least budget, what replenishments cost included; of several CPUs, of all together. ``NaT``
    where none suffices."""
    bandwidth: Optional[float]
    """Budget / period, or the share of a bounded delay, in CPUs."""
    above_utilisation: Optional[float]
    """The bandwidth beyond the utilisation of the tasks."""
    deadline: np.timedelta64
    """By when the budget is given, of the model that has this; otherwise ``NaT``."""
    delay: np.timedelta64
    """The longest delay, of the model that has this; otherwise ``NaT``."""
    cpus: Optional[int]
    """The fewest CPUs, of the model that has several."""
    why: Optional[str]
    """What is missing with a nanosecond less, or why nothing suffices."""

    @property
    def suffices(self) -> bool:
        """Whether this is an answer, and no refusal."""
        return not (np.isnat(self.budget) and np.isnat(self.delay))

    def __bool__(self) -> bool:
        return self.suffices


@dataclass(frozen=True, eq=False)
class Interfaces(ByValue):
    """The least reservations of tasks, made by :func:`interface`."""

    model: ResourceModel
    policy: ComponentPolicy
    utilisation: float
    """The sum of execution time / period."""
    choices: tuple[InterfaceChoice, ...]
    """One for each period, or bandwidth."""
    best: Optional[InterfaceChoice]
    """The one with the least bandwidth, and of several the longest period or delay; ``None`` where none
    suffices."""
    method: Optional[str]
    """The test and the resource model, with their sources; ``None`` where none suffices."""
    assumptions: tuple[str, ...]
    """What is taken for granted."""

    def __bool__(self) -> bool:
        return self.best is not None

    def to_frame(self) -> Any:
        """A ``pandas.DataFrame`` with a row for each period, or bandwidth."""
        return frame(_columns(self.choices))


@dataclass(frozen=True)
class DomainInterface:
    """The least reservations of a domain of a description."""

    domain: str
    service: Optional[str]
    """The service; ``None`` for tasks that the domain has of its own."""
    utilisation: float
    is_as_described: bool
    """Whether the answer is the described reservation, since no task has a deadline."""
    choices: tuple[InterfaceChoice, ...]
    best: Optional[InterfaceChoice]
    method: Optional[str]


@dataclass(frozen=True)
class CpuInterface:
    """What a CPU needs to hold the best reservations of its domains."""

    host: str
    cpu: int
    domains: tuple[str, ...]
    bandwidth: float
    """The sum of their bandwidths."""
    schedulable: bool
    """Whether the whole CPU gives all of them their budgets."""
    why: Optional[str]
    """Why not."""
    interface: Optional[InterfaceChoice]
    """The least reservation of the CPU itself, where ``compose`` asked for it."""


@dataclass(frozen=True)
class ModeInterfaces:
    """The interfaces of one mode."""

    mode: Optional[str]
    domains: tuple[DomainInterface, ...]
    cpus: tuple[CpuInterface, ...]


@dataclass(frozen=True)
class DescriptionInterfaces:
    """The least reservations of the domains of a description, made by :func:`interface`."""

    model: ResourceModel
    modes: tuple[ModeInterfaces, ...]
    objections: tuple[str, ...]
    """Everything without an answer, in words."""
    document: dict[str, Any] = field(compare=False, repr=False)
    """The JSON document of ``tailbound interface FILE --format json``, without its versions."""

    def __bool__(self) -> bool:
        return not self.objections

    def to_frame(self) -> Any:
        """A ``pandas.DataFrame`` with a row for each period of each domain in each mode."""
        rows = [
            (mode.mode, domain, choice)
            for mode in self.modes
            for domain in mode.domains
            for choice in domain.choices
        ]
        columns: dict[str, Any] = {
            "mode": [mode for mode, _, _ in rows],
            "domain": [domain.domain for _, domain, _ in rows],
            "is_best": [choice == domain.best for _, domain, choice in rows],
        }
        columns.update(_columns(tuple(choice for _, _, choice in rows)))
        return frame(columns)


def _columns(choices: tuple[InterfaceChoice, ...]) -> dict[str, Any]:
    """The columns of choices; those that no model of theirs has are left out."""
    columns: dict[str, Any] = {}
    for key in ("period", "budget", "deadline", "delay"):
        times = np.array([getattr(one, key) for one in choices], dtype="timedelta64[ns]")
        if key in ("period", "budget") or not np.isnat(times).all():
            columns[key] = times
    if any(one.cpus is not None for one in choices):
        columns["cpus"] = [one.cpus for one in choices]
    for key in ("bandwidth", "above_utilisation", "why"):
        columns[key] = [getattr(one, key) for one in choices]
    return columns


def _choice(row: dict[str, Any]) -> InterfaceChoice:
    keys = ("period", "budget", "deadline", "delay")
    times = dict(zip(keys, timedeltas([row.get(f"{key}_ns") for key in keys])))
    return InterfaceChoice(
        bandwidth=row["bandwidth"],
        above_utilisation=row["above_utilisation"],
        cpus=row.get("cpus"),
        why=row["why"],
        **times,
    )


def _choices(
    document: dict[str, Any],
) -> tuple[tuple[InterfaceChoice, ...], Optional[InterfaceChoice]]:
    choices = tuple(_choice(row) for row in document["interfaces"])
    best = document["best"]
    return choices, None if best is None else choices[best]


@overload
def interface(  # type: ignore[overload-overlap]
    tasks: DescriptionLike,
    periods: Optional[Times] = None,
    *,
    points: int = 20,
    model: ResourceModel = "periodic",
    policy: Optional[ComponentPolicy] = None,
    domain: Optional[str] = None,
    compose: Optional[Time] = None,
    deadline: Optional[Time] = None,
    jitter: Optional[Time] = None,
    overhead: Optional[Time] = None,
    periods_ns: Optional[Nanoseconds] = None,
    compose_ns: Optional[int] = None,
    deadline_ns: Optional[int] = None,
    jitter_ns: Optional[int] = None,
    overhead_ns: Optional[int] = None,
) -> DescriptionInterfaces: ...


@overload
def interface(
    tasks: Tasks,
    periods: Optional[Times] = None,
    *,
    points: int = 20,
    model: ResourceModel = "periodic",
    policy: Optional[ComponentPolicy] = None,
    bandwidth: Optional[str] = None,
    deadline: Optional[Time] = None,
    jitter: Optional[Time] = None,
    cpus: Optional[int] = None,
    overhead: Optional[Time] = None,
    periods_ns: Optional[Nanoseconds] = None,
    deadline_ns: Optional[int] = None,
    jitter_ns: Optional[int] = None,
    overhead_ns: Optional[int] = None,
) -> Interfaces: ...


def interface(
    tasks: Union[Tasks, DescriptionLike],
    periods: Optional[Times] = None,
    *,
    points: int = 20,
    model: ResourceModel = "periodic",
    policy: Optional[ComponentPolicy] = None,
    domain: Optional[str] = None,
    compose: Optional[Time] = None,
    bandwidth: Optional[str] = None,
    deadline: Optional[Time] = None,
    jitter: Optional[Time] = None,
    cpus: Optional[int] = None,
    overhead: Optional[Time] = None,
    periods_ns: Optional[Nanoseconds] = None,
    compose_ns: Optional[int] = None,
    deadline_ns: Optional[int] = None,
    jitter_ns: Optional[int] = None,
    overhead_ns: Optional[int] = None,
) -> Union[Interfaces, DescriptionInterfaces]:
    """The least reservations on which tasks meet their deadlines, or on which the tasks of each domain of a
    description do: the answer of ``tailbound interface``.

    Parameters
    ----------
    tasks:
        The tasks, preemptive, released at any time; or a :class:`Description` or the path of its file.
    periods:
        The periods to look at, or a range of them, ``"1ms..100ms"``. Of a description, if left out, the
        described period of each domain.
    points:
        How many periods, or bandwidths, of a range are looked at.
    model:
        The kind of reservation.
    policy:
        The order of the tasks; if left out that of a :class:`TaskSet`, and ``"edf"`` for others. Of a
        description that of the domains on each CPU: ``"edf"``, ``"rm"`` or ``"dm"``.
    domain:
        Of a description: only this domain.
    compose:
        Of a description: the period of a reservation of each CPU that holds all of its domains.
    bandwidth:
        Of ``"bounded-delay"``: a share of a CPU, ``"40%"``, or a range, ``"30%..90%"``.
    deadline:
        Of ``"explicit-deadline"``: by when the budget is given, after the start of each period; if left
        out, the latest with which the least budget suffices.
    jitter:
        Of ``"deferrable"`` and ``"polling"``: how long others hold the server up while it spends a budget;
        zero if left out, which is right at the highest priority.
    cpus:
        Of ``"multiprocessor"``: the most CPUs at a time; the fewest that suffice are taken.
    overhead:
        What each replenishment costs on each CPU; zero if left out.

    That nothing suffices at a period is no error: ``why`` says what is missing.
    """
    by = optional_nanoseconds(deadline, deadline_ns, "deadline")
    late = optional_nanoseconds(jitter, jitter_ns, "jitter")
    lost = optional_nanoseconds(overhead, overhead_ns, "overhead")
    is_periodic = periods is not None or periods_ns is not None
    _check(model, by, late, lost, cpus, bandwidth, is_periodic)
    each = periods_of(periods, periods_ns, points) if is_periodic else []
    most = 1 if cpus is None else count(cpus, "cpus", 1)
    asked = (model, each, late or 0, by, lost or 0, most)
    if is_description(tasks):
        if model == "bounded-delay":
            raise refuse("a description has no bounded delays; give tasks, or choose another model")
        composed = optional_nanoseconds(compose, compose_ns, "compose")
        known = description_of(tasks)
        order = policy or "edf"
        return _of_description(
            *_native.interface_description(known, domain, order, composed, asked)
        )
    if domain is not None or compose is not None or compose_ns is not None:
        raise refuse("domain and compose belong to a description; leave them out")
    rows = sporadic(tasks_of(tasks))
    policy = policy or _own_policy(tasks)
    if bandwidth is not None:
        text = _native.bounded_delay(rows, policy, bandwidth, count(points, "points", 1))
    elif not is_periodic:
        raise refuse('periods is missing; give periods="5ms", or a range such as "1ms..100ms"')
    else:
        text = _native.interface(rows, policy, asked)
    return _of_tasks(json.loads(text))


def _own_policy(tasks: object) -> ComponentPolicy:
    """The policy of a set; earliest deadline first for other tasks."""
    scheduling = getattr(tasks, "scheduling", None)
    return "edf" if scheduling is None else _POLICIES[scheduling]


def _check(
    model: str,
    deadline: Optional[int],
    jitter: Optional[int],
    overhead: Optional[int],
    cpus: Optional[int],
    bandwidth: Optional[str],
    is_periodic: bool,
) -> None:
    """Refuses what does not belong to the model, and what the model needs and has not."""
    is_delay = model == "bounded-delay"
    strays = {
        'deadline belongs to model="explicit-deadline"': deadline is not None
        and model != "explicit-deadline",
        'jitter belongs to model="deferrable" and "polling"': jitter is not None
        and model not in ("deferrable", "polling"),
        'cpus belongs to model="multiprocessor"': cpus is not None and model != "multiprocessor",
        'bandwidth belongs to model="bounded-delay"': bandwidth is not None and not is_delay,
        'periods and overhead do not belong to model="bounded-delay"': is_delay
        and (is_periodic or overhead is not None),
    }
    for what, is_stray in strays.items():
        if is_stray:
            raise refuse(f"{what}; leave it out, or choose that model")
    if model == "multiprocessor" and cpus is None:
        raise refuse("a multiprocessor reservation needs the most CPUs that it may use; give cpus=4")
    if is_delay and bandwidth is None:
        raise refuse('bandwidth is missing; give bandwidth="40%", or a range such as "30%..90%"')


def _of_tasks(document: dict[str, Any]) -> Interfaces:
    choices, best = _choices(document)
    return Interfaces(
        model=document["model"],
        policy=document["policy"],
        utilisation=document["utilisation"],
        choices=choices,
        best=best,
        method=document["method"],
        assumptions=tuple(document["assumptions"]),
    )


def _of_description(text: str, objections: list[str]) -> DescriptionInterfaces:
    document = json.loads(text)
    modes = tuple(
        ModeInterfaces(
            mode["mode"],
            tuple(_domain(domain) for domain in mode["domains"]),
            tuple(_cpu(cpu) for cpu in mode["cpus"]),
        )
        for mode in document["modes"]
    )
    return DescriptionInterfaces(document["model"], modes, tuple(objections), document)


def _domain(document: dict[str, Any]) -> DomainInterface:
    choices, best = _choices(document)
    return DomainInterface(
        domain=document["domain"],
        service=document["service"],
        utilisation=document["utilisation"],
        is_as_described=document["is_as_described"],
        choices=choices,
        best=best,
        method=document["method"],
    )


def _cpu(document: dict[str, Any]) -> CpuInterface:
    own = document["interface"]
    return CpuInterface(
        host=document["host"],
        cpu=document["cpu"],
        domains=tuple(document["domains"]),
        bandwidth=document["bandwidth"],
        schedulable=document["schedulable"],
        why=document["why"],
        interface=None if own is None else _choice(own),
    )


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
    deadline: Optional[np.timedelta64] = None
    """By when the budget is given, of the model that has this."""

    @property
    def bandwidth(self) -> float:
        """Budget / period, in CPUs."""
        return float(self.budget / self.period)


def least_interface(
    tasks: Tasks,
    periods: Optional[Times] = None,
    *,
    model: Literal[
        "periodic", "explicit-deadline", "deferrable", "polling", "multiprocessor"
    ] = "periodic",
    policy: Optional[ComponentPolicy] = None,
    deadline: Optional[Time] = None,
    jitter: Optional[Time] = None,
    cpus: Optional[int] = None,
    overhead: Optional[Time] = None,
    periods_ns: Optional[Nanoseconds] = None,
    deadline_ns: Optional[int] = None,
    jitter_ns: Optional[int] = None,
    overhead_ns: Optional[int] = None,
) -> ResourceInterface:
    """The reservation with the least bandwidth, among these periods, on which tasks meet their
    deadlines: ``interface(...).best``, with the same arguments.

    Raises
    ------
    AnalysisError
        Where no budget suffices at any of the periods, with what is missing.
    """
    if is_description(tasks):
        raise refuse("a description has an interface for each domain; ask interface")
    found = interface(
        tasks,
        periods,
        model=model,
        policy=policy,
        deadline=deadline,
        jitter=jitter,
        cpus=cpus,
        overhead=overhead,
        periods_ns=periods_ns,
        deadline_ns=deadline_ns,
        jitter_ns=jitter_ns,
        overhead_ns=overhead_ns,
    )
    best = found.best
    if best is None or found.method is None:
        reasons = [one.why for one in found.choices if one.why is not None]
        error = refuse(reasons[0] if reasons else "there is no period to search; give at least one")
        error.kind = "no-budget-suffices" if reasons else "invalid"
        raise error
    return ResourceInterface(
        budget=best.budget,
        period=best.period,
        cpus=1 if best.cpus is None else best.cpus,
        method=found.method,
        assumptions=list(found.assumptions),
        tightest=best.why,
        deadline=None if np.isnat(best.deadline) else best.deadline,
    )
