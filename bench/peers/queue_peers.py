"""p50, p90 and p99 of Poisson queues on reservation servers: Tailbound and its peers in one run.

    queue_peers.py OUTPUT.json PROGRAM-FOLDER

PROGRAM-FOLDER holds the release example queue_round. Every row is the median of repetitions, taken in
turns; "ratio" is to Tailbound, which is measured twice, so that the row "again" tells the noise. Python
is started, and numba has compiled, before any clock runs.
"""

import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

# Rate, execution time, budget, period, rule: the thesis's base, its promise, and figure 4.10c.
SETTINGS = [
    ("base", 0.4, 1.0, 1.2, 2.0, "deferrable"),
    ("promise", 0.4, 1.0, 2.8, 4.0, "deferrable"),
    ("own CPU", 0.4, 1.0, 1.0, 1.0, "deferrable"),
]
ROUNDS = 7
SHARES = (0.5, 0.9, 0.99)
# A simulation runs until the interval of p99 is as narrow as this, relative, or for so long.
NARROW, LONGEST_S = 0.01, 30.0


def skip(name, why):
    print(f"SKIP {name}: {why}", file=sys.stderr, flush=True)


class Ours:
    def __init__(self, folder):
        program = os.path.join(folder, "examples", "queue_round")
        if not os.access(program, os.X_OK):
            raise SystemExit(f"needs {program}: cargo build --release --examples")
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, setting):
        _, *numbers, rule = setting
        self.process.stdin.write(" ".join(map(str, numbers)) + f" {rule}\n")
        self.process.stdin.flush()
        took_ns, *quantiles = self.process.stdout.readline().split()
        return int(took_ns) * 1e-9, [float(value) for value in quantiles]


def timed(answer):
    def measured(setting):
        start = time.perf_counter()
        quantiles = answer(setting)
        return time.perf_counter() - start, quantiles

    return measured


def discretised(slots):
    from discretised import probabilities

    def answer(setting):
        _, rate, execution, budget, period, _ = setting
        law = np.cumsum(probabilities(rate, execution, budget, period, slots, neglected=1e-9))
        return [float(np.searchsorted(law, share)) * execution / slots for share in SHARES]

    return answer


def simpy_jobs(simpy, setting, generator, take):
    """Jobs on a deferrable server, as processes; `take` is called with each response."""
    _, rate, execution, budget, period, _ = setting
    environment = simpy.Environment()
    queue = simpy.Store(environment)
    state = {"left": budget}
    refill = [environment.event()]

    def replenishments():
        while True:
            yield environment.timeout(period)
            state["left"] = budget
            old, refill[0] = refill[0], environment.event()
            old.succeed()

    def arrivals():
        while True:
            yield environment.timeout(generator.exponential(1 / rate))
            queue.put(environment.now)

    def server():
        while True:
            came = yield queue.get()
            work = execution
            # Shorter times than this vanish beside the time since the start.
            while work > 1e-6:
                if state["left"] <= 1e-6:
                    yield refill[0]
                begin, own = environment.now, refill[0]
                yield environment.timeout(min(work, state["left"])) | own
                work -= environment.now - begin
                if not own.triggered:
                    state["left"] -= environment.now - begin
            take(environment.now - came)

    environment.process(replenishments())
    environment.process(arrivals())
    environment.process(server())
    return environment


def until_narrow(advance, responses):
    """Goes on until the interval of p99 over 20 batches is narrow; quantiles and its width."""
    end = time.perf_counter() + LONGEST_S
    while True:
        advance()
        batches = np.array_split(np.array(responses), 20)
        values = np.array([np.quantile(batch, 0.99) for batch in batches])
        width = 2 * 2.09 * values.std(ddof=1) / 20**0.5 / values.mean()
        if width <= NARROW or time.perf_counter() > end:
            return [float(np.quantile(responses, share)) for share in SHARES], width


def simpy_answer(simpy, widths):
    def answer(setting):
        responses = []
        environment = simpy_jobs(simpy, setting, np.random.default_rng(7), responses.append)

        def advance():
            environment.run(until=environment.now + 20_000 / setting[1])

        quantiles, widths[setting[0], "SimPy"] = until_narrow(advance, responses)
        return quantiles

    return answer


