#!/usr/bin/env python3
"""Two or four shops on one CPU, with users in steps: capacities by `tailbound balance`, static parts, and the kernel's
weights alone.

    sudo examples/brownout/experiment.py --tailbound target/debug/tailbound --results /tmp/brownout
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import importlib.util
import json
import os
import random
import signal
import socketserver
import statistics
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

PRODUCTS = 500
BASKETS = 30_000
# The name of each shop and its deadline.
SHOPS = (("books", 1.0), ("lamps", 0.5), ("games", 1.0), ("tools", 0.5))
# What the users of each shop would take of the CPU if every page had everything, phase by phase, by the number of shops.
STEPS: Dict[int, Sequence[Sequence[float]]] = {
    2: ((0.5, 0.15), (0.5, 0.7), (0.2, 0.9), (1.2, 1.2), (0.3, 0.3)),
    4: ((0.15,) * 4, (0.7, 0.1, 0.1, 0.1), (0.6,) * 4, (0.1, 0.6, 0.6, 0.6), (0.15,) * 4),
}
# A shop at this level leaves out so little that it does not count as one that gives way.
FULL_LEVEL = 0.95
THINK_S = 1.0
PERIOD_MS = 100
WHOLE_MS = 90
CPU = 0
VARIANTS = ("balance", "static", "weights")
TICKS = os.sysconf("SC_CLK_TCK")

COLUMNS = (
    "variant at_s phase shop users cpu_share service_level matching_value latency_s"
).split()


class ThreadingServer(socketserver.ThreadingMixIn, WSGIServer):
    """A server of WSGI with a thread for each request."""

    daemon_threads = True
    request_queue_size = 1024


class SilentHandler(WSGIRequestHandler):
    """Writes no line for each request."""

    def log_message(self, *_: Any) -> None:
        pass


def load_shop() -> Any:
    """The module of the shop beside this file."""
    path = Path(__file__).with_name("shop.py")
    spec = importlib.util.spec_from_file_location("shop", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def serve(database: str, deadline: str) -> None:
    """Serves a shop on the CPU of the experiment; the port goes to standard output."""
    os.sched_setaffinity(0, {CPU})
    server = ThreadingServer(("127.0.0.1", 0), SilentHandler)
    server.set_app(load_shop().application(database, deadline=deadline))
    print(server.server_port, flush=True)
    server.serve_forever()


@dataclass
class ShopProcess:
    """A shop, and its users."""

    name: str
    deadline_s: float
    process: "subprocess.Popen[str]"
    port: int
    wanted_users: int = 0
    users: List["asyncio.Task[None]"] = field(default_factory=list)
    visits: List["Visit"] = field(default_factory=list)

    def cpu_s(self) -> float:
        """The CPU time that the shop has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def report(self) -> Dict[str, Any]:
        url = f"http://127.0.0.1:{self.port}/tailbound/service-level"
        with urllib.request.urlopen(url, timeout=60) as answer:
            report: Dict[str, Any] = json.loads(answer.read())
        return report


@dataclass
class Visit:
    """A page that a user got."""

    at_s: float
    latency_s: float
    is_whole: bool


