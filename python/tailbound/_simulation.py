"""Whole hosts by discrete-event simulation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Iterable, Optional, Sequence, Union

import numpy as np

from . import _native
from ._chains import SimulatedChain, SimulatedTopic, simulated_chain, simulated_topic
from ._description import DescriptionLike, description_of
from ._optional import frame
from ._response import Distribution
from ._schedule import Schedule, schedule_of
from ._task_set import TaskSet
from ._tasks import Task
from ._times import ByValue, Interval, Time, optional_nanoseconds, refuse, timedeltas


@dataclass(frozen=True, eq=False)
class SimulatedTask(ByValue):
    """What became of a task in the time that counts."""

    host: str
    domain: str
    service: Optional[str]
    """Its service; ``None`` for a task of the domain itself."""
    name: str
    vcpu: Optional[int]
    """The virtual CPU of its domain, from 0; ``None`` where all share one queue."""
    released: int
    """Jobs that were released."""
    unfinished: int
    """Those of them that were not done at the end, long after that time."""
    missed: int
    """Jobs that were late, or not done at all."""
    deadline: np.timedelta64
    """The deadline, or else the least time between releases; ``NaT`` if there is none."""
    longest: np.timedelta64
    """The longest response time; ``NaT`` if no job was done."""
    cpu_share: float
    """The share of one CPU that it used."""
    percentiles: tuple[tuple[float, Interval], ...]
    """Percentiles of the response time: each lies in a class, at most 1/512 of its values wide."""
    response_times: Optional[Distribution] = field(compare=False, repr=False)
    """All response times, to compare with predicted, simulated or measured ones; ``None`` if no job
    was done."""


@dataclass(frozen=True)
class SimulatedDomain:
    """What became of a domain."""

    host: str
    name: str
    cpu_share: float
    """The CPU time that it used, with the domains inside of it, as a share of one CPU."""
    depletions: int
    """How often work had to wait because a budget was used up."""
    background: bool
    """Whether it runs below all reservations."""
    growth: Optional[str]
    """How it is known that its work piles up; ``None`` if it does not."""


@dataclass(frozen=True)
class SimulatedCpu:
    """What became of a CPU."""

    host: str
    cpu: int
    busy_share: float
    overhead_share: float
    context_switches: int


@dataclass(frozen=True)
class Simulation:
    """What the simulation of a description found."""

    seed: int
    domains: tuple[SimulatedDomain, ...]
    tasks: tuple[SimulatedTask, ...]
    cpus: tuple[SimulatedCpu, ...]
    assumptions: tuple[str, ...]
    """What is taken for granted."""
    schedules: tuple[Schedule, ...] = ()
    """A window of the schedule of each CPU, where that was asked for."""
    chains: tuple[SimulatedChain, ...] = ()
    """The chains of the description."""
    topics: tuple[SimulatedTopic, ...] = ()
    """The messages of its topics, at each subscriber."""

    @property
    def is_fine(self) -> bool:
        """Whether all deadlines were met, chains kept their limits, and nothing piles up."""
        kept = all(not chain.objections for chain in self.chains)
        steady = all(domain.growth is None for domain in self.domains)
        return kept and steady and all(task.missed == 0 for task in self.tasks)

    def to_frame(self) -> Any:
        """A ``pandas.DataFrame`` with a row for each task; of percentiles the upper ends."""
        plain = ["host", "domain", "service", "name", "vcpu", "released", "unfinished", "missed"]
        plain += ["deadline", "longest", "cpu_share"]
        columns: dict[str, Any] = {
            key: [getattr(task, key) for task in self.tasks] for key in plain
        }
        for index, (percentile, _) in enumerate(self.tasks[0].percentiles if self.tasks else ()):
            upper = [task.percentiles[index][1].upper for task in self.tasks]
            columns[f"p{percentile:g}"] = upper
        return frame(columns)


def simulate(
    description: Union[DescriptionLike, Iterable[Union[Task, str]]],
    duration: Optional[Time] = None,
    *,
    warm_up: Optional[Time] = None,
    seed: Optional[int] = None,
    mode: Optional[str] = None,
    variant: Optional[str] = None,
    percentiles: Iterable[float] = (50, 99),
    duration_ns: Optional[int] = None,
    warm_up_ns: Optional[int] = None,
    schedule: Optional[Time] = None,
    schedule_ns: Optional[int] = None,
) -> Simulation:
    """Plays a description event by event: all domains on all CPUs of its hosts.

    The same file, seed and version give the same answer, bit for bit; it is that of
    ``tailbound simulate``.

    Parameters
    ----------
    description:
        A :class:`Description`, the path of its file (TOML), a :class:`TaskSet`, or a list of tasks,
        which are served rate-monotonically on a CPU of their own.
    duration:
        How much time is simulated and counted; 1000 s if left out.
    warm_up:
        How much is simulated before anything counts.
    seed:
        In place of the description's.
    mode:
        The mode that the system is in; the initial one if left out.
    variant:
        As in this variant of the experiment; as described if left out.
    percentiles:
        Those to tell, in percent.
    schedule:
        The length of a window of the schedule of each CPU, from the end of the warm-up on, that is kept
        with its jobs: :attr:`Simulation.schedules`.

    Raises
    ------
    AnalysisError
        All that is wrong in the file, with line, key and remedy, or why it cannot be simulated.
    """
    told = [float(one) for one in percentiles]
    for one in told:
        if not 0 < one < 100:
            raise refuse(f"percentile {one:g} is none; percentiles lie above 0 and below 100")
    if seed is not None and not 0 <= seed < 2**64:
        raise refuse(f"seed {seed} is none; seeds are whole numbers from 0 to 2^64 - 1")
    length_ns = optional_nanoseconds(duration, duration_ns, "duration")
    before_ns = optional_nanoseconds(warm_up, warm_up_ns, "warm_up") or 0
    window_ns = optional_nanoseconds(schedule, schedule_ns, "schedule")
    hosts, schedules, (chains, topics) = _native.simulate(
        _described(description),
        mode,
        variant,
        seed,
        (
            1_000_000_000_000 if length_ns is None else length_ns,
            before_ns,
        ),
        [one / 100 for one in told],
        None if window_ns is None else (before_ns, before_ns + window_ns),
    )
    return replace(
        _of(hosts, told, tuple(schedule_of(*row) for row in schedules)),
        chains=tuple(simulated_chain(row) for row in chains),
        topics=tuple(simulated_topic(row) for row in topics),
    )


def _described(given: object) -> _native.Description:
    """The description of what is simulated; a list of tasks is served rate-monotonically."""
    if isinstance(given, (list, tuple)):
        given = TaskSet.of(given)
    return description_of(given)



def _of(
    hosts: Sequence[_native._Host],
    percentiles: Sequence[float],
    schedules: tuple[Schedule, ...],
) -> Simulation:
    domains: list[SimulatedDomain] = []
    tasks: list[SimulatedTask] = []
    cpus: list[SimulatedCpu] = []
    assumptions: list[str] = []
    for host, _, of_domains, of_tasks, of_cpus, granted in hosts:
        for name, _, share, depletions, background, growth in of_domains:
            domains.append(SimulatedDomain(host, name, share, depletions, background, growth))
        tasks += [_task(host, row, percentiles) for row in of_tasks]
        cpus += [SimulatedCpu(host, *row) for row in of_cpus]
        assumptions += [f"{host}: {one}" for one in granted]
    seed = hosts[0][1] if hosts else 0
    return Simulation(
        seed, tuple(domains), tuple(tasks), tuple(cpus), tuple(assumptions), schedules
    )


def _task(
    host: str, row: _native._SimulatedTask, percentiles: Sequence[float]
) -> SimulatedTask:
    (domain, service, name, vcpu), (released, unfinished, missed), times, share, answer = row
    deadline_ns, longest_ns, ends = times
    deadline, longest = timedeltas([deadline_ns, longest_ns])

    def interval(end: Optional[tuple[int, Optional[int]]]) -> Interval:
        low, high = (None, None) if end is None else end
        lower, upper = timedeltas([low, high])
        return Interval(lower, upper)

    found = zip(percentiles, (interval(end) for end in ends))
    return SimulatedTask(
        host=host,
        domain=domain,
        service=service,
        name=name,
        vcpu=vcpu,
        released=released,
        unfinished=unfinished,
        missed=missed,
        deadline=deadline,
        longest=longest,
        cpu_share=share,
        percentiles=tuple(found),
        response_times=None if answer is None else Distribution(answer, f"simulated {name}"),
    )
