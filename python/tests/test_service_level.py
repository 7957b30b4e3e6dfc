"""The controller of a service level: the scenarios that every implementation passes, and what is refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

from tailbound.service_level import Controller, Settings
from tailbound.service_level._report import answer
from tailbound.service_level._request_rules import RequestRules

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
VECTORS = json.loads((REFERENCE / "service-level-scenarios.json").read_text(encoding="utf-8"))
SECOND_NS = 1_000_000_000


def settings_of(scenario: Dict[str, Any]) -> Settings:
    given = scenario["settings"]
    times = {name: f"{given[name + '_ns']}ns" for name in ("deadline", "interval", "window")}
    return Settings(
        **times, pole=given["pole"], rise=given["rise"], initial_level=given["initial_level"]
    )


def expect(controller: Controller, at_ns: int, expected: Dict[str, Any]) -> None:
    report = controller.report(at_ns)
    assert report.service_level == pytest.approx(expected["service_level"], abs=1e-9)
    assert report.matching_value == pytest.approx(expected["matching_value"], abs=1e-9)
    assert report.latency_ns == expected["latency_ns"]
    assert report.requests == expected["requests"]
    assert report.age_ns == expected["age_ns"]
    assert controller.level(at_ns) == report.service_level
    assert controller.matching_value(at_ns) == report.matching_value


@pytest.mark.parametrize("scenario", VECTORS["scenarios"], ids=lambda scenario: scenario["name"])
def test_the_controller_passes_the_scenario(scenario: Dict[str, Any]) -> None:
    controller = Controller(settings_of(scenario), scenario["start_ns"])
    tokens: Dict[str, int] = {}
    for step in scenario["steps"]:
        at_ns = step["at_ns"]
        if "observe_ns" in step:
            controller.observe(step["observe_ns"], at_ns)
        elif "begin" in step:
            tokens[step["begin"]] = controller.begin(at_ns, step.get("waited_ns", 0))
        elif "end" in step:
            controller.end(tokens[step["end"]], at_ns)
        else:
            expect(controller, at_ns, step["expect"])


@pytest.mark.parametrize("vector", VECTORS["formats"], ids=str)
def test_the_report_comes_in_the_format_that_is_asked_for(vector: Dict[str, Any]) -> None:
    report = Controller(Settings("1s")).report(0)
    answered = answer(vector["method"], vector["query"], vector["accept"], report)
    assert int(answered.status.split()[0]) == vector["status"]
    kinds = {"json": "application/json", "prometheus": "text/plain; version=0.0.4; charset=utf-8"}
    headers = dict(answered.headers)
    if vector["format"] is not None:
        assert headers["Content-Type"] == kinds[vector["format"]]
    assert (headers.get("Allow") == "GET, HEAD") == (vector["status"] == 405)
    assert b"<script>" not in answered.body
    assert (answered.body == b"") == (vector["method"] == "HEAD")


@pytest.mark.parametrize("vector", VECTORS["start_headers"], ids=str)
def test_a_start_header_gives_the_wait(vector: Dict[str, Any]) -> None:
    rules = RequestRules("/a", (), "X-Request-Start", lambda: vector["now_ns"])
    assert rules.waited_ns(vector["header"]) == pytest.approx(vector["waited_ns"], abs=1_000)


def test_a_header_that_is_missing_is_no_wait() -> None:
    assert RequestRules("/a", (), "X-Request-Start", lambda: 1).waited_ns(None) == 0


class EverySample:
    """The same rule over a list of all samples, without rings, and with one update for each interval."""

    def __init__(self, deadline_ns: int) -> None:
        self.deadline_ns = deadline_ns
        self.samples: List[tuple[int, int]] = []
        self.level = 1.0
        self.interval = 0

    def advance(self, at_ns: int) -> None:
        while self.interval < at_ns // SECOND_NS:
            self.interval += 1
            end_ns = self.interval * SECOND_NS
            recent = [
                latency for at, latency in self.samples if end_ns - 5 * SECOND_NS <= at < end_ns
            ]
            if recent:
                ratio = max(recent) / self.deadline_ns
                move = max(self.level, 0.05) / max(ratio, 0.1) * 0.1 * (1 - ratio)
                self.level = min(1.0, max(0.0, self.level + (0.1 * move if move > 0 else move)))


@pytest.mark.parametrize("seed", range(30))
def test_the_controller_agrees_with_the_rule_over_all_samples(seed: int) -> None:
    numbers = random.Random(seed)
    deadline_ns = numbers.choice([1, 250]) * SECOND_NS // numbers.choice([1, 250])
    plain, controller = EverySample(deadline_ns), Controller(Settings(f"{deadline_ns}ns"))
    at_ns = 0
    for _ in range(400):
        at_ns += int(numbers.expovariate(2) * SECOND_NS)
        latency_ns = int(numbers.lognormvariate(0, 1.5) * deadline_ns)
        plain.advance(at_ns)
        plain.samples.append((at_ns, latency_ns))
        controller.observe(latency_ns, at_ns)
        assert controller.level(at_ns) == pytest.approx(plain.level, abs=1e-9)
        assert 0 <= controller.level(at_ns) <= 1


@pytest.mark.parametrize("latency", [float("nan"), float("inf"), 0.5, -1, None, "1s", True])
def test_a_latency_that_is_no_time_is_ignored_and_counted(latency: Any) -> None:
    controller = Controller(Settings("1s"))
    controller.observe(latency, 10)
    assert controller.report(SECOND_NS).requests == 0
    assert (controller.level(SECOND_NS), controller.ignored) == (1.0, 1)


def test_memory_is_bounded() -> None:
    controller = Controller(Settings("1s"))
    for number in range(50_000):
        controller.end(controller.begin(number * SECOND_NS // 10), number * SECOND_NS // 10 + 1_000)
        assert len(controller._longest_ns) == 6 and not controller._open


@pytest.mark.parametrize(
    "given, message",
    [
        ({"deadline": 1.0}, "deadline takes a time with a unit, not 1.0"),
        ({"deadline": "1"}, "deadline takes a time with a unit, not '1'; write a text such as"),
        ({"deadline": "0s"}, "deadline is '0s'; give a time above zero"),
        ({"deadline": "-1s"}, "deadline takes a time with a unit, not '-1s'"),
        ({"deadline": "0.5ns"}, "no whole number of nanoseconds"),
        ({"deadline": "nan s"}, "deadline takes a time with a unit"),
        ({"interval": "2s"}, "window is '5s', no multiple of the interval of '2s'"),
        ({"interval": "1ms", "window": "5s"}, "5000 intervals of '1ms'; at most 3600 fit"),
        ({"pole": 1}, "pole is 1; give a number from 0 to below 1"),
        ({"pole": float("nan")}, "pole is nan"),
        ({"rise": 0}, "rise is 0; give a number from above 0 to 1"),
        ({"initial_level": 1.5}, "initial_level is 1.5; give a number from 0 to 1"),
        ({"initial_level": "1"}, "initial_level is '1'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: Dict[str, Any], message: str) -> None:
    arguments: Dict[str, Any] = {"deadline": "1s", **given}
    with pytest.raises(ValueError) as refused:
        Settings(**arguments)
    assert message in str(refused.value)


def test_the_report_of_several_workers_is_merged() -> None:
    def report(level_at_start: float, latency_ns: Optional[int]) -> Any:
        controller = Controller(Settings("1s", initial_level=level_at_start))
        if latency_ns is not None:
            controller.observe(latency_ns, 10)
        return controller.report(20)

    merged = report(1.0, None).merged([report(0.5, SECOND_NS), report(0.0, 3 * SECOND_NS)])
    assert (merged.service_level, merged.latency_ns, merged.requests) == (0.25, 3 * SECOND_NS, 2)
    assert (merged.age_ns, merged.matching_value) == (10, -1.0)
    assert report(1.0, None).merged([]) == report(1.0, None)
    assert report(1.0, None).merged([report(0.0, None)]).service_level == 0.5
