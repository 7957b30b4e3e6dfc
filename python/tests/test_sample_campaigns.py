"""Campaigns on several hosts: each part once, and never two at a time on a host."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import socket
from pathlib import Path
from typing import Any, Iterator

import pytest

from tailbound import AnalysisError, sampling
from tailbound._sample_campaigns import one_worker_a_host

# A stand-in for `tailbound sample`, which refuses to run beside another one of its kind.
PROGRAM = """#!/usr/bin/env python3
import json, os, sys, time
words = sys.argv[1:]
assert words[0] == "sample" and os.path.isfile(words[1]) and os.path.isfile("walks.csv"), words
out, only = words[words.index("--out") + 1], words[words.index("--only") + 1]
busy = "{log}.busy"
os.close(os.open(busy, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
time.sleep(0.1)
os.unlink(busy)
with open("{log}", "a") as log:
    log.write(" ".join(words[words.index("--only") + 1:]) + "\\n")
if only.endswith("=bad"):
    print("first line", file=sys.stderr)
    print("tailbound: error: no such value", file=sys.stderr)
    sys.exit(1)
os.makedirs(out)
points = {"name": "points", "path": "points.csv", "schema": {"fields": [
    {"name": name, "type": "string", "title": name} for name in ["users", "host"]]}}
open(out + "/datapackage.json", "w").write(json.dumps({"resources": [points]}))
open(out + "/answers.json", "w").write(json.dumps({"answers": []}))
open(out + "/points.csv", "w").write("users,host\\r\\n" + only.split("=")[1] + ",x\\r\\n")
sys.exit(2)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a description, a file that it names, and the stand-in."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "shop.toml").write_text("schema_version = 1\n")
    (folder / "walks.csv").write_text("position\n1\n")
    program = tmp_path / "tailbound"
    program.write_text(
        PROGRAM.replace("{log}", str(tmp_path / "log")),
    )
    program.chmod(0o755)
    return folder / "shop.toml"


def measured(shop: Path, executor: Any, values: list[str]) -> list[sampling.CampaignPart]:
    root = shop.parent.parent
    return sampling.sample(
        shop,
        out=shop.parent / "parts",
        by={"users.count": values},
        executor=executor,
        program=str(root / "tailbound"),
        arguments=["--seed", "3"],
    )


def log(shop: Path) -> list[str]:
    return sorted((shop.parent.parent / "log").read_text().splitlines())


def assert_parts(shop: Path, parts: list[sampling.CampaignPart]) -> None:
    assert [dict(part.values) for part in parts] == [
        {"users.count": value} for value in ("30", "60", "90")
    ]
    assert {part.host for part in parts} == {socket.gethostname()}
    assert [sampling.read(part.folder).columns["users"] for part in parts] == [
        ["30"],
        ["60"],
        ["90"],
    ]
    assert log(shop) == [f"users.count={value} --seed 3" for value in (30, 60, 90)]


def test_parts_take_turns_on_a_host_and_are_measured_once(shop: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert_parts(shop, measured(shop, threads, ["30", "60", "90"]))
        # All parts are there: nothing is measured again.
        assert_parts(shop, measured(shop, threads, ["30", "60", "90"]))


def test_processes_take_turns_as_well(shop: Path) -> None:
    with concurrent.futures.ProcessPoolExecutor(3) as processes:
        assert_parts(shop, measured(shop, processes, ["30", "60", "90"]))


def test_a_part_that_fails_says_why_and_leaves_the_others(shop: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        with pytest.raises(RuntimeError, match="error: no such value"):
            measured(shop, threads, ["30", "bad"])
        parts = measured(shop, threads, ["30"])
    assert sampling.read(parts[0].folder).columns["users"] == ["30"]
    assert log(shop) == ["users.count=30 --seed 3", "users.count=bad --seed 3"]


def test_questions_that_make_no_sense_are_refused(shop: Path) -> None:
    with pytest.raises(AnalysisError, match="divided by one axis"):
        sampling.sample(shop, "out", {}, "ray")
    with pytest.raises(AnalysisError, match="has no values"):
        sampling.sample(shop, "out", {"a": []}, "ray")
    with pytest.raises(AnalysisError, match="is no file"):
        sampling.sample(shop.parent / "none", "out", {"a": ["1"]}, "ray")
    with pytest.raises(AnalysisError, match="measures nothing"):
        measured(shop, 7, ["30"])


@pytest.fixture
def dask() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=2, dashboard_address=None, worker_dashboard_address=None
    ) as cluster:
        with distributed.Client(cluster) as client:
            yield client


def test_a_dask_cluster_has_one_worker_on_each_host(dask: Any, shop: Path) -> None:
    assert len(one_worker_a_host(dask)) == 1
    assert_parts(shop, measured(shop, dask, ["30", "60", "90"]))


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray")
def test_a_ray_cluster_takes_turns_on_a_host(shop: Path) -> None:
    import ray

    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    try:
        assert_parts(shop, measured(shop, "ray", ["30", "60", "90"]))
    finally:
        ray.shutdown()
