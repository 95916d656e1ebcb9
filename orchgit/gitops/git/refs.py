"""Names of refs: which are valid, and which of a remote's refs a source's setting means. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from orchgit.errors import InvalidInputError, SourceError

_COMMIT_ID = re.compile(r"^[0-9a-f]{40}(?:[0-9a-f]{24})?$")
_BAD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)")
ZERO_ID = "0" * 40


@dataclass(frozen=True, slots=True)
class ResolvedRef:
    """`name` is what to fetch: a full ref name, or a commit id."""

    name: str
    commit_id: str


def is_commit_id(text: str) -> bool:
    """Returns whether the text is a full object id: 40 or 64 hexadecimal digits."""
    return _COMMIT_ID.match(text) is not None


def check_ref_name(ref: str) -> str:
    """Returns the ref. Raises InvalidInputError if git would not accept it, or could read it as an
    option."""
    if any(part.startswith("-") for part in ref.split("/")):
        raise InvalidInputError(f"cannot use ref {ref!r}: a part of a ref must not start with '-'")
    if not ref or _BAD.search(ref) or ref.endswith(("/", ".")) or ref.startswith(("/", ".")):
        raise InvalidInputError(f"cannot use ref {ref!r}: it is not a valid ref name")
    return ref


def resolve_ref(wanted: str, advertised: Mapping[str, str]) -> ResolvedRef:
    """Returns which ref and commit a source's `ref` means among a remote's refs; tags are peeled.

    Raises SourceError if the remote has no such ref, which is an outage and never "no jobs".
    """
    check_ref_name(wanted)
    if is_commit_id(wanted):
        return ResolvedRef(wanted, wanted)
    for name in (wanted, f"refs/heads/{wanted}", f"refs/tags/{wanted}", f"refs/{wanted}"):
        commit_id = advertised.get(f"{name}^{{}}") or advertised.get(name)
        if commit_id is not None:
            return ResolvedRef(name, commit_id)
    heads = sorted(n.removeprefix("refs/heads/") for n in advertised if n.startswith("refs/heads/"))
    known = ", ".join(heads[:10]) or "none"
    raise SourceError(f"cannot find ref {wanted!r}; branches there: {known}")
