"""The Python blocks of the documents, and what they print.

A ```` ```python ```` block is run in the namespace of those before it in the same document. If the
next block is ```` ```text ````, with no other block between, it holds what was printed.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Optional

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```([a-z]*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BUILT = {"target", "out", ".git"}


@dataclass(frozen=True)
class Block:
    """A block of Python with what the document says that it prints."""

    line: int
    source: str
    shown: Optional[re.Match[str]]


def documents() -> list[Path]:
    """Every document with Python in it."""
    found = [
        path
        for path in sorted(ROOT.rglob("*.md"))
        if not _BUILT & set(path.relative_to(ROOT).parts)
    ]
    return [path for path in found if any(blocks(path.read_text(encoding="utf-8")))]


def blocks(document: str) -> Iterator[Block]:
    """The Python blocks of a document, in order."""
    fences = list(_FENCE.finditer(document))
    for index, fence in enumerate(fences):
        if fence[1] != "python":
            continue
        after = fences[index + 1] if index + 1 < len(fences) else None
        shown = after if after is not None and after[1] == "text" else None
        line = document.count("\n", 0, fence.start()) + 1
        yield Block(line, fence[2], shown)


def printed(block: Block, name: str, namespace: dict[str, Any]) -> str:
    """What a block prints."""
    # The lines of a traceback are those of the document.
    code = compile("\n" * block.line + block.source, name, "exec")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, namespace)
    return output.getvalue()


def rewritten(document: str, name: str) -> str:
    """The document with what its blocks print."""
    namespace: dict[str, Any] = {"__name__": "__document__"}
    pieces, end = [], 0
    for block in blocks(document):
        output = printed(block, name, namespace)
        if block.shown is None:
            if output:
                raise AssertionError(
                    f"{name}:{block.line}: prints {output!r}, which no text block shows"
                )
            continue
        pieces += [document[end : block.shown.start(2)], output]
        end = block.shown.end(2)
    return "".join(pieces) + document[end:]
