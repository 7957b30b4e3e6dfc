"""Packages that are needed for some things only: imported at use, with a message where missing."""

from __future__ import annotations

import importlib
from typing import Any


def need(package: str, what_for: str) -> Any:
    """The module, or an ``ImportError`` that says what needs it and how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        extra = package.split(".")[0]
        raise ImportError(
            f"{what_for} needs {extra}, which is not installed; "
            f"install it with: pip install 'tailbound[{extra}]'"
        ) from error


def frame(columns: dict[str, Any]) -> Any:
    """A ``pandas.DataFrame`` of these columns."""
    return need("pandas", "to_frame()").DataFrame(columns)
