"""Which content of each job must be registered, and why: the rules of gitops, told a second time.

The model knows nothing of the product's code. It is told what people did and says what must be
there afterwards. A commit is applied whole: it changes every job, or none and is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
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


DELETION = Spec(0)


def _number(content: JobContent | None) -> int:
    return content.number if content is not None else 0


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
    is_rerun: bool = False
    """Whether the newest rollout only applied jobs of its commit again."""
    jobs: dict[str, Registered] = field(default_factory=dict)
    held: dict[str, Spec] = field(default_factory=dict)
    """Versions that failed, or that were taken back: no commit applies them until one changes the
    file. `DELETION` stands for a commit without the file."""
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

    def apply_head(self, why: str, taken_back: Collection[str] = ()) -> None:
        """The source applies its branch, whole or not at all. Of the jobs in `taken_back` another
        version is held already."""
        if self.head == self.applied:
            return
        files = self.trees[self.head]
        if self.refuses(files):
            self.refused = self.head
            return
        self.refused, self.is_rerun = "", False
        before = self.trees.get(self.applied, {})
        for name, content in files.items():
            self._apply_file(name, content, f"{why} {self.head[:8]}")
        for name, job in self.jobs.items():
            is_gone = name not in files and self.held.get(name) != DELETION
            if job.owner == self.source and not job.stopped and is_gone:
                self.jobs[name] = replace(job, stopped=True, why=f"no file at {self.head[:8]}")
        self._let_go(before, files, taken_back)
        once = {name for name in files if self.kinds[name].runs_once}
        self.ran = {name: (files[name], self.tag) for name in once}
        self.previous, self.applied = self.applied, self.head

    def _let_go(self, before: Files, files: Files, taken_back: Collection[str]) -> None:
        """A commit that changes a file frees what is held of it; a comment or a move does not."""
        for name, spec in list(self.held.items()):
            content, old = files.get(name), before.get(name)
            is_changed = _number(content) != _number(old)
            if is_changed and self._spec(content) != spec and name not in taken_back:
                del self.held[name]

    def _spec(self, content: JobContent | None) -> Spec:
        if content is None:
            return DELETION
        return Spec(content.number, content.does, content.count, self.tag)

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
        if self.held.get(name) == self._spec(content):
            if live is not None:
                self._own(name, live)
            return
        if live is None and self.kinds[name].runs_once and self._has_run(name, content):
            return
        wanted = self._wanted(name, content)
        if live is not None and live.spec == wanted:
            self._own(name, live)
        else:
            self._try(name, content, why)

    def _try(self, name: str, content: JobContent, why: str) -> None:
        """The source registers the file's job; a version that fails is held."""
        self._register(name, self._wanted(name, content), self.source, why)
        if content.does == FAILS and self.kinds[name].type != "periodic":
            self.held[name] = self._spec(content)

    def _own(self, name: str, job: Registered) -> None:
        self.jobs[name] = replace(job, owner=self.source, released_from="", former_owner="")

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
        before, after = self.trees[self.applied], self.trees[self.previous]
        taken_back = {
            name
            for name in {*before, *after}
            if _number(before.get(name)) != _number(after.get(name))
        }
        self.held.update({name: self._spec(before.get(name)) for name in taken_back})
        self.head = commit
        self.branch = self.trees[commit] = after
        self.apply_head("revert", taken_back)

    def retry(self, name: str) -> None:
        """A person wants the held version applied again."""
        content, job = self.trees[self.applied].get(name), self.jobs.get(name)
        del self.held[name]
        self.is_rerun = True
        live = job if job is not None and not job.stopped else None
        if live is not None and not live.owner and live.released_from == self.source:
            return
        if content is not None:
            self._try(name, content, "retry")
        elif live is not None and live.owner == self.source:
            self.jobs[name] = replace(live, stopped=True, why="retried deletion")

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

    # -- what is told to people ------------------------------------------------------------------

    def drifted(self) -> dict[str, str]:
        """How jobs differ from what the applied commit wants, by name."""
        files = self.trees.get(self.applied, {})
        found = {name: self._drift(name, files.get(name)) for name in {*files, *self.jobs}}
        return {name: kind for name, kind in found.items() if kind}

    def is_held(self, name: str) -> bool:
        """Whether the applied commit has the held version of the job."""
        content = self.trees.get(self.applied, {}).get(name)
        return self.held.get(name) == self._spec(content)

    def _drift(self, name: str, content: JobContent | None) -> str:
        job, once = self.jobs.get(name), self.kinds[name].runs_once
        if self.is_held(name):
            return ""
        if content is None:
            is_owned = job is not None and job.owner == self.source and not job.stopped
            return "without_file" if is_owned and self.applied else ""
        if job is None:
            return "" if once else "missing"
        if job.owner not in ("", self.source) or job.released_from == self.source:
            return ""
        if job.stopped:
            return "" if once else "stopped"
        is_same = job.owner == self.source and job.spec == self._wanted(name, content)
        return "" if is_same else "changed"
