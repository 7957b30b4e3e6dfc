"""Every Python block of every document runs, and prints what the document shows."""

from __future__ import annotations

import os
from pathlib import Path

import blocks
import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.mark.parametrize(
    "path", blocks.documents(), ids=lambda path: str(path.relative_to(blocks.ROOT))
)
def test_document_shows_what_happens(path: Path) -> None:
    document = path.read_text(encoding="utf-8")
    found = blocks.rewritten(document, str(path))
    if os.environ.get("TAILBOUND_WRITE_DOCUMENTS") == "1":
        path.write_text(found, encoding="utf-8")
        return
    assert found.splitlines() == document.splitlines()


def test_readme_and_guide_have_blocks() -> None:
    with_blocks = {str(path.relative_to(blocks.ROOT)) for path in blocks.documents()}
    assert {"README.md", "python/README.md", "docs/guides/thesis-figures.md"} <= with_blocks


def test_a_wrong_output_would_be_noticed() -> None:
    document = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    assert blocks.rewritten(document, "doc") == document.replace("3", "2")


def test_output_that_is_not_shown_would_be_noticed() -> None:
    with pytest.raises(AssertionError, match="which no text block shows"):
        blocks.rewritten("```python\nprint(1)\n```\n", "doc")
