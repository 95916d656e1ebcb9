"""Adopting drift: a commit, or a patch, that makes the files say what runs now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from orchgit.errors import OrchgitError
from orchgit.gitops.commits.plan_request import PlanRequest
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.drift.adoption import (
    CannotAdopt,
    EditedTree,
    differences_to_adopt,
    edited_file,
    patch_of,
    unexplained,
)
from orchgit.gitops.drift.comparison import AUTO_REVERT, SETTINGS
from orchgit.gitops.drift.healer import TRIGGER
from orchgit.gitops.mirrors.rules import full_ref
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.gitops.parsing.discovery import Discoverer
from orchgit.gitops.parsing.file_functions import read_file
from orchgit.gitops.parsing.trees import CommitTree, FileTree
from orchgit.model.drift import DriftKind, JobDrift
from orchgit.model.job import Job
from orchgit.model.ownership import owner_of
from orchgit.model.rollout import Commit
from orchgit.model.source import DriftAction, Source
from orchgit.replication.commands.gitops import RefMove

_log = structlog.get_logger(component="gitops")


@dataclass(slots=True)
class Edits:
    """Files before and after their edits, by path, the jobs that they adopt, and why others cannot
    be adopted."""

    before: dict[str, bytes] = field(default_factory=dict)
    after: dict[str, bytes] = field(default_factory=dict)
    adopted: dict[JobKey, JobDrift] = field(default_factory=dict)
    notes: dict[JobKey, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Adopter:
    """Adopts jobs of any source."""

    services: CommitServices

    async def patch(self, source_name: str) -> str:
        """Returns a patch for `git apply`, on the applied commit, that makes the files of the
        source's drifted jobs say what runs. Lines before it name the jobs that it leaves out.

        Raises NotFoundError if there is no such source.
        """
        source = self.services.applier.source(source_name)
        with self.services.context.snapshot() as snapshot:
            drifts = snapshot.drifted_jobs.all(source_name)
        mirror = self.services.mirror_of(source_name)
        await self.services.synchronizer.wait_until_current(mirror.name)
        async with mirror.lock:
            edits = await self._edits(source, drifts)
        left_out = [f"# {key[1]}: {why}\n" for key, why in sorted(edits.notes.items())]
        return "".join(left_out) + patch_of(edits.before, edits.after)

    async def adopt(self, source_name: str, drifts: Sequence[JobDrift]) -> dict[JobKey, str]:
        """Commits the edits to the branch of a built-in repository and applies the commit, which
        changes no other job. Returns why some of the jobs were not adopted."""
        services, applier = self.services, self.services.applier
        mirror, cache = services.mirror_of(source_name), services.caches.of(source_name)
        await services.synchronizer.wait_until_current(mirror.name)
        async with mirror.lock:
            source = applier.source(source_name)
            if source.paused or source.drift.action != DriftAction.ADOPT:
                return {}
            ref, applied = full_ref(source.ref), source.status.applied_commit
            if services.synchronizer.refs(mirror.name).get(ref) != applied:
                why = f"not adopted: {source.ref} is not at the applied commit {applied[:8]}"
                return {(each.namespace, each.job_id): why for each in drifts}
            edits = await self._edits(source, drifts)
            if not edits.adopted:
                return edits.notes
            commit_id = await asyncio.to_thread(self._write, source, edits)
            await services.quorum.hold(mirror.name, [commit_id])
            read = await applier.read(mirror.open(), commit_id, source, cache)
            request = PlanRequest(only=frozenset(edits.adopted))
            plan = await applier.plan(read, source_name, cache, request)
            read.refuse_problems(plan)
            moves = [RefMove(ref, applied, commit_id)]
            await applier.apply(read, plan, TRIGGER, cache, moves)
            await services.synchronizer.sync_refs_locked(mirror)
            _log.info("drift adopted", source=source_name, commit=commit_id)
            return edits.notes

    def _write(self, source: Source, edits: Edits) -> str:
        """Writes the commit on top of the applied one; returns its id."""
        now_ns = self.services.context.now_ns()
        author = Commit(author="orchgit", email="orchgit@localhost", time_ns=now_ns)
        repository = self.services.mirror_of(source.name).open()
        applied = source.status.applied_commit
        message = adoption_message(list(edits.adopted.values()))
        return repository.write_commit(applied, edits.after, author, message)

    async def _edits(self, source: Source, drifts: Sequence[JobDrift]) -> Edits:
        """Edits the files of the applied commit. The caller holds the mirror's lock."""
        commit_id = source.status.applied_commit
        tree = CommitTree(self.services.mirror_of(source.name).open(), commit_id)
        discoverer = self.services.caches.of(source.name).discoverer
        keys = [(each.namespace, each.job_id) for each in drifts]
        with self.services.context.snapshot() as snapshot:
            registered = snapshot.jobs.get_many(keys)
        return await asyncio.to_thread(_edited, discoverer, tree, source, drifts, registered)


