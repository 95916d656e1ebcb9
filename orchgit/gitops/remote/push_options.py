"""The options of `git push -o NAME`. An unknown option is refused, since a misspelt `dry-run` must
not deploy. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from orchgit.errors import InvalidInputError
from orchgit.gitops.gates.approvals import checked_reason

DETACH = "detach"
DRY_RUN = "dry-run"
OVERRIDE_WINDOW = "override-window"
_MEANING = {
    DETACH: "return as soon as the commit is applied, or waits",
    DRY_RUN: "show the plan and change nothing",
    OVERRIDE_WINDOW: "apply the commit outside its windows; write override-window=REASON",
}


@dataclass(frozen=True, slots=True)
class PushOptions:
    """With `detach` the push ends when the commit is applied, or waits at its gates; with `dry_run`
    it shows the plan and refuses every ref. `override_window` is why the commit is applied outside
    its windows, or ''."""

    detach: bool = False
    dry_run: bool = False
    override_window: str = ""


def read_push_options(options: Iterable[str]) -> PushOptions:
    """Raises InvalidInputError for an unknown option, naming the nearest known one, and for an
    override without a reason."""
    given = dict(option.partition("=")[::2] for option in options)
    wanted = {
        f"{name}={value}" if value and name != OVERRIDE_WINDOW else name
        for name, value in given.items()
    }
    unknown = sorted(wanted - _MEANING.keys())
    if unknown:
        raise InvalidInputError("\n".join(map(_refusal, unknown)))
    reason = ""
    if OVERRIDE_WINDOW in wanted:
        reason = checked_reason(given[OVERRIDE_WINDOW], "override a window")
    return PushOptions(detach=DETACH in wanted, dry_run=DRY_RUN in wanted, override_window=reason)


def _refusal(name: str) -> str:
    normal = name.lower().replace("_", "-")
    near = difflib.get_close_matches(normal, _MEANING, n=1)
    advice = f"did you mean -o {near[0]}? " if near else ""
    known = "; ".join(f"-o {each}: {meaning}" for each, meaning in _MEANING.items())
    return f"cannot push with option {name[:100]!r}: {advice}The options are {known}"
