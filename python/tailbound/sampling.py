"""The data set of ``tailbound sample``: its measurements as columns, a frame or Parquet, and its pictures.

::

    from tailbound import sampling

    samples = sampling.read("out/shop-samples")
    samples.to_frame()
    samples.plot("deviation_ns", x="period", by="share", where={"services.web.users.count": "90"})

A measurement of a point is a row for each service. Times are whole nanoseconds in columns that end in
``_ns``; the axes are texts, as the description spells their values.
"""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _native
from ._native import AnalysisError
from ._optional import need
from ._plots import Curve, Picture
from ._times import refuse

__all__ = ["SampleSet", "read"]

_READERS: dict[str, Callable[[str], Any]] = {
    "integer": int,
    "number": float,
    "boolean": lambda text: text == "true",
    "string": str,
    "datetime": str,
}

_FRAME_TYPES = {
    "integer": "Int64",
    "number": "Float64",
    "boolean": "boolean",
    "string": "string",
    "datetime": "string",
}


@dataclass(frozen=True)
class SampleSet:
    """The data set in a folder."""

    folder: Path
    """The folder of the campaign."""
    columns: dict[str, list[Any]] = field(repr=False)
    """The columns of ``points.csv`` by name; ``None`` for an empty field."""
    types: dict[str, str] = field(repr=False)
    """The type of each column, in the words of the data package."""
    titles: dict[str, str] = field(repr=False)
    """The meaning of each column."""
    answers: dict[str, Any] = field(repr=False)
    """The document ``answers.json``."""

    def to_frame(self) -> Any:
        """The measurements as a ``pandas.DataFrame``."""
        pandas = need("pandas", "to_frame()")
        series = {
            name: pandas.array(values, dtype=_FRAME_TYPES[self.types[name]])
            for name, values in self.columns.items()
        }
        return pandas.DataFrame(series)

    def to_parquet(self, path: Optional[Union[str, "os.PathLike[str]"]] = None) -> Path:
        """Writes the measurements as Parquet, ``points.parquet`` in the folder unless ``path`` says
        another file. The meaning of each column is in its metadata."""
        pyarrow = need("pyarrow", "to_parquet()")
        parquet = need("pyarrow.parquet", "to_parquet()")
        kinds = {
            "integer": pyarrow.int64(),
            "number": pyarrow.float64(),
            "boolean": pyarrow.bool_(),
            "string": pyarrow.string(),
            "datetime": pyarrow.string(),
        }
        fields = [
            pyarrow.field(name, kinds[self.types[name]], metadata=self._metadata(name))
            for name in self.columns
        ]
        metadata = {"tailbound": json.dumps({"tailbound_version": _native.__version__})}
        schema = pyarrow.schema(fields, metadata=metadata)
        arrays = [
            pyarrow.array(values, type=one.type)
            for values, one in zip(self.columns.values(), fields)
        ]
        out = self.folder / "points.parquet" if path is None else Path(path)
        partial = out.with_name(out.name + ".partial")
        parquet.write_table(pyarrow.table(arrays, schema=schema), partial)
        os.replace(partial, out)
        return out

    def latencies(self, measurement: int, service: str) -> "npt.NDArray[np.int64]":
        """The latencies of a measurement in nanoseconds. Those of requests without an answer are left out."""
        path = self.folder / "raw" / f"{measurement:05}-{service}.csv"
        if not path.is_file():
            raise refuse(
                f"measurement {measurement} has no latencies of service {service!r}; "
                "see the columns measurement and service"
            )
        values = []
        with path.open(newline="") as lines:
            rows = csv.reader(line for line in lines if not line.startswith("#"))
            next(rows)
            for row in rows:
                if len(row) == 1 or row[1] == "0":
                    values.append(int(row[0]))
        return np.array(values, dtype=np.int64)

    def plot(
        self,
        y: str = "mean_ns",
        x: str = "period",
        by: Optional[str] = "share",
        where: Optional[Mapping[str, str]] = None,
        backend: str = "altair",
        axes: Any = None,
    ) -> Any:
        """A column over an axis, a curve for each value of ``by``, of the measurements with the values of
        ``where``. Several measurements of a point are averaged; control points are left out.

        Standard deviation over the period for each share is ``plot("deviation_ns")``, the mean at one share
        ``plot("mean_ns", where={"share": "40"})``.
        """
        wanted = dict(where or {})
        for name in [y, x, *([by] if by is not None else []), *wanted]:
            if name not in self.columns:
                names = ", ".join(self.columns)
                raise refuse(f"there is no column {name!r}; the data set has {names}")
        places = _places(self.columns[x])
        sums: dict[str, dict[float, list[float]]] = {}
        for row in range(len(self.columns[y])):
            value = self.columns[y][row]
            is_wanted = all(self.columns[name][row] == text for name, text in wanted.items())
            if value is None or not is_wanted or self.columns["control"][row]:
                continue
            curve = "all" if by is None else f"{by} {self.columns[by][row]}"
            own = sums.setdefault(curve, {})
            own.setdefault(places[self.columns[x][row]], []).append(float(value))
        if not sums:
            raise refuse("no measurement has these values; leave some out of where")
        curves = []
        for name, values in sums.items():
            order = sorted(values)
            means = np.array([np.mean(values[place]) for place in order])
            scale = 1e-6 if y.endswith("_ns") else 1.0
            curves.append(Curve(name, np.array(order), means * scale))
        y_title = f"{y[:-3]} (ms)" if y.endswith("_ns") else y
        x_title = f"{x} (ms)" if _is_time(self.columns[x]) else x
        return Picture(x_title, y_title, tuple(curves)).draw(backend, axes)

    def _metadata(self, name: str) -> dict[str, str]:
        metadata = {"title": self.titles[name]}
        if name.endswith("_ns"):
            metadata["unit"] = "ns"
        return metadata


def read(folder: Union[str, "os.PathLike[str]"]) -> SampleSet:
    """Reads the data set that ``tailbound sample`` left in a folder, as its data package describes it."""
    path = Path(folder)
    try:
        package = json.loads((path / "datapackage.json").read_text())
        answers = json.loads((path / "answers.json").read_text())
    except (OSError, ValueError) as error:
        raise refuse(f"{path} is no data set of tailbound sample: {error}") from None
    points = next(one for one in package["resources"] if one["name"] == "points")
    fields = points["schema"]["fields"]
    types = {one["name"]: one["type"] for one in fields}
    columns: dict[str, list[Any]] = {name: [] for name in types}
    with (path / points["path"]).open(newline="") as lines:
        for row in csv.DictReader(lines):
            for name, kind in types.items():
                text = row[name]
                columns[name].append(_READERS[kind](text) if text != "" else None)
    titles = {one["name"]: one["title"] for one in fields}
    return SampleSet(path, columns, types, titles, answers)


def _milliseconds(text: str) -> Optional[float]:
    """A time as milliseconds; ``None`` for other texts."""
    try:
        nanoseconds: int = _native.parse_duration(text)
    except AnalysisError:
        return None
    return nanoseconds / 1e6


def _is_time(values: list[Any]) -> bool:
    return all(isinstance(value, str) and _milliseconds(value) is not None for value in values)


def _places(values: list[Any]) -> dict[Any, float]:
    """The place of each value on an axis: its milliseconds or its number, or else its turn."""
    if _is_time(values):
        return {value: _milliseconds(value) or 0.0 for value in values}
    try:
        return {value: float(value) for value in values}
    except (TypeError, ValueError):
        order = list(dict.fromkeys(values))
        return {value: float(place) for place, value in enumerate(order)}
