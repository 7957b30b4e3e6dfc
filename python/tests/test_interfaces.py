"""Resource interfaces of tasks and of descriptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tailbound
from tailbound import AnalysisError

from commands import run

CASES = Path(__file__).resolve().parents[2] / "crates/cli/tests/cases/interface.in"


def ms(value: float) -> np.timedelta64:
    return np.timedelta64(round(value * 1e6), "ns")


def test_the_least_interface_is_that_of_its_model() -> None:
    tasks = ["1ms/10ms"]
    periodic = tailbound.least_interface(tasks, ["5ms"])
    # One millisecond before 10 ms where the longest gap is 2 (5 ms - budget): 1 ms is enough.
    assert (periodic.budget, periodic.period, periodic.cpus) == (ms(1), ms(5), 1)
    assert periodic.bandwidth == pytest.approx(0.2) and periodic.tightest is not None
    early = tailbound.least_interface(
        tasks, ["10ms"], model="explicit-deadline", deadline="5ms"
    )
    late = tailbound.least_interface(tasks, ["10ms"], model="explicit-deadline", deadline="10ms")
    assert early.budget <= late.budget and early.deadline == ms(5)
    best = tailbound.least_interface(tasks, ["10ms"], model="explicit-deadline")
    assert best.budget <= early.budget and best.deadline is not None
    deferrable = tailbound.least_interface(tasks, ["5ms"], model="deferrable")
    assert deferrable.budget <= periodic.budget
    polling = tailbound.least_interface(tasks, ["5ms"], model="polling")
    assert polling.budget >= deferrable.budget
    several = tailbound.least_interface(
        ["6ms/10ms", "6ms/10ms"], ["1ms"], model="multiprocessor", cpus=3
    )
    assert several.cpus == 2 and several.bandwidth >= 1.2


def test_the_order_of_a_set_is_the_order_of_its_interface() -> None:
    tasks = ["7ms/50ms", "9ms/75ms"]
    by_set = tailbound.TaskSet.of(tasks, "rate-monotonic")
    found = tailbound.interface(by_set, "20ms")
    assert found.policy == "rm" and tailbound.interface(tasks, "20ms").policy == "edf"
    fifo = tailbound.interface(["7ms/50ms,jitter=5ms", "9ms/75ms"], "10ms", policy="fifo")
    assert fifo.best is not None and fifo.best.budget == ms(4.2)


def test_a_range_of_periods_has_a_best_one() -> None:
    tasks = ["7ms/50ms", "9ms/75ms"]
    found = tailbound.interface(tasks, "1ms..100ms", points=4, overhead="50us")
    assert found.best is not None and found.best.budget == np.timedelta64(1308065, "ns")
    frame = found.to_frame()
    assert list(frame.columns) == ["period", "budget", "bandwidth", "above_utilisation", "why"]
    assert len(frame) == 4 and found.best in found.choices
    none = tailbound.interface(["9ms/75ms/8ms"], ["10ms", "40ms"])
    assert not none and none.best is None and not any(none.choices)
    assert "no budget per 10ms" in str(none.choices[0].why)
    with pytest.raises(AnalysisError, match="no budget per 10ms") as raised:
        tailbound.least_interface(["9ms/75ms/8ms"], ["10ms", "40ms"])
    assert raised.value.kind == "no-budget-suffices"


def test_a_bandwidth_has_a_longest_delay() -> None:
    found = tailbound.interface(
        ["7ms/50ms", "9ms/75ms"], model="bounded-delay", bandwidth="30%..90%", points=3
    )
    assert [one.bandwidth for one in found.choices] == [0.3, 0.6, 0.9]
    delays = [one.delay for one in found.choices]
    assert delays == sorted(delays) and "delay" in found.to_frame().columns


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "sporadic"}, "no resource model"),
        ({"deadline": "1ms"}, "belongs to"),
        ({"jitter": "1ms"}, "belongs to"),
        ({"cpus": 2}, "belongs to"),
        ({"bandwidth": "40%"}, "belongs to"),
        ({"model": "bounded-delay", "bandwidth": "40%"}, "do not belong"),
        ({"model": "multiprocessor"}, "needs the most CPUs"),
        ({"model": "multiprocessor", "policy": "fp", "cpus": 2}, "global EDF only"),
        ({"policy": "lifo"}, "no policy 'lifo' for interfaces; there are: edf, fifo"),
        ({"overhead": "1ms"}, "no budget|budget"),
        ({"domain": "video"}, "belong to a description"),
        ({"periods": None}, "periods is missing"),
    ],
)
def test_interfaces_that_make_no_sense_are_refused(arguments: Any, message: str) -> None:
    whole = {"periods": ["5ms"], **arguments}
    ask = tailbound.interface if "domain" in whole or "bandwidth" in whole else tailbound.least_interface
    with pytest.raises(AnalysisError, match=message):
        ask(["9ms/10ms"], **whole)
    with pytest.raises(AnalysisError, match="bandwidth: \"40\" is no share"):
        tailbound.interface(["9ms/10ms"], model="bounded-delay", bandwidth="40")
    with pytest.raises(AnalysisError, match="do not look at blocking"):
        tailbound.interface(["9ms/10ms,blocking=1ms"], "5ms")


def test_the_domains_of_a_description_have_interfaces() -> None:
    file = CASES / "two-domains.toml"
    found = tailbound.interface(file, "5ms..20ms", points=3, policy="rm", compose="4ms")
    assert found and found.modes[0].cpus[0].interface is not None
    assert found.modes[0].cpus[0].interface.budget == np.timedelta64(3344828, "ns")
    frame = found.to_frame()
    assert len(frame) == 6 and list(frame[frame.is_best].domain) == ["control", "video"]
    alone = tailbound.interface(file, domain="video", model="deferrable")
    assert [one.domain for one in alone.modes[0].domains] == ["video"]
    late = tailbound.interface(file, "80ms")
    assert not late and "does not hold all interfaces" in late.objections[0]
    with pytest.raises(AnalysisError, match="no domain \"vidio\""):
        tailbound.interface(file, domain="vidio")
    with pytest.raises(AnalysisError, match="order of the domains"):
        tailbound.interface(file, policy="fifo")
    with pytest.raises(AnalysisError, match="no bounded delays"):
        tailbound.interface(file, model="bounded-delay", bandwidth="40%")
    with pytest.raises(AnalysisError, match="ask interface"):
        tailbound.least_interface(file, "5ms")


def test_the_interfaces_are_those_of_the_command_line() -> None:
    file = CASES / "two-domains.toml"
    printed = json.loads(run("interface", str(file), "--compose", "4ms", "--format", "json", "-q"))
    found = tailbound.interface(file, compose="4ms")
    assert found.document["modes"] == printed["modes"]
    options = ["--task", "7ms/50ms", "--task", "9ms/75ms", "--period", "10ms"]
    told = json.loads(
        run("interface", *options, "--model", "explicit-deadline", "--format", "json", "-q")
    )
    ours = tailbound.interface(["7ms/50ms", "9ms/75ms"], "10ms", model="explicit-deadline")
    assert ours.best is not None
    row = told["interfaces"][0]
    assert int(ours.best.budget.astype(int)) == row["budget_ns"]
    assert int(ours.best.deadline.astype(int)) == row["deadline_ns"]
    assert ours.method == told["method"] and list(ours.assumptions) == told["assumptions"]
