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
from ._sample_campaigns import CampaignPart, sample
from ._sample_pictures import (
    average,
    grouped_columns,
    latency_curves,
    matching_rows,
    need_column,
    quantile_curves,
    surface,
    titled,
)
from ._times import refuse

__all__ = ["CampaignPart", "SampleSet", "read", "sample"]

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

    def plot_latencies(
        self,
        by: str = "share",
        where: Optional[Mapping[str, str]] = None,
        service: Optional[str] = None,
        backend: str = "altair",
        axes: Any = None,
    ) -> Any:
        """The share of requests within a latency, a curve for each value of ``by``, of the first measurement with each
        value and those of ``where``: ``plot_latencies("services.web.users.count", {"share": "40", "period": "60ms"})``.
        """
        need_column(self.columns, by)
        curves: dict[str, Any] = {}
        for row in matching_rows(self.columns, where):
            own = self.columns["service"][row]
            name = f"{by} {self.columns[by][row]}"
            if service in (None, own) and name not in curves:
                curves[name] = self.latencies(self.columns["measurement"][row], own)
        if not curves:
            raise refuse(f"no measurement has service {service!r}")
        return latency_curves(curves, backend, axes)

    def plot_intervals(
        self,
        percentile: float,
        x: str = "share",
        where: Optional[Mapping[str, str]] = None,
        backend: str = "altair",
        axes: Any = None,
    ) -> Any:
        """A percentile of the latency over an axis, with the interval of its measurements as a band; averages of several
        measurements of a point."""
        need_column(self.columns, x)
        rows = matching_rows(self.columns, where)
        prefix = f"p{percentile:g}".replace(".", "_")
        x_title = f"{x} (ms)" if _is_time(self.columns[x]) else x
        titles = (x_title, f"{prefix} of the latency (ms)")
        names = (x, prefix, prefix)
        places = _places(self.columns[x])
        return quantile_curves(self.columns, rows, names, places, titles, backend, axes)

    def plot_surface(
        self,
        value: str = "mean_ns",
        x: str = "period",
        y: str = "share",
        where: Optional[Mapping[str, str]] = None,
    ) -> Any:
        """A column over two axes, a cell for each pair of values that was measured (an ``altair`` chart). A frame
        marks the answer, if it has the values of ``where``."""
        for name in (value, x, y):
            need_column(self.columns, name)
        rows = matching_rows(self.columns, where)
        chosen = self._answers(where)
        groups: dict[tuple[str, str], list[int]] = {}
        for row in rows:
            groups.setdefault((self.columns[x][row], self.columns[y][row]), []).append(row)
        cells: list[dict[str, Any]] = []
        for (at_x, at_y), own in groups.items():
            mean = average(self.columns, own, value)
            if mean is not None:
                is_chosen = {x: at_x, y: at_y} in chosen
                cells.append({"x": at_x, "y": at_y, "value": mean, "chosen": is_chosen})
        orders = (_in_order([one["x"] for one in cells]), _in_order([one["y"] for one in cells]))
        return surface(cells, orders, (x, y, titled(value)))

    def plot_columns(
        self,
        value: str = "mean_ns",
        groups: str = "period",
        columns: str = "share",
        by: Optional[str] = None,
        where: Optional[Mapping[str, str]] = None,
    ) -> Any:
        """A column of the data set as columns of a picture (an ``altair`` chart): a group for each value of ``groups``,
        in it one for each value of ``columns``, in the colour of the value of ``by``."""
        for name in (value, groups, columns, *([by] if by is not None else [])):
            need_column(self.columns, name)
        rows: dict[tuple[str, str, str], list[int]] = {}
        for row in matching_rows(self.columns, where):
            series = "all" if by is None else f"{by} {self.columns[by][row]}"
            key = (self.columns[groups][row], self.columns[columns][row], series)
            rows.setdefault(key, []).append(row)
        bars: list[dict[str, Any]] = []
        for (group, column, series), own in rows.items():
            mean = average(self.columns, own, value)
            if mean is not None:
                name = f"{columns} {column}, {series}"
                bars.append({"x": group, "column": name, "series": series, "value": mean})
        order = _in_order([bar["x"] for bar in bars])
        return grouped_columns(bars, order, (groups, titled(value), columns, by or ""))

    def _answers(self, where: Optional[Mapping[str, str]]) -> list[dict[str, str]]:
        """Share and period of the answers in conditions that have these values."""
        answers = []
        for answer in self.answers.get("answers", []):
            wanted = {key: text for key, text in (where or {}).items() if key in answer["condition"]}
            is_meant = all(answer["condition"][key] == text for key, text in wanted.items())
            reservations = list(answer.get("reservations", {}).values())
            if not is_meant or "share_percent" not in answer or not reservations:
                continue
            period = _native.format_duration(reservations[0]["period_ns"])
            answers.append({"share": f"{answer['share_percent']:g}", "period": period})
        return answers

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


def _in_order(values: list[str]) -> list[str]:
    """The different values in ascending order, or as they come if they are words."""
    different = list(dict.fromkeys(values))
    places = _places(different)
    return sorted(different, key=lambda value: places[value])
