"""Sets of tasks with the order in which they are served, which every function takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Optional

from . import _native
from ._tasks import Task, Tasks, tasks_of
from ._times import Time, optional_nanoseconds, refuse

Scheduling = Literal[
    "fifo", "rate-monotonic", "deadline-monotonic", "earliest-deadline-first"
]
"""The order in which the tasks of a description are served."""


@dataclass(frozen=True)
class TaskSet:
    """Tasks on one CPU, the order in which they are served, and both as a description.

    :func:`generate` makes them, and :meth:`TaskSet.of` makes one of tasks of yours.
    """

    number: int
    """Its number among those that were generated together, from 1."""
    tasks: tuple[Task, ...]
    """The tasks, by name."""
    scheduling: Scheduling
    """The order in which they are served."""
    description: str = field(repr=False)
    """The set as a description (TOML), which every verb reads."""

    @classmethod
    def of(
        cls,
        tasks: Tasks,
        scheduling: Scheduling = "rate-monotonic",
        *,
        budget: Optional[Time] = None,
        period: Optional[Time] = None,
        budget_ns: Optional[int] = None,
        period_ns: Optional[int] = None,
    ) -> "TaskSet":
        """The set of these tasks on a reservation, or on a CPU of its own without a budget.

        Tasks without a name are called ``t1``, ``t2`` and so on; those without an offset start at zero
        in simulations.
        """
        reserved = optional_nanoseconds(budget, budget_ns, "budget")
        each = optional_nanoseconds(period, period_ns, "period")
        if (reserved is None) != (each is None):
            raise refuse("a reservation has both a budget and a period; give both, or none")
        named = tuple(_named(task, number) for number, task in enumerate(tasks_of(tasks), 1))
        names = [task.name for task in named]
        if len(set(names)) < len(names):
            raise refuse("two tasks have one name; give each a name of its own, or none")
        text = _text(named, scheduling, reserved, each)
        _native.Description.parse(text)
        return cls(1, named, scheduling, text)

    @property
    def utilisation(self) -> float:
        """The sum of execution time / period, after execution times were rounded."""
        return sum(task.execution_ns / task.period_ns for task in self.tasks)


def _named(task: Task, number: int) -> Task:
    return Task(
        execution_ns=task.execution_ns,
        period_ns=task.period_ns,
        deadline_ns=task.deadline_ns,
        offset_ns=task.offset_ns,
        jitter_ns=task.jitter_ns,
        blocking_ns=task.blocking_ns,
        name=task.name or f"t{number}",
    )


def _text(
    tasks: tuple[Task, ...], scheduling: str, budget_ns: Optional[int], period_ns: Optional[int]
) -> str:
    reservation = 'backend = "dedicated", cpus = [0]'
    if budget_ns is not None and period_ns is not None:
        length = [_native.format_duration(one) for one in (budget_ns, period_ns)]
        reservation = f'budget = "{length[0]}", period = "{length[1]}", cpus = [0]'
    lines = [
        "schema_version = 1",
        'name = "set"',
        "hosts.local.cpus = [0]",
        "[domains.set]",
        'kind = "process"',
        'builtin = "synthetic-service"',
        f"reservation = {{ {reservation} }}",
        "[services.set]",
        'domain = "set"',
        'protocol = "synthetic"',
        'endpoint = "unix:set.sock"',
        f'scheduling = "{scheduling}"',
    ]
    for task in tasks:
        lines += [f"[services.set.tasks.{task.name}]", *_keys(task)]
    return "\n".join(lines) + "\n"


def _keys(task: Task) -> list[str]:
    told = _native.format_duration
    offset = told(task.offset_ns or 0)
    keys = [
        f'arrivals = {{ kind = "periodic", period = "{told(task.period_ns)}", offset = "{offset}" }}',
        f'execution_time = {{ kind = "constant", value = "{told(task.execution_ns)}" }}',
    ]
    if task.deadline_ns is not None:
        keys.append(f'deadline = "{told(task.deadline_ns)}"')
    if task.jitter_ns:
        keys.append(f'jitter = "{told(task.jitter_ns)}"')
    if task.blocking_ns:
        keys.append(f'blocking = "{told(task.blocking_ns)}"')
    return keys

