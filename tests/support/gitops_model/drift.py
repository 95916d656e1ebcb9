"""What becomes of changes by hand: nothing, or healing or adopting, by the source's policy."""

from __future__ import annotations

from dataclasses import replace

from tests.support.gitops_model.commits import Commits, drifted
from tests.support.gitops_model.facts import AUTO_REVERT
from tests.support.gitops_model.source import ModelCommit


def _own(commits: Commits) -> dict[str, str]:
    found = drifted(commits.cluster, commits.sources)
    return {name: kind for name, (by, kind) in found.items() if by == commits.source.name}


def correct(commits: Commits) -> bool:
    """What the source's policy makes of the drift; returns whether it changed anything."""
    settings = commits.source.settings
    if settings.paused or commits.is_under_way():
        return False
    match settings.drift:
        case "heal":
            return _heal(commits)
        case "adopt":
            return _adopt(commits)
    return False


def _heal(commits: Commits) -> bool:
    """The applied commit's versions run again, unless a window denies changes, but for jobs that
    run once and for versions that the server itself reverted to."""
    cluster, source = commits.cluster, commits.source
    if not source.settings.window_is_open:
        return False
    names = []
    for name, kind in _own(commits).items():
        job = cluster.jobs.get(name)
        if job is not None and (cluster.kinds[name].runs_once or _was_auto_reverted(commits, name)):
            continue
        wants = {name: source.applied_files[name]} if name in source.applied_files else {}
        if commits.refused(wants) or (kind == "without_file" and not source.applied_files):
            continue
        names.append(name)
    if not names:
        return False
    commits.run_again(names, "healed")
    commits.let_go(source.applied_files, source.applied_files, ())
    return True


def _was_auto_reverted(commits: Commits, name: str) -> bool:
    job = commits.cluster.jobs.get(name)
    return job is not None and job.made_by == AUTO_REVERT


def _adopt(commits: Commits) -> bool:
    """The files of the branch say what runs, in one commit. What a variable of the source or its
    settings changed is left, and so is a job that is not the source's."""
    cluster, source = commits.cluster, commits.source
    if source.branch.head is not source.applied:
        return False
    files = dict(source.applied_files)
    for name, kind in _own(commits).items():
        job = cluster.jobs.get(name)
        if kind != "changed" or job is None or job.owner != source.name:
            continue
        if job.made_by in (AUTO_REVERT, source.name) or job.spec.tag != source.settings.tag:
            continue
        content, spec = files[name], job.spec
        count = content.count if cluster.kinds[name].is_scaled else spec.count
        files[name] = replace(content, number=spec.number, does=spec.does, count=count)
    if files == source.applied_files:
        return False
    source.branch.head = ModelCommit(files, parent=source.applied)
    commits.adopt(source.branch.head)
    return True
