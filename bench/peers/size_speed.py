"""How long `tailbound size` takes for twenty periods, as a whole process.

    size_speed.py OUTPUT.json PROGRAM

The settings take turns. In each turn a setting is timed twice: the first times are the baseline, the
second ones the same "again", so that their ratio tells what the machine adds.
"""

import json
import statistics
import subprocess
import sys
import time

LOAD = ["--rate", "0.4/s", "--execution-time", "1s", "--slo", "p90=3s"]
# One execution time with periods around it, much shorter and much longer ones, and two execution times.
SETTINGS = {
    "--period 1s..8s": [*LOAD, "--period", "1s..8s"],
    "--period 10ms..100ms": [*LOAD, "--period", "10ms..100ms"],
    "--period 20s..80s": [*LOAD, "--period", "20s..80s"],
    "--execution-time 0.5s:0.5,1.5s:0.5 --period 1s..8s": [
        *["--rate", "0.4/s", "--execution-time", "0.5s:0.5,1.5s:0.5", "--slo", "p90=5s"],
        *["--period", "1s..8s"],
    ],
    # Laws, of which all values count.
    **{
        f"--execution-time {law} --period 1ms..100ms": [
            *["--rate", "150/s", "--execution-time", law, "--slo", "p99=40ms"],
            *["--period", "1ms..100ms"],
        ]
        for law in (
            "exponential:mean=2ms", "uniform:min=1ms,max=3ms", "lognormal:median=2ms,p99=9ms",
        )
    },
}
ROUNDS = 5
# A promise that cannot be kept is an answer, too.
ANSWERED = (0, 2)


def taken_s(program, arguments):
    start = time.perf_counter()
    done = subprocess.run(
        [program, "size", *arguments, "--format", "csv"], capture_output=True, text=True
    )
    took_s = time.perf_counter() - start
    if done.returncode not in ANSWERED:
        raise SystemExit(f"tailbound size {' '.join(arguments)}: {done.stderr}")
    return took_s


def main():
    output, program = sys.argv[1:3]
    first = {name: [] for name in SETTINGS}
    again = {name: [] for name in SETTINGS}
    for _ in range(ROUNDS):
        for name, arguments in SETTINGS.items():
            first[name].append(taken_s(program, arguments))
            again[name].append(taken_s(program, arguments))
    rows = []
    print(f"{'tailbound size, 20 periods':<48} {'median, s':>10} {'least - most':>15} {'again':>7}")
    for name, times in first.items():
        median_s = statistics.median(times)
        ratio = statistics.median(again[name]) / median_s
        print(f"{name:<48} {median_s:>10.2f} {min(times):>8.2f} - {max(times):<4.2f} {ratio:>7.2f}")
        rows.append(
            {
                "setting": name, "rounds": ROUNDS, "median_s": median_s, "least_s": min(times),
                "most_s": max(times), "again_ratio": ratio,
            }
        )
    with open(output, "w", encoding="utf-8") as file:
        json.dump({"schema_version": 1, "benchmark": "size_speed", "rows": rows}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
