"""Several CPUs, orders of priorities, jobs that are not interrupted, jitter, blocking, every test."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tailbound
from tailbound import AnalysisError, Task

from commands import run


def ms(value: float) -> np.timedelta64:
    return np.timedelta64(round(value * 1e6), "ns")


def test_jobs_that_are_not_interrupted_block_others() -> None:
    tasks = [Task("1ms", "10ms"), Task("4ms", "20ms")]
    apart = tailbound.analyze(tasks, preemptive=False)
    # A job of the second may have begun just before the first is released.
    assert [one.response_time for one in apart.tasks] == [ms(5), ms(5)]
    assert "non-preemptive" in apart.method
    assert [one.response_time for one in tailbound.analyze(tasks).tasks] == [ms(1), ms(5)]
    with pytest.raises(AnalysisError, match="not preempted under earliest deadline first"):
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
    found = tailbound.analyze(tasks, "audsley")
    assert found.schedulable and [one.task for one in found.tasks] == order
    alike = [Task("6ms", "10ms"), Task("6ms", "10ms")]
    assert tailbound.assign_priorities(alike) is None
    none = tailbound.analyze(alike, "audsley")
    assert not none and none.tasks == [] and none.why is not None
    # Messages of 1 ms, 1 ms and 1 ms that nothing preempts, in the only order that works.
    messages = ["1ms/3.5ms/3.25ms", "1ms/3.5ms/3.25ms", "1ms/2.5ms"]
    assert tailbound.assign_priorities(messages, preemptive=False) is None
    later = ["1ms/4ms/4ms", "1ms/4ms/4ms", "1ms/3ms"]
    found_order = tailbound.assign_priorities(later, preemptive=False)
    assert found_order is not None and len(found_order) == 3


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


def test_jitter_and_blocking_delay_responses() -> None:
    tasks = ["10ms/100ms,jitter=5ms", "20ms/200ms/150ms,blocking=7ms"]
    found = tailbound.analyze(tasks)
    # The first is ready 5 ms late; the second waits for 7 ms and for one job of the first.
    assert [one.response_time for one in found.tasks] == [ms(15), ms(37)]
    frame = found.to_frame()
    assert list(frame.jitter) == [ms(5), ms(0)] and list(frame.blocking) == [ms(0), ms(7)]
    as_tasks = [
        Task("10ms", "100ms", jitter="5ms"),
        Task("20ms", "200ms", deadline="150ms", blocking_ns=7_000_000),
    ]
    assert tailbound.analyze(as_tasks) == found
    assert repr(as_tasks[0]) == "Task('10ms', '100ms', jitter='5ms')"
    assert eval(repr(as_tasks[1])) == as_tasks[1]
    # A tight window of EDF, which only jitter makes too tight.
    assert tailbound.analyze(["5ms/10ms/9ms", "4ms/20ms/9ms"], "edf")
    late = tailbound.analyze(["5ms/10ms/9ms,jitter=6ms", "4ms/20ms/9ms"], "edf")
    assert not late and late.window is not None and late.why is not None
    with pytest.raises(AnalysisError, match="blocking under earliest deadline first"):
        tailbound.analyze(tasks, "edf")
    with pytest.raises(AnalysisError, match="blocking under global"):
        tailbound.analyze_global(tasks, 2)
    with pytest.raises(AnalysisError, match="jitter or blocking, which this analysis"):
        tailbound.least_budget(tasks)


def test_response_times_of_earliest_deadline_first() -> None:
    found = tailbound.analyze(["50ms/100ms", "60ms/120ms"], "edf")
    assert [one.response_time for one in found.tasks] == [ms(100), ms(120)]
    assert found.window is None and list(found.to_frame().meets_deadline) == [True, True]


def test_servers_above_take_their_budgets() -> None:
    # A deferrable server takes two budgets back to back (Strosnider, Lehoczky and Sha 1995).
    found = tailbound.analyze(["3ms/20ms"], above="deferrable:2ms/6ms")
    assert found.tasks[0].response_time == ms(7)
    polled = tailbound.analyze(["3ms/20ms"], above=["polling:2ms/6ms"])
    assert polled.tasks[0].response_time == ms(5)
    with pytest.raises(AnalysisError, match="above: there is no rule \"lazy\""):
        tailbound.analyze(["3ms/20ms"], above="lazy:2ms/6ms")
    with pytest.raises(AnalysisError, match="leave policy, preemptive and above out"):
        tailbound.analyze("one.toml", above="polling:2ms/6ms")  # type: ignore[call-overload]


def test_every_test_is_named_with_its_source() -> None:
    # On the hyperbola of Bini, Buttazzo and Buttazzo (2003), above the bound of Liu and Layland (1973).
    found = tailbound.deadline_tests(["1ms/2ms", "1ms/3ms"])
    outcomes = {(one.scheduling, one.test): one.outcome for one in found}
    assert outcomes[("rm", "Liu & Layland")] == "undecided"
    assert outcomes[("rm", "hyperbolic")] == "schedulable"
    assert any(found) and all(one.method for one in found)
    late = tailbound.deadline_tests(["9ms/10ms"] * 3, 2)
    assert late[0].test == "utilisation" and late[0].outcome == "unschedulable"
    assert not any(late)


@pytest.mark.parametrize(
    "options",
    [
        ["--task", "1ms/4ms,blocking=1ms", "--task", "1ms/8ms,jitter=1ms"],
        ["--task", "1ms/4ms", "--task", "3ms/6ms", "--non-preemptive"],
        ["--task", "2ms/5ms", "--task", "4ms/7ms", "--task", "4ms/9ms", "--cpus", "3"],
        ["--task", "3ms/20ms", "--above", "deferrable:2ms/6ms"],
    ],
)
def test_the_tests_are_those_of_the_command_line(options: list[str]) -> None:
    printed = json.loads(run("analyze", "--tests", *options, "--format", "json", "-q"))
    tasks = [value for key, value in zip(options, options[1:]) if key == "--task"]
    named = dict(zip(options, options[1:]))
    found = tailbound.deadline_tests(
        tasks,
        int(named.get("--cpus", 1)),
        preemptive="--non-preemptive" not in options,
        above=[named["--above"]] if "--above" in named else [],
    )
    ours = [(one.scheduling, one.test, one.outcome, one.why) for one in found]
    keys = ("scheduling", "test", "outcome", "why")
    assert ours == [tuple(row[key] for key in keys) for row in printed["tests"]]
