"""Who computes the units of a sweep."""

from __future__ import annotations

import concurrent.futures
import os
from functools import lru_cache
from typing import Any, Callable, Iterator, Literal, Optional, Protocol, Union

from . import _native
from ._optional import need
from ._times import refuse


class Submits(Protocol):
    """A ``concurrent.futures.Executor``, or what behaves like one."""

    def submit(self, fn: Callable[..., Any], /, *arguments: Any) -> Any:
        """Calls the function elsewhere, and returns a future of what it returns."""


Executor = Union[Submits, Literal["ray"]]
"""An executor, the ``distributed.Client`` of a Dask cluster, or ``"ray"``."""

Rows = list[tuple[int, str]]
"""Units and their rows."""

MOST_PIECES = 4_096
"""Pieces of work are as small as a unit, unless there would be more than these."""


def finished_units(
    planned: _native.Sweep, units: list[int], executor: Optional[Executor]
) -> Iterator[tuple[int, str]]:
    """The units with their rows, as they are finished. Whoever stops listening stops the work."""
    size = max(1, -(-len(units) // MOST_PIECES))
    pieces = [units[start : start + size] for start in range(0, len(units), size)]
    for rows in _finished(planned, pieces, executor):
        yield from rows


def _finished(
    planned: _native.Sweep, pieces: list[list[int]], executor: Optional[Executor]
) -> Iterator[Rows]:
    if executor is None:
        with concurrent.futures.ThreadPoolExecutor(_cores()) as threads:
            # Simulations run without the interpreter's lock, so threads use all cores.
            yield from _by_futures(threads, lambda units: _rows_of(planned, units), pieces)
    elif executor == "ray":
        yield from _by_ray(planned.to_parcel(), pieces)
    elif _is_of_dask(executor, "Client"):
        client: Any = executor
        # Each worker gets the parcel once.
        parcel = client.scatter(planned.to_parcel(), broadcast=True)
        yield from _by_futures(client.get_executor(), rows_of_parcel, pieces, parcel)
    elif _is_of_dask(executor, "Cluster"):
        raise refuse(
            f"{executor!r} is a cluster, and work goes to one through a client; "
            "give distributed.Client(cluster)"
        )
    elif hasattr(executor, "submit"):
        yield from _by_futures(executor, rows_of_parcel, pieces, planned.to_parcel())
    else:
        raise refuse(
            f"{executor!r} computes nothing; give a concurrent.futures.Executor, a Dask Client or "
            '"ray", or leave it out for all cores of this machine'
        )


def _is_of_dask(executor: object, name: str) -> bool:
    """Whether it is of that class of Dask's scheduler, or of one derived from it; without importing
    Dask, which has other classes as well: its executors are plain ones."""
    classes = type(executor).__mro__
    return any(
        one.__name__ == name and one.__module__.split(".")[0] == "distributed" for one in classes
    )


def _by_futures(
    executor: Any, function: Callable[..., Rows], pieces: list[list[int]], *before: Any
) -> Iterator[Rows]:
    futures = [executor.submit(function, *before, piece) for piece in pieces]
    try:
        for future in concurrent.futures.as_completed(futures):
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


def _by_ray(parcel: bytes, pieces: list[list[int]]) -> Iterator[Rows]:
    ray = need("ray", 'executor="ray"')
    if not ray.is_initialized():
        ray.init()
    held = ray.put(parcel)
    remote = ray.remote(rows_of_parcel)
    waiting = [remote.remote(held, piece) for piece in pieces]
    try:
        while waiting:
            finished, waiting = ray.wait(waiting)
            for one in finished:
                yield ray.get(one)
    finally:
        for one in waiting:
            ray.cancel(one)


def rows_of_parcel(parcel: bytes, units: list[int]) -> Rows:
    """The rows of some units of a packed sweep: what workers are asked for."""
    return _rows_of(_unpacked(parcel), units)


@lru_cache(maxsize=4)
def _unpacked(parcel: bytes) -> _native.Sweep:
    return _native.Sweep.from_parcel(parcel)


def _rows_of(planned: _native.Sweep, units: list[int]) -> Rows:
    return [(unit, planned.rows(unit)) for unit in units]


def _cores() -> int:
    """The CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
