"""`orchgit job set-image PATH... IMAGE...`: other images in job files, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchgit.cli.client.http_client import ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.commands.fmt import Formatted, diff_lines, replace_file
from orchgit.cli.job_files.paths import SUFFIXES, found_files, said_with_path
from orchgit.cli.options import option
from orchgit.errors import InvalidInputError, JobFileError

if TYPE_CHECKING:
    from jobspec.writing.set_image import Edited, Setting

_SUFFIXES = (*SUFFIXES, ".nomad.json", ".hcl.json", ".vars", ".tfvars")


@cli_command("set-image")
@click.argument("arguments", nargs=-1, required=True, metavar="PATH... [TARGET=]IMAGE...")
@option("check", is_flag=True, help="Change nothing; exit 1 if a file would change.")
@option("diff", is_flag=True, help="Show what changes.")
def set_image(arguments: tuple[str, ...], check: bool, diff: bool) -> None:
    """Write other images into job files; every other byte stays.

    PATH is a file or a directory with those below it. IMAGE alone sets every image of the same
    repository. TARGET chooses: JOB/GROUP/TASK, or its last parts, with * for any name. An image
    that is computed is left alone, and the variable to set is named: var.NAME=VALUE sets its
    default, or its value in a var-file.

    \b
      orchgit job set-image jobs ghcr.io/acme/web:1.4.2
      orchgit job set-image web.nomad.hcl web/app/server=ghcr.io/acme/web:1.4.2
      orchgit job set-image jobs prod.vars.hcl var.web_tag=1.4.2

    Exit code 2 if a file has a mistake, an image is computed, or nothing fits.
    """
    paths, settings = _told_apart(arguments)
    failed = changed = False
    used: set[Setting] = set()
    for path in found_files(paths, recursive=True, suffixes=_SUFFIXES):
        edited, before = _edited(path, settings)
        if edited is None:
            failed = True
            continue
        used |= edited.used
        for problem in edited.problems:
            failed = True
            click.echo(_with_path(problem.pretty(), path), err=True)
        changed = _show(path, before, edited, check, diff) or changed
    for setting in settings:
        if setting not in used:
            failed = True
            click.echo(_nothing_fits(setting), err=True)
    raise SystemExit(2 if failed else int(check and changed))


def _told_apart(arguments: Sequence[str]) -> tuple[list[str], list[Setting]]:
    """Splits the arguments: up to the last existing path they are paths, then images."""
    # Reading HCL is what few commands do; the others do not pay for its import.
    from jobspec.writing.set_image import setting_of

    count = next((n for n, each in enumerate(arguments) if not os.path.exists(each)), None)
    if count == 0:
        raise ApiError(f"cannot find {arguments[0]}: there is no such file or directory")
    if count is None:
        raise ApiError("cannot set an image: name one after the paths, such as redis:7.2")
    try:
        return list(arguments[:count]), [setting_of(each) for each in arguments[count:]]
    except InvalidInputError as error:
        raise ApiError(str(error)) from error


def _edited(path: str, settings: Sequence[Setting]) -> tuple[Edited | None, bytes]:
    from jobspec.writing.set_image import set_images  # see above

    try:
        before = Path(path).read_bytes()
        return set_images(before, path, settings), before
    except OSError as error:
        raise ApiError(f"cannot read {path}: {error.strerror}") from error
    except JobFileError as error:
        for line in said_with_path(error, path):
            click.echo(line, err=True)
        return None, b""


def _show(path: str, before: bytes, edited: Edited, check: bool, diff: bool) -> bool:
    changed = edited.content != before
    if diff and changed:
        result = Formatted(path, before.decode(), edited.content.decode())
        click.echo("".join(diff_lines(result)), nl=False)
    else:
        for edit in edited.edits:
            old = f"{edit.old} -> " if edit.old != edit.new else "is "
            click.echo(f"{path}:{edit.line}: {edit.place}: {old}{edit.new}")
    if changed and not check:
        replace_file(Path(path), edited.content.decode())
    return changed


def _with_path(text: str, path: str) -> str:
    base = os.path.basename(path)
    return path + text.removeprefix(base) if text.startswith(f"{base}:") else text


def _nothing_fits(setting: Setting) -> str:
    from jobspec.writing.set_image import repository_of  # see above

    if setting.is_named:
        return f"cannot set {setting.target}: no file declares it with a value"
    if setting.target:
        return f"cannot set {setting.target}: no task with an image is called so"
    return (
        f"cannot set {setting.value}: no task has an image of {repository_of(setting.value)}; "
        "name the task to change with TASK=IMAGE"
    )