def start_shops(database: str, count: int) -> List[ShopProcess]:
    shops = []
    for name, deadline_s in SHOPS[:count]:
        # A session of its own is what the kernel weighs, where it groups sessions.
        process = subprocess.Popen(
            [sys.executable, __file__, "--serve", database, f"{1000 * deadline_s:.0f}ms"],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        shops.append(ShopProcess(name, deadline_s, process, int(process.stdout.readline())))
    return shops


def end(process: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> None:
    process.send_signal(number)
    process.wait(60)


def page_cost_s(shop: ShopProcess) -> float:
    """The CPU time of a page with everything, measured by the kernel, whatever else runs."""
    numbers = random.Random(1)
    before, pages = shop.cpu_s(), 0
    while shop.cpu_s() - before < 1.0 or pages < 20:
        url = f"http://127.0.0.1:{shop.port}/product/{numbers.randint(1, PRODUCTS)}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            answer.read()
        pages += 1
    return (shop.cpu_s() - before) / pages


async def visit(shop: ShopProcess, number: int, begun: float) -> None:
    """One user: thinks, gets a page, and again; leaves when there are to be fewer users."""
    numbers = random.Random(f"{shop.name} {number}")
    while number < shop.wanted_users:
        await asyncio.sleep(numbers.expovariate(1 / THINK_S))
        product = 1 + int(PRODUCTS * numbers.random() ** 1.5)
        asked = time.monotonic()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", shop.port)
            writer.write(f"GET /product/{product} HTTP/1.0\r\n\r\n".encode())
            page = await reader.read()
            writer.close()
        except OSError:
            continue
        now = time.monotonic()
        shop.visits.append(Visit(now - begun, now - asked, b"Others also bought" in page))


async def play(
    variant: str, shops: List[ShopProcess], steps: Sequence[Sequence[int]], phase_s: float
) -> List[Dict[str, Any]]:
    """All phases; a sample of each shop every second."""
    begun, samples = time.monotonic(), []
    used = [shop.cpu_s() for shop in shops]
    loop = asyncio.get_running_loop()
    for phase, users in enumerate(steps):
        for shop, wanted in zip(shops, users):
            shop.wanted_users = wanted
            shop.users = [task for task in shop.users if not task.done()]
            shop.users += [
                loop.create_task(visit(shop, number, begun)) for number in range(len(shop.users), wanted)
            ]
        at = time.monotonic()
        while time.monotonic() < begun + (phase + 1) * phase_s:
            await asyncio.sleep(1)
            now = time.monotonic()
            for place, shop in enumerate(shops):
                report = await loop.run_in_executor(None, shop.report)
                cpu_s = shop.cpu_s()
                share, used[place] = (cpu_s - used[place]) / (now - at), cpu_s
                known = (report["service_level"], report["matching_value"], report["latency_seconds"])
                row = (variant, now - begun, phase, shop.name, users[place], share, *known)
                samples.append(dict(zip(COLUMNS, row)))
            at = now
    for shop in shops:
        shop.wanted_users = 0
        for task in shop.users:
            task.cancel()
    return samples


def description(shops: List[ShopProcess], interval: float) -> str:
    """All shops with the same capacity, and the division that `balance` begins with."""
    text = f'schema_version = 1\nname = "brownout"\n\n[hosts.here]\ncpus = [{CPU}]\n\n'
    # An application that is overloaded answers late: it gets as much time as it may have.
    text += f'[balance]\ninterval = "{interval}s"\nanswer_within = "{500 * interval:.0f}ms"\n'
    text += f'capacity = "{WHOLE_MS}ms"\nmanager = "1ms"\n\n'
    for shop in shops:
        text += (
            f'[domains.{shop.name}]\nkind = "process"\npids = [{shop.process.pid}]\n'
            f'reservation = {{ backend = "cfs-quota", budget = "{1000 * WHOLE_MS // len(shops)}us", period = "{PERIOD_MS}ms", '
            f"cpus = [{CPU}] }}\n\n"
            f'[balance.applications.{shop.name}]\ndomains = ["{shop.name}"]\n'
            f'source = "http://127.0.0.1:{shop.port}/tailbound/service-level"\nleast = "5ms"\n\n'
        )
    return text


def manager(variant: str, given: argparse.Namespace, file: Path) -> "Optional[subprocess.Popen[str]]":
    """The command that limits the shops in a variant, at work."""
    verbs = {
        "balance": ["balance", str(file), "--log", str(given.results / f"intervals-{given.shops}.csv")],
        "static": ["apply", "--hold", str(file)],
    }
    if variant not in verbs:
        return None
    command = [given.tailbound, *verbs[variant]]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "until this command ends" in line:
            return process
    raise SystemExit(f"{' '.join(command)} ended:\n{said}")


def run(
    variant: str, given: argparse.Namespace, database: str, steps: List[List[int]]
) -> Tuple[List[Dict[str, Any]], List[ShopProcess]]:
    """Plays a variant. The first one measures what a page costs, and so the steps, which are the same for all."""
    shops = start_shops(database, given.shops)
    limiter = None
    try:
        if not steps:
            costs = [page_cost_s(shop) for shop in shops]
            for shares in STEPS[given.shops]:
                steps.append([max(1, round(share * (THINK_S + cost) / cost)) for share, cost in zip(shares, costs)])
            print(f"{', '.join(f'{1000 * cost:.1f} ms' for cost in costs)} a page; users {steps}", flush=True)
        file = given.results / "brownout.toml"
        file.write_text(description(shops, given.interval))
        limiter = manager(variant, given, file)
        samples = asyncio.run(play(variant, shops, steps, given.phase))
    finally:
        if limiter is not None:
            end(limiter, signal.SIGINT)
        for shop in shops:
            end(shop.process)
    return samples, shops


def summary(variant: str, samples: List[Dict[str, Any]], shops: List[ShopProcess], phase_s: float) -> Iterator[List[str]]:
    """A row for each phase and shop: the second half of the phase."""
    for phase in range(len(STEPS[len(shops)])):
        for shop in shops:
            begin, until = (phase + 0.5) * phase_s, (phase + 1) * phase_s
            own = [
                sample
                for sample in samples
                if sample["shop"] == shop.name and begin <= sample["at_s"] < until and sample["phase"] == phase
            ]
            visits = [visit for visit in shop.visits if begin <= visit.at_s < until]
            latencies = sorted(visit.latency_s for visit in visits) or [float("nan")]
            mean = {key: statistics.fmean([one[key] for one in own] or [float("nan")]) for key in COLUMNS[5:7]}
            whole = sum(visit.is_whole for visit in visits) / (phase_s / 2)
            yield [
                variant,
                str(phase + 1),
                shop.name,
                str(own[0]["users"] if own else "-"),
                f"{100 * mean['cpu_share']:.0f}%",
                f"{mean['service_level']:.2f}",
                f"{statistics.median(latencies):.2f} s",
                f"{latencies[int(0.95 * (len(latencies) - 1))]:.2f} s",
                f"{whole:.1f}/s",
            ]


@dataclass
class Verdict:
    """A variant as a whole: what its users got, and how even the loss was."""

    variant: str
    pages_per_s: float
    whole_per_s: float
    late: float
    unevenness: float

    @classmethod
    def of(cls, variant: str, samples: List[Dict[str, Any]], shops: List[ShopProcess], phase_s: float) -> "Verdict":
        visits = [(visit, shop.deadline_s) for shop in shops for visit in shop.visits]
        length_s = phase_s * len(STEPS[len(shops)])
        late = sum(visit.latency_s > deadline_s for visit, deadline_s in visits)
        return cls(
            variant,
            len(visits) / length_s,
            sum(visit.is_whole for visit, _ in visits) / length_s,
            late / max(1, len(visits)),
            max((spread for spread in spreads(samples, phase_s) if spread == spread), default=float("nan")),
        )

    def row(self) -> List[str]:
        shares = f"{100 * self.late:.1f}%", f"{100 * self.unevenness:.0f}%"
        return [self.variant, f"{self.pages_per_s:.1f}/s", f"{self.whole_per_s:.1f}/s", *shares]


def spreads(samples: List[Dict[str, Any]], phase_s: float) -> Iterator[float]:
    """For each phase the difference between the most and the least CPU time of the shops that give way, as a part of
    their mean, in the second half of the phase; not a number where fewer than two do."""
    for phase in sorted({sample["phase"] for sample in samples}):
        late = [one for one in samples if one["phase"] == phase and one["at_s"] >= (phase + 0.5) * phase_s]
        shares = []
        for shop in sorted({sample["shop"] for sample in late}):
            own = [sample for sample in late if sample["shop"] == shop]
            if statistics.fmean(sample["service_level"] for sample in own) < FULL_LEVEL:
                shares.append(statistics.fmean(sample["cpu_share"] for sample in own))
        even = statistics.fmean(shares) if len(shares) > 1 else float("nan")
        yield (max(shares) - min(shares)) / even if len(shares) > 1 else even


def print_table(header: List[str], rows: List[List[str]]) -> None:
    table = [header, *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(header))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print()


def plot(samples: List[Dict[str, Any]], path: Path) -> None:
    """Capacity, service level and latency over time, as in the paper's figure; needs altair."""
    import altair

    titles = {
        "cpu_share": "CPU",
        "matching_value": "matching value",
        "service_level": "level",
        "latency_s": "longest latency (s)",
    }
    rows = []
    for key, title in titles.items():
        chart = altair.Chart(altair.InlineData(values=samples)).mark_line(interpolate="step-after")
        chart = chart.encode(
            x=altair.X("at_s:Q", title="seconds"),
            y=altair.Y(f"{key}:Q", title=title),
            color="shop:N",
            column=altair.Column("variant:N", title=None),
        )
        rows.append(chart.properties(width=260, height=110))
    altair.vconcat(*rows).save(str(path))


def main() -> None:
    parser = argparse.ArgumentParser(description="Two or four shops on one CPU, with users in steps.")
    parser.add_argument("--tailbound", default="tailbound", help="the command")
    parser.add_argument("--results", type=Path, default=Path("brownout"), help="the folder for the samples")
    parser.add_argument("--shops", type=int, choices=sorted(STEPS), default=2)
    parser.add_argument("--phase", type=float, default=200.0, help="seconds between two steps")
    parser.add_argument("--interval", type=float, default=5.0, help="seconds from one division to the next")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--plot", type=Path, help="a picture of all samples, such as brownout.svg")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(*given.serve)
    given.results.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, os.sched_getaffinity(0) - {CPU} or {CPU})
    database = given.results / "shop.db"
    if not database.exists():
        load_shop().fill(str(database), PRODUCTS, BASKETS, seed=1)
    samples: List[Dict[str, Any]] = []
    rows: List[List[str]] = []
    verdicts: List[Verdict] = []
    steps: List[List[int]] = []
    for variant in given.variants.split(","):
        own, shops = run(variant, given, str(database), steps)
        samples += own
        rows += summary(variant, own, shops, given.phase)
        verdicts.append(Verdict.of(variant, own, shops, given.phase))
    with open(given.results / f"samples-{given.shops}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(samples)
    print_table("variant phase shop users CPU level median p95 whole".split(), rows)
    print_table(["variant", "pages", "whole pages", "late", "unevenness"], [one.row() for one in verdicts])
    if given.plot:
        plot(samples, given.plot)


if __name__ == "__main__":
    main()
