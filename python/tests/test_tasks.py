"""Tasks: the thesis's example, published response times, what goes in as tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import tailbound
from tailbound import AnalysisError, Task

# The task system of the thesis, section 3.2: offset, execution time, period in milliseconds.
GAMMA1 = [
    Task("40ms", "250ms", offset="150ms"),
    Task("200ms", "500ms", offset="100ms"),
    Task("100ms", "1s", offset="50ms"),
    Task("200ms", "2s", offset="0s"),
]


def test_at_the_hyperperiod_the_bandwidth_is_the_utilisation() -> None:
    assert tailbound.hyperperiod(GAMMA1) == np.timedelta64(2, "s")
    found = tailbound.least_budget(GAMMA1)
    assert found.budget == np.timedelta64(1520, "ms")
    assert found.bandwidth == pytest.approx(found.utilisation) == pytest.approx(0.76)
    assert tailbound.least_budget(GAMMA1, "2s") == found
    assert tailbound.least_budget(GAMMA1, period_ns=2 * 10**9) == found


def simulated_budget(period_ms: int) -> int:
    """The most that a CPU works in a window of this length, by following it per millisecond."""
    length = 8_000 + period_ms
    released = np.zeros(length, dtype=int)
    for task in GAMMA1:
        offset = (task.offset_ns or 0) // 10**6
        released[offset :: task.period_ns // 10**6] += task.execution_ns // 10**6
    left, worked = 0, np.zeros(length + 1, dtype=int)
    for now in range(length):
        left += released[now]
        worked[now + 1] = worked[now] + min(left, 1)
        left -= min(left, 1)
    return int((worked[period_ms:] - worked[:-period_ms]).max())


def test_the_curve_is_what_following_the_cpu_shows() -> None:
    periods = [100, 250, 333, 500, 750, 1000, 1234, 2000, 3000, 4000]
    found = tailbound.bandwidth_curve(GAMMA1, [f"{one}ms" for one in periods])
    expected = [simulated_budget(one) for one in periods]
    assert list(found.budgets // np.timedelta64(1, "ms")) == expected
    assert np.all(found.bandwidths >= found.utilisation - 1e-12)
    assert list(found.to_frame().columns) == ["period", "budget", "bandwidth"]


def test_sporadic_tasks_need_what_offsets_of_zero_need() -> None:
    bare = [Task("4ms", "20ms"), Task("6ms", "30ms")]
    zero = [Task("4ms", "20ms", offset="0s"), Task("6ms", "30ms", offset="0s")]
    assert tailbound.least_budget(bare, "25ms") == tailbound.least_budget(zero, "25ms")


def test_response_times_of_a_textbook() -> None:
    # Burns & Wellings, Real-Time Systems and Programming Languages: response times 3, 6, 20.
    found = tailbound.analyze([Task("3ms", "7ms"), Task("3ms", "12ms"), Task("5ms", "20ms")])
    assert found.schedulable and bool(found)
    times = [one.response_time for one in found.tasks]
    assert times == [np.timedelta64(one, "ms") for one in (3, 6, 20)]
    frame = found.to_frame()
    assert list(frame.response_time.dt.total_seconds()) == [0.003, 0.006, 0.02]
    assert found.method and found.assumptions


def test_deadlines_that_are_missed() -> None:
    tasks = [Task("3ms", "7ms"), Task("3ms", "12ms"), Task("5ms", "20ms", deadline="19ms")]
    found = tailbound.analyze(tasks)
    assert not found
    assert [one.meets_deadline for one in found.tasks] == [True, True, False]
    first = tailbound.analyze(tasks, policy="edf")
    assert first.schedulable and first.window is None
    tight = [Task("3ms", "7ms", deadline="4ms"), Task("3ms", "12ms", deadline="5ms")]
    window = tailbound.analyze(tight, policy="edf").window
    assert window is not None and window.demand > window.length
    over = tailbound.analyze([Task("6ms", "7ms"), Task("6ms", "12ms")], policy="edf")
    assert not over and over.window is None
    lost = tailbound.analyze([Task("6ms", "7ms"), Task("6ms", "12ms")]).tasks[1]
    assert lost.response_time is None and lost.why is not None


def test_tables_are_tasks() -> None:
    table = pd.DataFrame(
        {
            "name": ["a", "b"],
            "execution": ["40ms", "200ms"],
            "period": pd.to_timedelta(["250ms", "500ms"]),
            "offset": [pd.Timedelta("150ms"), pd.NaT],
        }
    )
    mappings: list[Any] = [
        {"name": "a", "execution": "40ms", "period": "250ms", "offset": "150ms"},
        {"name": "b", "execution_ns": 200_000_000, "period": "500ms", "offset": None},
    ]
    found = tailbound.least_budget(table, "300ms")
    assert found == tailbound.least_budget(mappings, "300ms")
    gaps = {"execution_ns": [1, 1], "period_ns": [2, 4], "deadline_ns": [2, None]}
    assert tailbound.analyze(pd.DataFrame(gaps)).schedulable
    assert repr(Task("40ms", "250ms", offset="150ms")) == (
        "Task('40ms', '250ms', offset='150ms')"
    )
    assert Task("40ms", "250ms") == Task(execution_ns=40_000_000, period="0.25s")


def test_tasks_are_written_as_on_the_command_line() -> None:
    written = ["40ms/250ms+150ms", "200ms/500ms+100ms", "100ms/1s+50ms", "200ms/2s"]
    for period in ("100ms", "750ms", "2s"):
        assert tailbound.least_budget(written, period) == tailbound.least_budget(GAMMA1, period)
    # A mixture is a list, too; a text without an offset starts at zero, a Task is sporadic.
    mixed: list[Any] = [*written[:3], Task("200ms", "2s", offset="0s")]
    assert tailbound.least_budget(mixed, "750ms") == tailbound.least_budget(GAMMA1, "750ms")
    sporadic: list[Any] = [*written[:3], Task("200ms", "2s")]
    most = tailbound.least_budget(sporadic, "750ms").budget
    assert most > tailbound.least_budget(GAMMA1, "750ms").budget
    text = tailbound.analyze(["3ms/7ms", "3ms/12ms", "5ms/20ms/19ms"])
    assert text == tailbound.analyze(
        [Task("3ms", "7ms"), Task("3ms", "12ms"), Task("5ms", "20ms", deadline="19ms")]
    )
    assert tailbound.hyperperiod(pd.Series(["1ms/4ms", "1ms/6ms"])) == np.timedelta64(12, "ms")


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "at least one"),
        (5, "list or a DataFrame"),
        ("40ms/250ms", "tasks are a list"),
        ([("40ms", "250ms")], "a task is not"),
        (["40ms/250ms", "40/250ms"], "task '40/250ms': .*\"40\" has no unit.*a task is execution/period"),
        (["40ms"], "not two or three times"),
        (["40ms/0s"], "above zero"),
        (["10ms/9ms"], "one CPU does not suffice"),
        ([{"execution": "4ms"}], "period is missing"),
        ([{"execution": "4ms", "period": "9ms", "wcet": "4ms"}], "no 'wcet'"),
        ([{"execution": "4ms", "period": "0s"}], "above zero"),
        ([{"execution": "4", "period": "9ms"}], "no unit"),
        ([{"execution": "10ms", "period": "9ms"}], "one CPU does not suffice"),
    ],
)
def test_what_is_no_load_is_refused(tasks: Any, message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        tailbound.least_budget(tasks, "10ms")


def test_what_an_analysis_does_not_look_at_is_said() -> None:
    found = tailbound.analyze(GAMMA1)
    bare = tailbound.analyze(
        [Task(execution_ns=one.execution_ns, period_ns=one.period_ns) for one in GAMMA1]
    )
    assert [one.response_time for one in found.tasks] == [one.response_time for one in bare.tasks]
    assert any("every offset" in one for one in found.assumptions)
    assert not any("every offset" in one for one in bare.assumptions)
    late = [Task("4ms", "9ms", deadline="8ms"), Task("1ms", "12ms")]
    early = [Task("4ms", "9ms"), Task("1ms", "12ms")]
    assert tailbound.least_budget(late, "10ms") == tailbound.least_budget(early, "10ms")


def test_policies_order_tasks() -> None:
    tasks = [Task("5ms", "20ms", deadline="8ms"), Task("3ms", "7ms")]
    assert not tailbound.analyze(tasks)
    assert tailbound.analyze(tasks, policy="rm").tasks[0].response_time == np.timedelta64(3, "ms")
    assert tailbound.analyze(tasks, policy="dm") == tailbound.analyze(tasks[::-1], policy="dm")


def test_what_no_analysis_answers_is_refused() -> None:
    with pytest.raises(AnalysisError, match="there is no policy"):
        tailbound.analyze([Task("1ms", "2ms")], policy="lifo")  # type: ignore[arg-type]
    with pytest.raises(AnalysisError, match="hyperperiod"):
        tailbound.least_budget([Task("1ms", "1000003us"), Task("1ms", "999983us")])
    with pytest.raises(AnalysisError, match="period of zero"):
        tailbound.bandwidth_curve(GAMMA1, ["0s"])
