"""What is registered, and what people change of it by hand."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from tests.support.gitops_model.facts import (
    AUTO_REVERT,
    HAND,
    Held,
    JobKind,
    Ran,
    Registered,
    Spec,
)
from tests.support.simulated_server import FAILS, HANGS, RUNS


@dataclass
class ModelCluster:
    """The jobs of the cluster, whoever owns them. `sources` are those that exist."""

    kinds: Mapping[str, JobKind]
    sources: Collection[str]
    jobs: dict[str, Registered] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    ran: dict[str, Ran] = field(default_factory=dict)
    started: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a job that runs once was started, by its name and the number of its content."""
    versions: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def live(self, name: str) -> Registered | None:
        job = self.jobs.get(name)
        return job if job is not None and job.live else None

    def is_over(self, name: str) -> bool:
        """Whether the job is one that runs once, and has run."""
        job = self.jobs.get(name)
        return self.kinds[name].runs_once and job is not None and job.spec.does != HANGS

    def put(self, name: str, new: Registered) -> None:
        """A new version is registered. What becomes of it: it is healthy, hangs, or fails, and a
        failed one may be reverted."""
        known, kind, spec = self.jobs.get(name), self.kinds[name], new.spec
        stable = known.stable if known is not None else None
        if kind.runs_once:
            self.started[name, str(spec.number)] += spec.count
        if kind.type == "service" and spec.does == RUNS:
            stable = spec
        job = replace(new, version=next(self.versions), stable=stable)
        if kind.auto_revert and spec.does == FAILS and stable is not None:
            why = f"auto-revert of {new.why}"
            version = next(self.versions)
            job = replace(job, spec=stable, version=version, made_by=AUTO_REVERT, why=why)
        self.jobs[name] = job

    # -- changes by hand -------------------------------------------------------------------------

    def register(self, name: str, spec: Spec, why: str = "registered by hand") -> None:
        """Keeps the owner of a job that is known, if it is still there."""
        known = self._without_removed_owner(name)
        if known is None:
            self.put(name, Registered(spec, "", why, made_by=HAND))
        elif known.stopped or known.spec != spec:
            self.put(name, replace(known, spec=spec, why=why, made_by=HAND, stopped=False))

    def _without_removed_owner(self, name: str) -> Registered | None:
        known = self.jobs.get(name)
        if known is None or not known.owner or known.owner in self.sources:
            return known
        return replace(known, owner="", former_owner=known.owner)

    def scale(self, name: str, count: int) -> None:
        """A stopped job stays stopped."""
        known = self._without_removed_owner(name)
        assert known is not None
        spec = replace(known.spec, count=count)
        if known.stopped:
            self.jobs[name] = replace(known, spec=spec, version=next(self.versions))
        else:
            self.register(name, spec, "scaled by hand")

    def stop(self, name: str, purge: bool) -> None:
        if purge:
            self.jobs.pop(name, None)
        elif name in self.jobs:
            self.jobs[name] = self.stopped(self.jobs[name], "stopped by hand")

    def stopped(self, job: Registered, why: str) -> Registered:
        return replace(job, stopped=True, why=why, version=next(self.versions))

    def release(self, name: str) -> None:
        job = self.jobs[name]
        source = job.owner if job.owner in self.sources else ""
        self.jobs[name] = replace(job, owner="", released_from=source, former_owner="")

    def give_back(self, name: str) -> None:
        job = self.jobs[name]
        self.jobs[name] = replace(job, owner=job.released_from, released_from="")

    def collect(self) -> None:
        """What is stopped or has ended is forgotten."""
        for name, job in list(self.jobs.items()):
            if job.stopped or self.is_over(name):
                del self.jobs[name]
