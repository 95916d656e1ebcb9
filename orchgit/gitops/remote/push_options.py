"""The options of `git push -o NAME`. An unknown option is refused, since a misspelt `dry-run` must
not deploy. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from orchgit.errors import InvalidInputError

DETACH = "detach"
DRY_RUN = "dry-run"
_MEANING = {
    DETACH: "return as soon as the commit is applied",
    DRY_RUN: "show the plan and change nothing",
}


@dataclass(frozen=True, slots=True)
class PushOptions:
    """With `detach` the push ends when the commit is applied; with `dry_run` it shows the plan and
    refuses every ref."""

    detach: bool = False
    dry_run: bool = False


def read_push_options(names: Iterable[str]) -> PushOptions:
    """Raises InvalidInputError for an unknown option, naming the nearest known one."""
    wanted = set(names)
    unknown = sorted(wanted - _MEANING.keys())
    if unknown:
        raise InvalidInputError("\n".join(map(_refusal, unknown)))
    return PushOptions(detach=DETACH in wanted, dry_run=DRY_RUN in wanted)


def _refusal(name: str) -> str:
    normal = name.lower().replace("_", "-")
    near = difflib.get_close_matches(normal, _MEANING, n=1)
    advice = f"did you mean -o {near[0]}? " if near else ""
    known = "; ".join(f"-o {each}: {meaning}" for each, meaning in _MEANING.items())
    return f"cannot push with option {name[:100]!r}: {advice}The options are {known}"