def ciw_answer(ciw, widths):
    """Ciw knows servers on a schedule, not deferrable ones: an own CPU only."""

    def answer(setting):
        _, rate, execution, *_ = setting
        responses, seed = [], [0]

        def advance():
            seed[0] += 1
            ciw.seed(seed[0])
            network = ciw.create_network(
                arrival_distributions=[ciw.dists.Exponential(rate)],
                service_distributions=[ciw.dists.Deterministic(execution)],
                number_of_servers=[1],
            )
            simulation = ciw.Simulation(network)
            simulation.simulate_until_max_time(40_000 / rate)
            records = simulation.get_all_records()
            responses.extend(record.exit_date - record.arrival_date for record in records[1_000:])

        quantiles, widths[setting[0], "Ciw"] = until_narrow(advance, responses)
        return quantiles

    return answer


def line_answer(line):
    """LINE knows no budgets: an own CPU only. Its distribution of responses is exponential."""

    def answer(setting):
        _, rate, execution, *_ = setting
        model = line.Network("M/D/1")
        source, sink = line.Source(model, "source"), line.Sink(model, "sink")
        queue = line.Queue(model, "queue", line.SchedStrategy.FCFS)
        job = line.OpenClass(model, "job")
        source.set_arrival(job, line.Exp(rate))
        queue.set_service(job, line.Det(execution))
        model.link(line.Network.serial_routing(source, queue, sink))
        # It tells its progress on standard output.
        with contextlib.redirect_stdout(sys.stderr):
            found = line.SolverMVA(model).get_cdf_resp_t()[0]
        return [float(np.interp(share, found["p"], found["t"])) for share in SHARES]

    return answer


def peers(setting, folder, widths):
    """Name, how often, and what measures; the first is the baseline."""
    ours = Ours(folder)
    yield "tailbound", ROUNDS, ours
    yield "tailbound, again", ROUNDS, ours
    for slots in (20, 100):
        yield f"discretised, numba, {slots} slots", ROUNDS, timed(discretised(slots))
    own_cpu = setting[3] == setting[4]
    simulators = [("SimPy", "simpy", simpy_answer, True), ("Ciw", "ciw", ciw_answer, own_cpu)]
    for name, module, make, fits in simulators:
        if fits and importlib.util.find_spec(module):
            yield name, 1, timed(make(importlib.import_module(module), widths))
    if own_cpu and importlib.util.find_spec("line_solver"):
        yield "LINE, MVA", 3, timed(line_answer(importlib.import_module("line_solver")))


def compared(setting, folder):
    widths, times, answers = {}, {}, {}
    chosen = list(peers(setting, folder, widths))
    for _, rounds, measure in chosen:
        if rounds > 1:
            measure(setting)
    for turn in range(ROUNDS):
        for name, rounds, measure in chosen:
            if turn < rounds:
                took_s, answers[name] = measure(setting)
                times.setdefault(name, []).append(took_s)
    base_s = statistics.median(times["tailbound"])
    rows = []
    for name, taken in times.items():
        median_s = statistics.median(taken)
        off = [value / own - 1 for value, own in zip(answers[name], answers["tailbound"])]
        width = widths.get((setting[0], name))
        rows.append(
            {
                "setting": setting[0], "peer": name, "rounds": len(taken), "median_s": median_s,
                "least_s": min(taken), "most_s": max(taken), "ratio": median_s / base_s, "quantiles_s": answers[name],
                "relative_to_tailbound": off, "p99_interval_relative": width,
            }
        )
        told = f", p99 interval {width:.1%}" if width is not None else ""
        print(
            f"{setting[0]:<9} {name:<28} {median_s * 1e3:>11.2f} ms"
            f" {min(taken) * 1e3:>9.2f} - {max(taken) * 1e3:<9.2f}{rows[-1]['ratio']:>8.2f}"
            f"   p50 {off[0]:+.2%}, p90 {off[1]:+.2%}, p99 {off[2]:+.2%}{told}",
            flush=True,
        )
    return rows


def main():
    output, folder = sys.argv[1:3]
    missing = {
        "simpy": "pip install simpy",
        "ciw": "pip install ciw",
        "line_solver": "pip install line-solver",
    }
    for module, remedy in missing.items():
        if not importlib.util.find_spec(module):
            skip(module, f"not installed; {remedy}")
    skip("pyCPA", "the package registry has no distribution of it")
    skip("SchedCAT", "no package registry has it, and no documented numbers of it are at hand")
    print(f"{'setting':<9} {'peer':<28} {'median':>14} {'least - most, ms':>21}{'ratio':>8}   quantiles, relative to tailbound")
    rows = [row for setting in SETTINGS for row in compared(setting, folder)]
    with open(output, "w", encoding="utf-8") as file:
        json.dump({"schema_version": 1, "benchmark": "queue_peers", "rows": rows}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
