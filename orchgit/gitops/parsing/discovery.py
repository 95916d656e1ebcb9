"""Finds the jobs of a tree: each changed file is parsed once, and every problem is reported.

What a file means depends on its blob, its path, the source's variables, the parser, and the files
that it reads with `file()`. Outcomes are cached under exactly these, so an unchanged file is not
parsed again, not even after a restart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from orchgit.errors import (
    InvalidInputError,
    JobFileError,
    NoJobError,
    OrchgitError,
    UnavailableError,
)
from orchgit.gitops.git.repository import TreeEntry
from orchgit.gitops.parsing.cache import Depends, FileOutcome, ParseCache
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.gitops.parsing.each_commit import with_commit
from orchgit.gitops.parsing.file_functions import TreeFiles, read_file, seen_at
from orchgit.gitops.parsing.job_files import find_job_files
from orchgit.gitops.parsing.port import Inputs, JobFile, JobParser, ParsedFile, VarFile
from orchgit.gitops.parsing.regions import UNNAMED, check_region, in_region
from orchgit.gitops.parsing.trees import FileTree, blob_id_of, confined_path
from orchgit.model.repository_policy import POLICY_PATH, RepositoryPolicy
from orchgit.model.source import Source


@dataclass(frozen=True, slots=True)
class Discovery:
    """The jobs of a tree, and the policy of its `orchgit.hcl`. With `problems`, nothing of it may
    be applied. `parsed_count` of its job files were not in the cache. `without_job` are files that
    a glob matches and that hold no job."""

    jobs: dict[JobKey, DesiredJob]
    problems: tuple[str, ...]
    parsed_count: int
    policy: RepositoryPolicy = field(default_factory=RepositoryPolicy)
    without_job: frozenset[str] = frozenset()


class Discoverer:
    """Finds the jobs of one source, with a cache of what was parsed."""

    def __init__(
        self, parser: JobParser, cache: ParseCache | None = None, region: str = UNNAMED
    ) -> None:
        self._parser = parser
        self._cache = cache or ParseCache()
        self._region = region
        self._policy = ("", RepositoryPolicy())

    def discover(self, tree: FileTree, source: Source) -> Discovery:
        """Returns the jobs of all files that match the source's paths. Problems of files are in the
        result, so that all of them are shown together. Raises InvalidInputError for a source of
        another region."""
        check_region(source, self._region)
        var_files, problems = _var_files(tree, source)
        var_file_ids = [(each.name, blob_id_of(each.content)) for each in var_files]
        variables = sorted(source.variables.items())
        settings = _digest((source.namespace, variables, var_file_ids))
        inputs = _digest((self._parser.version, settings, source.region, self._region))
        reading = _Reading(tree, source, var_files, settings, self._region)
        files = find_job_files(tree, source)
        entries = files.entries
        keys = [f"{entry.blob_id}:{inputs}:{entry.path}" for entry in entries]
        self._cache.load(keys)
        known = [self._cache.outcomes.get(key) for key in keys]
        new = [
            at
            for at, outcome in enumerate(known)
            if outcome is None or (outcome.depends and not reading.still_holds(outcome.depends))
        ]
        fresh: dict[str, FileOutcome] = {}
        for at, outcome in zip(
            new, reading.parse([entries[at] for at in new], self._parser), strict=True
        ):
            known[at] = fresh[keys[at]] = outcome
            if outcome.is_cacheable:
                self._cache.put(keys[at], outcome)
        self._cache.save(fresh)
        self._cache.trim(keys)
        outcomes = [outcome for outcome in known if outcome is not None]
        without_job = frozenset(
            entry.path
            for entry, outcome in zip(entries, outcomes, strict=True)
            if not (outcome.is_job_file or files.must_be_job(entry.path))
        )
        problems += [
            problem
            for entry, outcome in zip(entries, outcomes, strict=True)
            if outcome.problems and entry.path not in without_job
            for problem in outcome.problems
        ]
        found = [outcome.desired for outcome in outcomes if outcome.desired is not None]
        jobs, duplicates = _by_key(found)
        found_policy, policy_problems = self.policy(tree)
        policy = found_policy.of_source(source.name)
        problems = [*policy_problems, *problems, *duplicates]
        if policy.hooks:
            jobs = with_commit(jobs, policy, tree.commit_id)
        return Discovery(jobs, tuple(problems), len(fresh), policy, without_job)

    def policy(self, tree: FileTree) -> tuple[RepositoryPolicy, list[str]]:
        """Returns the policy of the tree's `orchgit.hcl`, empty without one, and its problems. The
        last policy is cached."""
        entry = tree.entry(POLICY_PATH)
        if entry is None:
            return RepositoryPolicy(), []
        blob_id, policy = self._policy
        if entry.blob_id == blob_id:
            return policy, []
        file = JobFile(POLICY_PATH, partial(read_file, tree, entry), TreeFiles(tree, entry.path))
        try:
            policy = self._parser.parse_policy(file)
        except JobFileError as error:
            return RepositoryPolicy(), list(error.problems or (_at_start(POLICY_PATH, str(error)),))
        except OrchgitError as error:
            return RepositoryPolicy(), [_at_start(POLICY_PATH, str(error))]
        self._policy = (entry.blob_id, policy)
        return policy, []


@dataclass(slots=True)
class _Reading:
    """One discovery's access to its tree. `settings` is a digest of the source's settings and
    variable files."""

    tree: FileTree
    source: Source
    var_files: Sequence[VarFile]
    settings: str
    region: str

    def still_holds(self, depends: Depends) -> bool:
        """Returns whether every look into the tree would find the same again."""
        return all(seen_at(self.tree, place) == seen for place, seen in depends)

    def parse(self, entries: Sequence[TreeEntry], parser: JobParser) -> list[FileOutcome]:
        """Parses the files of these entries; returns one outcome for each."""
        looks = [TreeFiles(self.tree, entry.path) for entry in entries]
        files = [
            JobFile(entry.path, partial(read_file, self.tree, entry), seen)
            for entry, seen in zip(entries, looks, strict=True)
        ]
        inputs = Inputs(dict(self.source.variables), self.var_files)
        answers = parser.parse_many(files, inputs) if files else ()
        return [
            self._outcome(entry, answer, seen.depends)
            for entry, answer, seen in zip(entries, answers, looks, strict=True)
        ]

    def _outcome(
        self, entry: TreeEntry, answer: ParsedFile | OrchgitError, depends: Depends
    ) -> FileOutcome:
        try:
            if isinstance(answer, OrchgitError):
                raise answer
            content_id = _digest((entry.blob_id, self.settings, depends))
            found = DesiredJob(
                answer.job,
                entry.path,
                answer.line,
                entry.blob_id,
                content_id,
                answer.group_lines,
            )
            found = in_region(_in_namespace(found, self.source), self.source, self.region)
            return FileOutcome(found, (), depends)
        except JobFileError as error:
            found_problems = error.problems or (str(error),)
            problems = tuple(_at_start(entry.path, each) for each in found_problems)
            # Without problems the file may be right: a process ended, or a limit of the commit.
            return FileOutcome(
                None,
                problems,
                depends,
                is_cacheable=bool(error.problems),
                is_job_file=not isinstance(error, NoJobError),
            )
        except OrchgitError as error:
            problems = (_at_start(entry.path, str(error)),)
            return FileOutcome(
                None, problems, depends, is_cacheable=not isinstance(error, UnavailableError)
            )


def _var_files(tree: FileTree, source: Source) -> tuple[list[VarFile], list[str]]:
    found: list[VarFile] = []
    problems: list[str] = []
    for path in source.var_files:
        confined = confined_path("", path)
        entry = tree.entry(confined) if confined else None
        if entry is None:
            problems.append(f"{path}: cannot read this var-file: the commit has no such file")
            continue
        try:
            found.append(VarFile(entry.path, read_file(tree, entry)))
        except OrchgitError as error:
            problems.append(_at_start(entry.path, str(error)))
    return found, problems


def _digest(parts: Sequence[object]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]


def _in_namespace(desired: DesiredJob, source: Source) -> DesiredJob:
    """Puts the job into the source's namespace; a source of `default` may name others. Raises
    InvalidInputError for a job of another namespace."""
    if source.namespace in ("", "default", desired.job.namespace):
        return desired
    if desired.job.namespace != "default":
        raise InvalidInputError(
            f"{desired.path}:{desired.line}:1: job {desired.job.id!r} names namespace "
            f"{desired.job.namespace!r}, but this source may only use {source.namespace!r}"
        )
    return replace(desired, job=msgspec.structs.replace(desired.job, namespace=source.namespace))


def _by_key(found: Sequence[DesiredJob]) -> tuple[dict[JobKey, DesiredJob], list[str]]:
    """Returns the jobs by identity, and a problem for each second file of one job, naming both."""
    jobs: dict[JobKey, DesiredJob] = {}
    duplicates: list[str] = []
    for desired in found:
        first = jobs.setdefault(desired.key, desired)
        if first is not desired:
            duplicates.append(
                f"{desired.path}:{desired.line}:1: job {desired.job.id!r} is also defined in "
                f"{first.path}:{first.line}; a job has one file"
            )
    return jobs, duplicates


def _at_start(path: str, message: str) -> str:
    """Returns the message with the file's first line as its place, unless it has a place."""
    return message if message.startswith(f"{path}:") else f"{path}:1:1: {message}"
