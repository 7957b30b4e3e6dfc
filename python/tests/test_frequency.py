"""Execution times at other clock frequencies."""

from __future__ import annotations

from pathlib import Path

import pytest

import tailbound
from tailbound import AnalysisError

SET_POINTS = [(1000, 800), (1000, 1600), (2000, 800), (2000, 1600)]
PROGRAMS = {"a": (4e9, 9e6), "b": (2e9, 40e6), "c": (5e9, 1e6), "d": (1e9, 25e6)}


def _seconds(program: str, cpu: float, mem: float) -> float:
    instructions, misses = PROGRAMS[program]
    return 1.25 * instructions / cpu / 1e6 + misses * 30 / mem / 1e6


def _recording(folder: Path) -> Path:
    lines = ["program,cpu_hz,mem_hz,time_ns,instructions,misses"]
    for name, (instructions, misses) in PROGRAMS.items():
        for cpu, mem in SET_POINTS:
            time_ns = round(_seconds(name, cpu, mem) * 1e9)
            lines.append(f"{name},{cpu}000000,{mem}000000,{time_ns},{instructions:.0f},{misses:.0f}")
    path = folder / "runs.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_linear_platform_is_predicted(tmp_path: Path) -> None:
    runs = _recording(tmp_path)
    model = tailbound.frequency_model(runs)
    assert model.mean_error < 1e-6 < model.naive_mean_error
    (term,) = model.document["scaling"]["terms"]
    assert (term["counter"], term["clock"]) == ("misses", "mem")
    (answer,) = model.slowdowns(
        runs, "cpu=1.5GHz,mem=1GHz", program="b", measured_at="cpu=2GHz,mem=800MHz"
    )
    expected = _seconds("b", 1500, 1000) / _seconds("b", 2000, 800)
    assert answer.slowdown == pytest.approx(expected, rel=1e-6)
    assert answer.naive == pytest.approx(2 / 1.5)
    assert answer.extrapolated == []
    assert len(model.slowdowns(runs, program="b", measured_at="cpu=2GHz,mem=800MHz")) == 4


def test_errors_name_the_place(tmp_path: Path) -> None:
    runs = _recording(tmp_path)
    model = tailbound.frequency_model(runs, most_counters=1)
    with pytest.raises(AnalysisError, match="4 programs are recorded; name one of: a, b, c, d"):
        model.slowdowns(runs)
    with pytest.raises(AnalysisError, match="cannot read"):
        tailbound.frequency_model(tmp_path / "none.csv")
    runs.write_text("program,cpu_hz,time_ns,x\na,1,1,-1\n", encoding="utf-8")
    with pytest.raises(AnalysisError, match='line 2, `x`: "-1" is no whole number'):
        tailbound.frequency_model(runs)
