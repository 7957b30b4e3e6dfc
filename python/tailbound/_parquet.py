"""The rows of a sweep as a Parquet file that says its units."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Optional

from . import _native
from ._optional import need
from ._table import columns_of

SCHEMA_VERSION = 1
"""The version of what the file's metadata says."""


def write_parquet(text: str, path: Path, about: dict[str, int]) -> None:
    """Writes the CSV of a sweep as Parquet, whole or not at all.

    Counts and times are 64-bit integers (seeds without a sign), shares are doubles, the rest are
    texts; empty fields are nulls. The unit of a column is in its metadata, and the file's metadata
    has ``tailbound``: JSON with version and engine, what is in ``about`` and the keys that were varied.
    """
    pyarrow = need("pyarrow", "a sweep into a .parquet file")
    parquet = need("pyarrow.parquet", "a sweep into a .parquet file")
    columns = columns_of(text)
    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    varied = list(columns)[: list(columns).index("seed")]
    fields = []
    for name, column in columns.items():
        kind = pyarrow.uint64() if name == "seed" else types[column.kind]
        fields.append(pyarrow.field(name, kind, metadata=_unit(name)))
    metadata = {
        "tailbound": json.dumps(
            {
                "schema_version": SCHEMA_VERSION,
                "tailbound_version": _native.__version__,
                "engine": _native.ENGINE,
                "varied": varied,
                **about,
            }
        )
    }
    schema = pyarrow.schema(fields, metadata=metadata)
    values: list[Any] = [column.values for column in columns.values()]
    table = pyarrow.table(
        [pyarrow.array(one, type=field.type) for one, field in zip(values, schema)],
        schema=schema,
    )
    partial = path.with_name(path.name + ".partial")
    parquet.write_table(table, partial)
    # What is journalled goes when this returns, so the rows have to be on the disk by then.
    _sync(partial)
    os.replace(partial, path)
    if os.name == "posix":
        _sync(path.parent)


def _sync(path: Path) -> None:
    """Waits until what is at ``path`` is on the disk: a file, or the names in a folder."""
    # Other systems sync only what may be written, and do not open folders.
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unit(name: str) -> Optional[dict[str, str]]:
    if name.endswith("_ns"):
        return {"unit": "ns"}
    if name == "cpu_share":
        return {"unit": "CPUs"}
    return None
