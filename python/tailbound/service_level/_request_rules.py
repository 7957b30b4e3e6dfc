"""What both middlewares ask of a request: is it one for the report, is it timed, how long has it waited?"""

from __future__ import annotations

import time
from typing import Callable, Optional, Sequence

REPORT_PATH = "/tailbound/service-level"
_LONGEST_WAIT_NS = 3_600_000_000_000
"""A request that claims to have waited for longer has a clock, or a header, of its own."""


class RequestRules:
    """The settings that WSGI and ASGI share."""

    def __init__(
        self,
        path: Optional[str],
        untimed: Sequence[str],
        start_header: Optional[str],
        wall_clock: Callable[[], int],
    ) -> None:
        for one, name in [(path, "path"), *((one, "untimed") for one in untimed)]:
            if one is not None and not one.startswith("/"):
                raise ValueError(f'{name} is {one!r}; give a path that begins with a "/"')
        self.path = path
        self.start_header = start_header
        self._untimed = tuple(untimed)
        self._wall_clock = wall_clock

    def is_timed(self, path: str) -> bool:
        """Whether the latency of a request with this path counts."""
        return not path.startswith(self._untimed)

    def waited_ns(self, started: Optional[str]) -> int:
        """The time since the moment that a proxy wrote into a header; zero where that makes no sense."""
        if not started:
            return 0
        try:
            number = float(started.split(",")[0].strip().removeprefix("t="))
        except ValueError:
            return 0
        # Proxies write seconds, milliseconds or microseconds since 1970; in this century they differ in size.
        scale = 1e3 if number > 1e14 else 1e6 if number > 1e11 else 1e9
        waited = self._wall_clock() - number * scale
        return int(waited) if 0 <= waited <= _LONGEST_WAIT_NS else 0


def wall_clock_ns() -> int:
    """Nanoseconds since 1970."""
    return time.time_ns()
