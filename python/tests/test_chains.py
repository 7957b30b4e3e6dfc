"""Chains and frames: bounds, predictions, simulations and windows are those of the command line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest

import tailbound
from tailbound import AnalysisError

ROVER = """
schema_version = 1
name = "rover"

[hosts.rover]
cpus = [0, 1]
housekeeping = [0]
major_frame = "10ms"

[domains.eye]
kind = "process"
command = ["eye"]
reservation = { backend = "time-partitions", cpus = [1], windows = [{ offset = "0ms", length = "4ms" }] }
[domains.eye.tasks.see]
arrivals = { kind = "periodic", period = "20ms" }
deadline = "20ms"
execution_time = { kind = "uniform", min = "1ms", max = "2ms" }

[domains.arm]
kind = "process"
command = ["arm"]
reservation = { backend = "time-partitions", cpus = [1], windows = [{ offset = "5ms", length = "3ms" }] }
[domains.arm.tasks.act]
arrivals = { kind = "periodic", period = "20ms" }
deadline = "20ms"
execution_time = { kind = "constant", value = "1ms" }

[topics.sight]
publishers = ["eye/see"]
subscribers = ["arm/act"]
size = 64

[chains.grip]
path = ["eye/see", "arm/act"]
data_age = "30ms"

[[experiment.variants]]
name = "reserved"
"""


@pytest.fixture(name="path")
def description_path(tmp_path: Path) -> Path:
    path = tmp_path / "rover.toml"
    path.write_text(ROVER, encoding="utf-8")
    return path


def told(path: Path, *words: str) -> dict[str, Any]:
    """The JSON of the command line; its status may be a verdict."""
    command = [commands.binary(), words[0], str(path), *words[1:], "--format", "json"]
    output = subprocess.run(command, capture_output=True, check=False).stdout
    document: dict[str, Any] = json.loads(output)
    return document


def nanoseconds(time: np.timedelta64) -> int:
    return int(time / np.timedelta64(1, "ns"))


def test_a_chain_is_bounded_as_on_the_command_line(path: Path) -> None:
    (chain,) = tailbound.analyze(path).chains
    (there,) = told(path, "analyze")["chains"]
    assert (chain.chain, chain.verdict, chain.mode) == ("grip", "met", None)
    assert chain.bound == np.timedelta64(there["answer"]["bound_ns"], "ns")
    assert chain.data_age == np.timedelta64(30, "ms") and np.isnat(chain.reaction_time)
    assert sum(nanoseconds(length) for _, _, length in chain.parts) == nanoseconds(chain.bound)
    assert chain.methods


def test_a_chain_is_predicted_as_on_the_command_line(path: Path) -> None:
    predictions = tailbound.predict(path)
    (chain,) = predictions.chains
    (there,) = told(path, "predict")["chains"]
    assert len(predictions) == 0 and chain.refused is None
    assert (chain.chain, chain.variant) == ("grip", "reserved")
    assert [time.name for time in chain.times] == [
        "data age",
        "data age at the output",
        "reaction time",
    ]
    for here, other in zip(chain.times, there["times"]):
        assert here.distribution.quantile(0.99).lower_ns == other["p99_ns"]
        assert here.within_limit == other["within_limit"]
        assert here.distribution.evidence == "estimate"
    assert chain.times[0].within_limit == 1.0


def test_a_chain_that_is_not_predicted_says_why(tmp_path: Path) -> None:
    path = tmp_path / "rover.toml"
    text = ROVER.replace('period = "20ms" }', 'period = "20ms" }\njitter = "25ms"', 1)
    path.write_text(text, encoding="utf-8")
    (chain,) = tailbound.predict(path).chains
    assert chain.refused is not None and "domains.eye.tasks.see.jitter" in chain.refused
    assert chain.times == ()


def test_a_chain_is_simulated_as_on_the_command_line(path: Path) -> None:
    simulation = tailbound.simulate(path, "20s", variant="reserved")
    (chain,) = simulation.chains
    there = told(path, "simulate", "--duration", "20s", "--variant", "reserved")
    (other,) = there["chains"]
    assert chain.refused is None and chain.outputs == other["outcome"]["Ok"]["outputs"]
    assert simulation.is_fine and chain.objections == ()
    assert [at for at, _ in chain.parts] == ["eye/see", "sight", "arm/act"]
    (topic,) = simulation.topics
    (counted,) = there["topics"]
    assert (topic.topic, topic.subscriber) == ("sight", "arm/act")
    assert (topic.published, topic.read) == (counted["published"], counted["read"])
    (predicted,) = tailbound.predict(path).chains
    for time, drawn in zip(predicted.times, chain.times):
        apart = time.distribution.compare(drawn.distribution).wasserstein1
        assert apart.middle < np.timedelta64(300, "us"), time.name


def test_a_limit_that_a_chain_exceeds_stands_against_it(tmp_path: Path) -> None:
    path = tmp_path / "rover.toml"
    text = ROVER.replace('data_age = "30ms"', 'data_age = "10ms"')
    path.write_text(text, encoding="utf-8")
    simulation = tailbound.simulate(path, "2s", variant="reserved")
    assert not simulation.is_fine and "data age" in simulation.chains[0].objections[0]
    assert tailbound.predict(path).chains[0].times[0].within_limit == 0.0
    analysis = tailbound.analyze(path)
    assert not analysis and analysis.chains[0].verdict == "missed"


def test_a_frame_is_sized_as_on_the_command_line(path: Path) -> None:
    sized = tailbound.size_frame(path, "1ms")
    there = told(path, "size", "--frame", "--grid", "1ms")
    assert sized.frame == np.timedelta64(there["major_frame_ns"], "ns")
    windows = [
        (one.domain, nanoseconds(one.offset), nanoseconds(one.length)) for one in sized.windows
    ]
    assert windows == [
        (one["domain"], one["offset_ns"], one["length_ns"]) for one in there["windows"]
    ]
    assert (sized.share, sized.is_least) == (there["share"], there["is_least"])
    assert "major_frame = " in sized.stanza


def test_a_frame_that_nothing_on_the_grid_suffices_for_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rover.toml"
    path.write_text(ROVER.replace('data_age = "30ms"', 'data_age = "1ms"'), encoding="utf-8")
    with pytest.raises(AnalysisError) as raised:
        tailbound.size_frame(path, "1ms")
    assert raised.value.kind == "no-frame-suffices"
    with pytest.raises(AnalysisError, match="at least one window"):
        tailbound.size_frame(path, most_windows=0)
