"""The budget for evaluating one job file: steps of work, turns of loops, characters.

Limits of single values do not bound a file that makes many of them, so everything that multiplies
text or collections is charged here. The first charge that is too much ends the evaluation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobspec.evaluation.values import Value, elements, mapping

if TYPE_CHECKING:
    from jobspec.errors import SourceText

MAX_STEPS = 1_000_000
"""A step is the evaluation of one part of an expression, or of one value that a function walks:
about 2 us."""
MAX_TURNS = 200_000
"""How many times the for-expressions and splats of one file may go round, all together."""
MAX_CHARACTERS = 16 * 1024 * 1024
"""What expressions produce: results on the way to the job, and the job's own text."""
_CHARACTERS_A_STEP = 64
_OTHER_CHARACTERS_A_STEP = 4
"""Outside ASCII, where what a reader sees as one character has to be found out."""


class BudgetError(Exception):
    """The file costs too much. The evaluator of the expensive part adds the place."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.start: int | None = None
        self.end = 0
        self.source: SourceText | None = None


class Budget:
    """One for each file that is read; every scope and function of the file has the same."""

    __slots__ = ("characters", "steps", "turns")

    def __init__(self) -> None:
        self.steps = MAX_STEPS
        self.turns = MAX_TURNS
        self.characters = MAX_CHARACTERS

    @property
    def spent(self) -> int:
        """Steps, turns among them; all of them when the file cost too much."""
        if min(self.steps, self.turns, self.characters) < 0:
            return MAX_STEPS
        return MAX_STEPS - self.steps

    def charge(self, steps: int, characters: int = 0) -> None:
        """Spend before, or with, the work. Raises BudgetError."""
        self.steps -= steps
        self.characters -= characters
        if self.steps < 0:
            raise BudgetError(
                f"Too much work: evaluating this file takes more than {MAX_STEPS} steps; make its "
                "loops and collections smaller"
            )
        if self.characters < 0:
            raise BudgetError(
                f"Too much text: the expressions of this file produce more than {MAX_CHARACTERS} "
                "characters in all; make its strings smaller"
            )

    def turn(self) -> None:
        """Count one iteration."""
        self.turns -= 1
        if self.turns < 0:
            raise BudgetError(
                f"Too many iterations: more than {MAX_TURNS} in this file; make its loops smaller"
            )

    def walk(self, value: Value) -> int:
        """Charge the steps of walking the value; returns the characters in it.

        A value may hold another one twice without costing memory, but each walk costs steps.
        """
        kind = type(value)
        if kind is int or kind is bool:
            return 0
        characters = 0
        waiting = [value]
        while waiting:
            current = waiting.pop()
            if type(current) is str:
                characters += len(current)
                if len(current) >= _CHARACTERS_A_STEP:
                    self.charge(_reading(current))
                continue
            items = elements(current)
            pairs = mapping(current)
            if items is not None:
                self.charge(len(items))
                waiting.extend(items)
            elif pairs is not None:
                self.charge(len(pairs))
                waiting.extend(pairs.values())
                characters += sum(map(len, pairs))
        return characters


def _reading(text: str) -> int:
    """The steps of reading a text once."""
    return len(text) // (_CHARACTERS_A_STEP if text.isascii() else _OTHER_CHARACTERS_A_STEP)
