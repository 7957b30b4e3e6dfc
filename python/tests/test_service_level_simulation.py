"""The step response of a service level, played: an overload comes, the level gives way, and returns."""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tailbound.service_level import Settings, simulation
from tailbound.service_level.simulation import Phase, StepResponse

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "service-level-step.svg"
# With all optional content, 8 requests a second are a load of 0.48, and 30 are one of 1.8; without optional
# content 30 are a load of 0.3.
PHASES = [Phase("60s", 8), Phase("240s", 30), Phase("240s", 8)]


def play(seed: int = 1, **more: object) -> StepResponse:
    return simulation.simulate(
        Settings("1s"), PHASES, mandatory="10ms", optional="50ms", seed=seed, **more  # type: ignore[arg-type]
    )


def longest(played: StepResponse) -> float:
    """The median over the moments of the longest latency of the window."""
    return statistics.median(one.latency_s for one in played.moments if one.latency_s is not None)


@pytest.mark.parametrize("seed", range(1, 11))
def test_the_level_gives_way_to_an_overload_and_returns(seed: int) -> None:
    played = play(seed)
    before, during, after = (
        played.between(10, 60),
        played.between(120, 300),
        played.between(480, 540),
    )
    assert before.mean_level() > 0.99
    # At this load the server is saturated at a level of 0.47.
    assert 0.2 < during.mean_level() < 0.47
    assert 0.3 < longest(during) < 1.5, "the longest latency lies around the deadline"
    assert during.latency(0.5) < 1.0
    assert min(one.service_level for one in after.moments) == 1.0
    assert after.latency(1.0) < 1.0


def test_without_a_controller_the_queue_grows_without_end() -> None:
    controlled, fixed = play().between(240, 300), play(fixed_level=1.0).between(240, 300)
    assert fixed.moments[-1].queue > 100 * max(1, controlled.moments[-1].queue)
    assert longest(fixed) > 30 * longest(controlled)


def test_the_share_of_optional_content_is_the_level() -> None:
    during = play().between(120, 300)
    share = sum(one.optional for one in during.requests) / len(during.requests)
    assert share == pytest.approx(during.mean_level(), abs=0.05)


def test_a_level_of_zero_is_left_when_the_overload_ends() -> None:
    # Even without optional content this is more than the server can do.
    phases = [Phase("60s", 200), Phase("300s", 2)]
    played = simulation.simulate(Settings("1s"), phases, mandatory="10ms", optional="50ms")
    # Its worst is reached when the queue is gone.
    assert min(one.service_level for one in played.moments) < 0.01
    assert played.moments[-1].service_level > 0.5


def test_a_simulation_is_repeatable() -> None:
    assert play() == play()
    assert play(2) != play()


def test_more_servers_carry_more() -> None:
    two = play(servers=2).between(120, 300)
    assert two.mean_level() > play().between(120, 300).mean_level() + 0.2


def test_the_picture_of_the_guide_is_that_of_the_simulation() -> None:
    drawn = play().svg()
    assert "service level" in drawn and "longest latency in s" in drawn
    assert drawn == play()._repr_svg_()
    ElementTree.fromstring(drawn)
    if os.environ.get("TAILBOUND_WRITE_DOCUMENTS") == "1":
        PICTURE.write_text(drawn, encoding="utf-8")
    assert PICTURE.read_text(encoding="utf-8") == drawn


@pytest.mark.parametrize(
    "more, message",
    [({"servers": 0}, "servers is 0"), ({"mandatory": "10"}, "mandatory takes a time")],
)
def test_arguments_that_make_no_sense_are_refused(more: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"mandatory": "10ms", "optional": "50ms", **more}
    with pytest.raises(ValueError, match=message):
        simulation.simulate(Settings("1s"), PHASES, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rate is 0"):
        simulation.simulate(Settings("1s"), [Phase("1s", 0)], mandatory="1ms", optional="1ms")


def test_a_span_without_requests_has_no_latency() -> None:
    with pytest.raises(ValueError, match="no requests"):
        play().between(1000, 2000).latency(0.5)
