"""Sizing: the budgets that are told keep the promises, and smaller ones do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tailbound
from tailbound import AnalysisError

LOAD: dict[str, Any] = {"rate": "0.4/s", "service": "1s"}


def test_the_budget_keeps_the_promise_and_less_than_it_does_not() -> None:
    found = tailbound.size(**LOAD, promises={0.9: "3s"}, periods=["2s", "4s"])
    for choice in found.choices:
        assert choice.budget is not None
        enough = tailbound.predict(**LOAD, budget=choice.budget, period=choice.period)
        assert enough.cdf("3s").lower >= 0.9 - 1e-6
        less = choice.budget - 2 * choice.resolution - np.timedelta64(1, "ms")
        short = tailbound.predict(**LOAD, budget=less, period=choice.period)
        assert short.cdf("3s").lower < 0.9


def test_best_front_and_margin() -> None:
    found = tailbound.size(
        **LOAD, promises={0.9: "3s", 0.5: "2s"}, periods=["1s", "2s", "4s", "8s"]
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


def test_a_promise_that_no_cpu_keeps_is_proved_impossible() -> None:
    found = tailbound.size(**LOAD, promises={0.99: "3s"}, periods=["2s"])
    assert found.best is None and found.front == []
    (proof,) = found.infeasible
    assert proof.share_at_most < 0.99
    assert "not even a CPU of its own" in str(proof)
    assert found.to_frame().budget.isna().all()
    with pytest.raises(AnalysisError, match="not even a CPU of its own"):
        found.plot()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"promises": {}}, "nothing is promised"),
        ({"promises": None}, "give promises="),
        ({"promises": {99: "3s"}}, "p99 is 0.99"),
        ({"promises": {None: "3s"}}, "p99 is 0.99"),
        ({"promises": {0.9: 3}}, "with a unit"),
        ({"promises": [("0.9", "3s")]}, "shares with latencies"),
        ({"periods": []}, "no period"),
        ({"periods": ["0s"]}, "one of zero"),
        ({"server": "polling"}, "not sized"),
        ({"margin_points": -1.0}, "0 to 100"),
        ({"rate": "2/s"}, "no bandwidth of one CPU suffices"),
    ],
)
def test_what_makes_no_sense_is_refused(change: Any, message: str) -> None:
    arguments = {**LOAD, "promises": {0.9: "3s"}, "periods": ["2s"], **change}
    with pytest.raises(AnalysisError, match=message):
        tailbound.size(**arguments)
