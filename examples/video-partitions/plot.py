"""Figure 5 of H. Perez and J. J. Gutierrez (REACTION 2013) from a result of `run --out`: the longest round trip and the 99% by the
size of the frames, an SVG beside the result.

Usage: plot.py results.json
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
BYTES_PER_KIB = 1024


def lines(content, key):
    """The sizes in KiB and the times in milliseconds of each scenario with several sizes: the middle one of the repetitions."""
    for name, (file, variant) in content["scenarios"].items():
        times = {}
        for row in content["rows"]:
            if (row["file"], row["variant"], row["kind"]) == (file, variant, "measured"):
                times.setdefault(row["size"] / BYTES_PER_KIB, []).append(row[key] / NS_PER_MS)
        if len(times) > 1:
            sizes = sorted(times)
            yield name, sizes, [statistics.median(times[size]) for size in sizes]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip().splitlines()[-1])
    results = pathlib.Path(sys.argv[1])
    content = json.loads(results.read_text())
    figure, axes = plt.subplots(1, 2, sharey=True, figsize=(9, 4), layout="constrained")
    for axis, key, title in zip(axes, ("p99_ns", "longest_ns"), ("99%", "longest")):
        for name, sizes, times in lines(content, key):
            axis.plot(sizes, times, marker="o", label=name)
        axis.set(title=title, xlabel="frame / KiB", xscale="log")
        axis.set_xticks([1, 4, 16, 64], ["1", "4", "16", "64"])
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("round trip / ms")
    axes[0].set_ylim(bottom=0)
    axes[1].legend(fontsize="small")
    target = results.with_name("figure-5.svg")
    figure.savefig(target, metadata={"Date": None})
    print(target)


if __name__ == "__main__":
    main()
