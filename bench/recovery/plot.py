"""Plots of a result of bench/recovery/run, each an SVG beside it.

NAME.svg: time to the first write, a row per fault, a column per ensemble size, a box per variant, as in
Fig. 5.8a, c, e of Li's thesis (2021). NAME-phases.svg: the servers' own account of a killed leader's
recovery, a box per phase and variant, as in Fig. 5.8b, d, f. NAME-sizes.svg: median and maximum against
the ensemble size, as in Fig. 5.9. Whiskers reach from the minimum to the maximum, and every trial is a
dot, so that nothing is hidden.

Usage: plot.py NAME.json
"""

import json
import pathlib
import statistics
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tailbound"
import matplotlib.pyplot as plt  # noqa: E402

NS_PER_MS = 1e6
PHASES = ["detection", "election", "connection", "synchronisation", "start", "first_write"]


class Result:
    """The trials of a run that measured something, and the cells in the order of the run."""

    def __init__(self, path):
        content = json.loads(path.read_text())
        self.trials = [trial for trial in content["trials"] if "recovery_ns" in trial]
        if not self.trials:
            sys.exit(f"{path}: no trials to draw")
        self.variants = list(dict.fromkeys(trial["variant"] for trial in self.trials))
        self.sizes = sorted({trial["size"] for trial in self.trials})
        self.faults = sorted({trial["fault"] for trial in self.trials})

    def times_ms(self, variant, size, fault, phase=None):
        """Recovery times of one cell, or those of one phase, in milliseconds."""
        chosen = [
            trial
            for trial in self.trials
            if (trial["variant"], trial["size"], trial["fault"]) == (variant, size, fault)
        ]
        if phase is None:
            return [trial["recovery_ns"] / NS_PER_MS for trial in chosen]
        key = f"{phase}_ns"
        return [trial["phases"][key] / NS_PER_MS for trial in chosen if key in trial["phases"]]


def panels(rows, columns, boxes):
    """A figure with room for so many boxes in every panel."""
    size = (1.5 + (1 + 0.6 * boxes) * columns, 4.5 * rows)
    return plt.subplots(rows, columns, squeeze=False, figsize=size, layout="constrained")


def draw_boxes(axis, rows, title):
    """Boxes of named lists of milliseconds; empty ones are left out."""
    rows = [(name, times) for name, times in rows if times]
    for place, (_, times) in enumerate(rows, start=1):
        spread = [place + 0.24 * (i / max(len(times) - 1, 1) - 0.5) for i in range(len(times))]
        axis.plot(spread, times, ".", markersize=3, alpha=0.4, color="tab:blue")
    if rows:
        axis.boxplot([times for _, times in rows], whis=(0, 100), widths=0.6)
    axis.set_xticks(range(1, len(rows) + 1), [name for name, _ in rows], rotation=40, ha="right")
    axis.grid(axis="y", which="both", alpha=0.3)
    axis.set_title(title)


def save(figure, target):
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)
    print(f"plot: {target}")


def plot_overall(result, target):
    figure, axes = panels(len(result.faults), len(result.sizes), len(result.variants))
    for row, fault in enumerate(result.faults):
        for column, size in enumerate(result.sizes):
            axis = axes[row][column]
            rows = [(name, result.times_ms(name, size, fault)) for name in result.variants]
            draw_boxes(axis, rows, f"{size} servers, leader: {fault}")
            axis.set_yscale("log")
            axis.set_ylabel("time to first write / ms")
    save(figure, target)


def plot_phases(result, target):
    """Nothing where no server tells its phases, or no leader was killed."""
    told = [
        (name, phase)
        for phase in PHASES
        for name in result.variants
        if any(result.times_ms(name, size, "kill", phase) for size in result.sizes)
    ]
    if not told:
        return
    figure, axes = panels(1, len(result.sizes), len(told))
    for axis, size in zip(axes[0], result.sizes):
        rows = [
            (f"{phase}: {name}", result.times_ms(name, size, "kill", phase)) for name, phase in told
        ]
        draw_boxes(axis, rows, f"{size} servers, leader: kill")
        axis.set_ylabel("time of the phase / ms")
    save(figure, target)


def plot_sizes(result, target):
    """Nothing where there is but one size."""
    if len(result.sizes) < 2:
        return
    figure, axes = panels(1, len(result.faults), 4)
    for axis, fault in zip(axes[0], result.faults):
        for number, name in enumerate(result.variants):
            cells = [(size, result.times_ms(name, size, fault)) for size in result.sizes]
            cells = [(size, times) for size, times in cells if times]
            sizes = [size for size, _ in cells]
            colour = f"C{number}"
            medians = [statistics.median(times) for _, times in cells]
            axis.plot(sizes, medians, "o--", color=colour, markersize=4)
            axis.plot(sizes, [max(times) for _, times in cells], "x-", color=colour, label=name)
        axis.set_xticks(result.sizes)
        axis.set_yscale("log")
        axis.set_xlabel("servers")
        axis.set_ylabel("time to first write / ms")
        axis.set_title(f"leader: {fault}; maximum (solid), median (dashed)")
        axis.grid(which="both", alpha=0.3)
        axis.legend(fontsize="small")
    save(figure, target)


def main(path):
    result = Result(path)
    plot_overall(result, path.with_suffix(".svg"))
    plot_phases(result, path.with_name(f"{path.stem}-phases.svg"))
    plot_sizes(result, path.with_name(f"{path.stem}-sizes.svg"))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
