"""Renders the templates of one task into its directory and its environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.hooks.base import FatalSetupError, SetupError, TaskSetup
from agent.hooks.files import destination_parts, write_inside
from agent.paths import PRIVATE, open_inside
from agent.tasks.task_state import TaskEventType
from agent.templates.functions import Known
from agent.templates.queries import Query
from agent.templates.renderer import Rendered, RenderError, RenderRequest
from agent.templates.task_templates import TemplateState
from agent.templates.variables import parse_variables
from orchgit.errors import InvalidInputError, NotAllowedError, OrchgitError
from orchgit.go_templates.values import from_bytes, to_bytes
from orchgit.model.task import Template

_MAX_SOURCE_BYTES = 4 << 20
_MAX_PLAIN_CHARACTERS = 1 << 16
_MOST_PERMISSIONS = 0o777
_RENDER_FAILED = 'Template failed: error rendering "(dynamic)" => "{}"'


@dataclass(frozen=True, slots=True)
class RenderPass:
    """One rendering of some templates: which of them changed, which wait for `missing`, and whether
    the servers have not answered everything yet."""

    changed: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()
    is_unknown: bool = False
    waiting: tuple[int, ...] = ()


async def render_templates(
    setup: TaskSetup, positions: Sequence[int], is_start: bool
) -> RenderPass:
    """Renders these templates, and writes those that are ready and changed.

    A template that was rendered before keeps its text while what it reads is missing. Raises
    FatalSetupError for a template that is wrong, and SetupError for a source that cannot be read or
    a disk that is full.
    """
    live = setup.task_templates
    changed: list[int] = []
    waiting: list[int] = []
    missing: set[str] = set()
    is_unknown = False
    templates = setup.task.templates or []
    for position in positions:
        state = live.state(position)
        if state.source is None:
            state.source = _source(setup, templates[position])
    for position in positions:
        template, state = templates[position], live.state(position)
        _recall(setup, template, state)
        if is_start and template.once and state.text is not None:
            continue
        asked: dict[Query, Known] = {}
        request = _request(setup, template, state.source or "", asked)
        rendered = await _rendered(setup, request, asked)
        lacks_answer = Known.UNKNOWN in asked.values()
        if rendered is None or rendered.missing:
            state.queries |= asked.keys()
            is_unknown = is_unknown or lacks_answer
            if lacks_answer or state.text is None:
                waiting.append(position)
                missing |= set(rendered.missing) if rendered is not None else set()
            continue
        state.queries = frozenset(asked)
        if is_start or state.text != rendered.text:
            _write(setup, template, rendered.text)
        if rendered.variables_error:
            raise FatalSetupError(
                "Template failed to read environment variables: error parsing env template "
                f'"{_destination(setup, template)[2]}": {rendered.variables_error}'
            )
        if state.text not in (None, rendered.text):
            changed.append(position)
        state.text, state.variables = rendered.text, rendered.variables
        setup.template_env = live.variables()
    live.drop_unread()
    return RenderPass(tuple(changed), tuple(sorted(missing)), is_unknown, tuple(waiting))


def recall_templates(setup: TaskSetup) -> None:
    """Takes over what an agent before this one rendered for the running task."""
    live = setup.task_templates
    for position, template in enumerate(setup.task.templates or ()):
        _recall(setup, template, live.state(position))
    setup.template_env = live.variables()


def _recall(setup: TaskSetup, template: Template, state: TemplateState) -> None:
    """Takes over what an agent before this one rendered."""
    if state.text is not None or not setup.is_again:
        return
    root, parts, _ = _destination(setup, template)
    try:
        text = _read_inside(root, "/".join(parts))
        state.variables = parse_variables(from_bytes(text)) if template.envvars else {}
    except OrchgitError:
        return
    state.text = text


def _request(
    setup: TaskSetup, template: Template, text: str, asked: dict[Query, Known]
) -> RenderRequest:
    """`asked` is filled with what the template reads, and how much was known of it."""
    environment = setup.environment()
    interpolate = environment.interpolate
    subscription = setup.task_templates.subscription

    def ask(query: Query) -> tuple[Known, Any]:
        known, value = subscription.ask(query)
        asked[query] = known
        return known, value

    settings = setup.templates.settings
    return RenderRequest(
        name=template.dest_path or template.source_path,
        text=text,
        env={**interpolate.names, **environment.env},
        now_ns=setup.clock.now_ns(),
        read_file=lambda path: _read_file(setup, path, settings.is_sandboxed),
        ask=ask,
        left=template.left_delim or "{{",
        right=template.right_delim or "}}",
        err_missing_key=template.err_missing_key,
        envvars=template.envvars,
        region=setup.region,
        namespace=setup.alloc.namespace,
        denied=settings.denied,
    )


async def _rendered(
    setup: TaskSetup, request: RenderRequest, asked: dict[Query, Known]
) -> Rendered | None:
    """Short text without an action is what it renders to; anything else goes to a process.

    None: the template failed on what the servers have not answered yet. Raises FatalSetupError.
    """
    if request.left not in request.text and len(request.text) <= _MAX_PLAIN_CHARACTERS:
        variables, error = {}, ""
        if request.envvars:
            try:
                variables = parse_variables(request.text)
            except InvalidInputError as problem:
                error = str(problem)
        return Rendered(to_bytes(request.text), variables, error)
    try:
        return await setup.templates.renderer.render(request)
    except RenderError as error:
        if Known.UNKNOWN in asked.values():
            return None
        stage = f"(dynamic): {error.stage}: " if error.stage else ""
        raise FatalSetupError(f"Template failed: {stage}{error}") from None


def _hook_failed(message: str) -> SetupError:
    return SetupError(message, recoverable=True, event_type=TaskEventType.HOOK_FAILED)


def _source(setup: TaskSetup, template: Template) -> str:
    """The template's text. Raises SetupError, by which the restart policy decides."""
    if not template.source_path:
        return template.embedded_tmpl
    if template.embedded_tmpl:
        raise _hook_failed("template: template: cannot specify both 'source' and 'contents'")
    try:
        path = setup.environment().interpolate.text(template.source_path)
        root, parts = destination_parts(setup.paths, path)
    except SetupError:
        raise _hook_failed("template: template source path escapes alloc directory") from None
    try:
        return _read_inside(root, "/".join(parts)).decode("utf-8", "surrogateescape")
    except OrchgitError as error:
        shown = f"/{setup.task.name}/{'/'.join(parts)}"
        raise _hook_failed(
            f'template: failed to read template: failed to open source file "{shown}": {error}'
        ) from None


