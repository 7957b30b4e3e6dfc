"""Writes crates/analysis/tests/golden/response_times.toml.

    tools/oracle [--jobs 2e7] [--only WORD] [--workers 2]

installs what is needed and runs this. Each setting's answer is kept in target/oracle as soon as it
is there, so that a run that was stopped goes on where it was; progress is told on standard error.
With all settings the golden file is written. With some of them (--only) it is not: what was found is
compared with what stands there, within the errors of both.

Needs Python 3.11, numpy, scipy and numba. Nothing here calls Tailbound. Every number has the oracle that it is
from and what that may be wrong by:

* closed form: M/G/1 on a CPU of its own, in 120 digits (closed_form.py);
* discretised: the thesis's method with ever shorter slots, extrapolated to none (bench/peers); its
  error is four times the change that the last number of slots made;
* simulation: of the rule itself, whole nanoseconds (simulation.py); its error is half of the interval
  that holds the mean of 100 batches in all but 1 of 10^6 cases (Student's t).

Where two oracles answer, they have to agree within both errors, and the better one is written.
"""

import argparse
import hashlib
import sys
import time
import tomllib
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
from scipy import stats

HERE = Path(__file__).resolve().parent
PEERS = HERE.parents[3] / "bench" / "peers"
sys.path[:0] = [str(HERE), str(PEERS)]
from closed_form import OwnCpu  # noqa: E402
from discretised import probabilities  # noqa: E402
from settings import SECOND, SETTINGS  # noqa: E402
from simulation import DEFERRABLE, PERIODIC, Simulation, quantile  # noqa: E402

GOLDEN = HERE.parent / "golden" / "response_times.toml"
BATCHES = 100
BINS = 1 << 16
SHARES = [0.5, 0.9, 0.99]
STUDENT = float(stats.t.ppf(1 - 0.5e-6, BATCHES - 1))
# So many times the least number of slots.
REFINEMENTS = [4, 8, 12, 16, 20]


def half_width(values):
    return STUDENT * float(np.std(values, ddof=1)) / BATCHES**0.5


def points(setting, pilot, bin_length):
    """Where the distribution function is asked for, in nanoseconds."""
    shortest = min(time for time, _ in setting.times_ns())
    grid = 10**5
    if setting.slots:
        grid = setting.times_ns()[0][0] // setting.slots
    shares = (0.3, 0.6, 0.9, 0.99, 0.999)
    found = [round(quantile(pilot, bin_length, share) / grid) * grid for share in shares]
    found += [round(at * SECOND) for at in setting.at]
    return sorted({point for point in found if point >= shortest})


