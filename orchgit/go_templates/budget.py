"""What one rendering may cost: steps, and the size of each value."""

from __future__ import annotations

from orchgit.go_templates.errors import LimitError

MAX_TEXT = 16 << 20
"""Characters of one value."""
_INT64 = 1 << 63
_CHARACTERS_A_STEP = 64
_ITEMS_A_STEP = 8


class StepBudget:
    """The steps that one rendering may take: about 1 us each."""

    def __init__(self, max_steps: int) -> None:
        self._left = self._max = max_steps

    def spend(self, steps: int = 1, characters: int = 0) -> None:
        """Raises LimitError when no steps are left, or a value is too long."""
        self._left -= steps
        if self._left < 0:
            raise LimitError(
                f"it takes more than {self._max} steps, the limit of templates; make its loops "
                "shorter"
            )
        if characters > MAX_TEXT:
            raise LimitError(f"a value has over {MAX_TEXT} characters, the limit")

    def spend_on(self, value: object) -> None:
        """Spends the steps of reading or making `value` once."""
        if isinstance(value, str):
            self.spend(1 + len(value) // _CHARACTERS_A_STEP, len(value))
        elif isinstance(value, list | dict):
            self.spend(1 + len(value) // _ITEMS_A_STEP)
        elif type(value) is int and not -_INT64 <= value < _INT64:
            raise LimitError("a whole number is out of the range of 64 bits")
