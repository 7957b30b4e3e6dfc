"""The data set of ``tailbound sample``, as its data package describes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import altair
import matplotlib
import pyarrow.parquet
import pytest

from tailbound import AnalysisError, sampling

matplotlib.use("Agg")

FIELDS = [
    ("measurement", "integer"),
    ("control", "boolean"),
    ("share", "string"),
    ("period", "string"),
    ("service", "string"),
    ("rate_per_second", "number"),
    ("mean_ns", "integer"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data set of two shares and three periods, each measured twice, and of a control point."""
    rows = ["0,true,40,20ms,web,60.5,9000000"]
    for repeat in range(2):
        for share in (20, 40):
            for period in (10, 20, 40):
                mean = (period * 1_000_000 + repeat * 1000) * 40 // share
                rows.append(f"{len(rows)},false,{share},{period}ms,web,60.5,{mean}")
    rows.append(f"{len(rows)},false,20,10ms,web,,")
    header = ",".join(name for name, _ in FIELDS)
    (tmp_path / "points.csv").write_text("\r\n".join([header, *rows]) + "\r\n")
    fields = [{"name": name, "type": kind, "title": f"The {name}"} for name, kind in FIELDS]
    points = {"name": "points", "path": "points.csv", "schema": {"fields": fields}}
    (tmp_path / "datapackage.json").write_text(json.dumps({"resources": [points]}))
    (tmp_path / "answers.json").write_text(json.dumps({"answers": []}))
    (tmp_path / "raw").mkdir()
    raw = "# tailbound distribution 1\nlatency_ns,censored\n100,0\n300,1\n200,0\n"
    (tmp_path / "raw" / "00001-web.csv").write_text(raw)
    return tmp_path


def test_columns_have_the_types_of_the_package(folder: Path) -> None:
    samples = sampling.read(folder)
    assert samples.columns["mean_ns"][0] == 9_000_000
    assert samples.columns["control"][:2] == [True, False]
    assert samples.columns["rate_per_second"][-1] is None
    frame = samples.to_frame()
    assert str(frame["mean_ns"].dtype) == "Int64"
    assert frame["mean_ns"].isna().sum() == 1


def test_parquet_has_the_same_rows_and_says_units(folder: Path) -> None:
    samples = sampling.read(folder)
    table = pyarrow.parquet.read_table(samples.to_parquet())
    assert table.to_pydict() == samples.columns
    assert table.schema.field("mean_ns").metadata[b"unit"] == b"ns"
    assert table.schema.field("share").metadata[b"title"] == b"The share"


def test_latencies_are_those_of_the_raw_file(folder: Path) -> None:
    samples = sampling.read(folder)
    assert samples.latencies(1, "web").tolist() == [100, 200]
    with pytest.raises(AnalysisError, match="measurement 7 has no latencies"):
        samples.latencies(7, "web")


def test_curves_average_repeats_and_leave_control_points_out(folder: Path) -> None:
    samples = sampling.read(folder)
    axes: Any = samples.plot(backend="matplotlib")
    assert len(axes.lines) == 2
    assert list(axes.lines[0].get_xdata()) == [10.0, 20.0, 40.0]
    assert axes.lines[1].get_ydata()[1] == pytest.approx(20.0005)
    one: Any = samples.plot(where={"share": "40"}, by=None, backend="matplotlib")
    assert one.lines[0].get_label() == "all"
    assert isinstance(samples.plot(), altair.LayerChart)


def test_columns_and_folders_that_are_not_there_are_refused(folder: Path, tmp_path: Path) -> None:
    samples = sampling.read(folder)
    with pytest.raises(AnalysisError, match="no column 'users'"):
        samples.plot(x="users")
    with pytest.raises(AnalysisError, match="no measurement has these values"):
        samples.plot(where={"share": "99"})
    with pytest.raises(AnalysisError, match="is no data set"):
        sampling.read(tmp_path / "none")


def test_pictures_of_a_campaign_are_drawn_from_its_columns(folder: Path) -> None:
    answer = {
        "condition": {},
        "share_percent": 40.0,
        "reservations": {"web": {"budget_ns": 8_000_000, "period_ns": 20_000_000}},
    }
    (folder / "answers.json").write_text(json.dumps({"answers": [answer]}))
    samples = sampling.read(folder)
    surface = samples.plot_surface().to_dict()
    cells = next(iter(surface["datasets"].values())) if "datasets" in surface else surface["data"]
    cells = cells["values"] if isinstance(cells, dict) else cells
    assert len(cells) == 6
    assert [cell for cell in cells if cell["chosen"]] == [
        {"x": "20ms", "y": "40", "value": pytest.approx(20.0005), "chosen": True}
    ]
    bars = samples.plot_columns(by="share").to_dict()
    assert bars["mark"]["type"] == "bar" and bars["encoding"]["x"]["sort"] == ["10ms", "20ms", "40ms"]
    axes: Any = samples.plot_latencies(where={"share": "20", "period": "10ms"}, backend="matplotlib")
    assert list(axes.lines[0].get_ydata()) == [0.5, 1.0]
    with pytest.raises(AnalysisError, match="no column 'p95_ns'"):
        samples.plot_intervals(95)


def test_intervals_of_a_percentile_are_a_band(folder: Path) -> None:
    samples = sampling.read(folder)
    rows = len(samples.columns["mean_ns"])
    for name, value in (("p95_ns", 20), ("p95_low_ns", 15), ("p95_high_ns", 30)):
        samples.columns[name] = [value * 1_000_000] * rows
    axes: Any = samples.plot_intervals(95, where={"period": "20ms"}, backend="matplotlib")
    assert [line.get_label() for line in axes.lines] == ["interval", "p95"]
    assert list(axes.lines[0].get_ydata()) == [30.0, 30.0]
    assert list(axes.lines[1].get_xdata()) == [20.0, 40.0]
