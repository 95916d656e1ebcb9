"""`orchgit fmt PATH...`: one layout for job files."""

from __future__ import annotations

import difflib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from orchgit.cli.client.http_client import ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.job_files.many_files import for_each
from orchgit.cli.job_files.paths import found_files, said_with_path
from orchgit.cli.options import option
from orchgit.errors import JobFileError

STDIN = "-"


@dataclass(frozen=True)
class Formatted:
    """A file before and after; `after` is None where it is not HCL, and `problems` say why."""

    name: str
    before: str
    after: str | None
    problems: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        return self.after is not None and self.after != self.before


@cli_command("fmt")
@click.argument("paths", nargs=-1)
@option("check", is_flag=True, help="Change nothing; exit 1 if a file is not laid out so.")
@option("diff", is_flag=True, help="Show what changes.")
@option("recursive", is_flag=True, help="Go into directories below those named.")
@option(
    "write",
    is_flag=True,
    switchable=True,
    default=True,
    help="Write the files; -write=false prints them instead.",
)
@option("list", dest="names", is_flag=True, switchable=True, default=True, help="Name the files.")
def fmt(
    paths: tuple[str, ...], check: bool, diff: bool, recursive: bool, write: bool, names: bool
) -> None:
    """Format job files as HCL's own formatter does: indents, spaces, aligned `=`.

    Names the files it changed. A file with a mistake is reported and left alone. Without a path it
    looks at this directory; `-` reads standard input and prints the result.
    """
    broken = changed = False
    for result in for_each(_format, found_files(paths or (".",), recursive)):
        broken = broken or result.after is None
        changed = changed or result.changed
        for problem in result.problems:
            click.echo(problem, err=True)
        _show(result, check, diff, write, names)
    raise SystemExit(2 if broken else int(check and changed))


def _format(path: str) -> Formatted:
    # Reading HCL is what few commands do; the others do not pay for its import.
    from jobspec.errors import Diagnostics, SourceText
    from jobspec.hcl.format import format_text
    from jobspec.parse import MAX_FILE_BYTES

    name = "<stdin>" if path == STDIN else path
    try:
        content = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        if len(content) > MAX_FILE_BYTES:
            return Formatted(name, "", None, (f"{name}:1:1: longer than {MAX_FILE_BYTES} bytes",))
        text = content.decode()
    except UnicodeDecodeError:
        return Formatted(name, "", None, (f"{name}:1:1: job files must be UTF-8",))
    except OSError as error:
        raise ApiError(f"cannot read {name}: {error.strerror}") from error
    source = SourceText(os.path.basename(name), text)
    diagnostics = Diagnostics(source)
    try:
        after = format_text(source, diagnostics)
        diagnostics.raise_if_any()
    except JobFileError as error:
        return Formatted(name, text, None, tuple(said_with_path(error, name)))
    return Formatted(name, text, after)


def _show(result: Formatted, check: bool, diff: bool, write: bool, names: bool) -> None:
    if result.after is None:
        return
    # What is piped cannot be written back.
    from_stdin = result.name == "<stdin>" or not os.path.isfile(result.name)
    if diff and result.changed:
        click.echo("".join(diff_lines(result)), nl=False)
    if check:
        if result.changed and names and not diff:
            click.echo(result.name)
    elif from_stdin or not write:
        if not diff:
            click.echo(result.after, nl=False)
    elif result.changed:
        replace_file(Path(result.name), result.after)
        if names and not diff:
            click.echo(result.name)


def diff_lines(result: Formatted) -> list[str]:
    """Returns a unified diff of a file that changed."""
    assert result.after is not None
    lines = difflib.unified_diff(
        result.before.splitlines(keepends=True),
        result.after.splitlines(keepends=True),
        f"old/{result.name}",
        f"new/{result.name}",
    )
    return [line if line.endswith("\n") else f"{line}\n" for line in lines]


def replace_file(path: Path, text: str) -> None:
    """Writes the whole file or nothing; a link stays a link, and the mode stays."""
    target = path.resolve()
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        new.write_bytes(text.encode())
        new.chmod(target.stat().st_mode & 0o7777)
        new.replace(target)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise ApiError(f"cannot write {path}: {error.strerror}") from error
