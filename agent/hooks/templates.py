"""The job's templates, rendered into the task's directory before each start.

A template with `env` gives the task variables instead. Sources are the job's own text or a file of
the task's directory; what is read does not change while the task runs, so nothing is watched.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from agent.hooks.base import SetupError, TaskSetup
from agent.hooks.files import write_inside
from agent.paths import PRIVATE, open_inside
from agent.templates.functions import TemplateSources
from agent.templates.render import render
from orchgit.errors import InvalidInputError, OrchgitError
from orchgit.model.task import Template

_MAX_SOURCE_BYTES = 1 << 20
_LINE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*?)\s*$")


async def prepare(setup: TaskSetup) -> None:
    setup.template_env = {}
    for template in setup.task.templates or ():
        try:
            _place(setup, template)
        except InvalidInputError as problem:
            raise SetupError(str(problem)) from None


def _place(setup: TaskSetup, template: Template) -> None:
    interpolate = setup.environment().interpolate.text
    env = setup.environment().env
    sources = TemplateSources(
        env=env,
        read_file=lambda path: _read(setup, interpolate(path)),
        now_ns=setup.clock.now_ns(),
    )
    text = template.embedded_tmpl or _read(setup, interpolate(template.source_path))
    rendered = render(
        text, sources, template.left_delim, template.right_delim, template.err_missing_key
    )
    if template.envvars:
        setup.template_env |= parse_variables(rendered)
    if template.dest_path:
        root, relative = _inside(setup, interpolate(template.dest_path))
        write_inside(
            root, relative, rendered.encode(), _mode(template.perms), template.uid, template.gid
        )


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
    except (OSError, OrchgitError) as problem:
        raise InvalidInputError(f'cannot read "{path}": {problem}') from None
    if len(data) > _MAX_SOURCE_BYTES:
        raise InvalidInputError(f'cannot read "{path}": over {_MAX_SOURCE_BYTES} bytes')
    return data.decode("utf-8", "replace")


def parse_variables(text: str) -> dict[str, str]:
    """`NAME=value` lines; blank ones and comments are skipped, quotes around a value removed."""
    variables = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None:
            raise InvalidInputError(
                f"cannot read the template's variables: line {number} is not NAME=value"
            )
        variables[match[1]] = _unquoted(match[2])
    return variables


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1]
    if len(value) >= 2 and value[0] == value[-1] == '"':
        inner = value[1:-1]
        return inner.replace(r"\n", "\n").replace(r"\"", '"').replace("\\\\", "\\")
    return value.partition(" #")[0].rstrip()
