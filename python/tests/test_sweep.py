"""Sweeps: the bytes of the command line whoever computes them, and what is kept of them."""

from __future__ import annotations

import concurrent.futures
import datetime
import importlib.util
import json
import os
from pathlib import Path
from typing import Any, Callable, Iterator

import commands
import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

import tailbound
from tailbound import AnalysisError, _native

HOST = """
schema_version = 1
name = "small"
seed = 7
hosts.here.cpus = [0]

[domains.loop]
kind = "process"
command = ["loop"]
reservation = { budget = "2ms", period = "10ms", priority = 90, cpus = [0] }
tasks.control = { arrivals = { kind = "periodic", period = "10ms" }, execution_time = { kind = "samples", file = "times.csv" } }

[domains.service]
kind = "process"
builtin = "synthetic-service"
reservation = { budget = "6ms", period = "10ms", cpus = [0] }

[services.synthetic]
domain = "service"
protocol = "synthetic"
endpoint = "unix:s.sock"
tasks.work = { arrivals = { kind = "poisson", rate = "100/s" }, execution_time = { kind = "uniform", min = "1ms", max = "4ms" } }

[[services.synthetic.slos]]
percentile = 90
latency = "20ms"
"""
KEY = "domains.service.reservation.budget"
IN_FLIGHT = "services.synthetic.max_in_flight"
ARGUMENTS: dict[str, Any] = {
    "vary": {KEY: "4ms..7ms/1ms", "services.synthetic.scheduling": ["fifo"]},
    "seeds": 3,
    "duration": "5s",
    "warm_up": "100ms",
}
TYPED = ["--vary", f"{KEY}=4ms..7ms/1ms", "--vary", "services.synthetic.scheduling=fifo"]
TYPED += ["--seeds", "3", "--duration", "5s", "--warm-up", "100ms", "--quiet"]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("system")
    path = folder / "small.toml"
    # Samples make it depend on a file, which is not where workers are.
    path.write_text(HOST)
    (folder / "times.csv").write_text("500us\n1500us\n")
    return path


@pytest.fixture(scope="module")
def expected(system: Path) -> bytes:
    out = system.with_name("expected.csv")
    commands.run("sweep", str(system), *TYPED, "--out", str(out))
    return out.read_bytes()


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        with distributed.Client(cluster) as client:
            yield client


def on_threads(system: Path, **more: Any) -> tailbound.SweepResult:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return tailbound.sweep(system, **ARGUMENTS, executor=pool, **more)


def on_processes(system: Path, **more: Any) -> tailbound.SweepResult:
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        return tailbound.sweep(system, **ARGUMENTS, executor=pool, **more)


def on_all_cores(system: Path, **more: Any) -> tailbound.SweepResult:
    return tailbound.sweep(system, **ARGUMENTS, **more)


@pytest.mark.parametrize("way", [on_all_cores, on_threads, on_processes])
def test_rows_are_the_bytes_of_the_command_line(
    way: Callable[..., tailbound.SweepResult], system: Path, expected: bytes, tmp_path: Path
) -> None:
    assert way(system).csv.encode() == expected
    out = tmp_path / "out.csv"
    found = way(system, out=out)
    assert found.path == out
    assert out.read_bytes() == expected == found.csv.encode()
    assert sorted(tmp_path.iterdir()) == [out]


