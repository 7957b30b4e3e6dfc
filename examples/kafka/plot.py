"""Plots of a result of examples/kafka/run, each an SVG beside it.

kafka.svg: a panel for reconnection, creation of topics, and messages with either leader and with both
killed, a box per setting, as in Fig. 5.12, 5.13, 5.14 and 5.16 of Li's thesis (2021).
kafka-timeline.svg: latency of every message against the time since the fault, from the trial with the
median worst latency of each setting.

Usage: plot.py kafka.json
"""

import csv
import importlib.util
import json
import pathlib
import sys

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "recovery" / "plot.py"
spec = importlib.util.spec_from_file_location("recovery_plot", BENCH)
recovery_plot = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recovery_plot)

NS_PER_MS = recovery_plot.NS_PER_MS
PANELS = [
    ("reconnection", "lost_to_connected_ns", "brokers without ZooKeeper"),
    ("topic-creation", "leader_killed_ns", "creation of a topic, ZooKeeper leader killed"),
    ("messages-zookeeper", "worst_latency_ns", "worst message, ZooKeeper leader killed"),
    ("messages-kafka", "worst_latency_ns", "worst message, Kafka leader killed"),
    ("messages-both", "worst_latency_ns", "worst message, both leaders killed"),
]


def settings_of(trials):
    """Variants and clients in the order of their first trials' names, stock ones first."""
    found = dict.fromkeys((trial["variant"], trial["client"]) for trial in trials)
    return sorted(found, key=lambda each: (each[0] != "vanilla", each[0], each[1] != "original"))


def times_ms(trials, situation, measure, setting):
    """One measure of one setting, in milliseconds."""
    return [
        trial[measure] / NS_PER_MS
        for trial in trials
        if trial["situation"] == situation
        and (trial["variant"], trial["client"]) == setting
        and measure in trial
    ]


def plot_boxes(trials, target):
    settings = settings_of(trials)
    shown = [panel for panel in PANELS if any(trial["situation"] == panel[0] for trial in trials)]
    figure, axes = recovery_plot.panels(len(shown), 1, 2 * len(settings))
    for axis, (situation, measure, title) in zip(axes[:, 0], shown):
        rows = [
            (f"{variant}\n{client}", times_ms(trials, situation, measure, (variant, client)))
            for variant, client in settings
        ]
        recovery_plot.draw_boxes(axis, rows, title)
        axis.set_ylabel("time / ms")
        axis.set_ylim(bottom=0)
    recovery_plot.save(figure, target)


def median_stream(folder, variant, client):
    """The messages of the trial with the median worst latency, both leaders killed; none if absent."""
    streams = []
    for path in sorted(folder.glob(f"both-{variant}-{client}-*.csv")):
        with path.open(newline="") as file:
            rows = [(int(a) / NS_PER_MS, int(b) / NS_PER_MS) for a, b in list(csv.reader(file))[1:]]
        streams.append(sorted(rows))
    streams.sort(key=lambda rows: max(latency for _, latency in rows))
    return streams[len(streams) // 2] if streams else []


def plot_timeline(trials, folder, target):
    """Nothing where no trial killed both leaders."""
    figure, axes = recovery_plot.panels(1, 1, 12)
    axis = axes[0][0]
    drawn = False
    for variant, client in settings_of(trials):
        rows = median_stream(folder, variant, client)
        if rows:
            drawn = True
            axis.plot(*zip(*rows), ".-", markersize=3, linewidth=0.8, label=f"{variant}, {client}")
    if not drawn:
        return
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_xlim(left=-500)
    axis.set_xlabel("intended time of sending after the fault / ms")
    axis.set_ylabel("latency / ms")
    axis.set_title("messages, both leaders killed at 0")
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
    recovery_plot.save(figure, target)


def main(path):
    trials = [trial for trial in json.loads(path.read_text())["trials"] if "failure" not in trial]
    if not trials:
        sys.exit(f"{path}: no trials to draw")
    plot_boxes(trials, path.with_suffix(".svg"))
    plot_timeline(trials, path.parent / "raw", path.with_name(f"{path.stem}-timeline.svg"))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
