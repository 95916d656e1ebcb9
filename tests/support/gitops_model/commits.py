"""What a commit of a source does: whole, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tests.support.gitops_model.cluster import ModelCluster
from tests.support.gitops_model.facts import (
    Files,
    Held,
    Ran,
    Registered,
    Spec,
    is_same_content,
    spec_of_content,
)
from tests.support.gitops_model.source import ModelCommit, ModelSource
from tests.support.simulated_server import FAILS, HANGS, JobContent


@dataclass(frozen=True)
class Change:
    """What a commit does to one job: registers `spec` of `content`, makes the job the source's own
    as it is (`spec` is None), or stops it. `version` is the registered version that this is planned
    on."""

    version: int
    spec: Spec | None = None
    content: JobContent | None = None
    stops: bool = False


Plan = Mapping[str, Change]


@dataclass
class Commits:
    """Plans and applies commits of one source."""

    cluster: ModelCluster
    source: ModelSource
    sources: Mapping[str, ModelSource]
    """All sources that exist, by name."""

    # -- what a commit would do ------------------------------------------------------------------

    def refused(self, files: Files) -> str:
        """Why the commit is refused: it names a job that another source owns or misses, or that a
        removed source owned; '' if it is not."""
        missed = {
            name: source
            for name, (source, kind) in drifted(self.cluster, self.sources).items()
            if kind in ("stopped", "missing") and source != self.source.name
        }
        for name, content in files.items():
            job = self.cluster.live(name)
            if job is None:
                is_new = name not in self.source.applied_files
                if is_new and name in missed and self._change(name, content) is not None:
                    return f"{name} is missed by {missed[name]}"
                continue
            if job.owner in self.sources and job.owner != self.source.name:
                return f"{name} belongs to {job.owner}"
            if job.former_owner and not self.source.settings.adopt:
                return f"{name} belonged to {job.former_owner}"
        return ""

    def plan(self, files: Files, only: Collection[str] | None = None) -> Plan:
        """Which jobs the commit changes; `only` leaves others out."""
        names = {*files, *self.cluster.jobs}
        found = {name: self._change(name, files.get(name)) for name in sorted(names)}
        return {
            name: change
            for name, change in found.items()
            if change is not None and (only is None or name in only)
        }

    def _change(self, name: str, content: JobContent | None) -> Change | None:
        live, source, known = self.cluster.live(name), self.source, self.cluster.jobs.get(name)
        version = known.version if known is not None else 0
        if content is None:
            is_gone = live is not None and live.owner == source.name
            return Change(version, stops=True) if is_gone and not self.holds(name, None) else None
        if known is not None and not known.owner and known.released_from == source.name:
            return None
        takes_over = live is not None and live.owner != source.name
        if self.holds(name, content):
            return Change(version, content=content) if takes_over else None
        kind = self.cluster.kinds[name]
        if live is None and kind.runs_once and self._has_run(name, content):
            return None
        wanted = self.wanted(name, content)
        if live is None or live.spec != wanted:
            return Change(version, wanted, content)
        return Change(version, content=content) if takes_over else None

    def holds(self, name: str, content: JobContent | None) -> bool:
        """Whether this version of the job is held, by this source or by one that was removed."""
        held = self.cluster.held.get(name)
        if held is None or held.source not in ("", self.source.name):
            return False
        return held.spec == self.spec(content)

    def spec(self, content: JobContent | None) -> Spec:
        return spec_of_content(content, self.source.settings.tag)

    def wanted(self, name: str, content: JobContent) -> Spec:
        """The file's job, with the count of one that is scaled."""
        live, spec = self.cluster.live(name), self.spec(content)
        if live is not None and self.cluster.kinds[name].is_scaled:
            return replace(spec, count=live.spec.count)
        return spec

    def _has_run(self, name: str, content: JobContent) -> bool:
        """Neither a comment nor a variable that changes nothing repeats work."""
        ran = self.cluster.ran.get(name)
        if ran is None or ran.source not in ("", self.source.name):
            return False
        return is_same_content(ran.content, content) and ran.tag == self.source.settings.tag

    # -- applying --------------------------------------------------------------------------------

    def apply(
        self, commit: ModelCommit, why: str, taken_back: Collection[str] = ()
    ) -> tuple[str, ...]:
        """The source applies a commit; returns the jobs that failed. Of the jobs in `taken_back`
        another version is held already."""
        before = self.source.applied_files
        plan = self.plan(commit.files)
        failed = self.carry_out(plan, f"{why} {commit.id[:8]}")
        self.let_go(before, commit.files, {*taken_back, *failed})
        self._follow(commit)
        self.note_rollout(plan)
        return failed

    def adopt(self, commit: ModelCommit) -> None:
        """A commit that only says what runs already."""
        self.let_go(self.source.applied_files, commit.files, ())
        self._follow(commit)

    def _follow(self, commit: ModelCommit) -> None:
        source = self.source
        self._record_runs(commit.files)
        source.previous, source.applied = source.applied, commit
        source.was_applied.append(commit)
        source.waiting = None

    def carry_out(self, plan: Plan, why: str) -> tuple[str, ...]:
        """Changes the jobs; returns those whose version failed, which is held."""
        failed = []
        for name, change in plan.items():
            known = self.cluster.jobs.get(name)
            if change.stops:
                assert known is not None
                self.cluster.jobs[name] = self.cluster.stopped(known, f"no file, {why}")
                continue
            if change.spec is None:
                assert known is not None
                spec = known.spec
                self.cluster.jobs[name] = replace(
                    known, owner=self.source.name, released_from="", former_owner=""
                )
            else:
                spec = change.spec
                new = Registered(spec, self.source.name, why, made_by=self.source.name)
                self.cluster.put(name, new)
            if spec.does == FAILS and self.cluster.kinds[name].is_judged:
                self.cluster.held[name] = Held(self.spec(change.content), self.source.name)
                failed.append(name)
        return tuple(failed)

    def let_go(self, before: Files, files: Files, kept: Collection[str]) -> None:
        """A commit that changes a file frees what is held of it; a comment or a move does not."""
        held = self.cluster.held
        for name, row in list(held.items()):
            content = files.get(name)
            is_anothers = row.source not in ("", self.source.name)
            if name in kept or is_anothers or (not row.source and content is None):
                continue
            is_kept = row.spec == self.spec(content) or is_same_content(content, before.get(name))
            if is_kept:
                held[name] = replace(row, source=self.source.name)
            else:
                del held[name]

    def _record_runs(self, files: Files) -> None:
        ran, tag, name = self.cluster.ran, self.source.settings.tag, self.source.name
        for each in [each for each, row in ran.items() if row.source == name]:
            if each not in files:
                del ran[each]
        for each, content in files.items():
            if self.cluster.kinds[each].runs_once:
                ran[each] = Ran(content, tag, name)

    def note_rollout(self, plan: Plan) -> None:
        versions = {}
        for name, change in plan.items():
            live = self.cluster.live(name)
            if live is not None and not change.stops:
                versions[name] = live.version
        self.source.under_way.append(versions)

    def is_under_way(self) -> bool:
        """Whether a rollout of the source waits for a service that hangs. A service whose version
        was replaced or stopped is waited for no more."""

        def hangs(name: str, version: int) -> bool:
            live, kind = self.cluster.live(name), self.cluster.kinds[name]
            is_same = live is not None and live.version == version
            return is_same and kind.type == "service" and live.spec.does == HANGS

        rollouts = self.source.under_way
        return any(hangs(name, version) for each in rollouts for name, version in each.items())

    # -- what people ask for ---------------------------------------------------------------------

    def go_back(self, target: ModelCommit, commit: ModelCommit) -> None:
        """The source goes back to `target`; `commit` is the commit on its branch that does so."""
        source, before = self.source, self.source.applied_files
        bad = source.applied
        assert bad is not None
        taken_back = {
            name
            for name in {*before, *target.files}
            if not is_same_content(before.get(name), target.files.get(name))
        }
        for name in taken_back:
            self.cluster.held[name] = Held(self.spec(before.get(name)), source.name)
        source.quarantined = [each for each in source.quarantined if each not in (bad, target)]
        source.quarantined.append(bad)
        source.branch.head = commit
        self.apply(commit, "gone back to", taken_back)

    def run_again(self, names: Collection[str], why: str) -> Plan:
        """Applies jobs of the applied commit in a rollout of its own, which changes no others."""
        plan = self.plan(self.source.applied_files, only=names)
        self.carry_out(plan, why)
        self.source.previous = self.source.applied
        return plan

    def retry(self, name: str) -> None:
        """A person wants the held version applied again, also where it is registered."""
        del self.cluster.held[name]
        source, known = self.source, self.cluster.jobs.get(name)
        source.previous = source.applied
        if known is not None and not known.owner and known.released_from == source.name:
            return
        content = source.applied_files.get(name)
        if content is not None:
            plan = {name: Change(0, self.wanted(name, content), content)}
            self.carry_out(plan, "retry")
            self.note_rollout(plan)
        else:
            self.note_rollout(self.run_again([name], "retry"))

    def take_over(self) -> None:
        """Takes over the jobs without a source of which the applied commit has a file."""
        names = []
        for name, content in self.source.applied_files.items():
            live = self.cluster.live(name)
            if live is None or live.owner or live.released_from == self.source.name:
                continue
            if not self.cluster.is_over(name) and not self.holds(name, content):
                names.append(name)
        if names:
            self.note_rollout(self.run_again(names, "adopted"))

    # -- how jobs differ from what the applied commit wants ---------------------------------------

    def drift_of(self, name: str) -> str:
        """How a job differs from what the source's applied commit wants; '' if it does not."""
        source, cluster = self.source, self.cluster
        if source.applied is None:
            return ""
        content, job = source.applied_files.get(name), cluster.jobs.get(name)
        once = cluster.kinds[name].runs_once
        row = cluster.held.get(name)
        if row is not None and row.source == source.name and row.spec == self.spec(content):
            return ""
        if content is None:
            is_owned = job is not None and job.owner == source.name and job.live
            return "without_file" if is_owned else ""
        if job is None:
            return "" if once else "missing"
        if job.owner not in ("", source.name) or (
            not job.owner and job.released_from == source.name
        ):
            return ""
        if job.stopped:
            return "" if once else "stopped"
        is_same = job.owner == source.name and job.spec == self.wanted(name, content)
        return "" if is_same else "changed"


def drifted(
    cluster: ModelCluster, sources: Mapping[str, ModelSource]
) -> dict[str, tuple[str, str]]:
    """How jobs differ, each with the source that says so: of a job that several sources want, the
    first of them."""
    found: dict[str, tuple[str, str]] = {}
    for source in sorted(sources):
        commits = Commits(cluster, sources[source], sources)
        for name in {*commits.source.applied_files, *cluster.jobs} - found.keys():
            if kind := commits.drift_of(name):
                found[name] = (source, kind)
    return found
