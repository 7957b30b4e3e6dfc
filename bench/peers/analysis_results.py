"""Entries of bench/results/analysis.toml, from the JSON files of bench/analysis.

    analysis_results.py FOLDER

Every entry has the machine, the repetitions, the median, the least and the most, and the baseline against
itself ("again"), beside which a ratio has to be seen. An analysis that was not measured has no entry, and is
named on standard error.
"""

import json
import statistics
import sys
from pathlib import Path


def read(folder, name):
    try:
        return json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        print(f"SKIP entry: {name} was not measured", file=sys.stderr)
        return None


def entry(name, promise, limits, method, repetitions, machine, columns, rows):
    """One result. `limits` are pairs of a figure and the most that was promised."""
    kept = [value <= most for value, most in limits]
    reached = "yes" if all(kept) else "in part" if any(kept) else "no"
    fields = {"name": name, "promise": promise, "reached": reached if limits else "no promise"}
    fields |= {"method": method, "repetitions": repetitions, "machine": machine}
    # A string, or a list of strings, is written in JSON as it is in TOML.
    lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items() if value]
    lines += [f"columns = {json.dumps(columns)}", "rows = ["]
    lines += [f"    {json.dumps(row)}," for row in rows]
    return "\n".join(["[[result]]", *lines, "]"])


def spread(one, unit, digits):
    """Median, and least to most, of one measured thing."""
    values = [one[f"{statistic}_{unit}"] for statistic in ("median", "least", "most")]
    median, least, most = (f"{value:.{digits}f}" for value in values)
    return f"{median} {unit} ({least}-{most})"


def queue_speed(measured, machine):
    settings = {one["setting"]: one for one in measured["rows"]}
    typical = next(one for name, one in settings.items() if name.startswith("typical"))
    busy = settings["95 % of the bandwidth"]
    return entry(
        "p50, p90, p99 of one setting",
        "1 ms typical, 50 ms at 95% load",
        [(typical["median_ms"], 1), (busy["median_ms"], 50)],
        "`crates/analysis/examples/queue_speed.rs`, release build, one thread, settings in turns",
        f"median (least-most) of {typical['rounds']}",
        machine,
        ["setting", "time", "against itself"],
        [[name, spread(one, "ms", 2), f"{one['again_ratio']:.2f}"] for name, one in settings.items()],
    )


def queue_peers(measured, machine):
    rows = []
    for one in measured["rows"]:
        if one["peer"] == "tailbound":
            rows.append([one["setting"], one["peer"], spread(in_ms(one), "ms", 2), ""])
            continue
        ratio = f"{one['ratio']:.3g} times (n = {one['rounds']})"
        rows.append([one["setting"], one["peer"], ratio, f"{one['relative_to_tailbound'][-1]:+.1%}"])
    return entry(
        "One setting beside peers",
        "",
        [],
        "one run, in turns; ratio to Tailbound, whose row \"again\" is itself",
        "medians",
        machine,
        ["setting", "peer", "time", "p99 beside ours"],
        rows,
    )


def in_ms(one):
    return {f"{statistic}_ms": one[f"{statistic}_s"] * 1e3 for statistic in ("median", "least", "most")}


def quantile_grid(measured, machine):
    rows = [
        [one["precision"], f"{one['apart_median']:.0e}", spread(one, "s", 1), f"{one['again_ratio']:.2f}"]
        for one in measured["rows"]
    ]
    first = measured["rows"][0]
    return entry(
        f"p99 over a grid of {measured['side']} x {measured['side']} bandwidths and periods",
        "2 s on two CPUs",
        [(one["median_s"], 2) for one in measured["rows"]],
        f"`crates/analysis/examples/quantile_grid.rs`, release build, {first['threads']} threads, in turns",
        f"median (least-most) of {first['rounds']}",
        machine,
        ["precision", "bounds apart, median", "time", "against itself"],
        rows,
    )


def schedulability(runs, machine):
    """Each run interleaves both by itself; the entry has how its medians differ from run to run."""
    rows, limits = [], []
    for cases in zip(*(run["cases"] for run in runs)):
        speeds = [case["sets_per_second"] for case in cases]
        ours = [one["response_times"]["median"] for one in speeds]
        ratios = [
            one["response_times"]["median"] / one["response_time_analysis_0_3_2"]["median"]
            for one in speeds
        ]
        rows.append([
            f"{cases[0]['utilisation']}",
            f"{statistics.median(ours):,.0f} ({min(ours):,.0f}-{max(ours):,.0f})",
            f"{statistics.median(ratios):.1f} ({min(ratios):.1f}-{max(ratios):.1f})",
            f"{ours[1] / ours[0]:.2f}",
        ])
        limits += [(400_000, statistics.median(ours)), (2, statistics.median(ratios))]
    return entry(
        "Response times under fixed priorities, n = 20",
        "400,000 sets a second, twice the crate `response-time-analysis`",
        limits,
        "`crates/analysis/examples/schedulability_speed.rs`, release build, one thread, interleaved",
        f"median (least-most) of {len(runs)} runs",
        machine,
        ["utilisation", "sets a second", "times `response-time-analysis`", "run against run"],
        rows,
    )


def answer_speed(name, promise, limit_s, digits):
    """The entry of one verb's answers; `limit_s` is what the promise is about."""

    def write(measured, machine):
        rows = measured["rows"]
        return entry(
            name,
            promise,
            [(one["median_s"], limit_s) for one in rows],
            "release build, whole process, settings in turns",
            f"median (least-most) of {rows[0]['rounds']}",
            machine,
            ["setting", "time", "against itself"],
            [
                [f"`{one['setting']}`" if one["setting"].startswith("-") else one["setting"],
                 spread(one, "s", digits), f"{one['again_ratio']:.2f}"]
                for one in rows
            ],
        )

    return write


def main():
    folder = Path(sys.argv[1])
    facts = read(folder, "machine.json") or {}
    machine = (
        f"{facts.get('cpus', '?')} x {facts.get('model', 'unknown CPU')}, Linux "
        f"{facts.get('kernel', '?')}, load {facts.get('load_before', '?')} before"
    )
    entries = []
    for name, write in [
        ("queue-speed.json", queue_speed),
        ("queue-peers.json", queue_peers),
        ("quantile-grid.json", quantile_grid),
        (
            "predict-speed.json",
            answer_speed("Predicting one queue", "`tailbound predict` answers within 100 ms", 0.1, 3),
        ),
        (
            "size-speed.json",
            answer_speed("Sizing over 20 periods", "`tailbound size` answers within 1 s", 1, 2),
        ),
    ]:
        measured = read(folder, name)
        if measured is not None:
            entries.append(write(measured, machine))
    runs = [read(folder, f"schedulability-speed-{index}.json") for index in (1, 2, 3)]
    if all(runs):
        entries.append(schedulability(runs, machine))
    text = "\n\n".join(entries) + "\n"
    (folder / "analysis-results.toml").write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
