"""Sizing: the budgets that are told keep the promises, and smaller ones do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tailbound
from tailbound import AnalysisError

LOAD: dict[str, Any] = {"rate": "0.4/s", "execution_time": "1s"}


def test_the_budget_keeps_the_promise_and_less_than_it_does_not() -> None:
    found = tailbound.size(**LOAD, slo={0.9: "3s"}, periods=["2s", "4s"])
    for choice in found.choices:
        assert choice.budget is not None
        enough = tailbound.predict(**LOAD, budget=choice.budget, period=choice.period)
        assert enough.cdf("3s").lower >= 0.9 - 1e-6
        less = choice.budget - 2 * choice.resolution - np.timedelta64(1, "ms")
        short = tailbound.predict(**LOAD, budget=less, period=choice.period)
        assert short.cdf("3s").lower < 0.9


def test_best_front_and_margin() -> None:
    found = tailbound.size(
        **LOAD, slo={0.9: "3s", 0.5: "2s"}, periods=["1s", "2s", "4s", "8s"]
    )
    assert found.best is not None and found.best in found.front
    assert found.best.bandwidth == min(one.bandwidth or 2.0 for one in found.choices)
    for choice in found.choices:
        assert choice.budget is not None and choice.budget_with_margin is not None
        added = (choice.budget_with_margin - choice.budget) / choice.period
        assert added == pytest.approx(0.05, abs=1e-6) or (
            choice.budget_with_margin == choice.period
        )
    frame = found.to_frame()
    assert len(frame) == 4
    assert frame.bandwidth.min() == found.best.bandwidth


@pytest.mark.parametrize("server", ["periodic", "polling", "constant-bandwidth"])
def test_every_server_with_a_budget_is_sized(server: Any) -> None:
    promised: dict[str, Any] = {"slo": {0.9: "4s"}, "periods": ["2s"], "server": server}
    found = tailbound.size(**LOAD, **promised)
    assert found.best is not None and found.best.budget is not None
    told = {"period": "2s", "server": server}
    enough = tailbound.predict(**LOAD, budget=found.best.budget, **told)
    assert enough.cdf("4s").lower >= 0.9 - 1e-6
    less = found.best.budget - found.best.resolution - np.timedelta64(1, "ms")
    assert tailbound.predict(**LOAD, budget=less, **told).cdf("4s").lower < 0.9
    # What loses an unused budget needs no less than what keeps it.
    keeps = tailbound.size(**LOAD, **{**promised, "server": "deferrable"})
    assert keeps.best is not None and keeps.best.budget is not None
    if server != "constant-bandwidth":
        assert found.best.budget + found.best.resolution >= keeps.best.budget
    halved = any("by halving" in one for one in found.assumptions)
    assert halved == (server in ("polling", "constant-bandwidth"))
    assert found.evidence == ("estimate" if server == "periodic" else "bound")


@pytest.mark.parametrize("server", ["polling", "constant-bandwidth"])
def test_batches_are_sized_on_servers_that_follow_the_arrivals(server: Any) -> None:
    load: dict[str, Any] = {"rate": "0.2/s", "execution_time": "1s", "batch": {1: 0.5, 3: 0.5}}
    found = tailbound.size(**load, slo={0.9: "8s"}, periods=["2s"], server=server)
    assert found.best is not None and found.best.budget is not None
    told = {"period": "2s", "server": server}
    enough = tailbound.predict(**load, budget=found.best.budget, **told)
    assert enough.cdf("8s").lower >= 0.9
    less = found.best.budget - found.best.resolution
    assert tailbound.predict(**load, budget=less, **told).cdf("8s").lower < 0.9


CONTAINER: dict[str, Any] = {"rate": "1/s", "execution_time": "30ms", "slo": "p99=100ms", "limit": True}


def test_the_least_limit_and_what_sets_it() -> None:
    # tailbound size --rate 1/s --execution-time 30ms --slo p99=100ms --limit
    found = tailbound.size(**CONTAINER)
    assert (found.limit, found.limit_with_margin) == ("383m", "433m")
    assert found.best is not None and found.best.period == np.timedelta64(100, "ms")
    assert found.evidence == "estimate"
    assert found.stanza() == "resources:\n  limits:\n    cpu: 433m\n"
    assert "CPUQuota=43.3%" in found.stanza("systemd")
    assert tailbound.size(**CONTAINER, periods="20ms").stanza("docker") == (
        "--cpu-period 20000 --cpu-quota 11000\n"
    )


def test_the_limits_of_a_description() -> None:
    text = """
schema_version = 1
name = "server"
hosts.edge.cpus = [0]

[domains.server]
kind = "process"
builtin = "synthetic-service"
reservation = { budget = "60ms", period = "100ms", cpus = [0] }

