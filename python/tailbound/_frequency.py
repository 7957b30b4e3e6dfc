"""Execution times at other clock frequencies and on other hosts."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from . import _native
from ._times import count

_Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Slowdown:
    """The execution time at a set point, in multiples of the measured one."""

    set_point: str
    """The clocks, as the command line writes them."""
    slowdown: float
    """The multiple."""
    naive: Optional[float]
    """The same in proportion to 1 / frequency; ``None`` from another host."""
    extrapolated: list[str]
    """The clocks beyond those of the recording."""


@dataclass(frozen=True)
class FrequencyModel:
    """What counted events cost on a platform: the answer of :func:`frequency_model`."""

    document: dict[str, Any]
    """The model as ``tailbound model frequency --out`` writes it: ``scaling`` starts from a measured time,
    ``absolute`` from counts alone; each has ``terms`` and ``errors`` of programs that were left out."""

    @property
    def mean_error(self) -> float:
        """The mean relative error from a measured time, for programs that were left out."""
        return float(self.document["scaling"]["errors"]["model"]["mean"])

    @property
    def naive_mean_error(self) -> float:
        """The same of times in proportion to 1 / frequency."""
        return float(self.document["scaling"]["errors"]["naive"]["mean"])

    def slowdowns(
        self,
        counters: _Path,
        *set_points: str,
        program: Optional[str] = None,
        measured_at: Optional[str] = None,
    ) -> list[Slowdown]:
        """The slowdown of a workload at set points, or at all of the model.

        Parameters
        ----------
        counters:
            A file of recorded runs with the workload's counts. Without clocks, from another host.
        set_points:
            Set points: ``"1.2GHz"`` is the core's frequency, ``"cpu=1.2GHz,mem=800MHz"`` names clocks.
        program:
            The program, where the file has several.
        measured_at:
            The set point of the measured time, where the file has several.
        """
        model = json.dumps(self.document)
        rows = _native.slowdowns(model, Path(counters), program, measured_at, list(set_points))
        return [Slowdown(*row) for row in rows]

    def save(self, path: _Path) -> None:
        """Writes the file that ``tailbound predict --frequency-model`` reads."""
        Path(path).write_text(json.dumps(self.document, indent=2) + "\n", encoding="utf-8")


def frequency_model(
    data: _Path, *, set_points: Optional[_Path] = None, most_counters: int = 4
) -> FrequencyModel:
    """The model of recorded runs, as ``tailbound model frequency`` fits it.

    Parameters
    ----------
    data:
        A CSV of runs: ``program``, ``cpu_hz`` and other clocks, ``time_ns``, and a column for each counted event; or a
        column ``perf_stat`` with files of ``perf stat``.
    set_points:
        A CSV of set points with ``busy_mw`` and ``idle_mw``.
    most_counters:
        The most counters that a model may use.
    """
    powers = None if set_points is None else Path(set_points)
    most = count(most_counters, "most_counters", least=1)
    text = _native.fit_frequency_model(Path(data), powers, most)
    return FrequencyModel(json.loads(text))
