"""The rows of SPECIFICATION.md, section Analysis, that bench/analysis measured, ready to paste.

    rows.py FOLDER

FOLDER holds the JSON files of bench/analysis. Every row says on which machine, how often, the median,
the least and the most, and the baseline against itself ("again"), which a ratio has to be seen beside.
What was not measured has no row, and is named on standard error.
"""

import json
import statistics
import sys
from pathlib import Path


def loaded(folder, name):
    try:
        return json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        print(f"SKIP row: {name} was not measured", file=sys.stderr)
        return None


def row(*cells):
    return "| " + " | ".join(cells) + " |"


def spread(one, unit, digits):
    """Median, and least to most, of one measured thing."""
    values = [one[f"{what}_{unit}"] for what in ("median", "least", "most")]
    median, least, most = (f"{value:.{digits}f}" for value in values)
    return f"{median} {unit} ({least}-{most})"


def reached(limits):
    """Whether all of the medians are within their limits."""
    return "" if all(value <= limit for value, limit in limits) else "**not reached for all:** "


def queue_speed(found, machine):
    settings = {one["setting"]: one for one in found["rows"]}
    typical = next(one for name, one in settings.items() if name.startswith("typical"))
    busy = settings["95 % of the bandwidth"]
    told = "; ".join(f"{name}: {spread(one, 'ms', 2)}" for name, one in settings.items())
    again = [one["again_ratio"] for one in settings.values()]
    return row(
        "p50, p90, p99 of one setting",
        "1 ms typical, 50 ms at 95% load",
        f"release build, one thread, settings in turns; median (least-most) of {typical['rounds']}; "
        f"{machine}",
        "`crates/analysis/examples/queue_speed.rs`",
        f"{reached([(typical['median_ms'], 1), (busy['median_ms'], 50)])}{told}; each against itself "
        f"{min(again):.2f}-{max(again):.2f}",
    )


def queue_peers(found, machine):
    told = []
    for one in found["rows"]:
        if one["peer"] == "tailbound":
            told.append(f"{one['setting']}: {spread(in_ms(one), 'ms', 2)}")
            continue
        off = one["relative_to_tailbound"][-1]
        told.append(f"{one['peer']} {one['ratio']:.3g} times (n = {one['rounds']}), p99 {off:+.1%}")
    return row(
        "The same beside peers",
        "",
        f"one run, in turns, medians; ratio to Tailbound, whose row \"again\" is itself; {machine}",
        "`bench/analysis`",
        "; ".join(told),
    )


def in_ms(one):
    return {f"{what}_ms": one[f"{what}_s"] * 1e3 for what in ("median", "least", "most")}


def quantile_grid(found, machine):
    told = [
        f"{one['precision']} {spread(one, 's', 1)}, bounds {one['apart_median']:.0e} apart in the "
        f"median, against itself {one['again_ratio']:.2f}"
        for one in found["rows"]
    ]
    first = found["rows"][0]
    return row(
        f"p99 over a grid of {found['side']} x {found['side']} bandwidths and periods",
        "2 s on two CPUs",
        f"release build, {first['threads']} threads, precisions in turns; median (least-most) of "
        f"{first['rounds']}; {machine}",
        "`crates/analysis/examples/quantile_grid.rs`",
        reached([(one["median_s"], 2) for one in found["rows"]]) + "; ".join(told),
    )


def schedulability(runs, machine):
    """Each run interleaves both by itself; how its medians differ from run to run is told."""
    told, limits = [], []
    for cases in zip(*(run["cases"] for run in runs)):
        speeds = [case["sets_per_second"] for case in cases]
        ours = [one["response_times"]["median"] for one in speeds]
        ratios = [
            one["response_times"]["median"] / one["response_time_analysis_0_3_2"]["median"]
            for one in speeds
        ]
        told.append(
            f"U = {cases[0]['utilisation']}: {statistics.median(ours):,.0f} ({min(ours):,.0f}-"
            f"{max(ours):,.0f}) a second, {statistics.median(ratios):.1f} times "
            f"({min(ratios):.1f}-{max(ratios):.1f}), run against run {ours[1] / ours[0]:.2f}"
        )
        limits += [(400_000, statistics.median(ours)), (2, statistics.median(ratios))]
    return row(
        "Response times under fixed priorities, n = 20",
        "400,000 sets a second, twice the crate `response-time-analysis`",
        f"release build, one thread, interleaved; median (least-most) of {len(runs)} runs; {machine}",
        "`crates/analysis/examples/schedulability_speed.rs`",
        reached(limits) + "; ".join(told),
    )


def size_speed(found, machine):
    told = "; ".join(
        f"`{one['setting']}`: {spread(one, 's', 2)}, against itself {one['again_ratio']:.2f}"
        for one in found["rows"]
    )
    return row(
        "`tailbound size`, 20 periods",
        "1 s",
        f"release build, whole process, settings in turns; median (least-most) of "
        f"{found['rows'][0]['rounds']}; {machine}",
        "`bench/analysis`",
        reached([(one["median_s"], 1) for one in found["rows"]]) + told,
    )


def main():
    folder = Path(sys.argv[1])
    machine = loaded(folder, "machine.json") or {}
    on = (
        f"{machine.get('cpus', '?')} x {machine.get('model', 'unknown CPU')}, Linux "
        f"{machine.get('kernel', '?')}, load {machine.get('load_before', '?')} before"
    )
    runs = [loaded(folder, f"schedulability-speed-{index}.json") for index in (1, 2, 3)]
    lines = []
    for name, told in [
        ("queue-speed.json", queue_speed),
        ("queue-peers.json", queue_peers),
        ("quantile-grid.json", quantile_grid),
    ]:
        found = loaded(folder, name)
        if found is not None:
            lines.append(told(found, on))
    if all(runs):
        lines.append(schedulability(runs, on))
    found = loaded(folder, "size-speed.json")
    if found is not None:
        lines.append(size_speed(found, on))
    text = "\n".join(lines) + "\n"
    (folder / "analysis-rows.md").write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
