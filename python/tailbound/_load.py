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

Service = Union[Time, Mapping[Any, float]]
"""An execution time, or several with their probabilities: ``{"1ms": 0.5, "3ms": 0.5}``, or as on the
command line ``"1ms:0.5,3ms:0.5"``."""

ServiceNs = Union[int, Mapping[int, float]]
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


def service_law(
    service: Optional[Service],
    service_ns: Optional[ServiceNs],
    samples: Optional[Times],
    samples_ns: Optional[Nanoseconds],
) -> list[tuple[int, float]]:
    """Execution times in nanoseconds with their probabilities."""
    ways = [
        given for given in (service, service_ns, samples, samples_ns) if given is not None
    ]
    if len(ways) != 1:
        raise refuse(
            'give one of service="2ms", service={"1ms": 0.5, "3ms": 0.5} and '
            "service_samples=[...], or the same with _ns"
        )
    if samples is not None or samples_ns is not None:
        values, single = many_nanoseconds(samples, samples_ns, "service_samples")
        if single or len(values) < 2:
            raise refuse(
                "fewer than two samples say nothing of their spread; give more, or the constant "
                "as service"
            )
        counted = sorted(Counter(values).items())
        return [(value, count / len(values)) for value, count in counted]
    if isinstance(service, Mapping):
        return [
            (nanoseconds(value, None, "service"), _probability(share, f"service {value!r}"))
            for value, share in service.items()
        ]
    if isinstance(service_ns, Mapping):
        return [
            (nanoseconds(None, value, "service"), _probability(share, f"service_ns {value!r}"))
            for value, share in service_ns.items()
        ]
    if isinstance(service, str):
        try:
            return _native.parse_execution_times(service)
        except AnalysisError as error:
            raise refuse(f"service: {error}") from None
    return [(nanoseconds(service, service_ns, "service"), 1.0)]


def batch_law(batch: Batch) -> list[tuple[int, float]]:
    """Numbers of jobs with their probabilities."""
    if isinstance(batch, Mapping):
        return [
            (count(jobs, "batch", 1), _probability(share, f"a batch of {jobs!r}"))
            for jobs, share in batch.items()
        ]
    return [(count(batch, "batch", 1), 1.0)]
