"""The sources of a cluster and what is registered. Each method is something that happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.support.gitops_model import drift, gates
from tests.support.gitops_model.cluster import ModelCluster
from tests.support.gitops_model.commits import Commits, drifted
from tests.support.gitops_model.facts import Files, JobKind
from tests.support.gitops_model.source import (
    ModelBranch,
    ModelCommit,
    ModelSource,
    Settings,
)


@dataclass
class GitopsModel:
    """`branches` are those of built-in repositories, by the name of the repository; `repositories`
    the names of the repositories by the name of the source, also of a removed one."""

    kinds: Mapping[str, JobKind]
    sources: dict[str, ModelSource] = field(default_factory=dict)
    branches: dict[str, ModelBranch] = field(default_factory=dict)
    repositories: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster = ModelCluster(self.kinds, self.sources)

    def commits(self, source: str) -> Commits:
        return Commits(self.cluster, self.sources[source], self.sources)

    def come_to_rest(self, why: str = "checked") -> None:
        """Every source looks at its branch, and drift is corrected, until nothing changes."""
        is_changed = True
        while is_changed:
            for name in sorted(self.sources):
                gates.check(self.commits(name), why)
            corrected = [drift.correct(self.commits(name)) for name in sorted(self.sources)]
            is_changed = any(corrected)

    # -- sources ---------------------------------------------------------------------------------

    def may_add(self, name: str) -> bool:
        """A repository that a renamed source has, or had, is not found under another name."""
        is_anothers = any(
            each == name for other, each in self.repositories.items() if other != name
        )
        is_renamed = self.repositories.get(name, name) != name
        return name not in self.sources and not is_anothers and not is_renamed

    def add(self, name: str, settings: Settings) -> None:
        """The repository of a removed source of that name is found again."""
        self.repositories[name] = name
        branch = self.branches.setdefault(name, ModelBranch())
        self.sources[name] = ModelSource(name, settings, branch)

    def remove(self, name: str, stop: bool) -> None:
        """Jobs keep running, and remember whose they were; or they are stopped."""
        del self.sources[name]
        cluster = self.cluster
        for job_id, job in list(cluster.jobs.items()):
            if job.owner != name or job.stopped:
                continue
            if stop:
                cluster.jobs[job_id] = cluster.stopped(job, f"{name} was removed")
            else:
                cluster.jobs[job_id] = replace(job, owner="", former_owner=name)
        for job_id, held in list(cluster.held.items()):
            if held.source == name and stop:
                del cluster.held[job_id]
            elif held.source == name:
                cluster.held[job_id] = replace(held, source="")
        for job_id, ran in list(cluster.ran.items()):
            if ran.source == name and stop:
                del cluster.ran[job_id]
            elif ran.source == name:
                cluster.ran[job_id] = replace(ran, source="")

    def may_be_renamed(self, name: str, new_name: str) -> bool:
        """A name has one source, one repository and one history."""
        is_own = self.repositories[name] == new_name
        is_used = new_name in self.repositories or new_name in self.branches
        return new_name not in self.sources and (is_own or not is_used)

    def rename(self, name: str, new_name: str) -> None:
        """The source, its jobs and their records get the name; nothing else changes."""
        source = self.sources.pop(name)
        source.name = new_name
        self.sources[new_name] = source
        self.repositories[new_name] = self.repositories.pop(name)
        cluster = self.cluster
        for job_id, job in cluster.jobs.items():
            cluster.jobs[job_id] = replace(
                job,
                owner=new_name if job.owner == name else job.owner,
                made_by=new_name if job.made_by == name else job.made_by,
                released_from=new_name if job.released_from == name else job.released_from,
            )
        for job_id, held in cluster.held.items():
            if held.source == name:
                cluster.held[job_id] = replace(held, source=new_name)
        for job_id, ran in cluster.ran.items():
            if ran.source == name:
                cluster.ran[job_id] = replace(ran, source=new_name)

    def take_over(self, name: str) -> None:
        """A person lets the source adopt jobs without a source."""
        source = self.sources[name]
        source.settings.adopt = True
        gates.check(self.commits(name), "adopting")
        if source.applied is not None and source.applied is source.branch.head:
            self.commits(name).take_over()

    # -- commits ---------------------------------------------------------------------------------

    def push(self, name: str, commit_id: str, files: Files) -> None:
        branch = self.sources[name].branch
        branch.head = ModelCommit(dict(files), commit_id, branch.head)
        gates.check(self.commits(name), "commit")

    def go_back(self, name: str, target: ModelCommit, commit_id: str) -> None:
        head = self.sources[name].branch.head
        self.commits(name).go_back(target, ModelCommit(target.files, commit_id, head))

    def override(self, name: str) -> None:
        gates.check(self.commits(name), "window overridden", override=True)

    def approve(self, name: str) -> None:
        """A person approves the plan that waits."""
        waiting = self.sources[name].waiting
        assert waiting is not None
        waiting.approved = self.commits(name).plan(waiting.commit.files)
        gates.check(self.commits(name), "approved")

    def reject(self, name: str) -> None:
        source = self.sources[name]
        assert source.waiting is not None
        source.quarantined.append(source.waiting.commit)
        source.waiting = None

    # -- what is told to people ------------------------------------------------------------------

    def drifted(self) -> dict[str, tuple[str, str]]:
        """How jobs differ, each with the source that says so."""
        return drifted(self.cluster, self.sources)
