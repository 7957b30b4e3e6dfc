"""How long `tailbound predict` and `tailbound size` take, as whole processes.

    answer_speed.py OUTPUT-FOLDER PROGRAM

writes predict-speed.json and size-speed.json. The settings take turns. In each turn a setting is timed
twice: the first times are the baseline, the second ones the same "again", so that their ratio tells
what the machine adds.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LOAD = ["--rate", "0.4/s", "--execution-time", "1s", "--slo", "p90=3s"]
# One execution time with periods around it, much shorter and much longer ones, and two execution times.
SIZES = {
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


def queue(rate, times, budget, period, *more):
    return ["--rate", rate, "--execution-time", times, "-b", budget, "-p", period, *more]


def predictions(samples):
    """Settings of every kind; a file of samples is written to `samples`."""
    draw = random.Random(1)
    drawn = (round(2e6 * draw.lognormvariate(0, 0.5)) for _ in range(10_000))
    samples.write_text("".join(f"{value}ns\n" for value in drawn), encoding="utf-8")
    measured = ["--execution-time-samples", str(samples), "-b", "6ms", "-p", "10ms"]
    no_lattice = "1.0007ms:0.3,2.3331ms:0.4,4.00013ms:0.3"
    exponential = "exponential:mean=2ms"
    return {
        "one execution time, 50% load": queue("150/s", "2ms", "6ms", "10ms"),
        "one execution time, 95% load": queue("285/s", "2ms", "6ms", "10ms"),
        "10,000 samples, 49% load": ["--rate", "130/s", *measured],
        "10,000 samples, 94% load": ["--rate", "252/s", *measured],
        "exponential, 50% load": queue("150/s", exponential, "6ms", "10ms"),
        "exponential, 95% load": queue("285/s", exponential, "6ms", "10ms"),
        "no common lattice, 89% load": queue("218/s", no_lattice, "6ms", "10ms"),
        "period 100 execution times": queue("2500/s", "200us", "12ms", "20ms"),
        "period 500 execution times": queue("2500/s", "200us", "60ms", "100ms"),
        "period 10,000 execution times": queue("30000/s", "10us", "60ms", "100ms"),
        "period a hundredth of the execution time": queue("3/s", "100ms", "0.6ms", "1ms"),
        "periodic server, 41.2 and 53.2 ms in 42.5/50": queue(
            "15/s", "41.2ms:0.5,53.2ms:0.5", "42.5ms", "50ms", "--server", "periodic"
        ),
        "periodic server, 4.2, 4.9, 7.4 ms in 47.5/50": queue(
            "150/s", "4.2ms:0.4,4.9ms:0.4,7.4ms:0.2", "47.5ms", "50ms", "--server", "periodic"
        ),
        "constant-bandwidth server, 50% load": queue(
            "150/s", "2ms", "6ms", "10ms", "--server", "constant-bandwidth"
        ),
        "polling server, 50% load": queue(
            "150/s", "2ms", "6ms", "10ms", "--server", "polling"
        ),
    }


ROUNDS = 5
# A promise that cannot be kept is an answer, too.
ANSWERED = (0, 2)


def taken_s(command):
    start = time.perf_counter()
    done = subprocess.run(
        [*command, "--format", "csv", "-q"], capture_output=True, text=True, check=False
    )
    took_s = time.perf_counter() - start
    if done.returncode not in ANSWERED:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return took_s


def timed(title, program, verb, settings):
    first = {name: [] for name in settings}
    again = {name: [] for name in settings}
    for _ in range(ROUNDS):
        for name, arguments in settings.items():
            first[name].append(taken_s([program, verb, *arguments]))
            again[name].append(taken_s([program, verb, *arguments]))
    rows = []
    print(f"{title:<54} {'median, s':>10} {'least - most':>15} {'again':>7}")
    for name, times in first.items():
        median_s = statistics.median(times)
        ratio = statistics.median(again[name]) / median_s
        print(f"{name:<54} {median_s:>10.3f} {min(times):>8.3f} - {max(times):<5.3f} {ratio:>6.2f}")
        rows.append(
            {
                "setting": name, "rounds": ROUNDS, "median_s": median_s, "least_s": min(times),
                "most_s": max(times), "again_ratio": ratio,
            }
        )
    return {"schema_version": 1, "benchmark": f"{verb}_speed", "rows": rows}


def main():
    folder, program = Path(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as scratch:
        asked = {
            "predict": ("tailbound predict", predictions(Path(scratch) / "samples.txt")),
            "size": ("tailbound size, 20 periods", SIZES),
        }
        for verb, (title, settings) in asked.items():
            answers = timed(title, program, verb, settings)
            with open(folder / f"{verb}-speed.json", "w", encoding="utf-8") as file:
                json.dump(answers, file, indent=1)
                file.write("\n")


if __name__ == "__main__":
    main()
