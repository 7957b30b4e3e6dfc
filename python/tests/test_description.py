"""Descriptions: predictions, sizes and verdicts are those of the command line; one set goes everywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import commands
import numpy as np
import pytest

import tailbound
from tailbound import AnalysisError, Description, Task, TaskSet

STORE = """
schema_version = 1
name = "store"

[hosts.edge]
cpus = [0]

[domains.store]
kind = "process"
builtin = "synthetic-service"
reservation = { budget = "2800us", period = "4ms", cpus = [0] }

[domains.loop]
kind = "process"
command = ["control-loop"]
scheduling = "rate-monotonic"
reservation = { budget = "1ms", period = "10ms", cpus = [0], priority = 80 }

[domains.loop.tasks.control]
arrivals = { kind = "periodic", period = "50ms" }
execution_time = { kind = "constant", value = "1ms" }

[services.store]
domain = "store"
protocol = "synthetic"
endpoint = "unix:store.sock"
slos = [{ percentile = 99, latency = "20ms" }]

[services.store.tasks.get]
arrivals = { kind = "poisson", rate = "400/s" }
execution_time = { kind = "constant", value = "1ms" }
"""


@pytest.fixture(name="path")
def description_path(tmp_path: Path) -> Path:
    path = tmp_path / "store.toml"
    path.write_text(STORE, encoding="utf-8")
    return path


def told(path: Path, *words: str) -> dict[str, object]:
    """The JSON of the command line; its status may be a verdict."""
    command = [commands.binary(), words[0], str(path), *words[1:], "--format", "json"]
    document: dict[str, object] = json.loads(
        subprocess.run(command, capture_output=True, check=False).stdout
    )
    return document


def test_a_service_is_predicted_as_on_the_command_line(path: Path) -> None:
    found = tailbound.predict(path, service="store", variant="reserved", p=[0.5, 0.99])
    (answer,) = found
    assert answer.refused is None and answer.response_times is not None
    p99 = answer.response_times.quantile(0.99)
    words = ("--variant", "reserved", "--percentiles", "50,99")
    (there,) = told(path, "predict", *words)["answers"]  # type: ignore[misc]
    at_99 = there["quantiles"][1]  # type: ignore[index]
    assert (p99.lower_ns, p99.upper_ns) == (at_99["low_ns"], at_99["high_ns"])
    # The same queue by its numbers has the same bounds.
    queue = tailbound.predict(rate="400/s", execution_time="1ms", budget="2800us", period="4ms")
    assert queue.quantile(0.99) == p99
    frame = found.to_frame()
    assert list(frame.columns) == ["service", "variant", "source", "refused", "p50", "p99"]
    assert answer.response_times.bandwidth == pytest.approx(0.7)


def test_predictions_stand_beside_simulations(path: Path) -> None:
    description = Description.load(path)
    answer = tailbound.predict(description)[0]
    simulated = next(
        task for task in tailbound.simulate(description, "500s").tasks if task.name == "get"
    )
    assert answer.response_times is not None
    distance = answer.response_times.compare(simulated.response_times).wasserstein1
    # The loop has the higher priority in the simulation alone: a tenth of the time, 1 ms at most.
    assert distance.middle < np.timedelta64(1, "ms")


def test_a_description_is_sized_service_by_service(path: Path) -> None:
    found = {one.service: one for one in tailbound.size(path, periods="4ms..8ms", points=2)}
    assert set(found) == {"store", "loop"}
    store = found["store"]
    assert store.sizing is not None and store.sizing.best is not None
    assert store.refused is None and store.stanza is not None and "budget = " in store.stanza
    (there,) = [
        one
        for one in told(path, "size", "--period", "4ms..8ms", "--points", "2")["sizings"]  # type: ignore[attr-defined]
        if one["service"] == "store"
    ]
    best = there["best"]
    assert store.sizing.best.budget == np.timedelta64(best["budget_ns"], "ns")
    assert store.stanza == there["stanza"] and store.rule == there["rule"]


def test_a_description_is_analysed_as_on_the_command_line(path: Path) -> None:
    found = tailbound.analyze(path)
    there = told(path, "analyze")
    assert found.document == {
        key: value
        for key, value in there.items()
        if key not in ("schema_version", "tailbound_version")
    }
    verdicts = {task.task: task.verdict for task in found.modes[0].tasks}
    assert verdicts == {"get": "no-deadline", "control": "met"}
    assert found and found.modes[0].cpus[0].admitted and found.objections == ()
    assert found == tailbound.analyze(Description.parse(STORE))
    too_much = tailbound.analyze(Description.parse(STORE.replace("2800us", "3400us")))
    assert not too_much and any("cannot hold" in one for one in too_much.objections)
    assert found.to_frame()["response_bound"].isna().sum() == 1


def test_one_set_of_tasks_goes_into_every_function() -> None:
    tasks = TaskSet.of([Task("3ms", "10ms"), "4ms/20ms"], budget="6ms", period="10ms")
    assert [task.name for task in tasks.tasks] == ["t1", "t2"]
    assert tasks.utilisation == pytest.approx(0.5)
    assert tailbound.analyze(tasks).policy == "rm"
    assert tailbound.least_budget(tasks).utilisation == pytest.approx(0.5)
    assert tailbound.size(tasks=tasks, periods="10ms").best is not None
    assert tailbound.size(tasks)[0].service == "set"
    assert [one.service for one in tailbound.predict(tasks, variant="reserved")] == ["set"]
    simulated = tailbound.simulate(tasks, "1s")
    assert [task.released for task in simulated.tasks] == [100, 50] and simulated.is_fine
    swept = tailbound.sweep(
        tasks, {"domains.set.reservation.budget": ["6ms", "7ms"]}, duration="1s"
    )
    assert len(swept.to_frame()) >= 2
    listed = tailbound.simulate([Task("3ms", "10ms"), "4ms/20ms"], "1s")
    assert [task.longest for task in listed.tasks] == [
        np.timedelta64(3, "ms"),
        np.timedelta64(7, "ms"),
    ]


def test_a_set_keeps_jitter_and_blocking() -> None:
    late = TaskSet.of([Task("3ms", "10ms", jitter="2ms"), "4ms/20ms"])
    longest = tailbound.simulate(late, "10s").tasks[0].longest
    assert np.timedelta64(4, "ms") < longest <= np.timedelta64(5, "ms")
    blocked = TaskSet.of([Task("3ms", "10ms", blocking="8ms"), "4ms/20ms"])
    assert tailbound.analyze(late) and not tailbound.analyze(blocked)


def test_equal_results_are_equal() -> None:
    tasks = [Task("3ms", "10ms", name="a")]
    one, same = (tailbound.simulate(tasks, "1s") for _ in range(2))
    assert one == same and one.tasks[0] == same.tasks[0] and len({one.tasks[0], same.tasks[0]}) == 1
    assert one.tasks[0] != tailbound.simulate(tasks, "2s").tasks[0]
    promised = dict(rate="0.4/s", execution_time="1s", slo={0.99: "3s"}, periods=["2s"])
    refused, again = (tailbound.size(**promised) for _ in range(2))  # type: ignore[call-overload]
    assert refused == again and refused.infeasible


def test_a_window_of_the_schedule_has_jobs_and_a_picture() -> None:
    found = tailbound.simulate([Task("3ms", "10ms"), "4ms/20ms"], "1s", schedule="20ms")
    (schedule,) = found.schedules
    pieces = schedule.pieces()
    names = [name.split(".")[-1] for name in pieces["task"]]
    milliseconds = [
        (name, start.total_seconds() * 1e3, end.total_seconds() * 1e3)
        for name, start, end in zip(names, pieces["start"], pieces["end"])
    ]
    # By hand: t1 from 0 to 3, t2 from 3 to 7, t1 again from 10 to 13.
    assert milliseconds == [("t1", 0, 3), ("t2", 3, 7), ("t1", 10, 13)]
    jobs = schedule.jobs()
    done = jobs[jobs["completion"].notna()]
    assert list(done["response_time"].dt.total_seconds().mul(1e3))[:2] == pytest.approx([3, 7])
    assert not jobs["missed"].any()
    chart = schedule.plot().to_dict()
    assert len(chart["layer"]) == 2 and len(chart["layer"][0]["data"]["values"]) == 3
    assert tailbound.simulate([Task("3ms", "10ms")], "1s").schedules == ()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tailbound.predict(STORE_OBJECT, service="web"), 'no service "web"'),
        (lambda: tailbound.predict(STORE_OBJECT, variant="fast"), 'no variant "fast"'),
        (lambda: tailbound.predict(STORE_OBJECT, rate="1/s"), "of its own"),
        (lambda: tailbound.predict(STORE_OBJECT, p=[99]), "choose one in"),
        (lambda: tailbound.predict(), "rate is missing"),
        (lambda: tailbound.size(STORE_OBJECT, tasks=[]), "of its own"),
        (lambda: tailbound.size(STORE_OBJECT, periods=["1ms"]), "a range such as"),
        (lambda: tailbound.analyze(STORE_OBJECT, "rm"), "itself"),
        (lambda: tailbound.analyze("10ms/100ms"), "put the task into one"),
        (lambda: tailbound.analyze("nowhere.toml"), "nowhere"),
        (lambda: TaskSet.of([Task("1ms", "2ms", name="a")] * 2), "two tasks"),
        (lambda: TaskSet.of([Task("1ms", "2ms")], budget="1ms"), "both"),
        (lambda: tailbound.simulate([Task("1ms", "2ms")], "1s", schedule="0s"), "shows nothing"),
    ],
)
def test_what_makes_no_sense_is_refused(call: object, message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        call()  # type: ignore[operator]


STORE_OBJECT = Description.parse(STORE)

LONG = """
import signal
import tailbound
# A shell that starts the tests in the background has this signal ignored, which children inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("begun", flush=True)
tailbound.simulate([tailbound.Task("1us", "2us")], "10000s")
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_is_heard_in_a_long_call() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    # A call that does not listen goes on for hours.
    _, errors = child.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors and child.returncode != 0
