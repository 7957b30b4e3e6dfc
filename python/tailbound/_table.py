"""The rows of a sweep as typed columns."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any, Union

_COUNTS = {"seed", "jobs", "unfinished", "misses", "depletions"}
_SHARES = {"cpu_share"}


@dataclass(frozen=True)
class Column:
    """A column."""

    kind: Union[type[str], type[int], type[float]]
    """What its values are: texts, whole numbers, or shares."""
    values: list[Any]
    """The values; ``None`` for an empty field."""


Columns = dict[str, Column]
"""Columns by name, in their order."""


def columns_of(text: str) -> Columns:
    """The columns of a CSV as ``tailbound sweep`` writes it. Those in front, of the keys that are
    varied, are texts: values as a description spells them."""
    rows = list(csv.reader(io.StringIO(text, newline="")))
    header = rows[0]
    own = header.index("seed")
    columns: Columns = {}
    for index, name in enumerate(header):
        fields = [row[index] for row in rows[1:]]
        if index < own:
            columns[name] = Column(str, fields)
            continue
        kind = _kind(name)
        columns[name] = Column(kind, [kind(field) if field else None for field in fields])
    return columns


def _kind(name: str) -> Union[type[str], type[int], type[float]]:
    if name in _COUNTS or name.endswith("_ns"):
        return int
    return float if name in _SHARES else str
