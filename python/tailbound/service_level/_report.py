"""The report of a service level: what it holds, how workers are merged, and its two formats."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Iterator, List, Optional, Sequence, Tuple
from urllib.parse import parse_qs

JSON_TYPE = "application/json"
PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Report:
    """The state of a service level at a moment."""

    service_level: float
    """The probability that optional content is served."""
    latency_ns: Optional[int]
    """The longest latency of the window; none without a request in it."""
    deadline_ns: int
    requests: int
    """The number of requests that have ended."""
    age_ns: Optional[int]
    """The time since a request ended last; none before the first."""

    @property
    def matching_value(self) -> Optional[float]:
        """1 - latency / deadline, from -1 to 1; none without a request in the window."""
        return (
            None if self.latency_ns is None else max(-1.0, 1.0 - self.latency_ns / self.deadline_ns)
        )

    def merged(self, others: List[Report]) -> Report:
        """The report of several workers: the mean level of those with requests in the window, the longest
        latency, all requests, the least age."""
        reports = [self, *others]
        latencies = [one.latency_ns for one in reports if one.latency_ns is not None]
        ages = [one.age_ns for one in reports if one.age_ns is not None]
        return Report(
            mean_level(reports),
            max(latencies, default=None),
            self.deadline_ns,
            sum(one.requests for one in reports),
            min(ages, default=None),
        )

    def json(self) -> str:
        """The report as a JSON object."""
        return json.dumps(
            {
                "matching_value": self.matching_value,
                "service_level": self.service_level,
                "latency_seconds": _seconds(self.latency_ns),
                "deadline_seconds": _seconds(self.deadline_ns),
                "requests": self.requests,
                "age_seconds": _seconds(self.age_ns),
            }
        )

    def prometheus(self) -> str:
        """The report in Prometheus' text format. A value that there is none of is left out."""
        return "".join(self._metrics())

    def _metrics(self) -> Iterator[str]:
        name = "tailbound_service_level"
        for suffix, kind, value, meaning in (
            ("", "gauge", self.service_level, "Probability that optional content is served."),
            (
                "_matching_value",
                "gauge",
                self.matching_value,
                "1 - latency / deadline, from -1 to 1.",
            ),
            (
                "_latency_seconds",
                "gauge",
                _seconds(self.latency_ns),
                "Longest latency of the window.",
            ),
            (
                "_deadline_seconds",
                "gauge",
                _seconds(self.deadline_ns),
                "Latency that the controller aims at.",
            ),
            ("_requests_total", "counter", self.requests, "Requests that have ended."),
            ("_age_seconds", "gauge", _seconds(self.age_ns), "Time since a request ended last."),
        ):
            if value is not None:
                yield f"# HELP {name}{suffix} {meaning}\n# TYPE {name}{suffix} {kind}\n"
                yield f"{name}{suffix} {value!r}\n"


def mean_level(reports: Sequence[Report]) -> float:
    """The mean level of the workers with requests in the window; of all where there is none.

    The level of a worker without requests stays, and says nothing of the load.
    """
    busy = [one for one in reports if one.latency_ns is not None] or reports
    return sum(one.service_level for one in busy) / len(busy)


def _seconds(time_ns: Optional[int]) -> Optional[float]:
    return None if time_ns is None else time_ns / 1e9


@dataclass(frozen=True)
class Answer:
    """The answer to a request for the report."""

    status: str
    headers: List[Tuple[str, str]]
    body: bytes


def answer(method: str, query: str, accept: str, report: Report) -> Answer:
    """The report as a request asks for it: by ``?format=``, else by its Accept header, else as JSON."""
    if method not in ("GET", "HEAD"):
        return _answer(
            "405 Method Not Allowed", "text/plain", "use GET\n", method, ("Allow", "GET, HEAD")
        )
    chosen = parse_qs(query).get("format", [""])[-1]
    if chosen not in ("", "json", "prometheus"):
        body = "there is no such format; write format=json or format=prometheus\n"
        return _answer("400 Bad Request", "text/plain", body, method)
    if chosen == "prometheus" or chosen == "" and _prefers_text(accept):
        return _answer("200 OK", PROMETHEUS_TYPE, report.prometheus(), method)
    return _answer("200 OK", JSON_TYPE, report.json() + "\n", method)


def _answer(status: str, kind: str, text: str, method: str, *more: Tuple[str, str]) -> Answer:
    body = text.encode()
    headers = [
        ("Content-Type", kind),
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
        *more,
    ]
    return Answer(status, headers, b"" if method == "HEAD" else body)


def _prefers_text(accept: str) -> bool:
    """Whether a header prefers plain text over JSON; where it wants both alike, JSON is preferred."""
    text = max(_quality(accept, "text/plain"), _quality(accept, "text/*"))
    return text > max(
        _quality(accept, JSON_TYPE), _quality(accept, "application/*"), _quality(accept, "*/*")
    )


def _quality(accept: str, wanted: str) -> float:
    """The quality of a media range in an Accept header, zero where it is not in there."""
    best = 0.0
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if media != wanted:
            continue
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    quality = float(parameter[2:])
                except ValueError:
                    quality = 0.0
        best = max(best, quality)
    return best