def _edited(
    discoverer: Discoverer,
    tree: FileTree,
    source: Source,
    drifts: Sequence[JobDrift],
    registered: Mapping[JobKey, Job],
) -> Edits:
    """Edits each job's file, reads the result, and drops what does not mean the registered job."""
    wanted = discoverer.discover(tree, source).jobs
    edits = Edits()
    for drift in drifts:
        key = (drift.namespace, drift.job_id)
        try:
            path, before, after = _edit_job(
                tree, source, drift, wanted.get(key), registered.get(key)
            )
        except CannotAdopt as error:
            edits.notes[key] = f"not adopted: {error}"
        else:
            edits.before[path], edits.after[path] = before, after
            edits.adopted[key] = drift
    found = discoverer.discover(EditedTree(tree, edits.after), source)
    for key in list(edits.adopted):
        path = wanted[key].path
        bad = [each for each in found.problems if each.startswith(f"{path}:")]
        why = (
            bad[0]
            if bad
            else unexplained(found.jobs.get(key), registered[key], source.drift.ignore)
        )
        if why:
            edits.notes[key] = f"not adopted: {why}"
            del edits.adopted[key], edits.before[path], edits.after[path]
    return edits


def _edit_job(
    tree: FileTree,
    source: Source,
    drift: JobDrift,
    wanted: DesiredJob | None,
    registered: Job | None,
) -> tuple[str, bytes, bytes]:
    """Returns a job's file: its path, its content, and its edited content."""
    if drift.kind != DriftKind.CHANGED or wanted is None or registered is None or registered.stop:
        raise CannotAdopt("no edit of a job file says that a job is stopped, or has no file")
    if drift.changed_via in (AUTO_REVERT, SETTINGS):
        raise CannotAdopt("no person changed the job: a failed deployment or the settings did")
    if owner_of(registered) != source.name:
        raise CannotAdopt("the job was purged and registered anew, and has no source")
    entry = tree.entry(wanted.path)
    if entry is None:
        raise CannotAdopt(f"{wanted.path} is not in the commit")
    try:
        before = read_file(tree, entry)
    except OrchgitError as error:
        raise CannotAdopt(str(error)) from error
    found = differences_to_adopt(wanted, registered, source.drift.ignore)
    return wanted.path, before, edited_file(before, wanted.path, found)


def adoption_message(drifts: Sequence[JobDrift]) -> str:
    """Returns the commit's message: which jobs, what changed, and who did it."""
    names = ", ".join(each.job_id for each in drifts[:3])
    more = f" and {len(drifts) - 3} more" if len(drifts) > 3 else ""
    lines = [f"Adopt what was changed by hand: {names}{more}", ""]
    for drift in drifts:
        by = drift.changed_by or "unknown"
        lines.append(f"{drift.job_id} (version {drift.job_version}), by {by}:")
        lines += [f"  {each.path}: {each.old} -> {each.new}" for each in drift.fields]
    return "\n".join(lines) + "\n"
