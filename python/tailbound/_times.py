"""Times and rates as arguments, and bounds of times as results.

One rule for every argument that is a time: ``period`` takes a text with a unit (``"40ms"``), a
``datetime.timedelta`` or a ``numpy.timedelta64``; ``period_ns`` takes a whole number of
nanoseconds instead. A number without a unit is refused. Where several times are asked for, a list
or an array of the same is taken.

Results are ``numpy.timedelta64`` in nanoseconds, which pandas takes as they are.
"""

from __future__ import annotations

import datetime
import operator
from dataclasses import dataclass, fields
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _native
from ._native import AnalysisError

Time = Union[str, datetime.timedelta, np.timedelta64]
"""A time: ``"1.5s"``, ``timedelta(seconds=1.5)`` or ``numpy.timedelta64(1500, "ms")``."""

Times = Union[Time, Sequence[Time], "npt.NDArray[np.timedelta64]"]
"""One time, or a list or array of times."""

Nanoseconds = Union[int, Sequence[int], "npt.NDArray[np.integer[Any]]"]
"""One whole number of nanoseconds, or a list or array of them."""

_LONGEST_NS = 2**63 - 1

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "D": 86_400_000_000_000,
    "W": 604_800_000_000_000,
}
"""The units of numpy that are a whole number of nanoseconds."""


def refuse(what: str) -> AnalysisError:
    """The exception for an argument that makes no sense; ``what`` says what would."""
    error = AnalysisError(what)
    error.kind = "invalid"
    return error


def _whole(value: object, name: str) -> int:
    """A whole number of nanoseconds that fits 63 bits."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise refuse(
            f"{name}_ns takes a whole number of nanoseconds, not {value!r}; "
            f'for a time with a unit give {name}, such as {name}="5ms"'
        ) from None
    if number < 0:
        raise refuse(f"{name}_ns is {number}; a time is zero or more")
    if number > _LONGEST_NS:
        raise refuse(f"{name}_ns is {number}, longer than 292 years; give a shorter time")
    return number


def _nanoseconds_of(value: object, name: str) -> int:
    """The nanoseconds of one time."""
    if isinstance(value, str):
        try:
            number: int = _native.parse_duration(value)
        except AnalysisError as error:
            raise refuse(f"{name}: {error}") from None
    elif isinstance(value, np.timedelta64):
        number = _of_timedelta64(value, name)
    elif isinstance(value, datetime.timedelta):
        # pandas.Timedelta is a timedelta that counts nanoseconds, too.
        extra = getattr(value, "nanoseconds", 0)
        micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
        number = micros * 1_000 + int(extra)
    else:
        raise refuse(
            f"{name} takes a time with a unit, not {value!r}; write a text such as "
            f'{name}="5ms" or a timedelta, or give nanoseconds as {name}_ns'
        )
    if number < 0:
        raise refuse(f"{name} is {value!r}; a time is zero or more")
    if number > _LONGEST_NS:
        raise refuse(f"{name} is {value!r}, longer than 292 years; give a shorter time")
    return number


def _of_timedelta64(value: np.timedelta64, name: str) -> int:
    if np.isnat(value):
        raise refuse(f"{name} is not a time (NaT); leave it out, or give one")
    unit, count = np.datetime_data(value.dtype)
    if unit not in _UNITS_NS:
        raise refuse(
            f"{name} is {value!r}, which is no whole number of nanoseconds; use a unit of "
            f"{', '.join(_UNITS_NS)}"
        )
    # In Python's integers, which do not overflow.
    return int(value.astype(np.int64)) * int(count) * _UNITS_NS[unit]


def count(value: object, name: str, least: int = 0) -> int:
    """A whole number of things that fits 32 bits."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise refuse(f"{name} is {value!r}; give a whole number from {least}") from None
    if not least <= number < 2**32:
        raise refuse(f"{name} is {number}; give a whole number from {least}, below 2^32")
    return number


def _is_single(value: object) -> bool:
    return isinstance(value, (str, datetime.timedelta, np.timedelta64))


def nanoseconds(given: object, given_ns: object, name: str) -> int:
    """The nanoseconds of an argument that is given by its name or with ``_ns``, not both."""
    return require(optional_nanoseconds(given, given_ns, name), name)


def require(number: Optional[int], name: str) -> int:
    """The number, or the refusal of an argument that is missing."""
    if number is None:
        raise refuse(f'{name} is missing; give {name}="5ms", or {name}_ns=5_000_000')
    return number


def optional_nanoseconds(given: object, given_ns: object, name: str) -> Optional[int]:
    """The same, where the argument may be left out."""
    if given is not None and given_ns is not None:
        raise refuse(f"{name} and {name}_ns are the same argument; give one of them")
    if given_ns is not None:
        return _whole(given_ns, name)
    return None if given is None else _nanoseconds_of(given, name)


