"""Pictures of a campaign's data set: distributions, a surface, quantiles with intervals, columns in groups."""

from __future__ import annotations

from typing import Any, Mapping, Optional

import numpy as np

from ._optional import need
from ._plots import Curve, Picture
from ._times import refuse

Columns = Mapping[str, list[Any]]
"""The columns of a data set."""

_NS_PER_MS = 1e6


def matching_rows(columns: Columns, where: Optional[Mapping[str, str]]) -> list[int]:
    """The rows with these values, without those of control points."""
    wanted = dict(where or {})
    for name in wanted:
        need_column(columns, name)
    rows = range(len(columns["measurement"]))
    matching = [
        row
        for row in rows
        if not columns["control"][row]
        and all(columns[name][row] == text for name, text in wanted.items())
    ]
    if not matching:
        raise refuse("no measurement has these values; leave some out of where")
    return matching


def need_column(columns: Columns, name: str) -> None:
    """Refuses a name that is no column."""
    if name not in columns:
        names = ", ".join(columns)
        raise refuse(f"there is no column {name!r}; the data set has {names}")


def average(columns: Columns, rows: list[int], y: str) -> Optional[float]:
    """The average of a column over rows that have a value, times in milliseconds."""
    values = [columns[y][row] for row in rows if columns[y][row] is not None]
    scale = _NS_PER_MS if y.endswith("_ns") else 1.0
    return float(np.mean(values)) / scale if values else None


def titled(name: str) -> str:
    """The title of an axis for a column."""
    return f"{name[:-3]} (ms)" if name.endswith("_ns") else name


def latency_curves(latencies: Mapping[str, Any], backend: str, axes: Any) -> Any:
    """The share of latencies within a time, a curve for each name."""
    curves = []
    for name, values in latencies.items():
        ordered = np.sort(np.asarray(values, dtype=float)) / _NS_PER_MS
        shares = np.arange(1, len(ordered) + 1) / max(1, len(ordered))
        curves.append(Curve(name, ordered, shares, step=True))
    return Picture("latency (ms)", "share of requests", tuple(curves)).draw(backend, axes)


def quantile_curves(
    columns: Columns,
    rows: list[int],
    names: tuple[str, str, str],
    places: Mapping[Any, float],
    titles: tuple[str, str],
    backend: str,
    axes: Any,
) -> Any:
    """A quantile over an axis, and its interval as a band. ``names`` are the axis, the quantile's prefix and a name."""
    x, prefix, name = names
    for column in (f"{prefix}_ns", f"{prefix}_low_ns", f"{prefix}_high_ns"):
        need_column(columns, column)
    groups: dict[float, list[int]] = {}
    for row in rows:
        groups.setdefault(places[columns[x][row]], []).append(row)
    at = sorted(groups)
    ends = {
        column: np.array(
            [
                np.nan if (value := average(columns, groups[place], column)) is None else value
                for place in at
            ]
        )
        for column in (f"{prefix}_ns", f"{prefix}_low_ns", f"{prefix}_high_ns")
    }
    where = np.array(at)
    band = Curve(
        "interval", where, ends[f"{prefix}_high_ns"], lower=ends[f"{prefix}_low_ns"]
    )
    curve = Curve(name, where, ends[f"{prefix}_ns"])
    return Picture(titles[0], titles[1], (band, curve)).draw(backend, axes)


def surface(
    cells: list[dict[str, Any]], orders: tuple[list[str], list[str]], titles: tuple[str, str, str]
) -> Any:
    """A cell for each pair of values, with a frame around the answer."""
    altair = need("altair", "plot_surface()")
    base = altair.Chart(altair.Data(values=cells)).encode(
        x=altair.X("x:O", title=titles[0], sort=orders[0]),
        y=altair.Y("y:O", title=titles[1], sort=orders[1][::-1]),
    )
    colour = altair.Color("value:Q", title=titles[2], scale=altair.Scale(scheme="viridis"))
    chosen = base.transform_filter("datum.chosen").mark_rect(
        fillOpacity=0, stroke="black", strokeWidth=3
    )
    texts = base.mark_text(stroke="white", strokeWidth=2, strokeOpacity=0.6).encode(
        text=altair.Text("value:Q", format=".3g")
    )
    plain = base.mark_text().encode(text=altair.Text("value:Q", format=".3g"))
    return altair.layer(base.mark_rect().encode(color=colour), texts, plain, chosen)


def grouped_columns(
    bars: list[dict[str, Any]], order: list[str], titles: tuple[str, str, str, str]
) -> Any:
    """Columns in a group for each value of an axis; the colour is that of the series."""
    altair = need("altair", "plot_columns()")
    return (
        altair.Chart(altair.Data(values=bars))
        .mark_bar()
        .encode(
            x=altair.X("x:O", title=titles[0], sort=order),
            y=altair.Y("value:Q", title=titles[1], stack=None),
            xOffset=altair.XOffset("column:N", title=titles[2]),
            color=altair.Color("series:N", title=titles[3]),
            opacity=altair.value(0.8),
            tooltip=["x:N", "column:N", "series:N", "value:Q"],
        )
    )
