"""People, failures and time at a source, in any order; the model says what must be registered.

Run by `tests/integration/test_gitops_machine.py`; `tests/benchmarks/gitops_machine.py` runs longer.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace as replace_struct

from orchgit.errors import OrchgitError
from orchgit.gitops.commits.rerun import RetryRequest
from orchgit.model.job import Job
from orchgit.model.ownership import owner_of
from orchgit.model.source import Source
from orchgit.services.gitops.pauses import pause_source, resume_source
from orchgit.services.gitops.sources import (
    change_source,
    create_source,
    give_back_job,
    release_job,
)
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from orchgit.services.jobs.register import register_job
from orchgit.services.jobs.revert import revert_job
from orchgit.services.jobs.scale import ScaleRequest, scale_job
from tests.support.gitops_model import GitopsModel, JobKind, Registered, Spec
from tests.support.simulated_server import (
    FAILS,
    HANGS,
    RUNS,
    JobContent,
    SimulatedServer,
    environment,
    job_text,
    parsed,
)

T = TypeVar("T")

KINDS = {
    "web": JobKind("service", auto_revert=True),
    "api": JobKind("service"),
    "pool": JobKind("service", auto_revert=True, is_scaled=True),
    "migrate": JobKind("batch"),
    "nightly": JobKind("periodic"),
}
NAMES = st.sampled_from(sorted(KINDS))
DOES = st.sampled_from([RUNS, RUNS, RUNS, FAILS, HANGS])
EDITS = st.sampled_from(["new", "new", "new", "comment", "delete", "move", "earlier"])

CHANGES = st.dictionaries(NAMES, st.tuples(EDITS, DOES), min_size=1, max_size=3)


def text_of(name: str, content: JobContent) -> str:
    kind = KINDS[name]
    return job_text(name, kind.type, content, kind.auto_revert, kind.is_scaled)


def spec_of(job: Job) -> Spec:
    env = environment(job)
    return Spec(int(env["CONTENT"]), env["DOES"], job.task_groups[0].count, env["TAG"])


class GitopsMachine(RuleBasedStateMachine):
    """One built-in source, five jobs, and everything that people do to them."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="gitops-machine-"))
        self.loop = asyncio.new_event_loop()
        self.server = SimulatedServer(self.directory)
        self.model = GitopsModel(KINDS)
        self.numbers = itertools.count(1)
        self.paths: dict[str, str] = {}
        self.earlier: dict[str, list[JobContent]] = {name: [] for name in KINDS}
        self.do(self.server.start())
        self.do(create_source(self.server.context, Source(name="demo", variables={"tag": ""})))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        try:
            self.do(self.server.stop())
        finally:
            self.loop.close()
            shutil.rmtree(self.directory, ignore_errors=True)

    # -- commits ---------------------------------------------------------------------------------

    @rule(edits=CHANGES)
    def push_again(self, edits: dict[str, tuple[str, str]]) -> None:
        """Commits are what most of the rules are about: two of three steps."""
        self.push(edits)

    @rule(edits=CHANGES)
    def push_once_more(self, edits: dict[str, tuple[str, str]]) -> None:
        self.push(edits)

    @rule(edits=CHANGES)
    def push(self, edits: dict[str, tuple[str, str]]) -> None:
        files = dict(self.model.branch)
        changes: dict[str, bytes | None] = {}
        deleted = [self._edit(files, changes, name, *edit) for name, edit in edits.items()]
        changes["notes.txt"] = str(next(self.numbers)).encode()  # no commit is empty
        message = "A change\n\n" + "".join(f"Orchgit-Delete: {name}\n" for name in deleted if name)
        commit = self.do(self.server.push("demo", changes, message))
        self.model.push(commit, files)

    def _edit(
        self,
        files: dict[str, JobContent],
        changes: dict[str, bytes | None],
        name: str,
        edit: str,
        does: str,
    ) -> str:
        """Edits one job's file; returns the job's name if the file goes away."""
        known = files.get(name)
        if known is None:
            edit = "earlier" if edit == "earlier" else "new"
        content = JobContent(next(self.numbers), does)
        match edit:
            case "delete":
                del files[name]
                changes[self.paths.pop(name)] = None
                return name
            case "comment" if known is not None:
                content = JobContent(known.number, known.does, known.comment + 1, known.count)
            case "move" if known is not None:
                changes[self.paths.pop(name)] = None
                content = known
            case "earlier" if self.earlier[name]:
                content = self.earlier[name][-1]
        path = self.paths.setdefault(name, f"jobs/{name}-{next(self.numbers)}.nomad.hcl")
        changes[path] = text_of(name, content).encode()
        files[name] = content
        if content not in self.earlier[name]:
            self.earlier[name].insert(0, content)
        return ""

    @precondition(lambda self: self.model.previous and self.model.applied)
    @rule()
    def revert_the_applied_commit(self) -> None:
        rollout = self.server.source("demo").status.applied_rollout
        if self.model.is_rerun or self.model.refuses(self.model.trees[self.model.previous]):
            with pytest.raises(OrchgitError, match="cannot"):
                self.do(self.server.gitops.revert(rollout))
            return
        reverted = self.do(self.server.gitops.revert(rollout))
        self.model.revert(reverted.commit.id)
        self._find_files()

    def _find_files(self) -> None:
        """Notes where the files are after a revert."""
        commit = self.server.branch("demo")
        repository = self.server.gitops.mirrors.get("demo").open()
        paths = [entry.path for entry in repository.files(commit, ["**/*.nomad.hcl"])]
        self.paths = {path.removeprefix("jobs/").split("-")[0]: path for path in paths}

    @precondition(lambda self: self.model.held)
    @rule(data=st.data())
    def retry_a_held_version(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.held)))
        request = RetryRequest((("default", name),))
        with self.server.snapshot() as snapshot:
            row = snapshot.held_versions.get("default", name)
        if row.wanted and not self.model.is_held(name):
            return  # settings made another version of it, which the next commit applies
        if self.model.paused or not row.wanted:
            with pytest.raises(OrchgitError, match="cannot"):
                self.do(self.server.gitops.retry("demo", request))
            return
        self.do(self.server.gitops.retry("demo", request))
        self.model.retry(name)

    # -- by hand ---------------------------------------------------------------------------------

    @rule(name=NAMES, does=st.sampled_from([RUNS, RUNS, HANGS]))
    def register_by_hand(self, name: str, does: str) -> None:
        content = JobContent(next(self.numbers), does)
        self.do(register_job(self.server.context, parsed(text_of(name, content))))
        self.model.register(name, Spec(content.number, does))

    @rule(name=NAMES, count=st.integers(1, 3))
    def scale(self, name: str, count: int) -> None:
        try:
            request = ScaleRequest("main", count)
            self.do(scale_job(self.server.context, "default", name, request))
        except OrchgitError:
            return  # there is no such job, or its deployment is under way
        self.model.scale(name, count)

    @rule(name=NAMES, purge=st.booleans())
    def stop_job(self, name: str, purge: bool) -> None:
        options = DeregisterOptions(purge=purge)
        self.do(deregister_job(self.server.context, "default", name, options))
        self.model.stop(name, purge)

    @rule(name=NAMES, back=st.integers(1, 3))
    def run_an_earlier_version(self, name: str, back: int) -> None:
        with self.server.snapshot() as snapshot:
            versions = snapshot.job_versions.of_job("default", name)
        older = [job for job in versions[back:] if not job.stop]
        if not older:
            return
        self.do(revert_job(self.server.context, "default", name, older[0].version))
        self.model.register(name, spec_of(older[0]), "reverted by hand")

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        known = self.model.jobs.get(name)
        if known is not None and (known.owner or known.former_owner):
            self.do(release_job(self.server.context, "default", name))
            self.model.release(name)

    @rule(name=NAMES)
    def undo_release(self, name: str) -> None:
        known = self.model.jobs.get(name)
        if known is not None and known.released_from:
            self.do(give_back_job(self.server.context, "default", name))
            self.model.give_back(name)

    @rule()
    def collect_garbage(self) -> None:
        self.do(self.server.settle())
        self.do(self.server.control.collect_garbage())
        self.model.collect()

    # -- the source ------------------------------------------------------------------------------

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        change = pause_source if paused else resume_source
        self.do(change(self.server.context, "demo"))
        self.do(self.server.gitops.sync("demo"))
        self.model.pause(paused)

    @rule(tag=st.sampled_from(["", "blue"]))
    def set_variable(self, tag: str) -> None:
        def change(source: Source) -> Source:
            return replace_struct(source, variables={"tag": tag})

        self.do(change_source(self.server.context, "demo", change))
        self.do(self.server.gitops.sync("demo"))
        self.model.set_tag(tag)

    # -- the server ------------------------------------------------------------------------------

    @rule(what=st.sampled_from(["restart", "change_leader", "check"]))
    def disturb(self, what: str) -> None:
        match what:
            case "restart":
                self.do(self.server.stop())
                self.do(self.server.start())
            case "change_leader":
                self.do(self.server.change_leader())
            case "check":
                self.do(self.server.gitops.sync("demo"))

    # -- what must hold --------------------------------------------------------------------------

    @invariant()
    def is_as_the_model_says(self) -> None:
        self.do(self.server.settle())
        found = {name: _seen(job) for name, job in self.server.jobs().items()}
        wanted = {name: _expected(job) for name, job in self.model.jobs.items()}
        why = {name: job.why for name, job in self.model.jobs.items()}
        assert found == wanted, f"{found} is registered, not {wanted}; {why}"
        source = self.server.source("demo")
        assert source.status.applied_commit == self.model.applied, source.status
        with self.server.snapshot() as snapshot:
            rows = snapshot.held_versions.known_of_source("demo")
        assert {row.job_id for row in rows} == set(self.model.held), rows
        self.do(self.server.until(lambda: self._drifted() == self.model.drifted(), self._drifted))
        for name, kind in KINDS.items():
            if kind.runs_once:
                self._has_run_as_often_as_asked(name)

    def _has_run_as_often_as_asked(self, name: str) -> None:
        """Scaling starts fewer than the new count, as some run already."""
        started = {key: n for key, n in self.server.started.items() if key[0] == name}
        asked = {key: n for key, n in self.model.started.items() if key[0] == name}
        assert started.keys() == asked.keys(), f"{started}, but {asked}"
        assert all(n <= asked[key] for key, n in started.items()), f"{started}, not {asked}"

    def _drifted(self) -> dict[str, str]:
        with self.server.snapshot() as snapshot:
            return {each.job_id: str(each.kind) for each in snapshot.drifted_jobs.all("demo")}


def _seen(job: Job) -> tuple[object, ...]:
    return (spec_of(job), job.stop, owner_of(job), job.origin.released_from if job.origin else "")


def _expected(job: Registered) -> tuple[object, ...]:
    return (job.spec, job.stopped, job.owner, job.released_from)