def many_nanoseconds(given: Any, given_ns: Any, name: str) -> tuple[list[int], bool]:
    """The nanoseconds of an argument that takes one time or several, and whether it was one."""
    if given is not None and given_ns is not None:
        raise refuse(f"{name} and {name}_ns are the same argument; give one of them")
    if given is None and given_ns is None:
        raise refuse(f'{name} is missing; give {name}="5ms", or {name}_ns=5_000_000')
    if given_ns is not None:
        if isinstance(given_ns, np.ndarray) and given_ns.ndim == 0:
            return [_whole(given_ns.item(), name)], True
        if isinstance(given_ns, str) or not isinstance(given_ns, Iterable):
            return [_whole(given_ns, name)], True
        numbers = _flat(given_ns, name)
        if isinstance(numbers, np.ndarray) and numbers.dtype.kind in "iu":
            return _not_negative(numbers, f"{name}_ns"), False
        return [_whole(one, name) for one in numbers], False
    if _is_single(given):
        return [_nanoseconds_of(given, name)], True
    if isinstance(given, np.ndarray) and given.ndim == 0:
        return [_nanoseconds_of(given[()], name)], True
    if not isinstance(given, Iterable):
        # Neither a time nor several: refused with the reason.
        return [_nanoseconds_of(given, name)], True
    members = _flat(given, name)
    if isinstance(members, np.ndarray) and members.dtype == np.dtype("timedelta64[ns]"):
        if np.isnat(members).any():
            raise refuse(f"{name} is in part not a time (NaT); leave that out")
        return _not_negative(members.astype(np.int64), name), False
    return [_nanoseconds_of(one, name) for one in members], False


def _not_negative(numbers: "npt.NDArray[Any]", name: str) -> list[int]:
    """Integers as a list, all at once, since there may be millions of samples."""
    if numbers.size > 0 and numbers.min() < 0:
        raise refuse(f"{name} is {numbers.min()} ns in part; a time is zero or more")
    if numbers.size > 0 and int(numbers.max()) > _LONGEST_NS:
        raise refuse(f"{name} is longer than 292 years in part; give shorter times")
    return [int(one) for one in numbers.tolist()]


def _flat(values: Any, name: str) -> Any:
    """The members of a list, an array or a pandas column."""
    array = getattr(values, "to_numpy", lambda: values)()
    shape: Optional[int] = array.ndim if isinstance(array, np.ndarray) else None
    if shape is None and isinstance(array, Iterable) and not isinstance(array, Mapping):
        array, shape = list(array), 1
    if shape != 1:
        raise refuse(f"{name} takes one time, or a list of them in one dimension")
    return array


def per_second(rate: object) -> float:
    """The events per second of a text such as ``"200/s"``."""
    if not isinstance(rate, str):
        raise refuse(f'rate takes a text with a unit, not {rate!r}; write "200/s" or "0.4/ms"')
    return _native.parse_rate(rate)


def timedeltas(nanoseconds: Sequence[Optional[int]]) -> npt.NDArray[np.timedelta64]:
    """Nanoseconds as an array of ``timedelta64[ns]``; ``NaT`` for ``None``, and for what is too
    long for it (292 years)."""
    nat = np.iinfo(np.int64).min
    known = [nat if one is None or one > _LONGEST_NS else one for one in nanoseconds]
    return np.array(known, dtype=np.int64).astype("timedelta64[ns]")


def _counts(times: Any) -> "npt.NDArray[np.int64]":
    """Times as integers, in which one that is not known is equal to another."""
    return np.asarray(times).astype("timedelta64[ns]").astype(np.int64)


class ByValue:
    """Equality of dataclasses by their fields, in which ``NaT`` is equal to ``NaT``."""

    def _values(self) -> tuple[Any, ...]:
        compared = [one.name for one in fields(self) if one.compare]  # type: ignore[arg-type]
        values = [getattr(self, name) for name in compared]
        return tuple(
            int(_counts(value)) if isinstance(value, np.timedelta64) else value for value in values
        )

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())


@dataclass(frozen=True, eq=False)
class Interval:
    """A time, or an array of times, known to lie between two bounds.

    ``upper`` is ``NaT`` where nothing bounds it from above.
    """

    lower: Any
    """At least this: ``timedelta64[ns]``, one or an array."""
    upper: Any
    """At most this: ``timedelta64[ns]``, one or an array."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interval) and all(
            np.array_equal(_counts(ours), _counts(theirs))
            for ours, theirs in ((self.lower, other.lower), (self.upper, other.upper))
        )

    def __hash__(self) -> int:
        return hash((_counts(self.lower).tobytes(), _counts(self.upper).tobytes()))

    @property
    def seconds(self) -> Any:
        """The middle of the bounds in seconds, for plots and printing; ``nan`` without an upper
        one."""
        second = np.timedelta64(1, "s")
        return 0.5 * (self.lower / second + self.upper / second)

    @property
    def lower_ns(self) -> Any:
        """The lower bound as a whole number of nanoseconds."""
        return self._ns(self.lower)

    @property
    def upper_ns(self) -> Any:
        """The upper bound as a whole number of nanoseconds; of an array they are floats, with
        ``nan`` for what is not bounded, of one time it is ``None``."""
        if np.ndim(self.upper) == 0:
            return None if np.isnat(self.upper) else self._ns(self.upper)
        floats = self.upper / np.timedelta64(1, "ns")
        return floats if np.isnan(floats).any() else self._ns(self.upper)

    @staticmethod
    def _ns(value: Any) -> Any:
        whole = np.asarray(value).astype(np.int64)
        return int(whole) if np.ndim(value) == 0 else whole

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, index: Any) -> "Interval":
        return Interval(self.lower[index], self.upper[index])

    def __str__(self) -> str:
        if np.ndim(self.lower) != 0:
            return "[" + ", ".join(str(self[index]) for index in range(len(self))) + "]"
        lower = _native.format_duration(self.lower_ns)
        if np.isnat(self.upper):
            return f"over {lower}"
        upper = _native.format_duration(self.upper_ns)
        return lower if lower == upper else f"{lower} .. {upper}"

    def __repr__(self) -> str:
        return f"Interval({self})"


def interval(lower: Sequence[int], upper: Sequence[Optional[int]], single: bool) -> Interval:
    """An interval of what crossed the border, one or several."""
    bounds = Interval(timedeltas(lower), timedeltas(upper))
    return bounds[0] if single else bounds
