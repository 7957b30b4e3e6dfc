"""A bar of progress, for people who watch."""

from __future__ import annotations

import sys
from typing import Callable

WIDTH = 30


def progress_on_terminal() -> Callable[[int, int], None]:
    """A bar on standard error if that is a terminal, nothing otherwise."""
    return _draw if sys.stderr.isatty() else _nothing


def _nothing(_done: int, _of: int) -> None:
    pass


def _draw(done: int, of: int) -> None:
    full = WIDTH * done // max(of, 1)
    end = "\n" if done >= of else ""
    sys.stderr.write(f"\r{'#' * full}{'-' * (WIDTH - full)} {done}/{of} simulations{end}")
    sys.stderr.flush()