[services.server]
domain = "server"
protocol = "synthetic"
endpoint = "unix:server.sock"
slos = [{ percentile = 99, latency = "100ms" }]
tasks.get = { arrivals = { kind = "poisson", rate = "1/s" }, execution_time = { kind = "constant", value = "30ms" } }
"""
    (sized,) = tailbound.size(tailbound.Description.parse(text), limit=True)
    assert sized.sizing is not None and sized.sizing.limit == "383m"
    assert "433m" in sized.sizing.stanza()


def test_a_limit_is_asked_for() -> None:
    reserved = tailbound.size(**{**CONTAINER, "limit": False}, periods="100ms")
    assert reserved.limit is None
    with pytest.raises(AnalysisError, match="limit=True"):
        reserved.stanza()
    with pytest.raises(AnalysisError, match="no stanza of 'nomad'"):
        tailbound.size(**CONTAINER).stanza("nomad")  # type: ignore[arg-type]
    with pytest.raises(AnalysisError, match="periods from 1ms to 1s"):
        tailbound.size(**CONTAINER, periods="100ms..2s")
    with pytest.raises(AnalysisError, match="leave limit out"):
        tailbound.size(tasks=["1ms/10ms"], periods="1ms", limit=True)


def test_a_question_is_written_as_on_the_command_line() -> None:
    # tailbound size --rate 0.2/s --execution-time 1s:0.5,2s:0.5 --slo p90=6s,p50=3s --period 2s..8s
    # --points 3
    text = tailbound.size(
        rate="0.2/s",
        execution_time="1s:0.5,2s:0.5",
        slo="p90=6s,p50=3s",
        periods="2s..8s",
        points=3,
    )
    typed = tailbound.size(
        rate="0.2/s",
        execution_time={"1s": 0.5, "2s": 0.5},
        slo={0.9: "6s", 0.5: "3s"},
        periods=["2s", "4s", "8s"],
    )
    assert text == typed and text.best is not None
    listed = {"slo": ["p90=6s", "p50=3s"], "periods": ["2s", "4s", "8s"]}
    assert tailbound.size(rate="0.2/s", execution_time="1s:0.5,2s:0.5", **listed) == typed
    one: dict[str, Any] = {"slo": {0.9: "3s"}}
    assert tailbound.size(**LOAD, **one, periods="2s") == tailbound.size(
        **LOAD, **one, periods=["2s"]
    )


def test_tasks_are_sized_by_their_least_budgets() -> None:
    tasks = ["40ms/250ms+150ms", "200ms/500ms+100ms", "100ms/1s+50ms", "200ms/2s"]
    found = tailbound.size(tasks=tasks, periods="1s..4s", points=3)
    curve = tailbound.bandwidth_curve(tasks, ["1s", "2s", "4s"])
    assert [one.period for one in found.choices] == list(curve.periods)
    assert [one.budget for one in found.choices] == list(curve.budgets)
    assert found.best is not None and found.best.bandwidth == pytest.approx(0.76)
    assert found.best.budget_with_margin == np.timedelta64(3240, "ms")
    assert any("CPU of their own" in one for one in found.assumptions)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "rate is missing"),
        ({"tasks": ["1ms/2ms"], "rate": "1/s"}, "either tasks, or a rate"),
        ({"tasks": ["1ms/2ms"], "batch": 2}, "either tasks, or a rate"),
        ({"tasks": ["1ms/2ms"], "server": "polling"}, 'not for "polling"'),
        ({"tasks": []}, "at least one"),
    ],
)
def test_tasks_and_a_queue_are_two_questions(arguments: Any, message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        tailbound.size(**arguments, periods="1ms")


def test_a_promise_that_no_cpu_keeps_is_proved_impossible() -> None:
    found = tailbound.size(**LOAD, slo={0.99: "3s"}, periods=["2s"])
    assert found.best is None and found.front == []
    (proof,) = found.infeasible
    assert proof.share_at_most < 0.99
    assert "not even a CPU of its own" in str(proof)
    assert found.to_frame().budget.isna().all()
    with pytest.raises(AnalysisError, match="not even a CPU of its own"):
        found.plot()


def test_a_law_is_sized_as_on_the_command_line() -> None:
    sized = tailbound.size(
        rate="100/s",
        execution_time="exponential:mean=2ms",
        slo={0.99: "40ms"},
        periods=["10ms"],
    )
    best = sized.best
    assert best is not None and best.budget is not None and sized.evidence == "bound"
    kept = tailbound.predict(
        rate="100/s",
        execution_time="exponential:mean=2ms",
        budget_ns=int(best.budget.astype("timedelta64[ns]").astype(int)),
        period="10ms",
    )
    assert kept.cdf("40ms").upper >= 0.99
    assert best.bandwidth is not None and 0.2 < best.bandwidth < 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slo": {}}, "nothing is promised"),
        ({"slo": None}, "give slo="),
        ({"slo": {99: "3s"}}, "p99 is 0.99"),
        ({"slo": {None: "3s"}}, "p99 is 0.99"),
        ({"slo": {0.9: 3}}, "with a unit"),
        ({"slo": [("0.9", "3s")]}, "shares with latencies"),
        ({"slo": 0.9}, "shares with latencies"),
        ({"slo": "90=3s"}, "no p at its start"),
        ({"slo": ["p90=3s", "p100=4s"]}, "100 is out of range"),
        ({"slo": None, "slo_ns": "p90=3s"}, "80_000_000"),
        ({"periods": "2s..1s"}, "periods: the range from 2s to 1s falls"),
        ({"periods": "0s..1s"}, "above zero"),
        ({"periods": "1s..2s", "points": 0}, "points is 0"),
        ({"execution_time": "1s:0.5,2s"}, "execution_time: .2s. has no probability"),
        ({"periods": []}, "no period"),
        ({"periods": ["0s"]}, "one of zero"),
        ({"server": "dedicated"}, "no budget to size"),
        ({"server": "sporadic"}, "choose one of .*constant-bandwidth"),
        ({"server": None}, "give a name"),
        ({"margin_points": "5"}, "percentage points"),
        ({"margin_points": -1.0}, "0 to 100"),
        ({"rate": "2/s"}, "no bandwidth of one CPU suffices"),
    ],
)
def test_what_makes_no_sense_is_refused(change: Any, message: str) -> None:
    arguments = {**LOAD, "slo": {0.9: "3s"}, "periods": ["2s"], **change}
    with pytest.raises(AnalysisError, match=message):
        tailbound.size(**arguments)
