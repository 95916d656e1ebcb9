"""What all access control objects must meet: names, descriptions, lists of problems."""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchgit.errors import InvalidInputError
from orchgit.services.jobs.admission import multiple_errors

MAX_DESCRIPTION_LENGTH = 256
_NAME = re.compile(r"[a-zA-Z0-9-]{1,128}")


def name_problems(name: str) -> list[str]:
    return [] if _NAME.fullmatch(name) else [f"invalid name '{name}'"]


def description_problems(description: str) -> list[str]:
    if len(description) <= MAX_DESCRIPTION_LENGTH:
        return []
    return [f"description longer than {MAX_DESCRIPTION_LENGTH}"]


def check(what: str, problems: Sequence[str]) -> None:
    """Raises InvalidInputError with all problems of `what`, if there are any."""
    if problems:
        raise InvalidInputError(f"{what} invalid: {multiple_errors(problems)}")
