"""The command line, to hold the package against."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


def binary() -> Path:
    """The built ``tailbound``; tests that need it are skipped without it."""
    folder = os.environ.get("TAILBOUND_BIN_DIR")
    path = Path(folder or "", "tailbound")
    if folder is None or not path.exists():
        pytest.skip(f"needs the command tailbound: TAILBOUND_BIN_DIR is {folder}")
    return path


def run(*arguments: str) -> bytes:
    """What a command prints."""
    done = subprocess.run([binary(), *arguments], check=True, capture_output=True)
    return done.stdout
