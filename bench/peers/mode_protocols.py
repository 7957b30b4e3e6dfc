"""Missed deadlines in mode changes under each protocol, counted: one domain under ds-freeze whose two modes have
other tasks, changed to and fro at random instants. `bench/modes` runs it; needs root.

`long` (34 ms in 60 ms) runs in one mode, `short` (14 ms in 25 ms, of the higher priority) in the other, on 8 ms in
10 ms: either meets its deadlines alone, and what is left of `long` does not if `short` starts at once. The tasks'
last jobs go on when they are stopped. Protocols take turns.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import tempfile
import time

TASKS = {"short": (25, 14_000), "long": (60, 34_000)}
# As counted; a tenth less is executed, since the loop takes longer beside a busy sibling.
EXECUTED = 0.9
PROTOCOLS = [
    ("none", "at-once"),
    ("idle-time", "when-done"),
    ("maximum-period-offset", "at-once"),
    ("minimum-single-offset", "at-once"),
]


def description(protocol, pid):
    tasks = "\n".join(
        f'tasks.{name} = {{ arrivals = {{ kind = "periodic", period = "{period}ms" }}, '
        f'execution_time = {{ kind = "constant", value = "{work}us" }} }}'
        for name, (period, work) in TASKS.items()
    )
    return f"""schema_version = 1
name = "protocols"
initial_mode = "long"
hosts.here.cpus = [0, 1]
mode_changes = {{ protocol = "{protocol}", least_gap = "100ms", timeout = "2s", boost = "1ms" }}
[domains.arm]
kind = "process"
pids = [{pid}]
scheduling = "rate-monotonic"
reservation = {{ budget = "8ms", period = "10ms", cpus = [1], priority = 50 }}
agent = {{ place = "inside" }}
{tasks}
[modes.long]
tasks = ["arm.long"]
[modes.short]
tasks = ["arm.short"]
"""


def run(protocol, answer, changes, draw):
    """Jobs and misses by task, and the time of each change in milliseconds."""
    with tempfile.TemporaryDirectory(dir="/run") as name:
        folder = pathlib.Path(name)
        environment = {**os.environ, "TAILBOUND_STATE_DIR": str(folder / "state")}

        def tailbound(*words):
            done = subprocess.run(
                ["tailbound", "-q", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise SystemExit(f"tailbound {' '.join(words)}: {done.stderr}")
            return done.stdout

        tasks = [f"{name},{period},{int(work * EXECUTED)}" for name, (period, work) in TASKS.items()]
        domain = subprocess.Popen(
            ["protocol_tasks", "--connect", str(folder / "state/modes.sock"), "--answer", answer, *tasks],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            domain.stdout.readline()
            (folder / "system.toml").write_text(description(protocol, domain.pid))
            tailbound("apply", "system.toml")
            while "not connected" in tailbound("mode", "list"):
                time.sleep(0.02)
            time.sleep(0.5)
            took = []
            for change in range(changes):
                time.sleep(0.2 + draw.random() * 0.06)
                tailbound("mode", "set", ["short", "long"][change % 2], "--export-json", "change.json")
                told = json.loads((folder / "change.json").read_text())
                took.append(told["latency_ns"] / 1e6)
            time.sleep(0.2)
            tailbound("revert")
            out, _ = domain.communicate(timeout=30)
            counts = {name: (int(jobs), int(missed)) for name, jobs, missed in map(str.split, out.splitlines())}
            return counts, took
        except BaseException:
            # Whatever has failed, nothing stays in force.
            subprocess.run(["tailbound", "-q", "revert"], env=environment, capture_output=True, check=False)
            raise
        finally:
            domain.kill()
            domain.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--export-json")
    arguments = parser.parse_args()
    repetitions, changes = (1, 10) if arguments.quick else (3, 40)
    draw = random.Random(1)
    found = {protocol: [] for protocol, _ in PROTOCOLS}
    for _ in range(repetitions):
        for protocol, answer in PROTOCOLS:
            found[protocol].append(run(protocol, answer, changes, draw))
    rows = []
    print(f"{'protocol':<24} {'changes':>8} {'long: missed':>14} {'short: missed':>14} {'took, ms: mean':>15} {'max':>7}")
    for protocol, answer in PROTOCOLS:
        sums = {
            task: [sum(counts[task][index] for counts, _ in found[protocol]) for index in (0, 1)] for task in TASKS
        }
        took = [one for _, times in found[protocol] for one in times]
        rows.append(
            {
                "protocol": protocol,
                "answer": answer,
                "changes": len(took),
                "jobs": {task: sums[task][0] for task in TASKS},
                "missed": {task: sums[task][1] for task in TASKS},
                "missed_by_repetition": [{task: counts[task][1] for task in TASKS} for counts, _ in found[protocol]],
                "mean_ms": sum(took) / len(took),
                "max_ms": max(took),
            }
        )
        told = [f"{sums[task][1]} of {sums[task][0]}" for task in ("long", "short")]
        print(
            f"{protocol:<24} {len(took):>8} {told[0]:>14} {told[1]:>14} {rows[-1]['mean_ms']:>15.1f} {max(took):>7.1f}"
        )
    if arguments.export_json:
        pathlib.Path(arguments.export_json).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
