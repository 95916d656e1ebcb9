"""When a commit may be applied, and what becomes of one that fails."""

from __future__ import annotations

from tests.support.gitops_model.commits import Commits, Plan
from tests.support.gitops_model.source import ModelCommit, ModelSource, Waiting


def check(commits: Commits, why: str, override: bool = False) -> None:
    """The source looks at its branch: it applies the newest commit, lets it wait, or refuses it."""
    source = commits.source
    head = source.branch.head
    if source.settings.paused or head is None:
        return
    if head is source.applied:
        source.waiting = None
        return
    if head in source.quarantined:
        return
    if commits.refused(head.files):
        source.waiting = None
        return
    plan = commits.plan(head.files)
    if source.waiting is None or source.waiting.commit is not head:
        source.waiting = Waiting(head)
    source.waiting.is_overridden |= override
    if not _is_open(source, plan):
        return
    failed = commits.apply(head, why)
    if failed and source.settings.goes_back:
        _go_back(commits)


def _is_open(source: ModelSource, plan: Plan) -> bool:
    """A commit that changes no job waits for nothing."""
    settings, waiting = source.settings, source.waiting
    if not plan:
        return True
    assert waiting is not None
    is_approved = not settings.needs_approval or waiting.approved == plan
    return is_approved and (settings.window_is_open or waiting.is_overridden)


def _go_back(commits: Commits) -> None:
    """The health gate takes the failed commit back, if there is one before it."""
    source = commits.source
    target = source.previous
    if target is None or commits.refused(target.files):
        return
    commits.go_back(target, ModelCommit(target.files, parent=source.branch.head))
