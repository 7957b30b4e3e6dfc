"""Simulated jobs per second and peak memory: Tailbound and its peers in one run.

    simulator_peers.py [--quick] [--agree] [--simso PYTHON] [--export-json FILE] PROGRAM-FOLDER

PROGRAM-FOLDER holds the release example hierarchy_round; PYTHON is one that has SimSo, which needs another
SimPy than the other peers. Each peer runs in a process of its own, told one round after the other, in
turns with the others, so no start of a program or an interpreter is timed. Every row is the median of
its rounds; Tailbound is measured twice, so that the row "again" tells the noise. With --agree SimSo's and
Tailbound's response times are compared job by job on random task sets instead.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Setting, jobs of a round (in full and --quick) of Tailbound and of its peers: a round of a peer is to
# last long enough to be timed, and not minutes.
SETTINGS = {
    "fixed-priority": (5_000_000, 1_000_000, {"SimSo": (10_000, 2_000)}),
    "earliest-deadline": (5_000_000, 1_000_000, {"SimSo": (10_000, 2_000)}),
    "two-reservations": (2_000_000, 400_000, {}),
    # The same as descriptions, simulated as by `tailbound simulate`.
    "described-fixed-priority": (5_000_000, 1_000_000, {}),
    "described-earliest-deadline": (5_000_000, 1_000_000, {}),
    "described-two-reservations": (2_000_000, 400_000, {}),
    # Global earliest deadline first, four tasks for each of 4, 16 and 64 CPUs.
    **{
        f"{kind}global-{cpus}": (2_000_000, 400_000, {"SchedCAT's algorithm": (2_000_000, 400_000)})
        for cpus in (4, 16, 64)
        for kind in ("", "described-")
    },
    "queue-reserved": (2_000_000, 400_000, {"SimPy": (100_000, 20_000)}),
    "queue-alone": (
        5_000_000, 1_000_000,
        {"SimPy": (100_000, 20_000), "Ciw": (50_000, 10_000), "LINE, LDES": (1_000_000, 200_000)},
    ),
}
MEMORY_JOBS = (10**6, 10**7, 10**8)
TARGETS = {"SimSo": 2_000, "SimPy": 60, "SchedCAT's algorithm": 1}


class Peer:
    """A process that answers `SETTING JOBS` with `NANOSECONDS P50 P99 LONGEST [JOBS]`, times in seconds."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.process.args}: no answer to `{line}`")
        return answer

    def round(self, setting, jobs):
        took_ns, p50, p99, longest, *done = map(float, self.ask(f"{setting} {jobs}").split())
        told = (value if math.isfinite(value) else None for value in (p50, p99, longest))
        return (done[0] if done else jobs) / took_ns * 1e9, tuple(told)

    def peak_kib(self):
        """Of the program itself: what wait4 tells begins with the process that started it."""
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def skip(name, why):
    print(f"SKIP {name}: {why}", file=sys.stderr, flush=True)


