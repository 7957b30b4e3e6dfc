"""Box plots of a result of bench/recovery/run, as in Fig. 5.8 of Li's thesis (2021): a row per fault, a
column per ensemble size, a box per variant. Whiskers reach from the minimum to the maximum, and every
trial is a dot, so that nothing is hidden.

Usage: plot.py RESULT.json   (writes RESULT.svg beside it)
"""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tailbound"
import matplotlib.pyplot as plt  # noqa: E402

NS_PER_MS = 1e6


def samples(result, variant, size, fault):
    """Recovery times of one cell in milliseconds."""
    key = (variant, size, fault)
    return [
        trial["recovery_ns"] / NS_PER_MS
        for trial in result["trials"]
        if (trial["variant"], trial["size"], trial["fault"]) == key and "recovery_ns" in trial
    ]


def draw(axis, result, variants, size, fault):
    """One panel; variants without a sample are left out."""
    rows = [(name, samples(result, name, size, fault)) for name in variants]
    rows = [(name, times) for name, times in rows if times]
    for place, (_, times) in enumerate(rows, start=1):
        spread = [place + 0.24 * (i / max(len(times) - 1, 1) - 0.5) for i in range(len(times))]
        axis.plot(spread, times, ".", markersize=3, alpha=0.4, color="tab:blue")
    if rows:
        axis.boxplot([times for _, times in rows], whis=(0, 100), widths=0.6)
    axis.set_xticks(range(1, len(rows) + 1), [name for name, _ in rows], rotation=40, ha="right")
    axis.set_yscale("log")
    axis.grid(axis="y", which="both", alpha=0.3)
    axis.set_title(f"{size} servers, leader: {fault}")
    axis.set_ylabel("time to first write / ms")


def main(path):
    result = json.loads(path.read_text())
    cells = result["cells"]
    if not cells:
        sys.exit(f"{path}: no trials to draw")
    variants = list(dict.fromkeys(cell["variant"] for cell in cells))
    sizes = sorted({cell["size"] for cell in cells})
    faults = sorted({cell["fault"] for cell in cells})
    figure, axes = plt.subplots(
        len(faults),
        len(sizes),
        squeeze=False,
        figsize=(1.5 + (1 + 0.6 * len(variants)) * len(sizes), 4.5 * len(faults)),
        layout="constrained",
    )
    for row, fault in enumerate(faults):
        for column, size in enumerate(sizes):
            draw(axes[row][column], result, variants, size, fault)
    target = path.with_suffix(".svg")
    figure.savefig(target, metadata={"Date": None})
    print(f"plot: {target}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
