"""Prints what bench/pubsub measured, as rows for bench/results/pubsub.toml.

    topic_costs.py FOLDER
"""

import json
import sys
from pathlib import Path


def us(nanoseconds):
    value = nanoseconds / 1000
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def rows_of(rows):
    """A row for each transport and size: medians and p99 of the bare and the own way, ratios with their middle half."""
    ways = {}
    for row in rows:
        ways.setdefault((row["transport"], row["bytes"]), {})[row["way"]] = row["result"]
    for (transport, size), way in ways.items():
        bare, again, own = way["bare"], way["bare-again"], way["own"]
        yield [
            transport,
            f"{size:,} B",
            f"{us(bare['p50_ns'])}, {us(bare['p99_ns'])}",
            f"{us(own['p50_ns'])}, {us(own['p99_ns'])}",
            f"{own['ratio']:.2f} ({own['ratio_p25']:.2f}-{own['ratio_p75']:.2f})",
            f"{again['ratio']:.2f} ({again['ratio_p25']:.2f}-{again['ratio_p75']:.2f})",
            f"{own['lost']}",
        ]


def flood_rows(rows):
    for row in rows:
        without, with_flood = row["without"], row["with"]
        yield [
            row["transport"],
            row["flood"],
            f"{us(without['p50_ns'])}, {us(without['p99_ns'])}",
            f"{us(with_flood['p50_ns'])}, {us(with_flood['p99_ns'])}",
            f"{with_flood['p99_ns'] / without['p99_ns']:.2f}",
            f"{without['lost']}, {with_flood['lost']} of {with_flood['sent']}",
        ]


def main():
    folder = Path(sys.argv[1])
    for name in ["one-cpu", "two-cpus", "fan-out-one-cpu", "fan-out-two-cpus"]:
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        print(f"{name}: transport, size, bare p50 and p99 in us, own p50 and p99, own / bare, bare / bare, lost")
        for row in rows_of(json.loads(path.read_text())):
            print("   ", json.dumps(row) + ",")
    path = folder / "flood.json"
    if path.exists():
        print("flood: transport, flood, p50 and p99 without in us, with, p99 with / without, lost without, with")
        for row in flood_rows(json.loads(path.read_text())):
            print("   ", json.dumps(row) + ",")
    path = folder / "allocations.json"
    if path.exists():
        print("allocations of a round trip: transport, way, number, bytes")
        for row in json.loads(path.read_text()):
            print("   ", json.dumps([row["transport"], row["way"], f"{row['allocations']:.2f}", f"{row['bytes']:.0f}"]) + ",")


main()