def test_a_dask_cluster_computes_the_same_bytes(
    dask: Any, system: Path, expected: bytes, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    tailbound.sweep(system, **ARGUMENTS, executor=dask, out=out)
    assert out.read_bytes() == expected


def test_an_executor_of_dask_is_an_executor(dask: Any, system: Path, expected: bytes) -> None:
    found = tailbound.sweep(system, **ARGUMENTS, executor=dask.get_executor())
    assert found.csv.encode() == expected


def test_a_cluster_needs_a_client(dask: Any, system: Path) -> None:
    with pytest.raises(AnalysisError, match=r"give distributed\.Client\(cluster\)"):
        tailbound.sweep(system, **ARGUMENTS, executor=dask.cluster)


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray")
def test_a_ray_cluster_computes_the_same_bytes(
    system: Path, expected: bytes, tmp_path: Path
) -> None:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        out = tmp_path / "out.csv"
        tailbound.sweep(system, **ARGUMENTS, executor="ray", out=out)
        assert out.read_bytes() == expected
    finally:
        ray.shutdown()


class CutOff(Exception):
    """Stands for whatever ends a sweep in its middle."""


def cut_off_after(units: int) -> Callable[[int, int], None]:
    def listener(done: int, of: int) -> None:
        assert of == 12
        if done >= units:
            raise CutOff

    return listener


def test_the_command_line_ends_what_python_began(
    system: Path, expected: bytes, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    with pytest.raises(CutOff):
        tailbound.sweep(system, **ARGUMENTS, out=out, progress=cut_off_after(5))
    journal = tmp_path / "out.csv.journal"
    assert not out.exists()
    assert len(journal.read_text().splitlines()) == 1 + 5
    commands.run("sweep", str(system), *TYPED, "--out", str(out))
    assert out.read_bytes() == expected
    assert not journal.exists()


def test_python_ends_what_was_begun(system: Path, expected: bytes, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    with pytest.raises(CutOff):
        tailbound.sweep(system, **ARGUMENTS, out=out, progress=cut_off_after(5))
    # The journal of the command line is the same; a torn line at its end is cut off.
    journal = tmp_path / "out.csv.journal"
    journal.write_bytes(journal.read_bytes() + b"9 0011")
    heard: list[int] = []
    found = tailbound.sweep(
        system, **ARGUMENTS, out=out, progress=lambda done, of: heard.append(done)
    )
    assert heard == list(range(5, 13))
    assert found.csv.encode() == expected == out.read_bytes()


def test_a_journal_in_use_or_of_another_sweep_is_left_alone(
    system: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    refusals = []

    def again(done: int, of: int) -> None:
        if done == 1:
            with pytest.raises(AnalysisError, match="another sweep is writing") as refused:
                tailbound.sweep(system, **ARGUMENTS, out=out)
            refusals.append(refused)
            raise CutOff

    with pytest.raises(CutOff):
        tailbound.sweep(system, **ARGUMENTS, out=out, progress=again)
    assert len(refusals) == 1
    with pytest.raises(AnalysisError, match="journal of another sweep"):
        tailbound.sweep(system, {KEY: ["5ms"]}, duration="1s", out=out)


def test_parquet_holds_what_the_csv_holds(system: Path, expected: bytes, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    found = tailbound.sweep(system, **ARGUMENTS, out=out)
    assert found.csv.encode() == expected
    assert sorted(tmp_path.iterdir()) == [out]
    table = pyarrow.parquet.read_table(out)
    assert table.to_pydict() == found.to_columns()
    units = {field.name: (field.metadata or {}).get(b"unit") for field in table.schema}
    assert units["p99_ns"] == b"ns" and units["cpu_share"] == b"CPUs"
    assert all((unit == b"ns") == name.endswith("_ns") for name, unit in units.items())
    about = json.loads(table.schema.metadata[b"tailbound"])
    assert about["varied"] == [KEY, "services.synthetic.scheduling"]
    assert (about["duration_ns"], about["warm_up_ns"]) == (5_000_000_000, 100_000_000)
    assert about["tailbound_version"] == tailbound.__version__
    assert about["engine"] == _native.ENGINE >= 1


def test_parquet_is_on_the_disk_before_the_journal_goes(
    system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.parquet"
    heard: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        heard.append(f"sync {os.readlink(f'/proc/self/fd/{descriptor}')}")
        assert (tmp_path / "out.parquet.journal").exists()
        sync(descriptor)

    def replaced(old: Path, new: Path) -> None:
        heard.append(f"replace {new}")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    tailbound.sweep(system, {KEY: ["6ms"]}, duration="1s", out=out)
    assert heard == [f"sync {out}.partial", f"replace {out}", f"sync {tmp_path}"]
    assert sorted(tmp_path.iterdir()) == [out]


def test_frame_and_columns_are_typed(system: Path, tmp_path: Path) -> None:
    found = tailbound.sweep(system, **ARGUMENTS)
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert ",".join(frame.columns) == found.csv.splitlines()[0]
    assert list(frame[KEY].unique()) == ["4ms", "5ms", "6ms", "7ms"]
    assert list(frame["seed"].unique()) == [7, 8, 9]
    service = frame[(frame["task"] == "*")]
    assert len(service) == 12 and service["p99_ns"].notna().all()
    means = service.groupby(KEY)["mean_ns"].mean()
    assert means.is_monotonic_decreasing
    assert frame.loc[frame["task"].isna(), "jobs"].isna().all()
    columns = found.to_columns()
    assert columns["jobs"][0] is None and isinstance(columns["cpu_share"][0], float)
    copy = tmp_path / "copy.csv"
    found.to_csv(copy)
    assert copy.read_bytes() == found.csv.encode()


def test_rows_are_what_simulate_says(system: Path) -> None:
    found = tailbound.sweep(system, {KEY: ["6ms"]}, duration="5s").to_frame()
    simulated = tailbound.simulate(system, "5s", percentiles=[50, 99])
    for task in simulated.tasks:
        (row,) = found[(found["domain"] == task.domain) & (found["task"] == task.name)].to_dict(
            "records"
        )
        assert (row["jobs"], row["misses"]) == (task.released, task.missed) or (
            np.isnat(task.deadline)
        )
        assert row["cpu_share"] == task.cpu_share
        assert row["p50_ns"] == task.percentiles[0][1].upper_ns
        assert row["p99_ns"] == task.percentiles[1][1].upper_ns


def test_values_are_spelled_as_in_a_description(system: Path) -> None:
    texts = tailbound.sweep(system, {KEY: ["4ms", "5.5ms"], IN_FLIGHT: ["1", "2"]}, duration="1s")
    values = [datetime.timedelta(milliseconds=4), np.timedelta64(5500, "us")]
    typed = tailbound.sweep(system, {KEY: values, IN_FLIGHT: [1, np.int64(2)]}, duration="1s")
    assert typed.csv == texts.csv
    percentile = tailbound.sweep(
        system, {"services.synthetic.slos.0.percentile": [90, 99.5]}, duration="1s"
    )
    assert "\n99.5,7," in percentile.csv


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(vary={"domains.servise.reservation.budget": ["1ms"]}), "did you mean"),
        (dict(vary={KEY: ["11ms"]}), "longer than the period"),
        (dict(vary={KEY: []}), "there is no value"),
        (dict(vary={KEY: "1ms..2ms"}), "no step"),
        (dict(vary={KEY: [None]}), "takes texts, numbers"),
        (dict(vary={KEY: ["4ms"]}, seeds=0), "seeds is 0"),
        (dict(vary={"seed": [1, 2]}), "seeds=10"),
        (dict(vary={KEY: ["4ms", "4000us"]}), "are the same description"),
        (dict(vary={IN_FLIGHT: ["5 # x"]}), IN_FLIGHT),
        (dict(vary={KEY: ["4ms"]}, variant="none-such"), "there is no variant"),
        (dict(vary={KEY: ["4ms"]}, mode="off"), "there is no mode"),
        (dict(vary={KEY: ["4ms"]}, executor=3), "computes nothing"),
        (dict(vary={KEY: ["4ms"]}, duration="0s"), "duration is zero"),
    ],
)
def test_what_cannot_be_swept_is_refused(
    system: Path, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(AnalysisError, match=words):
        tailbound.sweep(system, **{"duration": "1s", **arguments})


def test_what_fails_elsewhere_is_told_here(system: Path, tmp_path: Path) -> None:
    """Points are checked before, but only their simulation tells that it would never end."""
    out = tmp_path / "out.csv"
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        with pytest.raises(AnalysisError, match="things would happen") as refused:
            tailbound.sweep(
                system, {KEY: ["6ms"]}, duration="100000000s", executor=pool, out=out
            )
    assert refused.value.kind == "invalid"
    assert not out.exists()
