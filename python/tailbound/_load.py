"""The load of a queue as arguments: execution times, batches."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Mapping, Optional, Union

from . import _native
from ._native import AnalysisError
from ._times import (
    Nanoseconds,
    Time,
    Times,
    count,
    many_nanoseconds,
    nanoseconds,
    refuse,
)

ExecutionTime = Union[Time, Mapping[Any, float]]
"""An execution time, or several with their probabilities: ``{"1ms": 0.5, "3ms": 0.5}``, or as on the
command line ``"1ms:0.5,3ms:0.5"``, or a law: ``"exponential:mean=2ms"``,
``"lognormal:median=2ms,p99=9ms"`` or ``"uniform:min=1ms,max=3ms"``, each with ``min=`` and ``max=``."""

ExecutionTimeNs = Union[int, Mapping[int, float]]
"""The same in nanoseconds."""

Batch = Union[int, Mapping[int, float]]
"""How many jobs come at a time, or several such numbers with their probabilities."""


def _probability(value: object, of: str) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise refuse(f"{value!r} is no probability of {of}; give a number up to 1") from None
    if not (math.isfinite(number) and 0.0 < number <= 1.0):
        raise refuse(f"the probability of {of} is {number}; it must be above 0 and at most 1")
    return number


def execution_time_law(
    execution_time: Optional[ExecutionTime],
    execution_time_ns: Optional[ExecutionTimeNs],
    samples: Optional[Times],
    samples_ns: Optional[Nanoseconds],
) -> Union[list[tuple[int, float]], str]:
    """Execution times in nanoseconds with their probabilities, or the text of a law."""
    ways = (execution_time, execution_time_ns, samples, samples_ns)
    if sum(way is not None for way in ways) != 1:
        raise refuse(
            'give one of execution_time="2ms", execution_time={"1ms": 0.5, "3ms": 0.5} and '
            "execution_time_samples=[...], or the same with _ns"
        )
    if samples is not None or samples_ns is not None:
        values, single = many_nanoseconds(samples, samples_ns, "execution_time_samples")
        if single or len(values) < 2:
            raise refuse(
                "fewer than two samples say nothing of their spread; give more, or the constant "
                "as execution_time"
            )
        counted = sorted(Counter(values).items())
        return [(value, count / len(values)) for value, count in counted]
    if isinstance(execution_time, Mapping):
        return [
            (
                nanoseconds(value, None, "execution_time"),
                _probability(share, f"execution_time {value!r}"),
            )
            for value, share in execution_time.items()
        ]
    if isinstance(execution_time_ns, Mapping):
        return [
            (
                nanoseconds(None, value, "execution_time"),
                _probability(share, f"execution_time_ns {value!r}"),
            )
            for value, share in execution_time_ns.items()
        ]
    if isinstance(execution_time, str):
        try:
            values_ns = _native.parse_execution_times(execution_time)
            return execution_time if values_ns is None else values_ns
        except AnalysisError as error:
            raise refuse(f"execution_time: {error}") from None
    return [(nanoseconds(execution_time, execution_time_ns, "execution_time"), 1.0)]


def batch_law(batch: Batch) -> list[tuple[int, float]]:
    """Numbers of jobs with their probabilities."""
    if isinstance(batch, Mapping):
        return [
            (count(jobs, "batch", 1), _probability(share, f"a batch of {jobs!r}"))
            for jobs, share in batch.items()
        ]
    return [(count(batch, "batch", 1), 1.0)]
