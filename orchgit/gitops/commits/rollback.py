"""Going back to an earlier commit: what is asked, what it holds, and what git is told. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchgit.errors import InvalidInputError
from orchgit.gitops.commits.holds import is_same_content
from orchgit.gitops.git.repository import CommitInfo
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.model.held_version import HeldVersion, HoldCause
from orchgit.model.rollout import Commit
from orchgit.model.source import Source
from orchgit.printable import printable
from orchgit.services.jobs.spec_id import spec_id_of

_MAX_NAME = 100
MAX_REASON = 1000
_MAX_LISTED = 50


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """Who goes back to an earlier commit, and why.

    `by` and `email` become the author of the commit on a built-in branch. `delete` are job ids (or
    `namespace/id`) that may be deleted though they own sticky volume claims. `expected_plan`, if
    not empty, is the `RollbackPreview.plan_hash` that the person saw.
    """

    by: str = ""
    email: str = ""
    reason: str = ""
    delete: frozenset[str] = frozenset()
    expected_plan: str = ""

    def __post_init__(self) -> None:
        for name, text in (("name", self.by), ("email", self.email)):
            is_plain = text.isprintable() and not {"<", ">"} & {*text}
            if len(text) > _MAX_NAME or not is_plain:
                raise InvalidInputError(
                    f"cannot go back: the {name} {printable(text[:_MAX_NAME])!r} has more than "
                    f"{_MAX_NAME} characters, or control characters, '<' or '>'"
                )
        if len(self.reason) > MAX_REASON:
            raise InvalidInputError(
                f"cannot go back: the reason has more than {MAX_REASON} characters"
            )

    @property
    def summary(self) -> str:
        """Returns a clause like "was taken back by ada (breaks the login)"."""
        by = f" by {self.by}" if self.by else ""
        why = f" ({' '.join(self.reason.split())})" if self.reason.strip() else ""
        return f"was taken back{by}{why}"

    def author(self, now_ns: int) -> Commit:
        """Returns the author of the commit on a built-in branch."""
        name = self.by.strip() or "orchgit"
        email = self.email.strip() or f"{name.split()[0]}@localhost"
        return Commit(author=name, email=email, time_ns=now_ns)


NOBODY = RollbackRequest()
"""Going back without a name or a reason."""


def taken_back_versions(
    source: Source,
    applied: Mapping[JobKey, DesiredJob],
    target: Mapping[JobKey, DesiredJob],
    request: RollbackRequest,
    now_ns: int,
) -> tuple[HeldVersion, ...]:
    """Returns the versions of the applied commit that the target does not have: they are held. The
    deletion of a job that the target has is one of them."""
    found = []
    for key in sorted({*applied, *target}):
        version = applied.get(key)
        if is_same_content(version, target.get(key)):
            continue
        found.append(
            HeldVersion(
                namespace=key[0],
                job_id=key[1],
                source=source.name,
                content_id=version.content_id if version is not None else "",
                spec_id=spec_id_of(version.job) if version is not None else "",
                commit_id=source.status.applied_commit,
                rollout_id=source.status.applied_rollout,
                cause=HoldCause.REVERTED,
                reason=request.summary,
                since_ns=now_ns,
            )
        )
    return tuple(found)


def revert_message(
    target: Commit, taken_back: Sequence[CommitInfo], request: RollbackRequest
) -> str:
    """Returns the message of the commit that brings the branch of a built-in repository back."""
    ids = [each.commit for each in taken_back]
    if len(ids) == 1:
        subject = f'Revert "{ids[0].subject}"'
        body = f"This takes back commit {ids[0].id}: the cluster runs {target.id[:12]} again."
    else:
        subject = f'Go back to {target.id[:8]} "{target.subject}"'
        listed = "".join(f"\n  {each.id} {each.subject}" for each in ids[:_MAX_LISTED])
        more = f"\n  and {len(ids) - _MAX_LISTED} more" if len(ids) > _MAX_LISTED else ""
        body = f"This takes back {len(ids)} commits:{listed}{more}"
    reason = f"{request.reason.strip()}\n\n" if request.reason.strip() else ""
    return f"{subject}\n\n{reason}{body}\n"


def git_commands(target_id: str, applied_id: str, taken_back: Sequence[CommitInfo]) -> list[str]:
    """Returns the commands that bring a remote's branch to the target, for its clone."""
    if taken_back and all(len(each.parents) == 1 for each in taken_back):
        return [f"git revert --no-edit {target_id[:12]}..{applied_id[:12]}", "git push"]
    return [
        f"git diff --binary {applied_id[:12]} {target_id[:12]} | git apply --index",
        f'git commit -m "Go back to {target_id[:12]}"',
        "git push",
    ]


def patch_mail(target: Commit, diff: str, message: str, author: Commit, date: str) -> str:
    """Returns the diff as a mail that `git am` applies. `date` is in the form of RFC 2822."""
    subject, _, body = message.partition("\n")
    return (
        f"From {target.id} Mon Sep 17 00:00:00 2001\n"
        f"From: {author.author} <{author.email}>\nDate: {date}\nSubject: [PATCH] {subject}\n"
        f"{body}---\n\n{diff}-- \norchgit\n"
    )


def rollback_hash(plan_hash: str, places: Iterable[str]) -> str:
    """Returns a digest of a plan and of the commits that it was made at."""
    return hashlib.sha256("\n".join((plan_hash, *places)).encode()).hexdigest()
