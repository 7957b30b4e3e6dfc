"""Many simulations of one description, on this machine or on others."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import numpy as np

from . import _native
from ._description import DescriptionLike, description_of
from ._executors import Executor, finished_units
from ._optional import need
from ._parquet import write_parquet
from ._progress import progress_on_terminal
from ._table import columns_of
from ._times import Time, count, nanoseconds, optional_nanoseconds, refuse

Value = Union[str, bool, int, float, datetime.timedelta, "np.timedelta64"]
"""A value of a key; a time is a text with a unit or a ``timedelta``."""

Values = Union[str, Sequence[Value]]
"""The values of a key: a list, or as on the command line ``"1ms,2ms"`` or ``"1ms..3ms/1ms"``."""

Progress = Callable[[int, int], None]
"""Hears how many simulations are done, and of how many."""


@dataclass(frozen=True)
class SweepResult:
    """The answer of :func:`sweep`: a row for each domain, each task and each service as a whole,
    and two for each chain (``time``: ``data-age`` and ``reaction-time``), at each point with each
    seed."""

    csv: str = field(repr=False)
    """The rows as CSV: the bytes of ``tailbound sweep --out``."""
    path: Optional[Path]
    """The file that was written."""

    def to_columns(self) -> dict[str, list[Any]]:
        """The columns by name: lists of texts, whole numbers and shares, ``None`` where a field is
        empty."""
        return {name: column.values for name, column in columns_of(self.csv).items()}

    def to_frame(self) -> Any:
        """The rows as a ``pandas.DataFrame``. Times are whole nanoseconds in columns that end in
        ``_ns``; empty fields are missing values."""
        pandas = need("pandas", "to_frame()")
        columns = columns_of(self.csv)
        kinds = {str: "string", int: "Int64", float: "Float64"}
        series = {
            name: pandas.array(column.values, dtype=_dtype(name, kinds[column.kind]))
            for name, column in columns.items()
        }
        return pandas.DataFrame(series)

    def to_csv(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the CSV into a file."""
        Path(path).write_bytes(self.csv.encode())


def _dtype(name: str, kind: str) -> str:
    # Seeds go to 2^64 - 1.
    return "UInt64" if name == "seed" else kind


def sweep(
    description: DescriptionLike,
    vary: Mapping[str, Values],
    *,
    seeds: int = 1,
    duration: Optional[Time] = None,
    warm_up: Optional[Time] = None,
    mode: Optional[str] = None,
    variant: Optional[str] = None,
    executor: Optional[Executor] = None,
    out: Optional[Union[str, "os.PathLike[str]"]] = None,
    progress: Optional[Progress] = None,
    duration_ns: Optional[int] = None,
    warm_up_ns: Optional[int] = None,
) -> SweepResult:
    """Simulates a description with some of its keys varied: each point with each seed.

    The same description, question and version give the same rows, byte for byte, whoever computes
    them; they are those of ``tailbound sweep``. Every point is checked before any is simulated.

    Parameters
    ----------
    description:
        A :class:`Description`, the path of its file (TOML), or a :class:`TaskSet`.
    vary:
        The values of each key, such as ``{"domains.cache.reservation.budget": ["4ms", "6ms"]}``;
        several keys make a product, of which the last one varies fastest.
    seeds:
        How many seeds each point is simulated with: the description's, and those that follow it.
    duration:
        How much time is simulated and counted; 100 s if left out.
    warm_up:
        How much is simulated before anything counts.
    mode:
        The mode that the system is in; the initial one if left out.
    variant:
        As in this variant of the experiment; as described if left out.
    executor:
        Who computes: all cores of this machine if left out; a ``concurrent.futures.Executor``; the
        ``distributed.Client`` of a Dask cluster; or ``"ray"`` for the Ray cluster that this process
        is connected to (one on this machine, if it is to none). Workers need this version of the
        package (of its engine, too), and neither the description nor the files that it names.
    out:
        A file for the rows: CSV, or Parquet if it ends in ``.parquet``. What is finished is kept in
        ``out.journal``; after an interruption the same call goes on from there, and so does
        ``tailbound sweep`` for a CSV.
    progress:
        Hears how many simulations are done, and of how many; a bar on standard error if left out,
        where that is a terminal.

    Raises
    ------
    AnalysisError
        All that is wrong with the description, a key or a point; the journal of another sweep.
    """
    given_ns = optional_nanoseconds(duration, duration_ns, "duration")
    length_ns = 100_000_000_000 if given_ns is None else given_ns
    before_ns = optional_nanoseconds(warm_up, warm_up_ns, "warm_up") or 0
    planned = _native.Sweep.plan(
        description_of(description),
        [(key, _values(key, values)) for key, values in vary.items()],
        count(seeds, "seeds", 1),
        (length_ns, before_ns),
        mode,
        variant,
    )
    target = None if out is None else Path(out)
    if target is not None and target.suffix == ".parquet":
        # Before hours of simulation rather than after them.
        need("pyarrow", "a sweep into a .parquet file")
    listener = progress_on_terminal() if progress is None else progress
    if target is None:
        return SweepResult(_in_memory(planned, executor, listener), None)
    collection = _native.Collection.open(planned, os.fspath(target))
    try:
        missing = collection.missing()
        done = planned.units - len(missing)
        listener(done, planned.units)
        for unit, rows in finished_units(planned, missing, executor):
            collection.add(unit, rows)
            done += 1
            listener(done, planned.units)
        text = collection.text()
        if target.suffix == ".parquet":
            about = {"duration_ns": length_ns, "warm_up_ns": before_ns}
            write_parquet(text, target, about)
            collection.close()
        else:
            collection.write()
        return SweepResult(text, target)
    finally:
        collection.leave()


def _in_memory(
    planned: _native.Sweep, executor: Optional[Executor], listener: Progress
) -> str:
    found: dict[int, str] = {}
    listener(0, planned.units)
    for unit, rows in finished_units(planned, list(range(planned.units)), executor):
        found[unit] = rows
        listener(len(found), planned.units)
    return planned.header + "".join(rows for _, rows in sorted(found.items()))


def _values(key: str, values: Values) -> Union[str, list[str]]:
    if isinstance(values, str):
        return values
    return [_spelled(key, value) for value in values]


def _spelled(key: str, value: object) -> str:
    """A value as a description spells it."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (datetime.timedelta, np.timedelta64)):
        return _native.format_duration(nanoseconds(value, None, key))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)) and np.isfinite(value):
        return repr(float(value))
    raise refuse(
        f"{key} takes texts, numbers, truth values and timedeltas, not {value!r}; "
        'a time is a text with a unit, such as "5ms"'
    )
