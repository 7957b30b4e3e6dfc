"""Questions about a description: predictions, sizes, schedulability."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Iterator, Optional, Sequence, Union

import numpy as np

from . import _native
from ._native import AnalysisError, Description
from ._optional import frame
from ._response import TOLD, Distribution, ResponseTimes
from ._task_set import TaskSet
from ._times import ByValue, refuse, timedeltas

DescriptionLike = Union[Description, TaskSet, str, "os.PathLike[str]"]
"""A :class:`Description`, the path of its file (TOML), or a :class:`TaskSet`."""


def is_description(given: object) -> bool:
    """Whether it stands for a whole system rather than for tasks or the load of a queue."""
    if isinstance(given, str):
        try:
            _native.parse_task(given)
        except AnalysisError:
            return True
        return False
    return isinstance(given, (Description, os.PathLike))


def description_of(given: object) -> Description:
    """The description that something stands for."""
    if isinstance(given, Description):
        return given
    if isinstance(given, TaskSet):
        return Description.parse(given.description)
    if isinstance(given, (str, os.PathLike)):
        return Description.load(given)
    raise refuse(
        f"a description is not {given!r}; give a Description, the path of a file, or a TaskSet"
    )


@dataclass(frozen=True, eq=False)
class PromiseOutlook(ByValue):
    """Whether a predicted service keeps a promise."""

    percentile: float
    latency: np.timedelta64
    task: Optional[str]
    """The task of the promise; ``None`` for all tasks of the service."""
    outlook: str
    """``"kept"``, ``"missed"``, ``"undecided"`` or ``"not predicted"``."""


@dataclass(frozen=True)
class ServicePrediction:
    """The prediction for a service in a variant of the experiment."""

    service: str
    variant: str
    source: str
    """What was known of the execution times."""
    refused: Optional[str]
    """Why there is no prediction."""
    promises: tuple[PromiseOutlook, ...]
    """The promises of the service; none where execution times were reduced to one value."""
    response_times: Optional[ResponseTimes] = field(compare=False, repr=False)
    """The response times; ``None`` where there is no prediction."""


@dataclass(frozen=True, eq=False)
class ChainTime(ByValue):
    """A time of a chain: its data age, that at the output, or its reaction time."""

    name: str
    """``"data age"``, ``"data age at the output"`` or ``"reaction time"``."""
    limit: np.timedelta64
    """The longest time that is allowed; ``NaT`` if there is none."""
    within_limit: Optional[float]
    """The share of all times within the limit; ``None`` without one."""
    distribution: Distribution = field(compare=False, repr=False)
    """The distribution, to compare predicted, simulated and measured ones."""


@dataclass(frozen=True)
class ChainPrediction:
    """The prediction for a chain in a variant of the experiment."""

    chain: str
    variant: str
    refused: Optional[str]
    """Why there is no prediction."""
    times: tuple[ChainTime, ...]
    """The data age, the data age at the output, and the reaction time; none where there is no
    prediction."""


@dataclass(frozen=True)
class Predictions:
    """The predictions for a description, made by :func:`predict`: a sequence of
    :class:`ServicePrediction`, and one of each chain."""

    answers: tuple[ServicePrediction, ...]
    """One per service, variant, and what was known of the execution times."""
    probabilities: tuple[float, ...]
    """The probabilities at which the bounds are as sharp as the methods allow."""
    chains: tuple[ChainPrediction, ...] = ()
    """One per chain and variant; none where one service was asked for."""

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[ServicePrediction]:
        return iter(self.answers)

    def __getitem__(self, index: int) -> ServicePrediction:
        return self.answers[index]

    def to_frame(self) -> Any:
        """A ``pandas.DataFrame`` with a row for each answer; of quantiles the upper ends."""
        columns: dict[str, Any] = {
            key: [getattr(one, key) for one in self.answers]
            for key in ("service", "variant", "source", "refused")
        }
        for p in self.probabilities:
            columns[f"p{p * 100:g}"] = [_upper(one.response_times, p) for one in self.answers]
        return frame(columns)


def _upper(found: Optional[Distribution], p: float) -> np.timedelta64:
    upper: np.timedelta64 = (
        np.timedelta64("NaT", "ns") if found is None else found.quantile(p).upper
    )
    return upper


def predict_description(
    given: object,
    service: Optional[str],
    variant: Optional[str],
    probabilities: Optional[Sequence[float]],
) -> Predictions:
    """What :func:`tailbound.predict` answers for a description."""
    sharp = TOLD if probabilities is None else tuple(float(one) for one in probabilities)
    for one in sharp:
        if not 0.0 < one < 1.0:
            raise refuse(f"a quantile's probability is {one:g}; choose one in (0, 1)")
    rows = _native.predict_description(description_of(given), service, variant, list(sharp))
    answers = tuple(
        ServicePrediction(
            name,
            of,
            source,
            why,
            tuple(
                PromiseOutlook(percentile, np.timedelta64(latency_ns, "ns"), task, outlook)
                for percentile, latency_ns, task, outlook in promises
            ),
            None if answer is None else ResponseTimes(answer, f"{name} in {of}"),
        )
        for name, of, source, why, promises, answer in rows
    )
    chains = _native.predict_chains(description_of(given), variant) if service is None else []
    return Predictions(answers, tuple(sharp), tuple(_chain(*row) for row in chains))


def _chain(
    chain: str,
    variant: str,
    refused: Optional[str],
    times: Sequence[tuple[str, Optional[int], Optional[float], _native.Answer]],
) -> ChainPrediction:
    limits = timedeltas([limit_ns for _, limit_ns, _, _ in times])
    predicted = tuple(
        ChainTime(name, limit, within, Distribution(answer, f"{name} of {chain} in {variant}"))
        for (name, _, within, answer), limit in zip(times, limits)
    )
    return ChainPrediction(chain, variant, refused, predicted)


@dataclass(frozen=True, eq=False)
class TaskVerdict(ByValue):
    """Whether the jobs of a task are in time in a mode."""

    domain: str
    service: Optional[str]
    """Its service; ``None`` for a task of the domain itself."""
    task: str
    deadline: np.timedelta64
    """By when a job is to be done; ``NaT`` if there is none."""
    response_bound: np.timedelta64
    """No job takes longer; ``NaT`` if there is no bound."""
    verdict: str
    """``"met"``, ``"missed"``, ``"undecided"`` or ``"no-deadline"``."""
    why: Optional[str]
    """Why not, or why nothing can be said."""
    method: Optional[str]
    """By what it was decided."""


@dataclass(frozen=True)
class CpuVerdict:
    """Whether a CPU holds its reservations in a mode."""

    host: str
    cpu: int
    domains: tuple[str, ...]
    load: float
    """The sum of the guaranteed bandwidths."""
    admitted: bool
    failures: tuple[str, ...]
    """Which reservations do not get their budgets, and why."""
    method: str


@dataclass(frozen=True, eq=False)
class ChainVerdict(ByValue):
    """Whether a chain keeps its data age and its reaction time in a mode."""

    chain: str
    mode: Optional[str]
    """The mode, where the description has modes."""
    data_age: np.timedelta64
    """The longest data age that is allowed; ``NaT`` if there is none."""
    reaction_time: np.timedelta64
    """The longest reaction time that is allowed; ``NaT`` if there is none."""
    bound: np.timedelta64
    """The data age is no longer; ``NaT`` where nothing bounds it."""
    reaction_bound: np.timedelta64
    """The reaction time is no longer: ``bound``, but where messages of other publishers may displace
    those of the chain; ``NaT`` where nothing bounds it."""
    parts: tuple[tuple[str, str, np.timedelta64], ...]
    """The parts of the bound in the order of the chain, which add up to it: ``"wait"``,
    ``"response"`` or ``"transport"``, the task or topic, and the length."""
    verdict: str
    """``"met"``, ``"missed"``, ``"undecided"`` or ``"no-deadline"``."""
    why: Optional[str]
    """Why not, or why nothing can be said."""
    methods: tuple[str, ...]
    """The theorems by which the bound holds."""


@dataclass(frozen=True)
class ModeVerdict:
    """The answer for one mode."""

    mode: Optional[str]
    """The mode, where the description has modes."""
    schedulable: bool
    tasks: tuple[TaskVerdict, ...]
    cpus: tuple[CpuVerdict, ...]


@dataclass(frozen=True)
class Analysis:
    """Whether a description keeps all deadlines, made by :func:`analyze`."""

    schedulable: bool
    """Whether every deadline is shown to be met, every CPU holds its reservations, and every change
    of mode keeps what its protocol promises."""
    modes: tuple[ModeVerdict, ...]
    objections: tuple[str, ...]
    """Everything that stands against it, in words."""
    chains: tuple[ChainVerdict, ...]
    """The answer for each chain in each mode."""
    document: dict[str, Any] = field(compare=False, repr=False)
    """The JSON document of ``tailbound analyze --format json``, without its versions."""

    def __bool__(self) -> bool:
        return self.schedulable

    def to_frame(self) -> Any:
        """A ``pandas.DataFrame`` with a row for each task in each mode."""
        rows = [(mode.mode, task) for mode in self.modes for task in mode.tasks]
        columns: dict[str, Any] = {"mode": [mode for mode, _ in rows]}
        keys = ("domain", "service", "task", "deadline", "response_bound", "verdict", "why")
        columns.update({key: [getattr(task, key) for _, task in rows] for key in keys})
        return frame(columns)


def analyze_description(given: object) -> Analysis:
    """What :func:`tailbound.analyze` answers for a description."""
    text, objections = _native.analyze_description(description_of(given))
    document = json.loads(text)
    modes = tuple(_mode(mode) for mode in document["modes"])
    chains = tuple(_chain_verdict(chain) for chain in document.get("chains", []))
    return Analysis(document["schedulable"], modes, tuple(objections), chains, document)


def _chain_verdict(chain: dict[str, Any]) -> ChainVerdict:
    answer = chain.get("answer") or {"bound_ns": None, "parts": [], "methods": []}
    displaced = chain.get("displaced", answer)
    data_age, reaction_time = timedeltas([chain["data_age_ns"], chain["reaction_time_ns"]])
    bound, reaction_bound = timedeltas([answer["bound_ns"], displaced["bound_ns"]])
    lengths = timedeltas([part["length_ns"] for part in answer["parts"]])
    return ChainVerdict(
        chain=chain["chain"],
        mode=chain["mode"],
        data_age=data_age,
        reaction_time=reaction_time,
        bound=bound,
        reaction_bound=reaction_bound,
        parts=tuple(
            (part["kind"], part["at"], length)
            for part, length in zip(answer["parts"], lengths)
        ),
        verdict=chain["verdict"],
        why=chain["why"],
        methods=tuple(answer["methods"]),
    )


def _mode(mode: dict[str, Any]) -> ModeVerdict:
    cpus = tuple(
        CpuVerdict(
            host=cpu["host"],
            cpu=cpu["cpu"],
            domains=tuple(cpu["domains"]),
            load=cpu["load"],
            admitted=cpu["admitted"],
            failures=tuple(cpu["failures"]),
            method=cpu["method"],
        )
        for cpu in mode["cpus"]
    )
    tasks = tuple(_task(task) for task in mode["tasks"])
    return ModeVerdict(mode["mode"], mode["schedulable"], tasks, cpus)


def _task(task: dict[str, Any]) -> TaskVerdict:
    deadline, bound = timedeltas([task["deadline_ns"], task["response_bound_ns"]])
    return TaskVerdict(
        domain=task["domain"],
        service=task["service"],
        task=task["task"],
        deadline=deadline,
        response_bound=bound,
        verdict=task["verdict"],
        why=task["why"],
        method=task["method"],
    )
