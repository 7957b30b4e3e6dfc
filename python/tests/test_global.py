"""Several CPUs, orders of priorities, jobs that are not interrupted, and resource interfaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tailbound
from tailbound import AnalysisError, Task


def ms(value: float) -> np.timedelta64:
    return np.timedelta64(round(value * 1e6), "ns")


def test_jobs_that_are_not_interrupted_block_others() -> None:
    tasks = [Task("1ms", "10ms"), Task("4ms", "20ms")]
    apart = tailbound.analyze(tasks, preemptive=False)
    # A job of the second may have begun just before the first is released.
    assert [one.response_time for one in apart.tasks] == [ms(5), ms(5)]
    assert "non-preemptive" in apart.method
    assert [one.response_time for one in tailbound.analyze(tasks).tasks] == [ms(1), ms(5)]
    with pytest.raises(AnalysisError, match="preemptively only"):
        tailbound.analyze(tasks, "edf", preemptive=False)


def test_an_order_is_found_where_deadlines_exceed_periods() -> None:
    # Deadline-monotonic order fails: Davis and Burns' kind of example, with one order that works.
    tasks = [
        Task("52ms", "100ms", deadline="110ms", name="a"),
        Task("52ms", "140ms", deadline="154ms", name="b"),
    ]
    assert not tailbound.analyze(tasks, "dm")
    order = tailbound.assign_priorities(tasks)
    assert order is not None and [one.name for one in order] == ["b", "a"]
    assert tailbound.analyze(order, "fp")
    assert tailbound.assign_priorities([Task("6ms", "10ms"), Task("6ms", "10ms")]) is None


def test_global_tests_bound_responses() -> None:
    tasks = [Task("1ms", "10ms"), Task("2ms", "10ms"), Task("3ms", "20ms")]
    by_priority = tailbound.analyze_global(tasks, 2, "fp")
    # The two highest of two CPUs never wait.
    assert by_priority and by_priority.response_bounds[:2] == [ms(1), ms(2)]
    alike = [Task("1ms", "10ms")] * 3
    assert tailbound.analyze_global(alike, 2).response_bounds == [ms(2)] * 3
    for test in ("edf-density", "edf-interference"):
        assert tailbound.analyze_global(tasks, 2, test)  # type: ignore[arg-type]
    overloaded = [Task("9ms", "10ms")] * 3
    assert not tailbound.analyze_global(overloaded, 2)
    with pytest.raises(AnalysisError, match="no test 'lifo'"):
        tailbound.analyze_global(tasks, 2, "lifo")  # type: ignore[arg-type]
    with pytest.raises(AnalysisError, match="cpus is 0"):
        tailbound.analyze_global(tasks, 0)


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
    assert early.budget <= late.budget
    deferrable = tailbound.least_interface(tasks, ["5ms"], model="deferrable")
    assert deferrable.budget <= periodic.budget
    several = tailbound.least_interface(
        ["6ms/10ms", "6ms/10ms"], ["1ms"], model="multiprocessor", cpus=3
    )
    assert several.cpus == 2 and several.bandwidth >= 1.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "sporadic"}, "no resource model"),
        ({"model": "explicit-deadline"}, "needs one"),
        ({"deadline": "1ms"}, "belongs to"),
        ({"jitter": "1ms"}, "belongs to"),
        ({"model": "multiprocessor", "policy": "fp"}, "edf"),
        ({"policy": "lifo"}, "no policy"),
        ({"overhead": "1ms"}, "no budget|budget"),
    ],
)
def test_interfaces_that_make_no_sense_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        tailbound.least_interface(["9ms/10ms"], **{"periods": ["5ms"], **arguments})
