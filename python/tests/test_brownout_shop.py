"""The shop of examples/brownout on a real server, under more load than it can serve with everything."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "brownout"
PRODUCTS = 2_000
CLIENTS = 48
CLIENTS_MOST = 400
PATIENCE_S = 600.0


def load_shop() -> Any:
    """The module of the example."""
    spec = importlib.util.spec_from_file_location("shop", EXAMPLE / "shop.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


shop = load_shop()


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    shop.fill(str(path), PRODUCTS, 60_000, seed=1)
    return str(path)


class Server:
    """The shop at a port of its own, as a client sees it."""

    def __init__(self, port: int) -> None:
        self.port = port

    def report(self) -> Dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request("GET", "/tailbound/service-level")
            report: Dict[str, Any] = json.loads(connection.getresponse().read())
            return report

    def wait_for(self, is_reached: Callable[[Dict[str, Any]], bool]) -> Dict[str, Any]:
        """The first report of which this holds."""
        end_s = time.monotonic() + PATIENCE_S
        while not is_reached(report := self.report()):
            assert time.monotonic() < end_s, f"not reached: {report}"
            time.sleep(0.02)
        return report


@contextlib.contextmanager
def serving(folder: Path, catalogue: str, deadline: str) -> Iterator[Server]:
    """Two workers with many threads, all on one CPU."""
    settings = f"deadline={deadline!r}, interval='100ms', window='500ms', workers={str(folder / 'workers')!r}"
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        command = [
            sys.executable,
            "-m",
            "gunicorn",
            "--chdir",
            str(EXAMPLE),
            "--log-level",
            "warning",
        ]
        command += ["--worker-class", "gthread", "--workers", "2", "--threads", str(CLIENTS)]
        command += [
            "--keep-alive",
            "600",
            "--graceful-timeout",
            "1",
            "--bind",
            f"fd://{listener.fileno()}",
        ]
        command += [f"shop:application({catalogue!r}, start_header='X-Request-Start', {settings})"]
        cpu = max(os.sched_getaffinity(0))
        process = subprocess.Popen(
            ["taskset", "--cpu-list", str(cpu), *command], pass_fds=[listener.fileno()]
        )
        try:
            yield Server(listener.getsockname()[1])
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


class Crowd:
    """Clients that ask for one product after the other, without a pause; or all for the same."""

    def __init__(self, server: Server, clients: int, product: Optional[int] = None) -> None:
        self._server = server
        self._product = product
        self._ends = threading.Event()
        self.latencies_s: List[float] = []
        self.with_recommendations: List[bool] = []
        self._threads: List[threading.Thread] = []
        self._clients = clients

    @property
    def size(self) -> int:
        """The number of clients."""
        return len(self._threads)

    def grow(self, clients: int) -> None:
        """Lets so many more come."""
        for _ in range(clients):
            self._threads.append(threading.Thread(target=self._ask, args=(self.size,)))
            self._threads[-1].start()

    def __enter__(self) -> Crowd:
        self.grow(self._clients)
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, seed: int) -> None:
        numbers = random.Random(seed)
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            while not self._ends.is_set():
                begin_s = time.monotonic()
                product = self._product or shop.popular(PRODUCTS, numbers)
                # As a proxy does, so that the queue before the server's threads counts.
                headers = {"X-Request-Start": f"t={time.time():.6f}"}
                connection.request("GET", f"/product/{product}", headers=headers)
                body = connection.getresponse().read()
                self.latencies_s.append(time.monotonic() - begin_s)
                self.with_recommendations.append(b"Others also bought" in body)

    def wait_for_answers(self, number: int) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while len(self.latencies_s) < number:
            assert time.monotonic() < end_s, f"{len(self.latencies_s)} of {number} answers"
            time.sleep(0.02)


def overload(server: Server, crowd: Crowd) -> Dict[str, Any]:
    """Lets clients come until the level has fallen: a machine whose other work ends is faster than before."""
    while (report := server.report())["service_level"] >= 0.5:
        assert len(crowd.latencies_s) < 100_000, f"not reached: {report}"
        crowd.grow(4 if crowd.size < CLIENTS_MOST else 0)
        crowd.wait_for_answers(len(crowd.latencies_s) + 2 * crowd.size)
    return report


def test_the_shop_gives_way_to_a_crowd_and_returns(tmp_path: Path, catalogue: str) -> None:
    with serving(tmp_path, catalogue, "60min") as server:
        with Crowd(server, CLIENTS) as everything:
            everything.wait_for_answers(20 * CLIENTS)
    assert all(everything.with_recommendations)
    median_s = statistics.median(everything.latencies_s[5 * CLIENTS :])

    # Half of the answers keep this deadline without a controller; the slowest are far from it.
    with serving(tmp_path, catalogue, f"{int(median_s * 1e9)}ns") as server:
        with Crowd(server, CLIENTS) as crowd:
            overload(server, crowd)
            before = len(crowd.latencies_s)
            crowd.wait_for_answers(before + 10 * CLIENTS)
        assert 0 < statistics.mean(crowd.with_recommendations[before:]) < 0.9
        answered = len(crowd.latencies_s)
        report = server.wait_for(lambda report: report["requests"] >= answered)
        assert report["requests"] == answered, "both workers, and no request twice"

        with Crowd(server, 1, product=PRODUCTS) as visitor:
            server.wait_for(lambda report: report["service_level"] > 0.95)
        assert visitor.latencies_s


def test_pages_that_are_not_there_are_refused(catalogue: str) -> None:
    pages = shop.Shop(catalogue)
    for path in (
        "/product/",
        "/product/0",
        "/product/x",
        "/product/1/2",
        "/product/²",
        "/product/" + "9" * 30,
        "/x",
    ):
        assert pages._page(path, True) is None, path
    assert "/product/1" in pages._page("/", True)
    full, short = pages._page("/product/3", True), pages._page("/product/3", False)
    assert full.startswith(short) and full.count("<h2>Others also bought</h2>") == 1
    with pytest.raises(ValueError, match="there is no catalogue 'gone.db'; write one by"):
        shop.Shop("gone.db")


def test_a_catalogue_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    command = [
        sys.executable,
        str(EXAMPLE / "shop.py"),
        str(path),
        "--products",
        "20",
        "--baskets",
        "5",
    ]
    subprocess.run(command, check=True)
    again = subprocess.run(command, capture_output=True, text=True)
    assert (
        again.returncode != 0
        and "is there already; remove it, or name another file" in again.stderr
    )
