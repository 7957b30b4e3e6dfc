"""Simulation: schedules that can be followed by hand, what the seed does, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tailbound
from tailbound import AnalysisError

HOST = """
schema_version = 1
name = "two"

[hosts.edge]
cpus = [0, 1]

[domains.vm]
kind = "qemu-vm"
scheduling = "rate-monotonic"
reservation = {{ budget = "6ms", period = "10ms", cpus = [0] }}

[domains.vm.tasks.fast]
arrivals = {{ kind = "periodic", period = "5ms" }}
execution_time = {{ kind = "constant", value = "1ms" }}

[domains.vm.tasks.slow]
arrivals = {{ kind = "periodic", period = "10ms" }}
execution_time = {{ kind = "constant", value = "{slow}" }}

[domains.batch]
kind = "process"
builtin = "cpu-hog"
cpus = [0]
"""

SOFT = """
schema_version = 1
name = "soft"

[hosts.edge]
cpus = [0]

[domains.plant]
kind = "process"
pids = [1]
cpus = [0]
scheduling = "rate-monotonic"
aperiodic = {{ policy = "{policy}", tasks = ["queries"] }}

[domains.plant.tasks.control]
arrivals = {{ kind = "periodic", period = "10ms" }}
execution_time = {{ kind = "constant", value = "2ms" }}

[domains.plant.tasks.plan]
arrivals = {{ kind = "periodic", period = "20ms" }}
execution_time = {{ kind = "constant", value = "6ms" }}

[domains.plant.tasks.queries]
arrivals = {{ kind = "periodic", period = "40ms", offset = "1ms" }}
execution_time = {{ kind = "constant", value = "14ms" }}
"""

QUEUE = """
schema_version = 1
name = "queue"

[hosts.edge]
cpus = [0]

[domains.loop]
kind = "process"
cpus = [0]

[domains.loop.tasks.work]
arrivals = { kind = "poisson", rate = "0.4/s" }
execution_time = { kind = "constant", value = "1s" }
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "system.toml"
    path.write_text(text, encoding="utf-8")
    return path


def ms(value: float) -> np.timedelta64:
    return np.timedelta64(round(value * 1e6), "ns")


def test_a_schedule_is_as_worked_out_by_hand(tmp_path: Path) -> None:
    # fast 0-1, slow 1-4, fast 5-6: 5 of 6 ms, so the hog has what is left, half of the CPU.
    found = tailbound.simulate(write(tmp_path, HOST.format(slow="3ms")), "1s")
    fast, slow = (task for task in found.tasks if task.domain == "vm")
    assert (fast.name, fast.released, fast.missed, fast.longest) == ("fast", 200, 0, ms(1))
    assert (slow.name, slow.longest, slow.deadline) == ("slow", ms(4), ms(10))
    p99 = dict(slow.percentiles)[99]
    assert p99.lower <= ms(4) <= p99.upper
    shares = {domain.name: domain.cpu_share for domain in found.domains}
    assert shares == pytest.approx({"batch": 0.5, "vm": 0.5})
    assert found.is_fine
    assert [cpu.cpu for cpu in found.cpus if cpu.busy_share > 0] == [0]


@pytest.mark.parametrize(("policy", "plan"), [("dual-priority", 18), ("slack-stealing", 20)])
def test_soft_jobs_come_before_hard_ones(tmp_path: Path, policy: str, plan: int) -> None:
    # The scenarios of these names among the tests of the simulator, worked out by hand.
    found = tailbound.simulate(write(tmp_path, SOFT.format(policy=policy)), "40ms")
    longest = {task.name: task.longest for task in found.tasks}
    assert longest == {"control": ms(10), "plan": ms(plan), "queries": ms(23)}
    assert found.is_fine


def test_what_piles_up_and_misses_is_told(tmp_path: Path) -> None:
    found = tailbound.simulate(write(tmp_path, HOST.format(slow="5ms")), "1s")
    vm = next(domain for domain in found.domains if domain.name == "vm")
    assert vm.growth is not None and "0.7000" in vm.growth and "0.6000" in vm.growth
    assert not found.is_fine


