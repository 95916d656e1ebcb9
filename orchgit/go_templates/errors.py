"""The errors of templates."""

from __future__ import annotations

from orchgit.errors import InvalidInputError


class TemplateError(InvalidInputError):
    """A template that cannot be parsed or executed; the text is Go's, with name and place.

    `stage` is "parse" or "execute".
    """

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(message)
        self.stage = stage


class LimitError(InvalidInputError):
    """A template took more than it may."""
