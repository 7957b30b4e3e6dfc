"""Curves by Altair or matplotlib, the same picture from either."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional, Sequence

import numpy as np
import numpy.typing as npt

from ._optional import need
from ._times import refuse

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))


@dataclass(frozen=True)
class Curve:
    """A curve with its name; between ``lower`` and ``y`` lies a band, where ``lower`` is given."""

    name: str
    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    lower: Optional[npt.NDArray[Any]] = None
    step: bool = False
    """Whether it stays at a value until the next."""
    points: bool = False
    """Whether to mark points instead of joining them."""


@dataclass(frozen=True)
class Picture:
    """What is drawn, and what stands at the axes."""

    x_title: str
    y_title: str
    curves: Sequence[Curve] = field(default_factory=tuple)

    def draw(self, backend: str, axes: Any = None) -> Any:
        """An ``altair`` chart, or ``matplotlib`` axes (``axes`` if given)."""
        if backend == "altair":
            if axes is not None:
                raise refuse('axes are matplotlib\'s; give backend="matplotlib" with them')
            return self._altair()
        if backend == "matplotlib":
            return self._matplotlib(axes)
        raise refuse(f'there is no backend {backend!r}; choose "altair" or "matplotlib"')

    def _altair(self) -> Any:
        altair = need("altair", 'plot(backend="altair")')
        layers = []
        order = [curve.name for curve in self.curves]
        for curve in self.curves:
            low = curve.y if curve.lower is None else curve.lower
            rows = [
                {"x": float(x), "y": float(y), "lower": float(below), "curve": curve.name}
                for x, y, below in zip(curve.x, curve.y, low)
                if not np.isnan(float(y))
            ]
            chart = altair.Chart(altair.Data(values=rows))
            encoding = {
                "x": altair.X("x:Q", title=self.x_title),
                "y": altair.Y("y:Q", title=self.y_title),
                "color": altair.Color("curve:N", title=None, sort=order),
            }
            joined = {"interpolate": "step-after"} if curve.step else {}
            if curve.lower is not None:
                band = chart.mark_area(opacity=0.3, **joined)
                layers.append(band.encode(**encoding, y2=altair.Y2("lower:Q")))
            mark = chart.mark_point(filled=True) if curve.points else chart.mark_line(**joined)
            layers.append(mark.encode(**encoding))
        return altair.layer(*layers)

    def _matplotlib(self, axes: Any) -> Any:
        pyplot = need("matplotlib.pyplot", 'plot(backend="matplotlib")')
        if axes is None:
            _, axes = pyplot.subplots()
        for curve in self.curves:
            if curve.points:
                axes.plot(curve.x, curve.y, "o", label=curve.name)
                continue
            style = "steps-post" if curve.step else "default"
            (line,) = axes.plot(curve.x, curve.y, drawstyle=style, label=curve.name)
            if curve.lower is not None:
                step = "post" if curve.step else None
                colour = line.get_color()
                axes.fill_between(curve.x, curve.lower, curve.y, step=step, alpha=0.3, color=colour)
        axes.set_xlabel(self.x_title)
        axes.set_ylabel(self.y_title)
        axes.legend()
        return axes


def unit_for(longest_ns: float) -> tuple[float, str]:
    """The nanoseconds of the unit in which times up to this are easily read, and its name."""
    for factor, name in _UNITS:
        if longest_ns >= 2 * factor:
            return factor, name
    return _UNITS[-1]
