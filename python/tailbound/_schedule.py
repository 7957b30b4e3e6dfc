"""Windows of simulated schedules: jobs, and what ran when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional, Sequence

from ._optional import frame, need
from ._plots import unit_for
from ._times import refuse, timedeltas

_SYSTEM = "operating system"


@dataclass(frozen=True)
class Schedule:
    """What happened in a window of the schedule of one CPU, or of several that share their work.

    All times are nanoseconds from the start of the simulation.
    """

    title: str
    """The host with its CPUs."""
    from_ns: int
    """Where the window begins."""
    until_ns: int
    """Where it ends."""
    task_names: tuple[str, ...]
    """The tasks that may run there."""
    _blocks: Sequence[tuple[int, Optional[tuple[int, int]], int, int]] = field(repr=False)
    _jobs: Sequence[tuple[int, int, int, Optional[int], Optional[int], bool]] = field(repr=False)

    def jobs(self) -> Any:
        """A ``pandas.DataFrame`` with a row for each job that was released, due, done or open in the
        window: ``task``, ``number``, ``release``, ``deadline``, ``completion``, ``response_time`` and
        ``missed``; ``NaT`` for what a job has not."""
        response = [
            None if done is None else done - release
            for _, _, release, _, done, _ in self._jobs
        ]
        return frame(
            {
                "task": [self.task_names[one[0]] for one in self._jobs],
                "number": [one[1] for one in self._jobs],
                "release": timedeltas([one[2] for one in self._jobs]),
                "deadline": timedeltas([one[3] for one in self._jobs]),
                "completion": timedeltas([one[4] for one in self._jobs]),
                "response_time": timedeltas(response),
                "missed": [one[5] for one in self._jobs],
            }
        )

    def pieces(self) -> Any:
        """A ``pandas.DataFrame`` of what ran when: ``cpu``, ``task``, ``number`` of the job, ``start``
        and ``end``."""
        return frame(
            {
                "cpu": [one[0] for one in self._blocks],
                "task": [self._name(one[1]) for one in self._blocks],
                "number": [None if one[1] is None else one[1][1] for one in self._blocks],
                "start": timedeltas([one[2] for one in self._blocks]),
                "end": timedeltas([one[3] for one in self._blocks]),
            }
        )

    def _name(self, job: Optional[tuple[int, int]]) -> str:
        return _SYSTEM if job is None else self.task_names[job[0]]

    def plot(self, backend: str = "altair") -> Any:
        """A Gantt picture as an Altair chart: a row for each task with where it ran, coloured by CPU,
        and its releases and deadlines as arrows up and down."""
        if backend != "altair":
            raise refuse('schedules are drawn by Altair only; give backend="altair"')
        altair = need("altair", "plot()")
        factor, unit = unit_for(float(self.until_ns))
        order = [*self.task_names]
        if any(job is None for _, job, _, _ in self._blocks):
            order.append(_SYSTEM)
        x_title = f"time in {unit}"
        rows = altair.Y("task:N", title=None, sort=order)
        bars = altair.Chart(altair.Data(values=self._bars(factor))).mark_bar(height=12)
        bars = bars.encode(
            x=altair.X("start:Q", title=x_title),
            x2="end:Q",
            y=rows,
            color=altair.Color("cpu:N", title="CPU"),
            tooltip=["task:N", "number:Q", "start:Q", "end:Q", "cpu:N"],
        )
        marks = altair.Chart(altair.Data(values=self._marks(factor)))
        marks = marks.mark_point(filled=True, size=30, color="black").encode(
            x=altair.X("at:Q", title=x_title),
            y=rows,
            shape=altair.Shape(
                "what:N",
                title=None,
                scale=altair.Scale(
                    domain=["release", "deadline"], range=["triangle-up", "triangle-down"]
                ),
            ),
            yOffset=altair.value(-10),
        )
        return altair.layer(bars, marks).properties(title=self.title)

    def _bars(self, factor: float) -> list[dict[str, Any]]:
        return [
            {
                "task": self._name(job),
                "number": None if job is None else job[1],
                "cpu": str(cpu),
                "start": start / factor,
                "end": end / factor,
            }
            for cpu, job, start, end in self._blocks
        ]

    def _marks(self, factor: float) -> list[dict[str, Any]]:
        marks = []
        for task, _, release, due, _, _ in self._jobs:
            for what, at in (("release", release), ("deadline", due)):
                if at is not None and self.from_ns <= at <= self.until_ns:
                    name = self.task_names[task]
                    marks.append({"task": name, "what": what, "at": at / factor})
        return marks


def schedule_of(
    title: str,
    names: Sequence[str],
    blocks: Sequence[tuple[int, Optional[tuple[int, int]], int, int]],
    jobs: Sequence[tuple[int, int, int, Optional[int], Optional[int], bool]],
    window_ns: tuple[int, int],
) -> Schedule:
    """The window as it crossed the border."""
    return Schedule(title, window_ns[0], window_ns[1], tuple(names), tuple(blocks), tuple(jobs))