def can(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def commands(options, program):
    """How each peer is started; the first is the baseline."""
    worker = os.path.join(HERE, "simulator_worker.py")
    chosen = {"tailbound": [program], "tailbound, again": [program]}
    modules = {
        "SimSo": ("simso", options.simso), "SimPy": ("simpy", sys.executable),
        "Ciw": ("ciw", sys.executable), "LINE, LDES": ("line_solver", sys.executable),
    }
    for name, (module, python) in modules.items():
        if python and can(python, module):
            chosen[name] = [python, worker, module]
        else:
            skip(name, f"pip install {module.replace('_', '-')}")
    algorithm = compiled(program)
    if algorithm:
        chosen["SchedCAT's algorithm"] = [algorithm]
    skip("SchedCAT itself", "no package registry has it; its algorithm stands for it, written anew")
    return chosen


def compiled(program):
    """The program of simulator_global.cpp; none without a compiler."""
    source = os.path.join(HERE, "simulator_global.cpp")
    target = os.path.join(os.path.dirname(program), "simulator_global")
    try:
        subprocess.run(["c++", "-O2", "-std=c++17", "-o", target, source], check=True)
    except (OSError, subprocess.CalledProcessError):
        return skip("SchedCAT's algorithm", "needs a C++ compiler")
    return target


def told_times(answer):
    if None in answer:
        return ""
    return "   p50 {:.6g} s, p99 {:.6g} s, longest {:.6g} s".format(*answer)


def compared(setting, known, options):
    full, quick, counts = SETTINGS[setting]
    peers = {
        name: Peer(command)
        for name, command in known.items()
        if name.startswith("tailbound") or name in counts
    }
    rates = {name: [] for name in peers}
    answers = {}
    for turn in range(options.rounds):
        for name, peer in peers.items():
            jobs = counts.get(name, (full, quick))[options.quick]
            # The first round of each is the one in which caches fill.
            if turn == 0:
                peer.round(setting, min(jobs, 10_000))
            rate, answers[name] = peer.round(setting, jobs)
            rates[name].append(rate)
    own = statistics.median(rates["tailbound"])
    rows = []
    for name, values in rates.items():
        median = statistics.median(values)
        rows.append(
            {
                "setting": setting, "peer": name, "rounds": len(values),
                "jobs": counts.get(name, (full, quick))[options.quick],
                "median_jobs_per_s": median, "least_jobs_per_s": min(values),
                "most_jobs_per_s": max(values), "tailbound_times_as_fast": own / median,
                "peak_kib": peers[name].peak_kib(), "p50_s": answers[name][0],
                "p99_s": answers[name][1], "longest_s": answers[name][2],
            }
        )
        print(
            f"{setting:<27} {name:<20} {median:>14,.0f} {min(values):>13,.0f} - {max(values):<13,.0f}"
            f" {own / median:>9,.2f} {rows[-1]['peak_kib']:>9,}"
            + told_times(answers[name]),
            flush=True,
        )
        peers[name].end()
    return rows


def memory(program, options):
    """Peak memory of one process per length: the same, however much is simulated."""
    rows = []
    for jobs in MEMORY_JOBS[: 2 if options.quick else 3]:
        for setting in ("earliest-deadline", "queue-reserved"):
            peer = Peer([program])
            peer.round(setting, jobs)
            rows.append({"setting": setting, "jobs": jobs, "peak_kib": peer.peak_kib()})
            print(f"memory: {setting:<18} {jobs:>11,} jobs {rows[-1]['peak_kib']:>7,} KiB", flush=True)
            peer.end()
    return rows


def random_set(generator):
    """Some tasks as `PERIOD,OFFSET,WORK` in microseconds, the shorter period of higher priority."""
    tasks, left = [], 0.98
    for period in sorted(generator.sample(range(200, 3_000, 50), generator.randint(2, 6))):
        share = generator.uniform(0.02, left / 2)
        left -= share
        # SimSo orders jobs of equal deadline as it likes: an odd offset each makes them rare.
        tasks.append((period, generator.randrange(period), max(1, int(share * period))))
    return tasks


def agree(options, program):
    """Compares the ends of all jobs of random task sets; returns the number of differences."""
    worker = os.path.join(HERE, "simulator_worker.py")
    ours, simso = Peer([program]), Peer([options.simso, worker, "simso"])
    generator = random.Random(7)
    compared_jobs = different = 0
    sets = 20 if options.quick else 200
    for index in range(sets):
        tasks = " ".join(",".join(map(str, task)) for task in random_set(generator))
        policy = ("ends-fixed-priority", "ends-earliest-deadline")[index % 2]
        line = f"{policy} 20000 {tasks}"
        left, right = ours.ask(line).split(), simso.ask(line).split()
        compared_jobs += len(left)
        if left != right:
            different += 1
            pairs = [pair for pair in zip(left, right) if pair[0] != pair[1]]
            print(f"different: {line}\n  TASK:JOB:END {pairs[:3]}, {len(left)} and {len(right)} jobs")
    print(f"{sets} random sets, {compared_jobs} jobs, {different} sets with differences")
    return different


def told(rows):
    """Whether the targets are reached."""
    for row in rows:
        least = TARGETS.get(row["peer"])
        if least:
            reached = row["tailbound_times_as_fast"] >= least
            yield (
                f"{row['setting']}: {row['tailbound_times_as_fast']:,.0f} times as fast as {row['peer']},"
                f" promised {least:,}: {'reached' if reached else 'NOT REACHED'}"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short rounds: within a minute")
    parser.add_argument("--agree", action="store_true", help="compare with SimSo job by job")
    parser.add_argument("--simso", metavar="PYTHON", help="a Python that has SimSo")
    parser.add_argument("--export-json", metavar="FILE")
    parser.add_argument("programs", metavar="PROGRAM-FOLDER")
    options = parser.parse_args()
    options.rounds = 3 if options.quick else 7
    program = os.path.join(options.programs, "examples", "hierarchy_round")
    if not os.access(program, os.X_OK):
        raise SystemExit(f"needs {program}: cargo build --release --examples")
    if options.agree:
        if not (options.simso and can(options.simso, "simso")):
            skip("agreement with SimSo", "pip install simso")
            return
        sys.exit(agree(options, program) > 0)
    known = commands(options, program)
    print(
        f"{'setting':<27} {'peer':<20} {'jobs a second':>14} {'least - most':>22}"
        f" {'ratio':>15} {'peak, KiB':>11}"
    )
    rows = [row for setting in SETTINGS for row in compared(setting, known, options)]
    used = memory(program, options)
    for line in told(rows):
        print(line)
    if options.export_json:
        with open(options.export_json, "w", encoding="utf-8") as file:
            found = {"schema_version": 1, "benchmark": "simulator", "rows": rows, "memory": used}
            json.dump(found, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
