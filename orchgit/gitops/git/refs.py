"""Names of refs: which are valid, and which of a remote's refs a source's setting means. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchgit.errors import InvalidInputError, SourceError
from orchgit.gitops.git.semver import TagVersion, parse_range, parse_version
from orchgit.model.source import TagPolicy

_COMMIT_ID = re.compile(r"^[0-9a-f]{40}(?:[0-9a-f]{24})?$")
_BAD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)")
ZERO_ID = "0" * 40
SEMVER = "semver:"
"""How a `ref` begins that follows the newest of the tags in a range of versions."""
_TAGS = "refs/tags/"
_NO_POLICY = TagPolicy()


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


def check_followed_ref(ref: str, tags: TagPolicy) -> None:
    """Raises InvalidInputError unless a source can follow the ref: a branch, tag or full ref name,
    a commit id, or `semver:` with a range of versions, which alone takes a policy for tags."""
    if ref.startswith(SEMVER):
        parse_range(ref.removeprefix(SEMVER))
        if tags.prefix:
            check_ref_name(f"{_TAGS}{tags.prefix}0")
        return
    check_ref_name(ref)
    if tags != _NO_POLICY:
        raise InvalidInputError(
            f"cannot use ref {ref!r} with a tag prefix or pre-releases: these are for a ref such "
            f"as '{SEMVER}>=1.2 <2'"
        )


def version_of_tag(name: str, tags: TagPolicy) -> TagVersion | None:
    """Returns the version that a full ref name stands for under the policy; None for a branch, for
    a tag of another prefix or of no version, and for a pre-release that the policy leaves out."""
    start = f"{_TAGS}{tags.prefix}"
    version = parse_version(name.removeprefix(start)) if name.startswith(start) else None
    if version is None or (version.prerelease and not tags.prereleases):
        return None
    return version


def newest_tag(wanted: str, names: Iterable[str], tags: TagPolicy) -> str | None:
    """Returns the full name of the tag with the newest version in the range `semver:...`, or None.
    Of tags of one version the last by name is taken, on every server the same."""
    versions = parse_range(wanted.removeprefix(SEMVER))
    found = [
        (version, name)
        for name in names
        if (version := version_of_tag(name, tags)) is not None and versions.holds(version)
    ]
    return max(found)[1] if found else None


def resolve_ref(
    wanted: str, advertised: Mapping[str, str], tags: TagPolicy = _NO_POLICY
) -> ResolvedRef:
    """Returns which ref and commit a source's `ref` means among a remote's refs; tags are peeled.

    Raises SourceError if the remote has no such ref, which is an outage and never "no jobs".
    """
    if wanted.startswith(SEMVER):
        return _resolve_range(wanted, advertised, tags)
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


def _resolve_range(wanted: str, advertised: Mapping[str, str], tags: TagPolicy) -> ResolvedRef:
    names = [name for name in advertised if not name.endswith("^{}")]
    found = newest_tag(wanted, names, tags)
    if found is not None:
        return ResolvedRef(found, advertised.get(f"{found}^{{}}") or advertised[found])
    others = [(v, name) for name in names if (v := version_of_tag(name, tags)) is not None]
    newest = max(others)[1].removeprefix(_TAGS) if others else "none"
    kind = f"tags that begin with {tags.prefix!r}" if tags.prefix else "tags"
    raise SourceError(
        f"cannot find a tag for {wanted!r} among {len(others)} versions in the {kind} there; the "
        f"newest is {newest}"
    )
