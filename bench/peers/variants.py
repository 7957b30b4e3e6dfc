"""Latencies of every service in every variant of several runs, from the raw requests.

Usage: variants.py RESULT.json RUN-FOLDER ...

A request that was not answered counts as later than any other. Prints a line for each service and variant: the share
that was answered, and the median, the least and the largest p50 and p99 over all measurements of the variant.
"""

import csv
import json
import math
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

QUANTILES = {"p50_ms": 0.5, "p99_ms": 0.99}


def latencies(file: Path) -> list[float]:
    """Milliseconds of each request after the warm-up, infinity for those that were not answered."""
    with file.open() as lines:
        rows = [row for row in csv.DictReader(lines) if row["warm_up"] == "false"]
    return [
        int(row["latency_ns"]) / 1e6 if row["outcome"] == "answered" else math.inf
        for row in rows
    ]


def quantile(values: list[float], share: float) -> float:
    """The least value that is not exceeded by this share of all."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def main(result: str, folders: list[str]) -> None:
    measured = defaultdict(list)
    for folder in folders:
        for file in sorted(Path(folder, "raw").glob("*-requests.csv")):
            variant, service = re.fullmatch(r"(.+)-(.+)-\d+-requests", file.stem).groups()
            measured[service, variant].append(latencies(file))
    rows = []
    for (service, variant), runs in sorted(measured.items()):
        requests = [value for run in runs for value in run]
        row = {
            "service": service,
            "variant": variant,
            "runs": len(runs),
            "requests": len(requests),
            "answered": sum(map(math.isfinite, requests)) / len(requests),
        }
        for name, share in QUANTILES.items():
            found = [quantile(run, share) for run in runs]
            row[name] = [statistics.median_low(found), min(found), max(found)]
        rows.append(row)
        told = "  ".join(
            "{} {:9.3f} ({:.3f} to {:.3f})".format(name, *row[name]) for name in QUANTILES
        )
        print(f"{service:10} {variant:12} {row['answered']:6.1%} of {len(requests):6}  {told}")
    # JSON has no infinity.
    text = json.dumps(rows, indent=1).replace("Infinity", "null")
    Path(result).write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
