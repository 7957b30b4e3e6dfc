"""Plots by either backend, and what happens where a package is missing."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
from typing import Any

import altair
import matplotlib
import numpy as np
import pytest

import tailbound
from tailbound import Task

matplotlib.use("Agg")

BASE: dict[str, Any] = {"rate": "0.4/s", "execution_time": "1s", "budget": "1.2s", "period": "2s"}


@functools.lru_cache(maxsize=1)
def results() -> dict[str, Any]:
    found = tailbound.predict(**BASE)
    own = tailbound.predict(rate="0.4/s", execution_time="1s", server="dedicated")
    tasks = [Task("4ms", "20ms"), Task("6ms", "30ms")]
    return {
        "response times": found,
        "comparison": found.compare(own, steps=100),
        "comparison with samples": found.compare(own.quantile([0.2, 0.5, 0.9]).upper, steps=100),
        "sizing": tailbound.size(
            rate="0.4/s", execution_time="1s", slo={0.9: "3s"}, periods=["2s", "4s"]
        ),
        "bandwidth curve": tailbound.bandwidth_curve(tasks, ["60ms", "20ms", "40ms"]),
    }


@pytest.mark.parametrize("what", results())
def test_both_backends_draw_the_same_points(what: str) -> None:
    result = results()[what]
    chart = result.plot("altair")
    specification = chart.to_dict()
    assert isinstance(chart, altair.LayerChart)
    layers = [
        layer for layer in specification["layer"] if layer["mark"]["type"] in ("line", "point")
    ]
    axes = result.plot("matplotlib")
    assert len(axes.get_lines()) == len(layers)
    assert axes.get_xlabel() == layers[0]["encoding"]["x"]["title"]
    for line, layer in zip(axes.get_lines(), layers):
        values = layer.get("data", specification.get("data"))["values"]
        assert np.allclose(line.get_xdata(), [one["x"] for one in values])
        assert np.allclose(line.get_ydata(), [one["y"] for one in values])


def test_a_curve_rises_from_nothing_to_what_was_asked() -> None:
    axes = tailbound.predict(**BASE).plot("matplotlib", up_to=0.99)
    (line,) = axes.get_lines()
    assert axes.get_xlabel() == "response time in s"
    assert line.get_ydata()[0] == 0.0
    assert line.get_ydata()[-1] == pytest.approx(0.99, abs=1e-3)
    assert np.all(np.diff(line.get_ydata()) >= -1e-9)


def test_given_axes_are_used() -> None:
    axes = tailbound.predict(**BASE).plot("matplotlib")
    again = tailbound.predict(**BASE).plot("matplotlib", axes=axes, name="again")
    assert again is axes
    assert [text.get_text() for text in axes.get_legend().get_texts()][1] == "again"


def test_there_is_no_other_backend() -> None:
    with pytest.raises(tailbound.AnalysisError, match="no backend 'plotly'"):
        tailbound.predict(**BASE).plot("plotly")  # type: ignore[arg-type]
    with pytest.raises(tailbound.AnalysisError, match="axes"):
        tailbound.predict(**BASE).plot("altair", axes=object())


@pytest.mark.parametrize(
    ("package", "use"),
    [
        ("altair", lambda found: found.plot()),
        ("matplotlib", lambda found: found.plot("matplotlib")),
        ("pandas", lambda found: found.to_frame()),
    ],
)
def test_what_is_missing_is_named(
    package: str, use: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tailbound.predict(**BASE)
    real = importlib.import_module

    def without(name: str, *rest: Any) -> Any:
        if name.split(".")[0] == package:
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ImportError, match=rf"needs {package}.*tailbound\[{package}\]"):
        use(found)


def test_the_package_itself_needs_numpy_alone() -> None:
    code = (
        "import sys, tailbound; "
        "found = {'pandas', 'altair', 'matplotlib'} & set(sys.modules); "
        "sys.exit(str(found) if found else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