def test_a_queue_answers_as_the_analysis_says(tmp_path: Path) -> None:
    found = tailbound.simulate(
        write(tmp_path, QUEUE), "200000s", warm_up="1000s", percentiles=[50, 90]
    )
    (task,) = found.tasks
    exact = tailbound.predict(rate="0.4/s", execution_time="1s", server="dedicated")
    for percentile, interval in task.percentiles:
        assert interval.seconds == pytest.approx(exact.quantile(percentile / 100).seconds, rel=0.03)


def test_the_seed_makes_it_repeatable(tmp_path: Path) -> None:
    path = write(tmp_path, QUEUE)
    one, same, other = (tailbound.simulate(path, "1000s", seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one.to_frame(), same.to_frame())
    assert not one.to_frame().equals(other.to_frame())
    assert (one.seed, other.seed) == (1, 2)


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    broken = QUEUE.replace('kind = "poisson"', 'kind = "poison"')
    with pytest.raises(AnalysisError, match=r"system\.toml:13:.*poison"):
        tailbound.simulate(write(tmp_path, broken), "1s")
    with pytest.raises(AnalysisError, match="nowhere"):
        tailbound.simulate(tmp_path / "nowhere.toml", "1s")
    path = write(tmp_path, QUEUE)
    with pytest.raises(AnalysisError, match="zero"):
        tailbound.simulate(path, "0s")
    with pytest.raises(AnalysisError, match="no mode"):
        tailbound.simulate(path, "1s", mode="night")
    with pytest.raises(AnalysisError, match="percentile 100"):
        tailbound.simulate(path, "1s", percentiles=[100])
    with pytest.raises(AnalysisError, match="seed -1"):
        tailbound.simulate(path, "1s", seed=-1)


def test_a_description_is_an_object() -> None:
    description = tailbound.Description.parse(HOST.format(slow="2ms"))
    assert description.name == "two" and description.warnings == []
    found = tailbound.simulate(description, "1s")
    again = tailbound.simulate(tailbound.Description.parse(description.text), "1s")
    pd.testing.assert_frame_equal(found.to_frame(), again.to_frame())
    with pytest.raises(AnalysisError, match="line|:[0-9]+"):
        tailbound.Description.parse("schema_version = 1\nname = 3\n")
    with pytest.raises(AnalysisError, match="a TaskSet"):
        tailbound.simulate(3)  # type: ignore[arg-type]


def test_simulated_response_times_stand_beside_predicted_ones() -> None:
    description = tailbound.Description.parse(RESERVED_QUEUE)
    simulated = tailbound.simulate(description, "1000s").tasks[0].response_times
    assert simulated is not None and simulated.evidence == "estimate"
    predicted = tailbound.predict(rate="400/s", execution_time="1ms", budget="2800us", period="4ms")
    found = predicted.compare(simulated, p=[0.5, 0.9])
    # The distance is small against the mean of 1.6 ms.
    assert found.wasserstein1.middle < np.timedelta64(100, "us")
    assert simulated.compare(predicted).wasserstein1.middle < np.timedelta64(100, "us")
    assert simulated.cdf("3ms").lower == pytest.approx(0.892, abs=0.02)
    assert set(simulated.to_frame().columns) == {"probability", "lower", "upper"}


RESERVED_QUEUE = """
schema_version = 1
name = "queue"

[hosts.edge]
cpus = [0]

[domains.store]
kind = "process"
builtin = "synthetic-service"
reservation = { budget = "2800us", period = "4ms", cpus = [0] }

[services.store]
domain = "store"
protocol = "synthetic"
endpoint = "unix:store.sock"

[services.store.tasks.get]
arrivals = { kind = "poisson", rate = "400/s" }
execution_time = { kind = "constant", value = "1ms" }
"""
