"""Parses a job file's text into the API-shaped job: the entry of the package.

`parse_job` reads HCL2, or HCL's JSON form where the text starts with a brace, and returns exactly
what `nomad job run -output` prints below "Job", with a way back from each part to its place in the
file. Every mistake that can be found in one go is in the one `JobFileErrors` it raises.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jobspec.blocks.decode import Decoder
from jobspec.blocks.dynamic import ScopedBlock
from jobspec.blocks.normalize import normalize_job
from jobspec.blocks.positions import Positions
from jobspec.blocks.table import JOB
from jobspec.errors import Diagnostics, HclError, JobFileErrors, Problem, SourceText
from jobspec.evaluation.budget import Budget, BudgetError
from jobspec.evaluation.evaluate import Scope
from jobspec.evaluation.locals import collect_locals, resolve_locals
from jobspec.evaluation.values import Value
from jobspec.evaluation.variables import InputVariables
from jobspec.functions.call import caller
from jobspec.functions.signature import CallContext
from jobspec.hcl.parser import parse_body
from jobspec.hcl.tree import Block, Body

if TYPE_CHECKING:
    from jobspec.files import FileAccess

MAX_FILE_BYTES = 2 * 1024 * 1024
"""The longest job file that is read; a longer one is an error that names this limit."""


class ParsedJob:
    """`spec` is the tree that the API takes; `positions` finds the place of each part of it in the
    file; `steps` is the part of the file's budget that was spent."""

    __slots__ = ("positions", "spec", "steps")

    def __init__(self, spec: dict[str, Any], positions: Positions, steps: int = 0) -> None:
        self.spec = spec
        self.positions = positions
        self.steps = steps


def parse_job(
    source: bytes,
    *,
    filename: str,
    variables: Mapping[str, str] | None = None,
    var_files: Sequence[tuple[str, bytes]] = (),
    env: Mapping[str, str] | None = None,
    files: FileAccess | None = None,
    strict: bool = True,
) -> ParsedJob:
    """Parse one job file; raises JobFileErrors with every problem found.

    `variables` are those of `-var`, `var_files` (name, content) pairs in order, `env` an
    environment to look for `NOMAD_VAR_x` in. `files` is what file() and similar functions may
    read; None disables them. Not `strict`: values for undeclared variables are ignored.
    """
    text = source_text(source, filename)
    diagnostics = Diagnostics(text)
    budget = Budget()
    try:
        file = _File(text, diagnostics, files, budget)
        parsed = file.read(variables or {}, var_files, env or {}, strict)
    except RecursionError:
        raise _whole_file(filename, "it is nested too deeply to be read") from None
    except BudgetError as error:
        start = error.start or 0
        diagnostics.add(HclError(f"{error}.", start, max(start, error.end), source=error.source))
        parsed = None
    diagnostics.raise_if_any(budget.spent)
    assert parsed is not None
    return parsed


def source_text(source: bytes, filename: str) -> SourceText:
    """The text of a job file; raises JobFileErrors for one that is too long or not UTF-8."""
    if len(source) > MAX_FILE_BYTES:
        raise _whole_file(
            filename, f"it has {len(source)} bytes, more than the limit of {MAX_FILE_BYTES}"
        )
    try:
        return SourceText(os.path.basename(filename) or filename, source.decode())
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        column = error.start - source.rfind(b"\n", 0, error.start)
        message = "Invalid character encoding: job files must be UTF-8."
        raise JobFileErrors(
            filename, [Problem(os.path.basename(filename), line, column, message)]
        ) from None


def _whole_file(filename: str, why: str) -> JobFileErrors:
    name = os.path.basename(filename)
    return JobFileErrors(filename, [Problem(name, 1, 1, f"Cannot read this file: {why}.")])


def read_body(source: SourceText, diagnostics: Diagnostics) -> Body:
    """Parse HCL, or its JSON form where the text starts with a brace."""
    if source.text.lstrip("\ufeff \t\r\n").startswith("{"):
        from jobspec.blocks.names import FILE_SHAPE
        from jobspec.hcl import json_form  # few job files are JSON

        return json_form.parse_body(source, FILE_SHAPE, diagnostics)
    return parse_body(source, diagnostics)