def simulated(setting, jobs):
    kind = PERIODIC if setting.rule == "periodic" else DEFERRABLE
    budget, period = setting.server_ns()
    seed = sum(setting.name.encode())
    law = (setting.times_ns(), setting.batches)
    simulation = Simulation(kind, setting.rate, *law, budget, period, seed)
    # A rough histogram first, then one that reaches to twice p99.
    first = max(budget, period, max(time for time, _ in law[0])) // 64 + 1
    _, pilot, _, _ = simulation.run(200_000, bins=1 << 18, bin_length=first)
    at = points(setting, pilot, first)
    bin_length = int(2 * quantile(pilot, first, 0.99)) // BINS + 1
    rounds = [simulation.run(jobs // BATCHES, at, BINS, bin_length) for _ in range(BATCHES)]
    shares = np.array([counts / count for counts, _, _, count in rounds])
    cdf = {point: (shares[:, i].mean(), half_width(shares[:, i])) for i, point in enumerate(at)}
    shortest = min(time for time, _ in law[0])
    quantiles = {}
    for share in SHARES:
        values = np.array([quantile(histogram, bin_length, share) for _, histogram, _, _ in rounds])
        if np.all(values < shortest + bin_length):
            # Most jobs take just their execution time.
            quantiles[share] = (shortest, 0.0)
        else:
            # Within a bin the histogram does not know where a response lies.
            quantiles[share] = (values.mean(), half_width(values) + bin_length)
    means = np.array([total / count for _, _, total, count in rounds])
    return cdf, quantiles, (means.mean(), half_width(means))


def discretised(setting, at):
    """The distribution function at `at` with ever more slots, as a polynomial in 1 / slots."""
    execution = setting.times_ns()[0][0]
    budget, period = setting.server_ns()
    keeps = setting.rule == "deferrable"
    slots = [setting.slots * times for times in REFINEMENTS]
    found = []
    for count in slots:
        law = probabilities(setting.rate / SECOND, execution, budget, period, count, keeps)
        found.append(np.cumsum(law)[[point * count // execution for point in at]])

    def limit(first):
        inverse = [1 / n for n in slots[first:]]
        return np.polyfit(inverse, np.array(found[first:]), len(inverse) - 1)[-1]

    best, before = limit(0), limit(1)
    return {point: (best[i], 4 * abs(best[i] - before[i]) + 1e-10) for i, point in enumerate(at)}


def better(answers, what):
    """The one with the least error, after comparing all of them."""
    _, value, error = best = min(answers, key=lambda answer: answer[2])
    for name, other, other_error in answers:
        if abs(other - value) > error + other_error:
            raise SystemExit(f"{what}: {best[0]} {value} +- {error}, {name} {other} +- {other_error}")
    return best


def answered(setting, jobs):
    cdf, quantiles, mean = simulated(setting, jobs)
    cdf = {at: [("simulation", *found)] for at, found in cdf.items()}
    quantiles = {share: [("simulation", *found)] for share, found in quantiles.items()}
    mean = [("simulation", *mean)]
    if setting.slots:
        for at, found in discretised(setting, list(cdf)).items():
            cdf[at].append(("discretised", *found))
    if setting.own_cpu():
        own = OwnCpu(setting.rate, setting.times_ns(), setting.batches)
        for at in cdf:
            cdf[at].append(("closed form", float(own.cdf(at)), 1e-15))
        for share in quantiles:
            quantiles[share].append(("closed form", float(own.quantile(share)), 0.01))
        mean.append(("closed form", float(own.mean()), 0.01))
    name = setting.name
    return (
        {at: better(found, f"{name}, F({at})") for at, found in cdf.items()},
        {share: better(found, f"{name}, p{share}") for share, found in quantiles.items()},
        better(mean, f"{name}, mean"),
    )


def seconds(nanoseconds):
    return f"{nanoseconds / SECOND:.9f}".rstrip("0").rstrip(".") + "s"


def written(setting, answer):
    cdf, quantiles, (mean_oracle, mean, mean_error) = answer
    budget, period = setting.server_ns()
    server = f'rule = "{setting.rule}"'
    if setting.rule != "dedicated":
        server += f', budget = "{seconds(budget)}", period = "{seconds(period)}"'
    law = ", ".join(f'["{seconds(time)}", {p!r}]' for time, p in setting.times_ns())
    lines = [
        "[[setting]]",
        f'name = "{setting.name}"',
        f"rate_per_s = {setting.rate!r}",
        f"execution_times = [{law}]",
        f"batches = [{', '.join(f'[{jobs}, {p!r}]' for jobs, p in setting.batches)}]",
        f"server = {{ {server} }}",
        f"apart = {setting.apart!r}",
        "cdf = [",
    ]
    for at, (oracle, value, error) in cdf.items():
        lines.append(
            f'    {{ at = "{seconds(at)}", value = {value:.12f}, error = {error:.1e}, oracle = "{oracle}" }},'
        )
    lines += ["]", "quantiles_s = ["]
    for share, (oracle, value, error) in quantiles.items():
        lines.append(
            f"    {{ share = {share}, value = {value / SECOND:.12f}, error = {error / SECOND:.1e},"
            f' oracle = "{oracle}" }},'
        )
    lines += [
        "]",
        f"mean_s = {{ value = {mean / SECOND:.12f}, error = {mean_error / SECOND:.1e},"
        f' oracle = "{mean_oracle}" }}',
        "",
    ]
    return "\n".join(lines)


HEAD = """\
# Response times of Poisson queues on reservation servers, by oracles that share nothing with
# crates/analysis: see ../oracle/oracle.py, which wrote this file. "value" is right within "error".
# "apart" is the greatest relative distance of the bounds of p50, p90 and p99 that is accepted. Batches
# are pairs of a number of jobs and its probability; the rate counts batches.
"""


class Kept:
    """Answers in a folder, one file per setting, under a name that says what was asked."""

    def __init__(self, folder, jobs):
        self.folder, self.jobs = folder, jobs
        folder.mkdir(parents=True, exist_ok=True)
        programs = sorted([*HERE.glob("*.py"), *PEERS.glob("discretised.py")])
        # The settings are part of the name by themselves.
        sources = [path.read_bytes() for path in programs if path.name != "settings.py"]
        self.programs = hashlib.sha256(b"".join(sources)).hexdigest()

    def path(self, setting):
        asked = f"{setting!r} {self.jobs} {self.programs}"
        name = "".join(c if c.isalnum() else "-" for c in setting.name)
        return self.folder / f"{name}-{hashlib.sha256(asked.encode()).hexdigest()[:16]}.toml"

    def write(self, setting, text):
        # Whole or not at all, whenever the run is stopped.
        path = self.path(setting)
        part = path.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)


def say(text):
    print(text, file=sys.stderr, flush=True)


def solve(chosen, kept, workers):
    """Solves what is not there yet, and tells how far it is."""
    left = [setting for setting in chosen if not kept.path(setting).exists()]
    say(f"oracle: {len(chosen)} settings, {len(chosen) - len(left)} of them there already")
    start = time.monotonic()
    with ProcessPoolExecutor(workers) as pool:
        running = {pool.submit(answered, setting, kept.jobs): setting for setting in left}
        try:
            for done, future in enumerate(as_completed(running), 1):
                setting = running[future]
                kept.write(setting, written(setting, future.result()))
                spent = time.monotonic() - start
                rest = spent / done * (len(left) - done)
                say(
                    f"oracle: {done} of {len(left)} after {spent:.0f} s, about {rest:.0f} s left: "
                    f"{setting.name}"
                )
        except BaseException:
            # What runs is waited for; what has not begun is not begun.
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def numbers(setting):
    """What stands in a golden file about a setting, by name."""
    cdf = {f"F({row['at']})": row for row in setting["cdf"]}
    quantiles = {f"p{row['share']}": row for row in setting["quantiles_s"]}
    return {**cdf, **quantiles, "mean": setting["mean_s"]}


def compared(pieces):
    """What is farther from the golden file than the errors of both allow."""
    golden = tomllib.loads(GOLDEN.read_text(encoding="utf-8"))["setting"]
    golden = {setting["name"]: numbers(setting) for setting in golden}
    off, count = [], 0
    for setting in tomllib.loads("\n".join(pieces))["setting"]:
        known = golden.get(setting["name"], {})
        for what, found in numbers(setting).items():
            if what not in known:
                say(f"oracle: {setting['name']}, {what}: not in the golden file")
                continue
            count += 1
            apart = abs(found["value"] - known[what]["value"])
            # Values are written with twelve digits.
            if apart > found["error"] + known[what]["error"] + 2e-12:
                off.append(f"{setting['name']}, {what}: {found['value']}, not {known[what]['value']}")
    return off, count


def main():
    arguments = argparse.ArgumentParser(description="Oracles of response times.")
    arguments.add_argument("--jobs", type=float, default=2e7, help="simulated jobs per setting")
    arguments.add_argument("--only", default="", help="only settings with this in their name")
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--keep", type=Path, default=HERE.parents[3] / "target" / "oracle")
    arguments = arguments.parse_args()
    chosen = [setting for setting in SETTINGS if arguments.only in setting.name]
    if not chosen:
        raise SystemExit(f'oracle: no setting has "{arguments.only}" in its name')
    kept = Kept(arguments.keep, int(arguments.jobs))
    solve(chosen, kept, arguments.workers)
    pieces = [kept.path(setting).read_text(encoding="utf-8") for setting in chosen]
    if len(chosen) == len(SETTINGS):
        GOLDEN.write_text("\n".join([HEAD, *pieces]), encoding="utf-8")
        say(f"oracle: wrote {GOLDEN.name}, {len(pieces)} settings")
        return
    print("\n".join(pieces))
    off, count = compared(pieces)
    if off:
        raise SystemExit("oracle: outside of the errors of both:\n" + "\n".join(off))
    say(f"oracle: {count} numbers agree with {GOLDEN.name} within the errors of both")


if __name__ == "__main__":
    main()
