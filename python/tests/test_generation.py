"""Generated sets: those of the command line, and what is refused."""

from __future__ import annotations

from pathlib import Path

import commands
import numpy as np
import pandas as pd
import pytest

import tailbound
from tailbound import AnalysisError

CASES = [
    (
        dict(tasks=3, utilisation=0.6, periods="divisors-of:1s,10ms..100ms", seed=7),
        ["--tasks", "3", "--utilisation", "0.6", "--periods", "divisors-of:1s,10ms..100ms"]
        + ["--seed", "7"],
    ),
    (
        dict(utilisation=0.7, utilisations="bimodal:medium", offsets="uniform", sets=4),
        ["--utilisation", "0.7", "--utilisations", "bimodal:medium", "--offsets", "uniform"]
        + ["--sets", "4"],
    ),
    (
        dict(tasks=12, utilisation=0.9, utilisations="rand-fixed-sum:0.01..0.2", sets=2)
        | dict(deadlines="constrained", budget="9ms", period="10ms")
        | dict(scheduling="earliest-deadline-first"),
        ["--tasks", "12", "--utilisation", "0.9", "--utilisations", "rand-fixed-sum:0.01..0.2"]
        + ["--deadlines", "constrained", "--budget", "9ms", "--period", "10ms", "--sets", "2"]
        + ["--scheduling", "earliest-deadline-first"],
    ),
]


@pytest.mark.parametrize("arguments, typed", CASES)
def test_sets_are_those_of_the_command_line(
    arguments: dict[str, object], typed: list[str], tmp_path: Path
) -> None:
    found = tailbound.generate(**arguments)  # type: ignore[arg-type]
    assert found.csv.encode() == commands.run("generate", *typed, "--format", "csv")
    there, here = tmp_path / "there", tmp_path / "here"
    commands.run("generate", *typed, "--out", str(there))
    written = found.write(here)
    assert [path.name for path in written] == sorted(path.name for path in there.iterdir())
    for path in written:
        assert path.read_bytes() == (there / path.name).read_bytes()
    if len(found.sets) == 1:
        assert found.sets[0].description.encode() == commands.run("generate", *typed)


def test_tasks_go_on_to_analysis_and_descriptions_to_simulation(tmp_path: Path) -> None:
    found = tailbound.generate(0.6, 5, seed=3, periods="harmonic:10ms..80ms")
    one = found.sets[0]
    assert one.utilisation == pytest.approx(0.6, abs=1e-5)
    tasks = [
        tailbound.Task(execution_ns=task.execution_ns, period_ns=task.period_ns, offset_ns=0)
        for task in one.tasks
    ]
    needed = tailbound.least_budget(tasks)
    assert needed.utilisation == pytest.approx(one.utilisation)
    simulated = tailbound.simulate(found.write(tmp_path)[0], "1s")
    assert [task.name for task in simulated.tasks] == [task.name for task in one.tasks]
    assert simulated.is_fine


def test_frame_has_the_columns_of_the_table() -> None:
    found = tailbound.generate(0.5, 4, sets=3)
    frame = found.to_frame()
    lines = found.csv.splitlines()
    assert ",".join(frame.columns) == lines[0]
    assert len(frame) == 12 == len(lines) - 1
    assert isinstance(frame, pd.DataFrame)
    sums = frame.groupby("set")["utilisation"].sum()
    assert sums.to_numpy() == pytest.approx([0.5] * 3, abs=1e-5)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(utilisation=0.5), "how many tasks"),
        (dict(utilisation=3.5, tasks=3), "never 3.5"),
        (dict(utilisation=0.5, tasks=3, periods="uniform:1ms..2ms"), "says no periods"),
        (dict(utilisation=0.5, tasks=3, budget="1ms"), "both a budget and a period"),
        (dict(utilisation=0.5, tasks=3, budget="3ms", period="2ms"), "does not fit"),
        (dict(utilisation=0.5, tasks=3, scheduling="random"), "scheduling: unknown variant"),
        (dict(utilisation=0.5, tasks=3, seed=-1), "seed -1 is none"),
        (dict(utilisation=0.5, utilisations="within:0.1,0.2"), "never 0.5"),
        (dict(utilisation=0.5, tasks=3, sets=0), "sets is 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(AnalysisError, match=words):
        tailbound.generate(**arguments)  # type: ignore[arg-type]


def test_several_sets_are_taken_one_by_one() -> None:
    drawn = tailbound.generate(0.5, 4, sets=3, seed=3, periods="harmonic:10ms..80ms")
    assert len(drawn) == 3
    assert [one.number for one in drawn] == [1, 2, 3]
    assert tailbound.analyze(drawn[0]).schedulable
    with pytest.raises(AnalysisError, match="these are 3 sets of tasks.*give the first by"):
        tailbound.analyze(drawn)  # type: ignore[arg-type]


def test_a_generated_set_goes_into_every_function() -> None:
    made = tailbound.generate(0.6, 4, seed=3, periods="harmonic:10ms..80ms").sets[0]
    monotonic = tailbound.analyze(made)
    assert monotonic.policy == "rm" and monotonic.schedulable
    periods = [one.task.period_ns for one in monotonic.tasks]
    assert periods == sorted(periods)
    assert tailbound.analyze(made, "edf").schedulable
    assert tailbound.least_budget(made).bandwidth == pytest.approx(made.utilisation)
    assert tailbound.hyperperiod(made) == np.timedelta64(max(periods), "ns")
    simulated = tailbound.simulate(made, "2s")
    assert simulated.is_fine
    longest = {task.name: task.longest for task in simulated.tasks}
    for one in monotonic.tasks:
        # All are released together at the start, which is the worst case.
        assert longest[one.task.name] == one.response_time
    served = tailbound.generate(0.6, 4, scheduling="fifo").sets[0]
    with pytest.raises(AnalysisError, match='choose a policy: "rm"'):
        tailbound.analyze(served)
