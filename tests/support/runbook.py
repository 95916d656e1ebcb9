"""The runbooks of docs/operations.md, read as they are written, so that a test runs their words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_STEP = re.compile(r"^(\d+)\. ", re.MULTILINE)
_COMMAND = re.compile(r"`((?:orchgit|openssl) [^`]+)`")
_BLOCK = re.compile(r"```\w*\n(.*?)```", re.DOTALL)


@dataclass(slots=True)
class Runbook:
    """One section. `left` are the commands that nobody has asked for yet."""

    title: str
    steps: dict[int, str]
    left: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, title: str) -> Runbook:
        page = PAGE.read_text()
        parts = _HEADING.split(page)
        text = dict(zip(parts[1::2], parts[2::2], strict=True))[title]
        pieces = _STEP.split(text)[1:]
        steps = dict(zip(map(int, pieces[::2]), pieces[1::2], strict=True))
        book = cls(title, steps)
        book.left = {one for number in steps for one in book.commands(number)}
        return book

    def commands(self, step: int) -> list[str]:
        return [" ".join(found.split()) for found in _COMMAND.findall(self.steps[step])]

    def command(self, step: int, number: int = 0) -> str:
        """The command of that step, as it is written."""
        found = self.commands(step)[number]
        self.left.discard(found)
        return found

    def block(self, step: int) -> str:
        """The file of that step."""
        found = _BLOCK.search(self.steps[step])
        assert found is not None, f"{self.title!r} step {step} has no file"
        return re.sub(r"^   ", "", found.group(1), flags=re.MULTILINE)
