"""Random sets of tasks."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator, Optional, Union

from . import _native
from ._optional import frame
from ._task_set import Scheduling, TaskSet
from ._tasks import Task
from ._times import Time, count, optional_nanoseconds, refuse

@dataclass(frozen=True)
class TaskSets:
    """The answer of :func:`generate`."""

    seed: int
    """The seed that they were drawn with."""
    sets: tuple[TaskSet, ...]
    """The sets, in the order of their numbers."""
    csv: str = field(repr=False)
    """A row for each task: the bytes of ``tailbound generate --format csv``."""

    def __len__(self) -> int:
        return len(self.sets)

    def __iter__(self) -> Iterator[TaskSet]:
        """The sets, one by one: each is what ``analyze`` and ``least_budget`` take."""
        return iter(self.sets)

    def __getitem__(self, index: int) -> TaskSet:
        return self.sets[index]

    def to_frame(self) -> Any:
        """A ``pandas.DataFrame`` with a row for each task, and the columns of the CSV."""
        rows = [(one.number, task) for one in self.sets for task in one.tasks]
        return frame(
            {
                "set": [number for number, _ in rows],
                "task": [task.name for _, task in rows],
                "utilisation": [task.execution_ns / task.period_ns for _, task in rows],
                "execution_ns": [task.execution_ns for _, task in rows],
                "period_ns": [task.period_ns for _, task in rows],
                "deadline_ns": [task.deadline_ns for _, task in rows],
                "offset_ns": [task.offset_ns for _, task in rows],
            }
        )

    def write(self, folder: Union[str, "os.PathLike[str]"]) -> list[Path]:
        """Writes a description for each set into a folder: the files of
        ``tailbound generate --out``. Returns their paths."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        paths = []
        for one in self.sets:
            path = place / f"set-{one.number}.toml"
            path.write_bytes(one.description.encode())
            paths.append(path)
        return paths


def generate(
    utilisation: float,
    tasks: Optional[int] = None,
    *,
    utilisations: str = "uunifast",
    periods: str = "log-uniform:1ms..1s",
    deadlines: str = "implicit",
    offsets: str = "zero",
    scheduling: Scheduling = "rate-monotonic",
    budget: Optional[Time] = None,
    period: Optional[Time] = None,
    seed: int = 1,
    sets: int = 1,
    budget_ns: Optional[int] = None,
    period_ns: Optional[int] = None,
) -> TaskSets:
    """Draws sets of tasks as the literature draws them: those of ``tailbound generate``.

    Parameters
    ----------
    utilisation:
        Of a set: the sum of execution time / period.
    tasks:
        How many tasks a set has; under a bimodal law that is an outcome, and ranges tell it.
    utilisations:
        How the utilisation is divided: ``"uunifast"``, ``"uunifast:0.5"``,
        ``"rand-fixed-sum:0.05..0.5"``, ``"within:0.5,0.1..0.4,0.3"`` (a range or a bound for each
        task) or ``"bimodal:medium"``.
    periods:
        ``"log-uniform:1ms..1s"``, ``"harmonic:10ms..1280ms"`` or
        ``"divisors-of:1s,10ms..100ms"``.
    deadlines:
        ``"implicit"``, ``"constrained"`` or ``"arbitrary:4"``.
    offsets:
        ``"zero"`` or ``"uniform"``.
    scheduling:
        The order of service in the descriptions.
    budget, period:
        The reservation in the descriptions; a CPU of its own if left out.
    seed:
        The same one draws the same sets.
    sets:
        How many sets.

    Raises
    ------
    AnalysisError
        What cannot be read, or what no set can fulfil.
    """
    if not 0 <= seed < 2**64:
        raise refuse(f"seed {seed} is none; seeds are whole numbers from 0 to 2^64 - 1")
    wanted = count(sets, "sets", 1)
    reserved = optional_nanoseconds(budget, budget_ns, "budget")
    each = optional_nanoseconds(period, period_ns, "period")
    if (reserved is None) != (each is None):
        raise refuse("a reservation has both a budget and a period; give both, or none")
    recipe = (
        float(utilisation),
        None if tasks is None else count(tasks, "tasks", 1),
        utilisations,
        periods,
        deadlines,
        offsets,
    )
    reservation = None if reserved is None or each is None else (reserved, each)
    made = _native.generate(recipe, scheduling, reservation, seed, wanted)
    lines = [_native.generated_columns()]
    lines += [fields for rows, _ in made for _, _, fields in rows]
    numbered = enumerate(made, start=1)
    return TaskSets(
        seed=seed,
        sets=tuple(TaskSet(number, _tasks(rows), scheduling, text) for number, (rows, text) in numbered),
        csv="".join(",".join(fields) + "\r\n" for fields in lines),
    )


def _tasks(rows: list[_native._GeneratedTask]) -> tuple[Task, ...]:
    return tuple(
        Task(
            execution_ns=execution,
            period_ns=period,
            deadline_ns=deadline,
            offset_ns=offset,
            name=name,
        )
        for name, (execution, period, deadline, offset), _ in rows
    )
