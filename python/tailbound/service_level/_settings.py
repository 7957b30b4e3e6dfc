"""The settings of a controller, with times as texts with a unit."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Union

Time = Union[str, datetime.timedelta]
"""A time: ``"1.5s"`` or ``timedelta(seconds=1.5)``."""

_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "min": 60_000_000_000}
_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s|min)\Z")
_INTERVALS_MOST = 3600
"""The most intervals in a window, which bounds the memory of a controller."""


def nanoseconds(value: object, name: str) -> int:
    """The whole nanoseconds of a time above zero."""
    if isinstance(value, datetime.timedelta):
        micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
        number = Decimal(micros * 1_000)
    else:
        match = _TEXT.match(value) if isinstance(value, str) else None
        if match is None:
            raise ValueError(
                f"{name} takes a time with a unit, not {value!r}; write a text such as "
                f'{name}="500ms", with one of {", ".join(_UNITS_NS)}, or a timedelta'
            )
        number = Decimal(match[1]) * _UNITS_NS[match[2]]
    if number != int(number):
        raise ValueError(f"{name} is {value!r}, which is no whole number of nanoseconds")
    if not 0 < number < 2**63:
        raise ValueError(f"{name} is {value!r}; give a time above zero, at most 292 years")
    return int(number)


def _share(value: object, name: str, low_allowed: bool, high_allowed: bool) -> None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if 0 < value < 1 or value == 0 and low_allowed or value == 1 and high_allowed:
            return
    low, high = "0" if low_allowed else "above 0", "1" if high_allowed else "below 1"
    raise ValueError(f"{name} is {value!r}; give a number from {low} to {high}")


@dataclass(frozen=True)
class Settings:
    """The settings of a controller. The defaults are those of the published rule."""

    deadline: Time
    """The latency at which the controller keeps the slowest request of the window."""
    interval: Time = "1s"
    """The time between two updates of the level."""
    window: Time = "5s"
    """The time over which the longest latency is taken, a multiple of the interval."""
    pole: float = 0.9
    """The share of an error that one update leaves; closer to 1 is slower and smoother."""
    rise: float = 0.1
    """The share of an update that is carried out where it raises the level."""
    initial_level: float = 1.0
    deadline_ns: int = field(init=False, repr=False)
    interval_ns: int = field(init=False, repr=False)
    window_ns: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("deadline", "interval", "window"):
            object.__setattr__(self, f"{name}_ns", nanoseconds(getattr(self, name), name))
        _share(self.pole, "pole", low_allowed=True, high_allowed=False)
        _share(self.rise, "rise", low_allowed=False, high_allowed=True)
        _share(self.initial_level, "initial_level", low_allowed=True, high_allowed=True)
        if self.window_ns % self.interval_ns != 0:
            raise ValueError(
                f"window is {self.window!r}, no multiple of the interval of {self.interval!r}; "
                "give a whole number of intervals"
            )
        if self.intervals > _INTERVALS_MOST:
            raise ValueError(
                f"window is {self.window!r}, which has {self.intervals} intervals of {self.interval!r}; "
                f"at most {_INTERVALS_MOST} fit: give a shorter window or a longer interval"
            )

    @property
    def intervals(self) -> int:
        """The number of intervals in the window."""
        return self.window_ns // self.interval_ns
