"""How long `tailbound mode add` takes: modes that the applied description did not have, admitted while it is
in force. `bench/modes` runs it; needs root.

For each number of domains a description with two modes and an agent in each domain is applied (nothing is started:
the domains' processes sleep), and ten modes are added one after the other, as often as is asked for. Told are
what the command says itself, to analyse and to make the daemon know, and the whole command from start to end.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

MODES_ADDED = 10


def description(pids):
    lines = ['schema_version = 1', 'name = "admission"', 'initial_mode = "run"', "hosts.here.cpus = [0, 1]"]
    for index, pid in enumerate(pids):
        lines.append(f"""
[domains.d{index}]
kind = "process"
pids = [{pid}]
scheduling = "rate-monotonic"
reservation = {{ budget = "{budget(index, 0, len(pids))}us", period = "10ms", cpus = [1], priority = {80 - index} }}
agent = {{ place = "outside" }}

[domains.d{index}.tasks.day]
arrivals = {{ kind = "periodic", period = "100ms" }}
execution_time = {{ kind = "constant", value = "500us" }}

[domains.d{index}.tasks.night]
arrivals = {{ kind = "periodic", period = "200ms" }}
execution_time = {{ kind = "constant", value = "1ms" }}""")
    lines.append("\n[modes.run]\n")
    lines.append(mode("rest", 1, len(pids)))
    return "\n".join(lines) + "\n"


def budget(index, number, domains):
    """Shares of 30% of the CPU, other ones in each mode, in microseconds of 10 ms."""
    weights = [2 + (place * 7 + number * 3) % 5 for place in range(domains)]
    return 3000 * weights[index] // sum(weights)


def mode(name, number, domains):
    rows = [f"[modes.{name}]", f"tasks = {json.dumps([f'd{index}.day' for index in range(domains)])}"]
    for index in range(domains):
        microseconds = budget(index, number, domains)
        rows.append(
            f'reservations.d{index} = {{ budget = "{microseconds}us", period = "10ms", cpus = [1], '
            f"priority = {80 - index} }}"
        )
    return "\n".join(rows) + "\n"


def tailbound(folder, *words):
    environment = {**os.environ, "TAILBOUND_STATE_DIR": str(folder / "state")}
    done = subprocess.run(
        ["tailbound", "-q", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"tailbound {' '.join(words)}: {done.stderr}")
    return done.stdout


def admit(domains):
    """What each of the additions took: known modes, and nanoseconds of analysis, daemon and command."""
    sleepers = [subprocess.Popen(["sleep", "600"]) for _ in range(domains)]
    found = []
    with tempfile.TemporaryDirectory(dir="/run") as name:
        folder = pathlib.Path(name)
        try:
            (folder / "system.toml").write_text(description([one.pid for one in sleepers]))
            tailbound(folder, "apply", "system.toml")
            for number in range(MODES_ADDED):
                (folder / "more.toml").write_text(mode(f"more{number}", number + 2, domains))
                begun = time.monotonic_ns()
                told = json.loads(tailbound(folder, "mode", "add", "more.toml", "--format", "json"))
                whole = time.monotonic_ns() - begun
                found.append((2 + number, told["analysis_ns"], told["daemon_ns"], whole))
        finally:
            # Whatever has failed, nothing stays in force.
            tailbound(folder, "revert")
            for one in sleepers:
                one.kill()
                one.wait()
    return found


def row(domains, found):
    def told(values):
        values = sorted(values)
        return {
            "count": len(values),
            "median_ns": int(statistics.median(values)),
            "p90_ns": values[int(0.9 * (len(values) - 1))],
            "max_ns": values[-1],
        }

    return {
        "domains": domains,
        "modes_known": [found[0][0], found[-1][0]],
        "admission": told([one[1] + one[2] for one in found]),
        "analysis": told([one[1] for one in found]),
        "daemon": told([one[2] for one in found]),
        "command": told([one[3] for one in found]),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--export-json")
    arguments = parser.parse_args()
    counts, repetitions = ([2, 12], 1) if arguments.quick else ([2, 4, 6, 8, 10, 12], 3)
    rows = []
    print(f"{'domains':>7}  {'a mode added, us':<18} {'median':>9} {'p90':>9} {'max':>9}")
    for domains in counts:
        found = [one for _ in range(repetitions) for one in admit(domains)]
        rows.append(row(domains, found))
        for what in ["admission", "analysis", "daemon", "command"]:
            told = [rows[-1][what][key] / 1e3 for key in ("median_ns", "p90_ns", "max_ns")]
            print(f"{domains:>7}  {what:<18} {told[0]:>9.0f} {told[1]:>9.0f} {told[2]:>9.0f}", flush=True)
    print("admission: analysis and daemon; command: from the start of `tailbound mode add` to its end")
    if arguments.export_json:
        pathlib.Path(arguments.export_json).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
