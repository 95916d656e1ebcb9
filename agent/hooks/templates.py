"""The job's templates, rendered into the task's directory before each start.

A template with `env` gives the task variables instead. Sources are the job's own text or a file of
the task's directory. They do not change while the task runs, so nothing is watched.
"""

from __future__ import annotations

import os
from pathlib import Path

from agent.hooks.base import SetupError, TaskSetup
from agent.hooks.files import write_inside
from agent.paths import PRIVATE, open_inside
from agent.templates.renderer import Rendered, RenderRequest
from agent.templates.variables import parse_variables
from orchgit.errors import InvalidInputError, OrchgitError
from orchgit.model.task import Template

_MAX_SOURCE_BYTES = 1 << 20
_MAX_PLAIN_CHARACTERS = 1 << 16


async def prepare(setup: TaskSetup) -> None:
    setup.template_env = {}
    for template in setup.task.templates or ():
        try:
            await _place(setup, template)
        except InvalidInputError as error:
            raise SetupError(str(error)) from None


async def _place(setup: TaskSetup, template: Template) -> None:
    environment = setup.environment()
    interpolate = environment.interpolate.text
    text = template.embedded_tmpl or _read(setup, interpolate(template.source_path))
    request = RenderRequest(
        name=template.dest_path or template.source_path,
        text=text,
        env=environment.env,
        now_ns=setup.clock.now_ns(),
        read_file=lambda path: _read(setup, interpolate(path)),
        left=template.left_delim or "{{",
        right=template.right_delim or "}}",
        err_missing_key=template.err_missing_key,
        envvars=template.envvars,
    )
    rendered = await _rendered(setup, request)
    if template.envvars:
        setup.template_env |= rendered.variables
    if template.dest_path:
        root, relative = _inside(setup, interpolate(template.dest_path))
        write_inside(
            root, relative, rendered.text, _mode(template.perms), template.uid, template.gid
        )


async def _rendered(setup: TaskSetup, request: RenderRequest) -> Rendered:
    """Short text without an action is what it renders to; anything else goes to a process."""
    if request.left in request.text or len(request.text) > _MAX_PLAIN_CHARACTERS:
        return await setup.templates.render(request)
    variables = parse_variables(request.text) if request.envvars else {}
    return Rendered(request.text.encode(errors="replace"), variables)


def _mode(perms: str) -> int:
    try:
        return int(perms or "0644", 8) & 0o7777
    except ValueError:
        raise SetupError(f'cannot use "{perms}" as the permissions of a template') from None


def _inside(setup: TaskSetup, path: str) -> tuple[Path, str]:
    """(directory, path in it): the task's directory, or what its tasks share.

    The job may write a path as the host sees it, or as the task does.
    """
    paths = setup.paths
    roots = {
        str(paths.task_dir): paths.task_dir,
        str(paths.alloc_dir): paths.alloc_dir,
        "/alloc": paths.alloc_dir,
    }
    prefix = next((start for start in roots if path.startswith(f"{start}/")), "")
    root, relative = roots.get(prefix, paths.task_dir), path.removeprefix(prefix).lstrip("/")
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if ".." in parts or (root == paths.task_dir and parts[:1] == [PRIVATE]):
        raise SetupError(f'cannot use template path "{path}": it leads out of the task\'s files')
    return root, os.path.normpath(relative)


def _read(setup: TaskSetup, path: str) -> str:
    root, relative = _inside(setup, path)
    try:
        fd = open_inside(root, relative)
        with os.fdopen(fd, "rb") as file:
            data = file.read(_MAX_SOURCE_BYTES + 1)
    except (OSError, OrchgitError) as error:
        raise InvalidInputError(f'cannot read "{path}": {error}') from None
    if len(data) > _MAX_SOURCE_BYTES:
        raise InvalidInputError(f'cannot read "{path}": over {_MAX_SOURCE_BYTES} bytes')
    return data.decode("utf-8", "replace")
