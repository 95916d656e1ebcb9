"""Which content of each job must be registered, and why: the rules of gitops, told a second time.

The model knows nothing of the product's code. It is told what people did and says what must be
there afterwards. A commit is applied whole: it changes every job, or none and is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.support.simulated_server import FAILS, HANGS, RUNS, JobContent

Files = Mapping[str, JobContent]


@dataclass(frozen=True)
class JobKind:
    """`is_scaled`: the group has a scaling policy, so its count belongs to the one who scales."""

    type: str
    auto_revert: bool = False
    is_scaled: bool = False

    @property
    def runs_once(self) -> bool:
        return self.type == "batch"


@dataclass(frozen=True)
class Spec:
    """What a registered job is: all of a file but its comments, and the source's variable."""

    number: int
    does: str = RUNS
    count: int = 1
    tag: str = ""


@dataclass(frozen=True)
class Registered:
    """A job as it must be registered. `stable` is the newest version that became healthy; `why`
    tells a person who reads a failed test where it comes from."""

    spec: Spec
    owner: str
    why: str
    stopped: bool = False
    released_from: str = ""
    former_owner: str = ""
    stable: Spec | None = None


@dataclass
class GitopsModel:
    """One built-in source and what is registered. Each method is something that happens."""

    kinds: Mapping[str, JobKind]
    source: str = "demo"
    branch: Files = field(default_factory=dict)
    head: str = ""
    applied: str = ""
    previous: str = ""
    trees: dict[str, Files] = field(default_factory=dict)
    tag: str = ""
    paused: bool = False
    adopt: bool = False
    refused: str = ""
    jobs: dict[str, Registered] = field(default_factory=dict)
    ran: dict[str, tuple[JobContent, str]] = field(default_factory=dict)
    """Jobs that run once, as the source last applied them."""
    started: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a job that runs once was started, by its name and the number of its content."""

    # -- commits ---------------------------------------------------------------------------------

    def push(self, commit: str, files: Files) -> None:
        self.branch, self.trees[commit] = files, files
        self.head = commit
        if not self.paused:
            self.apply_head("commit")

    def apply_head(self, why: str) -> None:
        """The source applies its branch, whole or not at all."""
        if self.head == self.applied:
            return
        files = self.trees[self.head]
        if self.refuses(files):
            self.refused = self.head
            return
        self.refused = ""
        for name, content in files.items():
            self._apply_file(name, content, f"{why} {self.head[:8]}")
        for name, job in self.jobs.items():
            if job.owner == self.source and not job.stopped and name not in files:
                self.jobs[name] = replace(job, stopped=True, why=f"no file at {self.head[:8]}")
        once = {name for name in files if self.kinds[name].runs_once}
        self.ran = {name: (files[name], self.tag) for name in once}
        self.previous, self.applied = self.applied, self.head

    def refuses(self, files: Files) -> bool:
        """Whether a commit names a job that another source owns, or that a removed one owned."""
        registered = {name: job for name, job in self.jobs.items() if not job.stopped}
        return any(
            job.owner not in ("", self.source) or (job.former_owner and not self.adopt)
            for name, job in registered.items()
            if name in files
        )

    def _apply_file(self, name: str, content: JobContent, why: str) -> None:
        known = self.jobs.get(name)
        live = known if known is not None and not known.stopped else None
        if live is not None and not live.owner and live.released_from == self.source:
            return
        wanted = self._wanted(name, content)
        if live is None and self.kinds[name].runs_once and self._has_run(name, content):
            return
        if live is not None and live.spec == wanted:
            self.jobs[name] = replace(live, owner=self.source, released_from="", former_owner="")
        else:
            self._register(name, wanted, self.source, why)

    def _wanted(self, name: str, content: JobContent) -> Spec:
        count, known = content.count, self.jobs.get(name)
        if known is not None and not known.stopped and self.kinds[name].is_scaled:
            count = known.spec.count
        return Spec(content.number, content.does, count, self.tag)

    def _has_run(self, name: str, content: JobContent) -> bool:
        """Neither a comment nor a variable that changes nothing repeats work."""
        before = self.ran.get(name)
        if before is None:
            return False
        return (before[0].number, before[1]) == (content.number, self.tag)

    def _register(self, name: str, spec: Spec, owner: str, why: str, **origin: str) -> None:
        """A new version, and what becomes of it."""
        known, kind = self.jobs.get(name), self.kinds[name]
        stable = known.stable if known is not None else None
        if kind.runs_once:
            self.started[name, str(spec.number)] += spec.count
        if kind.type == "service" and spec.does == RUNS:
            stable = spec
        self.jobs[name] = Registered(spec, owner, why, stable=stable, **origin)
        if kind.auto_revert and spec.does == FAILS and stable is not None:
            self.jobs[name] = replace(self.jobs[name], spec=stable, why=f"auto-revert of {why}")

    def revert(self, commit: str) -> None:
        """A person reverts the applied commit: `commit` is the revert commit on the branch."""
        self.head = commit
        self.branch = self.trees[commit] = self.trees[self.previous]
        self.apply_head("revert")

    def pause(self, paused: bool) -> None:
        self.paused = paused
        if not paused and self.head:
            self.apply_head("resumed")

    def set_tag(self, tag: str) -> None:
        """The next commit is read with the variable."""
        self.tag = tag
        if not self.paused and self.refused:
            self.apply_head("settings")

    # -- changes by hand -------------------------------------------------------------------------

    def register(self, name: str, spec: Spec, why: str = "registered by hand") -> None:
        known = self.jobs.get(name)
        if known is None:
            self._register(name, spec, "", why)
            return
        if not known.stopped and known.spec == spec:
            return
        origin = {"released_from": known.released_from, "former_owner": known.former_owner}
        self._register(name, spec, known.owner, why, **origin)

    def scale(self, name: str, count: int) -> None:
        """A stopped job stays stopped."""
        known = self.jobs[name]
        spec = replace(known.spec, count=count)
        if known.stopped:
            self.jobs[name] = replace(known, spec=spec)
        else:
            self.register(name, spec, "scaled by hand")

    def stop(self, name: str, purge: bool) -> None:
        if purge:
            self.jobs.pop(name, None)
        elif name in self.jobs:
            self.jobs[name] = replace(self.jobs[name], stopped=True, why="stopped by hand")

    def release(self, name: str) -> None:
        self.jobs[name] = replace(
            self.jobs[name], owner="", released_from=self.source, former_owner=""
        )

    def give_back(self, name: str) -> None:
        self.jobs[name] = replace(
            self.jobs[name], owner=self.jobs[name].released_from, released_from=""
        )

    def collect(self) -> None:
        """What is stopped or has ended is forgotten."""
        for name, job in list(self.jobs.items()):
            if job.stopped or (self.kinds[name].runs_once and job.spec.does != HANGS):
                del self.jobs[name]