def _read_file(setup: TaskSetup, path: str, is_sandboxed: bool) -> str:
    """What the function `file` gives. Raises InvalidInputError."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    root = setup.paths.task_dir
    if path.startswith(f"{root}/"):
        parts = path.removeprefix(f"{root}/").split("/")
    elif path.startswith("/") and not is_sandboxed:
        root = Path("/")
    try:
        if parts[:1] == [PRIVATE] and root == setup.paths.task_dir:
            raise NotAllowedError("it is the agent's")
        data = _read_inside(root, "/".join(parts))
    except OrchgitError as error:
        raise InvalidInputError(f"failed to resolve target path: {path}: {error}") from None
    return data.decode("utf-8", "surrogateescape")


def _read_inside(root: Path, relative: str) -> bytes:
    """Raises an OrchgitError."""
    try:
        with os.fdopen(open_inside(root, relative), "rb") as file:
            data = file.read(_MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise InvalidInputError(error.strerror or str(error)) from None
    if len(data) > _MAX_SOURCE_BYTES:
        raise InvalidInputError(f"it has over {_MAX_SOURCE_BYTES} bytes, the limit")
    return data


def _destination(setup: TaskSetup, template: Template) -> tuple[Path, list[str], Path]:
    """(directory, parts below it, the whole path) of the template's file."""
    path = setup.environment().interpolate.text(template.dest_path)
    root, parts = destination_parts(setup.paths, path)
    return root, parts, root.joinpath(*parts)


def _write(setup: TaskSetup, template: Template, text: bytes) -> None:
    """Raises FatalSetupError, and a SetupError that is recoverable where the disk is full."""
    root, parts, path = _destination(setup, template)
    why = ""
    try:
        mode = int(template.perms or "0644", 8)
        if not 0 <= mode <= _MOST_PERMISSIONS:
            why = f'"{template.perms}" is no mode of a file'
        elif path.is_dir():
            why = "it is a directory"
        else:
            write_inside(root, "/".join(parts), text, mode, template.uid, template.gid)
    except (SetupError, ValueError) as error:
        if isinstance(error, SetupError) and error.recoverable:
            raise _hook_failed(f"{_RENDER_FAILED.format(path)}: {error}") from None
        why = str(error)
    if why:
        raise FatalSetupError(f"{_RENDER_FAILED.format(path)}: {why}")
