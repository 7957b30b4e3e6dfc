"""Chains of tasks: bounds, predictions and simulations of their data ages and reaction times; frames."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Optional, Sequence

import numpy as np

from . import _native
from ._description import ChainTime, DescriptionLike, description_of
from ._response import Distribution
from ._times import ByValue, Time, optional_nanoseconds, refuse, timedeltas

GRID_NS = 500_000
"""The step of the command line."""


@dataclass(frozen=True)
class SimulatedChain:
    """What became of a chain in the time that counts."""

    chain: str
    refused: Optional[str]
    """Why there are no times."""
    outputs: int
    """The outputs that were followed to the begin of the chain."""
    times: tuple[ChainTime, ...]
    """The data age, the data age at the output, and the reaction time; none where there are no times."""
    parts: tuple[tuple[str, Distribution], ...] = field(compare=False, repr=False)
    """The parts of the way of the data of each output: tasks and topics in turn."""
    objections: tuple[str, ...]
    """The limits that it exceeded, in words."""


@dataclass(frozen=True)
class SimulatedTopic:
    """The messages of a topic at a subscriber, those of the warm-up included."""

    topic: str
    subscriber: str
    """The subscriber, as ``domain/task``."""
    published: int
    dropped: int
    """Those of them that the contract dropped."""
    held_back: int
    """Those of them that the contract held back for a time."""
    read: int
    """Those of them that a job read, each counted once."""


def simulated_chain(row: _native._SimulatedChain) -> SimulatedChain:
    """A simulated chain."""
    chain, (data_age_ns, reaction_time_ns), (times, why), objections = row
    outputs, whole, parts = (0, [], []) if times is None else times
    names = ("data age", "data age at the output", "reaction time")
    limits = timedeltas([data_age_ns, None, reaction_time_ns])
    return SimulatedChain(
        chain=chain,
        refused=why,
        outputs=outputs,
        times=tuple(
            _time(name, limit, Distribution(answer, f"simulated {name} of {chain}"))
            for name, limit, answer in zip(names, limits, whole)
        ),
        parts=tuple((at, Distribution(answer, f"simulated {at}")) for at, answer in parts),
        objections=tuple(objections),
    )


def _time(name: str, limit: np.timedelta64, distribution: Distribution) -> ChainTime:
    within: Optional[float] = None
    if not np.isnat(limit):
        within = float(distribution.cdf(limit).lower)
    return ChainTime(name, limit, within, distribution)


def simulated_topic(row: _native._SimulatedTopic) -> SimulatedTopic:
    """The messages of a simulated topic."""
    topic, subscriber, (published, dropped, held_back, read) = row
    return SimulatedTopic(topic, subscriber, published, dropped, held_back, read)


@dataclass(frozen=True, eq=False)
class SizedWindow(ByValue):
    """A window of a time partition."""

    domain: str
    offset: np.timedelta64
    """The begin of the window, from that of the frame."""
    length: np.timedelta64
    """The length of the window, with the switch."""


@dataclass(frozen=True, eq=False)
class FrameSizing(ByValue):
    """A major frame and its windows, made by :func:`size_frame`."""

    host: str
    frame: np.timedelta64
    """The major frame."""
    windows: tuple[SizedWindow, ...]
    """The windows of each partition, in the order of the frame."""
    share: float
    """The sum of the lengths of the windows, as a share of the frame."""
    least_share: float
    """No windows on the grid have a lesser share than this one."""
    is_least: bool
    """Whether the answer is the least one on the grid."""
    switch: np.timedelta64
    """The cost of a switch at the begin of each window."""
    placements: int
    """The placements that were judged."""
    stanza: str
    """The frame and the windows as a part of a description."""


def size_frame(
    description: DescriptionLike,
    grid: Optional[Time] = None,
    *,
    host: Optional[str] = None,
    most_windows: int = 1,
    grid_ns: Optional[int] = None,
) -> FrameSizing:
    """The major frame and the windows of a host's time partitions that meet the deadlines of tasks and
    chains with the least share of the CPUs: the answer of ``tailbound size FILE --frame``.

    Parameters
    ----------
    description:
        A :class:`Description`, or the path of its file (TOML), in which the partitions have windows,
        whichever for now.
    grid:
        The step of frames, offsets and lengths; 500 us if left out.
    host:
        The host; the only one with time partitions if left out.
    most_windows:
        The most windows of a partition in one frame, of any lengths and at any distances.

    Raises
    ------
    AnalysisError
        Where nothing on the grid meets all deadlines (``kind`` is ``"no-frame-suffices"``), or the
        search is too long.
    """
    if most_windows < 1:
        raise refuse(f"most_windows is {most_windows}; a partition has at least one window")
    step_ns = optional_nanoseconds(grid, grid_ns, "grid")
    text, stanza = _native.size_frame(
        description_of(description),
        host,
        GRID_NS if step_ns is None else step_ns,
        most_windows,
    )
    document: dict[str, Any] = json.loads(text)
    frame, switch = timedeltas([document["major_frame_ns"], document["switch_ns"]])
    windows: Sequence[dict[str, Any]] = document["windows"]
    return FrameSizing(
        host=document["host"],
        frame=frame,
        windows=tuple(
            SizedWindow(one["domain"], *timedeltas([one["offset_ns"], one["length_ns"]]))
            for one in windows
        ),
        share=document["share"],
        least_share=document["least_share"],
        is_least=document["is_least"],
        switch=switch,
        placements=document["placements"],
        stanza=stanza,
    )