class _File:
    """The steps from one text to one job."""

    def __init__(
        self,
        source: SourceText,
        diagnostics: Diagnostics,
        files: FileAccess | None,
        budget: Budget,
    ) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.budget = budget
        self.calls = caller(CallContext(files, budget=self.budget))
        self.variables = InputVariables(source, diagnostics, self.calls, self.budget)

    def read(
        self,
        arguments: Mapping[str, str],
        var_files: Sequence[tuple[str, bytes]],
        env: Mapping[str, str],
        strict: bool,
    ) -> ParsedJob | None:
        body = read_body(self.source, self.diagnostics)
        if self.diagnostics.found:
            return None
        jobs, locals_ = self._top_level(body)
        self.variables.set_from_env(env)
        for name, content in var_files:
            self._var_file(name, content, strict)
        self.variables.set_from_arguments(arguments, strict)
        scope = self._scope(locals_)
        return self._job(jobs, scope)

    def _top_level(self, body: Body) -> tuple[list[Block], list[Block]]:
        for attribute in body.attributes.values():
            self.diagnostics.report(
                f'Unsupported argument: an argument named "{attribute.name}" is not expected here.',
                attribute.start,
                attribute.end,
            )
        by_type: dict[str, list[Block]] = {"job": [], "locals": []}
        for block in body.blocks:
            if block.type == "variable":
                self.variables.declare(block)
            elif block.type == "variables":
                self.variables.declare_many(block)
            elif block.type in by_type:
                by_type[block.type].append(block)
            else:
                self.diagnostics.report(
                    f'Unsupported block type: blocks of type "{block.type}" are not expected here.',
                    block.start,
                    block.type_end,
                    hint="A job file holds job, variable, variables and locals.",
                )
        return by_type["job"], by_type["locals"]

    def _var_file(self, name: str, content: bytes, strict: bool) -> None:
        try:
            source = source_text(content, name)
        except JobFileErrors as error:
            self.diagnostics.found.extend(error.details)
            return
        diagnostics = Diagnostics(source)
        body = read_body(source, diagnostics)
        self.diagnostics.found.extend(diagnostics.found)
        if not diagnostics.found:
            self.variables.set_from_file(source, body, strict)

    def _scope(self, locals_: list[Block]) -> Scope:
        attributes = collect_locals(locals_, self.diagnostics)
        local_values: dict[str, Value] = {}
        names = {"var": self.variables.resolve(), "local": local_values}
        scope = Scope(names, self.source.text, self.calls, budget=self.budget)
        resolve_locals(attributes, local_values, scope, self.diagnostics)
        return scope

    def _job(self, jobs: list[Block], scope: Scope) -> ParsedJob | None:
        if not jobs:
            self.diagnostics.report_nowhere(
                "Missing job block: a job block is required.", 'Write job "NAME" { ... }.'
            )
            return None
        job = jobs[0]
        for extra in jobs[1:]:
            line, column = self.source.position(job.start)
            self.diagnostics.report(
                'Duplicate job block: only one block of type "job" is allowed. The previous one is '
                f"at line {line}, column {column}.",
                extra.start,
                extra.end,
            )
        decoder = Decoder(self.diagnostics)
        label = self._job_label(job)
        found = ScopedBlock("job", [], job.body, scope, job)
        spec = decoder.block(JOB, found)
        normalize_job(spec, label, decoder)
        positions = Positions(self.source, spec, decoder.origins)
        return ParsedJob(spec, positions, self.budget.spent)

    def _job_label(self, job: Block) -> str:
        if not job.labels:
            self.diagnostics.report(
                "Missing name for job: all job blocks must have 1 label (name).",
                job.open,
                job.open + 1,
                hint='Write job "NAME" { ... }.',
            )
            return ""
        for extra in job.labels[1:]:
            self.diagnostics.report(
                "Extraneous label for job: only 1 label (name) is expected for job blocks.",
                extra.start,
                extra.end,
            )
        return job.labels[0].value
