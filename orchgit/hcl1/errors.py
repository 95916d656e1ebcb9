"""What is wrong with an HCL1 text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchgit.errors import InvalidInputError
from orchgit.hcl1.tree import Position


@dataclass(frozen=True, slots=True)
class Hcl1Problem:
    """One mistake, in the words of HashiCorp's reader of the language."""

    position: Position
    message: str

    def __str__(self) -> str:
        return f"{self.position}: {self.message}"

    @property
    def without_file(self) -> str:
        """The mistake as Nomad writes it: "At 1:10: object expected closing RBRACE got: EOF"."""
        return f"At {self.position.line}:{self.position.column}: {self.message}"


class Hcl1Error(InvalidInputError):
    """The text cannot be read; `problems` has every mistake found, at least one."""

    def __init__(self, filename: str, problems: Sequence[Hcl1Problem]) -> None:
        lines = "\n".join(str(problem) for problem in problems)
        super().__init__(f"cannot read {filename}:\n{lines}")
        self.problems = tuple(problems)


class Hcl1Mistake(Exception):
    """Ends the reading of one item; the reader of its body notes it and goes on after it."""

    def __init__(self, position: Position, message: str) -> None:
        super().__init__(message)
        self.problem = Hcl1Problem(position, message)
